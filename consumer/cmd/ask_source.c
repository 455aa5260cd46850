/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The traces: see ask_source.h. Happy path: the words are files; or the options and words become a
 * query, and the collector lists what it has, page by page. Gaps are counted: there is nothing to
 * ask. Failures: contradicting words, what the collector says, nothing that is selected. Owns the
 * list and the session. Limits: PFL_ASK_TRACES_MAX.
 */
#include "consumer/cmd/ask_source.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/ulid.h"
#include "consumer/cmd/trace_query.h"
#include "consumer/report/summary.h"

static int add_trace(struct pfl_ask_source *s, const char *name, const char *host,
                     const Perfleet__Segment *segment)
{
    struct pfl_ask_trace *t;

    if (s->len == PFL_ASK_TRACES_MAX)
        return PFL_ELIMIT;
    if (s->len == s->room) {
        size_t room = s->room != 0 ? 2 * s->room : 64;
        void *traces = pfl_mem_realloc(s->traces, room * sizeof(*t));

        if (traces == NULL)
            return PFL_ENOMEM;
        s->traces = traces;
        s->room = room;
    }
    t = &s->traces[s->len];
    *t = (struct pfl_ask_trace){.name = pfl_mem_strdup(name), .host = pfl_mem_strdup(host)};
    s->len++;
    if (t->name == NULL || t->host == NULL)
        return PFL_ENOMEM;
    if (segment != NULL) {
        t->begin_unix_ns = segment->begin_unix_ns;
        t->bytes = segment->bytes;
    }
    return 0;
}

static void free_traces(struct pfl_ask_source *s)
{
    for (size_t i = 0; i < s->len; i++) {
        pfl_mem_free(s->traces[i].name);
        pfl_mem_free(s->traces[i].host);
    }
    pfl_mem_free(s->traces);
    s->traces = NULL;
    s->len = s->room = 0;
}

static int explain(int rc)
{
    if (rc == PFL_ELIMIT)
        pfl_cmd_error("more than %u traces are selected: select less time, or fewer hosts or "
                      "orders",
                      PFL_ASK_TRACES_MAX);
    else
        pfl_cmd_error("%s", pfl_err_str(rc));
    return PFL_EXIT_NOTHING;
}

/* ---- files ---- */

static int take_files(struct pfl_ask_source *s, const struct pfl_args *args)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < args->files_len; i++)
        rc = add_trace(s, args->files[i], "", NULL);
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

    for (size_t i = 0; s->rc == 0 && i < reply->n_trace; i++) {
        const Perfleet__StoredTrace *trace = reply->trace[i];

        if (trace->segment == NULL || trace->id == NULL || !pfl_ulid_is_valid(trace->id))
            continue;
        if (trace->segment->gap != NULL)
            s->missing++;
        else
            s->rc =
                add_trace(s, trace->id, trace->segment->host != NULL ? trace->segment->host : "",
                          trace->segment);
    }
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
    if (code == PFL_EXIT_OK && query->n_id > s->len + s->missing) {
        s->unknown = query->n_id - s->len - s->missing;
        pfl_cmd_error("%" PRIu64 " of the traces that you named are not there", s->unknown);
    }
    if (code == PFL_EXIT_OK && s->len == 0) {
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
        free_traces(self);
    return code;
}

void pfl_ask_source_close(struct pfl_ask_source *self)
{
    if (!self->is_files)
        pfl_collector_session_close(&self->session);
    free_traces(self);
}
