/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request to the Running page: see running_visit.h.
 *
 *     GET  --relay--> hosts asked --> the sessions
 *     POST --relay--> hosts asked --> a snapshot of those that have the session --> its page
 *
 * Happy path: as above; a snapshot is one of `perfleet snapshot`, by the recordings of the pages.
 * Failures: hosts that do not answer are counted; a session that no host has any more is said, and
 * why no host was asked.
 * Ownership: the visit owns its question to hosts. Limits: PFL_RUNNING_VISIT_MAX_HOSTS are asked.
 */
#include "consumer/web/record/running_visit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "consumer/host/host_state.h"
#include "consumer/web/frame/host_question.h"
#include "consumer/web/frame/web_answer.h"
#include "consumer/web/record/record_part.h"
#include "consumer/web/record/running_page.h"

struct running_visit {
    struct pfl_web_visit base;
    struct pfl_host_question question;
    char session[PFL_RUNNING_ROWS_NAME_BYTES]; /* "": the page */
};

static struct running_visit *visit_of(struct pfl_web_visit *base)
{
    return PFL_CONTAINER_OF(base, struct running_visit, base);
}

static size_t count_asked(const struct running_visit *v)
{
    return v->question.fan_out != NULL ? pfl_fan_out_get_len(v->question.fan_out) : 0;
}

/* ---- the page ---- */

static void send_page(struct running_visit *v, const struct pfl_running_page *page)
{
    const struct pfl_web_conf *conf = pfl_web_get_conf(v->base.web);
    struct pfl_layout layout = pfl_web_lay_out(v->base.web, "Running", "/running", v->base.notice);
    struct pfl_command_line command;
    struct pfl_html h;

    pfl_command_line_begin(&command, "ps");
    pfl_command_line_quoted(&command, conf->options);
    pfl_command_line_quoted(&command, conf->targets);
    layout.command = &command;
    pfl_html_init(&h, PFL_WEB_PAGE_MAX_BYTES);
    pfl_running_page_write(page, &layout, &h);
    pfl_web_visit_send_page(&v->base, 200, &h);
    pfl_html_fini(&h);
}

static void show(struct running_visit *v)
{
    struct pfl_running_rows *rows = pfl_mem_zalloc(sizeof(*rows));
    struct pfl_running_page page = {.rows = rows,
                                    .asked = count_asked(v),
                                    .all = pfl_host_rows_get_len(pfl_web_get_hosts(v->base.web)),
                                    .now_s = (int64_t)time(NULL)};

    if (rows == NULL) {
        pfl_web_visit_refuse(&v->base, 503, "Out of memory.");
        return;
    }
    for (size_t i = 0; i < page.asked; i++) {
        struct pfl_host_state state = pfl_host_state_get(v->question.fan_out, i);
        const struct pfl_host_spec *spec = pfl_fan_out_get_host(v->question.fan_out, i)->spec;

        page.answered += state.why[0] == '\0' &&
                         pfl_running_rows_add(rows, spec->name[0] != '\0' ? spec->name : spec->text,
                                              state.state) == 0;
    }
    send_page(v, &page);
    pfl_mem_free(rows);
}

/* ---- a snapshot ---- */

struct snapshot {
    const struct running_visit *visit;
    const struct pfl_host_spec *specs;
    size_t specs_len;
};

static void write_command(void *user, const char *file_name, struct pfl_command_line *ret_line)
{
    const struct snapshot *s = user;

    pfl_command_line_begin(ret_line, "snapshot");
    pfl_command_line_word(ret_line, s->visit->session);
    pfl_command_line_quoted(ret_line, pfl_web_get_conf(s->visit->base.web)->options);
    for (size_t i = 0; i < s->specs_len; i++)
        pfl_command_line_option(ret_line, "--host",
                                s->specs[i].kind == PFL_HOST_TUNNEL ? s->specs[i].name
                                                                    : s->specs[i].text);
    pfl_command_line_option(ret_line, "-o", file_name);
}

static size_t choose(const struct running_visit *v, struct pfl_host_spec *specs)
{
    size_t len = 0;

    for (size_t i = 0; i < count_asked(v); i++) {
        struct pfl_host_state state = pfl_host_state_get(v->question.fan_out, i);

        if (state.why[0] == '\0' && pfl_running_rows_has(state.state, v->session))
            specs[len++] = *pfl_fan_out_get_host(v->question.fan_out, i)->spec;
    }
    return len;
}

/* Takes the specs. */
static void begin(struct running_visit *v, struct pfl_recordings *recordings,
                  struct pfl_host_spec *specs, size_t len)
{
    struct snapshot user = {.visit = v, .specs = specs, .specs_len = len};
    const struct pfl_recordings_order order = {.task = PFL_HOST_TASK_SNAPSHOT,
                                               .session = v->session,
                                               .specs = specs,
                                               .specs_len = len,
                                               .what = "snapshot",
                                               .where = v->session,
                                               .write_command = write_command,
                                               .user = &user};
    char why[PFL_RECORDINGS_WHY_BYTES] = "out of memory";
    struct pfl_page_address to;
    char number[16];
    uint32_t id = 0;
    int rc = pfl_recordings_start(recordings, &order, why, &id);

    (void)snprintf(number, sizeof(number), "%" PRIu32, id);
    pfl_page_address_begin(&to, rc == 0 ? "/recording" : "/running");
    pfl_page_address_add(&to, "id", rc == 0 ? number : "");
    pfl_web_visit_redirect(&v->base, &to, rc == 0 ? "" : why);
}

static void copy(struct running_visit *v)
{
    struct pfl_recordings *recordings = pfl_record_part_get(v->base.web);
    struct pfl_host_spec *specs = pfl_mem_calloc(count_asked(v) + 1, sizeof(*specs));
    size_t len = specs != NULL ? choose(v, specs) : 0;
    const char *why = recordings == NULL || specs == NULL ? "Out of memory." : v->question.why;
    struct pfl_page_address to;

    if (recordings != NULL && len != 0) {
        begin(v, recordings, specs, len);
        return;
    }
    pfl_mem_free(specs);
    pfl_page_address_begin(&to, "/running");
    pfl_web_visit_redirect(&v->base, &to,
                           why != NULL ? why : "No host that answered runs this session any more.");
}

/* ---- the question ---- */

static void answer(struct pfl_web_visit *base)
{
    struct running_visit *v = visit_of(base);

    pfl_host_question_take(&v->question);
    if (v->session[0] != '\0')
        copy(v);
    else
        show(v);
}

static void on_relay(struct pfl_web_visit *base)
{
    struct running_visit *v = visit_of(base);
    struct pfl_host_rows *hosts = pfl_web_get_hosts(base->web);
    struct pfl_host_spec *specs = pfl_mem_calloc(PFL_RUNNING_VISIT_MAX_HOSTS, sizeof(*specs));
    struct pfl_host_row row;
    size_t len = 0;

    for (size_t i = 0; specs != NULL && i < pfl_host_rows_get_len(hosts); i++) {
        pfl_host_rows_get_row(hosts, i, &row);
        if (len < PFL_RUNNING_VISIT_MAX_HOSTS && (!row.has_relay || row.relay.is_connected))
            pfl_host_question_set_spec(&row, &specs[len++]);
    }
    pfl_host_question_open(&v->question, base, specs, len, answer);
    if (v->question.is_open)
        pfl_web_visit_set_timer(base,
                                pfl_web_get_conf(base->web)->timeout_ms + PFL_WEB_PATIENCE_MS);
    else
        answer(base);
}

static void abort_visit(struct pfl_web_visit *base)
{
    pfl_host_question_abort(&visit_of(base)->question);
}

static void free_visit(struct pfl_web_visit *base)
{
    struct running_visit *v = visit_of(base);

    pfl_host_question_fini(&v->question);
    pfl_mem_free(v);
}

static void open_visit(struct pfl_web *web, struct pfl_http_exchange *exchange,
                       const struct pfl_web_request *request, const char *session)
{
    static const struct pfl_web_visit_ops ops = {
        .on_relay = on_relay, .answer = answer, .abort = abort_visit, .on_over = free_visit};
    struct running_visit *v = pfl_mem_zalloc(sizeof(*v));

    if (v == NULL) {
        pfl_web_refuse(web, exchange, 503, "Out of memory.");
        return;
    }
    (void)snprintf(v->session, sizeof(v->session), "%s", session);
    pfl_web_visit_init(&v->base, web, exchange, request, &ops);
    pfl_web_visit_wait_for_relay(&v->base);
}

void pfl_running_visit_open(struct pfl_web *web, struct pfl_http_exchange *exchange,
                            const struct pfl_web_request *request)
{
    open_visit(web, exchange, request, "");
}

void pfl_running_visit_copy(struct pfl_web *web, struct pfl_http_exchange *exchange,
                            const struct pfl_web_request *request)
{
    const char *session = pfl_form_get(request->body, "session");

    if (session[0] == '\0' || strlen(session) >= PFL_RUNNING_ROWS_NAME_BYTES)
        pfl_web_refuse(web, exchange, 400, "Give the name of a session.");
    else
        open_visit(web, exchange, request, session);
}
