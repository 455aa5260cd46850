/* SPDX-License-Identifier: Apache-2.0 */
/* The query of `perfleet traces`: see trace_query.h. The collector checks it again. */
#include "consumer/cmd/trace_query.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "consumer/cmd/cmd_error.h"
#include "consumer/config/duration.h"
#include "consumer/config/instant.h"
#include "proto/order/selector.h"

#define DEFAULT_WINDOW_MS 120000u

static char *mutable_text(const char *text)
{
    return (char *)(uintptr_t)text;
}

static bool take_time(const char *option, const char *text, uint64_t *ret_unix_ns)
{
    if (pfl_instant_parse(text, (int64_t)time(NULL), ret_unix_ns))
        return true;
    pfl_cmd_error("--%s %s: give a time such as 14:03, 2026-11-23T14:03, or 2h for two hours ago",
                  option, pfl_log_quote_str(text));
    return false;
}

static bool take_window(const struct pfl_trace_args *t, Perfleet__TraceQuery *q)
{
    uint32_t window_ms = DEFAULT_WINDOW_MS;
    uint64_t at_ns;
    uint64_t half_ns;

    if (t->since != NULL || t->until != NULL) {
        pfl_cmd_error("give either --at with --window, or --since and --until");
        return false;
    }
    if (t->window != NULL && !pfl_duration_parse(t->window, &window_ms)) {
        pfl_cmd_error("--window %s: give a time such as 30s or 2m", pfl_log_quote_str(t->window));
        return false;
    }
    if (!take_time("at", t->at, &at_ns))
        return false;
    half_ns = (uint64_t)window_ms * 500000;
    q->begin_unix_ns = at_ns > half_ns ? at_ns - half_ns : 0;
    q->end_unix_ns = at_ns + half_ns;
    q->has_begin_unix_ns = q->has_end_unix_ns = 1;
    return true;
}

static bool take_times(const struct pfl_trace_args *t, Perfleet__TraceQuery *q)
{
    if (t->at != NULL)
        return take_window(t, q);
    if (t->window != NULL) {
        pfl_cmd_error("--window: give --at TIME, too");
        return false;
    }
    q->has_begin_unix_ns = t->since != NULL;
    q->has_end_unix_ns = t->until != NULL;
    if ((t->since != NULL && !take_time("since", t->since, &q->begin_unix_ns)) ||
        (t->until != NULL && !take_time("until", t->until, &q->end_unix_ns)))
        return false;
    if (t->since == NULL || t->until == NULL || q->begin_unix_ns < q->end_unix_ns)
        return true;
    pfl_cmd_error("--since is not before --until");
    return false;
}

/* "role=web,zone=b*": all of them. */
static bool take_labels(const char *selection, struct pfl_trace_query *q)
{
    char *rest = q->terms;

    (void)snprintf(q->terms, sizeof(q->terms), "%s", selection);
    while (rest != NULL) {
        char *term = strsep(&rest, ",");

        if (strlen(selection) < sizeof(q->terms) && strchr(term, '!') == NULL &&
            pfl_selector_is_label(term) && q->query.n_label < PFL_TRACE_QUERY_TERMS) {
            q->labels[q->query.n_label++] = term;
            continue;
        }
        pfl_cmd_error(
            "--select %s: give label=pattern, with commas between them (role=web,zone=b*)",
            pfl_log_quote_str(selection));
        return false;
    }
    return true;
}

static void take_one(const char *text, char **room, char ***ret_list, size_t *ret_len)
{
    if (text == NULL)
        return;
    *room = mutable_text(text);
    *ret_list = room;
    *ret_len = 1;
}

bool pfl_trace_query_make(const struct pfl_args *args, size_t first,
                          struct pfl_trace_query *ret_query)
{
    const struct pfl_trace_args *t = &args->traces;
    struct pfl_trace_query *q = ret_query;

    *q = (struct pfl_trace_query){.query = PERFLEET__TRACE_QUERY__INIT};
    if (!take_times(t, &q->query) ||
        (args->targets.selection != NULL && !take_labels(args->targets.selection, q)))
        return false;
    if (args->targets.hosts_len > PFL_TRACE_QUERY_TERMS) {
        pfl_cmd_error("--host may be given %u times; use patterns", PFL_TRACE_QUERY_TERMS);
        return false;
    }
    for (size_t i = 0; i < args->targets.hosts_len; i++)
        q->hosts[q->query.n_host++] = mutable_text(args->targets.hosts[i]);
    for (size_t i = first; i < args->words_len; i++)
        q->ids[q->query.n_id++] = mutable_text(args->words[i]);
    q->query.host = q->hosts;
    q->query.label = q->labels;
    q->query.id = q->ids;
    take_one(t->order, &q->one[0], &q->query.order, &q->query.n_order);
    take_one(t->trigger, &q->one[1], &q->query.trigger, &q->query.n_trigger);
    take_one(t->data_source, &q->one[2], &q->query.data_source, &q->query.n_data_source);
    q->query.has_lossy = q->query.lossy = t->is_lossy;
    q->is_any = q->query.has_begin_unix_ns || q->query.has_end_unix_ns || q->query.n_host != 0 ||
                q->query.n_label != 0 || q->query.n_id != 0 || q->query.n_order != 0 ||
                q->query.n_trigger != 0 || q->query.n_data_source != 0;
    return true;
}
