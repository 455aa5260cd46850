/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Visits and parts: see web_visit.h.
 *
 *     OPEN --answer--> ANSWERED --last release--> timer closing --> free
 *       +--begin--> BODY --gone--^
 *
 * Happy path: the page holds the visit for what it asks, answers, and its visit is freed when all
 * of that has ended. Failures: a browser that leaves during a body ends what was asked for it.
 * Ownership: the pages own the list, the page's ops free the struct. Limits: those of http_port.h.
 */
#include "consumer/web/frame/web_visit.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "consumer/web/frame/web_answer.h"
#include "consumer/web/frame/web_impl.h"

#define FIELDS_BYTES 1536u

/* ---- the end ---- */

void pfl_web_free_if_gone(struct pfl_web *self)
{
    void (*on_closed)(void *user) = self->conf.on_closed;
    void *user = self->conf.user;

    if (!self->is_closing || self->http != NULL || self->visits_ending != 0 ||
        !pfl_list_is_empty(&self->visits) || !pfl_list_is_empty(&self->parts))
        return;
    pfl_log_limit_flush(&self->log, "page-refused");
    pfl_host_rows_free(self->hosts);
    pfl_mem_free(self);
    on_closed(user);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct pfl_web_visit *v = handle->data;
    struct pfl_web *w = v->web;

    pfl_list_remove(&v->node);
    w->visits_ending++;
    v->ops->on_over(v); /* may remove the last part */
    w->visits_ending--;
    pfl_web_free_if_gone(w);
}

static void free_if_over(struct pfl_web_visit *v)
{
    if (v->exchange != NULL || v->holds != 0 || v->is_timer_closing)
        return;
    v->is_timer_closing = true;
    uv_close((uv_handle_t *)&v->timer, on_timer_closed);
}

void pfl_web_visit_init(struct pfl_web_visit *self, struct pfl_web *web,
                        struct pfl_http_exchange *exchange, const struct pfl_web_request *request,
                        const struct pfl_web_visit_ops *ops)
{
    *self = (struct pfl_web_visit){.web = web, .exchange = exchange, .ops = ops};
    self->notice = (unsigned)strtoul(pfl_form_get(request->query, PFL_WEB_NOTICE_FIELD), NULL, 10);
    (void)uv_timer_init(web->conf.conn.loop, &self->timer);
    self->timer.data = self;
    pfl_list_append(&web->visits, &self->node);
}

void pfl_web_visit_hold(struct pfl_web_visit *self)
{
    self->holds++;
}

void pfl_web_visit_release(struct pfl_web_visit *self)
{
    assert(self->holds != 0);
    self->holds--;
    free_if_over(self);
}

static void on_late(uv_timer_t *timer)
{
    struct pfl_web_visit *v = timer->data;

    if (v->exchange != NULL && !v->is_body)
        v->ops->answer(v);
}

void pfl_web_visit_set_timer(struct pfl_web_visit *self, uint64_t ms)
{
    (void)uv_timer_start(&self->timer, on_late, ms, 0);
}

/* ---- the relay ---- */

static void go_on(struct pfl_web_visit *v)
{
    v->is_waiting = false;
    (void)uv_timer_stop(&v->timer);
    v->ops->on_relay(v);
}

static void on_relay_late(uv_timer_t *timer)
{
    go_on(timer->data);
}

static bool is_relay_list_old(const struct pfl_web *w)
{
    const struct pfl_web_relay *relay = &w->conf.relay;

    return relay->name != NULL && pfl_web_get_now_ms(w) - w->listed_ms >= w->conf.fresh_ms &&
           relay->get_away(relay->user) == NULL;
}

void pfl_web_visit_wait_for_relay(struct pfl_web_visit *self)
{
    struct pfl_web *w = self->web;

    if (!is_relay_list_old(w)) {
        go_on(self);
        return;
    }
    self->is_waiting = true;
    if (!w->is_relay_asked)
        w->conf.relay.ask(w->conf.relay.user);
    w->is_relay_asked = true;
    (void)uv_timer_start(&self->timer, on_relay_late, PFL_WEB_RELAY_WAIT_MS, 0);
}

static void take_inventory(struct pfl_web *w)
{
    struct pfl_inventory *inventory = NULL;

    if (!w->is_relay_asked || !w->conf.relay.take(w->conf.relay.user, &inventory))
        return;
    w->is_relay_asked = false;
    if (inventory == NULL)
        return;
    if (pfl_host_rows_give_inventory(w->hosts, inventory) == 0)
        w->listed_ms = pfl_web_get_now_ms(w);
    else
        pfl_inventory_free(inventory);
}

void pfl_web_visits_step(struct pfl_web *self)
{
    const struct pfl_web_relay *relay = &self->conf.relay;
    struct pfl_list *it;
    struct pfl_list *next;
    bool is_away = relay->name != NULL && relay->get_away(relay->user) != NULL;

    if (self->is_closing)
        return;
    if (is_away != (self->away_since_ms != 0))
        self->away_since_ms = is_away ? pfl_web_get_now_ms(self) : 0;
    take_inventory(self);
    if (self->is_relay_asked && !is_away)
        return;
    PFL_LIST_EACH_SAFE (it, next, &self->visits) {
        struct pfl_web_visit *v = PFL_CONTAINER_OF(it, struct pfl_web_visit, node);

        if (v->is_waiting && v->exchange != NULL)
            go_on(v);
    }
}

/* ---- answers ---- */

/* The exchange, which is not the visit's any more. The visit is freed from the loop at the
 * earliest. */
struct pfl_http_exchange *pfl_web_visit_take_exchange(struct pfl_web_visit *self)
{
    struct pfl_http_exchange *x = self->exchange;

    assert(x != NULL && !self->is_body);
    (void)uv_timer_stop(&self->timer);
    self->is_waiting = false;
    self->exchange = NULL;
    free_if_over(self);
    return x;
}

void pfl_web_visit_send_page(struct pfl_web_visit *self, unsigned status, struct pfl_html *html)
{
    pfl_web_send_page(pfl_web_visit_take_exchange(self), status, html);
}

void pfl_web_visit_write_page(struct pfl_web_visit *self,
                              void (*write)(struct pfl_web_visit *visit, struct pfl_html *h))
{
    struct pfl_html h;

    pfl_html_init(&h, PFL_WEB_PAGE_MAX_BYTES);
    write(self, &h);
    pfl_web_visit_send_page(self, 200, &h);
    pfl_html_fini(&h);
}

void pfl_web_visit_refuse(struct pfl_web_visit *self, unsigned status, const char *why)
{
    pfl_web_refuse(self->web, pfl_web_visit_take_exchange(self), status, why);
}

void pfl_web_visit_redirect(struct pfl_web_visit *self, struct pfl_page_address *to,
                            const char *result)
{
    pfl_web_redirect(self->web, pfl_web_visit_take_exchange(self), to, result);
}

/* ---- a body in parts ---- */

static void on_writable(void *user)
{
    struct pfl_web_visit *v = user;

    if (v->ops->on_writable != NULL)
        v->ops->on_writable(v);
}

static void on_gone(void *user, bool is_whole)
{
    struct pfl_web_visit *v = user;

    v->exchange = NULL;
    v->is_body = false;
    if (!is_whole && v->ops->abort != NULL)
        v->ops->abort(v);
    if (v->ops->on_gone != NULL)
        v->ops->on_gone(v, is_whole);
    free_if_over(v);
}

int pfl_web_visit_begin(struct pfl_web_visit *self, const char *type, const char *fields,
                        int64_t length)
{
    static const struct pfl_http_body_ops ops = {on_writable, on_gone};
    char all[FIELDS_BYTES];
    struct pfl_http_answer answer = {.status = 200, .type = type, .fields = all};
    int rc;

    assert(self->exchange != NULL && !self->is_body);
    (void)uv_timer_stop(&self->timer);
    self->is_waiting = false;
    (void)snprintf(all, sizeof(all), "%s%s", PFL_WEB_SECURITY_FIELDS, fields);
    rc = pfl_http_exchange_begin(self->exchange, &answer, length, &ops, self);
    self->is_body = rc == 0;
    if (rc != 0) {
        self->exchange = NULL;
        free_if_over(self);
    }
    return rc;
}

int pfl_web_visit_write(struct pfl_web_visit *self, struct pfl_span part)
{
    return self->exchange != NULL ? pfl_http_exchange_write(self->exchange, part) : PFL_ECLOSED;
}

void pfl_web_visit_end(struct pfl_web_visit *self, bool is_whole)
{
    if (self->exchange == NULL)
        return;
    if (is_whole)
        pfl_http_exchange_end(self->exchange);
    else
        pfl_http_exchange_break(self->exchange);
}

/* ---- parts ---- */

void pfl_web_part_add(struct pfl_web_part *self, struct pfl_web *web,
                      const struct pfl_web_part_ops *ops)
{
    self->web = web;
    self->ops = ops;
    pfl_list_append(&web->parts, &self->node);
}

struct pfl_web_part *pfl_web_part_find(const struct pfl_web *web,
                                       const struct pfl_web_part_ops *ops)
{
    for (const struct pfl_list *it = web->parts.next; it != &web->parts; it = it->next) {
        struct pfl_web_part *part = PFL_CONTAINER_OF(it, struct pfl_web_part, node);

        if (part->ops == ops)
            return part;
    }
    return NULL;
}

void pfl_web_part_remove(struct pfl_web_part *self)
{
    struct pfl_web *w = self->web;

    pfl_list_remove(&self->node);
    pfl_web_free_if_gone(w);
}
