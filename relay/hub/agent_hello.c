/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An agent's hello and clock: see agent_hello.h.
 *
 * Happy path: GET of the hello, whose labels may end or change streams to the host; and a burst of
 * CLOCK_ROUNDS clock exchanges, of which the inventory keeps the best. Failures: answers that make
 * no sense are reported; without a hello the agent has no labels, events or triggers. Ownership:
 * nothing. Limits: bodies of PFL_HOST_INVENTORY_HELLO_BYTES and CLOCK_BODY_BYTES.
 */
#include "relay/hub/agent_hello.h"

#include "proto/h2/h2_call.h"
#include "relay/hub/audit_context.h"

#define CLOCK_ROUNDS     5u
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

static void on_clock(void *user, int err, unsigned status, struct pfl_span body)
{
    struct pfl_agent_hello *self = user;
    int64_t now_ns;

    if (err == PFL_ECLOSED)
        return; /* the peer may be going */
    now_ns = get_boot_ns(self);
    if (err == 0 && status == 200 && self->agent->host != NULL &&
        pfl_host_inventory_take_clock(self->agent->host, body, self->asked_ns, now_ns) != 0)
        report(self, PFL_HUB_CLOCK_UNUSABLE, status);
    if (++self->rounds < CLOCK_ROUNDS)
        ask_clock(self);
}

static void ask_clock(struct pfl_agent_hello *self)
{
    struct pfl_h2_call_conf call = {.method = "GET",
                                    .path = PFL_TUNNEL_CLOCK_PATH,
                                    .body_max_bytes = CLOCK_BODY_BYTES,
                                    .on_done = on_clock,
                                    .user = self};
    /* None while a connection that broke is being closed. */
    struct pfl_h2 *h2 = pfl_peer_table_get_h2(self->agent);

    self->asked_ns = get_boot_ns(self);
    if (h2 == NULL || pfl_h2_call_start(h2, &call, NULL) != 0)
        return; /* the next minute asks again */
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
    self->rounds = 0;
    ask_clock(self);
}

void pfl_agent_hello_repeat(struct pfl_agent_hello *self)
{
    self->rounds = 0;
    ask_clock(self);
    pfl_agent_events_start(self->agent, self->triggers);
}
