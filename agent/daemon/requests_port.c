/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of relays to the agent: docs/protocol-tunnel.md, "Requests".
 *
 * Happy path: hello and clock are answered; a CONNECT begins a stream or attaches to the one that
 * it names. Failures: each request is answered with a status and a sentence. Ownership: the agent
 * owns the streams. Limits: max_streams; past it a stream that is done and only remembered is
 * replaced.
 */
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "agent/daemon/port_impl.h"
#include "agent/daemon/stream/stream_port.h"
#include "agent/daemon/stream/stream_request.h"
#include "base/clock.h"
#include "base/io/fdsock.h"
#include "base/log.h"
#include "base/mem.h"
#include "proto/tunnel/route.h"

/* ---- streams ---- */

static struct pfl_agent_stream *find_stream(struct pfl_agent *a, const char *id)
{
    struct pfl_agent_stream_info info;
    struct pfl_list *it;

    PFL_LIST_EACH (it, &a->streams) {
        struct pfl_agent_stream *s = pfl_agent_stream_of_node(it);

        pfl_agent_stream_get_info(s, &info);
        if (strcmp(info.id, id) == 0)
            return s;
    }
    return NULL;
}

static bool is_operators(const struct pfl_agent_stream *s, const char *operator_name)
{
    struct pfl_agent_stream_info info;

    pfl_agent_stream_get_info(s, &info);
    return strcmp(info.operator_name, operator_name) == 0;
}

/* The oldest done stream without a connection, else one that is over: an operator that missed its
 * last acknowledgement does not learn that all bytes arrived. NULL: none. */
static struct pfl_agent_stream *find_over(struct pfl_agent *a)
{
    struct pfl_agent_stream_info info;
    struct pfl_agent_stream *over = NULL;
    struct pfl_list *it;

    PFL_LIST_EACH (it, &a->streams) {
        struct pfl_agent_stream *s = pfl_agent_stream_of_node(it);

        pfl_agent_stream_get_info(s, &info);
        if (info.is_carried || !info.is_over)
            continue;
        if (info.is_done)
            return s;
        over = over != NULL ? over : s;
    }
    return over;
}

/* Streams that cannot be replaced: not over, or not completely read by the operator. */
static unsigned count_of(struct pfl_agent *a, const char *operator_name)
{
    struct pfl_agent_stream_info info;
    struct pfl_list *it;
    unsigned count = 0;

    PFL_LIST_EACH (it, &a->streams) {
        pfl_agent_stream_get_info(pfl_agent_stream_of_node(it), &info);
        count +=
            (!info.is_over || info.is_carried) && strcmp(info.operator_name, operator_name) == 0;
    }
    return count;
}

/* Is there room for one more? One operator never gets all of it. NULL: yes; else the reason. */
static const char *make_room(struct pfl_agent *a, const char *operator_name)
{
    struct pfl_agent_stream *over;

    if (count_of(a, operator_name) >= a->conf.max_streams - a->conf.max_streams / 4)
        return "this host carries as many streams of yours as of one operator it may";
    if (a->streams_len < a->conf.max_streams)
        return NULL;
    over = find_over(a);
    if (over == NULL)
        return "this host carries as many streams as it may";
    pfl_agent_stream_kill(over);
    return a->streams_len < a->conf.max_streams + 1 ? NULL : "streams are ending here: try again";
}

static void refuse_service(struct pfl_agent *a, struct pfl_h2_stream *h2_stream, int rc)
{
    const char *why =
        "its tracing service does not answer: is perfleetd (or traced) running there?";

    if (rc == PFL_EPERM)
        why = "its agent may not open the consumer socket: see perfleetd --set-socket-permissions";
    else if (rc == PFL_ESTRANGER)
        why = "its consumer socket is served by a user whom its agent does not trust: its log has "
              "the user and the remedy (service_user)";
    else if (rc == PFL_ENOMEM)
        why = "its agent is out of memory";
    else if (rc == PFL_ELIMIT)
        why = "its agent may not make files as large as a stream's memory: see ulimit -f there";
    pfl_log_warn("service-unreachable", "socket=%s reason=\"%s\"",
                 pfl_log_quote_str(a->conf.consumer_socket),
                 rc == PFL_ESTRANGER ? pfl_fdsock_get_service_why() : pfl_err_str(rc));
    pfl_agent_refuse(h2_stream, 503, "no tracing service", why);
}

/* NULL: answered already. */
static struct pfl_agent_stream *begin_stream(struct pfl_agent *a, struct pfl_h2_stream *h2_stream,
                                             const struct pfl_stream_request *request)
{
    struct pfl_agent_stream_conf conf;
    const char *why = make_room(a, request->operator_name);
    struct pfl_agent_stream *s;
    int rc;

    if (why != NULL) {
        pfl_agent_refuse(h2_stream, 429, "too many streams", why);
        return NULL;
    }
    pfl_agent_fill_stream_conf(a, &conf);
    conf.id = request->id;
    conf.operator_name = request->operator_name;
    conf.ttl_ms = request->ttl_ms < a->conf.ttl_max_ms ? request->ttl_ms : a->conf.ttl_max_ms;
    conf.wants_zstd = request->wants_zstd;
    conf.role = request->role;
    rc = pfl_agent_stream_open(&conf, &s);
    if (rc != 0) {
        refuse_service(a, h2_stream, rc);
        return NULL;
    }
    a->streams_len++;
    a->streams_begun++;
    pfl_list_append(&a->streams, pfl_agent_stream_get_node(s));
    return s;
}

/* False: refused already. A stream that had a role keeps it until it gets another one. */
static bool give_role(struct pfl_agent_stream *s, struct pfl_h2_stream *h2_stream,
                      struct pfl_span role)
{
    char why[PFL_JUDGE_WHY_BYTES];
    int rc = role.len != 0 ? pfl_agent_stream_set_role(s, role, why) : 0;

    if (rc == 0)
        return true;
    if (rc != PFL_EPERM) {
        pfl_agent_refuse(h2_stream, 503, "out of memory", "the host's agent is out of memory");
        return false;
    }
    pfl_log_warn("stream-forbidden", "reason=%s", pfl_log_quote_reason(why));
    pfl_agent_refuse(h2_stream, 403, "not allowed any more", why);
    pfl_agent_stream_kill(s);
    return false;
}

static void find_or_begin(struct pfl_agent *a, struct pfl_h2_stream *h2_stream,
                          const struct pfl_stream_request *request)
{
    struct pfl_agent_stream *s = NULL;

    if (request->id[0] != '\0')
        s = find_stream(a, request->id);
    if (s != NULL && !is_operators(s, request->operator_name)) {
        pfl_agent_refuse(h2_stream, 409, "not your stream",
                         "another operator has a stream of this name");
        return;
    }
    if (s == NULL && request->is_resume) {
        pfl_agent_refuse(
            h2_stream, 410, "stream gone",
            "it was killed, its time-to-live passed, or the host's agent was restarted "
            "and continued without it");
        return;
    }
    if (s != NULL && !give_role(s, h2_stream, request->role))
        return;
    if (s == NULL)
        s = begin_stream(a, h2_stream, request);
    if (s != NULL &&
        pfl_agent_stream_attach(s, h2_stream, request->has_accounts ? &request->offer : NULL) != 0)
        pfl_agent_refuse(h2_stream, 409, "accounts differ",
                         "what was received cannot be what was sent");
}

static void connect_stream(struct pfl_agent *a, struct pfl_h2_stream *h2_stream,
                           const struct pfl_h2_head *head, const struct pfl_route *route)
{
    struct pfl_buf role;
    struct pfl_stream_request request;

    if (!pfl_stream_request_read(head, &request)) {
        pfl_agent_refuse(h2_stream, 400, "bad request", "the stream's fields make no sense");
        return;
    }
    if (pfl_agent_read_role(h2_stream, route, &role) != 0)
        return;
    request.role = pfl_buf_get(&role);
    find_or_begin(a, h2_stream, &request);
    pfl_buf_fini(&role);
}

static int encode_streams(struct pfl_agent *a, const char *operator_name, char **ret_json)
{
    json_t *list = json_array();
    json_t *root = json_pack("{s:o}", "streams", list);
    struct pfl_list *it;

    PFL_LIST_EACH (it, &a->streams) {
        struct pfl_agent_stream_info i;

        pfl_agent_stream_get_info(pfl_agent_stream_of_node(it), &i);
        if (strcmp(i.operator_name, operator_name) != 0 || i.id[0] == '\0')
            continue;
        (void)json_array_append_new(
            list, json_pack("{s:s, s:b, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:i}", "id", i.id,
                            "is_carried", i.is_carried, "is_done", i.is_done, "age_ms",
                            (json_int_t)i.age_ms, "orphan_ms", (json_int_t)i.orphan_ms, "ttl_ms",
                            (json_int_t)i.ttl_ms, "sent_bytes", (json_int_t)i.sent_bytes,
                            "kept_bytes", (json_int_t)i.kept_bytes, "file_bytes",
                            (json_int_t)i.file_bytes, "resumes", (int)i.resumes));
    }
    *ret_json = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    return *ret_json != NULL ? 0 : PFL_ENOMEM;
}

/* ---- requests ---- */

static void answer_clock(struct pfl_h2_stream *h2_stream)
{
    unsigned long long receive_ns = pfl_clock_now_ns(PFL_CLOCK_BOOTTIME);
    char json[96];

    (void)snprintf(json, sizeof(json), "{\"receive_ns\": %llu, \"send_ns\": %llu}\n", receive_ns,
                   (unsigned long long)pfl_clock_now_ns(PFL_CLOCK_BOOTTIME));
    pfl_agent_respond_json(h2_stream, json);
}

static void answer_streams(struct pfl_agent *a, struct pfl_h2_stream *h2_stream,
                           const char *operator_name)
{
    char *json;

    if (!pfl_operator_rates_take(&a->list_rates, operator_name, 1, uv_now(a->conf.loop))) {
        pfl_agent_refuse(h2_stream, 429, "too many requests",
                         "an operator may ask 128 times at once here, then 30 times a second");
        return;
    }
    if (encode_streams(a, operator_name, &json) != 0) {
        pfl_agent_refuse(h2_stream, 503, "out of memory", "the host's agent is out of memory");
        return;
    }
    pfl_agent_respond_json(h2_stream, json);
    pfl_mem_free(json);
}

static void kill_stream(struct pfl_agent *a, struct pfl_h2_stream *h2_stream, const char *id,
                        const char *operator_name)
{
    struct pfl_agent_stream *s = find_stream(a, id);

    if (s == NULL || !is_operators(s, operator_name)) {
        pfl_agent_refuse(h2_stream, 410, "stream gone", "you have no such stream here");
        return;
    }
    pfl_log_info("stream-killed", "stream=%s operator=%s", id, operator_name);
    pfl_agent_stream_kill(s);
    if (pfl_h2_stream_respond_body(h2_stream, 204, NULL, pfl_span_of(NULL, 0)) != 0)
        pfl_h2_stream_reset(h2_stream, PFL_H2_INTERNAL_ERROR);
}

static void change_role(struct pfl_agent *a, struct pfl_h2_stream *h2_stream,
                        const struct pfl_route *route)
{
    struct pfl_agent_stream *s = find_stream(a, route->stream);
    struct pfl_buf role;

    if (s == NULL || !is_operators(s, route->operator_name)) {
        pfl_agent_refuse(h2_stream, 410, "stream gone", "there is no such stream here");
        return;
    }
    if (pfl_agent_read_role(h2_stream, route, &role) != 0)
        return;
    if (role.len == 0)
        pfl_agent_refuse(h2_stream, 400, "no role", "the request has none");
    else if (give_role(s, h2_stream, pfl_buf_get(&role)) &&
             pfl_h2_stream_respond_body(h2_stream, 204, NULL, pfl_span_of(NULL, 0)) != 0)
        pfl_h2_stream_reset(h2_stream, PFL_H2_INTERNAL_ERROR);
    pfl_buf_fini(&role);
}

static void answer_events(struct pfl_agent *a, const struct pfl_agent_uplink *u,
                          struct pfl_h2_stream *h2_stream)
{
    int rc = pfl_events_listen(&a->events, u, h2_stream, uv_now(a->conf.loop));

    if (rc == PFL_ELIMIT)
        pfl_agent_refuse(h2_stream, 429, "too many listeners",
                         "this host's events are read already");
    else if (rc != 0)
        pfl_agent_refuse(h2_stream, 503, "out of memory", "the host's agent is out of memory");
    else
        pfl_agent_report_spool(a);
}

static void route(const struct pfl_agent_uplink *u, struct pfl_h2_stream *h2_stream,
                  const struct pfl_h2_head *head)
{
    struct pfl_agent *a = u->agent;
    struct pfl_route route;

    pfl_route_parse(head, PFL_ROUTE_AT_AGENT, &route);
    if (route.kind == PFL_ROUTE_HELLO || route.kind == PFL_ROUTE_HEALTH) {
        pfl_agent_respond_json(h2_stream, a->hello);
        return;
    }
    if (route.kind == PFL_ROUTE_CLOCK) {
        pfl_agent_note_clock(a, &route);
        answer_clock(h2_stream);
        return;
    }
    if (route.kind == PFL_ROUTE_EVENTS) {
        answer_events(a, u, h2_stream);
        return;
    }
    if (route.kind == PFL_ROUTE_NONE)
        return; /* 404 */
    if (route.kind == PFL_ROUTE_METHOD)
        pfl_agent_refuse(h2_stream, 405, "wrong method", "this path knows another method");
    else if (route.kind == PFL_ROUTE_NAME)
        pfl_agent_refuse(h2_stream, 400, "bad request",
                         "that cannot be the name of a stream or session");
    else if (route.operator_name == NULL)
        pfl_agent_refuse(h2_stream, 400, "bad request",
                         "the relay does not say for which operator it asks");
    else if (route.kind == PFL_ROUTE_CONSUMER)
        connect_stream(a, h2_stream, head, &route);
    else if (route.kind == PFL_ROUTE_SPOOL)
        pfl_agent_connect_spool(a, h2_stream, &route);
    else if (route.kind == PFL_ROUTE_STREAMS)
        answer_streams(a, h2_stream, route.operator_name);
    else if (route.kind == PFL_ROUTE_KILL)
        kill_stream(a, h2_stream, route.stream, route.operator_name);
    else if (route.kind == PFL_ROUTE_ROLE)
        change_role(a, h2_stream, &route);
    else if (route.kind == PFL_ROUTE_RAISE)
        pfl_agent_raise_triggers(a, h2_stream, &route);
    else if (route.kind == PFL_ROUTE_ORDER_RAISED)
        pfl_agent_raise_order(a, h2_stream, &route);
    else
        pfl_agent_answer_alarms(a, h2_stream, &route);
}

void pfl_agent_on_request(void *user, struct pfl_h2_stream *h2_stream,
                          const struct pfl_h2_head *head)
{
    struct pfl_agent_uplink *u = user;

    if (!u->agent->is_closing)
        route(u, h2_stream, head);
}
