/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A visit is one request to a page that is not answered at once: its exchange, its time limit, and
 * what it waits for. A page embeds it in its own struct. A part is what a page keeps between
 * requests.
 */
#ifndef PFL_CONSUMER_WEB_FRAME_WEB_VISIT_H
#define PFL_CONSUMER_WEB_FRAME_WEB_VISIT_H

#include "base/list.h"
#include "consumer/http/form.h"
#include "consumer/http/http_port.h"
#include "consumer/web/frame/web_conf.h"
#include "consumer/web/html/html.h"
#include "consumer/web/html/page_address.h"

struct pfl_web_visit;

/* A request that has access; all is borrowed until the route's handler returns. */
struct pfl_web_request {
    const struct pfl_http_request *http;
    const struct pfl_form *query;
    const struct pfl_form *body; /* of POST: the form, whose token was right; else without fields */
};

/* The field of a page's query that has the number of a change's result (pfl_web_redirect). */
#define PFL_WEB_NOTICE_FIELD "done"

/* Callbacks run from the loop, or from the visit's own functions where that is said. */
struct pfl_web_visit_ops {
    /* The relay's list of hosts is as fresh as it gets: see pfl_web_visit_wait_for_relay. */
    void (*on_relay)(struct pfl_web_visit *visit);
    /* Answer with what is known: the visit's time is over, or the pages end. The exchange is there.
     */
    void (*answer)(struct pfl_web_visit *visit);
    /* End what was asked: the pages end, or the browser left during a body in parts. NULL: nothing
     * is asked. */
    void (*abort)(struct pfl_web_visit *visit);
    /* As of pfl_http_body_ops; NULL: without a body in parts. */
    void (*on_writable)(struct pfl_web_visit *visit);
    void (*on_gone)(struct pfl_web_visit *visit, bool is_whole);
    /* Last callback: frees the page's struct, and with it the visit. */
    void (*on_over)(struct pfl_web_visit *visit);
};

struct pfl_web_visit {
    struct pfl_list node;
    struct pfl_web *web;                 /* borrowed: outlives us */
    struct pfl_http_exchange *exchange;  /* NULL once answered */
    const struct pfl_web_visit_ops *ops; /* borrowed; static */
    unsigned notice;                     /* of the query: for pfl_web_lay_out */
    unsigned holds;                      /* what it waits for */
    bool is_waiting;                     /* for the relay */
    bool is_body;                        /* in parts, under way */
    bool is_timer_closing;
    uv_timer_t timer;
};

/* The exchange is the visit's. It lives until it is answered and nothing holds it. */
void pfl_web_visit_init(struct pfl_web_visit *self, struct pfl_web *web,
                        struct pfl_http_exchange *exchange, const struct pfl_web_request *request,
                        const struct pfl_web_visit_ops *ops);
/* For each thing that will call back: a hold before, a release in its last callback. The last
 * release after the answer frees the visit, from the loop. */
void pfl_web_visit_hold(struct pfl_web_visit *self);
void pfl_web_visit_release(struct pfl_web_visit *self);
/* ops->answer is called after `ms`, unless it was answered by then. */
void pfl_web_visit_set_timer(struct pfl_web_visit *self, uint64_t ms);
/* Asks the relay for its hosts if the list is old; ops->on_relay follows, perhaps at once. */
void pfl_web_visit_wait_for_relay(struct pfl_web_visit *self);

/* ---- answers: see web_answer.h; each stops the timer ---- */

void pfl_web_visit_send_page(struct pfl_web_visit *self, unsigned status, struct pfl_html *html);
/* With the page that `write` makes. */
void pfl_web_visit_write_page(struct pfl_web_visit *self,
                              void (*write)(struct pfl_web_visit *visit, struct pfl_html *h));
void pfl_web_visit_refuse(struct pfl_web_visit *self, unsigned status, const char *why);
void pfl_web_visit_redirect(struct pfl_web_visit *self, struct pfl_page_address *to,
                            const char *result);

/* For an answer that another one makes: the exchange is the caller's. */
struct pfl_http_exchange *pfl_web_visit_take_exchange(struct pfl_web_visit *self);

/* ---- a body in parts, as of http_port.h: a download, or events ---- */

/* `fields` are further ones ("Content-Disposition: ..."); those of all pages are added.
 * PFL_ECLOSED: the browser left; the visit is answered, and ops->on_gone does not come. */
PFL_MUST_USE int pfl_web_visit_begin(struct pfl_web_visit *self, const char *type,
                                     const char *fields, int64_t length);
PFL_MUST_USE int pfl_web_visit_write(struct pfl_web_visit *self, struct pfl_span part);
void pfl_web_visit_end(struct pfl_web_visit *self, bool is_whole);

/* ---- what a page keeps between requests ---- */

struct pfl_web_part;

struct pfl_web_part_ops {
    /* The pages end: end all, then pfl_web_part_remove, now or later. */
    void (*close)(struct pfl_web_part *part);
};

struct pfl_web_part {
    struct pfl_list node;
    struct pfl_web *web;                /* borrowed: outlives us */
    const struct pfl_web_part_ops *ops; /* borrowed; static */
};

void pfl_web_part_add(struct pfl_web_part *self, struct pfl_web *web,
                      const struct pfl_web_part_ops *ops);
/* The first one with these ops, or NULL. */
struct pfl_web_part *pfl_web_part_find(const struct pfl_web *web,
                                       const struct pfl_web_part_ops *ops);
/* Its last act; the owner frees it before or after. */
void pfl_web_part_remove(struct pfl_web_part *self);

#endif
