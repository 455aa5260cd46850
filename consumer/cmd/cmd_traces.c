/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `perfleet traces`: lists and finds what a collector keeps, pins, removes and verifies it, and
 * says what is missing; `traces get` is in traces_get.c, and `traces open` is that with a file that
 * is not kept, which open_trace.c hands to the UI. Happy path: the options become a query,
 * the collector answers in parts, which are printed as they come. Failures: a query that makes no
 * sense; what the collector says.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "consumer/cmd/collector_session.h"
#include "consumer/cmd/open_trace.h"
#include "consumer/cmd/temporary.h"
#include "consumer/cmd/trace_query.h"
#include "consumer/cmd/traces_get.h"
#include "consumer/config/duration.h"
#include "consumer/report/summary.h"
#include "consumer/report/trace_table.h"
#include "consumer/text.h"

#define PART_MAX_BYTES (16u << 20)
#define CURSOR_MAX     4096u
#define PIN_DEFAULT_MS (30ull * 86400000)

struct report {
    const struct pfl_args *args;
    struct pfl_collector_session *session;
    uint8_t cursor[CURSOR_MAX];
    size_t cursor_len;
    uint64_t traces;
    uint64_t count;
    uint64_t holes;
    bool has_head;
    int rc;
};

/* Programs read links: nothing is quoted that no terminal interprets. */
static bool is_plain(const char *text)
{
    for (; *text != '\0'; text++)
        if (*text <= ' ' || *text > '~')
            return false;
    return true;
}

/* Of the terminal that is written to; 0: there is none. */
static unsigned find_width(void)
{
    struct winsize size;

    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

static int write_part(struct report *r, const Perfleet__CollectorReply *reply, struct pfl_buf *out)
{
    bool is_json = r->args->is_json;
    unsigned width = find_width();
    int rc = 0;

    if (reply->n_trace != 0 && !r->has_head && !is_json)
        rc = pfl_trace_table_head(width, out);
    r->has_head = r->has_head || reply->n_trace != 0;
    for (size_t i = 0; rc == 0 && i < reply->n_trace; i++)
        rc = is_json ? pfl_trace_table_json(reply->trace[i], out)
                     : pfl_trace_table_line(reply->trace[i], width, out);
    for (size_t i = 0; rc == 0 && i < reply->n_missing; i++)
        rc = pfl_trace_table_missing(reply->missing[i], is_json, out, &r->holes);
    if (rc == 0 && reply->url != NULL)
        rc = pfl_text_add(out, "%s\n",
                          is_plain(reply->url) ? reply->url : pfl_log_quote_str(reply->url));
    return rc;
}

static void on_part(void *user, const Perfleet__CollectorReply *reply)
{
    struct report *r = user;
    struct pfl_buf out;

    pfl_buf_init(&out, PART_MAX_BYTES);
    if (r->rc == 0)
        r->rc = write_part(r, reply, &out);
    if (r->rc == 0)
        pfl_cmd_print(r->args, pfl_buf_get(&out), stdout);
    pfl_buf_fini(&out);
    r->traces += reply->n_trace;
    r->count += reply->count;
    if (reply->has_cursor && reply->cursor.len <= sizeof(r->cursor)) {
        memcpy(r->cursor, reply->cursor.data, reply->cursor.len);
        r->cursor_len = reply->cursor.len;
    }
}

static int ask(struct report *r, Perfleet__CollectorRequest *request)
{
    int code = pfl_collector_session_ask(r->session, request, on_part, r);

    if (code != PFL_EXIT_OK || r->rc == 0)
        return code;
    pfl_cmd_error("%s", pfl_err_str(r->rc));
    return PFL_EXIT_NOTHING;
}

/* ---- the commands, with an open session ---- */

/* Page by page. */
static int list(struct report *r, struct pfl_trace_query *q)
{
    Perfleet__CollectorRequest request = PERFLEET__COLLECTOR_REQUEST__INIT;
    int code;

    request.list = &q->query;
    do {
        r->cursor_len = 0;
        code = ask(r, &request);
        q->query.has_after = 1;
        q->query.after.data = r->cursor;
        q->query.after.len = r->cursor_len;
    } while (code == PFL_EXIT_OK && r->cursor_len != 0);
    if (code == PFL_EXIT_OK && r->traces == 0 && !r->args->is_json)
        puts("no traces");
    return code;
}

/* Each trace that was named counts, or was listed as one that is not as it was. */
static int count(struct report *r, Perfleet__CollectorRequest *request, size_t named,
                 const char *done)
{
    int code = ask(r, request);

    if (code != PFL_EXIT_OK)
        return code;
    if (r->args->is_json)
        printf("{\"count\": %" PRIu64 "}\n", r->count);
    else
        printf("%" PRIu64 " %s %s\n", r->count, r->count == 1 ? "trace" : "traces", done);
    if (r->count + r->traces >= named)
        return PFL_EXIT_OK;
    pfl_cmd_error("%" PRIu64 " of the traces that you named are not there",
                  named - r->count - r->traces);
    return PFL_EXIT_NOTHING;
}

static int pin(struct report *r, struct pfl_trace_query *q)
{
    Perfleet__CollectorRequest request = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__CollectorRequest__PinRequest what = PERFLEET__COLLECTOR_REQUEST__PIN_REQUEST__INIT;
    Perfleet__StoredTrace__Pin pin = PERFLEET__STORED_TRACE__PIN__INIT;
    uint64_t keep_ms = PIN_DEFAULT_MS;

    if (r->args->traces.keep_for != NULL &&
        !pfl_duration_parse_age(r->args->traces.keep_for, &keep_ms)) {
        pfl_cmd_error("--keep-for %s: give a time such as 30d or 12h",
                      pfl_log_quote_str(r->args->traces.keep_for));
        return PFL_EXIT_USAGE;
    }
    pin.reason = (char *)(uintptr_t)r->args->traces.reason;
    pin.has_end_unix_ns = 1;
    pin.end_unix_ns = (uint64_t)time(NULL) * 1000000000 + keep_ms * 1000000;
    what.what = &q->query;
    what.pin = &pin;
    request.pin = &what;
    return count(r, &request, q->query.n_id, "pinned");
}

static int unpin(struct report *r, struct pfl_trace_query *q)
{
    Perfleet__CollectorRequest request = PERFLEET__COLLECTOR_REQUEST__INIT;

    request.unpin = &q->query;
    return count(r, &request, q->query.n_id, "unpinned");
}

static int remove_traces(struct report *r, struct pfl_trace_query *q)
{
    Perfleet__CollectorRequest request = PERFLEET__COLLECTOR_REQUEST__INIT;

    request.remove = &q->query;
    return count(r, &request, q->query.n_id, "removed");
}

/* The collector lists those that are not as they were. */
static int verify(struct report *r, struct pfl_trace_query *q)
{
    Perfleet__CollectorRequest request = PERFLEET__COLLECTOR_REQUEST__INIT;
    int code;

    request.verify = &q->query;
    code = count(r, &request, q->query.n_id, "verified");
    return code == PFL_EXIT_OK && r->traces != 0 ? PFL_EXIT_LOSS : code;
}

static int missing(struct report *r, struct pfl_trace_query *q)
{
    Perfleet__CollectorRequest request = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__CollectorRequest__Empty empty = PERFLEET__COLLECTOR_REQUEST__EMPTY__INIT;
    int code;

    (void)q;
    request.missing = &empty;
    code = ask(r, &request);
    if (code != PFL_EXIT_OK)
        return code;
    if (!r->args->is_json)
        printf(r->holes == 0 ? "nothing missing\n"
                             : "%" PRIu64 " segments are missing, unexplained\n",
               r->holes);
    return r->holes == 0 ? PFL_EXIT_OK : PFL_EXIT_LOSS;
}

static int presign(struct report *r, struct pfl_trace_query *q)
{
    Perfleet__CollectorRequest request = PERFLEET__COLLECTOR_REQUEST__INIT;

    request.presign = &q->query;
    return ask(r, &request);
}

static int get(struct report *r, struct pfl_trace_query *q)
{
    return r->args->traces.is_url ? presign(r, q) : pfl_traces_get(r->session, q);
}

/* Of what comes; see pfl_cmd_traces. */
static int open_traces(struct report *r, struct pfl_trace_query *q)
{
    return pfl_traces_get(r->session, q);
}

/* ---- open ---- */

/* After the collector's session: the UI may take a while. */
static int hand_over(struct pfl_args *args, int code, bool is_temporary)
{
    int opened = pfl_open_trace(args, &args->output, 1, is_temporary ? PFL_OPEN_TRACE_REMOVE : 0);

    return code == PFL_EXIT_OK && is_temporary ? opened : code;
}

static const struct verb {
    const char *name;
    bool wants_selection; /* not all that there is */
    int (*run)(struct report *r, struct pfl_trace_query *q);
} verbs[] = {
    {"list", false, list},     {"get", true, get},          {"open", true, open_traces},
    {"pin", true, pin},        {"unpin", true, unpin},      {"rm", true, remove_traces},
    {"verify", false, verify}, {"missing", false, missing},
};
#define VERBS (sizeof(verbs) / sizeof(verbs[0]))

static const struct verb *find_verb(const char *name)
{
    for (size_t i = 0; i < VERBS; i++)
        if (strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
    pfl_cmd_error("traces %s: there are list, get, open, pin, unpin, rm, verify and missing",
                  pfl_log_quote_str(name));
    return NULL;
}

/* Of get and open, which write a file. */
static bool is_get_usable(const struct verb *verb, const struct pfl_args *args)
{
    if (verb->run != get && args->traces.is_url) {
        pfl_cmd_error("traces open: --url is for traces get");
        return false;
    }
    if (args->traces.is_url && (args->traces.is_tar || args->output != NULL)) {
        pfl_cmd_error("traces get: give either --url, or -o FILE");
        return false;
    }
    if (args->traces.is_url && args->open.is_wanted) {
        pfl_cmd_error("traces get: --open is for -o FILE; traces open needs none");
        return false;
    }
    if (verb->run == get && !args->traces.is_url && args->output == NULL) {
        pfl_cmd_error("traces get: give -o FILE, or --url; traces open shows it without");
        return false;
    }
    return pfl_open_trace_is_usable(args);
}

/* What needs no collector to be seen. */
static bool is_usable(const struct verb *verb, const struct pfl_args *args,
                      const struct pfl_trace_query *q)
{
    bool is_file = verb->run == get || verb->run == open_traces;

    if (verb->wants_selection && !q->is_any) {
        pfl_cmd_error("traces %s: which ones? Give IDs, --host, --select, --order, --trigger or a "
                      "time",
                      verb->name);
        return false;
    }
    if (verb->run == missing && q->is_any) {
        pfl_cmd_error("traces missing: it lists all runs, and takes no selection");
        return false;
    }
    if (verb->run == pin && args->traces.reason == NULL) {
        pfl_cmd_error("traces pin: give --reason TEXT: others see why it is kept");
        return false;
    }
    if (args->has_max_host_mib && (!is_file || args->traces.is_url || args->traces.is_tar)) {
        pfl_cmd_error("--max-host-mib is for traces get -o FILE without --tar: else segments are "
                      "not decompressed");
        return false;
    }
    if (!is_file && args->open.is_wanted) {
        pfl_cmd_error("traces %s: --open is for traces get; traces open shows them", verb->name);
        return false;
    }
    return is_file ? is_get_usable(verb, args) : pfl_open_trace_is_usable(args);
}

static int run(const struct verb *verb, struct pfl_args *args, struct pfl_trace_query *query)
{
    struct pfl_collector_session session;
    struct report report = {.args = args, .session = &session};
    int code = pfl_collector_session_open(&session, args);

    if (code != PFL_EXIT_OK)
        return code;
    code = verb->run(&report, query);
    pfl_collector_session_close(&session);
    return code;
}

static int run_and_open(const struct verb *verb, struct pfl_args *args,
                        struct pfl_trace_query *query, bool is_temporary)
{
    int code = run(verb, args, query);

    if (args->open.is_wanted && args->has_trace)
        code = hand_over(args, code, is_temporary);
    return code;
}

static int run_with_temporary(const struct verb *verb, struct pfl_args *args,
                              struct pfl_trace_query *query)
{
    char path[PFL_TEMPORARY_MAX];
    int code;

    if (!pfl_temporary_make(args->traces.is_tar ? "traces.tar" : "traces.pftrace", path)) {
        pfl_cmd_error("traces open: no folder can be made in $TMPDIR or /var/tmp: give -o FILE");
        return PFL_EXIT_FILE;
    }
    args->output = path;
    code = run_and_open(verb, args, query, true);
    args->output = NULL;
    pfl_temporary_remove(path);
    return code;
}

int pfl_cmd_traces(struct pfl_args *args)
{
    const struct verb *verb = find_verb(args->words_len != 0 ? args->words[0] : "list");
    bool is_temporary = verb != NULL && verb->run == open_traces && args->output == NULL;
    struct pfl_trace_query query;

    if (verb != NULL && verb->run == open_traces)
        args->open.is_wanted = true;
    if (verb == NULL || !pfl_trace_query_make(args, 1, &query) || !is_usable(verb, args, &query))
        return PFL_EXIT_USAGE;
    if (is_temporary)
        return run_with_temporary(verb, args, &query);
    return run_and_open(verb, args, &query, false);
}
