/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The relay's middle between two hostile peers: the operator's bytes go into an answering session,
 * whose CONNECTs are spliced to an agent's asking session, which gets the rest of the input.
 * Whatever they say, both rings stay within their windows, and every end is reported once. Layout:
 * piece size, length of the operator's part (2 bytes), its bytes, the agent's bytes.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "proto/h2/problem.h"
#include "proto/tunnel/route.h"
#include "relay/hub/stream_splice.h"

#define SCRATCH_BYTES (4u * PFL_H2_DRAIN_BYTES)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct pfl_h2 *operator_h2;
static struct pfl_h2 *agent_h2;
static unsigned begun;
static unsigned ended;

static void on_ended(void *user, const struct pfl_stream_splice_stats *stats)
{
    (void)user;
    (void)stats;
    ended++;
}

static void refuse(struct pfl_h2_stream *h2_stream, unsigned status)
{
    struct pfl_problem problem = {status, "relay", "no", "a \"detail\"\n"};

    pfl_problem_respond(h2_stream, &problem);
}

static void on_request(void *user, struct pfl_h2_stream *h2_stream, const struct pfl_h2_head *head)
{
    static const struct pfl_stream_splice_place spool = {
        .path = PFL_TUNNEL_SPOOL_PATH,
        .protocol = PFL_TUNNEL_PROTOCOL_SPOOL,
        .fields = {{PFL_TUNNEL_H_COLLECTOR, "eve"}},
        .fields_len = 1};
    struct pfl_route route;
    struct pfl_stream_splice *splice;
    struct pfl_stream_splice_conf conf = {
        .h2_stream = h2_stream,
        .head = head,
        .agent = agent_h2,
        .operator_name = "eve",
        .host_window_bytes = PFL_TUNNEL_DATA_WINDOW_BYTES,
        .operator_window_bytes = PFL_TUNNEL_CONTROL_WINDOW_BYTES,
        .on_ended = on_ended,
    };

    (void)user;
    pfl_route_parse(head, PFL_ROUTE_AT_RELAY, &route);
    conf.offer = route.has_offer ? &route.offer : NULL;
    if (route.kind == PFL_ROUTE_SPOOL) {
        conf.place = &spool;
        conf.offer = NULL;
    }
    if ((route.kind == PFL_ROUTE_CONSUMER || route.kind == PFL_ROUTE_SPOOL) &&
        pfl_stream_splice_new(&conf, &splice) == 0)
        begun++;
    else
        refuse(h2_stream, route.kind == PFL_ROUTE_NONE ? 404 : 400);
}

static void drain(struct pfl_h2 *h2)
{
    static uint8_t scratch[SCRATCH_BYTES];
    size_t len;

    do {
        struct pfl_writer out = pfl_writer_of(scratch, sizeof(scratch));

        if (pfl_h2_drain(h2, &out) != 0)
            return;
        len = sizeof(scratch) - out.left;
    } while (len != 0);
}

/* Takes a piece off the front of `bytes`. False: no more, or the connection is broken. */
static bool feed_some(struct pfl_h2 *h2, struct pfl_span *bytes, size_t piece)
{
    size_t len = piece < bytes->len ? piece : bytes->len;
    int rc = len != 0 ? pfl_h2_feed(h2, pfl_span_of(bytes->data, len)) : PFL_EEOF;

    drain(h2);
    *bytes = pfl_span_of(bytes->data + len, bytes->len - len);
    return rc == 0 && !pfl_h2_is_over(h2);
}

static void run(struct pfl_span from_operator, struct pfl_span from_agent, size_t piece)
{
    bool is_operator_up = true;
    bool is_agent_up = true;

    while (is_operator_up || is_agent_up) {
        is_operator_up = is_operator_up && feed_some(operator_h2, &from_operator, piece);
        is_agent_up = is_agent_up && feed_some(agent_h2, &from_agent, piece);
    }
    drain(operator_h2);
    drain(agent_h2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pfl_h2_conf conf = {.window_bytes = PFL_TUNNEL_DATA_WINDOW_BYTES};
    struct pfl_mem_stats before;
    struct pfl_mem_stats after;
    size_t len;

    if (size < 3)
        return 0;
    pfl_mem_stats_get(&before);
    begun = ended = 0;
    len = (size_t)data[1] << 8 | data[2];
    if (len > size - 3)
        len = size - 3;
    if (pfl_h2_new(&conf, &agent_h2) != 0)
        abort();
    conf.is_answering = true;
    conf.window_bytes = PFL_TUNNEL_CONTROL_WINDOW_BYTES;
    conf.on_request = on_request;
    if (pfl_h2_new(&conf, &operator_h2) != 0)
        abort();
    run(pfl_span_of(data + 3, len), pfl_span_of(data + 3 + len, size - 3 - len), data[0] + 1u);
    pfl_h2_free(operator_h2);
    drain(agent_h2);
    pfl_h2_free(agent_h2);
    pfl_mem_stats_get(&after);
    if (begun != ended || before.live_blocks != after.live_blocks)
        abort();
    return 0;
}
