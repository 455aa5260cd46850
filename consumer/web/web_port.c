/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pages: see web_port.h.
 *
 *     request --access--> route (web_routes.h) --> its page's handler, a visit (web_visit.h)
 *
 * Happy path: access (web_access.h) is judged first, always, and for a change its form's token; the
 * table names the page. What is below /bigtrace is for Perfetto's BigTrace page, with an access of
 * its own (bigtrace_visit.h). Failures: a page that says why there is none. Ownership: the port
 * owns the HTTP port, the host rows, and the lists of visits and parts, which end before it does.
 * Limits: those of the header, and of http_port.h.
 */
#include "consumer/web/web_port.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/mem.h"
#include "consumer/web/assets.h"
#include "consumer/web/bigtrace/bigtrace_visit.h"
#include "consumer/web/fleet/fleet_visit.h"
#include "consumer/web/frame/web_answer.h"
#include "consumer/web/frame/web_impl.h"
#include "consumer/web/web_routes.h"

#define BODY_MAX_BYTES 65536u
#define FIELDS_BYTES   640u

/* ---- requests ---- */

/* The link's token becomes a cookie: the page itself leads on, so that the next request is of the
 * same site. */
static void enter(struct pfl_web *w, struct pfl_http_exchange *x)
{
    struct pfl_http_answer answer = {.status = 200, .type = "text/html; charset=utf-8"};
    char fields[FIELDS_BYTES];
    char cookie[128];
    struct pfl_html h;

    pfl_html_init(&h, PFL_WEB_PAGE_MAX_BYTES);
    pfl_layout_entered(&h);
    if (pfl_html_get(&h, &answer.body) != 0) {
        pfl_web_send_page(x, 503, &h);
    } else {
        pfl_web_access_get_cookie(&w->access, cookie, sizeof(cookie));
        (void)snprintf(fields, sizeof(fields), "%s%s", PFL_WEB_SECURITY_FIELDS, cookie);
        answer.fields = fields;
        pfl_http_exchange_answer(x, &answer);
    }
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
                                                           .fields = PFL_WEB_SECURITY_FIELDS,
                                                           .body = pfl_span_of(a->bytes, a->len)});
        return true;
    }
    return false;
}

static void send_to_first_page(struct pfl_web *w, struct pfl_http_exchange *x)
{
    struct pfl_page_address address;

    pfl_page_address_begin(&address, pfl_web_tabs[0].path);
    pfl_web_redirect(w, x, &address, "");
}

static void route(struct pfl_web *w, struct pfl_http_exchange *x,
                  const struct pfl_web_request *request)
{
    const struct pfl_http_request *http = request->http;
    const struct pfl_web_route *found = pfl_web_routes_find(http->method, http->path);

    if (found != NULL)
        found->open(w, x, request);
    else if (strcmp(http->method, "POST") == 0)
        pfl_web_refuse(w, x, 404, "No page takes this change.");
    else if (strcmp(http->path, "/") == 0)
        send_to_first_page(w, x);
    else if (!send_asset(x, http->path))
        pfl_web_refuse(w, x, 404, "There is no such page.");
}

static void serve_page(struct pfl_web *w, struct pfl_http_exchange *exchange,
                       const struct pfl_http_request *request)
{
    struct pfl_form query = {.len = 0};
    struct pfl_form body = {.len = 0};
    const struct pfl_web_request parsed = {request, &query, &body};
    const char *why = "The request is malformed.";
    unsigned status = 400;
    int rc = pfl_form_parse(pfl_span_of(request->query, strlen(request->query)), &query);

    if (rc == 0)
        rc = pfl_form_parse(request->body, &body);
    if (rc == 0)
        status = pfl_web_access_judge(&w->access, request, &query,
                                      request->body.len != 0 ? &body : NULL, &why);
    if (status == 200)
        route(w, exchange, &parsed);
    else if (status == 303)
        enter(w, exchange);
    else
        pfl_web_refuse(w, exchange, status, why);
    pfl_form_fini(&body);
    pfl_form_fini(&query);
}

static void on_request(void *user, struct pfl_http_exchange *exchange,
                       const struct pfl_http_request *request)
{
    struct pfl_web *w = user;

    if (w->is_closing)
        pfl_web_refuse(w, exchange, 503, "perfleet ui ends.");
    else if (strncmp(request->path, PFL_BIGTRACE_PATH, sizeof(PFL_BIGTRACE_PATH) - 1) == 0)
        pfl_bigtrace_visit_open(w, exchange, request);
    else
        serve_page(w, exchange, request);
}

/* ---- opening and closing ---- */

static void on_http_closed(void *user)
{
    struct pfl_web *w = user;

    w->http = NULL;
    pfl_web_free_if_gone(w);
}

static int fill_hosts(struct pfl_web *w)
{
    int rc;

    if (w->conf.relay.name == NULL)
        return pfl_host_rows_set_specs(w->hosts, w->conf.specs, w->conf.specs_len);
    w->listed_ms = pfl_web_get_now_ms(w);
    rc = pfl_host_rows_give_inventory(w->hosts, w->conf.inventory);
    if (rc == 0)
        w->conf.inventory = NULL;
    return rc;
}

static int open_http(struct pfl_web *w)
{
    struct pfl_http_port_conf conf = {.loop = w->conf.conn.loop,
                                      .port = w->conf.port,
                                      .socket = w->conf.socket,
                                      .proxy_uid = w->conf.proxy_uid,
                                      .body_max_bytes = BODY_MAX_BYTES,
                                      .on_request = on_request,
                                      .on_closed = on_http_closed,
                                      .user = w};
    uint8_t random[PFL_WEB_RANDOM_BYTES];
    int rc;

    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return PFL_EIO;
    rc = pfl_http_port_open(&conf, &w->http);
    if (rc == 0 && w->conf.socket != NULL)
        pfl_web_access_init_proxy(&w->access, w->conf.origin, random);
    else if (rc == 0)
        pfl_web_access_init(&w->access, pfl_http_port_get_number(w->http), random);
    if (rc == 0 && w->conf.bigtrace_origin != NULL)
        pfl_web_access_set_guest(&w->access, w->conf.bigtrace_origin);
    return rc;
}

int pfl_web_open(const struct pfl_web_conf *conf, struct pfl_web **ret_web)
{
    struct pfl_web *w = pfl_mem_zalloc(sizeof(*w));
    int rc = w != NULL ? 0 : PFL_ENOMEM;

    if (rc == 0) {
        w->conf = *conf;
        w->tabs = pfl_web_tabs;
        w->tabs_len = pfl_web_tabs_len;
        if (conf->fresh_ms == 0)
            w->conf.fresh_ms = PFL_WEB_FRESH_MS;
        pfl_list_init(&w->visits);
        pfl_list_init(&w->parts);
        rc = pfl_host_rows_new(&conf->hosts, &w->hosts);
    }
    if (rc == 0)
        rc = fill_hosts(w);
    if (rc == 0)
        rc = open_http(w);
    if (rc == 0) {
        pfl_fleet_visit_begin(w);
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

void pfl_web_step(struct pfl_web *self)
{
    pfl_web_visits_step(self);
}

static void end_visit(struct pfl_web_visit *v)
{
    if (v->is_body)
        pfl_web_visit_end(v, false);
    else if (v->exchange != NULL)
        v->ops->answer(v);
    if (v->ops->abort != NULL)
        v->ops->abort(v);
}

void pfl_web_close(struct pfl_web *self)
{
    struct pfl_list *it;
    struct pfl_list *next;

    if (self->is_closing)
        return;
    self->is_closing = true;
    PFL_LIST_EACH_SAFE (it, next, &self->visits)
        end_visit(PFL_CONTAINER_OF(it, struct pfl_web_visit, node));
    PFL_LIST_EACH_SAFE (it, next, &self->parts) {
        struct pfl_web_part *part = PFL_CONTAINER_OF(it, struct pfl_web_part, node);

        part->ops->close(part);
    }
    pfl_http_port_close(self->http);
}
