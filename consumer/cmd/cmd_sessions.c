/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions that were left running: `stop` ends them and keeps their data, `kill` throws them away,
 * `stats` asks for their counters.
 *
 *     stop:  QueryServiceState -> Attach -> EnableTracing{attach_notification_only}, Flush ->
 *            DisableTracing -> (the end) -> Detach
 *     kill:  Attach -> FreeBuffers
 *     stats: Attach -> GetTraceStats -> Detach
 *
 * Happy path: each answer makes the next request. Failures: a session that is not there or that
 * somebody holds ends its host in words; the others go on.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "consumer/cmd/cmd.h"
#include "consumer/link/session_find.h"
#include "consumer/report/summary.h"
#include "consumer/report/text.h"
#include "consumer/report/trace_stats.h"

#define REQUEST_MAX_BYTES 256u
#define FLUSH_FLAGS       (4u | 2u << 4) /* explicit, by a command line (docs/abi/service.md 4) */

enum {
    QUERY_SESSIONS_ONLY = 1,
    KEY = 1,
    ENABLE_NOTIFICATION_ONLY = 2,
    FLUSH_REQUEST_FLAGS = 2,
};

static const char *name_of(const struct pfl_asked_host *h)
{
    return ((const struct pfl_args *)pfl_ask_get_user(h))->words[0];
}

static struct pfl_span no_args(void)
{
    return pfl_span_of(NULL, 0);
}

static void ask_by_key(struct pfl_asked_host *h, const char *method, pfl_rpc_reply_cb cb)
{
    uint8_t args[REQUEST_MAX_BYTES];
    struct pfl_writer w = pfl_writer_of(args, sizeof(args));

    pfl_writer_field_bytes(&w, KEY, name_of(h), strlen(name_of(h)));
    pfl_ask_request(h, method, pfl_span_of(args, sizeof(args) - w.left), cb);
}

static void fail_attach(struct pfl_asked_host *h, const struct pfl_rpc_reply *reply)
{
    char why[640];

    if (reply->why.len != 0)
        snprintf(why, sizeof(why), "%s",
                 pfl_log_quote((const char *)reply->why.data, reply->why.len));
    else
        snprintf(
            why, sizeof(why),
            "there is no session %s that was left running, or somebody holds it; see perfleet ps",
            pfl_log_quote_str(name_of(h)));
    pfl_ask_fail(h, why);
}

/* kill */

static int on_freed(void *user, const struct pfl_rpc_reply *reply)
{
    if (reply->success)
        pfl_ask_done(user);
    else
        pfl_ask_fail(user, "the service does not free the session");
    return 0;
}

static int on_attached_to_kill(void *user, const struct pfl_rpc_reply *reply)
{
    if (reply->success)
        pfl_ask_request(user, "FreeBuffers", no_args(), on_freed);
    else
        fail_attach(user, reply);
    return 0;
}

static void kill_session(void *user, struct pfl_asked_host *host)
{
    (void)user;
    ask_by_key(host, "Attach", on_attached_to_kill);
}

/* stop */

static int on_detached(void *user, const struct pfl_rpc_reply *reply)
{
    if (reply->success)
        pfl_ask_done(user);
    else
        pfl_ask_fail(user, "the service does not keep the stopped session");
    return 0;
}

static int on_ended(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_asked_host *h = user;

    if (reply->success)
        ask_by_key(h, "Detach", on_detached);
    else
        pfl_ask_fail(h, "the service does not tell when the session ends");
    return 0;
}

/* A flush that fails is counted by the service; the session is stopped all the same. */
static int on_flushed(void *user, const struct pfl_rpc_reply *reply)
{
    (void)reply;
    pfl_ask_request(user, "DisableTracing", no_args(), NULL);
    return 0;
}

static int on_attached_to_stop(void *user, const struct pfl_rpc_reply *reply)
{
    static const uint8_t notify[] = {ENABLE_NOTIFICATION_ONLY << 3, 1};
    static const uint8_t flush[] = {FLUSH_REQUEST_FLAGS << 3, FLUSH_FLAGS};

    if (!reply->success) {
        fail_attach(user, reply);
        return 0;
    }
    pfl_ask_request(user, "EnableTracing", pfl_span_of(notify, sizeof(notify)), on_ended);
    pfl_ask_request(user, "Flush", pfl_span_of(flush, sizeof(flush)), on_flushed);
    return 0;
}

static int on_state_to_stop(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_asked_host *h = user;
    int rc = reply->success ? pfl_session_take_state(reply->body, &h->answer) : PFL_EPROTO;

    if (rc != 0 || reply->has_more)
        return rc;
    if (pfl_session_find(pfl_buf_get(&h->answer), name_of(h)) == PFL_SESSION_OVER)
        pfl_ask_done(h);
    else
        ask_by_key(h, "Attach", on_attached_to_stop);
    return 0;
}

static void stop_session(void *user, struct pfl_asked_host *host)
{
    static const uint8_t args[] = {QUERY_SESSIONS_ONLY << 3, 1};

    (void)user;
    pfl_ask_request(host, "QueryServiceState", pfl_span_of(args, sizeof(args)), on_state_to_stop);
}

/* stats: leaves the session as it was */

static int on_stats(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_asked_host *h = user;
    int rc =
        reply->success ? pfl_buf_append(&h->answer, reply->body.data, reply->body.len) : PFL_EPROTO;

    if (rc == 0)
        ask_by_key(h, "Detach", on_detached);
    return rc;
}

static int on_attached_to_count(void *user, const struct pfl_rpc_reply *reply)
{
    if (reply->success)
        pfl_ask_request(user, "GetTraceStats", no_args(), on_stats);
    else
        fail_attach(user, reply);
    return 0;
}

static void count_session(void *user, struct pfl_asked_host *host)
{
    (void)user;
    ask_by_key(host, "Attach", on_attached_to_count);
}

/* reports */

static int report_stats(const struct pfl_ask *ask, const struct pfl_args *args, struct pfl_buf *out)
{
    json_t *list = NULL;
    int rc = 0;

    if (args->is_json) {
        pfl_text_init_json();
        list = json_array();
    }
    for (size_t i = 0; rc == 0 && i < pfl_ask_get_len(ask); i++) {
        const struct pfl_asked_host *h = pfl_ask_get_host(ask, i);
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

static int report_done(const struct pfl_ask *ask, const struct pfl_args *args, struct pfl_buf *out)
{
    bool is_kill = strcmp(args->command, "kill") == 0;
    json_t *list = NULL;
    int rc = 0;

    if (args->is_json) {
        pfl_text_init_json();
        list = json_array();
    }
    for (size_t i = 0; rc == 0 && i < pfl_ask_get_len(ask); i++) {
        const struct pfl_asked_host *h = pfl_ask_get_host(ask, i);
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
