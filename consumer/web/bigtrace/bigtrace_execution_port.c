/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One question: see bigtrace_execution_port.h.
 *
 *     source lists --choose--> asking (asking_port.h) --rows--> table ... --over--> END
 *
 * Happy path: the traces that the settings and filters choose, in the order that was asked for, are
 * asked one by one; rows go to the table until it has as many as the page wants. Failures: a trace
 * that is passed over is named in the error, and the others' rows stay: the page shows both. Of an
 * answer that is too large the first rows stay. Ownership: source, asking, tables, request. It ends
 * when source and asking have. Limits: those of the headers, and ERROR_BYTES.
 */
#include "consumer/web/bigtrace/bigtrace_execution_port.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/ulid.h"
#include "consumer/ask/answer_columns.h"
#include "consumer/ask/asking_port.h"
#include "consumer/web/bigtrace/bigtrace_source_port.h"

#define ERROR_BYTES 4096u
#define NS_PER_S    UINT64_C(1000000000)

struct pfl_bigtrace_execution {
    struct pfl_bigtrace_execution_conf conf;
    char uuid[PFL_ULID_BYTES];
    struct pfl_bigtrace_request request; /* owned */
    struct pfl_bigtrace_traces traces;   /* owned */
    struct pfl_bigtrace_rows chosen;     /* owned: the rows of `traces` that are asked */
    struct pfl_asked_traces asked;       /* owned: one for each */
    struct pfl_bigtrace_source *source;  /* owned */
    struct pfl_asking *asking;           /* owned; NULL: not yet */
    struct pfl_answer_columns *first;    /* owned: the columns of the first trace */
    struct pfl_bigtrace_table *table;    /* owned */
    uint64_t start_unix_ns;
    uint64_t end_unix_ns;
    uint64_t done; /* traces */
    uint64_t passed_over;
    uint64_t dropped_rows;
    enum pfl_bigtrace_status status;
    bool is_cancelled;
    bool has_all;            /* as many rows as are wanted */
    bool is_full;            /* the table is */
    bool is_asking;          /* the asking has not ended */
    bool is_sourced;         /* the source has ended */
    char error[ERROR_BYTES]; /* "": none */
};

static uint64_t get_unix_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* ---- what is wrong ---- */

__attribute__((format(printf, 2, 3))) static void add_error(struct pfl_bigtrace_execution *e,
                                                            const char *fmt, ...)
{
    size_t len = strlen(e->error);
    va_list args;

    if (len != 0 && len + 1 < sizeof(e->error))
        e->error[len++] = '\n';
    va_start(args, fmt);
    (void)vsnprintf(e->error + len, sizeof(e->error) - len, fmt, args);
    va_end(args);
}

static void judge(struct pfl_bigtrace_execution *e)
{
    uint64_t missing = e->asked.missing;

    if (e->is_cancelled) {
        e->status = PFL_BIGTRACE_CANCELLED;
        return;
    }
    if (e->is_full)
        add_error(e, "The answer is partial: it has more than 8 MiB or 100,000 rows, and the first "
                     "are kept. Select fewer rows, or less of each.");
    if (missing != 0)
        add_error(e,
                  "The answer is partial: %" PRIu64 " of the segments are missing: their hosts "
                  "removed them before they were read.",
                  missing);
    if (e->passed_over != 0)
        add_error(e, "The answer is partial: %" PRIu64 " of %zu traces are passed over.",
                  e->passed_over, e->asked.len);
    e->status = e->error[0] != '\0' ? PFL_BIGTRACE_FAILED : PFL_BIGTRACE_SUCCESS;
}

/* ---- the end ---- */

static void finish_if_over(struct pfl_bigtrace_execution *e)
{
    if (e->is_asking || !e->is_sourced)
        return;
    judge(e);
    e->end_unix_ns = get_unix_ns();
    e->conf.on_end(e->conf.user, e);
}

/* Nothing more is asked. */
static void end(struct pfl_bigtrace_execution *e)
{
    if (e->is_asking)
        pfl_asking_stop(e->asking);
    else if (!e->is_sourced)
        pfl_bigtrace_source_end(e->source, "");
}

static void fail(struct pfl_bigtrace_execution *e, const char *why)
{
    add_error(e, "%s", why);
    end(e);
}

/* ---- of the asking ---- */

static uint32_t request_piece(void *user, const struct pfl_asked_trace *trace, uint64_t offset,
                              size_t len)
{
    struct pfl_bigtrace_execution *e = user;

    return e->is_sourced ? 0 : pfl_bigtrace_source_request(e->source, trace->name, offset, len);
}

static int on_columns(void *user, const struct pfl_span *names, size_t len)
{
    struct pfl_bigtrace_execution *e = user;
    struct pfl_bigtrace_table *table = NULL;
    int rc;

    if (e->first != NULL)
        return pfl_answer_columns_are(e->first, names, len) ? 0 : PFL_ESTATE;
    rc = pfl_bigtrace_table_new(e->traces.table, &table);
    for (size_t i = 0; rc == 0 && i < len; i++)
        rc = pfl_bigtrace_table_add_column(table, names[i]);
    if (rc == 0)
        rc = pfl_answer_columns_new(names, len, &e->first);
    if (rc == 0)
        e->table = table;
    else
        pfl_bigtrace_table_free(table);
    return rc;
}

static bool has_all_rows(const struct pfl_bigtrace_execution *e)
{
    return e->table != NULL && pfl_bigtrace_table_get_rows(e->table) >= e->request.view.limit;
}

static int on_row(void *user, const struct pfl_asked_trace *trace, const struct pfl_answer_row *row,
                  size_t cells_len)
{
    struct pfl_bigtrace_execution *e = user;
    int rc = PFL_ELIMIT;

    (void)cells_len;
    if (has_all_rows(e)) {
        e->has_all = true;
        return rc;
    }
    if (!e->is_full)
        rc = pfl_bigtrace_table_add_row(e->table, e->chosen.all[trace - e->asked.all], row->cells);
    e->is_full = e->is_full || rc == PFL_ELIMIT;
    return rc;
}

static bool on_rows_end(void *user)
{
    struct pfl_bigtrace_execution *e = user;

    if (e->has_all || e->is_full)
        pfl_asking_stop(e->asking);
    return false;
}

static void on_trace(void *user, const struct pfl_asked_trace *trace,
                     const struct pfl_answer_store_trace *last)
{
    struct pfl_bigtrace_execution *e = user;

    e->done++;
    if (last->problem != NULL) {
        e->passed_over++;
        add_error(e, "Trace %s of %s is passed over: %s.", trace->name, trace->host, last->problem);
    }
    if (has_all_rows(e))
        pfl_asking_stop(e->asking);
}

static void on_fault(void *user, enum pfl_trace_job_fault fault, const char *words)
{
    struct pfl_bigtrace_execution *e = user;

    add_error(e,
              fault == PFL_TRACE_JOB_FAULT_QUESTION ? "The question has an error:\n%s"
                                                    : "Trace Processor: %s",
              words);
}

static void on_asked(void *user)
{
    struct pfl_bigtrace_execution *e = user;

    e->is_asking = false;
    end(e);
    finish_if_over(e);
}

static const struct pfl_asking_ops asking_ops = {.request_piece = request_piece,
                                                 .on_columns = on_columns,
                                                 .on_row = on_row,
                                                 .on_rows_end = on_rows_end,
                                                 .on_trace = on_trace,
                                                 .on_fault = on_fault,
                                                 .on_over = on_asked};

static int open_asking(struct pfl_bigtrace_execution *e)
{
    const struct pfl_asking_conf conf = {
        .question = {.text = pfl_span_of(e->request.sql, strlen(e->request.sql)),
                     .engine = e->conf.web->ask.engine},
        .traces = &e->asked,
        .loop = e->conf.web->conn.loop,
        .ops = &asking_ops,
        .user = e};
    int rc = pfl_asking_open(&conf, &e->asking);

    e->is_asking = rc == 0;
    return rc;
}

/* ---- of the source ---- */

static int choose(struct pfl_bigtrace_execution *e)
{
    const char *name = "";
    int rc = pfl_bigtrace_table_select(e->traces.table, &e->request.view, &e->chosen, &name);

    if (rc == PFL_ENOENT)
        add_error(e, "Traces have no column %s.", name);
    if (rc == 0)
        rc = pfl_asked_traces_move(&e->traces.asked, e->chosen.all, e->chosen.len, &e->asked);
    return rc;
}

static void on_listed(void *user)
{
    struct pfl_bigtrace_execution *e = user;
    int rc = 0;

    if (e->traces.is_cut) {
        fail(e, "More than 20,000 traces are selected: set Since, Until, Host, Labels or Order.");
        return;
    }
    rc = choose(e);
    if (rc == 0 && e->asked.len == 0) {
        fail(e, "No trace is selected.");
        return;
    }
    if (rc == 0)
        rc = open_asking(e);
    if (rc == PFL_ENOENT)
        end(e);
    else if (rc != 0)
        fail(e, pfl_err_str(rc));
}

static void on_reply(void *user, const Perfleet__CollectorReply *reply)
{
    struct pfl_bigtrace_execution *e = user;

    if (e->is_asking)
        pfl_asking_take_reply(e->asking, reply);
}

static void on_source_done(void *user, const char *why)
{
    struct pfl_bigtrace_execution *e = user;

    e->is_sourced = true;
    if (e->is_asking && !pfl_asking_has_next(e->asking) && !pfl_asking_is_waiting(e->asking))
        return; /* all that was wanted of it came */
    if (why[0] != '\0' && !e->is_cancelled)
        add_error(e, "The collector: %s.", why);
    end(e);
    finish_if_over(e);
}

/* ---- all of it ---- */

/* PFL_EINVAL: *ret_why. */
static int init(struct pfl_bigtrace_execution *e, const struct pfl_bigtrace_request *request,
                const char **ret_why)
{
    struct pfl_bigtrace_source_conf source = {.web = e->conf.web,
                                              .traces = &e->traces,
                                              .on_listed = on_listed,
                                              .on_reply = on_reply,
                                              .on_done = on_source_done,
                                              .user = e};
    int rc;

    e->start_unix_ns = get_unix_ns();
    rc = pfl_ulid_make(e->start_unix_ns / 1000000, e->uuid);
    if (rc == 0)
        rc = pfl_bigtrace_traces_init(&e->traces, request, (int64_t)(e->start_unix_ns / NS_PER_S));
    if (rc == PFL_EINVAL)
        *ret_why = e->traces.selection.why;
    if (rc == 0)
        rc = pfl_bigtrace_source_open(&source, &e->source);
    return rc;
}

int pfl_bigtrace_execution_open(const struct pfl_bigtrace_execution_conf *conf,
                                struct pfl_bigtrace_request *request,
                                struct pfl_bigtrace_execution **ret_execution, const char **ret_why)
{
    struct pfl_bigtrace_execution *e = pfl_mem_zalloc(sizeof(*e));
    int rc;

    if (e == NULL)
        return PFL_ENOMEM;
    e->conf = *conf;
    rc = init(e, request, ret_why);
    if (rc != 0) {
        pfl_bigtrace_execution_free(e);
        return rc;
    }
    e->request = *request;
    if (e->request.view.limit == 0)
        e->request.view.limit = PFL_BIGTRACE_TABLE_ROWS;
    *request = (struct pfl_bigtrace_request){.root = NULL};
    *ret_execution = e;
    return 0;
}

static uint64_t count_rows(const struct pfl_bigtrace_execution *e)
{
    return e->table != NULL ? pfl_bigtrace_table_get_rows(e->table) : e->dropped_rows;
}

void pfl_bigtrace_execution_get_facts(const struct pfl_bigtrace_execution *self,
                                      struct pfl_bigtrace_facts *ret_facts)
{
    *ret_facts = (struct pfl_bigtrace_facts){.uuid = self->uuid,
                                             .status = self->status,
                                             .start_unix_ns = self->start_unix_ns,
                                             .end_unix_ns = self->end_unix_ns,
                                             .rows = count_rows(self),
                                             .traces = self->done,
                                             .total = self->asked.len,
                                             .error = self->end_unix_ns != 0 ? self->error : "",
                                             .is_kept = self->conf.is_kept,
                                             .request = &self->request};
}

bool pfl_bigtrace_execution_is_over(const struct pfl_bigtrace_execution *self)
{
    return self->end_unix_ns != 0;
}

const struct pfl_bigtrace_table *
pfl_bigtrace_execution_get_table(const struct pfl_bigtrace_execution *self)
{
    return self->table;
}

size_t pfl_bigtrace_execution_get_columns(const struct pfl_bigtrace_execution *self,
                                          size_t ret_columns[PFL_BIGTRACE_COLUMNS_MAX])
{
    const struct pfl_bigtrace_view *view = &self->request.view;
    size_t len = 0;

    for (size_t i = 0; i < pfl_bigtrace_table_get_own_columns(self->table); i++)
        ret_columns[len++] = i;
    for (size_t i = 0; i < view->columns_len && len < PFL_BIGTRACE_COLUMNS_MAX; i++) {
        size_t column = pfl_bigtrace_table_find(self->table, view->columns[i]);

        if (column != SIZE_MAX && column >= pfl_bigtrace_table_get_own_columns(self->table))
            ret_columns[len++] = column;
    }
    return len;
}

void pfl_bigtrace_execution_cancel(struct pfl_bigtrace_execution *self)
{
    if (self->end_unix_ns != 0 || self->is_cancelled)
        return;
    self->is_cancelled = true;
    end(self);
}

void pfl_bigtrace_execution_drop_rows(struct pfl_bigtrace_execution *self)
{
    self->dropped_rows = count_rows(self);
    pfl_bigtrace_table_free(self->table);
    self->table = NULL;
    pfl_bigtrace_rows_fini(&self->chosen);
    pfl_bigtrace_traces_fini(&self->traces);
}

void pfl_bigtrace_execution_free(struct pfl_bigtrace_execution *self)
{
    if (self == NULL)
        return;
    pfl_bigtrace_execution_drop_rows(self);
    pfl_asking_free(self->asking);
    pfl_bigtrace_source_free(self->source);
    pfl_asked_traces_fini(&self->asked);
    pfl_answer_columns_free(self->first);
    pfl_bigtrace_request_fini(&self->request);
    pfl_mem_free(self);
}
