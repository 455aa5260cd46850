/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `perfleet traces get`: see traces_get.h.
 *
 * Happy path: the collector lists the records of the segments, which go to the merge; the merge
 * says which parts it wants, each becomes a request, and what comes is fed; the merge writes the
 * file through a worker. While the disk is slower, the stream is paused. Failures: a segment that
 * cannot be read is left out and counted (exit 3); the stream or the file fails, or Ctrl-C: what
 * came stays as FILE.partial, and a file that was there before stays, too. With --tar the segments
 * go to the file as they are, one after the other; one that cannot be read from its beginning is
 * left out (exit 3). Ownership: everything here, until the command ends. Limits: segment_merge.h,
 * segment_tar.h; ASKED_MAX requests.
 */
#include "consumer/cmd/traces_get.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/io/worker.h"
#include "base/log.h"
#include "base/mem.h"
#include "consumer/collector/segment_merge.h"
#include "consumer/collector/segment_tar.h"
#include "consumer/recording/trace_file.h"
#include "consumer/report/progress_line.h"
#include "consumer/report/summary.h"
#include "consumer/text.h"

#define ASKED_MAX   256u
#define CURSOR_MAX  4096u
#define PROGRESS_MS 200u
#define SIGNALS     3u
/* A manifest has about 100 bytes for each segment. */
#define TAR_MAX_BYTES (64u << 20)

struct asked {
    uint32_t id; /* 0: free */
    size_t segment;
    uint64_t left; /* bytes that are still to come */
};

/* The member of a tar that is read. */
struct member {
    struct pfl_segment_tar_file file;
    uint32_t id; /* of its request; 0: none is under way */
    uint64_t left;
    bool has_head;
};

struct get {
    struct pfl_collector_session *session;
    struct pfl_segment_merge *merge;
    struct pfl_segment_tar *tar; /* owned; NULL: a merge */
    struct member member;
    uint64_t unread; /* segments that were left out of a tar */
    bool is_whole;   /* the tar has its end */
    struct pfl_worker *worker;
    struct pfl_trace_file *file;
    char (*ids)[32]; /* owned; of the segments, in the order of add */
    size_t ids_len;
    uint8_t cursor[CURSOR_MAX];
    size_t cursor_len;
    struct asked asked[ASKED_MAX];
    uint64_t bytes; /* of all segments */
    uint64_t fed;
    uint64_t shown_ms;
    int rc;
    int file_error;
    bool is_paused;
    bool is_interrupted;
    bool is_closed; /* the file */
    struct pfl_trace_file_end end;
    uv_signal_t signals[SIGNALS];
    unsigned open; /* handles of signals */
};

/* ---- the list ---- */

static int take_trace(struct get *g, const Perfleet__StoredTrace *trace)
{
    size_t len = g->ids_len;
    int rc;

    if (trace->segment == NULL || trace->id == NULL || strlen(trace->id) >= sizeof(g->ids[0]))
        return 0; /* nothing that could be asked for */
    if ((len & (len - 1)) == 0) {
        void *ids = pfl_mem_realloc(g->ids, (len != 0 ? 2 * len : 1) * sizeof(g->ids[0]));

        if (ids == NULL)
            return PFL_ENOMEM;
        g->ids = ids;
    }
    rc = g->tar != NULL ? pfl_segment_tar_add(g->tar, trace->segment, trace->id)
                        : pfl_segment_merge_add(g->merge, trace->segment);
    if (rc == PFL_EINVAL)
        return 0;
    if (rc != 0)
        return rc;
    (void)snprintf(g->ids[g->ids_len++], sizeof(g->ids[0]), "%s", trace->id);
    g->bytes += trace->segment->gap == NULL ? trace->segment->bytes : 0;
    return 0;
}

static void on_list(void *user, const Perfleet__CollectorReply *reply)
{
    struct get *g = user;

    for (size_t i = 0; g->rc == 0 && i < reply->n_trace; i++)
        g->rc = take_trace(g, reply->trace[i]);
    if (reply->has_cursor && reply->cursor.len <= sizeof(g->cursor)) {
        memcpy(g->cursor, reply->cursor.data, reply->cursor.len);
        g->cursor_len = reply->cursor.len;
    }
}

/* One host may have most of what is too much. */
static void explain(struct get *g, int rc, bool has_begun)
{
    const char *what = has_begun ? "runs" : "segments";
    size_t count = 0;
    const char *host = rc == PFL_ELIMIT && g->merge != NULL
                           ? pfl_segment_merge_find_largest(g->merge, has_begun, &count)
                           : NULL;

    if (rc == PFL_ESTATE)
        pfl_cmd_error("what is selected are gaps: the hosts removed these segments before they "
                      "were read");
    else if (host != NULL)
        pfl_cmd_error("these are too many %s for one file: select less time, or fewer hosts or "
                      "orders; host %s alone has %zu",
                      what, pfl_log_quote_str(host), count);
    else if (rc == PFL_ELIMIT)
        pfl_cmd_error("these are too many %s for one file: select less time, or fewer hosts or "
                      "orders",
                      what);
    else
        pfl_cmd_error("%s", pfl_err_str(rc));
}

static int list_all(struct get *g, Perfleet__TraceQuery *query)
{
    Perfleet__CollectorRequest request = PERFLEET__COLLECTOR_REQUEST__INIT;
    int code;

    query->has_oldest_first = query->oldest_first = 1;
    request.list = query;
    do {
        g->cursor_len = 0;
        code = pfl_collector_session_ask(g->session, &request, on_list, g);
        query->has_after = 1;
        query->after.data = g->cursor;
        query->after.len = g->cursor_len;
    } while (code == PFL_EXIT_OK && g->rc == 0 && g->cursor_len != 0);
    if (code != PFL_EXIT_OK || g->rc == 0)
        return code;
    explain(g, g->rc, false);
    return PFL_EXIT_NOTHING;
}

/* ---- the file ---- */

static int reserve(void *user, size_t len, uint8_t **ret_room)
{
    struct get *g = user;

    return pfl_trace_file_reserve(g->file, len, ret_room);
}

static void commit(void *user, size_t len)
{
    struct get *g = user;

    pfl_trace_file_commit(g->file, len);
}

static void on_data(void *user, const Perfleet__CollectorReply *reply);

static void on_writable(void *user)
{
    struct get *g = user;

    if (g->is_paused && g->session->conn != NULL) {
        pfl_collector_conn_pause(g->session->conn, false);
        pfl_collector_session_hear(g->session, on_data, g);
    }
    g->is_paused = false;
}

static void on_failed(void *user, int err)
{
    struct get *g = user;

    g->file_error = err;
}

static void on_file_closed(void *user, const struct pfl_trace_file_end *end)
{
    struct get *g = user;

    g->end = *end;
    if (end->err != 0)
        pfl_cmd_error("%s cannot be written: %s", pfl_log_quote_str(g->session->args->output),
                      strerror(end->err));
    if (end->partial != NULL)
        pfl_cmd_error("what came is in %s", end->partial);
    g->is_closed = true;
}

static int open_file(struct get *g)
{
    struct pfl_args *args = g->session->args;
    const struct pfl_worker_conf worker = {.loop = &g->session->loop, .threads_max = 1};
    struct pfl_trace_file_conf conf = {.path = args->output,
                                       .no_clobber = args->no_clobber,
                                       .on_writable = on_writable,
                                       .on_failed = on_failed,
                                       .user = g};

    if (pfl_worker_open(&worker, &g->worker) != 0) {
        pfl_cmd_error("out of memory");
        return PFL_EXIT_NOTHING;
    }
    conf.worker = g->worker;
    if (pfl_trace_file_open(&conf, &g->file) == 0)
        return PFL_EXIT_OK;
    pfl_cmd_error("cannot write %s: %s", pfl_log_quote_str(args->output), strerror(errno));
    return PFL_EXIT_FILE;
}

static enum pfl_trace_file_fate fate_of(int code)
{
    return code == PFL_EXIT_OK        ? PFL_TRACE_FILE_WHOLE
           : code == PFL_EXIT_NOTHING ? PFL_TRACE_FILE_REMOVED
                                      : PFL_TRACE_FILE_PARTIAL;
}

static void close_file(struct get *g, int code)
{
    if (g->file != NULL) {
        pfl_trace_file_close(g->file, fate_of(code), on_file_closed);
        while (!g->is_closed)
            uv_run(&g->session->loop, UV_RUN_ONCE);
    }
    pfl_worker_close(g->worker);
}

/* ---- reading ---- */

static struct asked *find_asked(struct get *g, uint32_t id)
{
    for (size_t i = 0; i < ASKED_MAX; i++)
        if (g->asked[i].id == id)
            return &g->asked[i];
    return NULL;
}

static void pause_if_congested(struct get *g)
{
    if (!pfl_trace_file_is_congested(g->file) || g->is_paused)
        return;
    g->is_paused = true;
    pfl_collector_conn_pause(g->session->conn, true);
}

static void on_part(struct get *g, const Perfleet__CollectorReply *reply)
{
    struct asked *a = reply->id != 0 ? find_asked(g, reply->id) : NULL;

    if (a == NULL || g->rc != 0)
        return;
    if (reply->status == 0 && reply->data.len <= a->left) {
        a->left -= reply->data.len;
        g->fed += reply->data.len;
        g->rc = pfl_segment_merge_feed(g->merge, a->segment,
                                       pfl_span_of(reply->data.data, reply->data.len));
    }
    if (g->rc == 0 && !reply->has_more && a->left != 0)
        g->rc = pfl_segment_merge_fail(g->merge, a->segment);
    if (!reply->has_more)
        a->id = 0;
    pause_if_congested(g);
}

/* As many parts as may be under way. */
static void ask_more(struct get *g)
{
    struct pfl_segment_want want;
    struct asked *a;

    while (g->rc == 0 && (a = find_asked(g, 0)) != NULL &&
           pfl_segment_merge_want(g->merge, &want)) {
        Perfleet__CollectorRequest request = PERFLEET__COLLECTOR_REQUEST__INIT;
        Perfleet__CollectorRequest__Get part = PERFLEET__COLLECTOR_REQUEST__GET__INIT;

        part.trace = g->ids[want.segment];
        part.has_offset = part.has_length = 1;
        part.offset = want.offset;
        part.length = want.len;
        request.get = &part;
        g->rc = pfl_collector_conn_send(g->session->conn, &request);
        *a = (struct asked){.id = request.id, .segment = want.segment, .left = want.len};
    }
}

/* Asked each time: terminals change their size. */
static unsigned columns_now(void)
{
    struct winsize size;

    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

static void show(struct get *g, bool is_end)
{
    uint64_t now_ms = uv_now(&g->session->loop);
    char line[PFL_PROGRESS_LINE_BYTES];
    char tail[64];

    if (g->session->args->is_quiet || isatty(STDERR_FILENO) == 0)
        return;
    if (is_end) {
        fputs("\r\033[K", stderr);
        return;
    }
    if (now_ms - g->shown_ms < PROGRESS_MS)
        return;
    g->shown_ms = now_ms;
    (void)snprintf(tail, sizeof(tail), "%.1f of %.1f MB", (double)g->fed / 1e6,
                   (double)g->bytes / 1e6);
    pfl_progress_line(columns_now(), "fetching",
                      g->bytes != 0 ? (double)g->fed / (double)g->bytes : 0, tail, line);
    fprintf(stderr, "\r%s\033[K", line);
}

/* ---- a tar ---- */

static int put(struct get *g, const void *data, size_t len)
{
    uint8_t *room;
    int rc = len != 0 ? pfl_trace_file_reserve(g->file, len, &room) : PFL_EINVAL;

    if (rc != 0)
        return len != 0 ? rc : 0;
    memcpy(room, data, len);
    pfl_trace_file_commit(g->file, len);
    return 0;
}

/* What the tar's object makes: heads, the manifest. */
static int put_made(struct get *g, int (*make)(struct pfl_segment_tar *tar, struct pfl_buf *out))
{
    struct pfl_buf out;
    int rc;

    pfl_buf_init(&out, TAR_MAX_BYTES);
    rc = make(g->tar, &out);
    if (rc == 0)
        rc = put(g, pfl_buf_get(&out).data, out.len);
    pfl_buf_fini(&out);
    return rc;
}

/* After its head it cannot be left out any more. */
static void fail_member(struct get *g, const char *why)
{
    struct member *m = &g->member;

    pfl_cmd_error("trace %s cannot be read: %s", m->file.id, why);
    if (m->has_head)
        g->rc = PFL_EIO;
    else
        g->unread++;
    m->id = 0;
}

static int put_data(struct get *g, struct pfl_span data)
{
    struct member *m = &g->member;
    int rc = m->has_head ? 0 : put_made(g, pfl_segment_tar_head);

    m->has_head = true;
    m->left -= data.len;
    g->fed += data.len;
    return rc == 0 ? put(g, data.data, data.len) : rc;
}

static void on_member(struct get *g, const Perfleet__CollectorReply *reply)
{
    static const uint8_t zeros[512];
    struct member *m = &g->member;

    if (m->id == 0 || reply->id != m->id || g->rc != 0)
        return;
    if (reply->status != 0) {
        fail_member(g, reply->why != NULL ? pfl_log_quote_reason(reply->why) : "it refuses");
        return;
    }
    if (reply->data.len > m->left || (!reply->has_more && reply->data.len != m->left)) {
        fail_member(g, "it has another length than it had");
        return;
    }
    if (reply->data.len != 0)
        g->rc = put_data(g, pfl_span_of(reply->data.data, reply->data.len));
    if (g->rc == 0 && !reply->has_more) {
        g->rc = put(g, zeros, m->file.padding);
        m->id = 0;
    }
    pause_if_congested(g);
}

/* The next segment, or the end. */
static void ask_member(struct get *g)
{
    Perfleet__CollectorRequest request = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__CollectorRequest__Get part = PERFLEET__COLLECTOR_REQUEST__GET__INIT;
    struct member *m = &g->member;

    if (m->id != 0 || g->rc != 0 || g->is_whole)
        return;
    *m = (struct member){0};
    if (!pfl_segment_tar_next(g->tar, &m->file)) {
        g->rc = put_made(g, pfl_segment_tar_end);
        g->is_whole = g->rc == 0;
        return;
    }
    m->left = m->file.bytes;
    part.trace = (char *)(uintptr_t)m->file.id;
    request.get = &part;
    g->rc = pfl_collector_conn_send(g->session->conn, &request);
    m->id = request.id;
}

/* ---- either ---- */

static void on_data(void *user, const Perfleet__CollectorReply *reply)
{
    struct get *g = user;

    if (g->tar != NULL)
        on_member(g, reply);
    else
        on_part(g, reply);
}

static bool is_done(const struct get *g)
{
    return g->tar != NULL ? g->is_whole : pfl_segment_merge_is_done(g->merge);
}

/* ---- Ctrl-C: a second one ends the process ---- */

static void on_signal(uv_signal_t *handle, int number)
{
    struct get *g = handle->data;

    (void)number;
    g->is_interrupted = true;
    for (size_t i = 0; i < SIGNALS; i++)
        uv_signal_stop(&g->signals[i]);
}

static void on_signal_closed(uv_handle_t *handle)
{
    ((struct get *)handle->data)->open--;
}

static void watch_signals(struct get *g)
{
    static const int numbers[SIGNALS] = {SIGINT, SIGTERM, SIGHUP};

    for (size_t i = 0; i < SIGNALS; i++) {
        struct sigaction old;
        bool is_ignored = sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler == SIG_IGN;

        (void)uv_signal_init(&g->session->loop, &g->signals[i]);
        g->signals[i].data = g;
        g->open++;
        if (!is_ignored)
            (void)uv_signal_start(&g->signals[i], on_signal, numbers[i]);
    }
}

static void close_signals(struct get *g)
{
    for (size_t i = 0; i < SIGNALS; i++)
        uv_close((uv_handle_t *)&g->signals[i], on_signal_closed);
    while (g->open != 0)
        uv_run(&g->session->loop, UV_RUN_ONCE);
}

/* ---- all of it ---- */

static const char *why_broken(const struct get *g)
{
    return g->is_interrupted ? "interrupted" : g->rc != 0 ? pfl_err_str(g->rc) : g->session->why;
}

static int read_all(struct get *g)
{
    struct pfl_collector_session *s = g->session;

    pfl_collector_session_hear(s, on_data, g);
    while (g->rc == 0 && g->file_error == 0 && s->conn != NULL && !g->is_interrupted &&
           !is_done(g)) {
        if (g->tar != NULL)
            ask_member(g);
        else
            ask_more(g);
        show(g, false);
        if (!is_done(g))
            uv_run(&s->loop, UV_RUN_ONCE);
        if (s->is_late && !g->is_paused) {
            (void)snprintf(s->why, sizeof(s->why), "no answer in time");
            break;
        }
    }
    show(g, true);
    pfl_collector_session_hear(s, NULL, NULL);
    if (is_done(g))
        return PFL_EXIT_OK;
    if (g->file_error != 0)
        return PFL_EXIT_FILE;
    pfl_cmd_error("collector %s: %s", s->name, why_broken(g));
    return PFL_EXIT_PARTIAL;
}

/* ---- the result ---- */

static int add_machine(const struct pfl_segment_machine *m, struct pfl_buf *out)
{
    int rc = pfl_text_add(out, "%s: %zu segment%s, %" PRIu64 " packets, ", m->name, m->segments,
                          m->segments == 1 ? "" : "s", m->packets);

    if (rc == 0 && m->is_reference && m->has_clock)
        rc = pfl_text_add(out, "its clock is the trace's");
    else if (rc == 0 && m->has_clock)
        rc = pfl_text_add(out, "clock %+.6f s, within %.1f us", (double)m->offset_ns / 1e9,
                          (double)m->error_ns / 1e3);
    else if (rc == 0)
        rc = pfl_text_add(out, "placed by its wall clock");
    if (rc == 0 && m->missing_segments + m->failed_segments != 0)
        rc = pfl_text_add(out, "; %" PRIu64 " segments missing, %" PRIu64 " unreadable",
                          m->missing_segments, m->failed_segments);
    if (rc == 0 && m->cut_segments != 0)
        rc = pfl_text_add(out,
                          "; cut short: its segments hold far more than their bytes tell, "
                          "%" PRIu64 " are not read, or not whole (--max-host-mib N, 0: no limit)",
                          m->cut_segments);
    if (rc == 0 && m->left_out_segments != 0)
        rc = pfl_text_add(out,
                          "; %" PRIu64 " segments are left out: the host has too many runs, or "
                          "boots, for one file; select less time or one order",
                          m->left_out_segments);
    if (rc == 0 && m->refused_packets != 0)
        rc = pfl_text_add(out, "; %" PRIu64 " packets refused", m->refused_packets);
    if (rc == 0 && m->left_out_packets != 0)
        rc = pfl_text_add(out, "; %" PRIu64 " packets outside of the window", m->left_out_packets);
    return rc == 0 ? pfl_text_add(out, "\n") : rc;
}

static int report_tar(struct get *g, uint64_t lost)
{
    FILE *stream = strcmp(g->session->args->output, "-") == 0 ? stderr : stdout;

    if (!g->session->args->is_quiet)
        fprintf(stream, "%s: %zu traces, %.1f MB\n", pfl_log_quote_str(g->session->args->output),
                pfl_segment_tar_get_files(g->tar), (double)g->end.written_bytes / 1e6);
    return lost + g->unread != 0 ? PFL_EXIT_LOSS : PFL_EXIT_OK;
}

/* `named`: so many traces were given by their ids. */
static int report(struct get *g, size_t named)
{
    FILE *stream = strcmp(g->session->args->output, "-") == 0 ? stderr : stdout;
    uint64_t lost = named > g->ids_len ? named - g->ids_len : 0;
    uint64_t cut = 0;
    struct pfl_buf out;
    int rc = 0;

    if (lost != 0)
        pfl_cmd_error("%" PRIu64 " of the traces that you named are not there", lost);
    if (g->tar != NULL)
        return report_tar(g, lost);
    pfl_buf_init(&out, 16u << 20);
    for (size_t i = 0; rc == 0 && i < pfl_segment_merge_get_machines_len(g->merge); i++) {
        struct pfl_segment_machine m;

        pfl_segment_merge_get_machine(g->merge, i, &m);
        lost += m.missing_segments + m.failed_segments + m.refused_packets;
        cut += m.cut_segments + m.left_out_segments;
        if (m.segments + m.left_out_segments != 0) /* else all of that boot is left out */
            rc = add_machine(&m, &out);
    }
    if (rc == 0)
        rc = pfl_text_add(&out, "%s: %.1f MB\n", pfl_log_quote_str(g->session->args->output),
                          (double)g->end.written_bytes / 1e6);
    if (rc == 0 && !g->session->args->is_quiet)
        pfl_cmd_print(g->session->args, pfl_buf_get(&out), stream);
    pfl_buf_fini(&out);
    return cut != 0 ? PFL_EXIT_PARTIAL : lost != 0 ? PFL_EXIT_LOSS : PFL_EXIT_OK;
}

static int begin(struct get *g)
{
    int rc = g->tar != NULL ? pfl_segment_tar_begin(g->tar) : pfl_segment_merge_begin(g->merge);

    if (rc == 0)
        return PFL_EXIT_OK;
    explain(g, rc, true);
    return PFL_EXIT_NOTHING;
}

static int run(struct get *g, struct pfl_trace_query *query)
{
    int code = list_all(g, &query->query);

    if (code == PFL_EXIT_OK && g->ids_len == 0) {
        pfl_cmd_error("no trace is selected; perfleet traces lists them");
        return PFL_EXIT_NOTHING;
    }
    if (code == PFL_EXIT_OK)
        code = open_file(g);
    if (code == PFL_EXIT_OK) {
        watch_signals(g);
        code = begin(g);
        if (code == PFL_EXIT_OK)
            code = read_all(g);
        close_signals(g);
    }
    close_file(g, code);
    if (code == PFL_EXIT_OK && g->end.err != 0)
        code = PFL_EXIT_FILE;
    g->session->args->has_trace = code == PFL_EXIT_OK;
    return code == PFL_EXIT_OK ? report(g, query->query.n_id) : code;
}

static int make_merge(struct get *g, const struct pfl_trace_query *query)
{
    struct pfl_segment_merge_conf conf = {
        .sink = {.reserve = reserve, .commit = commit, .user = g}};

    if (g->session->args->has_max_host_mib)
        conf.host_max_bytes = g->session->args->max_host_mib != 0
                                  ? (uint64_t)g->session->args->max_host_mib << 20
                                  : UINT64_MAX;
    if (!g->session->args->traces.is_whole && query->query.has_end_unix_ns) {
        conf.begin_unix_ns = query->query.begin_unix_ns;
        conf.end_unix_ns = query->query.end_unix_ns;
    }
    if (getrandom(&conf.hash_key, sizeof(conf.hash_key), 0) != (ssize_t)sizeof(conf.hash_key))
        return PFL_EIO;
    return pfl_segment_merge_new(&conf, &g->merge);
}

int pfl_traces_get(struct pfl_collector_session *session, struct pfl_trace_query *query)
{
    struct get *g = pfl_mem_zalloc(sizeof(*g));
    int code = PFL_EXIT_NOTHING;
    int rc = PFL_ENOMEM;

    if (g != NULL) {
        g->session = session;
        rc = session->args->traces.is_tar ? pfl_segment_tar_new(&g->tar) : make_merge(g, query);
    }
    if (rc == 0)
        code = run(g, query);
    else
        pfl_cmd_error("%s", pfl_err_str(rc));
    if (g == NULL)
        return code;
    pfl_segment_merge_free(g->merge);
    pfl_segment_tar_free(g->tar);
    pfl_mem_free(g->ids);
    pfl_mem_free(g);
    return code;
}
