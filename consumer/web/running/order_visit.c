/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One order: see order_visit.h. Happy path: one request to the collector, which judges by the
 * policy and knows orders by their orderer; its answer is the page, or the result on Running.
 * Failures: the page, or the result, says why. Ownership: the visit owns its rows and its call.
 * Limits: PFL_ORDER_ROWS_HOSTS_MAX.
 */
#include "consumer/web/running/order_visit.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "consumer/web/frame/notices.h"
#include "consumer/web/frame/web_answer.h"
#include "consumer/web/running/order_page.h"
#include "consumer/web/traces/collector_visit.h"
#include "proto/tunnel/identity.h"

struct order_visit {
    struct pfl_collector_visit collector;
    enum pfl_order_action action; /* NONE: the page */
    char name[PFL_ORDER_ROWS_NAME_BYTES];
    char orderer[PFL_ORDER_ROWS_NAME_BYTES]; /* "": the operator */
    struct pfl_order_rows rows;
    struct pfl_order_host_row hosts[PFL_ORDER_ROWS_HOSTS_MAX];
    bool is_done;    /* the collector has answered */
    const char *why; /* static; NULL: that of the collector */
};

static struct order_visit *visit_of(struct pfl_web_visit *base)
{
    return PFL_CONTAINER_OF(pfl_collector_visit_of(base), struct order_visit, collector);
}

static void begin_command(struct pfl_web *web, const char *verb, struct pfl_command_line *ret_line)
{
    const struct pfl_web_conf *conf = pfl_web_get_conf(web);

    pfl_command_line_begin(ret_line, "order");
    pfl_command_line_word(ret_line, verb);
    pfl_command_line_quoted(ret_line, conf->options);
    pfl_command_line_option(ret_line, "--collector", conf->collector);
}

/* ---- the page ---- */

static const char *why_of(const struct order_visit *v)
{
    if (v->is_done)
        return "";
    return v->why != NULL ? v->why : pfl_collector_visit_get_why(&v->collector);
}

static void write_page(struct pfl_web_visit *base, struct pfl_html *h)
{
    struct order_visit *v = visit_of(base);
    const struct pfl_order_page page = {.rows = &v->rows,
                                        .name = v->name,
                                        .own_name = pfl_web_get_conf(base->web)->own_name,
                                        .why = why_of(v)};
    struct pfl_layout layout = pfl_web_lay_out(base->web, "Order", "/running", base->notice);
    char name[2 * PFL_ORDER_ROWS_NAME_BYTES];
    struct pfl_command_line command;

    (void)snprintf(name, sizeof(name), "%s%s%s", v->orderer, v->orderer[0] != '\0' ? "/" : "",
                   v->name);
    begin_command(base->web, "show", &command);
    pfl_command_line_word(&command, name);
    layout.command = &command;
    pfl_order_page_write(&page, &layout, h);
}

/* ---- the change ---- */

static void say_result(struct order_visit *v)
{
    char text[4 * PFL_NOTICES_MAX_BYTES]; /* the notice is cut */
    struct pfl_page_address to;

    if (v->is_done)
        (void)snprintf(text, sizeof(text), "Order %s was %s.", v->name,
                       pfl_order_page_name_done(v->action));
    else
        (void)snprintf(text, sizeof(text), "Order %s was not %s: %s.", v->name,
                       pfl_order_page_name_done(v->action), why_of(v));
    pfl_page_address_begin(&to, "/running");
    pfl_web_visit_redirect(&v->collector.base, &to, text);
}

static void send_answer(struct order_visit *v)
{
    if (v->collector.base.exchange == NULL)
        return;
    if (v->action == PFL_ORDER_NONE)
        pfl_web_visit_write_page(&v->collector.base, write_page);
    else
        say_result(v);
}

/* ---- the collector ---- */

static void on_ready(struct pfl_collector_visit *visit, struct pfl_collector_call *call)
{
    struct order_visit *v = visit_of(&visit->base);
    Perfleet__CollectorRequest request = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__CollectorRequest__OrderRef ref = PERFLEET__COLLECTOR_REQUEST__ORDER_REF__INIT;

    ref.name = v->name;
    if (v->orderer[0] != '\0')
        ref.orderer = v->orderer;
    if (v->action == PFL_ORDER_NONE)
        request.show_order = &ref;
    else if (v->action == PFL_ORDER_PAUSE)
        request.pause_order = &ref;
    else if (v->action == PFL_ORDER_RESUME)
        request.resume_order = &ref;
    else
        request.remove_order = &ref;
    (void)pfl_collector_call_send(call, &request);
}

static void on_reply(struct pfl_collector_visit *visit, const Perfleet__CollectorReply *reply)
{
    struct order_visit *v = visit_of(&visit->base);

    pfl_order_rows_take(&v->rows, reply);
    if (reply->status == 0 && reply->has_more)
        return;
    v->is_done = reply->status == 0;
    pfl_collector_call_end(visit->call, v->is_done ? "" : pfl_collector_call_quote_why(reply));
}

static void on_done(struct pfl_collector_visit *visit)
{
    send_answer(visit_of(&visit->base));
}

/* ---- the visit ---- */

static void answer(struct pfl_web_visit *base)
{
    struct order_visit *v = visit_of(base);

    v->why = pfl_web_is_closing(base->web) ? "perfleet ui ends" : "the collector did not answer";
    send_answer(v);
}

static void free_visit(struct pfl_web_visit *base)
{
    struct order_visit *v = visit_of(base);

    pfl_collector_visit_fini(&v->collector);
    pfl_mem_free(v);
}

static void open_visit(struct pfl_web *web, struct pfl_http_exchange *exchange,
                       const struct pfl_web_request *request, enum pfl_order_action action)
{
    static const struct pfl_web_visit_ops ops = {
        .answer = answer, .abort = pfl_collector_visit_abort, .on_over = free_visit};
    static const struct pfl_collector_visit_ops collector = {on_ready, on_reply, on_done};
    const struct pfl_form *form = action == PFL_ORDER_NONE ? request->query : request->body;
    struct order_visit *v = pfl_mem_zalloc(sizeof(*v));

    if (v == NULL) {
        pfl_web_refuse(web, exchange, 503, "Out of memory.");
        return;
    }
    pfl_web_visit_init(&v->collector.base, web, exchange, request, &ops);
    v->action = action;
    (void)snprintf(v->name, sizeof(v->name), "%s",
                   pfl_form_get(form, action == PFL_ORDER_NONE ? "name" : "order"));
    if (action == PFL_ORDER_NONE)
        (void)snprintf(v->orderer, sizeof(v->orderer), "%s", pfl_form_get(form, "orderer"));
    pfl_order_rows_keep_hosts(&v->rows, v->hosts);
    if (!pfl_collector_visit_call(&v->collector, &collector))
        send_answer(v);
}

void pfl_order_visit_open(struct pfl_web *web, struct pfl_http_exchange *exchange,
                          const struct pfl_web_request *request)
{
    const char *orderer = pfl_form_get(request->query, "orderer");

    if (!pfl_identity_is_name(pfl_form_get(request->query, "name")) ||
        (orderer[0] != '\0' && !pfl_identity_is_name(orderer)))
        pfl_web_refuse(web, exchange, 400, "Give the name of an order.");
    else
        open_visit(web, exchange, request, PFL_ORDER_NONE);
}

static void ask_first(struct pfl_web *web, struct pfl_http_exchange *exchange, const char *name,
                      enum pfl_order_action action)
{
    struct pfl_layout layout = pfl_web_lay_out(web, "Order", "/running", 0);
    struct pfl_command_line command;
    struct pfl_html h;

    begin_command(web, pfl_order_page_name_action(action), &command);
    pfl_command_line_word(&command, name);
    layout.command = &command;
    pfl_html_init(&h, PFL_WEB_PAGE_MAX_BYTES);
    pfl_order_page_write_confirm(action, name, &layout, &h);
    pfl_web_send_page(exchange, 200, &h);
    pfl_html_fini(&h);
}

void pfl_order_visit_change(struct pfl_web *web, struct pfl_http_exchange *exchange,
                            const struct pfl_web_request *request)
{
    enum pfl_order_action action = pfl_order_page_parse_action(pfl_form_get(request->body, "do"));
    const char *name = pfl_form_get(request->body, "order");

    if (action == PFL_ORDER_NONE)
        pfl_web_refuse(web, exchange, 400, "There is no such action.");
    else if (!pfl_identity_is_name(name))
        pfl_web_refuse(web, exchange, 400, "Give the name of an order.");
    else if (pfl_form_has(request->body, "sure"))
        open_visit(web, exchange, request, action);
    else
        ask_first(web, exchange, name, action);
}
