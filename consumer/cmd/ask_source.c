/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The traces: see ask_source.h. Happy path: the words are files; or the options and words become a
 * query, and the collector lists what it has, page by page. Gaps are counted: there is nothing to
 * ask. Failures: contradicting words, what the collector says, nothing that is selected. Owns the
 * list and the session. Limits: PFL_ASKED_TRACES_MAX.
 */
#include "consumer/cmd/ask_source.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/ulid.h"
#include "consumer/cmd/trace_query.h"
#include "consumer/report/summary.h"

static int explain(int rc)
{
    if (rc == PFL_ELIMIT)
        pfl_cmd_error("more than %u traces are selected: select less time, or fewer hosts or "
                      "orders",
                      PFL_ASKED_TRACES_MAX);
    else
        pfl_cmd_error("%s", pfl_err_str(rc));
    return PFL_EXIT_NOTHING;
}

/* ---- files ---- */

static int take_files(struct pfl_ask_source *s, const struct pfl_args *args)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < args->files_len; i++)
        rc = pfl_asked_traces_add_file(&s->traces, args->files[i]);
    return rc == 0 ? PFL_EXIT_OK : explain(rc);
}

/* False: error reported. */
static bool find_kind(const struct pfl_args *args, const struct pfl_trace_query *q,
                      bool *ret_is_files)
{
    size_t ids = 0;

    for (size_t i = 0; i < args->files_len; i++)
        ids += pfl_ulid_is_valid(args->files[i]) ? 1 : 0;
    *ret_is_files = args->files_len != 0 && ids == 0;
    if (ids != 0 && ids != args->files_len) {
        pfl_cmd_error("ask: give either files, or IDs of a collector's traces");
        return false;
    }
    if (ids > PFL_ARGS_MAX_WORDS) {
        pfl_cmd_error("ask: more than %d IDs; select by time, host or order", PFL_ARGS_MAX_WORDS);
        return false;
    }
    if (*ret_is_files && q->is_any) {
        pfl_cmd_error("ask: give either files, or what selects a collector's traces");
        return false;
    }
    if (!*ret_is_files && !q->is_any) {
        pfl_cmd_error("ask: which traces? Give FILEs, IDs, --host, --select, --order, --trigger or "
                      "a time");
        return false;
    }
    return true;
}

/* ---- of a collector ---- */

static void on_list(void *user, const Perfleet__CollectorReply *reply)
{
    struct pfl_ask_source *s = user;

    if (s->rc == 0)
        s->rc = pfl_asked_traces_take(&s->traces, reply);
    if (reply->has_cursor && reply->cursor.len <= sizeof(s->cursor)) {
        memcpy(s->cursor, reply->cursor.data, reply->cursor.len);
        s->cursor_len = reply->cursor.len;
    }
}

static int list_all(struct pfl_ask_source *s, Perfleet__TraceQuery *query)
{
    Perfleet__CollectorRequest request = PERFLEET__COLLECTOR_REQUEST__INIT;
    int code;

    query->has_oldest_first = query->oldest_first = 1;
    request.list = query;
    do {
        s->cursor_len = 0;
        code = pfl_collector_session_ask(&s->session, &request, on_list, s);
        query->has_after = 1;
        query->after.data = s->cursor;
        query->after.len = s->cursor_len;
    } while (code == PFL_EXIT_OK && s->rc == 0 && s->cursor_len != 0);
    if (code == PFL_EXIT_OK && s->rc != 0)
        return explain(s->rc);
    if (code == PFL_EXIT_OK && query->n_id > s->traces.len + s->traces.missing) {
        s->unknown = query->n_id - s->traces.len - s->traces.missing;
        pfl_cmd_error("%" PRIu64 " of the traces that you named are not there", s->unknown);
    }
    if (code == PFL_EXIT_OK && s->traces.len == 0) {
        pfl_cmd_error("no trace is selected; perfleet traces lists them");
        return PFL_EXIT_NOTHING;
    }
    return code;
}

int pfl_ask_source_open(struct pfl_ask_source *self, struct pfl_args *args)
{
    struct pfl_trace_query query;
    int code;

    *self = (struct pfl_ask_source){0};
    if (!pfl_trace_query_make(args, args->words_len, &query))
        return PFL_EXIT_USAGE;
    for (size_t i = 0; i < args->words_len; i++)
        if (pfl_ulid_is_valid(args->words[i]))
            query.ids[query.query.n_id++] = (char *)(uintptr_t)args->words[i];
    query.is_any = query.is_any || query.query.n_id != 0 || query.query.lossy;
    if (!find_kind(args, &query, &self->is_files))
        return PFL_EXIT_USAGE;
    if (self->is_files) {
        code = take_files(self, args);
    } else {
        code = pfl_collector_session_open(&self->session, args);
        if (code != PFL_EXIT_OK)
            return code;
        code = list_all(self, &query.query);
        if (code != PFL_EXIT_OK)
            pfl_collector_session_close(&self->session);
    }
    if (code != PFL_EXIT_OK)
        pfl_asked_traces_fini(&self->traces);
    return code;
}

void pfl_ask_source_close(struct pfl_ask_source *self)
{
    if (!self->is_files)
        pfl_collector_session_close(&self->session);
    pfl_asked_traces_fini(&self->traces);
}
