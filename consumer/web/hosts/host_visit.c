/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host's page: see host_visit.h. Happy path: the host is asked for its state, and the collector
 * for its newest traces; the page is answered when both have ended. Failures: the page says why the
 * host, or the collector, does not answer.
 */
#include "consumer/web/hosts/host_visit.h"

#include <stdio.h>
#include <time.h>

#include "base/mem.h"
#include "consumer/host/host_state.h"
#include "consumer/web/frame/host_question.h"
#include "consumer/web/frame/web_answer.h"
#include "consumer/web/hosts/host_page.h"
#include "consumer/web/traces/collector_list_port.h"

struct host_visit {
    struct pfl_web_visit base;
    char name[PFL_HOST_NAME_MAX * 4];
    struct pfl_host_question question;
    struct pfl_collector_list *traces; /* owned; NULL: none */
    bool is_list_open;
};

static struct host_visit *visit_of(struct pfl_web_visit *base)
{
    return PFL_CONTAINER_OF(base, struct host_visit, base);
}

static int write_page(const struct host_visit *v, const struct pfl_host_row *row,
                      struct pfl_html *h)
{
    const struct pfl_web_conf *conf = pfl_web_get_conf(v->base.web);
    struct pfl_layout layout = pfl_web_lay_out(v->base.web, row->title, "/hosts", v->base.notice);
    struct pfl_command_line command;
    struct pfl_command_line live;
    struct pfl_host_page page = {.row = row,
                                 .traces_why = "",
                                 .version = conf->version,
                                 .live = &live,
                                 .now_s = (int64_t)time(NULL)};

    if (v->question.fan_out != NULL)
        page.state = pfl_host_state_get(v->question.fan_out, 0).state;
    if (v->traces != NULL) {
        page.traces = pfl_collector_list_get(v->traces);
        page.traces_why = pfl_collector_list_get_why(v->traces);
    }
    pfl_command_line_begin(&command, "query");
    pfl_command_line_quoted(&command, conf->options);
    pfl_command_line_option(&command, "--host", row->spec != NULL ? row->spec->text : row->name);
    pfl_command_line_begin(&live, "open");
    pfl_command_line_word(&live, "--live");
    pfl_command_line_quoted(&live, conf->options);
    pfl_command_line_option(&live, "--host", row->spec != NULL ? row->spec->text : row->name);
    layout.command = &command;
    return pfl_host_page_write(&page, &layout, h);
}

static void answer(struct pfl_web_visit *base)
{
    struct host_visit *v = visit_of(base);
    struct pfl_host_rows *hosts = pfl_web_get_hosts(base->web);
    struct pfl_host_row row;
    struct pfl_html h;
    size_t number;

    pfl_host_question_take(&v->question);
    number = pfl_host_rows_find(hosts, v->name);
    if (number == SIZE_MAX) {
        pfl_web_visit_refuse(base, 404, "There is no such host; the relay may have forgotten it.");
        return;
    }
    pfl_host_rows_get_row(hosts, number, &row);
    pfl_html_init(&h, PFL_WEB_PAGE_MAX_BYTES);
    if (write_page(v, &row, &h) != 0)
        h.rc = h.rc != 0 ? h.rc : PFL_ENOMEM;
    pfl_web_visit_send_page(base, 200, &h);
    pfl_html_fini(&h);
}

static void answer_if_complete(struct host_visit *v)
{
    if (v->base.exchange != NULL && !v->question.is_open && !v->is_list_open)
        answer(&v->base);
}

static void on_question_over(struct pfl_web_visit *base)
{
    answer_if_complete(visit_of(base));
}

static void on_list_done(void *user)
{
    struct host_visit *v = user;

    v->is_list_open = false;
    answer_if_complete(v);
    pfl_web_visit_release(&v->base);
}

static void ask_host(struct host_visit *v)
{
    struct pfl_host_rows *hosts = pfl_web_get_hosts(v->base.web);
    size_t number = pfl_host_rows_find(hosts, v->name);
    struct pfl_host_row row;
    struct pfl_host_spec *spec;

    if (number == SIZE_MAX)
        return;
    pfl_host_rows_get_row(hosts, number, &row);
    if (row.has_relay && !row.relay.is_connected)
        return;
    spec = pfl_mem_zalloc(sizeof(*spec));
    if (spec == NULL)
        return;
    pfl_host_question_set_spec(&row, spec);
    pfl_host_question_open(&v->question, &v->base, spec, 1, on_question_over);
}

static void ask_collector(struct host_visit *v)
{
    const struct pfl_web_conf *conf = pfl_web_get_conf(v->base.web);
    struct pfl_collector_list_conf list = {.loop = conf->conn.loop,
                                           .tunnel = conf->conn.tunnel,
                                           .collector = conf->collector,
                                           .host = v->name,
                                           .timeout_ms = conf->timeout_ms,
                                           .on_done = on_list_done,
                                           .user = v};

    if (list.tunnel == NULL ||
        pfl_host_rows_find(pfl_web_get_hosts(v->base.web), v->name) == SIZE_MAX)
        return;
    if (pfl_collector_list_open(&list, &v->traces) != 0)
        return;
    v->is_list_open = true;
    pfl_web_visit_hold(&v->base);
}

static void on_relay(struct pfl_web_visit *base)
{
    struct host_visit *v = visit_of(base);

    ask_host(v);
    ask_collector(v);
    pfl_web_visit_set_timer(base, pfl_web_get_conf(base->web)->timeout_ms + PFL_WEB_PATIENCE_MS);
    answer_if_complete(v);
}

static void abort_visit(struct pfl_web_visit *base)
{
    struct host_visit *v = visit_of(base);

    pfl_host_question_abort(&v->question);
    if (v->is_list_open)
        pfl_collector_list_abort(v->traces);
}

static void free_visit(struct pfl_web_visit *base)
{
    struct host_visit *v = visit_of(base);

    pfl_host_question_fini(&v->question);
    pfl_collector_list_free(v->traces);
    pfl_mem_free(v);
}

void pfl_host_visit_open(struct pfl_web *web, struct pfl_http_exchange *exchange,
                         const struct pfl_web_request *request)
{
    static const struct pfl_web_visit_ops ops = {
        .on_relay = on_relay, .answer = answer, .abort = abort_visit, .on_over = free_visit};
    struct host_visit *v = pfl_mem_zalloc(sizeof(*v));

    if (v == NULL) {
        pfl_web_refuse(web, exchange, 503, "Out of memory.");
        return;
    }
    pfl_web_visit_init(&v->base, web, exchange, request, &ops);
    (void)snprintf(v->name, sizeof(v->name), "%s", pfl_form_get(request->query, "name"));
    pfl_web_visit_wait_for_relay(&v->base);
}
