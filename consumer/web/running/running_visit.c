/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Running page: see running_visit.h.
 *
 *     GET --relay--> hosts, collector and agents asked --all over, or late--> sessions, orders,
 *                    alarms
 *
 * Failures: hosts and agents that do not answer are counted; a collector that does not is said.
 * None hides the others' part. Ownership: the visit owns its question to hosts, its calls and what
 * they say. Limits: PFL_RUNNING_VISIT_MAX_HOSTS are asked; agents only if the hosts are, so by as
 * many visits at once as host_question.h allows.
 */
#include "consumer/web/running/running_visit.h"

#include <stdio.h>
#include <time.h>

#include "base/mem.h"
#include "consumer/host/host_state.h"
#include "consumer/web/frame/host_question.h"
#include "consumer/web/frame/web_answer.h"
#include "consumer/web/running/alarm_call_port.h"
#include "consumer/web/running/running_page.h"
#include "consumer/web/traces/collector_visit.h"

struct running_visit {
    struct pfl_collector_visit collector;
    struct pfl_host_question question;
    struct pfl_running_rows rows;
    struct pfl_order_rows orders;
    bool has_orders; /* all of them */
    struct pfl_alarm_call agents;
    struct pfl_alarm_rows alarms;
    size_t alarms_answered;           /* agents */
    char why_host[PFL_HOST_NAME_MAX]; /* the first agent that did not; "": none */
    char why[256];
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

    pfl_running_rows_init(&v->rows, pfl_host_question_get_len(&v->question));
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

static const char *why_no_alarms(const struct running_visit *v)
{
    if (v->question.why != NULL)
        return v->question.why;
    if (v->agents.why != NULL)
        return v->agents.why;
    return v->why[0] == '\0' && v->agents.is_open ? "no answer in time" : v->why;
}

static void write_page(struct pfl_web_visit *base, struct pfl_html *h)
{
    struct running_visit *v = visit_of(base);
    const struct pfl_web_conf *conf = pfl_web_get_conf(base->web);
    struct pfl_layout layout = pfl_web_lay_out(base->web, "Running", "/running", base->notice);
    struct pfl_command_line command;
    struct pfl_command_line order_list;
    struct pfl_command_line alarm_list;
    const struct pfl_order_page orders = {.rows = &v->orders,
                                          .own_name = conf->own_name,
                                          .command = &order_list,
                                          .has_collector =
                                              v->collector.call == NULL || v->collector.is_open ||
                                              pfl_collector_call_has_collector(v->collector.call),
                                          .why = why_no_orders(v)};
    const struct pfl_alarm_page alarms = {.rows = &v->alarms,
                                          .command = &alarm_list,
                                          .asked = v->agents.len,
                                          .answered = v->alarms_answered,
                                          .why_host = v->why_host,
                                          .why = why_no_alarms(v)};
    struct pfl_running_page page = {.alarms = conf->conn.tunnel != NULL ? &alarms : NULL,
                                    .rows = &v->rows,
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
    pfl_command_line_begin(&order_list, "order list");
    pfl_command_line_quoted(&order_list, conf->options);
    pfl_command_line_option(&order_list, "--collector", conf->collector);
    pfl_command_line_begin(&alarm_list, "alarms");
    pfl_command_line_quoted(&alarm_list, conf->options);
    pfl_command_line_quoted(&alarm_list, conf->targets);
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

    if (base->exchange != NULL && !v->question.is_open && !v->collector.is_open &&
        !v->agents.is_open)
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

/* ---- the agents ---- */

static void on_alarms(struct pfl_web_visit *base, size_t host, int err, unsigned status,
                      struct pfl_span body)
{
    struct running_visit *v = visit_of(base);
    char why[sizeof(v->why)];

    pfl_host_calls_explain(err, status, body, why, sizeof(why));
    if (base->exchange == NULL)
        return;
    if (why[0] == '\0' && pfl_alarm_rows_add(&v->alarms, v->agents.hosts[host], body) != 0)
        (void)snprintf(why, sizeof(why), "its answer makes no sense");
    v->alarms_answered += why[0] == '\0';
    if (why[0] == '\0' || v->why[0] != '\0')
        return;
    (void)snprintf(v->why_host, sizeof(v->why_host), "%s", v->agents.hosts[host]);
    (void)snprintf(v->why, sizeof(v->why), "%s", why);
}

static void ask_agents(struct running_visit *v)
{
    static const struct pfl_alarm_call_ops ops = {on_alarms, answer_if_complete};

    pfl_alarm_call_init(&v->agents, &v->collector.base, &ops, PFL_RUNNING_VISIT_MAX_HOSTS);
    if (v->question.is_open)
        pfl_alarm_call_open(&v->agents, "GET", "");
}

/* ---- the visit ---- */

static void on_relay(struct pfl_web_visit *base)
{
    static const struct pfl_collector_visit_ops ops = {on_ready, on_reply, on_done};
    struct running_visit *v = visit_of(base);

    pfl_host_question_open_all(&v->question, base, PFL_RUNNING_VISIT_MAX_HOSTS, answer_if_complete);
    (void)pfl_collector_visit_call(&v->collector, &ops);
    ask_agents(v);
    pfl_web_visit_set_timer(base, pfl_web_get_conf(base->web)->timeout_ms + PFL_WEB_PATIENCE_MS);
    answer_if_complete(base);
}

static void abort_visit(struct pfl_web_visit *base)
{
    pfl_host_question_abort(&visit_of(base)->question);
    pfl_collector_visit_abort(base);
    pfl_alarm_call_abort(&visit_of(base)->agents);
}

static void free_visit(struct pfl_web_visit *base)
{
    struct running_visit *v = visit_of(base);

    pfl_host_question_fini(&v->question);
    pfl_collector_visit_fini(&v->collector);
    pfl_alarm_call_fini(&v->agents);
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
