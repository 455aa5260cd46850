/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Fleet page: see fleet_visit.h. Happy path: relay_watch_port.h has the relay's last figures.
 * Each request asks the next hosts in turn, and waits PFL_WEB_PATIENCE_MS for them. The sums are
 * over the hosts that answered so far. Failures: the page says what is not known. Ownership: what
 * is kept between requests is a part of the pages. Limits: PFL_FLEET_VISIT_HOSTS a request, and no
 * more than 200 a minute, as for the list of hosts.
 */
#include "consumer/web/fleet/fleet_visit.h"

#include <time.h>

#include "base/mem.h"
#include "consumer/web/fleet/fleet_page.h"
#include "consumer/web/fleet/relay_watch_port.h"
#include "consumer/web/frame/host_question.h"
#include "consumer/web/frame/web_answer.h"

struct pfl_fleet_part {
    struct pfl_web_part base;
    struct pfl_relay_watch *watch; /* owned until its on_closed; NULL: no relay */
    size_t next;                   /* row to be asked */
    uint64_t asked_ms;             /* when hosts were asked last; 0: never */
};

struct pfl_fleet_visit {
    struct pfl_web_visit base;
    bool is_part;
    struct pfl_host_question question;
};

static struct pfl_fleet_visit *visit_of(struct pfl_web_visit *base)
{
    return PFL_CONTAINER_OF(base, struct pfl_fleet_visit, base);
}

static struct pfl_fleet_part *part_of(struct pfl_web_part *base)
{
    return PFL_CONTAINER_OF(base, struct pfl_fleet_part, base);
}

/* ---- what is kept between visits ---- */

static void on_watch_closed(void *user)
{
    struct pfl_fleet_part *p = user;

    pfl_web_part_remove(&p->base);
    pfl_mem_free(p);
}

static void close_part(struct pfl_web_part *base)
{
    struct pfl_fleet_part *p = part_of(base);

    if (p->watch != NULL)
        pfl_relay_watch_close(p->watch);
    else
        on_watch_closed(p);
}

static const struct pfl_web_part_ops part_ops = {.close = close_part};

/* NULL: there is none. */
static struct pfl_fleet_part *find_part(const struct pfl_web *web)
{
    struct pfl_web_part *base = pfl_web_part_find(web, &part_ops);

    return base != NULL ? part_of(base) : NULL;
}

void pfl_fleet_visit_begin(struct pfl_web *web)
{
    const struct pfl_host_conn_conf *conn = &pfl_web_get_conf(web)->conn;
    struct pfl_fleet_part *p = pfl_mem_zalloc(sizeof(*p));
    const struct pfl_relay_watch_conf conf = {
        .loop = conn->loop, .tunnel = conn->tunnel, .on_closed = on_watch_closed, .user = p};

    if (p == NULL)
        return;
    if (conn->tunnel != NULL && pfl_relay_watch_open(&conf, &p->watch) != 0)
        pfl_mem_free(p);
    else
        pfl_web_part_add(&p->base, web, &part_ops);
}

/* ---- the page ---- */

static void write_page(struct pfl_web_visit *base, struct pfl_html *h)
{
    struct pfl_fleet_visit *v = visit_of(base);
    static const struct pfl_fleet_history none;
    const struct pfl_web_conf *conf = pfl_web_get_conf(v->base.web);
    const struct pfl_relay_watch *watch = find_part(v->base.web)->watch;
    struct pfl_layout layout = pfl_web_lay_out(v->base.web, "Fleet", "/fleet", v->base.notice);
    struct pfl_command_line command;
    struct pfl_fleet_sums sums;
    struct pfl_fleet_page page = {.has_relay = conf->relay.name != NULL,
                                  .relay_why = "",
                                  .history = &none,
                                  .rows = pfl_web_get_hosts(v->base.web),
                                  .sums = &sums,
                                  .own_end_s = conf->own_end_s,
                                  .now_s = (int64_t)time(NULL)};

    if (watch != NULL) {
        page.relay = pfl_relay_watch_get(watch);
        page.relay_why = pfl_relay_watch_get_why(watch);
        page.history = pfl_relay_watch_get_history(watch);
        page.relay_end_s = pfl_tunnel_client_get_relay_end_s(conf->conn.tunnel);
    }
    pfl_fleet_sums_take(page.rows, page.now_s, &sums);
    pfl_command_line_begin(&command, "doctor");
    pfl_command_line_quoted(&command, conf->options);
    pfl_command_line_quoted(&command, conf->targets);
    layout.command = &command;
    layout.refresh_s = PFL_WEB_FRESH_MS / 1000;
    if (v->is_part) {
        pfl_layout_add_banner(&layout, h);
        pfl_fleet_page_write_part(&page, h);
        pfl_layout_add_command(&layout, h);
    } else {
        pfl_fleet_page_write(&page, &layout, h);
    }
}

static void answer(struct pfl_web_visit *base)
{
    pfl_host_question_take(&visit_of(base)->question);
    pfl_web_visit_write_page(base, write_page);
}

/* ---- hosts ---- */

/* The next ones in turn that are there, from the part's row on. */
static size_t choose_hosts(struct pfl_web *web, struct pfl_fleet_part *p,
                           struct pfl_host_spec *specs)
{
    const struct pfl_host_rows *rows = pfl_web_get_hosts(web);
    size_t all = pfl_host_rows_get_len(rows);
    size_t len = 0;
    struct pfl_host_row row;

    for (size_t i = 0; i < all && len < PFL_FLEET_VISIT_HOSTS; i++) {
        p->next = p->next < all ? p->next : 0;
        pfl_host_rows_get_row(rows, p->next++, &row);
        if (!row.has_relay || row.relay.is_connected)
            pfl_host_question_set_spec(&row, &specs[len++]);
    }
    return len;
}

static void ask_hosts(struct pfl_fleet_visit *v)
{
    struct pfl_web *web = v->base.web;
    struct pfl_fleet_part *p = find_part(web);
    uint64_t now_ms = pfl_web_get_now_ms(web);
    struct pfl_host_spec *specs;

    if (p->asked_ms != 0 &&
        now_ms - p->asked_ms < (uint64_t)PFL_FLEET_VISIT_HOSTS * PFL_WEB_PACE_MS)
        return;
    specs = pfl_mem_calloc(PFL_FLEET_VISIT_HOSTS, sizeof(*specs));
    if (specs == NULL)
        return;
    p->asked_ms = now_ms;
    pfl_host_question_open(&v->question, &v->base, specs, choose_hosts(web, p, specs), answer);
}

static void on_relay(struct pfl_web_visit *base)
{
    struct pfl_fleet_visit *v = visit_of(base);

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
    struct pfl_fleet_visit *v = visit_of(base);

    pfl_host_question_fini(&v->question);
    pfl_mem_free(v);
}

void pfl_fleet_visit_open(struct pfl_web *web, struct pfl_http_exchange *exchange,
                          const struct pfl_web_request *request)
{
    static const struct pfl_web_visit_ops ops = {
        .on_relay = on_relay, .answer = answer, .abort = abort_visit, .on_over = free_visit};
    struct pfl_fleet_visit *v = pfl_mem_zalloc(sizeof(*v));

    if (find_part(web) == NULL)
        pfl_fleet_visit_begin(web);
    if (v == NULL || find_part(web) == NULL) {
        pfl_mem_free(v);
        pfl_web_refuse(web, exchange, 503, "Out of memory.");
        return;
    }
    pfl_web_visit_init(&v->base, web, exchange, request, &ops);
    v->is_part = pfl_form_has(request->query, "part");
    pfl_web_visit_wait_for_relay(&v->base);
}
