/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The port of all hosts: see fleet_port.h.
 *
 * Happy path: each adopted socket becomes a client (fleet_client.c). One round of connections at a
 * time queries the hosts' state, and every client that requests it meanwhile gets that answer.
 * Failures: a host that does not answer is named in the state; without memory the clients that wait
 * for it end. Ownership: the clients, the round, the worker. Limits: as many clients as the owner
 * adopts, PFL_FLEET_MAX_RECORDINGS, STATE_TIMEOUT_MS a round.
 */
#include "consumer/ui/fleet_port.h"

#include "base/io/fdsock.h"
#include "base/mem.h"
#include "consumer/host/host_state.h"
#include "consumer/ui/fleet_impl.h"
#include "consumer/ui/fleet_state.h"

#define STATE_TIMEOUT_MS 5000u /* a page waits for it */

void pfl_fleet_check_closed(struct pfl_fleet *fleet)
{
    void (*on_closed)(void *user) = fleet->conf.on_closed;
    void *user = fleet->conf.user;

    if (!fleet->is_closing || fleet->fan_out != NULL || !pfl_list_is_empty(&fleet->clients))
        return;
    pfl_worker_close(fleet->worker);
    pfl_mem_free(fleet);
    on_closed(user);
}

/* ---- the hosts' state ---- */

static int join_states(const struct pfl_fleet *fleet, struct pfl_buf *out)
{
    size_t len = pfl_fan_out_get_len(fleet->fan_out);
    struct pfl_fleet_state_host *hosts = pfl_mem_calloc(len, sizeof(*hosts));
    int rc;

    if (hosts == NULL)
        return PFL_ENOMEM;
    for (size_t i = 0; i < len; i++) {
        struct pfl_host_state h = pfl_host_state_get(fleet->fan_out, i);

        hosts[i] = (struct pfl_fleet_state_host){
            .name = h.name[0] != '\0' ? h.name : h.address, .why = h.why, .state = h.state};
    }
    rc = pfl_fleet_state_join(hosts, len, fleet->conf.version, out);
    pfl_mem_free(hosts);
    return rc;
}

static void on_asked(void *user)
{
    struct pfl_fleet *fleet = user;
    struct pfl_buf state;
    struct pfl_list *it;
    struct pfl_list *tmp;
    int rc;

    pfl_buf_init(&state, PFL_FLEET_STATE_MAX_BYTES);
    rc = join_states(fleet, &state);
    pfl_fan_out_free(fleet->fan_out);
    fleet->fan_out = NULL;
    PFL_LIST_EACH_SAFE (it, tmp, &fleet->clients) {
        struct pfl_fleet_client *c = PFL_CONTAINER_OF(it, struct pfl_fleet_client, node);

        if (c->state_requests_len != 0 && rc == 0)
            pfl_fleet_client_give_state(c, pfl_buf_get(&state));
        else if (c->state_requests_len != 0)
            pfl_fleet_client_close(c);
    }
    pfl_buf_fini(&state);
    pfl_fleet_check_closed(fleet);
}

int pfl_fleet_ask_state(struct pfl_fleet *fleet)
{
    const struct pfl_recording_conf *recording = &fleet->conf.recording;
    struct pfl_fan_out_conf conf = {
        .conn = recording->each_host.conn,
        .specs = recording->specs,
        .specs_len = recording->specs_len,
        .timeout_ms = recording->each_host.step_timeout_ms < STATE_TIMEOUT_MS
                          ? recording->each_host.step_timeout_ms
                          : STATE_TIMEOUT_MS,
        .on_ready = pfl_host_state_on_ready,
        .on_over = on_asked,
        .user = fleet,
    };

    return fleet->fan_out != NULL ? 0 : pfl_fan_out_open(&conf, &fleet->fan_out);
}

/* ---- from outside ---- */

int pfl_fleet_open(const struct pfl_fleet_conf *conf, struct pfl_fleet **ret_fleet)
{
    const struct pfl_worker_conf worker = {.loop = conf->recording.each_host.conn.loop,
                                           .threads_max = PFL_FLEET_MAX_RECORDINGS};
    struct pfl_fleet *fleet = pfl_mem_zalloc(sizeof(*fleet));
    int rc;

    if (fleet == NULL)
        return PFL_ENOMEM;
    fleet->conf = *conf;
    pfl_list_init(&fleet->clients);
    rc = pfl_worker_open(&worker, &fleet->worker);
    if (rc != 0) {
        pfl_mem_free(fleet);
        return rc;
    }
    *ret_fleet = fleet;
    return 0;
}

void pfl_fleet_adopt(struct pfl_fleet *self, int fd)
{
    if (self->is_closing)
        pfl_fdsock_drop(fd);
    else
        pfl_fleet_client_open(self, fd);
}

void pfl_fleet_close(struct pfl_fleet *self)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    if (self->is_closing)
        return;
    self->is_closing = true;
    if (self->fan_out != NULL)
        pfl_fan_out_abort(self->fan_out, "given up");
    PFL_LIST_EACH_SAFE (it, tmp, &self->clients)
        pfl_fleet_client_close(PFL_CONTAINER_OF(it, struct pfl_fleet_client, node));
    pfl_fleet_check_closed(self);
}
