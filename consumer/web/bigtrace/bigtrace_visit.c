/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The adapter: see bigtrace_visit.h.
 *
 *     request --access--> what it asks for --body as JSON--> answer, now or when it is there
 *
 * Happy path: the table of requests names a handler; its answer is JSON. A list of traces, and an
 * answer that the page waits for, come later: a visit. Failures: a status with {"detail": why},
 * which the page shows. Ownership: a visit owns what it waits for. Limits: those of the headers.
 */
#include "consumer/web/bigtrace/bigtrace_visit.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "consumer/text.h"
#include "consumer/web/bigtrace/bigtrace_part.h"
#include "consumer/web/bigtrace/bigtrace_reply.h"
#include "consumer/web/bigtrace/bigtrace_source_port.h"
#include "consumer/web/frame/web_answer.h"
#include "consumer/web/frame/web_impl.h"

#define FIELDS_BYTES 1024u
#define LOOK_MS      1000u /* so often: does the browser still wait? */
#define WORDS_BYTES  512u

/* Where an answer goes. */
struct reader {
    struct pfl_web *web;
    struct pfl_http_exchange *exchange;
    bool is_guest;
};

/* ---- answers ---- */

/* `body` is JSON; rc: whether it is. */
static void send_json(const struct reader *r, unsigned status, int rc, struct pfl_buf *body)
{
    char fields[FIELDS_BYTES];
    struct pfl_http_answer answer = {
        .status = status, .type = "application/json", .fields = fields};

    if (rc == 0) {
        answer.body = pfl_buf_get(body);
    } else {
        answer.status = 503;
        answer.body = pfl_span_of("{\"detail\":\"out of memory\"}", 26);
    }
    (void)snprintf(fields, sizeof(fields), "%s", PFL_WEB_SECURITY_FIELDS);
    if (r->is_guest)
        (void)snprintf(fields + strlen(fields), sizeof(fields) - strlen(fields),
                       "Access-Control-Allow-Origin: %s\r\n"
                       "Access-Control-Allow-Credentials: true\r\n"
                       "Access-Control-Allow-Methods: GET, POST, DELETE\r\n"
                       "Access-Control-Allow-Headers: Content-Type\r\n"
                       "Access-Control-Max-Age: 600\r\n"
                       "Vary: Origin\r\n",
                       r->web->access.guest);
    pfl_http_exchange_answer(r->exchange, &answer);
    pfl_buf_fini(body);
}

static void init_body(struct pfl_buf *body)
{
    pfl_buf_init(body, PFL_HTTP_ANSWER_MAX_BYTES);
}

static void refuse(const struct reader *r, unsigned status, const char *why)
{
    struct pfl_buf body;
    int rc;

    init_body(&body);
    rc = pfl_bigtrace_reply_refusal(why, &body);
    send_json(r, status, rc, &body);
}

static void refuse_for(const struct reader *r, int rc)
{
    refuse(r, 503, pfl_err_str(rc));
}

static void send_made(const struct reader *r, int (*make)(struct pfl_buf *out))
{
    struct pfl_buf body;
    int rc;

    init_body(&body);
    rc = make(&body);
    send_json(r, 200, rc, &body);
}

/* ---- a page of a table ---- */

struct columns {
    size_t all[PFL_BIGTRACE_COLUMNS_MAX];
    size_t len;
};

/* What the request names, or else the defaults. False: `ret_name` is not there. */
static bool find_columns(const struct pfl_bigtrace_table *table,
                         const struct pfl_bigtrace_view *view, struct columns *columns,
                         const char **ret_name)
{
    if (view->columns_len != 0)
        columns->len = 0;
    for (size_t i = 0; i < view->columns_len; i++) {
        size_t column = pfl_bigtrace_table_find(table, view->columns[i]);

        *ret_name = view->columns[i];
        if (column == SIZE_MAX)
            return false;
        columns->all[columns->len++] = column;
    }
    return true;
}

static void refuse_column(const struct reader *r, const char *name)
{
    char words[WORDS_BYTES];

    (void)snprintf(words, sizeof(words), "there is no column %s", name);
    refuse(r, 400, words);
}

/* `columns` are the defaults. */
static void send_page(const struct reader *r, const struct pfl_bigtrace_table *table,
                      const struct pfl_bigtrace_view *view, struct columns *columns,
                      const char *uuid)
{
    struct pfl_bigtrace_rows rows = {.len = 0};
    struct pfl_bigtrace_page page = {.table = table,
                                     .rows = &rows,
                                     .offset = view->offset,
                                     .limit = view->limit,
                                     .columns = columns->all,
                                     .uuid = uuid,
                                     .has_available = uuid != NULL};
    const char *name = "";
    struct pfl_buf body;
    int rc = find_columns(table, view, columns, &name)
                 ? pfl_bigtrace_table_select(table, view, &rows, &name)
                 : PFL_ENOENT;

    if (rc == PFL_ENOENT) {
        refuse_column(r, name);
        return;
    }
    page.columns_len = columns->len;
    init_body(&body);
    if (rc == 0)
        rc = pfl_bigtrace_reply_page(&page, &body);
    pfl_bigtrace_rows_fini(&rows);
    if (rc == PFL_ELIMIT) {
        pfl_buf_fini(&body);
        refuse(r, 413, "these rows have more than 3 MiB: choose fewer columns, or fewer rows");
    } else {
        send_json(r, 200, rc, &body);
    }
}

/* ---- the list of traces ---- */

struct list_visit {
    struct pfl_web_visit base;
    bool is_guest;
    struct pfl_bigtrace_request request; /* owned, as these */
    struct pfl_bigtrace_traces traces;
    struct pfl_bigtrace_source *source;
    bool is_listed;
};

static struct list_visit *list_of(struct pfl_web_visit *base)
{
    return PFL_CONTAINER_OF(base, struct list_visit, base);
}

static struct reader take_reader(struct pfl_web_visit *base, bool is_guest)
{
    return (struct reader){base->web, pfl_web_visit_take_exchange(base), is_guest};
}

static void send_list(struct list_visit *v)
{
    struct reader r = take_reader(&v->base, v->is_guest);
    struct columns columns = {.len = 0};

    for (size_t i = 0; i < PFL_BIGTRACE_TRACE_COLUMNS; i++)
        if (pfl_bigtrace_trace_columns[i].is_default)
            columns.all[columns.len++] = i;
    send_page(&r, v->traces.table, &v->request.view, &columns, NULL);
}

static void refuse_list(struct list_visit *v, unsigned status, const char *why)
{
    struct reader r = take_reader(&v->base, v->is_guest);

    refuse(&r, status, why);
}

static void on_listed(void *user)
{
    struct list_visit *v = user;

    v->is_listed = true;
    pfl_bigtrace_source_end(v->source, "");
}

static void on_list_reply(void *user, const Perfleet__CollectorReply *reply)
{
    (void)user;
    (void)reply;
}

static void on_list_done(void *user, const char *why)
{
    struct list_visit *v = user;

    if (v->base.exchange != NULL) {
        if (!v->is_listed)
            refuse_list(v, 502, why);
        else if (v->traces.is_cut)
            refuse_list(v, 400,
                        "more than 20,000 traces are selected: set Since, Until, Host, Labels or "
                        "Order");
        else
            send_list(v);
    }
    pfl_web_visit_release(&v->base);
}

static void answer_list(struct pfl_web_visit *base)
{
    refuse_list(list_of(base), 503, "perfleet ui ends");
}

static void abort_list(struct pfl_web_visit *base)
{
    struct list_visit *v = list_of(base);

    if (v->source != NULL)
        pfl_bigtrace_source_end(v->source, "");
}

static void free_list(struct pfl_web_visit *base)
{
    struct list_visit *v = list_of(base);

    pfl_bigtrace_source_free(v->source);
    pfl_bigtrace_traces_fini(&v->traces);
    pfl_bigtrace_request_fini(&v->request);
    pfl_mem_free(v);
}

static void init_visit(struct pfl_web_visit *visit, const struct reader *r,
                       const struct pfl_web_visit_ops *ops)
{
    static const struct pfl_form empty;
    const struct pfl_web_request request = {.query = &empty, .body = &empty};

    pfl_web_visit_init(visit, r->web, r->exchange, &request, ops);
}

static void open_list(const struct reader *r, struct pfl_bigtrace_request *request)
{
    static const struct pfl_web_visit_ops ops = {
        .answer = answer_list, .abort = abort_list, .on_over = free_list};
    struct list_visit *v = pfl_mem_zalloc(sizeof(*v));
    struct pfl_bigtrace_source_conf conf = {.web = pfl_web_get_conf(r->web),
                                            .on_listed = on_listed,
                                            .on_reply = on_list_reply,
                                            .on_done = on_list_done,
                                            .user = v};
    int rc;

    if (v == NULL) {
        refuse_for(r, PFL_ENOMEM);
        return;
    }
    init_visit(&v->base, r, &ops);
    v->is_guest = r->is_guest;
    v->request = *request;
    request->root = NULL;
    conf.traces = &v->traces;
    rc = pfl_bigtrace_traces_init(&v->traces, &v->request, (int64_t)time(NULL));
    if (rc == 0)
        rc = pfl_bigtrace_source_open(&conf, &v->source);
    if (rc == 0)
        pfl_web_visit_hold(&v->base);
    else if (rc == PFL_EINVAL)
        refuse_list(v, 400, v->traces.selection.why);
    else
        refuse_list(v, 503, pfl_err_str(rc));
}

/* ---- an answer that is waited for ---- */

struct wait_visit {
    struct pfl_web_visit base;
    bool is_guest;
    struct pfl_bigtrace_execution *execution; /* borrowed until on_end; NULL: it ended */
};

static struct wait_visit *wait_of(struct pfl_web_visit *base)
{
    return PFL_CONTAINER_OF(base, struct wait_visit, base);
}

static void send_failure(const struct reader *r, const struct pfl_bigtrace_facts *facts)
{
    char words[WORDS_BYTES + 4096];

    (void)snprintf(words, sizeof(words), "%s%s",
                   facts->status == PFL_BIGTRACE_CANCELLED ? "The question was cancelled."
                                                           : facts->error,
                   facts->rows != 0 ? "\nTo see the rows that came, run it materialized." : "");
    refuse(r, facts->status == PFL_BIGTRACE_CANCELLED ? 409 : 502, words);
}

static void send_answer(const struct reader *r, const struct pfl_bigtrace_execution *execution,
                        const struct pfl_bigtrace_facts *facts)
{
    static const struct pfl_bigtrace_view all = {.limit = PFL_BIGTRACE_PAGE_ROWS};
    const struct pfl_bigtrace_table *table = pfl_bigtrace_execution_get_table(execution);
    struct columns columns;

    if (facts->rows > PFL_BIGTRACE_PAGE_ROWS) {
        refuse(r, 413, "the answer has more than 10,000 rows: run it materialized");
        return;
    }
    columns.len = pfl_bigtrace_execution_get_columns(execution, columns.all);
    send_page(r, table, &all, &columns, facts->uuid);
}

static void on_waited_end(void *user, struct pfl_bigtrace_execution *execution)
{
    struct wait_visit *v = user;
    struct pfl_bigtrace_facts facts;

    v->execution = NULL;
    pfl_bigtrace_execution_get_facts(execution, &facts);
    if (v->base.exchange != NULL) {
        struct reader r = take_reader(&v->base, v->is_guest);

        if (facts.status == PFL_BIGTRACE_SUCCESS &&
            pfl_bigtrace_execution_get_table(execution) != NULL)
            send_answer(&r, execution, &facts);
        else
            send_failure(&r, &facts);
    }
    pfl_bigtrace_execution_drop_rows(execution);
    pfl_web_visit_release(&v->base);
}

/* So often, and at the end of the pages. */
static void look(struct pfl_web_visit *base)
{
    struct wait_visit *v = wait_of(base);
    struct reader r;

    if (!pfl_web_is_closing(base->web) && !pfl_http_exchange_has_left(base->exchange)) {
        pfl_web_visit_set_timer(base, LOOK_MS);
        return;
    }
    r = take_reader(base, v->is_guest);
    refuse(&r, 503, "perfleet ui ends");
    if (v->execution != NULL)
        pfl_bigtrace_execution_cancel(v->execution);
}

static void free_wait(struct pfl_web_visit *base)
{
    pfl_mem_free(wait_of(base));
}

/* ---- executions ---- */

static void refuse_run(const struct reader *r, int rc, const char *why)
{
    if (rc == PFL_EAGAIN)
        refuse(r, 503, "two questions are being asked already: wait, or cancel one");
    else if (rc == PFL_EINVAL)
        refuse(r, 400, why);
    else
        refuse_for(r, rc);
}

static void run_waited(const struct reader *r, struct pfl_bigtrace_part *part,
                       struct pfl_bigtrace_request *request)
{
    static const struct pfl_web_visit_ops ops = {.answer = look, .on_over = free_wait};
    struct wait_visit *v = pfl_mem_zalloc(sizeof(*v));
    const struct pfl_bigtrace_waiter waiter = {on_waited_end, v};
    const char *why = "";
    int rc =
        v != NULL ? pfl_bigtrace_part_run(part, request, &waiter, &v->execution, &why) : PFL_ENOMEM;

    if (rc != 0) {
        pfl_mem_free(v);
        refuse_run(r, rc, why);
        return;
    }
    init_visit(&v->base, r, &ops);
    v->is_guest = r->is_guest;
    pfl_web_visit_hold(&v->base);
    pfl_web_visit_set_timer(&v->base, LOOK_MS);
}

static void run_kept(const struct reader *r, struct pfl_bigtrace_part *part,
                     struct pfl_bigtrace_request *request)
{
    struct pfl_bigtrace_execution *execution;
    struct pfl_bigtrace_facts facts;
    struct pfl_buf body;
    const char *why = "";
    int rc = pfl_bigtrace_part_run(part, request, NULL, &execution, &why);

    if (rc != 0) {
        refuse_run(r, rc, why);
        return;
    }
    pfl_bigtrace_execution_get_facts(execution, &facts);
    init_body(&body);
    rc = pfl_bigtrace_reply_uuid(facts.uuid, &body);
    send_json(r, 200, rc, &body);
}

static void execute(const struct reader *r, struct pfl_bigtrace_part *part,
                    struct pfl_bigtrace_request *request, bool is_waited)
{
    const struct pfl_web_conf *conf = pfl_web_get_conf(r->web);

    if (conf->ask.engine.program == NULL)
        refuse(r, 503, conf->ask.why);
    else if (is_waited)
        run_waited(r, part, request);
    else
        run_kept(r, part, request);
}

static void send_execution(const struct reader *r, const struct pfl_bigtrace_execution *execution,
                           enum pfl_bigtrace_detail detail)
{
    struct pfl_bigtrace_facts facts;
    struct pfl_buf body;
    int rc;

    pfl_bigtrace_execution_get_facts(execution, &facts);
    init_body(&body);
    rc = pfl_bigtrace_reply_execution(&facts, detail, &body);
    send_json(r, 200, rc, &body);
}

static void send_executions(const struct reader *r, const struct pfl_bigtrace_part *part)
{
    struct pfl_bigtrace_facts facts[PFL_BIGTRACE_KEPT_MAX];
    size_t len = pfl_bigtrace_part_list(part, facts);
    struct pfl_buf body;
    int rc;

    init_body(&body);
    rc = pfl_bigtrace_reply_list(facts, len, &body);
    send_json(r, 200, rc, &body);
}

static void send_results(const struct reader *r, const struct pfl_bigtrace_execution *execution,
                         const struct pfl_bigtrace_request *request)
{
    const struct pfl_bigtrace_table *table = pfl_bigtrace_execution_get_table(execution);
    struct pfl_bigtrace_facts facts;
    struct columns columns;

    pfl_bigtrace_execution_get_facts(execution, &facts);
    if (table == NULL) {
        refuse(r, 400,
               pfl_bigtrace_execution_is_over(execution) ? "there are no rows"
                                                         : "there are no rows yet");
        return;
    }
    columns.len = pfl_bigtrace_execution_get_columns(execution, columns.all);
    send_page(r, table, &request->view, &columns, facts.uuid);
}

static int make_empty(struct pfl_buf *out)
{
    return pfl_buf_append(out, "{}\n", 3);
}

static void cancel(const struct reader *r, struct pfl_bigtrace_execution *execution)
{
    pfl_bigtrace_execution_cancel(execution);
    send_made(r, make_empty);
}

static void remove_execution(const struct reader *r, struct pfl_bigtrace_part *part,
                             const char *uuid)
{
    if (pfl_bigtrace_part_remove(part, uuid))
        send_made(r, make_empty);
    else
        refuse(r, 404, "there is no such question");
}

/* ---- requests ---- */

enum what {
    WHAT_CONFIG,
    WHAT_SCHEMA,
    WHAT_TRACES,
    WHAT_EXECUTE,
    WHAT_EXECUTE_KEPT,
    WHAT_PRESETS,
    WHAT_EXECUTIONS,
    WHAT_EXECUTION, /* these of one */
    WHAT_STATUS,
    WHAT_RESULTS,
    WHAT_CANCEL,
    WHAT_REMOVE,
};

static const struct row {
    const char *method;
    const char *path; /* behind PFL_BIGTRACE_PATH; of one execution: its action */
    enum what what;
    enum pfl_bigtrace_kind kind; /* of the body */
} rows[] = {
    {"POST", "bigtrace_execution_config", WHAT_CONFIG, PFL_BIGTRACE_OTHER},
    {"POST", "trace_metadata_schema", WHAT_SCHEMA, PFL_BIGTRACE_OTHER},
    {"POST", "trace_metadata", WHAT_TRACES, PFL_BIGTRACE_TRACES},
    {"POST", "execute_bigtrace_query", WHAT_EXECUTE, PFL_BIGTRACE_EXECUTE},
    {"POST", "execute_bigtrace_query_async", WHAT_EXECUTE_KEPT, PFL_BIGTRACE_EXECUTE},
    {"GET", "trace_presets", WHAT_PRESETS, PFL_BIGTRACE_OTHER},
    {"GET", "query_executions", WHAT_EXECUTIONS, PFL_BIGTRACE_OTHER},
    {"GET", "", WHAT_EXECUTION, PFL_BIGTRACE_OTHER},
    {"GET", ":status", WHAT_STATUS, PFL_BIGTRACE_OTHER},
    {"POST", ":fetch_results", WHAT_RESULTS, PFL_BIGTRACE_RESULTS},
    {"POST", ":cancel", WHAT_CANCEL, PFL_BIGTRACE_OTHER},
    {"DELETE", "", WHAT_REMOVE, PFL_BIGTRACE_OTHER},
};

#define UUID_BYTES 64u

/* NULL: there is no such thing. `ret_uuid`: of one execution, else "". */
static const struct row *find_row(const struct pfl_http_request *request, char ret_uuid[UUID_BYTES])
{
    static const char one[] = "query_executions/";
    const char *path = request->path + sizeof(PFL_BIGTRACE_PATH) - 1;
    bool is_one;

    path += strspn(path, "/"); /* an endpoint that ends with a slash */
    is_one = strncmp(path, one, sizeof(one) - 1) == 0;
    ret_uuid[0] = '\0';
    if (is_one) {
        size_t len = strcspn(path + sizeof(one) - 1, ":/");

        (void)snprintf(ret_uuid, UUID_BYTES, "%.*s", (int)len, path + sizeof(one) - 1);
        path += sizeof(one) - 1 + len;
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if ((rows[i].what >= WHAT_EXECUTION) == is_one &&
            strcmp(rows[i].method, request->method) == 0 && strcmp(rows[i].path, path) == 0)
            return &rows[i];
    return NULL;
}

static void serve_one(const struct reader *r, struct pfl_bigtrace_part *part, enum what what,
                      const char *uuid, const struct pfl_bigtrace_request *request)
{
    struct pfl_bigtrace_execution *execution = pfl_bigtrace_part_find(part, uuid);

    if (execution == NULL)
        refuse(r, 404, "there is no such question");
    else if (what == WHAT_EXECUTION)
        send_execution(r, execution, PFL_BIGTRACE_DETAIL_ALL);
    else if (what == WHAT_STATUS)
        send_execution(r, execution, PFL_BIGTRACE_DETAIL_STATUS);
    else if (what == WHAT_RESULTS)
        send_results(r, execution, request);
    else if (what == WHAT_CANCEL)
        cancel(r, execution);
    else
        remove_execution(r, part, uuid);
}

static void serve(const struct reader *r, const struct row *row, const char *uuid,
                  struct pfl_bigtrace_request *request)
{
    struct pfl_bigtrace_part *part = pfl_bigtrace_part_get(r->web);

    if (part == NULL) {
        refuse_for(r, PFL_ENOMEM);
        return;
    }
    if (row->what >= WHAT_TRACES && row->what <= WHAT_EXECUTE_KEPT &&
        pfl_web_get_conf(r->web)->conn.tunnel == NULL) {
        refuse(r, 503, "traces come from a collector, which needs a relay: perfleet ui --relay");
        return;
    }
    switch (row->what) {
    case WHAT_CONFIG:
        send_made(r, pfl_bigtrace_reply_config);
        break;
    case WHAT_SCHEMA:
        send_made(r, pfl_bigtrace_reply_schema);
        break;
    case WHAT_PRESETS:
        send_made(r, pfl_bigtrace_reply_presets);
        break;
    case WHAT_TRACES:
        open_list(r, request);
        break;
    case WHAT_EXECUTE:
    case WHAT_EXECUTE_KEPT:
        execute(r, part, request, row->what == WHAT_EXECUTE);
        break;
    case WHAT_EXECUTIONS:
        send_executions(r, part);
        break;
    default:
        serve_one(r, part, row->what, uuid, request);
        break;
    }
}

static void parse_and_serve(const struct reader *r, const struct pfl_http_request *http)
{
    struct pfl_bigtrace_request request = {.root = NULL};
    char uuid[UUID_BYTES];
    const struct row *row = find_row(http, uuid);
    const char *why = "";
    int rc = 0;

    if (row == NULL) {
        refuse(r, 404, "perfleet ui knows no such request of the BigTrace page");
        return;
    }
    if (strcmp(row->method, "POST") == 0)
        rc = pfl_bigtrace_request_parse(row->kind, http->body, &request, &why);
    if (rc == 0)
        serve(r, row, uuid, &request);
    else if (rc == PFL_EPROTO)
        refuse(r, 400, why);
    else
        refuse_for(r, rc);
    pfl_bigtrace_request_fini(&request);
}

void pfl_bigtrace_visit_open(struct pfl_web *web, struct pfl_http_exchange *exchange,
                             const struct pfl_http_request *request)
{
    struct reader r = {.web = web, .exchange = exchange};
    const char *why = "";
    unsigned status = pfl_web_access_judge_data(&web->access, request, &r.is_guest, &why);
    struct pfl_buf nothing;

    pfl_text_init_json();
    if (status == 200) {
        parse_and_serve(&r, request);
    } else if (status == 204) {
        init_body(&nothing);
        send_json(&r, 204, 0, &nothing);
    } else {
        refuse(&r, status, why);
    }
}
