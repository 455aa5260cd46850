/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's relays: see port.h. requests_port.c answers their requests.
 *
 * Happy path: dial every relay, forever. Failures: an unreachable relay is tried again. Ownership:
 * dialers, streams and alarms, each until its last callback; freed after the last of them. Limits:
 * PFL_AGENT_MAX_RELAYS.
 */
#include "agent/daemon/port.h"

#include <stdio.h>
#include <string.h>

#include "agent/daemon/facts_port.h"
#include "agent/daemon/port_impl.h"
#include "agent/daemon/stream/stream_port.h"
#include "base/log.h"
#include "base/mem.h"
#include "proto/tunnel/tunnel.h"

#define HANDSHAKE_TIMEOUT_MS 10000u
#define SPOOL_THREADS        4u /* a slow file does not delay all */

static const char *const alpn[] = {PFL_TUNNEL_ALPN_AGENT, NULL};

/* ---- the end ---- */

void pfl_agent_close(struct pfl_agent *self)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    if (self->is_closing)
        return;
    self->is_closing = true;
    pfl_agent_close_alarms(self);
    pfl_agent_close_triggers(self);
    pfl_agent_close_collect(self);
    PFL_LIST_EACH_SAFE (it, tmp, &self->streams)
        pfl_agent_stream_leave(pfl_agent_stream_of_node(it));
    for (size_t i = 0; i < self->conf.relays_len; i++) {
        if (self->uplinks[i].dialer != NULL)
            pfl_dialer_close(self->uplinks[i].dialer);
    }
    pfl_agent_finish(self);
}

/* ---- uplinks ---- */

static void on_up(void *user, struct pfl_h2 *h2)
{
    struct pfl_agent_uplink *u = user;

    (void)h2;
    pfl_log_info("relay-connected", "address=%s relay=%s tls=%s", pfl_log_quote_str(u->address),
                 pfl_dialer_get_relay(u->dialer), pfl_dialer_get_tls_version(u->dialer));
}

static void on_down(void *user, const char *why, uint64_t retry_ms)
{
    struct pfl_agent_uplink *u = user;

    if (pfl_log_limit_take(&u->log, "relay-lost", uv_now(u->agent->conf.loop)))
        pfl_log_warn("relay-lost", "address=%s reason=%s retry_ms=%llu",
                     pfl_log_quote_str(u->address), pfl_log_quote_reason(why),
                     (unsigned long long)retry_ms);
}

static void on_dialer_closed(void *user)
{
    struct pfl_agent_uplink *u = user;

    u->dialer = NULL;
    u->agent->dialers--;
    pfl_agent_finish(u->agent);
}

static void open_uplink(struct pfl_agent *a, struct pfl_agent_uplink *u, const char *address)
{
    struct pfl_dialer_conf conf = {
        .loop = a->conf.loop,
        .address = address,
        .tls = a->tls,
        .fleet = a->fleet,
        .alpn = PFL_TUNNEL_ALPN_AGENT,
        .is_answering = true,
        .window_bytes = PFL_TUNNEL_CONTROL_WINDOW_BYTES,
        .on_request = pfl_agent_on_request,
        .handshake_timeout_ms = HANDSHAKE_TIMEOUT_MS,
        .retry_max_ms = a->conf.retry_max_ms,
        .quiet_ms = a->conf.silence_ms / PFL_TUNNEL_SILENCE_FACTOR,
        .on_up = on_up,
        .on_down = on_down,
        .on_closed = on_dialer_closed,
        .user = u,
    };
    int rc;

    u->agent = a;
    (void)snprintf(u->address, sizeof(u->address), "%s", address);
    rc = pfl_dialer_open(&conf, &u->dialer);
    if (rc == 0)
        a->dialers++;
    else
        pfl_log_error("relay-not-dialled", "address=%s reason=\"%s\"", pfl_log_quote_str(address),
                      pfl_err_str(rc));
}

/* ---- opening ---- */

static int load_tls(struct pfl_agent *a, struct pfl_tls_conf **ret_tls)
{
    char why[320];
    int rc;

    a->conf.files.alpn = alpn;
    a->conf.files.is_server = false;
    rc = pfl_tls_conf_new(&a->conf.files, why, sizeof(why), ret_tls);
    if (rc != 0)
        pfl_log_error("certificates-unusable", "reason=%s", pfl_log_quote_reason(why));
    return rc;
}

static int learn_name(struct pfl_agent *a)
{
    const char *uri = pfl_tls_conf_get_identity(a->tls)->uri;
    struct pfl_identity id;

    if (pfl_identity_parse(uri, &id) != 0 || id.role != PFL_IDENTITY_HOST) {
        pfl_log_error("not-a-host",
                      "uri=%s reason=\"the certificate's name is not perfleet://FLEET/host/NAME\" "
                      "remedy=\"issue one: perfleet pki host DIR NAME\"",
                      pfl_log_quote_str(uri));
        return PFL_EINVAL;
    }
    memcpy(a->fleet, id.fleet, sizeof(a->fleet));
    memcpy(a->name, id.name, sizeof(a->name));
    return 0;
}

static int prepare(struct pfl_agent *a)
{
    struct pfl_hello_facts facts;
    int rc = load_tls(a, &a->tls);

    if (rc == 0)
        rc = learn_name(a);
    if (rc != 0)
        return rc;
    pfl_facts_gather(&facts);
    (void)snprintf(a->boot_id, sizeof(a->boot_id), "%s", facts.boot_id);
    return pfl_hello_encode(&facts, a->conf.labels, a->conf.labels_len, &a->hello);
}

static int open_workers(struct pfl_agent *a)
{
    struct pfl_worker_conf conf = {.loop = a->conf.loop, .threads_max = 1};
    int rc = pfl_worker_open(&conf, &a->worker);

    if (rc == 0 && a->conf.segments_dir != NULL)
        rc = pfl_worker_open(&conf, &a->segments_worker);
    conf.threads_max = SPOOL_THREADS;
    return rc == 0 ? pfl_worker_open(&conf, &a->pool.worker) : rc;
}

int pfl_agent_open(const struct pfl_agent_conf *conf, struct pfl_agent **ret_agent)
{
    struct pfl_agent *a = pfl_mem_zalloc(sizeof(*a));
    int rc;

    if (a == NULL)
        return PFL_ENOMEM;
    a->conf = *conf;
    a->pool = conf->pool;
    pfl_list_init(&a->streams);
    pfl_list_init(&a->alarms);
    pfl_list_init(&a->raises);
    a->raise_rates.per_s = PFL_AGENT_RAISE_PER_S;
    a->raise_rates.burst = PFL_AGENT_RAISE_AT_ONCE;
    a->list_rates.per_s = PFL_AGENT_LISTS_PER_S;
    a->list_rates.burst = PFL_AGENT_LISTS_AT_ONCE;
    pfl_events_init(&a->events);
    pfl_spool_streams_init(&a->spools);
    rc = prepare(a);
    if (rc == 0)
        rc = open_workers(a);
    if (rc == 0)
        rc = pfl_agent_open_alarms(a);
    if (rc != 0) {
        pfl_worker_close(a->pool.worker);
        pfl_worker_close(a->segments_worker);
        pfl_worker_close(a->worker);
        pfl_mem_free(a->hello);
        pfl_tls_conf_unref(a->tls);
        pfl_mem_free(a);
        return rc;
    }
    *ret_agent = a;
    if (conf->stored != NULL)
        pfl_agent_take_streams_back(a, conf->stored);
    a->conf.stored = NULL;
    for (size_t i = 0; i < conf->relays_len; i++)
        open_uplink(a, &a->uplinks[i], conf->relays[i]);
    pfl_log_info("dialling", "host=%s fleet=%s relays=%zu consumer_socket=%s", a->name, a->fleet,
                 conf->relays_len, pfl_log_quote_str(conf->consumer_socket));
    return 0;
}

void pfl_agent_reload(struct pfl_agent *self)
{
    struct pfl_tls_conf *fresh = NULL;

    if (load_tls(self, &fresh) != 0) {
        pfl_log_error("reload-failed", "the old certificates stay in use");
        return;
    }
    pfl_tls_conf_unref(self->tls);
    self->tls = fresh;
    for (size_t i = 0; i < self->conf.relays_len; i++) {
        if (self->uplinks[i].dialer != NULL)
            pfl_dialer_set_tls(self->uplinks[i].dialer, fresh);
    }
    pfl_log_info("reloaded", "certificate=%s",
                 pfl_log_quote_str(pfl_tls_conf_get_identity(fresh)->uri));
}
