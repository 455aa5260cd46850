/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Downloads: see trace_download_visit.h.
 *
 *     spawn --first bytes--> body in parts --exit 0--> whole
 *       +------exit, no bytes--> a page that says what the process said
 *     open: spawn --exit 0--> handed over (open_part.h)
 *
 * Happy path: the process merges and writes to a pipe, of which as much is read as the browser
 * takes. Failures: a process that fails after its first bytes breaks the body, so the browser says
 * that the file is not whole; a browser that leaves ends the process. What is opened goes to a file
 * without a name, as the UI wants its length first; a process that writes too much is killed, and
 * the page says why. Ownership: the visit owns the process, two pipes, a timer and one piece.
 * Limits: PIECE_BYTES, SAID_MAX, PFL_TRACE_DOWNLOAD_MAX, PFL_TRACE_DOWNLOAD_OPEN_MAX_BYTES.
 */
#include "consumer/web/traces/trace_download_visit.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "consumer/recording/unnamed_file.h"
#include "consumer/report/summary.h"
#include "consumer/web/frame/open_part.h"
#include "consumer/web/frame/web_answer.h"
#include "consumer/web/traces/traces_page.h"

#define PIECE_BYTES 65536u
#define SAID_MAX    400u
#define WORDS_MAX   64u /* of the command, without ids */
#define LOOK_MS     50u /* at the file */

struct download {
    struct pfl_web_visit base;
    uv_process_t process;
    uv_pipe_t out;
    uv_pipe_t err;
    uv_timer_t look;
    struct pfl_unnamed_file file; /* of what is opened, in place of `out` */
    char piece[PIECE_BYTES];
    size_t piece_len;    /* that the browser did not take yet */
    char said[SAID_MAX]; /* the last of what it said */
    size_t said_len;
    char room[256]; /* to read `err` into */
    unsigned open;  /* handles */
    bool is_opened; /* it is for the UI */
    bool is_running;
    bool is_too_long;
    bool has_ended; /* the pipe */
    bool is_good;   /* the file is whole, but perhaps for what was lost before */
};

static unsigned downloads; /* of this process: they are few */

static struct download *visit_of(struct pfl_web_visit *base)
{
    return PFL_CONTAINER_OF(base, struct download, base);
}

/* ---- the end ---- */

static void on_handle_closed(uv_handle_t *handle)
{
    struct download *d = handle->data;

    if (--d->open == 0) {
        downloads--;
        pfl_web_visit_release(&d->base);
    }
}

static void close_handle(uv_handle_t *handle)
{
    if (!uv_is_closing(handle))
        uv_close(handle, on_handle_closed);
}

static void refuse(struct download *d)
{
    char why[SAID_MAX + 64];

    while (d->said_len != 0 && d->said[d->said_len - 1] == '\n')
        d->said_len--;
    d->said[d->said_len] = '\0';
    (void)snprintf(why, sizeof(why), "The download failed: %s",
                   d->said_len != 0 ? d->said : "perfleet traces get failed.");
    pfl_web_visit_refuse(&d->base, 502, why);
}

static void finish_if_over(struct download *d)
{
    if (d->is_running || !d->has_ended || d->piece_len != 0)
        return;
    close_handle((uv_handle_t *)&d->out);
    close_handle((uv_handle_t *)&d->err);
    close_handle((uv_handle_t *)&d->look);
    if (d->base.is_body)
        pfl_web_visit_end(&d->base, d->is_good);
    else if (d->base.exchange != NULL && d->is_opened && d->is_good)
        pfl_open_part_hand_over(d->base.web, pfl_web_visit_take_exchange(&d->base),
                                pfl_unnamed_file_take(&d->file), "traces.pftrace");
    else if (d->base.exchange != NULL)
        refuse(d);
}

/* Of what is opened: the process does not know that it writes to this disk. */
static void look_at_file(struct download *d)
{
    char why[SAID_MAX / 2];

    if (d->is_too_long ||
        pfl_unnamed_file_has_room(&d->file, PFL_TRACE_DOWNLOAD_OPEN_MAX_BYTES, why, sizeof(why)))
        return;
    d->is_too_long = true;
    d->said_len = (size_t)snprintf(d->said, sizeof(d->said),
                                   "%s: choose fewer traces, or download them as one", why);
    if (d->is_running)
        (void)uv_process_kill(&d->process, SIGKILL);
}

static void on_look(uv_timer_t *timer)
{
    look_at_file(timer->data);
}

static void on_exit_of_process(uv_process_t *process, int64_t status, int term_signal)
{
    struct download *d = process->data;

    d->is_running = false;
    if (d->is_opened)
        look_at_file(d);
    d->is_good =
        (status == PFL_EXIT_OK || status == PFL_EXIT_LOSS) && term_signal == 0 && !d->is_too_long;
    uv_close((uv_handle_t *)process, on_handle_closed);
    finish_if_over(d);
}

static void abort_visit(struct pfl_web_visit *base)
{
    struct download *d = visit_of(base);

    if (d->is_running)
        (void)uv_process_kill(&d->process, SIGKILL);
    d->piece_len = 0;
    if (!d->has_ended && d->open != 0) {
        d->has_ended = true;
        (void)uv_read_stop((uv_stream_t *)&d->out);
    }
    if (d->open != 0)
        finish_if_over(d);
}

/* ---- bytes ---- */

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buf)
{
    struct download *d = handle->data;

    (void)suggested;
    *ret_buf = handle == (uv_handle_t *)&d->out ? uv_buf_init(d->piece, sizeof(d->piece))
                                                : uv_buf_init(d->room, sizeof(d->room));
}

static int begin_body(struct download *d)
{
    return pfl_web_visit_begin(&d->base, "application/octet-stream",
                               "Content-Disposition: attachment; filename=\"traces.pftrace\"\r\n",
                               -1);
}

static void pass_piece(struct download *d)
{
    int rc = pfl_web_visit_write(&d->base, pfl_span_of(d->piece, d->piece_len));

    if (rc == PFL_ELIMIT) {
        (void)uv_read_stop((uv_stream_t *)&d->out);
        return;
    }
    d->piece_len = 0;
}

static void on_out(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf)
{
    struct download *d = stream->data;

    (void)buf;
    if (len < 0) {
        d->has_ended = true;
        (void)uv_read_stop(stream);
        finish_if_over(d);
        return;
    }
    if (len == 0)
        return;
    if (!d->base.is_body && (d->base.exchange == NULL || begin_body(d) != 0)) {
        abort_visit(&d->base);
        return;
    }
    d->piece_len = (size_t)len;
    pass_piece(d);
}

static void on_writable(struct pfl_web_visit *base)
{
    struct download *d = visit_of(base);

    if (d->piece_len == 0)
        return;
    pass_piece(d);
    if (d->piece_len == 0 && !d->has_ended)
        (void)uv_read_start((uv_stream_t *)&d->out, on_room, on_out);
    finish_if_over(d);
}

/* Of what it says the beginning is kept: the first error is the reason. */
static void on_err(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf)
{
    struct download *d = stream->data;
    size_t room = sizeof(d->said) - 1 - d->said_len;

    if (len <= 0) {
        if (len < 0)
            (void)uv_read_stop(stream);
        return;
    }
    if ((size_t)len < room)
        room = (size_t)len;
    if (d->is_too_long) /* that is the reason */
        return;
    memcpy(d->said + d->said_len, buf->base, room);
    d->said_len += room;
}

/* ---- the process ---- */

static void fill_words(struct download *d, const struct pfl_form *form, char **words)
{
    static char *const first[] = {"perfleet", "traces", "get", "--quiet", "--whole", "-o", "-"};
    const struct pfl_web_conf *conf = pfl_web_get_conf(d->base.web);
    size_t len = 0;

    for (; len < sizeof(first) / sizeof(first[0]); len++)
        words[len] = first[len];
    for (size_t i = 0; conf->words != NULL && conf->words[i] != NULL && len < WORDS_MAX; i++)
        words[len++] = (char *)(uintptr_t)conf->words[i];
    len += pfl_traces_page_read_ids(form, words + len, PFL_FORM_MAX_FIELDS);
    words[len] = NULL;
}

static int start(struct download *d, const struct pfl_form *form)
{
    uv_loop_t *loop = pfl_web_get_conf(d->base.web)->conn.loop;
    char *words[WORDS_MAX + PFL_FORM_MAX_FIELDS + 1];
    uv_stdio_container_t pipes[3] = {
        {.flags = UV_IGNORE},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&d->out},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&d->err}};
    uv_process_options_t options = {.exit_cb = on_exit_of_process,
                                    .file = "/proc/self/exe",
                                    .args = words,
                                    .stdio_count = 3,
                                    .stdio = pipes};

    (void)uv_pipe_init(loop, &d->out, 0);
    (void)uv_pipe_init(loop, &d->err, 0);
    (void)uv_timer_init(loop, &d->look);
    d->out.data = d->err.data = d->process.data = d->look.data = d;
    d->open = 4;
    downloads++;
    pfl_web_visit_hold(&d->base);
    fill_words(d, form, words);
    if (d->is_opened)
        pipes[1] = (uv_stdio_container_t){.flags = UV_INHERIT_FD, .data.fd = d->file.fd};
    d->has_ended = d->is_opened;
    if (uv_spawn(loop, &d->process, &options) != 0) {
        uv_close((uv_handle_t *)&d->process, on_handle_closed);
        d->has_ended = true;
        finish_if_over(d);
        return PFL_EIO;
    }
    d->is_running = true;
    if (!d->is_opened)
        (void)uv_read_start((uv_stream_t *)&d->out, on_room, on_out);
    else
        (void)uv_timer_start(&d->look, on_look, LOOK_MS, LOOK_MS);
    (void)uv_read_start((uv_stream_t *)&d->err, on_room, on_err);
    return 0;
}

/* ---- the visit ---- */

static void answer(struct pfl_web_visit *base)
{
    pfl_web_visit_refuse(base, 503, "perfleet ui ends.");
}

static void free_visit(struct pfl_web_visit *base)
{
    struct download *d = visit_of(base);

    if (d->is_opened)
        pfl_unnamed_file_close(&d->file);
    pfl_mem_free(d);
}

/* False: it is refused. */
static bool open_file(struct download *d)
{
    char why[SAID_MAX];

    d->is_opened = pfl_unnamed_file_open(&d->file, why, sizeof(why));
    if (!d->is_opened)
        pfl_web_visit_refuse(&d->base, 507, why);
    return d->is_opened;
}

void pfl_trace_download_visit_open(struct pfl_web *web, struct pfl_http_exchange *exchange,
                                   const struct pfl_web_request *request)
{
    static const struct pfl_web_visit_ops ops = {
        .answer = answer, .abort = abort_visit, .on_writable = on_writable, .on_over = free_visit};
    struct download *d = downloads < PFL_TRACE_DOWNLOAD_MAX ? pfl_mem_zalloc(sizeof(*d)) : NULL;

    if (d == NULL) {
        pfl_web_refuse(web, exchange, 503, "Too many downloads are running: wait until one ends.");
        return;
    }
    pfl_web_visit_init(&d->base, web, exchange, request, &ops);
    if (strcmp(pfl_form_get(request->body, "act"), "open") == 0 && !open_file(d))
        return;
    if (start(d, request->body) != 0)
        pfl_log_warn("download-failed", "reason=\"perfleet cannot be started\"");
}
