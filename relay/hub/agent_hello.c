/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An agent's hello and clock: see agent_hello.h.
 *
 * Happy path: GET of the hello, whose labels may end or change streams to the host; and a burst of
 * CLOCK_ROUNDS clock exchanges, later CLOCK_AGAIN, of which the inventory keeps the best. Each
 * request has what the one before measured, if that was the best so far: the agent writes it into
 * its segments. Failures: answers that make
 * no sense are reported; without a hello the agent has no labels, events or triggers. Ownership:
 * nothing. Limits: bodies of PFL_HOST_INVENTORY_HELLO_BYTES and CLOCK_BODY_BYTES.
 */
#include "relay/hub/agent_hello.h"

#include <string.h>

#include "proto/h2/h2_call.h"
#include "relay/hub/audit_context.h"

#define CLOCK_ROUNDS     5u
#define CLOCK_AGAIN      3u
#define CLOCK_BODY_BYTES 256u

static void report(const struct pfl_agent_hello *self, enum pfl_hub_event event, unsigned status)
{
    struct pfl_audit_context context;

    pfl_audit_context_set_agent(&context, self->agent);
    pfl_audit_context_report(&context, event, status, NULL);
}

/* ---- the clock ---- */

static int64_t get_boot_ns(const struct pfl_agent_hello *self)
{
    const struct pfl_hub_shell *shell = self->agent->table->shell;

    return shell->get_boot_ns(shell->user);
}

static void ask_clock(struct pfl_agent_hello *self);

static void keep_best(struct pfl_agent_hello *self)
{
    const struct pfl_peer_table *peers = self->agent->table;
    const struct pfl_host_exchange *e = &self->agent->host->exchange;

    if (e->error_ns >= self->report_error_ns || !pfl_clock_report_is_boot_id(peers->boot_id))
        return;
    self->report_error_ns = e->error_ns;
    self->has_report = true;
    self->report = (struct pfl_clock_report){
        .offset_ns = e->offset_ns,
        .error_ns = (uint64_t)e->error_ns,
        .host_boot_ns = (uint64_t)e->host_ns,
        .relay_unix_ns = (uint64_t)peers->shell->get_unix_ns(peers->shell->user),
    };
    memcpy(self->report.relay, peers->relay, sizeof(self->report.relay));
    memcpy(self->report.relay_boot_id, peers->boot_id, sizeof(self->report.relay_boot_id));
}

static void take_clock(struct pfl_agent_hello *self, unsigned status, struct pfl_span body,
                       int64_t now_ns)
{
    if (pfl_host_inventory_take_clock(self->agent->host, body, self->asked_ns, now_ns) == 0)
        keep_best(self);
    else
        report(self, PFL_HUB_CLOCK_UNUSABLE, status);
}

static void on_clock(void *user, int err, unsigned status, struct pfl_span body)
{
    struct pfl_agent_hello *self = user;
    int64_t now_ns;

    if (err == PFL_ECLOSED)
        return; /* the peer may be going */
    now_ns = get_boot_ns(self);
    if (err == 0 && status == 200 && self->agent->host != NULL)
        take_clock(self, status, body, now_ns);
    if (++self->rounds < self->rounds_max)
        ask_clock(self);
}

static void ask_clock(struct pfl_agent_hello *self)
{
    char text[PFL_CLOCK_REPORT_TEXT_BYTES];
    const struct pfl_h2_field field = {PFL_TUNNEL_H_CLOCK, text};
    struct pfl_h2_call_conf call = {.method = "GET",
                                    .path = PFL_TUNNEL_CLOCK_PATH,
                                    .fields = &field,
                                    .fields_len = self->has_report,
                                    .body_max_bytes = CLOCK_BODY_BYTES,
                                    .on_done = on_clock,
                                    .user = self};
    /* None while a connection that broke is being closed. */
    struct pfl_h2 *h2 = pfl_peer_table_get_h2(self->agent);

    if (self->has_report)
        pfl_clock_report_write(&self->report, text);
    self->asked_ns = get_boot_ns(self);
    if (h2 == NULL || pfl_h2_call_start(h2, &call, NULL) != 0)
        return; /* the next minute asks again */
    self->has_report = false;
}

static void start_clock(struct pfl_agent_hello *self, unsigned rounds)
{
    self->rounds = 0;
    self->rounds_max = rounds;
    self->report_error_ns = INT64_MAX;
    ask_clock(self);
}

/* ---- the hello ---- */

static void on_hello(void *user, int err, unsigned status, struct pfl_span body)
{
    struct pfl_agent_hello *self = user;
    struct pfl_hub_peer *agent = self->agent;

    if (err == PFL_ECLOSED)
        return;
    if (err != 0 || status != 200 || agent->host == NULL ||
        pfl_host_inventory_take_hello(agent->host, body) != 0) {
        report(self, PFL_HUB_HELLO_UNUSABLE, status);
        return;
    }
    agent->state = PFL_HUB_PEER_INTRODUCED;
    pfl_host_inventory_touch(&agent->table->inventory, agent->host);
    pfl_stream_table_review(self->streams, agent->host->name);
    pfl_agent_events_start(agent, self->triggers);
}

static void ask_hello(struct pfl_agent_hello *self)
{
    struct pfl_h2_call_conf call = {.method = "GET",
                                    .path = PFL_TUNNEL_HELLO_PATH,
                                    .body_max_bytes = PFL_HOST_INVENTORY_HELLO_BYTES,
                                    .on_done = on_hello,
                                    .user = self};
    struct pfl_h2 *h2 = pfl_peer_table_get_h2(self->agent);

    if (h2 == NULL || pfl_h2_call_start(h2, &call, NULL) != 0)
        report(self, PFL_HUB_HELLO_NOT_ASKED, 0);
}

void pfl_agent_hello_start(struct pfl_agent_hello *self)
{
    ask_hello(self);
    start_clock(self, CLOCK_ROUNDS);
}

void pfl_agent_hello_repeat(struct pfl_agent_hello *self)
{
    start_clock(self, CLOCK_AGAIN);
    pfl_agent_events_start(self->agent, self->triggers);
}
