/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One client of the port of all hosts.
 *
 *     EnableTracing --> run of all hosts --(its end)--> reply; ReadBuffers --> the file, in slices
 *     CloneSession  --> likewise, of copies; the reply comes when they are in the file
 *
 * Happy path: the protocol of a single service, so that the client need not know how many hosts
 * there are. A flush needs no action: hosts are flushed before they are read, and nothing is read
 * earlier. Failures: the reply's error, which the page shows, has the reason of a refusal;
 * on_client_gone and an event name hosts that are missing from a trace. When a client disconnects,
 * its recording is aborted. Ownership: the run, the file, the chunk. Limits: one recording per
 * client, which must be freed, or its connection closed, before the next.
 */
#include <stdio.h>
#include <unistd.h>

#include "base/closer.h"
#include "base/io/fdsock.h"
#include "base/mem.h"
#include "base/message.h"
#include "consumer/proxy/clone_response.h"
#include "consumer/ui/fleet_impl.h"
#include "consumer/ui/fleet_state.h"
#include "perfetto/consumer_port.fields.h"
#include "perfetto/trace_stats.fields.h"

#define CHUNK_BYTES      (256u * 1024)
#define NOTE_BYTES       8192u /* less than a chunk */
#define ANSWER_BYTES     (PFL_FLEET_WHY_BYTES + 64u)
#define LEAVE_TIMEOUT_MS 5000u

/* ---- the end ---- */

static void check_closed(struct pfl_fleet_client *c)
{
    struct pfl_fleet *fleet = c->fleet;

    if (!c->is_closing || c->stream != NULL || c->run != NULL || c->reading.is_busy)
        return;
    pfl_closer_close(c->fd, geteuid());
    fleet->recordings -= c->has_recording;
    pfl_mem_free(c->reading.chunk);
    pfl_rpc_host_fini(&c->rpc);
    pfl_buf_fini(&c->note);
    pfl_list_remove(&c->node);
    fleet->conf.on_client_gone(fleet->conf.user, c->why);
    pfl_mem_free(c);
    pfl_fleet_check_closed(fleet);
}

void pfl_fleet_client_close(struct pfl_fleet_client *c)
{
    if (c->is_closing)
        return;
    c->is_closing = true;
    c->state_requests_len = 0;
    if (c->run != NULL)
        pfl_fleet_run_abort(c->run);
    if (c->stream != NULL)
        pfl_stream_close_after_flush(c->stream, LEAVE_TIMEOUT_MS);
}

static void fail(struct pfl_fleet_client *c, const char *why)
{
    if (c->why[0] == '\0')
        (void)snprintf(c->why, sizeof(c->why), "%s", why);
    pfl_fleet_client_close(c);
}

/* The trace is no longer wanted, or was read; another may be recorded. */
static void drop_trace(struct pfl_fleet_client *c)
{
    pfl_closer_close(c->fd, geteuid());
    c->fd = -1;
    pfl_buf_clear(&c->note);
    pfl_mem_free(c->reading.chunk);
    c->reading = (struct pfl_fleet_reading){0};
    c->fleet->recordings -= c->has_recording;
    c->has_recording = false;
}

/* ---- answers ---- */

static int reply_bytes(struct pfl_fleet_client *c, struct pfl_rpc_request request, unsigned flags,
                       struct pfl_span bytes)
{
    struct iovec body = {(void *)(uintptr_t)bytes.data, bytes.len};

    return pfl_rpc_host_reply(&c->rpc, request, PFL_RPC_SUCCESS | flags, &body, 1, -1);
}

static int reply_enabled(struct pfl_fleet_client *c, struct pfl_rpc_request request,
                         const char *error)
{
    uint8_t bytes[ANSWER_BYTES];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));

    pfl_writer_field_varint(&w, ENABLE_TRACING_RESPONSE__DISABLED, 1);
    if (error[0] != '\0')
        pfl_writer_field_bytes(&w, ENABLE_TRACING_RESPONSE__ERROR, error, strlen(error));
    return reply_bytes(c, request, 0, pfl_span_of(bytes, sizeof(bytes) - w.left));
}

static int reply_cloned(struct pfl_fleet_client *c, struct pfl_rpc_request request,
                        const char *error)
{
    static const uint8_t success[] = {CLONE_SESSION_RESPONSE__SUCCESS << 3, 1};
    struct pfl_buf answer;
    int rc;

    if (error[0] == '\0')
        return reply_bytes(c, request, 0, pfl_span_of(success, sizeof(success)));
    pfl_buf_init(&answer, ANSWER_BYTES);
    rc = pfl_clone_response_refuse(error, &answer);
    if (rc == 0)
        rc = reply_bytes(c, request, 0, pfl_buf_get(&answer));
    pfl_buf_fini(&answer);
    return rc;
}

static int reply_run(struct pfl_fleet_client *c, struct pfl_rpc_request request, bool is_clone,
                     const char *error)
{
    return is_clone ? reply_cloned(c, request, error) : reply_enabled(c, request, error);
}

/* ---- recording ---- */

/* Reported here, and by an event at the trace's start. Without memory for that, only here. */
static void note_missing(struct pfl_fleet_client *c, const struct pfl_fleet_run *run)
{
    const char *missing = pfl_fleet_run_get_missing(run);

    if (missing[0] != '\0')
        c->fleet->conf.on_client_gone(c->fleet->conf.user, missing);
    if (pfl_fleet_run_take_note(run, &c->note) != 0)
        pfl_buf_clear(&c->note);
}

static void on_run_over(void *user)
{
    struct pfl_fleet_client *c = user;
    struct pfl_fleet_run *run = c->run;
    const char *why = c->is_freed ? "" : pfl_fleet_run_get_why(run);
    int rc = 0;

    c->run = NULL;
    if (!c->is_closing && !c->is_freed && why[0] == '\0') {
        c->fd = pfl_fleet_run_take_file(run);
        note_missing(c, run);
    } else if (!c->is_closing) {
        drop_trace(c);
    }
    c->is_freed = false;
    if (!c->is_closing)
        rc = reply_run(c, c->run_request, c->is_clone, why);
    pfl_fleet_run_free(run);
    if (rc != 0)
        fail(c, pfl_err_str(rc));
    check_closed(c);
}

/* Why no recording can begin now; "" if one can. */
static const char *find_obstacle(const struct pfl_fleet_client *c)
{
    if (c->run != NULL || c->fd >= 0)
        return "this connection has a recording already";
    if (c->fleet->recordings >= PFL_FLEET_MAX_RECORDINGS)
        return "too many recordings of all hosts are running; close the pages that have them";
    return "";
}

static int begin_run(struct pfl_fleet_client *c, struct pfl_rpc_request request,
                     struct pfl_span args, bool is_clone)
{
    uint64_t max_bytes = c->fleet->conf.max_trace_bytes;
    struct pfl_fleet_run_conf conf = {.recording = &c->fleet->conf.recording,
                                      .max_bytes =
                                          max_bytes != 0 ? max_bytes : PFL_FLEET_TRACE_MAX_BYTES,
                                      .on_over = on_run_over,
                                      .user = c};
    char why[PFL_FLEET_WHY_BYTES];
    int rc = PFL_EINVAL;

    (void)snprintf(why, sizeof(why), "%s", find_obstacle(c));
    if (why[0] == '\0')
        rc = is_clone ? pfl_fleet_run_clone(&conf, args, why, &c->run)
                      : pfl_fleet_run_record(&conf, args, why, &c->run);
    if (rc == PFL_EINVAL)
        return reply_run(c, request, is_clone, why);
    if (rc != 0)
        return rc;
    c->run_request = request;
    c->is_clone = is_clone;
    c->has_recording = true;
    c->fleet->recordings++;
    return 0;
}

static int on_enable_tracing(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    return begin_run(user, request, args, false);
}

static int on_clone_session(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    return begin_run(user, request, args, true);
}

static int on_disable_tracing(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    struct pfl_fleet_client *c = user;

    (void)args;
    if (c->run != NULL)
        pfl_fleet_run_stop(c->run);
    return pfl_rpc_host_reply_empty(&c->rpc, request);
}

/* Flush: hosts are flushed before they are read. QueryCapabilities: none. */
static int on_empty(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    struct pfl_fleet_client *c = user;

    (void)args;
    return pfl_rpc_host_reply_empty(&c->rpc, request);
}

static int on_free_buffers(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    struct pfl_fleet_client *c = user;

    (void)args;
    if (c->run != NULL) {
        c->is_freed = true;
        pfl_fleet_run_abort(c->run);
    } else if (c->fd >= 0 && !c->reading.is_open) {
        drop_trace(c);
    }
    return pfl_rpc_host_reply_empty(&c->rpc, request);
}

/* Also when it has just ended: the page may ask before it reads that. */
static int on_get_trace_stats(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    struct pfl_fleet_client *c = user;
    uint8_t buffer[32];
    uint8_t stats[64];
    uint8_t bytes[96];
    struct pfl_writer b = pfl_writer_of(buffer, sizeof(buffer));
    struct pfl_writer s = pfl_writer_of(stats, sizeof(stats));
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));

    (void)args;
    if (c->run != NULL)
        pfl_fleet_run_measure(c->run, &c->used_bytes, &c->size_bytes);
    if (c->size_bytes == 0) /* no recording yet */
        return pfl_rpc_host_reply_failure(&c->rpc, request);
    pfl_writer_field_varint(&b, TRACE_STATS__BUFFER_STATS__BYTES_WRITTEN, c->used_bytes);
    pfl_writer_field_varint(&b, TRACE_STATS__BUFFER_STATS__BUFFER_SIZE, c->size_bytes);
    pfl_writer_field_bytes(&s, TRACE_STATS__BUFFER_STATS, buffer, sizeof(buffer) - b.left);
    pfl_writer_field_bytes(&w, GET_TRACE_STATS_RESPONSE__TRACE_STATS, stats,
                           sizeof(stats) - s.left);
    return reply_bytes(c, request, 0, pfl_span_of(bytes, sizeof(bytes) - w.left));
}

/* ---- the hosts' state ---- */

static int on_query_service_state(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    struct pfl_fleet_client *c = user;
    int rc;

    (void)args;
    if (c->state_requests_len == PFL_FLEET_MAX_STATE_REQUESTS)
        return pfl_rpc_host_reply_failure(&c->rpc, request);
    rc = pfl_fleet_ask_state(c->fleet);
    if (rc == 0)
        c->state_requests[c->state_requests_len++] = request;
    return rc;
}

void pfl_fleet_client_give_state(struct pfl_fleet_client *c, struct pfl_span state)
{
    struct pfl_buf body;
    int rc;

    pfl_buf_init(&body, PFL_RPC_REPLY_BODY_MAX);
    rc = pfl_message_append_header(&body, QUERY_SERVICE_STATE_RESPONSE__SERVICE_STATE, state.len);
    if (rc == 0)
        rc = pfl_buf_append(&body, state.data, state.len);
    for (unsigned i = 0; rc == 0 && i < c->state_requests_len; i++)
        rc = reply_bytes(c, c->state_requests[i], 0, pfl_buf_get(&body));
    c->state_requests_len = 0;
    pfl_buf_fini(&body);
    if (rc != 0)
        fail(c, pfl_err_str(rc));
}

/* ---- reading ---- */

static void proceed(struct pfl_fleet_client *c);

static void end_reading(struct pfl_fleet_client *c)
{
    struct pfl_rpc_request end = c->reading.request;

    drop_trace(c);
    if (reply_bytes(c, end, 0, pfl_span_of(NULL, 0)) != 0)
        fail(c, "the page does not read its trace");
}

/* In a thread. */
static void run_read(struct pfl_work *work)
{
    struct pfl_fleet_reading *r = PFL_CONTAINER_OF(work, struct pfl_fleet_reading, work);
    const struct pfl_fleet_client *c = PFL_CONTAINER_OF(r, const struct pfl_fleet_client, reading);

    r->result = pread(c->fd, r->chunk, CHUNK_BYTES, (off_t)r->offset);
}

static void on_chunk(struct pfl_work *work)
{
    struct pfl_fleet_reading *r = PFL_CONTAINER_OF(work, struct pfl_fleet_reading, work);
    struct pfl_fleet_client *c = PFL_CONTAINER_OF(r, struct pfl_fleet_client, reading);
    ssize_t len = r->result;

    r->is_busy = false;
    if (c->is_closing) {
        check_closed(c);
        return;
    }
    if (len < 0) {
        fail(c, "the page's trace cannot be read back from its file");
        return;
    }
    if (len == 0 && c->note.len != 0) {
        len = (ssize_t)c->note.len;
        memcpy(r->chunk, pfl_buf_get(&c->note).data, c->note.len);
        pfl_buf_clear(&c->note);
    }
    if (len == 0) {
        end_reading(c);
        return;
    }
    r->len = (size_t)len;
    r->taken = 0;
    r->offset += len;
    proceed(c);
}

static int send_slices(struct pfl_fleet_client *c)
{
    struct pfl_fleet_reading *r = &c->reading;
    struct pfl_buf body;
    size_t taken = 0;
    int rc;

    pfl_buf_init(&body, PFL_RPC_REPLY_BODY_MAX);
    rc = pfl_trace_slices_take(&r->slices, pfl_span_of(r->chunk + r->taken, r->len - r->taken),
                               &body, &taken);
    r->taken += taken;
    if (rc == 0 && body.len != 0)
        rc = reply_bytes(c, r->request, PFL_RPC_HAS_MORE, pfl_buf_get(&body));
    pfl_buf_fini(&body);
    return rc;
}

/* Sends the chunk to the client until the queue is full; then the next chunk. */
static void proceed(struct pfl_fleet_client *c)
{
    struct pfl_fleet_reading *r = &c->reading;
    int rc = 0;

    while (rc == 0 && !r->is_held && r->taken < r->len) {
        rc = send_slices(c);
        r->is_held =
            c->stream == NULL || pfl_stream_queued_bytes(c->stream) > PFL_FLEET_QUEUE_HIGH_BYTES;
    }
    if (rc == 0 && !r->is_held) {
        r->work = (struct pfl_work){.run = run_read, .on_done = on_chunk};
        r->is_busy = true;
        pfl_worker_run(c->fleet->worker, &r->work);
    }
    if (rc != 0)
        fail(c, "the page's trace cannot be read back from its file");
}

/* Before the end there is nothing to read, as of a session that is written into a file. */
static int on_read_buffers(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    struct pfl_fleet_client *c = user;
    struct pfl_fleet_reading *r = &c->reading;

    (void)args;
    if (c->fd < 0 || r->is_open)
        return pfl_rpc_host_reply_empty(&c->rpc, request);
    r->chunk = pfl_mem_alloc(CHUNK_BYTES);
    if (r->chunk == NULL)
        return PFL_ENOMEM;
    r->request = request;
    r->is_open = true;
    proceed(c);
    return 0;
}

/* ---- the client's side ---- */

static const struct pfl_rpc_method methods[] = {
    {"EnableTracing", on_enable_tracing},
    {"DisableTracing", on_disable_tracing},
    {"ReadBuffers", on_read_buffers},
    {"FreeBuffers", on_free_buffers},
    {"Flush", on_empty},
    {"GetTraceStats", on_get_trace_stats},
    {"QueryServiceState", on_query_service_state},
    {"QueryCapabilities", on_empty},
    {"CloneSession", on_clone_session},
};
static const struct pfl_rpc_service fleet_service = {"ConsumerPort", methods,
                                                     sizeof(methods) / sizeof(methods[0])};

static int send_frame(void *user, const struct iovec *iov, int iov_len, int fd)
{
    struct pfl_fleet_client *c = user;

    return c->stream == NULL || c->is_closing ? 0 : pfl_stream_writev(c->stream, iov, iov_len, fd);
}

static void on_data(void *user, struct pfl_span data)
{
    struct pfl_fleet_client *c = user;

    int rc = c->is_closing ? 0 : pfl_rpc_host_feed(&c->rpc, data);

    if (rc == PFL_ENOMEM)
        fail(c, pfl_err_str(rc));
    else if (rc != 0)
        fail(c, "a page sent what is not the tracing protocol");
}

static void on_eof(void *user)
{
    struct pfl_fleet_client *c = user;

    pfl_stream_close(c->stream);
}

static void on_writable(void *user)
{
    struct pfl_fleet_client *c = user;

    if (!c->reading.is_held || c->is_closing)
        return;
    c->reading.is_held = false;
    proceed(c);
}

static void on_closed(void *user, int err)
{
    struct pfl_fleet_client *c = user;

    (void)err;
    c->stream = NULL;
    pfl_fleet_client_close(c);
    check_closed(c);
}

static const struct pfl_stream_ops client_ops = {
    .on_data = on_data,
    .on_eof = on_eof,
    .on_writable = on_writable,
    .on_closed = on_closed,
};

void pfl_fleet_client_open(struct pfl_fleet *fleet, int fd)
{
    struct pfl_fleet_client *c = pfl_mem_zalloc(sizeof(*c));
    struct pfl_rpc_host_conf rpc = {
        .services = &fleet_service, .services_len = 1, .user = c, .send = send_frame};
    struct pfl_stream_conf stream = {.loop = fleet->conf.recording.each_host.conn.loop,
                                     .ops = &client_ops,
                                     .user = c,
                                     .queue_max_bytes = PFL_FLEET_QUEUE_MAX_BYTES,
                                     .queue_low_bytes = PFL_FLEET_QUEUE_HIGH_BYTES / 4};

    if (c == NULL || pfl_fdsock_open(&stream, fd, &c->stream) != 0) {
        pfl_mem_free(c);
        pfl_fdsock_drop(fd);
        return;
    }
    c->fleet = fleet;
    c->fd = -1;
    pfl_rpc_host_init(&c->rpc, &rpc);
    pfl_buf_init(&c->note, NOTE_BYTES);
    pfl_list_append(&fleet->clients, &c->node);
}
