/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detached sessions: `stop` ends them and keeps their data, `kill` discards them, `stats` shows
 * their counters (consumer/host/detached_session.h). Failures: an error of its host; the others
 * continue.
 */
#include <stdio.h>
#include <string.h>

#include "consumer/cmd/cmd.h"
#include "consumer/host/detached_session.h"
#include "consumer/report/summary.h"
#include "consumer/report/trace_stats.h"
#include "consumer/text.h"

static const char *name_of(const struct pfl_args *args)
{
    return args->words[0];
}

static void kill_session(void *user, struct pfl_fan_out_host *host)
{
    pfl_detached_session_discard(host, name_of(user));
}

static void stop_session(void *user, struct pfl_fan_out_host *host)
{
    pfl_detached_session_stop(host, name_of(user));
}

static void count_session(void *user, struct pfl_fan_out_host *host)
{
    pfl_detached_session_count(host, name_of(user));
}

/* reports */

static int report_stats(const struct pfl_fan_out *fan_out, const struct pfl_args *args,
                        struct pfl_buf *out)
{
    json_t *list = NULL;
    int rc = 0;

    if (args->is_json) {
        pfl_text_init_json();
        list = json_array();
    }
    for (size_t i = 0; rc == 0 && i < pfl_fan_out_get_len(fan_out); i++) {
        const struct pfl_fan_out_host *h = pfl_fan_out_get_host(fan_out, i);
        struct pfl_trace_stats_host row = {.name = h->name[0] != '\0' ? h->name : h->spec->text,
                                           .why = h->why,
                                           .response = pfl_buf_get(&h->answer)};

        if (!args->is_json)
            rc = pfl_trace_stats_text(&row, out);
        else if (json_array_append_new(list, pfl_trace_stats_json(&row)) != 0)
            rc = PFL_ENOMEM;
    }
    if (rc != 0)
        json_decref(list);
    return rc != 0 || !args->is_json ? rc : pfl_text_dump_json(list, out);
}

static int report_done(const struct pfl_fan_out *fan_out, const struct pfl_args *args,
                       struct pfl_buf *out)
{
    bool is_kill = strcmp(args->command, "kill") == 0;
    json_t *list = NULL;
    int rc = 0;

    if (args->is_json) {
        pfl_text_init_json();
        list = json_array();
    }
    for (size_t i = 0; rc == 0 && i < pfl_fan_out_get_len(fan_out); i++) {
        const struct pfl_fan_out_host *h = pfl_fan_out_get_host(fan_out, i);
        const char *name = h->name[0] != '\0' ? h->name : h->spec->text;

        if (!args->is_json)
            rc = h->why[0] != '\0'
                     ? pfl_text_add(out, "host %s: FAILED: %s\n", name, h->why)
                     : pfl_text_add(out, "host %s: %s\n", name, is_kill ? "killed" : "stopped");
        else if (json_array_append_new(list, pfl_text_json_outcome(name, h->why)) != 0)
            rc = PFL_ENOMEM;
    }
    if (rc != 0)
        json_decref(list);
    return rc != 0 || !args->is_json ? rc : pfl_text_dump_json(list, out);
}

int pfl_cmd_stop(struct pfl_args *args)
{
    if (!pfl_cmd_is_session_name(args->words[0]))
        return PFL_EXIT_USAGE;
    return pfl_cmd_ask(args, &(struct pfl_cmd_question){stop_session, report_done, args});
}

int pfl_cmd_kill(struct pfl_args *args)
{
    if (!pfl_cmd_is_session_name(args->words[0]))
        return PFL_EXIT_USAGE;
    return pfl_cmd_ask(args, &(struct pfl_cmd_question){kill_session, report_done, args});
}

int pfl_cmd_stats(struct pfl_args *args)
{
    if (!pfl_cmd_is_session_name(args->words[0]))
        return PFL_EXIT_USAGE;
    return pfl_cmd_ask(args, &(struct pfl_cmd_question){count_session, report_stats, args});
}
