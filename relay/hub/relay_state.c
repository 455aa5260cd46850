/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /v1/relay: see relay_state.h. Happy path: an operator for whom there is any rule gets the
 * figures, which metrics have, too. They are taken once a second at most, however often they are
 * asked for. Failures: 403 and a line of the audit log; 503 without memory. Owns nothing. Limits:
 * STATE_BYTES.
 */
#include "relay/hub/relay_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "relay/hub/collector_list.h"

#define STATE_BYTES 1536u

void pfl_relay_state_init(struct pfl_relay_state *self, const char *relay, const char *fleet,
                          uint64_t now_ms)
{
    *self = (struct pfl_relay_state){.relay = relay, .fleet = fleet, .begun_ms = now_ms};
}

static void take_figures(struct pfl_relay_state *self, const struct pfl_peer_table *peers)
{
    uint64_t now_ms = pfl_peer_table_get_now_ms(peers);
    struct pfl_list *it;

    if (self->taken_ms != 0 && now_ms - self->taken_ms < PFL_RELAY_STATE_FRESH_MS)
        return;
    self->taken_ms = now_ms;
    self->connected = 0;
    PFL_LIST_EACH (it, &peers->inventory.hosts)
        self->connected += PFL_CONTAINER_OF(it, struct pfl_host, node)->peer != NULL;
    peers->shell->get_figures(peers->shell->user, &self->figures);
}

/* Names are of the certificates' grammar: there is nothing to escape. */
static void write_state(const struct pfl_relay_state *s, const struct pfl_peer_table *peers,
                        char ret_text[STATE_BYTES])
{
    const struct pfl_relay_figures *f = &s->figures;
    const struct pfl_traffic *t = &f->traffic;

    (void)snprintf(
        ret_text, STATE_BYTES,
        "{\"relay\":\"%s\",\"fleet\":\"%s\",\"version\":\"" PFL_VERSION "\",\"up_ms\":%" PRIu64
        ",\"certificate_end_s\":%" PRId64 ",\"crl_end_s\":%" PRId64 ",\"cpu_ms\":%" PRIu64
        ",\"hosts_known\":%u,\"hosts_connected\":%u,\"collectors\":%u,\"streams\":%" PRIu64
        ",\"streams_begun\":%" PRIu64 ",\"streams_resumed\":%" PRIu64 ",\"streams_cut\":%" PRIu64
        ",\"bytes_to_host\":%" PRIu64 ",\"bytes_to_operator\":%" PRIu64 ",\"held_bytes\":%" PRIu64
        ",\"queued_bytes\":%" PRIu64 "}",
        s->relay, s->fleet, s->taken_ms - s->begun_ms, f->certificate_end_s, f->crl_end_s,
        f->cpu_ns / 1000000, peers->inventory.count, s->connected, peers->collectors_len, t->open,
        t->begun, t->resumed, t->cut, t->bytes_to_host, t->bytes_to_operator,
        t->held_to_host + t->held_to_operator, t->queued);
}

void pfl_relay_state_send(struct pfl_relay_state *self, struct pfl_forwarded_requests *answers,
                          const struct pfl_host_request *request)
{
    const struct pfl_peer_table *peers = request->peer->table;
    char text[STATE_BYTES];

    if (!pfl_collector_list_admit(request, "relay"))
        return;
    take_figures(self, peers);
    write_state(self, peers, text);
    pfl_forwarded_requests_respond(answers, request, "application/json",
                                   pfl_span_of(text, strlen(text)));
}
