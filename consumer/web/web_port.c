/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pages: see web_port.h.
 *
 *     request --access--> route --> visit: WAIT_RELAY --> WAIT_HOSTS --> answered
 *
 * Happy path: access (web_access.h) is judged first, always. The list of hosts is answered from
 * what is known; when that is old, the relay and the shown hosts are asked first, and waited for a
 * little. A host's page waits for the host, and for the collector. Failures: the page says that the
 * relay is away, or why a host does not answer; out of memory is status 503. Ownership: a visit
 * owns its question to hosts, its list of traces and its timer, and is freed when they have ended,
 * which may be after the answer. Limits: those of the header, and of http_port.h.
 */
#include "consumer/web/web_port.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "consumer/host/host_state.h"
#include "consumer/http/http_port.h"
#include "consumer/web/assets.h"
#include "consumer/web/collector_list_port.h"
#include "consumer/web/host_page.h"
#include "consumer/web/hosts_page.h"
#include "consumer/web/web_access.h"

#define BODY_MAX_BYTES 65536u
#define FIELDS_BYTES   640u

/* A page loads from here, sends forms here, and nobody shows it in a frame. */
#define SECURITY_FIELDS                                                                            \
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "           \
    "img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "                    \
    "frame-ancestors 'none'\r\n"                                                                   \
    "X-Frame-Options: DENY\r\n"                                                                    \
    "Cross-Origin-Opener-Policy: same-origin\r\n"                                                  \
    "Cross-Origin-Resource-Policy: same-origin\r\n"

struct pfl_web {
    struct pfl_web_conf conf;
    struct pfl_http_port *http;  /* owned; NULL once closed */
    struct pfl_host_rows *hosts; /* owned */
    struct pfl_web_access access;
    struct pfl_list visits;
    unsigned questions; /* to hosts */
    bool is_relay_asked;
    uint64_t listed_ms;     /* when the relay listed its hosts last */
    uint64_t away_since_ms; /* 0: it is there */
    struct pfl_log_limit log;
    bool is_closing;
};

enum state {
    STATE_WAIT_RELAY,
    STATE_WAIT_HOSTS,
    STATE_ANSWERED, /* what it asked has not ended yet */
};

struct visit {
    struct pfl_list node;
    struct pfl_web *web;
    struct pfl_http_exchange *exchange; /* NULL once answered */
    enum state state;
    bool is_part; /* the list alone */
    bool is_host; /* one host's page; else the list */
    char search[PFL_HOST_ROWS_SEARCH_MAX];
    char name[PFL_HOST_NAME_MAX * 4]; /* of a host's page */
    enum pfl_host_rows_state filter;
    size_t page;
    struct pfl_host_spec *specs;       /* owned: those of the question */
    struct pfl_fan_out *question;      /* owned; NULL: none */
    struct pfl_collector_list *traces; /* owned; NULL: none */
    bool is_question_open;
    bool is_list_open;
    bool is_timer_closed;
    uv_timer_t timer;
};

static uint64_t now_ms(const struct pfl_web *w)
{
    return uv_now(w->conf.conn.loop);
}

/* ---- the end ---- */

static void free_if_gone(struct pfl_web *w)
{
    void (*on_closed)(void *user) = w->conf.on_closed;
    void *user = w->conf.user;

    if (!w->is_closing || w->http != NULL || !pfl_list_is_empty(&w->visits))
        return;
    pfl_log_limit_flush(&w->log, "page-refused");
    pfl_host_rows_free(w->hosts);
    pfl_mem_free(w);
    on_closed(user);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct visit *v = handle->data;
    struct pfl_web *w = v->web;

    pfl_fan_out_free(v->question);
    pfl_collector_list_free(v->traces);
    pfl_mem_free(v->specs);
    pfl_list_remove(&v->node);
    pfl_mem_free(v);
    free_if_gone(w);
}

static void free_visit_if_gone(struct visit *v)
{
    if (v->exchange != NULL || v->is_question_open || v->is_list_open || v->is_timer_closed)
        return;
    v->is_timer_closed = true;
    uv_close((uv_handle_t *)&v->timer, on_timer_closed);
}

/* ---- answers ---- */

static void send_page(struct pfl_web *w, struct pfl_http_exchange *x, unsigned status,
                      struct pfl_html *h)
{
    struct pfl_http_answer answer = {
        .status = status, .type = "text/html; charset=utf-8", .fields = SECURITY_FIELDS};
    char fields[FIELDS_BYTES];
    char cookie[128];

    if (pfl_html_get(h, &answer.body) != 0) {
        answer.status = 503;
        answer.type = "text/plain; charset=utf-8";
        answer.body = pfl_span_of("out of memory\n", 14);
    }
    if (status == 303) { /* the link's token becomes a cookie: the page itself leads on, so that the
                          * next request is of the same site */
        pfl_web_access_get_cookie(&w->access, cookie, sizeof(cookie));
        (void)snprintf(fields, sizeof(fields), "%s%s", SECURITY_FIELDS, cookie);
        answer.fields = fields;
        answer.status = 200;
    }
    pfl_http_exchange_answer(x, &answer);
}

static void refuse(struct pfl_web *w, struct pfl_http_exchange *x, unsigned status, const char *why)
{
    struct pfl_html h;

    if (status == 403 && pfl_log_limit_take(&w->log, "page-refused", now_ms(w)))
        pfl_log_warn("page-refused", "status=%u reason=\"%s\"", status, why);
    pfl_html_init(&h, PFL_WEB_PAGE_MAX_BYTES);
    pfl_layout_refusal(status, why, &h);
    send_page(w, x, status, &h);
    pfl_html_fini(&h);
}

static void enter(struct pfl_web *w, struct pfl_http_exchange *x)
{
    struct pfl_html h;

    pfl_html_init(&h, PFL_WEB_PAGE_MAX_BYTES);
    pfl_layout_entered(&h);
    send_page(w, x, 303, &h);
    pfl_html_fini(&h);
}

static bool send_asset(struct pfl_http_exchange *x, const char *path)
{
    for (size_t i = 0; i < pfl_web_assets_len; i++) {
        const struct pfl_http_asset *a = &pfl_web_assets[i];

        if (strcmp(a->path, path) != 0)
            continue;
        pfl_http_exchange_answer(x,
                                 &(struct pfl_http_answer){.status = 200,
                                                           .type = a->type,
                                                           .fields = SECURITY_FIELDS,
                                                           .body = pfl_span_of(a->bytes, a->len)});
        return true;
    }
    return false;
}

static struct pfl_layout lay_out(const struct pfl_web *w, const char *title)
{
    const char *away =
        w->conf.relay.name != NULL ? w->conf.relay.get_away(w->conf.relay.user) : NULL;

    return (struct pfl_layout){
        .title = title,
        .tab = PFL_LAYOUT_HOSTS,
        .fleet = w->conf.fleet,
        .relay = w->conf.relay.name,
        .away = away != NULL ? away : "",
        .away_s = w->away_since_ms != 0 ? (now_ms(w) - w->away_since_ms) / 1000 : 0,
    };
}

/* ---- the list of hosts ---- */

static void search_rows(const struct visit *v, struct pfl_host_rows_view *ret_view)
{
    const struct pfl_host_rows_query query = {
        .search = v->search, .state = v->filter, .page = v->page, .now_s = (int64_t)time(NULL)};

    pfl_host_rows_search(v->web->hosts, &query, ret_view);
}

static void answer_list(struct visit *v)
{
    struct pfl_web *w = v->web;
    struct pfl_layout layout = lay_out(w, "Hosts");
    struct pfl_command_line command;
    struct pfl_host_rows_view view;
    struct pfl_hosts_page page = {.list = w->hosts,
                                  .view = &view,
                                  .search = v->search,
                                  .state = v->filter,
                                  .has_relay = w->conf.relay.name != NULL,
                                  .now_s = (int64_t)time(NULL)};
    struct pfl_html h;

    search_rows(v, &view);
    pfl_command_line_begin(&command, "hosts");
    if (v->filter == PFL_HOST_ROWS_PROBLEM)
        pfl_command_line_word(&command, "--problems");
    pfl_command_line_quoted(&command, w->conf.options);
    pfl_command_line_quoted(&command, w->conf.targets);
    layout.command = &command;
    layout.refresh_s = PFL_WEB_FRESH_MS / 1000;
    pfl_html_init(&h, PFL_WEB_PAGE_MAX_BYTES);
    if (v->is_part) {
        pfl_layout_add_banner(&layout, &h);
        pfl_hosts_page_write_list(&page, &h);
        pfl_layout_add_command(&layout, &h);
    } else {
        pfl_hosts_page_write(&page, &layout, &h);
    }
    send_page(w, v->exchange, 200, &h);
    pfl_html_fini(&h);
}

/* ---- a host's page ---- */

static void answer_host(struct visit *v, const struct pfl_host_row *row)
{
    struct pfl_web *w = v->web;
    struct pfl_layout layout = lay_out(w, row->title);
    struct pfl_command_line command;
    struct pfl_host_page page = {
        .row = row, .traces_why = "", .version = w->conf.version, .now_s = (int64_t)time(NULL)};
    struct pfl_html h;

    if (v->question != NULL)
        page.state = pfl_host_state_get(v->question, 0).state;
    if (v->traces != NULL) {
        page.traces = pfl_collector_list_get(v->traces);
        page.traces_why = pfl_collector_list_get_why(v->traces);
    }
    pfl_command_line_begin(&command, "query");
    pfl_command_line_quoted(&command, w->conf.options);
    pfl_command_line_option(&command, "--host", row->spec != NULL ? row->spec->text : row->name);
    layout.command = &command;
    pfl_html_init(&h, PFL_WEB_PAGE_MAX_BYTES);
    if (pfl_host_page_write(&page, &layout, &h) != 0)
        h.rc = h.rc != 0 ? h.rc : PFL_ENOMEM;
    send_page(w, v->exchange, 200, &h);
    pfl_html_fini(&h);
}

/* ---- what hosts answer ---- */

static void take_answer(struct pfl_web *w, const struct pfl_fan_out *question, size_t i)
{
    struct pfl_host_state state = pfl_host_state_get(question, i);
    const struct pfl_host_spec *spec = pfl_fan_out_get_host(question, i)->spec;
    struct pfl_host_facts facts = {.why = ""};

    (void)snprintf(facts.why, sizeof(facts.why), "%s", state.why);
    if (facts.why[0] == '\0' && pfl_host_facts_parse(state.state, &facts) != 0)
        (void)snprintf(facts.why, sizeof(facts.why), "its service state is malformed");
    facts.asked_ms = now_ms(w);
    pfl_host_rows_note(w->hosts, spec->name[0] != '\0' ? spec->name : spec->text, &facts);
}

static void take_answers(struct visit *v)
{
    for (size_t i = 0; v->question != NULL && i < pfl_fan_out_get_len(v->question); i++) {
        const struct pfl_fan_out_host *host = pfl_fan_out_get_host(v->question, i);

        if (host->is_done || host->conn == NULL) /* a connection that ended is not done */
            take_answer(v->web, v->question, i);
    }
}

static void answer(struct visit *v)
{
    struct pfl_web *w = v->web;
    struct pfl_host_row row;
    size_t number;

    (void)uv_timer_stop(&v->timer);
    take_answers(v);
    number = v->is_host ? pfl_host_rows_find(w->hosts, v->name) : 0;
    if (number == SIZE_MAX) {
        refuse(w, v->exchange, 404, "There is no such host; the relay may have forgotten it.");
    } else if (v->is_host) {
        pfl_host_rows_get_row(w->hosts, number, &row);
        answer_host(v, &row);
    } else {
        answer_list(v);
    }
    v->exchange = NULL;
    v->state = STATE_ANSWERED;
    free_visit_if_gone(v);
}

static void answer_if_complete(struct visit *v)
{
    if (v->state == STATE_WAIT_HOSTS && !v->is_question_open && !v->is_list_open)
        answer(v);
}

static void on_question_over(void *user)
{
    struct visit *v = user;

    v->is_question_open = false;
    v->web->questions--;
    if (v->state == STATE_ANSWERED) {
        take_answers(v);
        free_visit_if_gone(v);
        return;
    }
    answer_if_complete(v);
}

static void on_list_done(void *user)
{
    struct visit *v = user;

    v->is_list_open = false;
    if (v->state == STATE_ANSWERED)
        free_visit_if_gone(v);
    else
        answer_if_complete(v);
}

/* ---- questions ---- */

static void set_spec(const struct pfl_host_row *row, struct pfl_host_spec *spec)
{
    if (row->spec != NULL)
        *spec = *row->spec;
    else
        pfl_host_spec_set_tunnel(spec, row->name);
}

/* Of a list of `rows`. A role may have few new streams a minute, and each question is one. */
static bool is_worth_asking(const struct pfl_web *w, const struct pfl_host_row *row, size_t rows)
{
    uint64_t pace_ms = (uint64_t)rows * PFL_WEB_PACE_MS;

    if (row->has_relay && !row->relay.is_connected)
        return false;
    return row->facts == NULL || now_ms(w) - row->facts->asked_ms >=
                                     (pace_ms > w->conf.fresh_ms ? pace_ms : w->conf.fresh_ms);
}

/* The rows of the list that are old, or the page's host. */
static size_t choose_specs(struct visit *v)
{
    struct pfl_web *w = v->web;
    struct pfl_host_rows_view view = {.rows_len = 0};
    struct pfl_host_row row;
    size_t len = 0;

    if (v->is_host) {
        view.rows[0] = pfl_host_rows_find(w->hosts, v->name);
        view.rows_len = view.rows[0] != SIZE_MAX;
    } else {
        search_rows(v, &view);
    }
    v->specs = pfl_mem_calloc(view.rows_len + 1, sizeof(*v->specs));
    for (size_t i = 0; v->specs != NULL && i < view.rows_len; i++) {
        pfl_host_rows_get_row(w->hosts, view.rows[i], &row);
        if (v->is_host ? !row.has_relay || row.relay.is_connected
                       : is_worth_asking(w, &row, view.rows_len))
            set_spec(&row, &v->specs[len++]);
    }
    return len;
}

static void ask_hosts(struct visit *v)
{
    struct pfl_web *w = v->web;
    struct pfl_fan_out_conf conf = {.conn = w->conf.conn,
                                    .timeout_ms = w->conf.timeout_ms,
                                    .on_ready = pfl_host_state_on_ready_for_figures,
                                    .on_over = on_question_over,
                                    .user = v};

    conf.specs_len = w->questions < PFL_WEB_MAX_QUESTIONS ? choose_specs(v) : 0;
    conf.specs = v->specs;
    if (conf.specs_len == 0 || pfl_fan_out_open(&conf, &v->question) != 0)
        return;
    v->is_question_open = true;
    w->questions++;
}

static void ask_collector(struct visit *v)
{
    struct pfl_web *w = v->web;
    struct pfl_collector_list_conf conf = {.loop = w->conf.conn.loop,
                                           .tunnel = w->conf.conn.tunnel,
                                           .collector = w->conf.collector,
                                           .host = v->name,
                                           .timeout_ms = w->conf.timeout_ms,
                                           .on_done = on_list_done,
                                           .user = v};

    if (w->conf.conn.tunnel == NULL || pfl_host_rows_find(w->hosts, v->name) == SIZE_MAX)
        return;
    v->is_list_open = pfl_collector_list_open(&conf, &v->traces) == 0;
}

static void on_patience_over(uv_timer_t *timer)
{
    struct visit *v = timer->data;

    if (v->state != STATE_ANSWERED)
        answer(v);
}

static void wait_for_hosts(struct visit *v)
{
    v->state = STATE_WAIT_HOSTS;
    ask_hosts(v);
    if (v->is_host)
        ask_collector(v);
    (void)uv_timer_start(
        &v->timer, on_patience_over,
        v->is_host ? v->web->conf.timeout_ms + PFL_WEB_PATIENCE_MS : PFL_WEB_PATIENCE_MS, 0);
    answer_if_complete(v);
}

/* ---- the relay ---- */

static bool is_relay_list_old(const struct pfl_web *w)
{
    return w->conf.relay.name != NULL && now_ms(w) - w->listed_ms >= w->conf.fresh_ms &&
           w->conf.relay.get_away(w->conf.relay.user) == NULL;
}

static void on_relay_late(uv_timer_t *timer)
{
    wait_for_hosts(timer->data);
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
        w->listed_ms = now_ms(w);
    else
        pfl_inventory_free(inventory);
}

void pfl_web_step(struct pfl_web *self)
{
    const struct pfl_web_relay *relay = &self->conf.relay;
    struct pfl_list *it;
    struct pfl_list *next;
    bool is_away = relay->name != NULL && relay->get_away(relay->user) != NULL;

    if (self->is_closing)
        return;
    if (is_away != (self->away_since_ms != 0))
        self->away_since_ms = is_away ? now_ms(self) : 0;
    take_inventory(self);
    if (self->is_relay_asked && !is_away)
        return;
    PFL_LIST_EACH_SAFE (it, next, &self->visits) {
        struct visit *v = PFL_CONTAINER_OF(it, struct visit, node);

        if (v->state == STATE_WAIT_RELAY)
            wait_for_hosts(v);
    }
}

/* ---- requests ---- */

static void begin_visit(struct visit *v)
{
    struct pfl_web *w = v->web;

    if (!is_relay_list_old(w)) {
        wait_for_hosts(v);
        return;
    }
    v->state = STATE_WAIT_RELAY;
    if (!w->is_relay_asked)
        w->conf.relay.ask(w->conf.relay.user);
    w->is_relay_asked = true;
    (void)uv_timer_start(&v->timer, on_relay_late, PFL_WEB_RELAY_WAIT_MS, 0);
}

static size_t read_number(const char *text)
{
    size_t number = 0;

    for (; *text >= '0' && *text <= '9' && number < PFL_INVENTORY_MAX_HOSTS; text++)
        number = number * 10 + (size_t)(*text - '0');
    return number;
}

static void open_visit(struct pfl_web *w, struct pfl_http_exchange *x, bool is_host,
                       const struct pfl_form *query)
{
    struct visit *v = pfl_mem_zalloc(sizeof(*v));

    if (v == NULL) {
        refuse(w, x, 503, "Out of memory.");
        return;
    }
    v->web = w;
    v->exchange = x;
    v->is_host = is_host;
    v->is_part = pfl_form_has(query, "part");
    v->filter = pfl_hosts_page_state_parse(pfl_form_get(query, "state"));
    v->page = read_number(pfl_form_get(query, "page"));
    (void)snprintf(v->search, sizeof(v->search), "%s", pfl_form_get(query, "q"));
    (void)snprintf(v->name, sizeof(v->name), "%s", pfl_form_get(query, "name"));
    (void)uv_timer_init(w->conf.conn.loop, &v->timer);
    v->timer.data = v;
    pfl_list_append(&w->visits, &v->node);
    begin_visit(v);
}

static void send_elsewhere(struct pfl_http_exchange *x)
{
    pfl_http_exchange_answer(
        x, &(struct pfl_http_answer){.status = 303,
                                     .type = "text/plain; charset=utf-8",
                                     .fields = SECURITY_FIELDS "Location: /hosts\r\n"});
}

static void route(struct pfl_web *w, struct pfl_http_exchange *x,
                  const struct pfl_http_request *request, const struct pfl_form *query)
{
    if (strcmp(request->method, "POST") == 0)
        refuse(w, x, 404, "No page takes this change.");
    else if (strcmp(request->path, "/") == 0)
        send_elsewhere(x);
    else if (strcmp(request->path, "/hosts") == 0)
        open_visit(w, x, false, query);
    else if (strcmp(request->path, "/host") == 0)
        open_visit(w, x, true, query);
    else if (!send_asset(x, request->path))
        refuse(w, x, 404, "There is no such page.");
}

static void on_request(void *user, struct pfl_http_exchange *exchange,
                       const struct pfl_http_request *request)
{
    struct pfl_web *w = user;
    struct pfl_form query = {.len = 0};
    struct pfl_form body = {.len = 0};
    const char *why = "The request is malformed.";
    unsigned status = 400;
    int rc = pfl_form_parse(pfl_span_of(request->query, strlen(request->query)), &query);

    if (rc == 0)
        rc = pfl_form_parse(request->body, &body);
    if (w->is_closing)
        status = 503;
    else if (rc == 0)
        status = pfl_web_access_judge(&w->access, request, &query,
                                      request->body.len != 0 ? &body : NULL, &why);
    if (status == 200)
        route(w, exchange, request, &query);
    else if (status == 303)
        enter(w, exchange);
    else
        refuse(w, exchange, status, why);
    pfl_form_fini(&body);
    pfl_form_fini(&query);
}

/* ---- opening and closing ---- */

static void on_http_closed(void *user)
{
    struct pfl_web *w = user;

    w->http = NULL;
    free_if_gone(w);
}

static int fill_hosts(struct pfl_web *w)
{
    int rc;

    if (w->conf.relay.name == NULL)
        return pfl_host_rows_set_specs(w->hosts, w->conf.specs, w->conf.specs_len);
    w->listed_ms = now_ms(w);
    rc = pfl_host_rows_give_inventory(w->hosts, w->conf.inventory);
    if (rc == 0)
        w->conf.inventory = NULL;
    return rc;
}

static int open_http(struct pfl_web *w)
{
    struct pfl_http_port_conf conf = {.loop = w->conf.conn.loop,
                                      .port = w->conf.port,
                                      .body_max_bytes = BODY_MAX_BYTES,
                                      .on_request = on_request,
                                      .on_closed = on_http_closed,
                                      .user = w};
    uint8_t random[PFL_WEB_RANDOM_BYTES];
    int rc;

    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return PFL_EIO;
    rc = pfl_http_port_open(&conf, &w->http);
    if (rc == 0)
        pfl_web_access_init(&w->access, pfl_http_port_get_number(w->http), random);
    return rc;
}

int pfl_web_open(const struct pfl_web_conf *conf, struct pfl_web **ret_web)
{
    struct pfl_web *w = pfl_mem_zalloc(sizeof(*w));
    int rc = w != NULL ? 0 : PFL_ENOMEM;

    if (rc == 0) {
        w->conf = *conf;
        if (conf->fresh_ms == 0)
            w->conf.fresh_ms = PFL_WEB_FRESH_MS;
        pfl_list_init(&w->visits);
        rc = pfl_host_rows_new(&conf->hosts, &w->hosts);
    }
    if (rc == 0)
        rc = fill_hosts(w);
    if (rc == 0)
        rc = open_http(w);
    if (rc == 0) {
        *ret_web = w;
        return 0;
    }
    pfl_inventory_free(w != NULL ? w->conf.inventory : conf->inventory);
    if (w != NULL)
        pfl_host_rows_free(w->hosts);
    pfl_mem_free(w);
    return rc;
}

void pfl_web_get_link(const struct pfl_web *self, char *ret_link, size_t link_len)
{
    pfl_web_access_get_link(&self->access, ret_link, link_len);
}

void pfl_web_close(struct pfl_web *self)
{
    struct pfl_list *it;
    struct pfl_list *next;

    if (self->is_closing)
        return;
    self->is_closing = true;
    PFL_LIST_EACH_SAFE (it, next, &self->visits) {
        struct visit *v = PFL_CONTAINER_OF(it, struct visit, node);

        if (v->exchange != NULL)
            answer(v);
        if (v->is_question_open)
            pfl_fan_out_abort(v->question, "perfleet ui ends");
        if (v->is_list_open)
            pfl_collector_list_abort(v->traces);
    }
    pfl_http_port_close(self->http);
}
