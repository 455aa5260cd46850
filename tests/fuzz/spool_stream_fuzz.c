/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A collector's stream with any bytes, at an agent whose folder has one segment: its orders and its
 * segments are real, there is no service. First byte: bits of how the stream is (the orderer has a
 * role, the collector speaks for itself, the connection is lost before the answers); then the size
 * of a piece; then the bytes. Whatever they are: every answer is a message within the limits, the
 * stream ends, and nothing is left of it, neither memory nor descriptors.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/daemon/collect/spool_stream_port.h"
#include "base/io/loop.h"
#include "base/io/worker.h"
#include "base/log.h"
#include "base/mem.h"
#include "proto/ipc/frame.h"
#include "proto/tunnel/tunnel.h"
#include "proto/unpack.h"

#define ID        "01ARZ3NDEKTSV4RRFFQ69G5FAV"
#define HASH      "SSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSS"
#define TRACE     "twenty bytes of data"
#define COLLECTOR "keeper"
#define TICK_MS   1u

enum is {
    IS_WITH_ROLE = 1,
    IS_OWN = 2, /* the collector's, without an orderer */
    IS_LOST = 4,
};

struct world {
    uv_loop_t loop;
    struct pfl_worker *worker;
    struct pfl_segments *segments;
    struct pfl_orders *orders;
    struct pfl_spool_streams streams;
    struct pfl_h2 *collector;
    struct pfl_h2 *agent;
    struct pfl_h2_stream *stream; /* of the collector; NULL: closed */
    struct pfl_frame_reader replies;
    struct pfl_span bytes;
    size_t piece;
    uint8_t is;
    char dir[64];
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- the folder ---- */

static void write_file(const struct world *w, const char *name, struct pfl_span bytes)
{
    char path[160];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%s", w->dir, name);
    file = fopen(path, "w");
    if (file == NULL || fwrite(bytes.data, 1, bytes.len, file) != bytes.len || fclose(file) != 0)
        abort();
}

static void make_folder(struct world *w)
{
    Perfleet__Segment note = PERFLEET__SEGMENT__INIT;
    char id[] = ID;
    char orderer[] = "ann";
    char name[] = "web";
    char collector[] = COLLECTOR;
    uint8_t hash[] = HASH;
    struct pfl_buf bytes;

    note.incarnation = id;
    note.orderer = orderer;
    note.order = name;
    note.collector = collector;
    note.has_number = note.has_bytes = note.has_sha256 = 1;
    note.number = 1;
    note.bytes = strlen(TRACE);
    note.sha256.data = hash;
    note.sha256.len = PFL_SEGMENT_HASH_BYTES;
    pfl_buf_init(&bytes, 4096);
    (void)snprintf(w->dir, sizeof(w->dir), "/tmp/spool_stream.XXXXXX");
    if (mkdtemp(w->dir) == NULL || pfl_proto_pack(&note.base, &bytes) != 0)
        abort();
    write_file(w, ID ".pftrace.000001", pfl_span_of(TRACE, strlen(TRACE)));
    write_file(w, ID ".000001.segment", pfl_buf_get(&bytes));
    pfl_buf_fini(&bytes);
}

static void remove_folder(const struct world *w)
{
    DIR *dir = opendir(w->dir);
    const struct dirent *entry;

    if (dir == NULL)
        abort();
    while ((entry = readdir(dir)) != NULL)
        (void)unlinkat(dirfd(dir), entry->d_name, 0);
    (void)closedir(dir);
    if (rmdir(w->dir) != 0)
        abort();
}

/* ---- the collector ---- */

static int on_reply(void *user, struct pfl_span payload)
{
    ProtobufCMessage *message;
    const Perfleet__SpoolReply *reply;

    (void)user;
    if (pfl_proto_unpack(&perfleet__spool_reply__descriptor, payload, &message) != 0)
        abort();
    reply = (const Perfleet__SpoolReply *)message;
    if (!reply->has_id || !reply->has_status || reply->data.len > PFL_SEGMENTS_READ_BYTES ||
        reply->n_order > PFL_ORDERS_MAX || reply->n_segment > PFL_SEGMENTS_LIST_MAX ||
        (reply->status != 0 && reply->why == NULL))
        abort();
    pfl_proto_free(message);
    return 0;
}

static void on_data(void *user, struct pfl_span data)
{
    struct world *w = user;

    pfl_h2_stream_credit(w->stream, (uint32_t)data.len);
    if (pfl_frame_reader_feed(&w->replies, data, on_reply, w) != 0)
        abort();
}

static void on_response(void *user, const struct pfl_h2_head *head)
{
    (void)user;
    if (pfl_h2_head_get_status(head) != 200)
        abort();
}

static void on_end(void *user)
{
    (void)user;
}

static size_t on_pull(void *user, uint8_t *dst, size_t room, bool *ret_is_end)
{
    struct world *w = user;
    size_t len = w->piece < room ? w->piece : room;

    if (len > w->bytes.len)
        len = w->bytes.len;
    if (len != 0)
        memcpy(dst, w->bytes.data, len);
    w->bytes = pfl_span_of(w->bytes.data + len, w->bytes.len - len);
    *ret_is_end = w->bytes.len == 0;
    return len;
}

static void on_stream_closed(void *user, uint32_t code)
{
    (void)code;
    ((struct world *)user)->stream = NULL;
}

static const struct pfl_h2_stream_ops ops = {.on_response = on_response,
                                             .on_data = on_data,
                                             .on_end = on_end,
                                             .on_pull = on_pull,
                                             .on_closed = on_stream_closed};

static void on_request(void *user, struct pfl_h2_stream *stream, const struct pfl_h2_head *head)
{
    static const uint8_t role[] = {0x0a, 1, 'r', 0x12, 1, 'x'};
    struct world *w = user;
    const struct pfl_collect_stream_conf conf = {
        .collector = COLLECTOR,
        .operator_name = w->is & IS_OWN ? COLLECTOR : "ann",
        .is_for_orderer = (w->is & IS_OWN) == 0,
        .role = pfl_span_of(role, w->is & IS_WITH_ROLE ? sizeof(role) : 0)};

    (void)head;
    if (pfl_spool_streams_add(&w->streams, stream, &conf) != 0)
        abort();
}

static bool move_bytes(struct pfl_h2 *from, struct pfl_h2 *to)
{
    static uint8_t wire[4 * PFL_H2_DRAIN_BYTES];
    struct pfl_writer out = pfl_writer_of(wire, sizeof(wire));
    size_t len;

    if (pfl_h2_drain(from, &out) != 0)
        abort();
    len = sizeof(wire) - out.left;
    if (len != 0 && pfl_h2_feed(to, pfl_span_of(wire, len)) != 0)
        abort();
    return len != 0;
}

static void pump(const struct world *w)
{
    bool has_moved;

    do {
        has_moved = move_bytes(w->collector, w->agent);
        has_moved = move_bytes(w->agent, w->collector) || has_moved;
    } while (has_moved);
}

static void play(struct world *w)
{
    const struct pfl_h2_request request = {.method = "CONNECT",
                                           .path = PFL_TUNNEL_SPOOL_PATH,
                                           .protocol = PFL_TUNNEL_PROTOCOL_SPOOL,
                                           .ops = &ops,
                                           .user = w};
    struct pfl_h2_conf conf = {.window_bytes = PFL_TUNNEL_CONTROL_WINDOW_BYTES, .user = w};

    if (pfl_h2_new(&conf, &w->collector) != 0)
        abort();
    conf.is_answering = true;
    conf.on_request = on_request;
    if (pfl_h2_new(&conf, &w->agent) != 0)
        abort();
    pump(w);
    if (pfl_h2_request(w->collector, &request, &w->stream) != 0)
        abort();
    pump(w);
    while (w->stream != NULL && !(w->is & IS_LOST)) {
        (void)uv_run(&w->loop, UV_RUN_ONCE);
        pump(w);
    }
    pfl_h2_free(w->collector);
    pfl_h2_free(w->agent);
    if (w->streams.len != 0)
        abort();
}

/* ---- the agent ---- */

static void on_segments_closed(void *user)
{
    ((struct world *)user)->segments = NULL;
}

static void on_orders_closed(void *user)
{
    struct world *w = user;

    w->orders = NULL;
    pfl_segments_close(w->segments);
}

static void open_agent(struct world *w)
{
    const struct pfl_worker_conf worker = {.loop = &w->loop, .threads_max = 1};
    struct pfl_segments_conf segments = {.loop = &w->loop,
                                         .dir = w->dir,
                                         .boot_id = "0f0e",
                                         .tick_ms = TICK_MS,
                                         .settle_ms = TICK_MS,
                                         .on_closed = on_segments_closed,
                                         .user = w};
    struct pfl_orders_conf orders = {.loop = &w->loop,
                                     .dir = w->dir,
                                     .socket = "/nonexistent/consumer.sock",
                                     .tick_ms = TICK_MS,
                                     .on_closed = on_orders_closed,
                                     .user = w};

    if (pfl_loop_init(&w->loop) != 0 || pfl_worker_open(&worker, &w->worker) != 0)
        abort();
    segments.worker = w->worker;
    if (pfl_segments_open(&segments, &w->segments) != 0)
        abort();
    orders.segments = w->segments;
    if (pfl_orders_open(&orders, &w->orders) != 0)
        abort();
    pfl_spool_streams_init(&w->streams);
    w->streams.segments = w->segments;
    w->streams.orders = w->orders;
}

static void close_agent(struct world *w)
{
    pfl_spool_streams_end(&w->streams);
    pfl_orders_close(w->orders);
    (void)uv_run(&w->loop, UV_RUN_DEFAULT);
    pfl_worker_close(w->worker);
    (void)uv_run(&w->loop, UV_RUN_DEFAULT);
    if (w->orders != NULL || w->segments != NULL || uv_loop_close(&w->loop) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct world w = {.stream = NULL};
    struct pfl_mem_stats stats;
    int before;
    int after;

    if (size < 2)
        return 0;
    pfl_log_set_level(PFL_LOG_ERROR);
    before = dup(0);
    (void)close(before);
    w.is = data[0];
    w.piece = data[1] + 1u;
    w.bytes = pfl_span_of(data + 2, size - 2);
    pfl_frame_reader_init_large(&w.replies);
    make_folder(&w);
    open_agent(&w);
    play(&w);
    close_agent(&w);
    remove_folder(&w);
    pfl_frame_reader_fini(&w.replies);
    /* The lowest number that is free. */
    after = dup(0);
    (void)close(after);
    pfl_mem_stats_get(&stats);
    if (after > before || stats.live_blocks != 0)
        abort();
    return 0;
}
