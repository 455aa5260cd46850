/* SPDX-License-Identifier: Apache-2.0 */
/* An operator's stream through a relay to an agent whose process is replaced, and whose connections
 * are lost, at any moment: every byte arrives once, both ways. No socket; dice decide. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/io/loop.h"
#include "base/mem.h"
#include "proto/codec.h"
#include "proto/tunnel/route.h"
#include "relay/hub/stream_splice.h"
#include "tests/support/no_thread.h"
#include "tests/support/sweep.h"
#include "tunnel/client_stream_impl.h"

#define TO_OPERATOR (600u * 1024)
#define TO_SERVICE  (900u * 1024)
#define QUEUE_BYTES (64u * 1024)
#define OUT_BYTES   (4u << 20)
#define CHUNK_BYTES 20000u

static uint64_t dice;

static uint32_t roll(uint32_t sides)
{
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(dice >> 33) % sides;
}

/* Something of it compresses. */
static uint8_t byte_at(unsigned direction, uint64_t offset)
{
    return (uint8_t)((offset * 2654435761u >> (offset / 8192 % 2 == 0 ? 7 : 19)) + direction);
}

/* ---- the connections ---- */

enum { OPERATOR, FRONT, BACK, AGENT, ENDS }; /* FRONT and BACK are the relay's */

static struct pfl_h2 *h2s[ENDS];

/* In place of the client's: its connection is here. */
static struct pfl_tunnel_client client;

struct pfl_h2 *pfl_tunnel_way_get_h2(struct pfl_tunnel_way *self)
{
    (void)self;
    return h2s[OPERATOR];
}

struct pfl_tunnel_way *pfl_tunnel_client_take_way(struct pfl_tunnel_client *self)
{
    return &self->ways[0];
}

void pfl_tunnel_client_on_stream_gone(struct pfl_tunnel_way *way)
{
    (void)way;
}

static void on_ended(void *user, const struct pfl_stream_splice_stats *stats)
{
    (void)user;
    (void)stats;
}

static void on_operator_request(void *user, struct pfl_h2_stream *h2_stream,
                                const struct pfl_h2_head *head)
{
    struct pfl_route route;
    struct pfl_stream_splice_conf conf = {.h2_stream = h2_stream,
                                          .head = head,
                                          .agent = h2s[BACK],
                                          .operator_name = "me",
                                          .host_window_bytes = PFL_TUNNEL_DATA_WINDOW_BYTES,
                                          .operator_window_bytes = PFL_TUNNEL_CONTROL_WINDOW_BYTES,
                                          .on_ended = on_ended};
    struct pfl_stream_splice *splice;

    (void)user;
    pfl_route_parse(head, PFL_ROUTE_AT_RELAY, &route);
    conf.offer = route.has_offer ? &route.offer : NULL;
    if (strcmp(pfl_h2_head_get(head, ":method"), "CONNECT") == 0)
        (void)!pfl_stream_splice_new(&conf, &splice); /* else: 404 */
}

/* ---- the agent ---- */

static struct {
    struct pfl_resume resume;
    struct pfl_encoder *encoder; /* NULL: plain */
    struct pfl_h2_stream *h2_stream;
    bool wants_zstd;
    bool is_frame_open;
    bool has_received_end; /* of the operator; then the service ends, too */
    uint64_t written;      /* plain */
    uint64_t used;
    uint64_t most_reported; /* received, by any account of it so far */
    unsigned lessened;      /* accounts of less */
    unsigned accounts;
} agent;

static void on_agent_data(void *user, struct pfl_span data)
{
    (void)user;
    assert_int_equal(pfl_resume_feed(&agent.resume, data), 0);
}

static void on_agent_end(void *user)
{
    (void)user;
    pfl_resume_feed_end(&agent.resume);
}

static size_t on_agent_pull(void *user, uint8_t *dst, size_t room, bool *ret_is_end)
{
    (void)user;
    return pfl_resume_pull(&agent.resume, dst, room, ret_is_end);
}

static void on_agent_credit(void *user, uint32_t bytes)
{
    (void)user;
    assert_int_equal(pfl_resume_on_credit(&agent.resume, bytes), 0);
}

static void on_agent_closed(void *user, uint32_t code)
{
    (void)user;
    (void)code;
    agent.h2_stream = NULL;
    pfl_resume_detach(&agent.resume);
}

static const struct pfl_h2_stream_ops agent_ops = {.on_data = on_agent_data,
                                                   .on_end = on_agent_end,
                                                   .on_pull = on_agent_pull,
                                                   .on_credit = on_agent_credit,
                                                   .on_closed = on_agent_closed};

static void on_agent_request(void *user, struct pfl_h2_stream *h2_stream,
                             const struct pfl_h2_head *head)
{
    static const struct pfl_resume_offer begins = {.window_bytes = PFL_TUNNEL_DATA_WINDOW_BYTES};
    struct pfl_resume_offer offer = begins;
    struct pfl_h2_field fields[PFL_TUNNEL_OFFER_FIELDS + 1];
    struct pfl_tunnel_offer_text text;
    struct pfl_resume_offer sent_offer;

    (void)user;
    (void)pfl_tunnel_offer_read(head, &offer);
    if (agent.h2_stream != NULL) {
        pfl_h2_stream_set_user(agent.h2_stream, NULL, NULL);
        pfl_h2_stream_reset(agent.h2_stream, PFL_H2_DETACH);
    }
    pfl_resume_get_offer(&agent.resume, &sent_offer);
    assert_int_equal(pfl_resume_attach(&agent.resume, &offer, &sent_offer), 0);
    agent.lessened += sent_offer.received < agent.most_reported;
    agent.most_reported =
        sent_offer.received > agent.most_reported ? sent_offer.received : agent.most_reported;
    agent.accounts++;
    agent.h2_stream = h2_stream;
    pfl_h2_stream_set_user(h2_stream, &agent_ops, NULL);
    pfl_tunnel_offer_write(&sent_offer, 5, &text, fields);
    fields[PFL_TUNNEL_OFFER_FIELDS] =
        (struct pfl_h2_field){PFL_TUNNEL_H_ENCODING, PFL_TUNNEL_ENCODING_ZSTD};
    assert_int_equal(
        pfl_h2_stream_respond(h2_stream, 200, fields, PFL_TUNNEL_OFFER_FIELDS + agent.wants_zstd),
        0);
}

static void write_encoded(struct pfl_span in)
{
    struct pfl_span out;
    bool is_done = false;

    if (agent.encoder == NULL)
        assert_int_equal(pfl_encoder_new(&agent.encoder), 0);
    while (!is_done) {
        assert_int_equal(pfl_encoder_next(agent.encoder, &in, false, &out, &is_done), 0);
        assert_int_equal(pfl_resume_write(&agent.resume, out), 0);
    }
    agent.is_frame_open = true;
}

static void end_of_service(void)
{
    agent.has_received_end |= agent.resume.is_in_ended && pfl_resume_held(&agent.resume) == 0;
    if (agent.written == TO_OPERATOR && agent.has_received_end)
        pfl_resume_end(&agent.resume);
}

static void write_of_service(void)
{
    static uint8_t data[CHUNK_BYTES];
    size_t len = roll(roll(4) == 0 ? CHUNK_BYTES : 200);

    if (len > TO_OPERATOR - agent.written)
        len = (size_t)(TO_OPERATOR - agent.written);
    for (size_t i = 0; i < len; i++)
        data[i] = byte_at(0, agent.written + i);
    if (agent.wants_zstd && len != 0)
        write_encoded(pfl_span_of(data, len));
    else if (len != 0)
        assert_int_equal(pfl_resume_write(&agent.resume, pfl_span_of(data, len)), 0);
    agent.written += len;
    end_of_service();
    if (agent.h2_stream != NULL)
        pfl_h2_stream_wake(agent.h2_stream);
}

static void use_for_service(void)
{
    struct pfl_span piece = pfl_resume_peek(&agent.resume, roll(30000));
    uint32_t credit;

    for (size_t i = 0; i < piece.len; i++)
        assert_int_equal(piece.data[i], byte_at(1, agent.used + i));
    agent.used += piece.len;
    pfl_resume_use(&agent.resume, piece.len);
    credit = agent.h2_stream != NULL ? pfl_resume_take_credit(&agent.resume) : 0;
    if (credit != 0)
        pfl_h2_stream_credit(agent.h2_stream, credit);
}

/* What continues is what was used up, credited and kept; and a frame of the one before is ended. */
static void replace_agent(void)
{
    struct pfl_resume *r = &agent.resume;
    const struct pfl_resume_kept kept = {.in_used = r->in.base,
                                         .out_base = r->out.base,
                                         .out_end = r->out.end,
                                         .out_data = r->out.data,
                                         .out_capacity = r->out.capacity};

    agent.most_reported = r->in.end > agent.most_reported ? r->in.end : agent.most_reported;
    pfl_encoder_free(agent.encoder);
    agent.encoder = NULL;
    pfl_replay_fini(&r->in);
    pfl_resume_init(r, OUT_BYTES, PFL_TUNNEL_CONTROL_WINDOW_BYTES);
    assert_int_equal(pfl_resume_restore(r, &kept), 0);
    if (agent.is_frame_open)
        assert_int_equal(pfl_resume_write(r, pfl_encoder_frame_end()), 0);
    agent.is_frame_open = false;
    end_of_service();
}

/* ---- the operator ---- */

static struct {
    uv_loop_t loop;
    struct pfl_stream *stream;
    uint64_t written;
    uint64_t got;
    bool has_ended;
    bool is_closed;
    bool takes_zeros; /* as many as come */
} operator;

static void on_data(void *user, struct pfl_span data)
{
    (void)user;
    for (size_t i = 0; i < data.len && !operator.takes_zeros; i++)
        assert_int_equal(data.data[i], byte_at(0, operator.got + i));
    if (operator.takes_zeros)
        assert_true(data.data[0] == 0 && memcmp(data.data, data.data + 1, data.len - 1) == 0);
    operator.got += data.len;
}

static void on_eof(void *user)
{
    (void)user;
    assert_int_equal(operator.got, TO_OPERATOR);
    operator.has_ended = true;
}

static void on_closed(void *user, int err)
{
    (void)user;
    if (err != 0)
        fail_msg("%s", pfl_tunnel_stream_get_error(operator.stream));
    operator.is_closed = true;
}

static const struct pfl_stream_ops operator_ops = {
    .on_data = on_data, .on_eof = on_eof, .on_closed = on_closed};

static void write_of_operator(void)
{
    static uint8_t data[CHUNK_BYTES];
    struct iovec iov = {.iov_base = data, .iov_len = roll(CHUNK_BYTES)};

    if (iov.iov_len > TO_SERVICE - operator.written)
        iov.iov_len = (size_t)(TO_SERVICE - operator.written);
    for (size_t i = 0; i < iov.iov_len; i++)
        data[i] = byte_at(1, operator.written + i);
    if (operator.written == TO_SERVICE || pfl_stream_writev(operator.stream, &iov, 1, -1) != 0)
        return;
    operator.written += iov.iov_len;
    if (operator.written == TO_SERVICE)
        pfl_stream_shutdown(operator.stream);
}

/* ---- what happens ---- */

/* Bytes on their way between the two are lost. */
static void cut(unsigned first)
{
    for (unsigned i = first; i < first + 2; i++) {
        pfl_h2_free(h2s[i]);
        h2s[i] = NULL;
    }
}

static void join(unsigned first)
{
    bool is_front = first == OPERATOR;
    struct pfl_h2_conf asking = {.window_bytes = PFL_TUNNEL_DATA_WINDOW_BYTES};
    struct pfl_h2_conf answering = {.is_answering = true,
                                    .window_bytes = PFL_TUNNEL_CONTROL_WINDOW_BYTES,
                                    .on_request =
                                        is_front ? on_operator_request : on_agent_request};

    assert_int_equal(pfl_h2_new(&asking, &h2s[first]), 0);
    assert_int_equal(pfl_h2_new(&answering, &h2s[first + 1]), 0);
}

static bool move(unsigned from, unsigned to)
{
    static uint8_t wire[1u << 16];
    struct pfl_writer out = pfl_writer_of(wire, PFL_H2_DRAIN_BYTES + roll(40000));

    assert_int_equal(pfl_h2_drain(h2s[from], &out), 0);
    assert_int_equal(pfl_h2_feed(h2s[to], pfl_span_of(wire, (size_t)(out.pos - wire))), 0);
    return out.pos != wire;
}

static void pump(void)
{
    bool has_moved = true;

    while (has_moved) {
        has_moved = false;
        (void)uv_run(&operator.loop, UV_RUN_NOWAIT);
        for (unsigned i = 0; i < ENDS; i++)
            has_moved |= move(i, i ^ 1);
    }
}

static void lose_something(void)
{
    unsigned first = roll(3) == 0 ? OPERATOR : BACK;
    bool dies = first == BACK && roll(2) == 0;

    cut(first);
    if (dies)
        replace_agent();
    join(first);
}

static void step(uint32_t loss_sides)
{
    unsigned from = roll(ENDS);

    switch (roll(6)) {
    case 0:
        write_of_service();
        break;
    case 1:
        use_for_service();
        break;
    case 2:
        write_of_operator();
        break;
    case 3:
        if (roll(3) == 0)
            pfl_stream_read_stop(operator.stream);
        else
            pfl_stream_read_start(operator.stream);
        (void)uv_run(&operator.loop, UV_RUN_NOWAIT);
        break;
    default:
        (void)move(from, from ^ 1);
        break;
    }
    if (roll(loss_sides) == 0)
        lose_something();
    /* It is notified that the connection is up, and need not wait for its timer. */
    pfl_client_connection_rider_ops.on_up(
        PFL_CONTAINER_OF(client.streams.next, struct pfl_tunnel_rider, node), &client.ways[0]);
}

static void begin(bool wants_zstd)
{
    const struct pfl_tunnel_target target = {.host = "a", .wants_zstd = wants_zstd};
    const struct pfl_stream_conf conf = {
        .loop = &operator.loop, .ops = &operator_ops, .queue_max_bytes = QUEUE_BYTES};

    memset(&agent, 0, sizeof(agent));
    memset(&operator, 0, sizeof(operator));
    memset(&client, 0, sizeof(client));
    agent.wants_zstd = wants_zstd;
    pfl_resume_init(&agent.resume, OUT_BYTES, PFL_TUNNEL_CONTROL_WINDOW_BYTES);
    assert_int_equal(pfl_loop_init(&operator.loop), 0);
    assert_int_equal(
        pfl_worker_open(&(struct pfl_worker_conf){.loop = &operator.loop, .threads_max = 1},
                        &client.worker),
        0);
    pfl_list_init(&client.streams);
    client.conf.give_up_ms = UINT64_MAX;
    join(OPERATOR);
    join(BACK);
    pump();
    assert_int_equal(pfl_tunnel_client_connect(&client, &target, &conf, &operator.stream), 0);
    pump();
    assert_int_equal(agent.accounts, 1);
}

static void finish(void)
{
    cut(OPERATOR);
    cut(BACK);
    pfl_resume_fini(&agent.resume);
    pfl_encoder_free(agent.encoder);
    pfl_worker_close(client.worker);
    (void)uv_run(&operator.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&operator.loop), 0);
    pfl_decode_pool_fini(&client.decode_pool);
    pfl_sweep_assert_no_leak();
}

static void close_operator(void)
{
    pfl_stream_close(operator.stream);
    while (!operator.is_closed)
        (void)uv_run(&operator.loop, UV_RUN_ONCE);
    finish();
}

/* The accounts of less that there were. */
static unsigned carry_all(bool wants_zstd, uint32_t loss_sides)
{
    unsigned steps = 0;

    begin(wants_zstd);
    while (!operator.has_ended) {
        /* In the end nothing is lost, or no last byte ever arrives. */
        step(steps++ < 20000 ? loss_sides : UINT32_MAX);
        assert_true(steps < 10000000);
    }
    assert_int_equal(operator.got, TO_OPERATOR);
    assert_int_equal(agent.used, TO_SERVICE);
    close_operator();
    return agent.lessened;
}

static void every_byte_arrives_once_while_agents_are_replaced(void **state)
{
    unsigned lessened = 0;

    (void)state;
    for (unsigned seed = 1; seed <= 20; seed++) {
        dice = seed;
        lessened += carry_all(false, 10 + 10 * seed);
    }
    assert_true(lessened != 0);
}

static void every_encoded_byte_arrives_once_while_agents_are_replaced(void **state)
{
    unsigned lessened = 0;

    (void)state;
    pfl_has_no_thread = true; /* dice alone decide */
    for (unsigned seed = 1; seed <= 20; seed++) {
        dice = seed;
        lessened += carry_all(true, 10 + 10 * seed);
    }
    assert_true(lessened != 0);
}

/* A few hundred bytes on the wire; the loop has others to serve between. */
static void what_expands_to_many_bytes_is_reported_in_turns(void **state)
{
    static const uint8_t zeros[64 * 1024];
    const uint64_t all = 200 * sizeof(zeros);
    const uint64_t most = (4u << 20) + sizeof(zeros);
    unsigned turns = 0;

    (void)state;
    pfl_has_no_thread = true;
    begin(true);
    operator.takes_zeros = true;
    pfl_stream_read_stop(operator.stream);
    for (unsigned i = 0; i < all / sizeof(zeros); i++)
        write_encoded(pfl_span_of(zeros, sizeof(zeros)));
    pfl_h2_stream_wake(agent.h2_stream);
    pump();
    assert_int_equal(operator.got, 0);
    pfl_stream_read_start(operator.stream);
    while (operator.got != all) {
        uint64_t before = operator.got;

        (void)uv_run(&operator.loop, UV_RUN_NOWAIT);
        assert_in_range(operator.got - before, 0, most);
        turns += operator.got != before;
    }
    assert_true(turns > 2);
    close_operator();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_arrives_once_while_agents_are_replaced),
        cmocka_unit_test(every_encoded_byte_arrives_once_while_agents_are_replaced),
        cmocka_unit_test(what_expands_to_many_bytes_is_reported_in_turns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
