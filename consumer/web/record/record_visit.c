/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request to the Record page: see record_visit.h.
 *
 *     GET, POST part -------------------------> answered
 *     POST check --relay--> hosts asked ------> answered, with findings
 *     POST start --relay--> recording begins -> its page
 *
 * Happy path: as above; the relay's list is fresh before hosts are chosen. Failures: the form
 * again, with what is wrong at its field. Ownership: the visit owns copies of the fields and the
 * question to hosts. Limits: as fields have them; PFL_RECORD_FINDINGS_MAX_HOSTS hosts are asked.
 */
#include "consumer/web/record/record_visit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "consumer/host/host_state.h"
#include "consumer/web/frame/host_question.h"
#include "consumer/web/frame/web_answer.h"
#include "consumer/web/record/record_findings.h"
#include "consumer/web/record/record_page.h"
#include "consumer/web/record/record_part.h"

#define DEFAULT_PRESET "default"

enum deed { DEED_SHOW, DEED_COUNT, DEED_CHECK, DEED_START };

struct record_visit {
    struct pfl_web_visit base;
    enum deed deed;
    char select[PFL_SELECTOR_MAX_BYTES];
    char preset[64];
    char duration[64];
    char *config; /* owned */
    struct pfl_host_question question;
    struct pfl_record_asked asked[PFL_RECORD_FINDINGS_MAX_HOSTS]; /* borrowed from the question */
};

static struct record_visit *visit_of(struct pfl_web_visit *base)
{
    return PFL_CONTAINER_OF(base, struct record_visit, base);
}

static struct pfl_record_form form_of(const struct record_visit *v)
{
    return (struct pfl_record_form){
        .select = v->select, .preset = v->preset, .config = v->config, .duration = v->duration};
}

static struct pfl_record_means means_of(const struct record_visit *v,
                                        const struct pfl_host_spec *specs, size_t specs_len,
                                        const char *output)
{
    const struct pfl_web_conf *conf = pfl_web_get_conf(v->base.web);

    return (struct pfl_record_means){
        .options = conf->options,
        .selection = conf->hosts.selection,
        .has_names = conf->relay.name == NULL || conf->hosts.names_len != 0,
        .specs = specs,
        .specs_len = specs_len,
        .output = output,
    };
}

/* ---- the page ---- */

/* All that a page, or an order, is made of. */
struct content {
    struct pfl_record_form form;
    struct pfl_record_hosts hosts;
    struct pfl_host_spec *specs; /* owned; NULL: none */
    struct pfl_record_plan plan;
    struct pfl_buf findings;
    struct pfl_recording_view recordings[PFL_RECORDINGS_MAX];
    struct pfl_command_line command;
};

static void fini_content(struct content *c)
{
    pfl_mem_free(c->specs);
    pfl_record_plan_fini(&c->plan);
    pfl_buf_fini(&c->findings);
}

/* fini in any case. */
static int make_content(const struct record_visit *v, struct content *c)
{
    struct pfl_record_means means;
    int plan_rc;
    int rc;

    c->form = form_of(v);
    c->specs = NULL;
    pfl_buf_init(&c->findings, PFL_RECORD_FINDINGS_MAX_BYTES);
    plan_rc = pfl_record_plan_make(&c->plan, &c->form);
    rc = pfl_record_hosts_choose(pfl_web_get_hosts(v->base.web), c->form.select, &c->hosts,
                                 &c->specs);
    if (rc != 0 || plan_rc != 0)
        return PFL_ENOMEM;
    means = means_of(v, c->specs, c->specs != NULL ? c->hosts.found : 0, "fleet.pftrace");
    pfl_record_plan_write_command(&c->form, &means, &c->command);
    return 0;
}

static int find(struct record_visit *v, struct content *c)
{
    const struct pfl_record_findings findings = {
        .rows = pfl_web_get_hosts(v->base.web),
        .asked = v->asked,
        .asked_len = pfl_fan_out_get_len(v->question.fan_out),
        .config = pfl_buf_get(&c->plan.config),
        .now_s = (int64_t)time(NULL),
        .version = pfl_web_get_conf(v->base.web)->version,
    };

    for (size_t i = 0; i < findings.asked_len; i++) {
        const struct pfl_host_spec *spec = pfl_fan_out_get_host(v->question.fan_out, i)->spec;
        struct pfl_host_state state = pfl_host_state_get(v->question.fan_out, i);

        v->asked[i] =
            (struct pfl_record_asked){.name = spec->name[0] != '\0' ? spec->name : spec->text,
                                      .why = state.why,
                                      .state = state.state};
    }
    return pfl_record_findings_write(&findings, &c->findings);
}

static void send_page(struct record_visit *v, struct content *c, const char *why)
{
    struct pfl_recordings *recordings = pfl_record_part_get(v->base.web);
    struct pfl_layout layout = pfl_web_lay_out(v->base.web, "Record", "/record", v->base.notice);
    struct pfl_record_page page = {
        .form = &c->form,
        .hosts = &c->hosts,
        .plan = &c->plan,
        .rows = pfl_web_get_hosts(v->base.web),
        .is_checked = v->deed >= DEED_CHECK,
        .why = why,
        .findings = c->findings.len != 0 ? (const char *)pfl_buf_get(&c->findings).data : NULL,
        .asked = v->question.fan_out != NULL ? pfl_fan_out_get_len(v->question.fan_out) : 0,
        .recordings = c->recordings,
        .recordings_len = recordings != NULL ? pfl_recordings_list(recordings, c->recordings) : 0,
    };
    struct pfl_html h;

    layout.command = &c->command;
    pfl_html_init(&h, PFL_WEB_PAGE_MAX_BYTES);
    if (v->deed == DEED_COUNT) {
        pfl_record_page_write_check(&page, &h);
        pfl_layout_add_command(&layout, &h);
    } else {
        pfl_record_page_write(&page, &layout, &h);
    }
    pfl_web_visit_send_page(&v->base, 200, &h);
    pfl_html_fini(&h);
}

static void answer(struct pfl_web_visit *base)
{
    struct record_visit *v = visit_of(base);
    struct content *c = pfl_mem_zalloc(sizeof(*c));
    int rc = c != NULL ? make_content(v, c) : PFL_ENOMEM;

    pfl_host_question_take(&v->question);
    if (rc == 0 && v->question.fan_out != NULL)
        rc = find(v, c);
    if (rc == 0)
        send_page(v, c, "");
    else
        pfl_web_visit_refuse(base, 503, "Out of memory.");
    if (c != NULL)
        fini_content(c);
    pfl_mem_free(c);
}

/* ---- the start ---- */

struct order {
    const struct record_visit *visit;
    const struct content *content;
    const struct pfl_host_spec *specs;
};

static void write_command(void *user, const char *file_name, struct pfl_command_line *ret_line)
{
    const struct order *o = user;
    struct pfl_record_means means =
        means_of(o->visit, o->specs, o->content->hosts.found, file_name);

    pfl_record_plan_write_command(&o->content->form, &means, ret_line);
}

static void begin(struct record_visit *v, struct content *c, struct pfl_recordings *recordings)
{
    struct order user = {.visit = v, .content = c, .specs = c->specs};
    const struct pfl_recordings_order order = {
        .task = PFL_HOST_TASK_RECORD,
        .config = pfl_buf_get(&c->plan.config),
        .info = &c->plan.info,
        .is_streamed = c->plan.is_streamed,
        .specs = c->specs,
        .specs_len = c->hosts.found,
        .what = v->preset[0] != '\0' ? v->preset : "own config",
        .where = v->select,
        .write_command = write_command,
        .user = &user,
    };
    char why[PFL_RECORDINGS_WHY_BYTES] = "";
    struct pfl_page_address to;
    char number[16];
    uint32_t id = 0;
    int rc;

    c->specs = NULL; /* they are the order's */
    rc = pfl_recordings_start(recordings, &order, why, &id);
    if (rc != 0) {
        send_page(v, c, why[0] != '\0' ? why : "out of memory");
        return;
    }
    (void)snprintf(number, sizeof(number), "%" PRIu32, id);
    pfl_page_address_begin(&to, "/recording");
    pfl_page_address_add(&to, "id", number);
    pfl_web_visit_redirect(&v->base, &to, "");
}

static void start(struct record_visit *v)
{
    struct pfl_recordings *recordings = pfl_record_part_get(v->base.web);
    struct content *c = recordings != NULL ? pfl_mem_zalloc(sizeof(*c)) : NULL;

    if (c == NULL || make_content(v, c) != 0)
        pfl_web_visit_refuse(&v->base, 503, "Out of memory.");
    else if (c->specs != NULL && pfl_record_plan_is_good(&c->plan))
        begin(v, c, recordings);
    else
        send_page(v, c, "what is wrong is said below.");
    if (c != NULL)
        fini_content(c);
    pfl_mem_free(c);
}

/* ---- the check ---- */

static void check(struct record_visit *v)
{
    struct pfl_record_hosts hosts;
    struct pfl_host_spec *specs = NULL;
    size_t len;

    if (pfl_record_hosts_choose(pfl_web_get_hosts(v->base.web), v->select, &hosts, &specs) == 0 &&
        specs != NULL) {
        len = hosts.found < PFL_RECORD_FINDINGS_MAX_HOSTS ? hosts.found
                                                          : PFL_RECORD_FINDINGS_MAX_HOSTS;
        pfl_host_question_open(&v->question, &v->base, specs, len, answer);
    }
    if (v->question.is_open)
        pfl_web_visit_set_timer(&v->base,
                                pfl_web_get_conf(v->base.web)->timeout_ms + PFL_WEB_PATIENCE_MS);
    else
        answer(&v->base);
}

static void on_relay(struct pfl_web_visit *base)
{
    struct record_visit *v = visit_of(base);

    if (v->deed == DEED_START)
        start(v);
    else if (v->deed == DEED_CHECK)
        check(v);
    else
        answer(base);
}

/* ---- from outside ---- */

static void abort_visit(struct pfl_web_visit *base)
{
    pfl_host_question_abort(&visit_of(base)->question);
}

static void free_visit(struct pfl_web_visit *base)
{
    struct record_visit *v = visit_of(base);

    pfl_host_question_fini(&v->question);
    pfl_mem_free(v->config);
    pfl_mem_free(v);
}

static const struct pfl_web_visit_ops visit_ops = {
    .on_relay = on_relay, .answer = answer, .abort = abort_visit, .on_over = free_visit};

/* NULL: the request was refused. */
static struct record_visit *make_visit(struct pfl_web *web, struct pfl_http_exchange *exchange,
                                       const struct pfl_web_request *request,
                                       const struct pfl_form *form)
{
    struct record_visit *v = pfl_mem_zalloc(sizeof(*v));

    if (v != NULL)
        v->config = pfl_mem_strdup(pfl_form_get(form, "config"));
    if (v == NULL || v->config == NULL) {
        pfl_mem_free(v);
        pfl_web_refuse(web, exchange, 503, "Out of memory.");
        return NULL;
    }
    pfl_record_form_join_lines(v->config);
    (void)snprintf(v->select, sizeof(v->select), "%s", pfl_form_get(form, "select"));
    (void)snprintf(v->preset, sizeof(v->preset), "%s", pfl_form_get(form, "preset"));
    (void)snprintf(v->duration, sizeof(v->duration), "%s", pfl_form_get(form, "duration"));
    pfl_web_visit_init(&v->base, web, exchange, request, &visit_ops);
    return v;
}

void pfl_record_visit_open(struct pfl_web *web, struct pfl_http_exchange *exchange,
                           const struct pfl_web_request *request)
{
    struct record_visit *v = make_visit(web, exchange, request, request->query);

    if (v == NULL)
        return;
    if (v->preset[0] == '\0')
        (void)snprintf(v->preset, sizeof(v->preset), "%s", DEFAULT_PRESET);
    pfl_web_visit_wait_for_relay(&v->base);
}

void pfl_record_visit_post(struct pfl_web *web, struct pfl_http_exchange *exchange,
                           const struct pfl_web_request *request)
{
    struct record_visit *v = make_visit(web, exchange, request, request->body);

    if (v == NULL)
        return;
    v->deed = DEED_CHECK;
    if (pfl_form_has(request->body, "part"))
        v->deed = DEED_COUNT;
    else if (strcmp(pfl_form_get(request->body, "do"), "start") == 0)
        v->deed = DEED_START;
    if (v->deed == DEED_COUNT)
        answer(&v->base); /* with the list that is known */
    else
        pfl_web_visit_wait_for_relay(&v->base);
}
