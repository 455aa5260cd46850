/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions that were left running: see detached_session.h.
 *
 *     stop:    QueryServiceState -> visit to flush -> visit to disable -> QueryServiceState, until
 *              it has stopped
 *     discard: Attach -> FreeBuffers
 *     count:   visit for GetTraceStats
 *     visit:   Attach, the request, Detach, in one write: a service frees what a connection is
 *              attached to when it ends
 *
 * Happy path: each answer makes the next request. Failures: a missing session, or one that another
 * consumer holds, is an error of its host.
 */
#include "consumer/host/detached_session.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "consumer/host/host_state.h"
#include "consumer/host/session_find.h"
#include "perfetto/consumer_port.fields.h"

#define REQUEST_MAX_BYTES 256u
#define LOOK_MS           50u
#define FLUSH_FLAGS       (4u | 2u << 4) /* explicit, by a command line (docs/abi/service.md 4) */

static struct pfl_span no_args(void)
{
    return pfl_span_of(NULL, 0);
}

static void ask_by_key(struct pfl_fan_out_host *h, const char *method, pfl_rpc_reply_cb cb)
{
    uint8_t args[REQUEST_MAX_BYTES];
    struct pfl_writer w = pfl_writer_of(args, sizeof(args));

    pfl_writer_field_bytes(&w, DETACH_REQUEST__KEY, h->session, strlen(h->session));
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
                 pfl_log_quote_str(h->session));
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

/* ---- discard ---- */

static int on_freed(void *user, const struct pfl_rpc_reply *reply)
{
    if (reply->success)
        pfl_fan_out_done(user);
    else
        pfl_fan_out_fail(user, "the service does not free the session");
    return 0;
}

static int on_attached_to_discard(void *user, const struct pfl_rpc_reply *reply)
{
    if (reply->success)
        pfl_fan_out_request(user, "FreeBuffers", no_args(), on_freed);
    else
        fail_attach(user, reply);
    return 0;
}

void pfl_detached_session_discard(struct pfl_fan_out_host *host, const char *session)
{
    host->session = session;
    ask_by_key(host, "Attach", on_attached_to_discard);
}

/* ---- stop ---- */

static void look(struct pfl_fan_out_host *h);

static int on_disabled(void *user, const struct pfl_rpc_reply *reply)
{
    if (reply->success)
        look(user);
    return on_detached(user, reply);
}

static int on_refused(void *user, const struct pfl_rpc_reply *reply)
{
    if (!reply->success)
        pfl_fan_out_fail(user, "the service does not stop the session");
    return 0;
}

/* The service counts a failed flush; the session is stopped in any case. */
static int on_flushed(void *user, const struct pfl_rpc_reply *reply)
{
    static const struct act disable = {.method = "DisableTracing", .cb = on_refused};

    (void)reply;
    visit(user, &disable, on_disabled);
    return 0;
}

static enum pfl_session_found take_found(struct pfl_fan_out_host *h)
{
    enum pfl_session_found found = pfl_session_find(pfl_buf_get(&h->answer), h->session);

    if (found == PFL_SESSION_NONE)
        found = pfl_session_find_left(pfl_buf_get(&h->answer), h->session);
    pfl_fan_out_drop_answer(h);
    return found;
}

static void on_state_of_stop(struct pfl_fan_out_host *h)
{
    if (take_found(h) == PFL_SESSION_RUNNING)
        pfl_fan_out_later(h, LOOK_MS, look);
    else /* another service than perfleetd names no keys */
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

void pfl_detached_session_stop(struct pfl_fan_out_host *host, const char *session)
{
    host->session = session;
    pfl_host_state_query(host, PFL_HOST_STATE_SESSIONS, on_state_to_stop);
}

/* ---- count ---- */

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

void pfl_detached_session_count(struct pfl_fan_out_host *host, const char *session)
{
    static const struct act count = {.method = "GetTraceStats", .cb = on_stats};

    host->session = session;
    visit(host, &count, on_counted);
}
