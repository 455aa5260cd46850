/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of traces: see trace_change_visit.h. Happy path: one request to the collector, which
 * judges by the policy; its answer is the result on the page of traces. Failures: the result says
 * why. Ownership: the visit owns its call. Limits: PFL_FORM_MAX_FIELDS traces.
 */
#include "consumer/web/traces/trace_change_visit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "consumer/config/duration.h"
#include "consumer/web/frame/notices.h"
#include "consumer/web/frame/web_answer.h"
#include "consumer/web/traces/collector_visit.h"
#include "consumer/web/traces/trace_download_visit.h"
#include "consumer/web/traces/traces_page.h"

#define ID_BYTES 27u

struct change_visit {
    struct pfl_collector_visit collector;
    enum pfl_traces_action action;
    struct pfl_trace_selection filter;
    char ids[PFL_FORM_MAX_FIELDS][ID_BYTES];
    size_t ids_len;
    char reason[PFL_TRACE_SELECTION_TEXT_MAX];
    uint64_t keep_ms;
    uint64_t count;
    bool is_done;
};

static struct change_visit *visit_of(struct pfl_web_visit *base)
{
    return PFL_CONTAINER_OF(pfl_collector_visit_of(base), struct change_visit, collector);
}

static void lead_back(const struct pfl_trace_selection *filter,
                      struct pfl_page_address *ret_address)
{
    pfl_page_address_begin(ret_address, "/traces");
    pfl_trace_selection_add_address(filter, ret_address);
}

/* ---- the choice ---- */

static void write_command(struct pfl_web *web, const struct pfl_web_request *request,
                          struct pfl_command_line *line)
{
    const char *action = pfl_form_get(request->body, "act");
    char *ids[PFL_FORM_MAX_FIELDS];
    size_t len = pfl_traces_page_read_ids(request->body, ids, PFL_FORM_MAX_FIELDS);

    pfl_command_line_begin(line, "traces");
    pfl_command_line_word(line, action);
    pfl_command_line_quoted(line, pfl_web_get_conf(web)->options);
    if (strcmp(action, "pin") == 0)
        pfl_command_line_quoted(line, " --reason REASON --keep-for 30d");
    for (size_t i = 0; i < len; i++)
        pfl_command_line_word(line, ids[i]);
}

static void send_confirm(struct pfl_web *web, struct pfl_http_exchange *exchange,
                         const struct pfl_web_request *request,
                         const struct pfl_traces_confirm *confirm)
{
    struct pfl_layout layout = pfl_web_lay_out(web, "Traces", "/traces", 0);
    struct pfl_command_line command;
    struct pfl_html h;

    write_command(web, request, &command);
    layout.command = &command;
    pfl_html_init(&h, PFL_WEB_PAGE_MAX_BYTES);
    pfl_traces_page_write_confirm(confirm, &layout, &h);
    pfl_web_send_page(exchange, 200, &h);
    pfl_html_fini(&h);
}

void pfl_trace_change_visit_choose(struct pfl_web *web, struct pfl_http_exchange *exchange,
                                   const struct pfl_web_request *request)
{
    struct pfl_trace_selection filter;
    const struct pfl_traces_confirm confirm = {
        request->body, &filter, pfl_traces_page_parse_action(pfl_form_get(request->body, "act"))};
    struct pfl_page_address back;
    char *id[1];

    pfl_trace_selection_read(request->body, (int64_t)time(NULL), &filter);
    lead_back(&filter, &back);
    if (confirm.action == PFL_TRACES_NONE)
        pfl_web_refuse(web, exchange, 400, "There is no such action.");
    else if (pfl_traces_page_read_ids(request->body, id, 1) == 0)
        pfl_web_redirect(web, exchange, &back, "Choose traces first.");
    else if (confirm.action == PFL_TRACES_DOWNLOAD || confirm.action == PFL_TRACES_OPEN)
        pfl_trace_download_visit_open(web, exchange, request);
    else
        send_confirm(web, exchange, request, &confirm);
}

/* ---- the change ---- */

static void lead_back_with(struct change_visit *v, const char *result)
{
    struct pfl_page_address back;

    lead_back(&v->filter, &back);
    pfl_web_visit_redirect(&v->collector.base, &back, result);
}

static void say_result(struct change_visit *v)
{
    static const char *const words[] = {"", "", "", "pinned", "unpinned", "deleted"};
    char text[PFL_NOTICES_MAX_BYTES];

    if (v->is_done && v->count == v->ids_len)
        (void)snprintf(text, sizeof(text), "%zu %s %s.", v->ids_len,
                       v->ids_len == 1 ? "trace" : "traces", words[v->action]);
    else if (v->is_done)
        (void)snprintf(text, sizeof(text),
                       "%" PRIu64 " of %zu traces %s; the others are not there.", v->count,
                       v->ids_len, words[v->action]);
    else
        (void)snprintf(text, sizeof(text), "Not done: %s.",
                       pfl_collector_visit_get_why(&v->collector));
    lead_back_with(v, text);
}

static void answer(struct pfl_web_visit *base)
{
    lead_back_with(visit_of(base), "perfleet ui ended before the collector answered.");
}

static void send_request(struct change_visit *v, struct pfl_collector_call *call,
                         Perfleet__TraceQuery *query)
{
    Perfleet__CollectorRequest request = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__CollectorRequest__PinRequest what = PERFLEET__COLLECTOR_REQUEST__PIN_REQUEST__INIT;
    Perfleet__StoredTrace__Pin pin = PERFLEET__STORED_TRACE__PIN__INIT;

    pin.reason = v->reason;
    pin.has_end_unix_ns = 1;
    pin.end_unix_ns = (uint64_t)time(NULL) * 1000000000 + v->keep_ms * 1000000;
    what.what = query;
    what.pin = &pin;
    if (v->action == PFL_TRACES_PIN)
        request.pin = &what;
    else if (v->action == PFL_TRACES_UNPIN)
        request.unpin = query;
    else
        request.remove = query;
    (void)pfl_collector_call_send(call, &request);
}

static void on_ready(struct pfl_collector_visit *visit, struct pfl_collector_call *call)
{
    struct change_visit *v = visit_of(&visit->base);
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;
    char *ids[PFL_FORM_MAX_FIELDS];

    for (size_t i = 0; i < v->ids_len; i++)
        ids[i] = v->ids[i];
    query.id = ids;
    query.n_id = v->ids_len;
    send_request(v, call, &query);
}

static void on_reply(struct pfl_collector_visit *visit, const Perfleet__CollectorReply *reply)
{
    struct change_visit *v = visit_of(&visit->base);

    v->count += reply->count;
    if (reply->status == 0 && reply->has_more)
        return;
    v->is_done = reply->status == 0;
    pfl_collector_call_end(v->collector.call,
                           v->is_done ? "" : pfl_collector_call_quote_why(reply));
}

static void on_done(struct pfl_collector_visit *visit)
{
    if (visit->base.exchange != NULL)
        say_result(visit_of(&visit->base));
}

static void free_visit(struct pfl_web_visit *base)
{
    struct change_visit *v = visit_of(base);

    pfl_collector_visit_fini(&v->collector);
    pfl_mem_free(v);
}

static void read_form(struct change_visit *v, const struct pfl_form *form)
{
    char *ids[PFL_FORM_MAX_FIELDS];

    v->action = pfl_traces_page_parse_action(pfl_form_get(form, "act"));
    pfl_trace_selection_read(form, (int64_t)time(NULL), &v->filter);
    v->ids_len = pfl_traces_page_read_ids(form, ids, PFL_FORM_MAX_FIELDS);
    for (size_t i = 0; i < v->ids_len; i++)
        (void)snprintf(v->ids[i], sizeof(v->ids[i]), "%s", ids[i]);
    (void)snprintf(v->reason, sizeof(v->reason), "%s", pfl_form_get(form, "reason"));
}

/* "" or what is missing. */
static const char *judge(struct change_visit *v, const struct pfl_form *form)
{
    if (v->action != PFL_TRACES_PIN && v->action != PFL_TRACES_UNPIN &&
        v->action != PFL_TRACES_REMOVE)
        return "There is no such change.";
    if (v->ids_len == 0)
        return "Choose traces first.";
    if (v->action == PFL_TRACES_PIN && v->reason[0] == '\0')
        return "Not pinned: give a reason, so that others see why they are kept.";
    if (v->action == PFL_TRACES_PIN &&
        !pfl_duration_parse_age(pfl_form_get(form, "keep"), &v->keep_ms))
        return "Not pinned: keep for a time such as 30d or 12h.";
    return pfl_web_get_conf(v->collector.base.web)->conn.tunnel == NULL
               ? "Traces come from a collector, which needs a relay."
               : "";
}

void pfl_trace_change_visit_open(struct pfl_web *web, struct pfl_http_exchange *exchange,
                                 const struct pfl_web_request *request)
{
    static const struct pfl_web_visit_ops ops = {
        .answer = answer, .abort = pfl_collector_visit_abort, .on_over = free_visit};
    static const struct pfl_collector_visit_ops collector = {on_ready, on_reply, on_done};
    struct change_visit *v = pfl_mem_zalloc(sizeof(*v));
    const char *why;

    if (v == NULL) {
        pfl_web_refuse(web, exchange, 503, "Out of memory.");
        return;
    }
    pfl_web_visit_init(&v->collector.base, web, exchange, request, &ops);
    read_form(v, request->body);
    why = judge(v, request->body);
    if (why[0] != '\0')
        lead_back_with(v, why);
    else if (!pfl_collector_visit_call(&v->collector, &collector))
        lead_back_with(v, "Out of memory.");
}
