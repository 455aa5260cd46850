/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of sessions: see session_change_visit.h.
 *
 *     POST --relay--> hosts asked --> those that have it:
 *          snapshot, read --> a recording of the pages, and its page
 *          stop, discard --> a page that asks, or each host does it --> the result on Running
 *
 * Happy path: as above; each is what the command of the same name does. A session that has a name
 * is read with --keep: the page's trace is removed after a while, so the hosts keep theirs until it
 * is discarded. Failures: a session that no host has any more is said, and why no host was asked;
 * hosts that fail are counted, the first with its reason. Ownership: the visit owns its questions
 * to hosts. Limits: PFL_RUNNING_VISIT_MAX_HOSTS are asked.
 */
#include "consumer/web/running/session_change_visit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "consumer/host/detached_session.h"
#include "consumer/host/host_state.h"
#include "consumer/host/session_find.h"
#include "consumer/web/frame/host_question.h"
#include "consumer/web/frame/notices.h"
#include "consumer/web/frame/web_answer.h"
#include "consumer/web/record/record_part.h"
#include "consumer/web/running/running_page.h"
#include "consumer/web/running/running_visit.h"

struct change_visit {
    struct pfl_web_visit base;
    enum pfl_running_action action;
    bool is_sure;
    char session[PFL_RUNNING_ROWS_NAME_BYTES];
    struct pfl_host_question question;
    struct pfl_host_question act; /* of those that have it */
    bool is_acting;
};

static struct change_visit *visit_of(struct pfl_web_visit *base)
{
    return PFL_CONTAINER_OF(base, struct change_visit, base);
}

static void lead_back(struct change_visit *v, const char *result)
{
    struct pfl_page_address to;

    pfl_page_address_begin(&to, "/running");
    pfl_web_visit_redirect(&v->base, &to, result);
}

/* ---- the hosts that have it ---- */

struct chosen {
    const struct change_visit *visit;
    struct pfl_host_spec *specs; /* owned */
    size_t len;
    bool has_name; /* it is the session's name, not only a key */
};

static void choose(struct change_visit *v, struct chosen *ret_chosen)
{
    size_t asked = pfl_host_question_get_len(&v->question);
    struct chosen c = {.visit = v, .specs = pfl_mem_calloc(asked + 1, sizeof(*c.specs))};

    for (size_t i = 0; c.specs != NULL && i < asked; i++) {
        struct pfl_host_state state = pfl_host_state_get(v->question.fan_out, i);
        enum pfl_session_found found = pfl_session_find(state.state, v->session);
        bool is_there = v->action == PFL_RUNNING_SNAPSHOT
                            ? found == PFL_SESSION_RUNNING
                            : pfl_running_rows_has_key(state.state, v->session);

        if (state.why[0] != '\0' || !is_there)
            continue;
        c.has_name |= found != PFL_SESSION_NONE;
        c.specs[c.len++] = *pfl_fan_out_get_host(v->question.fan_out, i)->spec;
    }
    *ret_chosen = c;
}

static bool keeps(const struct chosen *c)
{
    return c->visit->action == PFL_RUNNING_READ && c->has_name;
}

/* `file_name`: NULL, or where the trace goes. */
static void write_command(void *user, const char *file_name, struct pfl_command_line *ret_line)
{
    const struct chosen *c = user;

    pfl_command_line_begin(ret_line, pfl_running_page_name_action(c->visit->action));
    pfl_command_line_word(ret_line, c->visit->session);
    if (keeps(c))
        pfl_command_line_word(ret_line, "--keep");
    pfl_command_line_quoted(ret_line, pfl_web_get_conf(c->visit->base.web)->options);
    for (size_t i = 0; i < c->len; i++)
        pfl_command_line_option(ret_line, "--host",
                                c->specs[i].kind == PFL_HOST_TUNNEL ? c->specs[i].name
                                                                    : c->specs[i].text);
    pfl_command_line_option(ret_line, "-o", file_name);
}

/* ---- a recording ---- */

/* Takes the specs. */
static void record(struct change_visit *v, struct pfl_recordings *recordings, struct chosen *c)
{
    bool is_read = v->action == PFL_RUNNING_READ;
    const struct pfl_recordings_order order = {
        .task = is_read ? PFL_HOST_TASK_READ : PFL_HOST_TASK_SNAPSHOT,
        .session = v->session,
        .keeps_session = keeps(c),
        .specs = c->specs,
        .specs_len = c->len,
        .what = pfl_running_page_name_action(v->action),
        .where = v->session,
        .write_command = write_command,
        .user = c,
    };
    char why[PFL_RECORDINGS_WHY_BYTES] = "out of memory";
    struct pfl_page_address to;
    char number[16];
    uint32_t id = 0;
    int rc = pfl_recordings_start(recordings, &order, why, &id);

    c->specs = NULL;
    (void)snprintf(number, sizeof(number), "%" PRIu32, id);
    pfl_page_address_begin(&to, rc == 0 ? "/recording" : "/running");
    pfl_page_address_add(&to, "id", rc == 0 ? number : "");
    pfl_web_visit_redirect(&v->base, &to, rc == 0 ? "" : why);
}

/* ---- a change on the hosts ---- */

static void say_result(struct pfl_web_visit *base)
{
    struct change_visit *v = visit_of(base);
    size_t len = pfl_host_question_get_len(&v->act);
    const char *done = v->action == PFL_RUNNING_STOP ? "stopped" : "discarded";
    const struct pfl_fan_out_host *failed = NULL;
    char text[4 * PFL_NOTICES_MAX_BYTES]; /* the notice is cut */
    size_t count = 0;

    for (size_t i = 0; i < len; i++) {
        const struct pfl_fan_out_host *h = pfl_fan_out_get_host(v->act.fan_out, i);
        bool is_done = h->is_done && h->why[0] == '\0';

        count += is_done;
        if (!is_done && failed == NULL)
            failed = h;
    }
    if (failed == NULL)
        (void)snprintf(text, sizeof(text), "%s was %s on %zu %s.", v->session, done, len,
                       len == 1 ? "host" : "hosts");
    else
        (void)snprintf(text, sizeof(text), "%s was %s on %zu of %zu hosts. %s: %s.", v->session,
                       done, count, len,
                       failed->spec->name[0] != '\0' ? failed->spec->name : failed->spec->text,
                       failed->why[0] != '\0' ? failed->why : "no answer in time");
    lead_back(v, text);
}

static void on_ready(void *user, struct pfl_fan_out_host *host)
{
    const struct pfl_host_question *q = user;
    const struct change_visit *v = visit_of(q->visit);

    if (v->action == PFL_RUNNING_STOP)
        pfl_detached_session_stop(host, v->session);
    else
        pfl_detached_session_discard(host, v->session);
}

/* Takes the specs. */
static void act(struct change_visit *v, struct chosen *c)
{
    struct pfl_host_spec *specs = c->specs;

    c->specs = NULL;
    v->is_acting = true;
    v->act.on_ready = on_ready;
    pfl_host_question_open(&v->act, &v->base, specs, c->len, say_result);
    if (v->act.is_open)
        pfl_web_visit_set_timer(&v->base,
                                pfl_web_get_conf(v->base.web)->timeout_ms + PFL_WEB_PATIENCE_MS);
    else
        lead_back(v, v->act.why);
}

static void ask_first(struct change_visit *v, struct chosen *c)
{
    struct pfl_layout layout = pfl_web_lay_out(v->base.web, "Running", "/running", 0);
    struct pfl_command_line command;
    struct pfl_html h;

    write_command(c, NULL, &command);
    layout.command = &command;
    pfl_html_init(&h, PFL_WEB_PAGE_MAX_BYTES);
    pfl_running_page_write_confirm(v->action, v->session, c->len, &layout, &h);
    pfl_web_visit_send_page(&v->base, 200, &h);
    pfl_html_fini(&h);
}

/* ---- the visit ---- */

static void begin(struct pfl_web_visit *base)
{
    struct change_visit *v = visit_of(base);
    struct pfl_recordings *recordings = pfl_record_part_get(base->web);
    struct chosen chosen;

    if (v->is_acting)
        return; /* a host that was late */
    pfl_host_question_take(&v->question);
    choose(v, &chosen);
    if (v->question.why != NULL)
        lead_back(v, v->question.why);
    else if (recordings == NULL || chosen.specs == NULL)
        lead_back(v, "Out of memory.");
    else if (chosen.len == 0)
        lead_back(v, "No host that answered has this session any more.");
    else if (v->action == PFL_RUNNING_SNAPSHOT || v->action == PFL_RUNNING_READ)
        record(v, recordings, &chosen);
    else if (v->is_sure)
        act(v, &chosen);
    else
        ask_first(v, &chosen);
    pfl_mem_free(chosen.specs);
}

static void answer(struct pfl_web_visit *base)
{
    if (visit_of(base)->is_acting)
        say_result(base);
    else if (pfl_web_is_closing(base->web))
        lead_back(visit_of(base), "perfleet ui ends.");
    else
        begin(base);
}

static void on_relay(struct pfl_web_visit *base)
{
    struct change_visit *v = visit_of(base);

    pfl_host_question_open_all(&v->question, base, PFL_RUNNING_VISIT_MAX_HOSTS, begin);
    if (v->question.is_open)
        pfl_web_visit_set_timer(base,
                                pfl_web_get_conf(base->web)->timeout_ms + PFL_WEB_PATIENCE_MS);
    else
        begin(base);
}

static void abort_visit(struct pfl_web_visit *base)
{
    pfl_host_question_abort(&visit_of(base)->question);
    pfl_host_question_abort(&visit_of(base)->act);
}

static void free_visit(struct pfl_web_visit *base)
{
    struct change_visit *v = visit_of(base);

    pfl_host_question_fini(&v->question);
    pfl_host_question_fini(&v->act);
    pfl_mem_free(v);
}

void pfl_session_change_visit_open(struct pfl_web *web, struct pfl_http_exchange *exchange,
                                   const struct pfl_web_request *request)
{
    static const struct pfl_web_visit_ops ops = {
        .on_relay = on_relay, .answer = answer, .abort = abort_visit, .on_over = free_visit};
    enum pfl_running_action action =
        pfl_running_page_parse_action(pfl_form_get(request->body, "do"));
    const char *session = pfl_form_get(request->body, "session");
    struct change_visit *v;

    if (action == PFL_RUNNING_NONE) {
        pfl_web_refuse(web, exchange, 400, "There is no such action.");
        return;
    }
    if (session[0] == '\0' || strlen(session) >= PFL_RUNNING_ROWS_NAME_BYTES) {
        pfl_web_refuse(web, exchange, 400, "Give the name of a session.");
        return;
    }
    v = pfl_mem_zalloc(sizeof(*v));
    if (v == NULL) {
        pfl_web_refuse(web, exchange, 503, "Out of memory.");
        return;
    }
    v->action = action;
    v->is_sure = pfl_form_has(request->body, "sure");
    (void)snprintf(v->session, sizeof(v->session), "%s", session);
    pfl_web_visit_init(&v->base, web, exchange, request, &ops);
    pfl_web_visit_wait_for_relay(&v->base);
}
