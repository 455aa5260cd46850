/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A live view over HTTP: see live_port.h.
 *
 * Happy path: the page asks for a view that is newer than its own; the question is held until there
 * is one, or for a while; when a copy is due, on_wanted. The page then fetches the copy as any
 * trace. Failures: a copy that failed is part of the next answer. At the end the page is answered
 * why, and has LAST_MS to read it. Ownership: the hand-over port, a timer and the held question,
 * until on_closed. Limits: one held question; another one ends it; one copy at a time.
 */
#include "consumer/open/live_port.h"

#include "base/mem.h"

#define TICK_MS          100u
#define LAST_MS          1000u
#define ANSWER_MAX_BYTES 8192u

struct pfl_live_port {
    struct pfl_live_port_conf conf;
    struct pfl_live_view view;
    struct pfl_hand_over_port *port; /* owned until on_port_closed; NULL: none */
    struct pfl_http_exchange *held;  /* owned; NULL: no question */
    struct pfl_live_view_ask held_ask;
    uint64_t held_ms;
    uint64_t ended_ms;
    uv_timer_t timer;
    bool is_timer_open;
    bool has_ended;
    bool is_done; /* on_done was called */
    bool is_closing;
};

/* ---- answers ---- */

static void answer(struct pfl_live_port *p, struct pfl_http_exchange *exchange)
{
    struct pfl_buf out;

    pfl_buf_init(&out, ANSWER_MAX_BYTES);
    if (pfl_live_view_add_json(&p->view, pfl_hand_over_port_get(p->port), &out) == 0)
        pfl_http_exchange_answer(exchange, &(struct pfl_http_answer){.status = 200,
                                                                     .type = "application/json",
                                                                     .body = pfl_buf_get(&out)});
    else
        pfl_http_exchange_answer(exchange,
                                 &(struct pfl_http_answer){.status = 503, .type = "text/plain"});
    pfl_buf_fini(&out);
}

static void answer_held(struct pfl_live_port *p)
{
    struct pfl_http_exchange *held = p->held;

    p->held = NULL;
    if (held != NULL)
        answer(p, held);
}

static bool is_fetched(const struct pfl_live_port *p)
{
    const struct pfl_hand_over *h = pfl_hand_over_port_get(p->port);

    return h->traces_len == 0 || h->traces[0].is_fetched || h->traces[0].is_under_way;
}

static bool is_under_way(const struct pfl_live_port *p)
{
    const struct pfl_hand_over *h = pfl_hand_over_port_get(p->port);

    return h->traces_len != 0 && h->traces[0].is_under_way;
}

static void on_next(void *user, struct pfl_http_exchange *exchange, const char *query)
{
    struct pfl_live_port *p = user;
    struct pfl_live_view_ask ask;

    if (pfl_live_view_parse(query, &ask) != 0) {
        pfl_http_exchange_answer(exchange,
                                 &(struct pfl_http_answer){.status = 400, .type = "text/plain"});
        return;
    }
    answer_held(p);
    if (p->is_closing || pfl_live_view_ask(&p->view, &ask, is_fetched(p), uv_now(p->conf.loop))) {
        answer(p, exchange);
        return;
    }
    p->held = exchange;
    p->held_ask = ask;
    p->held_ms = uv_now(p->conf.loop);
}

/* ---- time ---- */

static void end_if_over(struct pfl_live_port *p, uint64_t now_ms)
{
    enum pfl_live_view_end end = pfl_live_view_check(&p->view, now_ms);

    if (end == PFL_LIVE_VIEW_RUNS)
        return;
    if (!p->has_ended) {
        p->has_ended = true;
        p->ended_ms = now_ms;
        answer_held(p);
    }
    if (now_ms - p->ended_ms < LAST_MS || p->is_done)
        return;
    p->is_done = true;
    p->conf.on_done(p->conf.user, end);
}

static void on_tick(uv_timer_t *timer)
{
    struct pfl_live_port *p = timer->data;
    uint64_t now_ms = uv_now(p->conf.loop);

    if (p->held != NULL && now_ms - p->held_ms >= PFL_LIVE_VIEW_HOLD_MS)
        answer_held(p);
    if (pfl_live_view_is_due(&p->view, now_ms) && !is_under_way(p)) {
        pfl_live_view_begin(&p->view, now_ms);
        p->conf.on_wanted(p->conf.user);
    }
    end_if_over(p, now_ms);
}

/* ---- copies ---- */

void pfl_live_port_begin(struct pfl_live_port *self)
{
    pfl_live_view_begin(&self->view, uv_now(self->conf.loop));
}

static void end_copy(struct pfl_live_port *p, uint64_t bytes, const char *why)
{
    uv_update_time(p->conf.loop);
    pfl_live_view_end(&p->view, bytes, why, uv_now(p->conf.loop));
    if (p->held != NULL && p->held_ask.tab == PFL_LIVE_VIEW_TAB_OPEN && !p->held_ask.is_held)
        answer_held(p);
}

int pfl_live_port_give(struct pfl_live_port *self, const char *path, uint64_t bytes,
                       struct pfl_hand_over_problem *ret_problem)
{
    int rc = pfl_hand_over_port_replace(self->port, path, ret_problem);

    if (rc == 0)
        end_copy(self, bytes, NULL);
    return rc;
}

void pfl_live_port_fail(struct pfl_live_port *self, uint64_t bytes, const char *why)
{
    end_copy(self, bytes, why);
}

/* ---- the whole ---- */

static void free_if_gone(struct pfl_live_port *p)
{
    void (*on_closed)(void *user) = p->conf.on_closed;
    void *user = p->conf.user;

    if (p->port != NULL || p->is_timer_open)
        return;
    pfl_mem_free(p);
    on_closed(user);
}

static void on_port_closed(void *user)
{
    struct pfl_live_port *p = user;

    p->port = NULL;
    free_if_gone(p);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct pfl_live_port *p = handle->data;

    p->is_timer_open = false;
    free_if_gone(p);
}

void pfl_live_port_close(struct pfl_live_port *self)
{
    if (self->is_closing)
        return;
    self->is_closing = true;
    answer_held(self);
    pfl_hand_over_port_close(self->port);
    uv_close((uv_handle_t *)&self->timer, on_timer_closed);
}

/* A page that fetches, or does not, is seen by what it asks next. */
static void on_fetched(void *user, size_t trace, const char *why)
{
    (void)user;
    (void)trace;
    (void)why;
}

static void on_refused(void *user, const char *why)
{
    struct pfl_live_port *p = user;

    p->conf.on_refused(p->conf.user, why);
}

int pfl_live_port_new(const struct pfl_live_port_conf *conf, struct pfl_live_port **ret_port,
                      struct pfl_hand_over_problem *ret_problem)
{
    struct pfl_live_port *p = pfl_mem_zalloc(sizeof(*p));
    const struct pfl_hand_over_port_conf port = {.loop = conf->loop,
                                                 .way = conf->way,
                                                 .ui_url = conf->ui_url,
                                                 .ui_dir = conf->ui_dir,
                                                 .port = conf->port,
                                                 .on_next = on_next,
                                                 .on_fetched = on_fetched,
                                                 .on_refused = on_refused,
                                                 .on_closed = on_port_closed,
                                                 .user = p};
    int rc;

    *ret_problem = (struct pfl_hand_over_problem){0};
    if (p == NULL)
        return PFL_ENOMEM;
    p->conf = *conf;
    pfl_live_view_init(&p->view, &conf->view, uv_now(conf->loop));
    rc = pfl_hand_over_port_new(&port, &p->port, ret_problem);
    if (rc != 0) {
        pfl_mem_free(p);
        return rc;
    }
    (void)uv_timer_init(conf->loop, &p->timer);
    p->timer.data = p;
    p->is_timer_open = true;
    *ret_port = p;
    return 0;
}

int pfl_live_port_start(struct pfl_live_port *self)
{
    int rc = pfl_hand_over_port_start(self->port);

    if (rc != 0)
        return rc;
    self->view.begun_ms = uv_now(self->conf.loop);
    (void)uv_timer_start(&self->timer, on_tick, TICK_MS, TICK_MS);
    return 0;
}

const struct pfl_hand_over *pfl_live_port_get(const struct pfl_live_port *self)
{
    return pfl_hand_over_port_get(self->port);
}

const struct pfl_live_view *pfl_live_port_get_view(const struct pfl_live_port *self)
{
    return &self->view;
}
