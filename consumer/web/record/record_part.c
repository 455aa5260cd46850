/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recordings' part of the pages: see record_part.h.
 *
 * Happy path: the first request makes it; a timer sends each watching browser the progress as
 * HTML, the same as the page has; the last event says that it is over. Failures: a browser that
 * does not read misses events, not the last one; too many watches are 503, and the page says what
 * to do. Ownership: the part owns recordings and timer until both are closed; a watch is a visit.
 * Limits: those of the header.
 */
#include "consumer/web/record/record_part.h"

#include <string.h>

#include "base/mem.h"
#include "consumer/http/event_stream.h"
#include "consumer/web/frame/web_answer.h"

struct record_part {
    struct pfl_web_part base;
    struct pfl_recordings *recordings; /* owned; NULL once closed */
    struct pfl_list watches;
    unsigned watches_len;
    uv_timer_t timer;
    bool is_timer_closed;
    unsigned ticks;
};

struct watch {
    struct pfl_web_visit base;
    struct pfl_list node;
    struct record_part *part; /* borrowed: outlives us, as visits end before parts are freed */
    uint32_t id;
    bool is_listed;
};

/* ---- the end ---- */

static void free_part_if_closed(struct record_part *p)
{
    if (p->recordings != NULL || !p->is_timer_closed || p->watches_len != 0)
        return;
    pfl_web_part_remove(&p->base);
    pfl_mem_free(p);
}

static void on_recordings_closed(void *user)
{
    struct record_part *p = user;

    p->recordings = NULL;
    free_part_if_closed(p);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct record_part *p = handle->data;

    p->is_timer_closed = true;
    free_part_if_closed(p);
}

static void close_part(struct pfl_web_part *base)
{
    struct record_part *p = PFL_CONTAINER_OF(base, struct record_part, base);

    uv_close((uv_handle_t *)&p->timer, on_timer_closed);
    pfl_recordings_close(p->recordings);
}

/* ---- watches ---- */

static struct watch *watch_of(struct pfl_web_visit *base)
{
    return PFL_CONTAINER_OF(base, struct watch, base);
}

static void unlist(struct watch *w)
{
    if (w->is_listed)
        pfl_list_remove(&w->node);
    w->is_listed = false;
}

static int write_event(const struct pfl_recording_view *view, struct pfl_buf *out)
{
    struct pfl_span text;
    struct pfl_html h;
    int rc;

    pfl_html_init(&h, PFL_WEB_PAGE_MAX_BYTES);
    pfl_recording_page_write_progress(view, &h);
    rc = pfl_html_get(&h, &text);
    if (rc == 0)
        rc = pfl_event_stream_add(out, text);
    pfl_html_fini(&h);
    return rc;
}

/* A browser that did not read what was sent before gets the next one. */
static void send_progress(struct watch *w)
{
    struct pfl_recording_view view;
    struct pfl_buf event;
    int rc;

    if (!pfl_recordings_get(w->part->recordings, w->id, &view)) {
        pfl_web_visit_end(&w->base, true);
        return;
    }
    pfl_buf_init(&event, PFL_WEB_PAGE_MAX_BYTES);
    rc = write_event(&view, &event);
    if (rc == 0)
        rc = pfl_web_visit_write(&w->base, pfl_buf_get(&event));
    pfl_buf_fini(&event);
    if (rc == 0 && view.state == PFL_RECORDING_VIEW_OVER) {
        unlist(w);
        pfl_web_visit_end(&w->base, true);
    }
}

static void on_tick(uv_timer_t *timer)
{
    struct record_part *p = timer->data;
    struct pfl_recording_view view;
    struct pfl_list *it;
    struct pfl_list *next;

    p->ticks++;
    PFL_LIST_EACH_SAFE (it, next, &p->watches) {
        struct watch *w = PFL_CONTAINER_OF(it, struct watch, node);
        bool is_slow = pfl_recordings_get(p->recordings, w->id, &view) &&
                       view.hosts_len > PFL_RECORD_PART_MANY_HOSTS;

        if (!is_slow || p->ticks % 2 == 0)
            send_progress(w);
    }
}

static void on_gone(struct pfl_web_visit *base, bool is_whole)
{
    (void)is_whole;
    unlist(watch_of(base));
}

static void answer(struct pfl_web_visit *base)
{
    pfl_web_visit_refuse(base, 503, "perfleet ui ends.");
}

static void free_watch(struct pfl_web_visit *base)
{
    struct watch *w = watch_of(base);
    struct record_part *p = w->part;

    unlist(w);
    p->watches_len--;
    pfl_mem_free(w);
    free_part_if_closed(p);
}

static const struct pfl_web_visit_ops watch_ops = {
    .answer = answer, .on_gone = on_gone, .on_over = free_watch};

static const struct pfl_web_part_ops part_ops = {.close = close_part};

static struct record_part *find_part(struct pfl_web *web)
{
    struct pfl_web_part *found = pfl_web_part_find(web, &part_ops);

    return found != NULL ? PFL_CONTAINER_OF(found, struct record_part, base) : NULL;
}

void pfl_record_part_watch(struct pfl_web *web, struct pfl_http_exchange *exchange,
                           const struct pfl_web_request *request, uint32_t id)
{
    struct record_part *p = find_part(web);
    struct watch *w = p != NULL && p->watches_len < PFL_RECORD_PART_MAX_WATCHES
                          ? pfl_mem_zalloc(sizeof(*w))
                          : NULL;

    if (w == NULL) {
        pfl_web_refuse(web, exchange, 503, "Too many pages watch recordings: close some.");
        return;
    }
    w->part = p;
    w->id = id;
    p->watches_len++;
    pfl_web_visit_init(&w->base, web, exchange, request, &watch_ops);
    if (pfl_web_visit_begin(&w->base, PFL_EVENT_STREAM_TYPE, "", -1) != 0)
        return;
    if (strcmp(request->http->method, "HEAD") == 0) {
        pfl_web_visit_end(&w->base, true);
        return;
    }
    pfl_list_append(&p->watches, &w->node);
    w->is_listed = true;
    send_progress(w);
}

/* ---- the part ---- */

struct pfl_recordings *pfl_record_part_get(struct pfl_web *web)
{
    const struct pfl_web_conf *web_conf = pfl_web_get_conf(web);
    struct record_part *p = find_part(web);
    struct pfl_recordings_conf conf = {.conn = web_conf->conn,
                                       .step_timeout_ms = web_conf->timeout_ms,
                                       .on_closed = on_recordings_closed};

    if (p != NULL)
        return p->recordings;
    p = pfl_mem_zalloc(sizeof(*p));
    conf.user = p;
    if (p == NULL || pfl_recordings_open(&conf, &p->recordings) != 0) {
        pfl_mem_free(p);
        return NULL;
    }
    pfl_list_init(&p->watches);
    (void)uv_timer_init(web_conf->conn.loop, &p->timer);
    p->timer.data = p;
    (void)uv_timer_start(&p->timer, on_tick, PFL_RECORD_PART_WATCH_MS, PFL_RECORD_PART_WATCH_MS);
    pfl_web_part_add(&p->base, web, &part_ops);
    return p->recordings;
}
