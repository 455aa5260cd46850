/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a host's service: see host_state.h.
 *
 * Happy path: one request, replies that are concatenated, the owner's callback after the last one.
 * Failures: an invalid reply ends the host's connection, like any violation of the protocol; an
 * answer that is too long fails the host. Ownership: the answer is the host's. Limits: the
 * fan-out's.
 */
#include "consumer/host/host_state.h"

#include "consumer/host/session_find.h"
#include "perfetto/consumer_port.fields.h"

struct pfl_span pfl_host_state_encode(enum pfl_host_state_scope scope)
{
    static const uint8_t sessions_only[] = {QUERY_SERVICE_STATE_REQUEST__SESSIONS_ONLY << 3, 1};
    static uint8_t figures[8];
    struct pfl_writer w = pfl_writer_of(figures, sizeof(figures));

    switch (scope) {
    case PFL_HOST_STATE_SESSIONS:
        return pfl_span_of(sessions_only, sizeof(sessions_only));
    case PFL_HOST_STATE_FIGURES:
        pfl_writer_field_varint(&w, QUERY_SERVICE_STATE_REQUEST__PERFLEET_FIGURES, 1);
        return pfl_span_of(figures, sizeof(figures) - w.left);
    default:
        return pfl_span_of(NULL, 0);
    }
}

static int on_reply(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_fan_out_host *h = user;

    if (!reply->success)
        return PFL_EPROTO;
    if (pfl_fan_out_add(h, reply->body, pfl_session_take_state) && !reply->has_more)
        h->on_state(h);
    return 0;
}

void pfl_host_state_query(struct pfl_fan_out_host *host, enum pfl_host_state_scope scope,
                          void (*on_state)(struct pfl_fan_out_host *host))
{
    host->on_state = on_state;
    pfl_fan_out_request(host, "QueryServiceState", pfl_host_state_encode(scope), on_reply);
}

void pfl_host_state_on_ready(void *user, struct pfl_fan_out_host *host)
{
    (void)user;
    pfl_host_state_query(host, PFL_HOST_STATE_ALL, pfl_fan_out_done);
}

void pfl_host_state_on_ready_for_figures(void *user, struct pfl_fan_out_host *host)
{
    (void)user;
    pfl_host_state_query(host, PFL_HOST_STATE_FIGURES, pfl_fan_out_done);
}

struct pfl_host_state pfl_host_state_get(const struct pfl_fan_out *fan_out, size_t host)
{
    const struct pfl_fan_out_host *h = pfl_fan_out_get_host(fan_out, host);

    return (struct pfl_host_state){
        .name = h->name, .address = h->spec->text, .why = h->why, .state = pfl_buf_get(&h->answer)};
}
