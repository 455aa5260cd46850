/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detached sessions: `stop` ends them and keeps their data, `kill` discards them, `stats` shows
 * their counters.
 *
 *     stop:  QueryServiceState -> visit to flush -> visit to disable -> QueryServiceState, until it
 *            has stopped
 *     kill:  Attach -> FreeBuffers
 *     stats: visit for GetTraceStats
 *     visit: Attach, the request, Detach, in one write: a service frees what a connection is
 *            attached to when it ends
 *
 * Happy path: each answer makes the next request. Failures: a missing session, or one that another
 * consumer holds, is an error of its host; the others continue.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "consumer/cmd/cmd.h"
#include "consumer/host/host_state.h"
#include "consumer/host/session_find.h"
#include "consumer/report/summary.h"
#include "consumer/report/trace_stats.h"
#include "consumer/text.h"
#include "perfetto/consumer_port.fields.h"

#define REQUEST_MAX_BYTES 256u
#define LOOK_MS           50u
#define FLUSH_FLAGS       (4u | 2u << 4) /* explicit, by a command line (docs/abi/service.md 4) */

static const char *name_of(const struct pfl_fan_out_host *h)
{
    return ((const struct pfl_args *)pfl_fan_out_get_user(h))->words[0];
}

static struct pfl_span no_args(void)
{
    return pfl_span_of(NULL, 0);
}

static void ask_by_key(struct pfl_fan_out_host *h, const char *method, pfl_rpc_reply_cb cb)
{
    uint8_t args[REQUEST_MAX_BYTES];
    struct pfl_writer w = pfl_writer_of(args, sizeof(args));

    pfl_writer_field_bytes(&w, DETACH_REQUEST__KEY, name_of(h), strlen(name_of(h)));
    pfl_fan_out_request(h, method, pfl_span_of(args, sizeof(args) - w.left), cb);
}

static void fail_attach(struct pfl_fan_out_host *h, const struct pfl_rpc_reply *reply)
{
    char why[640];

    if (reply->why.len != 0)
        snprintf(why, sizeof(why), "%s",
                 pfl_log_quote((const char *)reply->why.data, reply->why.len));
    else
        snprintf(why, sizeof(why),
                 "no session %s was left running, or another consumer holds it; see perfleet ps",
                 pfl_log_quote_str(name_of(h)));
    pfl_fan_out_fail(h, why);
}

static int on_detached(void *user, const struct pfl_rpc_reply *reply)
{
    if (!reply->success)
        pfl_fan_out_fail(user, "the service does not let the session run by itself");
    return 0;
}

static int on_attached(void *user, const struct pfl_rpc_reply *reply)
{
    if (!reply->success)
        fail_attach(user, reply);
    return 0;
}

/* A request that the service completes at once, or continues when no consumer is attached. */
struct act {
    const char *method;
    struct pfl_span args;
    pfl_rpc_reply_cb cb;
};

static void visit(struct pfl_fan_out_host *h, const struct act *act, pfl_rpc_reply_cb on_over)
{
    pfl_fan_out_cork(h);
    ask_by_key(h, "Attach", on_attached);
    pfl_fan_out_request(h, act->method, act->args, act->cb);
    ask_by_key(h, "Detach", on_over);
    pfl_fan_out_uncork(h);
}

/* kill */

static int on_freed(void *user, const struct pfl_rpc_reply *reply)
{
    if (reply->success)
        pfl_fan_out_done(user);
    else
        pfl_fan_out_fail(user, "the service does not free the session");
    return 0;
}

static int on_attached_to_kill(void *user, const struct pfl_rpc_reply *reply)
{
    if (reply->success)
        pfl_fan_out_request(user, "FreeBuffers", no_args(), on_freed);
    else
        fail_attach(user, reply);
    return 0;
}

static void kill_session(void *user, struct pfl_fan_out_host *host)
{
    (void)user;
    ask_by_key(host, "Attach", on_attached_to_kill);
}

/* stop */

static void look(struct pfl_fan_out_host *h);

static int on_disabled(void *user, const struct pfl_rpc_reply *reply)
{
    if (reply->success)
        look(user);
    return on_detached(user, reply);
}

/* The service counts a failed flush; the session is stopped in any case. */
static int on_flushed(void *user, const struct pfl_rpc_reply *reply)
{
    static const struct act disable = {.method = "DisableTracing"};

    (void)reply;
    visit(user, &disable, on_disabled);
    return 0;
}

static enum pfl_session_found take_found(struct pfl_fan_out_host *h)
{
    enum pfl_session_found found = pfl_session_find(pfl_buf_get(&h->answer), name_of(h));

    pfl_fan_out_drop_answer(h);
    return found;
}

static void on_state_of_stop(struct pfl_fan_out_host *h)
{
    if (take_found(h) == PFL_SESSION_RUNNING)
        pfl_fan_out_later(h, LOOK_MS, look);
    else /* a session that only has a key is not in the answer */
        pfl_fan_out_done(h);
}

static void look(struct pfl_fan_out_host *h)
{
    pfl_host_state_query(h, PFL_HOST_STATE_SESSIONS, on_state_of_stop);
}

static void on_state_to_stop(struct pfl_fan_out_host *h)
{
    static const uint8_t flags[] = {FLUSH_REQUEST__FLAGS << 3, FLUSH_FLAGS};
    const struct act flush = {"Flush", pfl_span_of(flags, sizeof(flags)), on_flushed};

    if (take_found(h) == PFL_SESSION_OVER)
        pfl_fan_out_done(h);
    else
        visit(h, &flush, on_detached);
}

static void stop_session(void *user, struct pfl_fan_out_host *host)
{
    (void)user;
    pfl_host_state_query(host, PFL_HOST_STATE_SESSIONS, on_state_to_stop);
}

/* stats: leaves the session as it was */

static int append(struct pfl_span body, struct pfl_buf *out)
{
    return pfl_buf_append(out, body.data, body.len);
}

static int on_stats(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_fan_out_host *h = user;

    if (reply->success)
        (void)pfl_fan_out_add(h, reply->body, append);
    return 0;
}

static int on_counted(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_fan_out_host *h = user;

    if (reply->success && h->answer.len != 0)
        pfl_fan_out_done(h);
    else if (reply->success)
        pfl_fan_out_fail(h, "the service does not report its counters");
    return on_detached(user, reply);
}

static void count_session(void *user, struct pfl_fan_out_host *host)
{
    static const struct act count = {.method = "GetTraceStats", .cb = on_stats};

    (void)user;
    visit(host, &count, on_counted);
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
