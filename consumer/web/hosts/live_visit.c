/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Live views of pages: see live_visit.h.
 *
 *     POST --> spawn --the first copy is there: a line with the link--> page with the link
 *                +---------------- exit --> a page that says what the process said
 *     the process runs until its tab is closed, its time is over, or the pages end
 *
 * Happy path: `perfleet open --live` runs as a process of its own, which serves its page and reads
 * the host. Failures: without a first copy the process ends, and its words are the answer; one that
 * says nothing in time is ended. Ownership: the part owns the processes; each owns its two pipes,
 * until the last handle is closed, and a visit until that is answered. Limits: PFL_LIVE_VISIT_MAX,
 * LINE_MAX, SAID_MAX; those of open --live.
 */
#include "consumer/web/hosts/live_visit.h"

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "consumer/open/hand_over.h"
#include "consumer/web/frame/host_rows.h"
#include "consumer/web/frame/web_answer.h"

#define LINE_MAX_BYTES 2048u
#define SAID_MAX       600u
#define WORDS_MAX      64u
#define FLUSH_MS       10000u /* the first copy may take so long beyond the host's answer */

struct live_part {
    struct pfl_web_part base;
    struct pfl_list views;
    unsigned len;
    bool is_closing;
};

struct live_view {
    struct pfl_list node;
    struct live_part *part;
    struct pfl_web_visit *visit; /* NULL: answered */
    uv_process_t process;
    uv_pipe_t out;
    uv_pipe_t err;
    unsigned open; /* handles */
    bool is_running;
    char title[PFL_HOST_NAME_MAX * 4];
    char line[LINE_MAX_BYTES];
    size_t line_len;
    char said[SAID_MAX];
    size_t said_len;
    char room[256]; /* for words that are passed over */
};

struct live_visit {
    struct pfl_web_visit base;
    struct live_view *view; /* NULL: none waits for an answer */
    char name[PFL_HOST_NAME_MAX * 4];
    char session[PFL_HOST_NAME_MAX * 4];
};

/* ---- the end ---- */

static void free_part_if_gone(struct live_part *part)
{
    if (!part->is_closing || part->len != 0)
        return;
    pfl_web_part_remove(&part->base);
    pfl_mem_free(part);
}

static void end_process(struct live_view *v)
{
    if (v->is_running)
        (void)uv_process_kill(&v->process, SIGTERM);
}

/* The visit has its answer. */
static void release_visit(struct live_view *v)
{
    struct pfl_web_visit *visit = v->visit;

    v->visit = NULL;
    PFL_CONTAINER_OF(visit, struct live_visit, base)->view = NULL;
    pfl_web_visit_release(visit);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct live_view *v = handle->data;
    struct live_part *part = v->part;

    if (--v->open != 0)
        return;
    pfl_list_remove(&v->node);
    part->len--;
    pfl_mem_free(v);
    free_part_if_gone(part);
}

static void close_handle(uv_handle_t *handle)
{
    if (!uv_is_closing(handle))
        uv_close(handle, on_handle_closed);
}

static void refuse(struct live_view *v)
{
    char why[SAID_MAX + 64];

    while (v->said_len != 0 && v->said[v->said_len - 1] == '\n')
        v->said_len--;
    (void)snprintf(why, sizeof(why), "There is no live view: %.*s",
                   v->said_len != 0 ? (int)v->said_len : 32,
                   v->said_len != 0 ? v->said : "perfleet open --live has failed.");
    if (v->visit->exchange != NULL)
        pfl_web_visit_refuse(v->visit, 502, why);
    release_visit(v);
}

/* Its words are all read: the pipe of errors has ended, too. */
static void finish_if_over(struct live_view *v)
{
    if (v->is_running || !uv_is_closing((uv_handle_t *)&v->err))
        return;
    if (v->visit != NULL)
        refuse(v);
    close_handle((uv_handle_t *)&v->out);
}

static void on_exit_of_process(uv_process_t *process, int64_t status, int term_signal)
{
    struct live_view *v = process->data;

    (void)status;
    (void)term_signal;
    v->is_running = false;
    close_handle((uv_handle_t *)process);
    finish_if_over(v);
}

/* ---- what the process says ---- */

/* The page with the link, which was made on this machine. */
static void send_link(struct live_view *v)
{
    json_t *object = json_loadb(v->line, v->line_len, JSON_REJECT_DUPLICATES, NULL);
    const char *url = json_string_value(json_object_get(object, "url"));
    struct pfl_html h;

    pfl_html_init(&h, PFL_WEB_PAGE_MAX_BYTES);
    if (url == NULL) {
        end_process(v);
        pfl_web_visit_refuse(v->visit, 502, "perfleet open --live printed no link.");
    } else {
        pfl_layout_to_live_view(url, v->title, &h);
        pfl_web_visit_send_page(v->visit, 200, &h);
    }
    pfl_html_fini(&h);
    json_decref(object);
    release_visit(v);
}

static void on_line_room(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buf)
{
    struct live_view *v = handle->data;

    (void)suggested;
    *ret_buf = v->visit == NULL || v->line_len == LINE_MAX_BYTES
                   ? uv_buf_init(v->room, sizeof(v->room))
                   : uv_buf_init(v->line + v->line_len, (unsigned)(LINE_MAX_BYTES - v->line_len));
}

static void on_line(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf)
{
    struct live_view *v = stream->data;

    if (len < 0) {
        (void)uv_read_stop(stream);
        return;
    }
    if (len == 0 || v->visit == NULL || buf->base == v->room)
        return;
    v->line_len += (size_t)len;
    if (memchr(v->line, '\n', v->line_len) == NULL)
        return;
    if (v->visit->exchange == NULL) {
        end_process(v);
        release_visit(v);
        return;
    }
    send_link(v);
}

static void on_word_room(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buf)
{
    struct live_view *v = handle->data;

    (void)suggested;
    *ret_buf = v->said_len == SAID_MAX
                   ? uv_buf_init(v->room, sizeof(v->room))
                   : uv_buf_init(v->said + v->said_len, (unsigned)(SAID_MAX - v->said_len));
}

/* The beginning is kept: the first error is the reason. */
static void on_words(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf)
{
    struct live_view *v = stream->data;

    if (len < 0) {
        close_handle((uv_handle_t *)stream);
        finish_if_over(v);
        return;
    }
    if (buf->base != v->room)
        v->said_len += (size_t)len;
}

/* ---- the process ---- */

static void add_option(char **words, size_t *len, const char *option, const char *value)
{
    if (value == NULL || value[0] == '\0' || *len + 2 > WORDS_MAX)
        return;
    words[(*len)++] = (char *)(uintptr_t)option;
    words[(*len)++] = (char *)(uintptr_t)value;
}

static void fill_words(const struct pfl_web_conf *conf, const char *host, const char *session,
                       char **ret_words)
{
    static char *const first[] = {"perfleet", "open", "--live", "--no-browser", "--json"};
    size_t len = 0;

    for (; len < sizeof(first) / sizeof(first[0]); len++)
        ret_words[len] = first[len];
    add_option(ret_words, &len, "--host", host);
    add_option(ret_words, &len, "--session", session);
    if (conf->ui.dir != NULL)
        add_option(ret_words, &len, "--ui-dir", conf->ui.dir);
    else if (conf->ui.url != NULL && strcmp(conf->ui.url, PFL_HAND_OVER_UI) != 0)
        add_option(ret_words, &len, "--ui-url", conf->ui.url);
    for (size_t i = 0; conf->words != NULL && conf->words[i] != NULL && len < WORDS_MAX; i++)
        ret_words[len++] = (char *)(uintptr_t)conf->words[i];
    ret_words[len] = NULL;
}

/* False: it cannot be started; the view ends by itself. */
static bool spawn(struct live_view *v, const char *host, const char *session)
{
    const struct pfl_web_conf *conf = pfl_web_get_conf(v->part->base.web);
    char *words[WORDS_MAX + 1];
    uv_stdio_container_t pipes[3] = {
        {.flags = UV_IGNORE},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&v->out},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&v->err}};
    uv_process_options_t options = {.exit_cb = on_exit_of_process,
                                    .file = "/proc/self/exe",
                                    .args = words,
                                    .stdio_count = 3,
                                    .stdio = pipes};

    fill_words(conf, host, session, words);
    (void)uv_pipe_init(conf->conn.loop, &v->out, 0);
    (void)uv_pipe_init(conf->conn.loop, &v->err, 0);
    v->out.data = v->err.data = v->process.data = v;
    v->open = 3;
    if (uv_spawn(conf->conn.loop, &v->process, &options) != 0) {
        close_handle((uv_handle_t *)&v->process);
        close_handle((uv_handle_t *)&v->out);
        close_handle((uv_handle_t *)&v->err);
        return false;
    }
    v->is_running = true;
    (void)uv_read_start((uv_stream_t *)&v->out, on_line_room, on_line);
    (void)uv_read_start((uv_stream_t *)&v->err, on_word_room, on_words);
    return true;
}

/* ---- the part ---- */

static void close_part(struct pfl_web_part *base)
{
    struct live_part *part = PFL_CONTAINER_OF(base, struct live_part, base);
    struct pfl_list *it;

    part->is_closing = true;
    PFL_LIST_EACH (it, &part->views)
        end_process(PFL_CONTAINER_OF(it, struct live_view, node));
    free_part_if_gone(part);
}

static struct live_part *get_part(struct pfl_web *web)
{
    static const struct pfl_web_part_ops ops = {.close = close_part};
    struct pfl_web_part *found = pfl_web_part_find(web, &ops);
    struct live_part *part;

    if (found != NULL)
        return PFL_CONTAINER_OF(found, struct live_part, base);
    part = pfl_mem_zalloc(sizeof(*part));
    if (part == NULL)
        return NULL;
    pfl_list_init(&part->views);
    pfl_web_part_add(&part->base, web, &ops);
    return part;
}

/* ---- the visit ---- */

/* The pages end, or the first copy takes too long. */
static void answer(struct pfl_web_visit *base)
{
    struct live_visit *visit = PFL_CONTAINER_OF(base, struct live_visit, base);

    pfl_web_visit_refuse(base, 504,
                         pfl_web_is_closing(base->web)
                             ? "perfleet ui ends."
                             : "There is no live view: the host gave no first copy in time.");
    if (visit->view != NULL)
        end_process(visit->view);
}

static void free_visit(struct pfl_web_visit *base)
{
    pfl_mem_free(PFL_CONTAINER_OF(base, struct live_visit, base));
}

static void start(struct live_visit *visit, struct live_part *part, const struct pfl_host_row *row)
{
    struct live_view *v = pfl_mem_zalloc(sizeof(*v));

    if (v == NULL) {
        pfl_web_visit_refuse(&visit->base, 503, "Out of memory.");
        return;
    }
    v->part = part;
    (void)snprintf(v->title, sizeof(v->title), "%s", row->title);
    pfl_list_append(&part->views, &v->node);
    part->len++;
    if (!spawn(v, row->spec != NULL ? row->spec->text : row->name, visit->session)) {
        pfl_log_warn("live-view-failed", "reason=\"perfleet cannot be started\"");
        pfl_web_visit_refuse(&visit->base, 503,
                             "There is no live view: perfleet cannot be started: are there too "
                             "many processes?");
        return;
    }
    v->visit = &visit->base;
    visit->view = v;
    pfl_web_visit_hold(&visit->base);
    pfl_web_visit_set_timer(&visit->base, pfl_web_get_conf(visit->base.web)->timeout_ms + FLUSH_MS);
}

static void on_relay(struct pfl_web_visit *base)
{
    struct live_visit *visit = PFL_CONTAINER_OF(base, struct live_visit, base);
    struct pfl_host_rows *hosts = pfl_web_get_hosts(base->web);
    size_t number = pfl_host_rows_find(hosts, visit->name);
    struct live_part *part = get_part(base->web);
    struct pfl_host_row row;

    if (number == SIZE_MAX) {
        pfl_web_visit_refuse(base, 404, "There is no such host; the relay may have forgotten it.");
    } else if (part == NULL) {
        pfl_web_visit_refuse(base, 503, "Out of memory.");
    } else if (part->len >= PFL_LIVE_VISIT_MAX) {
        pfl_web_visit_refuse(base, 409,
                             "Four live views of these pages run: close the tab of one, or use "
                             "the command on the host's page.");
    } else {
        pfl_host_rows_get_row(hosts, number, &row);
        start(visit, part, &row);
    }
}

void pfl_live_visit_open(struct pfl_web *web, struct pfl_http_exchange *exchange,
                         const struct pfl_web_request *request)
{
    static const struct pfl_web_visit_ops ops = {
        .on_relay = on_relay, .answer = answer, .on_over = free_visit};
    struct live_visit *visit;

    if (pfl_web_is_behind_proxy(web)) {
        pfl_web_refuse(web, exchange, 409,
                       "Your Perfetto UI cannot fetch a trace from here: use the command on the "
                       "host's page.");
        return;
    }
    visit = pfl_mem_zalloc(sizeof(*visit));
    if (visit == NULL) {
        pfl_web_refuse(web, exchange, 503, "Out of memory.");
        return;
    }
    pfl_web_visit_init(&visit->base, web, exchange, request, &ops);
    (void)snprintf(visit->name, sizeof(visit->name), "%s", pfl_form_get(request->body, "name"));
    (void)snprintf(visit->session, sizeof(visit->session), "%s",
                   pfl_form_get(request->body, "session"));
    pfl_web_visit_wait_for_relay(&visit->base);
}
