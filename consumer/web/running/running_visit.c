/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Running page: see running_visit.h.
 *
 *     GET --relay--> hosts and collector asked --both over, or late--> sessions, orders
 *
 * Failures: hosts that do not answer are counted; a collector that does not is said. Neither hides
 * the other's part. Ownership: the visit owns its question to hosts, its call to the collector and
 * what they say. Limits: PFL_RUNNING_VISIT_MAX_HOSTS are asked.
 */
#include "consumer/web/running/running_visit.h"

#include <time.h>

#include "base/mem.h"
#include "consumer/host/host_state.h"
#include "consumer/web/frame/host_question.h"
#include "consumer/web/frame/web_answer.h"
#include "consumer/web/running/running_page.h"
#include "consumer/web/traces/collector_visit.h"

struct running_visit {
    struct pfl_collector_visit collector;
    struct pfl_host_question question;
    struct pfl_running_rows rows;
    struct pfl_order_rows orders;
    bool has_orders; /* all of them */
};

static struct running_visit *visit_of(struct pfl_web_visit *base)
{
    return PFL_CONTAINER_OF(pfl_collector_visit_of(base), struct running_visit, collector);
}

/* ---- the page ---- */

/* How many have answered. */
static size_t take_rows(struct running_visit *v)
{
    size_t answered = 0;

    for (size_t i = 0; i < pfl_host_question_get_len(&v->question); i++) {
        struct pfl_host_state state = pfl_host_state_get(v->question.fan_out, i);
        const struct pfl_host_spec *spec = pfl_fan_out_get_host(v->question.fan_out, i)->spec;

        answered += state.why[0] == '\0' &&
                    pfl_running_rows_add(&v->rows, spec->name[0] != '\0' ? spec->name : spec->text,
                                         state.state) == 0;
    }
    return answered;
}

static const char *why_no_orders(const struct running_visit *v)
{
    if (v->has_orders)
        return "";
    return v->collector.is_open ? "the collector did not answer in time"
                                : pfl_collector_visit_get_why(&v->collector);
}

static void write_page(struct pfl_web_visit *base, struct pfl_html *h)
{
    struct running_visit *v = visit_of(base);
    const struct pfl_web_conf *conf = pfl_web_get_conf(base->web);
    struct pfl_layout layout = pfl_web_lay_out(base->web, "Running", "/running", base->notice);
    struct pfl_command_line command;
    const struct pfl_order_page orders = {.rows = &v->orders,
                                          .own_name = conf->own_name,
                                          .has_collector =
                                              v->collector.call == NULL || v->collector.is_open ||
                                              pfl_collector_call_has_collector(v->collector.call),
                                          .why = why_no_orders(v)};
    struct pfl_running_page page = {.rows = &v->rows,
                                    .orders = conf->conn.tunnel != NULL ? &orders : NULL,
                                    .asked = pfl_host_question_get_len(&v->question),
                                    .answered = take_rows(v),
                                    .why = v->question.why,
                                    .all = pfl_host_rows_get_len(pfl_web_get_hosts(base->web)),
                                    .now_s = (int64_t)time(NULL)};

    pfl_command_line_begin(&command, "ps");
    pfl_command_line_quoted(&command, conf->options);
    pfl_command_line_quoted(&command, conf->targets);
    layout.command = &command;
    pfl_running_page_write(&page, &layout, h);
}

static void answer(struct pfl_web_visit *base)
{
    pfl_host_question_take(&visit_of(base)->question);
    pfl_web_visit_write_page(base, write_page);
}

static void answer_if_complete(struct pfl_web_visit *base)
{
    struct running_visit *v = visit_of(base);

    if (base->exchange != NULL && !v->question.is_open && !v->collector.is_open)
        answer(base);
}

/* ---- the collector ---- */

static void on_ready(struct pfl_collector_visit *visit, struct pfl_collector_call *call)
{
    Perfleet__CollectorRequest request = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__CollectorRequest__OrderRef all = PERFLEET__COLLECTOR_REQUEST__ORDER_REF__INIT;

    (void)visit;
    request.show_order = &all;
    (void)pfl_collector_call_send(call, &request);
}

static void on_reply(struct pfl_collector_visit *visit, const Perfleet__CollectorReply *reply)
{
    struct running_visit *v = visit_of(&visit->base);

    if (visit->base.exchange == NULL) {
        pfl_collector_call_end(visit->call, "");
        return;
    }
    pfl_order_rows_take(&v->orders, reply);
    if (reply->status == 0 && reply->has_more)
        return;
    v->has_orders = reply->status == 0;
    pfl_collector_call_end(visit->call, v->has_orders ? "" : pfl_collector_call_quote_why(reply));
}

static void on_done(struct pfl_collector_visit *visit)
{
    answer_if_complete(&visit->base);
}

/* ---- the visit ---- */

static void on_relay(struct pfl_web_visit *base)
{
    static const struct pfl_collector_visit_ops ops = {on_ready, on_reply, on_done};
    struct running_visit *v = visit_of(base);

    pfl_host_question_open_all(&v->question, base, PFL_RUNNING_VISIT_MAX_HOSTS, answer_if_complete);
    (void)pfl_collector_visit_call(&v->collector, &ops);
    pfl_web_visit_set_timer(base, pfl_web_get_conf(base->web)->timeout_ms + PFL_WEB_PATIENCE_MS);
    answer_if_complete(base);
}

static void abort_visit(struct pfl_web_visit *base)
{
    pfl_host_question_abort(&visit_of(base)->question);
    pfl_collector_visit_abort(base);
}

static void free_visit(struct pfl_web_visit *base)
{
    struct running_visit *v = visit_of(base);

    pfl_host_question_fini(&v->question);
    pfl_collector_visit_fini(&v->collector);
    pfl_mem_free(v);
}

void pfl_running_visit_open(struct pfl_web *web, struct pfl_http_exchange *exchange,
                            const struct pfl_web_request *request)
{
    static const struct pfl_web_visit_ops ops = {
        .on_relay = on_relay, .answer = answer, .abort = abort_visit, .on_over = free_visit};
    struct running_visit *v = pfl_mem_zalloc(sizeof(*v));

    if (v == NULL) {
        pfl_web_refuse(web, exchange, 503, "Out of memory.");
        return;
    }
    pfl_web_visit_init(&v->collector.base, web, exchange, request, &ops);
    pfl_web_visit_wait_for_relay(&v->collector.base);
}
