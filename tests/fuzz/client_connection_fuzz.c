/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An operator's stream whose host lies: an HTTP/2 end answers as the input says, one act a record.
 * Answers with any status and account, data and credit of any size, ends, resets and connections
 * that are lost come in any order, between acts of the stream's owner. The owner gets no more than
 * was sent, no byte after its end, and one on_closed.
 */
#include <stdlib.h>
#include <string.h>

#include "base/io/loop.h"
#include "base/log.h"
#include "base/mem.h"
#include "tests/support/no_thread.h"
#include "tunnel/client_stream_impl.h"

#define ACTS_MAX   256u
#define WIRE_BYTES (1u << 16)

enum act {
    ACT_ANSWER, /* u8 status, varints: received, credited, window, encoding */
    ACT_DATA,   /* u16 len, bytes */
    ACT_CREDIT, /* varint */
    ACT_END,
    ACT_RESET, /* u8 code */
    ACT_CUT,   /* the connection, and another one comes */
    ACT_WRITE, /* the owner's; u16 len */
    ACT_READ_STOP,
    ACT_READ_START,
    ACT_SHUTDOWN,
    ACT_RUN,
    ACT_CLOSE, /* u8: after a flush */
    ACTS,
};

struct host {
    struct pfl_h2_stream *h2_stream; /* NULL: none, or not asked for */
    struct pfl_buf out;
    bool is_answered;
    bool is_ending;
};

struct owner {
    struct pfl_stream *stream; /* NULL: closed */
    uint64_t got;
    bool has_ended;
};

static struct pfl_tunnel_client client;
static struct pfl_h2 *asking;
static struct pfl_h2 *answering;
static struct host host;
static struct owner owner;
static uv_loop_t loop;
static uint64_t sent; /* by the host */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* In place of the client's: its connection is here. */
struct pfl_h2 *pfl_tunnel_way_get_h2(struct pfl_tunnel_way *self)
{
    (void)self;
    return asking;
}

struct pfl_tunnel_way *pfl_tunnel_client_take_way(struct pfl_tunnel_client *self)
{
    return &self->ways[0];
}

void pfl_tunnel_client_on_stream_gone(struct pfl_tunnel_way *way)
{
    (void)way;
}

/* ---- the host ---- */

static void on_host_data(void *user, struct pfl_span data)
{
    (void)user;
    (void)data;
}

static void on_host_end(void *user)
{
    (void)user;
}

static size_t on_host_pull(void *user, uint8_t *dst, size_t room, bool *ret_is_end)
{
    struct pfl_span out = pfl_buf_get(&host.out);
    size_t len = out.len < room ? out.len : room;

    (void)user;
    if (len != 0)
        memcpy(dst, out.data, len);
    pfl_buf_consume(&host.out, len);
    sent += len;
    *ret_is_end = host.is_ending && len == out.len;
    return len;
}

static void on_host_closed(void *user, uint32_t code)
{
    (void)user;
    (void)code;
    host.h2_stream = NULL;
}

static const struct pfl_h2_stream_ops host_ops = {.on_data = on_host_data,
                                                  .on_end = on_host_end,
                                                  .on_pull = on_host_pull,
                                                  .on_closed = on_host_closed};

static void on_request(void *user, struct pfl_h2_stream *h2_stream, const struct pfl_h2_head *head)
{
    (void)user;
    (void)head;
    if (host.h2_stream != NULL)
        abort(); /* one HTTP/2 stream at a time */
    host.h2_stream = h2_stream;
    host.is_answered = false;
    host.is_ending = false;
    pfl_buf_clear(&host.out);
    pfl_h2_stream_set_user(h2_stream, &host_ops, NULL);
}

static void cut(void)
{
    pfl_h2_free(asking);
    pfl_h2_free(answering);
    asking = NULL;
    answering = NULL;
    host.h2_stream = NULL;
}

static void join(void)
{
    const struct pfl_h2_conf ask = {.window_bytes = PFL_TUNNEL_DATA_WINDOW_BYTES};
    const struct pfl_h2_conf answer = {.is_answering = true,
                                       .window_bytes = PFL_TUNNEL_CONTROL_WINDOW_BYTES,
                                       .on_request = on_request};

    if (pfl_h2_new(&ask, &asking) != 0 || pfl_h2_new(&answer, &answering) != 0)
        abort();
}

static bool move(struct pfl_h2 *from, struct pfl_h2 *to)
{
    static uint8_t wire[WIRE_BYTES];
    struct pfl_writer out = pfl_writer_of(wire, sizeof(wire));

    if (from == NULL || to == NULL)
        return false;
    if (pfl_h2_drain(from, &out) != 0 ||
        pfl_h2_feed(to, pfl_span_of(wire, sizeof(wire) - out.left)) != 0) {
        cut();
        return false;
    }
    return out.left != sizeof(wire);
}

static void pump(void)
{
    bool has_moved = true;

    for (unsigned i = 0; has_moved && i < 64; i++) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        has_moved = move(asking, answering);
        has_moved |= move(answering, asking);
    }
}

/* ---- the owner ---- */

static void on_data(void *user, struct pfl_span data)
{
    (void)user;
    if (owner.has_ended || owner.stream == NULL)
        abort();
    owner.got += data.len;
}

static void on_eof(void *user)
{
    (void)user;
    if (owner.has_ended)
        abort();
    owner.has_ended = true;
}

static void on_closed(void *user, int err)
{
    (void)user;
    (void)err;
    if (owner.stream == NULL)
        abort();
    owner.stream = NULL;
}

static const struct pfl_stream_ops owner_ops = {
    .on_data = on_data, .on_eof = on_eof, .on_closed = on_closed};

static void write_some(size_t len)
{
    static uint8_t bytes[65536];
    struct iovec iov = {.iov_base = bytes, .iov_len = len};

    (void)!pfl_stream_writev(owner.stream, &iov, 1, -1);
}

/* ---- acts ---- */

static void answer(struct pfl_reader *r)
{
    static const unsigned statuses[] = {200, 200, 200, 403, 404, 410, 429, 502, 503, 500};
    unsigned status = statuses[pfl_reader_u8(r) % (sizeof(statuses) / sizeof(statuses[0]))];
    struct pfl_resume_offer offer = {.received = pfl_reader_varint(r)};
    struct pfl_h2_field fields[PFL_TUNNEL_OFFER_FIELDS + 1];
    struct pfl_tunnel_offer_text text;
    uint64_t encoding;

    offer.credited = pfl_reader_varint(r);
    offer.window_bytes = pfl_reader_varint(r);
    encoding = pfl_reader_varint(r);
    if (r->failed || host.h2_stream == NULL || host.is_answered)
        return;
    host.is_answered = true;
    pfl_tunnel_offer_write(&offer, 5, &text, fields);
    fields[PFL_TUNNEL_OFFER_FIELDS] =
        (struct pfl_h2_field){PFL_TUNNEL_H_ENCODING, encoding & 1 ? "zstd" : "br"};
    (void)!pfl_h2_stream_respond(host.h2_stream, status, fields,
                                 PFL_TUNNEL_OFFER_FIELDS + ((encoding & 2) != 0));
}

static void act_of_host(enum act act, struct pfl_reader *r)
{
    struct pfl_span bytes;
    size_t len;

    switch (act) {
    case ACT_ANSWER:
        answer(r);
        break;
    case ACT_DATA:
        len = pfl_reader_u16(r);
        bytes = pfl_reader_bytes(r, len < r->left ? len : r->left);
        if (host.h2_stream != NULL && pfl_buf_append(&host.out, bytes.data, bytes.len) == 0)
            pfl_h2_stream_wake(host.h2_stream);
        break;
    case ACT_CREDIT:
        len = (uint32_t)pfl_reader_varint(r);
        if (host.h2_stream != NULL)
            pfl_h2_stream_credit(host.h2_stream, (uint32_t)len);
        break;
    case ACT_END:
        host.is_ending = true;
        if (host.h2_stream != NULL)
            pfl_h2_stream_wake(host.h2_stream);
        break;
    case ACT_RESET:
        len = pfl_reader_u8(r) % 14;
        if (host.h2_stream != NULL)
            pfl_h2_stream_reset(host.h2_stream, (enum pfl_h2_code)len);
        break;
    default:
        cut();
        join();
        pump();
        if (!pfl_list_is_empty(&client.streams))
            pfl_client_connection_rider_ops.on_up(
                PFL_CONTAINER_OF(client.streams.next, struct pfl_tunnel_rider, node),
                &client.ways[0]);
        break;
    }
}

static void act_of_owner(enum act act, struct pfl_reader *r)
{
    switch (act) {
    case ACT_WRITE:
        write_some(pfl_reader_u16(r));
        break;
    case ACT_READ_STOP:
        pfl_stream_read_stop(owner.stream);
        break;
    case ACT_READ_START:
        pfl_stream_read_start(owner.stream);
        break;
    case ACT_SHUTDOWN:
        pfl_stream_shutdown(owner.stream);
        break;
    case ACT_CLOSE:
        if (pfl_reader_u8(r) & 1)
            pfl_stream_close_after_flush(owner.stream, 1000);
        else
            pfl_stream_close(owner.stream);
        break;
    default:
        break;
    }
}

static void play(struct pfl_reader *r)
{
    for (unsigned i = 0; i < ACTS_MAX && r->left != 0 && owner.stream != NULL; i++) {
        enum act act = (enum act)(pfl_reader_u8(r) % ACTS);

        if (act < ACT_WRITE)
            act_of_host(act, r);
        else
            act_of_owner(act, r);
        pump();
    }
}

static void begin(bool wants_zstd)
{
    const struct pfl_tunnel_target target = {.host = "a", .wants_zstd = wants_zstd};
    const struct pfl_stream_conf conf = {
        .loop = &loop, .ops = &owner_ops, .queue_max_bytes = 65536, .queue_low_bytes = 1000};

    memset(&client, 0, sizeof(client));
    memset(&host, 0, sizeof(host));
    memset(&owner, 0, sizeof(owner));
    sent = 0;
    pfl_buf_init(&host.out, 1u << 24);
    if (pfl_loop_init(&loop) != 0 ||
        pfl_worker_open(&(struct pfl_worker_conf){.loop = &loop, .threads_max = 1},
                        &client.worker) != 0)
        abort();
    pfl_list_init(&client.streams);
    client.conf.give_up_ms = UINT64_MAX;
    join();
    pump();
    if (pfl_tunnel_client_connect(&client, &target, &conf, &owner.stream) != 0)
        abort();
    pump();
}

static void end(void)
{
    struct pfl_mem_stats stats;

    if (owner.stream != NULL)
        pfl_stream_close(owner.stream);
    while (owner.stream != NULL)
        (void)uv_run(&loop, UV_RUN_ONCE);
    cut();
    pfl_buf_fini(&host.out);
    pfl_worker_close(client.worker);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&loop) != 0)
        abort();
    pfl_decode_pool_fini(&client.decode_pool);
    pfl_mem_stats_get(&stats);
    if (stats.live_blocks != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pfl_reader r = pfl_reader_of(pfl_span_of(data, size));
    bool wants_zstd;

    if (size == 0)
        return 0;
    pfl_log_set_level(PFL_LOG_ERROR);
    pfl_has_no_thread = true; /* the same input does the same */
    wants_zstd = (pfl_reader_u8(&r) & 1) != 0;
    begin(wants_zstd);
    play(&r);
    if (!wants_zstd && owner.got > sent)
        abort();
    end();
    return 0;
}
