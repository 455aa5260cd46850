/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hand-over of traces from pages: see open_part.h.
 *
 *     request --> [the last port closes] --> port listens --> page with the link --> fetched,
 * closed
 *
 * Happy path: as above; the page's form opens it in a tab of its own, which the link then leads to
 * the UI. Failures: a port that is taken, by `perfleet open` or a Trace Processor, is said with the
 * remedy. Ownership: the part owns the port and what waits for it to close. Limits: one request
 * waits; a newer one takes its place.
 */
#include "consumer/web/frame/open_part.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/closer.h"
#include "base/log.h"
#include "base/mem.h"
#include "consumer/open/hand_over_port.h"
#include "consumer/web/frame/web_answer.h"

#define LINK_MAX_BYTES 1024u

struct open_part {
    struct pfl_web_part base;
    struct pfl_hand_over_port *port;    /* NULL: closed */
    struct pfl_http_exchange *exchange; /* of the request that waits; NULL: none */
    int fd;                             /* its file; owned */
    char next[PFL_HAND_OVER_NAME_MAX];  /* its title */
    char title[PFL_HAND_OVER_NAME_MAX]; /* of what the port has */
    bool is_closing;
};

static void serve(struct open_part *p);

/* ---- the port ---- */

static void on_fetched(void *user, size_t trace, const char *why)
{
    (void)user;
    (void)trace;
    (void)why;
}

static void on_refused(void *user, const char *why)
{
    (void)user;
    pfl_log_warn("trace-refused", "reason=\"%s\"", why);
}

static void on_done(void *user)
{
    pfl_hand_over_port_close(((struct open_part *)user)->port);
}

static void on_closed(void *user)
{
    struct open_part *p = user;

    p->port = NULL;
    if (p->exchange != NULL) {
        serve(p);
    } else if (p->is_closing) {
        pfl_web_part_remove(&p->base);
        pfl_mem_free(p);
    }
}

static enum pfl_hand_over_way find_way(const struct pfl_web_ui *ui)
{
    if (ui->dir != NULL)
        return PFL_HAND_OVER_OWN;
    return strcmp(ui->url, PFL_HAND_OVER_UI) == 0 ? PFL_HAND_OVER_DIRECT : PFL_HAND_OVER_PAGE;
}

/* Takes p->fd. False: *ret_why is static, or the folder's problem. */
static bool open_port(struct open_part *p, const char **ret_why)
{
    const struct pfl_web_conf *web = pfl_web_get_conf(p->base.web);
    struct pfl_hand_over_port_conf conf = {.loop = web->conn.loop,
                                           .way = find_way(&web->ui),
                                           .ui_url = web->ui.url,
                                           .ui_dir = web->ui.dir,
                                           .port = web->ui.port,
                                           .wait_ms = PFL_OPEN_PART_WAIT_MS,
                                           .on_fetched = on_fetched,
                                           .on_refused = on_refused,
                                           .on_done = on_done,
                                           .on_closed = on_closed,
                                           .user = p};
    struct pfl_hand_over_problem problem = {.why = "out of memory"};

    if (pfl_hand_over_port_new(&conf, &p->port, &problem) != 0) {
        pfl_closer_close(p->fd, geteuid());
        *ret_why = problem.why != NULL ? problem.why : "out of memory";
        return false;
    }
    memcpy(p->title, p->next, sizeof(p->title));
    if (pfl_hand_over_port_add_file(p->port, p->fd, p->title) != 0) {
        *ret_why = "out of memory";
    } else if (pfl_hand_over_port_start(p->port) == 0) {
        return true;
    } else {
        *ret_why = "the port on which the Perfetto UI fetches traces, 9001 unless --ui-port names "
                   "another, is taken: end the perfleet open or Trace Processor that is there, and "
                   "try again; or download the trace";
    }
    pfl_hand_over_port_close(p->port);
    return false;
}

/* ---- the page ---- */

static int add_link(const struct open_part *p, struct pfl_buf *out)
{
    int rc = pfl_hand_over_add_link(pfl_hand_over_port_get(p->port), 0, out);

    return rc == 0 ? pfl_buf_append(out, "", 1) : rc;
}

static void send_link(struct open_part *p, struct pfl_http_exchange *exchange)
{
    struct pfl_buf link;
    struct pfl_html h;

    pfl_buf_init(&link, LINK_MAX_BYTES);
    pfl_html_init(&h, PFL_WEB_PAGE_MAX_BYTES);
    if (add_link(p, &link) != 0) {
        pfl_web_refuse(p->base.web, exchange, 503, "Out of memory.");
    } else {
        pfl_layout_to_ui((const char *)pfl_buf_get(&link).data, p->title, &h);
        pfl_web_send_page(exchange, 200, &h);
    }
    pfl_html_fini(&h);
    pfl_buf_fini(&link);
}

/* The request that waits; no port is open. */
static void serve(struct open_part *p)
{
    struct pfl_http_exchange *exchange = p->exchange;
    const char *why = "";

    p->exchange = NULL;
    if (open_port(p, &why))
        send_link(p, exchange);
    else
        pfl_web_refuse(p->base.web, exchange, 409, why);
}

static void give_up_waiting(struct open_part *p, const char *why)
{
    if (p->exchange == NULL)
        return;
    pfl_closer_close(p->fd, geteuid());
    pfl_web_refuse(p->base.web, p->exchange, 409, why);
    p->exchange = NULL;
}

/* ---- the part ---- */

static void close_part(struct pfl_web_part *base)
{
    struct open_part *p = PFL_CONTAINER_OF(base, struct open_part, base);

    p->is_closing = true;
    give_up_waiting(p, "perfleet ui ends.");
    if (p->port != NULL) {
        pfl_hand_over_port_close(p->port);
        return;
    }
    pfl_web_part_remove(&p->base);
    pfl_mem_free(p);
}

static struct open_part *get_part(struct pfl_web *web)
{
    static const struct pfl_web_part_ops ops = {.close = close_part};
    struct pfl_web_part *found = pfl_web_part_find(web, &ops);
    struct open_part *p;

    if (found != NULL)
        return PFL_CONTAINER_OF(found, struct open_part, base);
    p = pfl_mem_zalloc(sizeof(*p));
    if (p != NULL)
        pfl_web_part_add(&p->base, web, &ops);
    return p;
}

void pfl_open_part_hand_over(struct pfl_web *web, struct pfl_http_exchange *exchange, int fd,
                             const char *title)
{
    struct open_part *p = pfl_web_is_behind_proxy(web) ? NULL : get_part(web);

    if (p == NULL) {
        pfl_closer_close(fd, geteuid());
        if (pfl_web_is_behind_proxy(web))
            pfl_web_refuse(web, exchange, 409,
                           "Your Perfetto UI cannot fetch a trace from here: download it.");
        else
            pfl_web_refuse(web, exchange, 503, "Out of memory.");
        return;
    }
    give_up_waiting(p, "Another trace was opened meanwhile.");
    p->exchange = exchange;
    p->fd = fd;
    (void)snprintf(p->next, sizeof(p->next), "%s", title);
    if (p->port != NULL)
        pfl_hand_over_port_close(p->port);
    else
        serve(p);
}
