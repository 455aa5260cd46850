/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removing alarms: see alarm_visit.h.
 *
 *     POST --relay--> agents list alarms --> those that have it:
 *          a page that asks, or each removes it --> the result on Running
 *
 * Happy path: as above, as `perfleet disarm` does. Failures: a session without alarms is said, or
 * why no agent was asked; agents that fail are counted, the first with its reason. Ownership: the
 * visit owns its call. Limits: PFL_RUNNING_VISIT_MAX_HOSTS are asked.
 */
#include "consumer/web/running/alarm_visit.h"

#include <stdio.h>

#include "base/mem.h"
#include "consumer/web/frame/notices.h"
#include "consumer/web/frame/web_answer.h"
#include "consumer/web/running/alarm_call_port.h"
#include "consumer/web/running/alarm_page.h"
#include "consumer/web/running/running_visit.h"
#include "proto/tunnel/identity.h"

#define GONE 410u /* there is none */

struct alarm_visit {
    struct pfl_web_visit base;
    bool is_sure;
    bool is_removing;
    char session[PFL_ALARM_ROWS_NAME_BYTES];
    struct pfl_alarm_call call;
    size_t found;                    /* hosts that have it */
    size_t done;                     /* of them */
    char why[PFL_NOTICES_MAX_BYTES]; /* "", or of the first that did not */
};

static struct alarm_visit *visit_of(struct pfl_web_visit *base)
{
    return PFL_CONTAINER_OF(base, struct alarm_visit, base);
}

static void lead_back(struct alarm_visit *v, const char *result)
{
    struct pfl_page_address to;

    pfl_page_address_begin(&to, "/running");
    pfl_web_visit_redirect(&v->base, &to, result);
}

/* ---- the answers ---- */

static void keep_why(struct alarm_visit *v, size_t host, const char *why)
{
    if (v->why[0] == '\0')
        (void)snprintf(v->why, sizeof(v->why), "%s: %s", v->call.hosts[host], why);
}

static void on_answer(struct pfl_web_visit *base, size_t host, int err, unsigned status,
                      struct pfl_span body)
{
    struct alarm_visit *v = visit_of(base);
    char why[256];

    pfl_host_calls_explain(err, status, body, why, sizeof(why));
    if (why[0] != '\0' && !(v->is_removing && err == 0 && status == GONE))
        keep_why(v, host, why);
    else if (v->is_removing)
        v->done++;
    if (v->is_removing)
        return;
    if (why[0] == '\0' && pfl_alarm_rows_has(body, v->session))
        v->found++;
    else
        pfl_alarm_call_leave_out(&v->call, host);
}

static void say_result(struct alarm_visit *v)
{
    char text[2 * PFL_NOTICES_MAX_BYTES]; /* the notice is cut */

    if (v->done == v->found)
        (void)snprintf(text, sizeof(text), "%s was disarmed on %zu %s.", v->session, v->found,
                       v->found == 1 ? "host" : "hosts");
    else
        (void)snprintf(text, sizeof(text), "%s was disarmed on %zu of %zu hosts. %s.", v->session,
                       v->done, v->found, v->why);
    lead_back(v, text);
}

static void ask_first(struct alarm_visit *v)
{
    const struct pfl_web_conf *conf = pfl_web_get_conf(v->base.web);
    struct pfl_layout layout = pfl_web_lay_out(v->base.web, "Running", "/running", 0);
    struct pfl_command_line command;
    struct pfl_html h;

    pfl_command_line_begin(&command, "disarm");
    pfl_command_line_word(&command, v->session);
    pfl_command_line_quoted(&command, conf->options);
    for (size_t i = 0; i < v->call.len; i++)
        pfl_command_line_option(&command, "--host", v->call.hosts[i]);
    layout.command = &command;
    pfl_html_init(&h, PFL_WEB_PAGE_MAX_BYTES);
    pfl_alarm_page_write_confirm(v->session, v->found, &layout, &h);
    pfl_web_visit_send_page(&v->base, 200, &h);
    pfl_html_fini(&h);
}

static void say_none(struct alarm_visit *v)
{
    char text[2 * PFL_NOTICES_MAX_BYTES];

    (void)snprintf(text, sizeof(text), "No host that answered has your alarm for %s any more.%s%s",
                   v->session, v->why[0] != '\0' ? " " : "", v->why);
    lead_back(v, text);
}

static void on_over(struct pfl_web_visit *base)
{
    struct alarm_visit *v = visit_of(base);

    if (base->exchange == NULL)
        return;
    if (v->is_removing) {
        say_result(v);
    } else if (v->found == 0) {
        say_none(v);
    } else if (!v->is_sure) {
        ask_first(v);
    } else {
        v->is_removing = true;
        v->why[0] = '\0';
        pfl_alarm_call_open(&v->call, "DELETE", v->session);
        if (!v->call.is_open)
            lead_back(v, v->call.why);
    }
}

/* ---- the visit ---- */

static void answer(struct pfl_web_visit *base)
{
    lead_back(visit_of(base), "perfleet ui ended before the agents answered.");
}

static void on_relay(struct pfl_web_visit *base)
{
    static const struct pfl_alarm_call_ops ops = {on_answer, on_over};
    struct alarm_visit *v = visit_of(base);

    pfl_alarm_call_init(&v->call, base, &ops, PFL_RUNNING_VISIT_MAX_HOSTS);
    pfl_alarm_call_open(&v->call, "GET", "");
    if (!v->call.is_open)
        lead_back(v, v->call.why);
}

static void abort_visit(struct pfl_web_visit *base)
{
    pfl_alarm_call_abort(&visit_of(base)->call);
}

static void free_visit(struct pfl_web_visit *base)
{
    struct alarm_visit *v = visit_of(base);

    pfl_alarm_call_fini(&v->call);
    pfl_mem_free(v);
}

void pfl_alarm_visit_disarm(struct pfl_web *web, struct pfl_http_exchange *exchange,
                            const struct pfl_web_request *request)
{
    static const struct pfl_web_visit_ops ops = {
        .on_relay = on_relay, .answer = answer, .abort = abort_visit, .on_over = free_visit};
    const char *session = pfl_form_get(request->body, "session");
    struct alarm_visit *v;

    if (!pfl_identity_is_name(session)) {
        pfl_web_refuse(web, exchange, 400, "Give the name of an alarm's session.");
        return;
    }
    v = pfl_mem_zalloc(sizeof(*v));
    if (v == NULL) {
        pfl_web_refuse(web, exchange, 503, "Out of memory.");
        return;
    }
    v->is_sure = pfl_form_has(request->body, "sure");
    (void)snprintf(v->session, sizeof(v->session), "%s", session);
    pfl_web_visit_init(&v->base, web, exchange, request, &ops);
    pfl_web_visit_wait_for_relay(&v->base);
}
