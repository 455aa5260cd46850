/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An agent's hello and clock: see agent_hello.h.
 *
 * Happy path: GET of the hello, whose labels may end or change streams to the host; and a burst of
 * CLOCK_ROUNDS clock exchanges, each minute CLOCK_AGAIN, and CLOCK_ROUNDS when the agent asks for
 * them, of which the inventory keeps the best. Each exchange bounds the offset; the last request of
 * a burst has what all before it allow: the agent writes it into its segments. Failures: answers
 * that make no sense are reported; without a hello the agent has no labels, events or triggers.
 * Ownership: nothing. Limits: bodies of PFL_HOST_INVENTORY_HELLO_BYTES and CLOCK_BODY_BYTES; a
 * burst in CLOCK_PAUSE_NS that the agent asked for.
 */
#include "relay/hub/agent_hello.h"

#include <string.h>

#include "proto/h2/h2_call.h"
#include "relay/hub/audit_context.h"

#define CLOCK_ROUNDS      8u
#define CLOCK_AGAIN       3u
#define CLOCK_PAUSE_NS    INT64_C(1000000000)
#define CLOCK_DRIFT_SHARE 10000 /* 100 millionths: by so much two clocks part in a burst */
#define CLOCK_BODY_BYTES  256u

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

/* Bounds that exclude each other: one of the clocks was set; the newer ones count. */
static void take_bounds(struct pfl_agent_hello *self)
{
    const struct pfl_host_exchange *e = &self->agent->host->exchange;
    int64_t low_ns = e->offset_ns - e->error_ns;
    int64_t high_ns = e->offset_ns + e->error_ns;
    bool do_meet = self->has_bounds && low_ns <= self->high_ns && high_ns >= self->low_ns;

    self->low_ns = do_meet && self->low_ns > low_ns ? self->low_ns : low_ns;
    self->high_ns = do_meet && self->high_ns < high_ns ? self->high_ns : high_ns;
    self->host_ns = e->host_ns;
    self->has_bounds = true;
}

static struct pfl_clock_report report_of(const struct pfl_agent_hello *self)
{
    const struct pfl_peer_table *peers = self->agent->table;
    int64_t middle_ns = self->low_ns + (self->high_ns - self->low_ns) / 2;
    int64_t drift_ns = (get_boot_ns(self) - self->begun_ns) / CLOCK_DRIFT_SHARE;
    struct pfl_clock_report r = {
        .offset_ns = middle_ns,
        .error_ns = (uint64_t)(self->high_ns - middle_ns + drift_ns),
        .host_boot_ns = (uint64_t)self->host_ns,
        .relay_unix_ns = (uint64_t)peers->shell->get_unix_ns(peers->shell->user),
    };

    memcpy(r.relay, peers->relay, sizeof(r.relay));
    memcpy(r.relay_boot_id, peers->boot_id, sizeof(r.relay_boot_id));
    return r;
}

static void take_clock(struct pfl_agent_hello *self, unsigned status, struct pfl_span body,
                       int64_t now_ns)
{
    if (pfl_host_inventory_take_clock(self->agent->host, body, self->asked_ns, now_ns) == 0)
        take_bounds(self);
    else
        report(self, PFL_HUB_CLOCK_UNUSABLE, status);
}

static void on_clock(void *user, int err, unsigned status, struct pfl_span body)
{
    struct pfl_agent_hello *self = user;
    int64_t now_ns;

    if (err == PFL_ECLOSED)
        return; /* the peer may be going */
    self->is_asking = false;
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
    bool has_report = self->has_bounds && self->rounds + 1 == self->rounds_max &&
                      pfl_clock_report_is_boot_id(self->agent->table->boot_id);
    struct pfl_clock_report measured;
    struct pfl_h2_call_conf call = {.method = "GET",
                                    .path = PFL_TUNNEL_CLOCK_PATH,
                                    .fields = &field,
                                    .fields_len = has_report,
                                    .body_max_bytes = CLOCK_BODY_BYTES,
                                    .on_done = on_clock,
                                    .user = self};
    /* None while a connection that broke is being closed. */
    struct pfl_h2 *h2 = pfl_peer_table_get_h2(self->agent);

    if (has_report) {
        measured = report_of(self);
        pfl_clock_report_write(&measured, text);
    }
    self->asked_ns = get_boot_ns(self);
    /* If it cannot be asked, the next minute asks again. */
    self->is_asking = h2 != NULL && pfl_h2_call_start(h2, &call, NULL) == 0;
}

static void start_clock(struct pfl_agent_hello *self, unsigned rounds)
{
    self->rounds = 0;
    self->rounds_max = rounds;
    self->has_bounds = false;
    self->begun_ns = get_boot_ns(self);
    ask_clock(self);
}

/* The agent asks for it. */
static void on_clock_wanted(void *user)
{
    struct pfl_agent_hello *self = user;

    if (!self->is_asking && get_boot_ns(self) - self->begun_ns >= CLOCK_PAUSE_NS)
        start_clock(self, CLOCK_ROUNDS);
}

static void listen_to_events(struct pfl_agent_hello *self)
{
    const struct pfl_agent_events_conf conf = {
        .triggers = self->triggers, .on_clock_wanted = on_clock_wanted, .user = self};

    pfl_agent_events_start(self->agent, &conf);
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
    listen_to_events(self);
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
    if (!self->is_asking)
        start_clock(self, CLOCK_AGAIN);
    listen_to_events(self);
}
