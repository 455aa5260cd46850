/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of hosts: see hosts_visit.h. Happy path: the page is answered from what is known. If
 * that is old, the relay and the shown hosts are asked first, with PFL_WEB_PATIENCE_MS to answer.
 * Failures: the page says that the relay is away. Limits: those of web_conf.h. A role may open few
 * streams a minute, and each question to a host opens one.
 */
#include "consumer/web/hosts/hosts_visit.h"

#include <stdio.h>
#include <time.h>

#include "base/mem.h"
#include "consumer/web/frame/host_question.h"
#include "consumer/web/frame/web_answer.h"
#include "consumer/web/hosts/hosts_page.h"

struct hosts_visit {
    struct pfl_web_visit base;
    bool is_part; /* the list alone */
    char search[PFL_HOST_ROWS_SEARCH_MAX];
    enum pfl_host_rows_state filter;
    size_t page;
    struct pfl_host_question question;
};

static struct hosts_visit *visit_of(struct pfl_web_visit *base)
{
    return PFL_CONTAINER_OF(base, struct hosts_visit, base);
}

static void search_rows(const struct hosts_visit *v, struct pfl_host_rows_view *ret_view)
{
    const struct pfl_host_rows_query query = {
        .search = v->search, .state = v->filter, .page = v->page, .now_s = (int64_t)time(NULL)};

    pfl_host_rows_search(pfl_web_get_hosts(v->base.web), &query, ret_view);
}

static void write_page(struct pfl_web_visit *base, struct pfl_html *h)
{
    const struct hosts_visit *v = visit_of(base);
    const struct pfl_web_conf *conf = pfl_web_get_conf(v->base.web);
    struct pfl_layout layout = pfl_web_lay_out(v->base.web, "Hosts", "/hosts", v->base.notice);
    struct pfl_command_line command;
    struct pfl_host_rows_view view;
    struct pfl_hosts_page page = {.list = pfl_web_get_hosts(v->base.web),
                                  .view = &view,
                                  .search = v->search,
                                  .state = v->filter,
                                  .has_relay = conf->relay.name != NULL,
                                  .now_s = (int64_t)time(NULL)};

    search_rows(v, &view);
    pfl_command_line_begin(&command, "hosts");
    if (v->filter == PFL_HOST_ROWS_PROBLEM)
        pfl_command_line_word(&command, "--problems");
    pfl_command_line_quoted(&command, conf->options);
    pfl_command_line_quoted(&command, conf->targets);
    layout.command = &command;
    layout.refresh_s = PFL_WEB_FRESH_MS / 1000;
    if (v->is_part) {
        pfl_layout_add_banner(&layout, h);
        pfl_hosts_page_write_list(&page, h);
        pfl_layout_add_command(&layout, h);
    } else {
        pfl_hosts_page_write(&page, &layout, h);
    }
}

static void answer(struct pfl_web_visit *base)
{
    pfl_host_question_take(&visit_of(base)->question);
    pfl_web_visit_write_page(base, write_page);
}

/* Of a list of `rows`. */
static bool is_worth_asking(struct pfl_web *w, const struct pfl_host_row *row, size_t rows)
{
    uint64_t pace_ms = (uint64_t)rows * PFL_WEB_PACE_MS;
    uint64_t fresh_ms = pfl_web_get_conf(w)->fresh_ms;

    if (row->has_relay && !row->relay.is_connected)
        return false;
    return row->facts == NULL || pfl_web_get_now_ms(w) - row->facts->asked_ms >=
                                     (pace_ms > fresh_ms ? pace_ms : fresh_ms);
}

static void ask_hosts(struct hosts_visit *v)
{
    struct pfl_web *w = v->base.web;
    struct pfl_host_rows_view view;
    struct pfl_host_row row;
    struct pfl_host_spec *specs;
    size_t len = 0;

    search_rows(v, &view);
    specs = pfl_mem_calloc(view.rows_len + 1, sizeof(*specs));
    for (size_t i = 0; specs != NULL && i < view.rows_len; i++) {
        pfl_host_rows_get_row(pfl_web_get_hosts(w), view.rows[i], &row);
        if (is_worth_asking(w, &row, view.rows_len))
            pfl_host_question_set_spec(&row, &specs[len++]);
    }
    pfl_host_question_open(&v->question, &v->base, specs, len, answer);
}

static void on_relay(struct pfl_web_visit *base)
{
    struct hosts_visit *v = visit_of(base);

    ask_hosts(v);
    if (v->question.is_open)
        pfl_web_visit_set_timer(base, PFL_WEB_PATIENCE_MS);
    else
        answer(base);
}

static void abort_visit(struct pfl_web_visit *base)
{
    pfl_host_question_abort(&visit_of(base)->question);
}

static void free_visit(struct pfl_web_visit *base)
{
    struct hosts_visit *v = visit_of(base);

    pfl_host_question_fini(&v->question);
    pfl_mem_free(v);
}

static size_t read_number(const char *text)
{
    size_t number = 0;

    for (; *text >= '0' && *text <= '9' && number < PFL_INVENTORY_MAX_HOSTS; text++)
        number = number * 10 + (size_t)(*text - '0');
    return number;
}

void pfl_hosts_visit_open(struct pfl_web *web, struct pfl_http_exchange *exchange,
                          const struct pfl_web_request *request)
{
    static const struct pfl_web_visit_ops ops = {
        .on_relay = on_relay, .answer = answer, .abort = abort_visit, .on_over = free_visit};
    struct hosts_visit *v = pfl_mem_zalloc(sizeof(*v));

    if (v == NULL) {
        pfl_web_refuse(web, exchange, 503, "Out of memory.");
        return;
    }
    pfl_web_visit_init(&v->base, web, exchange, request, &ops);
    v->is_part = pfl_form_has(request->query, "part");
    v->filter = pfl_hosts_page_state_parse(pfl_form_get(request->query, "state"));
    v->page = read_number(pfl_form_get(request->query, "page"));
    (void)snprintf(v->search, sizeof(v->search), "%s", pfl_form_get(request->query, "q"));
    pfl_web_visit_wait_for_relay(&v->base);
}
