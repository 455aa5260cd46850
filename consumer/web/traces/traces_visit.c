/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page of traces: see traces_visit.h. Happy path: the collector lists a page of traces, with
 * which the browser gets the beginning; then the collector adds up by time, which may take a while
 * for a million, and the map is the end of the same page. Failures: a sentence in place of either.
 * Ownership: the visit owns its call and its HTML. Limits: PFL_TRACES_PAGE_ROWS, trace_heat.h.
 */
#include "consumer/web/traces/traces_visit.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "consumer/web/frame/web_answer.h"
#include "consumer/web/traces/collector_visit.h"
#include "consumer/web/traces/trace_heat.h"
#include "consumer/web/traces/traces_page.h"

struct traces_visit {
    struct pfl_collector_visit collector;
    struct pfl_trace_selection filter;
    struct pfl_trace_rows rows;
    char next[2 * PFL_TRACE_SELECTION_CURSOR_MAX + 1];
    uint64_t looked_to_unix_ns;
    char why[512];
    uint32_t list_id;
    uint32_t sum_id;
    struct pfl_command_line command;
    struct pfl_html html;
    bool is_begun;   /* the browser has the beginning */
    bool is_written; /* the end is in `html` */
};

static struct traces_visit *visit_of(struct pfl_web_visit *base)
{
    return PFL_CONTAINER_OF(pfl_collector_visit_of(base), struct traces_visit, collector);
}

static struct pfl_layout lay_out(struct traces_visit *v)
{
    struct pfl_layout layout =
        pfl_web_lay_out(v->collector.base.web, "Traces", "/traces", v->collector.base.notice);

    layout.command = &v->command;
    return layout;
}

/* ---- the page, in two parts ---- */

static void write_end(struct traces_visit *v)
{
    struct pfl_span rest;
    int rc = pfl_html_get(&v->html, &rest);

    if (rc == 0)
        rc = pfl_web_visit_write(&v->collector.base, rest);
    if (rc == PFL_ELIMIT && v->html.rc == 0)
        return; /* on_writable */
    pfl_web_visit_end(&v->collector.base, rc == 0);
}

static void end_page(struct traces_visit *v, const Perfleet__CollectorReply *map, const char *why)
{
    struct pfl_layout layout = lay_out(v);

    if (!v->is_begun || v->is_written)
        return;
    v->is_written = true;
    pfl_traces_page_end(&v->filter, map, why, &layout, &v->html);
    write_end(v);
}

static void begin_page(struct traces_visit *v, const char *why)
{
    struct pfl_layout layout = lay_out(v);
    const struct pfl_traces_page page = {&v->filter, &v->rows, v->next, v->looked_to_unix_ns, why};

    pfl_traces_page_begin(&page, &layout, &v->html);
    if (v->html.rc != 0) {
        pfl_web_visit_send_page(&v->collector.base, 503, &v->html);
        return;
    }
    if (pfl_web_visit_begin(&v->collector.base, "text/html; charset=utf-8", "", -1) != 0)
        return;
    v->is_begun = true;
    if (pfl_web_visit_write(&v->collector.base, pfl_buf_get(&v->html.out)) != 0)
        pfl_web_visit_end(&v->collector.base, false);
    pfl_buf_clear(&v->html.out);
}

/* Without a list there is no map. */
static void answer_without(struct traces_visit *v, const char *why)
{
    if (v->collector.base.exchange == NULL || v->is_begun)
        return;
    begin_page(v, why);
    end_page(v, NULL, "");
}

static void answer(struct pfl_web_visit *base)
{
    answer_without(visit_of(base), "perfleet ui ends.");
}

static void on_writable(struct pfl_web_visit *base)
{
    struct traces_visit *v = visit_of(base);

    if (v->is_written)
        write_end(v);
}

/* ---- the collector ---- */

static void on_ready(struct pfl_collector_visit *visit, struct pfl_collector_call *call)
{
    struct traces_visit *v = visit_of(&visit->base);
    Perfleet__CollectorRequest request = PERFLEET__COLLECTOR_REQUEST__INIT;
    struct pfl_trace_selection_query query;

    pfl_trace_selection_fill(&v->filter, PFL_TRACES_PAGE_ROWS, &query);
    request.list = &query.query;
    v->list_id = pfl_collector_call_send(call, &request);
}

static void ask_sum(struct traces_visit *v)
{
    Perfleet__CollectorRequest request = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__CollectorRequest__SumRequest sum = PERFLEET__COLLECTOR_REQUEST__SUM_REQUEST__INIT;
    struct pfl_trace_selection_query query;

    pfl_trace_selection_fill(&v->filter, 0, &query);
    request.sum = &sum;
    sum.what = &query.query;
    sum.has_cells = 1;
    sum.cells = PFL_TRACE_HEAT_CELLS;
    sum.label = v->filter.group[0] != '\0' ? v->filter.group : NULL;
    v->sum_id = pfl_collector_call_send(v->collector.call, &request);
}

static void take_list(struct traces_visit *v, const Perfleet__CollectorReply *reply)
{
    if (reply->status != 0) {
        pfl_collector_call_end(v->collector.call, pfl_collector_call_quote_why(reply));
        return;
    }
    pfl_trace_rows_take(&v->rows, reply);
    if (reply->has_cursor)
        pfl_trace_selection_write_cursor(pfl_span_of(reply->cursor.data, reply->cursor.len),
                                         v->next);
    if (reply->has_more)
        return;
    v->looked_to_unix_ns = reply->looked_to_unix_ns;
    v->list_id = 0;
    begin_page(v, "");
    if (v->is_begun)
        ask_sum(v);
}

static void take_sum(struct traces_visit *v, const Perfleet__CollectorReply *reply)
{
    if (reply->status == 0 && reply->has_more)
        return; /* it still counts */
    if (reply->status == 0)
        end_page(v, reply, "");
    pfl_collector_call_end(v->collector.call,
                           reply->status != 0 ? pfl_collector_call_quote_why(reply) : "");
}

static void on_reply(struct pfl_collector_visit *visit, const Perfleet__CollectorReply *reply)
{
    struct traces_visit *v = visit_of(&visit->base);

    if (v->collector.base.exchange == NULL)
        pfl_collector_call_end(v->collector.call, "");
    else if (v->list_id != 0 && reply->id == v->list_id)
        take_list(v, reply);
    else if (v->sum_id != 0 && reply->id == v->sum_id)
        take_sum(v, reply);
}

static void on_done(struct pfl_collector_visit *visit)
{
    struct traces_visit *v = visit_of(&visit->base);
    const char *why = pfl_collector_visit_get_why(visit);

    answer_without(v, why);
    end_page(v, NULL, why);
}

static void ask_collector(struct traces_visit *v)
{
    static const struct pfl_collector_visit_ops ops = {on_ready, on_reply, on_done};

    if (pfl_web_get_conf(v->collector.base.web)->conn.tunnel == NULL)
        answer_without(v, "Traces come from a collector, which needs a relay: start "
                          "perfleet ui with --relay.");
    else if (v->filter.why[0] != '\0')
        answer_without(v, "");
    else if (!pfl_collector_visit_call(&v->collector, &ops))
        answer_without(v, "Out of memory.");
}

/* ---- the visit ---- */

static void free_visit(struct pfl_web_visit *base)
{
    struct traces_visit *v = visit_of(base);

    pfl_collector_visit_fini(&v->collector);
    pfl_html_fini(&v->html);
    pfl_mem_free(v);
}

void pfl_traces_visit_open(struct pfl_web *web, struct pfl_http_exchange *exchange,
                           const struct pfl_web_request *request)
{
    static const struct pfl_web_visit_ops ops = {.answer = answer,
                                                 .abort = pfl_collector_visit_abort,
                                                 .on_writable = on_writable,
                                                 .on_over = free_visit};
    struct traces_visit *v = pfl_mem_zalloc(sizeof(*v));

    if (v == NULL) {
        pfl_web_refuse(web, exchange, 503, "Out of memory.");
        return;
    }
    pfl_web_visit_init(&v->collector.base, web, exchange, request, &ops);
    pfl_html_init(&v->html, PFL_WEB_PAGE_MAX_BYTES);
    pfl_trace_selection_read(request->query, (int64_t)time(NULL), &v->filter);
    pfl_command_line_begin(&v->command, "traces list");
    pfl_command_line_quoted(&v->command, pfl_web_get_conf(web)->options);
    pfl_trace_selection_add_options(&v->filter, &v->command);
    ask_collector(v);
}
