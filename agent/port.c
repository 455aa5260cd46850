/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's relays and streams: see port.h.
 *
 * Happy path: dial every relay; answer hello and clock; a CONNECT begins a stream or attaches to
 * the one that it names. Failures: each request is answered with a status and a sentence; a relay
 * that cannot be reached is tried again for ever.
 * Ownership: dialers and streams, each until its last callback; freed after the last of them.
 * Limits: max_streams; when they are used up, one that is done and only remembered gives way.
 */
#include "agent/port.h"

#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "agent/facts_port.h"
#include "agent/port_impl.h"
#include "agent/stream_ask.h"
#include "agent/stream_port.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "proto/gate/role.h"
#include "proto/problem.h"
#include "proto/route.h"

#define HANDSHAKE_TIMEOUT_MS 10000u

static const char *const alpn[] = {PFL_TUNNEL_ALPN_AGENT, NULL};

/* ---- the end ---- */

static void finish_if_gone(struct pfl_agent *a)
{
    if (!a->is_closing || a->dialers != 0 || a->streams_len != 0)
        return;
    pfl_lane_close(a->lane);
    a->conf.on_closed(a->conf.user);
    pfl_tls_conf_unref(a->tls);
    pfl_mem_free(a->hello);
    pfl_mem_free(a);
}

void pfl_agent_close(struct pfl_agent *self)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    if (self->is_closing)
        return;
    self->is_closing = true;
    PFL_LIST_EACH_SAFE (it, tmp, &self->streams)
        pfl_agent_stream_kill(pfl_agent_stream_of_node(it));
    for (size_t i = 0; i < self->conf.relays_len; i++) {
        if (self->uplinks[i].dialer != NULL)
            pfl_dialer_close(self->uplinks[i].dialer);
    }
    finish_if_gone(self);
}

/* ---- streams ---- */

static void on_stream_gone(void *user)
{
    struct pfl_agent *a = user;
    struct pfl_list *it;

    a->streams_len--;
    PFL_LIST_EACH (it, &a->streams)
        pfl_agent_stream_retry(pfl_agent_stream_of_node(it));
    finish_if_gone(a);
}

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

/* The oldest without a connection that is done, else one that is over: an operator who lost its
 * last acknowledgement does not learn that all was well. NULL: there is none. */
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

/* Streams that are not over. */
static unsigned count_of(struct pfl_agent *a, const char *operator_name)
{
    struct pfl_agent_stream_info info;
    struct pfl_list *it;
    unsigned count = 0;

    PFL_LIST_EACH (it, &a->streams) {
        pfl_agent_stream_get_info(pfl_agent_stream_of_node(it), &info);
        count += !info.is_over && strcmp(info.operator_name, operator_name) == 0;
    }
    return count;
}

/* Room for one more. One operator never has all of it. NULL: yes; else why not. */
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

static void refuse(struct pfl_h2_stream *leg, unsigned status, const char *title,
                   const char *detail)
{
    struct pfl_problem problem = {status, "agent", title, detail};

    pfl_problem_respond(leg, &problem);
}

static void refuse_service(struct pfl_agent *a, struct pfl_h2_stream *leg, int rc)
{
    const char *why =
        "its tracing service does not answer: is perfleetd (or traced) running there?";

    if (rc == PFL_EPERM)
        why = "its agent may not open the consumer socket: see perfleetd --set-socket-permissions";
    else if (rc == PFL_ENOMEM)
        why = "its agent is out of memory";
    pfl_log_warn("service-unreachable", "socket=%s reason=\"%s\"",
                 pfl_log_quote_str(a->conf.consumer_socket), pfl_err_str(rc));
    refuse(leg, 503, "no tracing service", why);
}

/* NULL: answered already. */
static struct pfl_agent_stream *begin_stream(struct pfl_agent *a, struct pfl_h2_stream *leg,
                                             const struct pfl_stream_ask *ask)
{
    struct pfl_agent_stream_conf conf = {
        .loop = a->conf.loop,
        .consumer_socket = a->conf.consumer_socket,
        .pool = &a->pool,
        .lane = a->lane,
        .spool_bytes = a->conf.spool_bytes,
        .id = ask->id,
        .operator_name = ask->operator_name,
        .ttl_ms = ask->ttl_ms < a->conf.ttl_max_ms ? ask->ttl_ms : a->conf.ttl_max_ms,
        .wants_zstd = ask->wants_zstd,
        .role = ask->role,
        .on_gone = on_stream_gone,
        .user = a,
    };
    const char *why = make_room(a, ask->operator_name);
    struct pfl_agent_stream *s;
    int rc;

    if (why != NULL) {
        refuse(leg, 429, "too many streams", why);
        return NULL;
    }
    rc = pfl_agent_stream_open(&conf, &s);
    if (rc != 0) {
        refuse_service(a, leg, rc);
        return NULL;
    }
    a->streams_len++;
    a->streams_begun++;
    pfl_list_append(&a->streams, pfl_agent_stream_get_node(s));
    return s;
}

/* False: refused already. A stream that had a role keeps it until there is another. */
static bool give_role(struct pfl_agent_stream *s, struct pfl_h2_stream *leg, struct pfl_span role)
{
    char why[PFL_JUDGE_WHY_BYTES];
    int rc = role.len != 0 ? pfl_agent_stream_set_role(s, role, why) : 0;

    if (rc == 0)
        return true;
    if (rc != PFL_EPERM) {
        refuse(leg, 503, "out of memory", "the host's agent is out of memory");
        return false;
    }
    pfl_log_warn("stream-forbidden", "reason=%s", pfl_log_quote_str(why));
    refuse(leg, 403, "not allowed any more", why);
    pfl_agent_stream_kill(s);
    return false;
}

/* The role of a head, into `ret_role`; empty without one. PFL_EPARSE, PFL_ENOMEM: refused. */
static int read_role(struct pfl_h2_stream *leg, const struct pfl_h2_head *head,
                     struct pfl_buf *ret_role)
{
    const char *text = pfl_h2_head_get(head, PFL_TUNNEL_H_ROLE);
    int rc;

    pfl_buf_init(ret_role, PFL_ROLE_MAX_BYTES);
    rc = text != NULL ? pfl_role_read(text, ret_role) : 0;
    if (rc != 0)
        refuse(leg, rc == PFL_EPARSE ? 400 : 503, "no role",
               "the operator's role is none that this agent knows: update perfleet-agent");
    return rc;
}

static void find_or_begin(struct pfl_agent *a, struct pfl_h2_stream *leg,
                          const struct pfl_stream_ask *ask)
{
    struct pfl_agent_stream *s = NULL;

    if (ask->id[0] != '\0')
        s = find_stream(a, ask->id);
    if (s != NULL && !is_operators(s, ask->operator_name)) {
        refuse(leg, 409, "not your stream", "another operator has a stream of this name");
        return;
    }
    if (s == NULL && ask->is_resume) {
        refuse(leg, 410, "stream gone",
               "it was killed, its time-to-live passed, or the host's agent was started anew");
        return;
    }
    if (s != NULL && !give_role(s, leg, ask->role))
        return;
    if (s == NULL)
        s = begin_stream(a, leg, ask);
    if (s != NULL && pfl_agent_stream_attach(s, leg, ask->has_accounts ? &ask->offer : NULL) != 0)
        refuse(leg, 409, "accounts differ", "what was received cannot be what was sent");
}

static void connect_stream(struct pfl_agent *a, struct pfl_h2_stream *leg,
                           const struct pfl_h2_head *head)
{
    struct pfl_buf role;
    struct pfl_stream_ask ask;

    if (!pfl_stream_ask_read(head, &ask)) {
        refuse(leg, 400, "bad request", "the stream's fields make no sense");
        return;
    }
    if (read_role(leg, head, &role) != 0)
        return;
    ask.role = pfl_buf_get(&role);
    find_or_begin(a, leg, &ask);
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

static void respond_json(struct pfl_h2_stream *leg, const char *json)
{
    if (pfl_h2_stream_respond_body(leg, 200, "application/json", pfl_span_of(json, strlen(json))) !=
        0)
        pfl_h2_stream_reset(leg, PFL_H2_INTERNAL_ERROR);
}

static void answer_clock(struct pfl_h2_stream *leg)
{
    unsigned long long receive_ns = pfl_clock_now_ns(PFL_CLOCK_BOOTTIME);
    char json[96];

    (void)snprintf(json, sizeof(json), "{\"receive_ns\": %llu, \"send_ns\": %llu}\n", receive_ns,
                   (unsigned long long)pfl_clock_now_ns(PFL_CLOCK_BOOTTIME));
    respond_json(leg, json);
}

static void answer_streams(struct pfl_agent *a, struct pfl_h2_stream *leg,
                           const char *operator_name)
{
    char *json;

    if (encode_streams(a, operator_name, &json) != 0) {
        refuse(leg, 503, "out of memory", "the host's agent is out of memory");
        return;
    }
    respond_json(leg, json);
    pfl_mem_free(json);
}

static void kill_stream(struct pfl_agent *a, struct pfl_h2_stream *leg, const char *id,
                        const char *operator_name)
{
    struct pfl_agent_stream *s = find_stream(a, id);

    if (s == NULL || !is_operators(s, operator_name)) {
        refuse(leg, 410, "stream gone", "you have no such stream here");
        return;
    }
    pfl_log_info("stream-killed", "stream=%s operator=%s", id, operator_name);
    pfl_agent_stream_kill(s);
    if (pfl_h2_stream_respond_body(leg, 204, NULL, pfl_span_of(NULL, 0)) != 0)
        pfl_h2_stream_reset(leg, PFL_H2_INTERNAL_ERROR);
}

static void change_role(struct pfl_agent *a, struct pfl_h2_stream *leg,
                        const struct pfl_h2_head *head, const char *id)
{
    struct pfl_agent_stream *s = find_stream(a, id);
    struct pfl_buf role;

    if (s == NULL || !is_operators(s, pfl_h2_head_get(head, PFL_TUNNEL_H_OPERATOR))) {
        refuse(leg, 410, "stream gone", "there is no such stream here");
        return;
    }
    if (read_role(leg, head, &role) != 0)
        return;
    if (role.len == 0)
        refuse(leg, 400, "no role", "the request has none");
    else if (give_role(s, leg, pfl_buf_get(&role)) &&
             pfl_h2_stream_respond_body(leg, 204, NULL, pfl_span_of(NULL, 0)) != 0)
        pfl_h2_stream_reset(leg, PFL_H2_INTERNAL_ERROR);
    pfl_buf_fini(&role);
}

static void route(struct pfl_agent *a, struct pfl_h2_stream *leg, const struct pfl_h2_head *head)
{
    const char *operator_name = pfl_h2_head_get(head, PFL_TUNNEL_H_OPERATOR);
    struct pfl_route route;

    pfl_route_parse(head, false, &route);
    if (route.kind == PFL_ROUTE_HELLO || route.kind == PFL_ROUTE_HEALTH) {
        respond_json(leg, a->hello);
        return;
    }
    if (route.kind == PFL_ROUTE_CLOCK) {
        answer_clock(leg);
        return;
    }
    if (route.kind == PFL_ROUTE_NONE)
        return; /* 404 */
    if (route.kind == PFL_ROUTE_METHOD)
        refuse(leg, 405, "wrong method", "this path knows another method");
    else if (route.kind == PFL_ROUTE_NAME)
        refuse(leg, 400, "bad request", "that cannot be a stream's name");
    else if (operator_name == NULL || !pfl_identity_is_name(operator_name))
        refuse(leg, 400, "bad request", "the relay does not say for which operator it asks");
    else if (route.kind == PFL_ROUTE_CONSUMER)
        connect_stream(a, leg, head);
    else if (route.kind == PFL_ROUTE_STREAMS)
        answer_streams(a, leg, operator_name);
    else if (route.kind == PFL_ROUTE_KILL)
        kill_stream(a, leg, route.stream, operator_name);
    else if (route.kind == PFL_ROUTE_ROLE)
        change_role(a, leg, head, route.stream);
}

static void on_request(void *user, struct pfl_h2_stream *leg, const struct pfl_h2_head *head)
{
    struct pfl_agent_uplink *u = user;

    if (!u->agent->is_closing)
        route(u->agent, leg, head);
}

/* ---- uplinks ---- */

static void on_up(void *user, struct pfl_h2 *h2)
{
    struct pfl_agent_uplink *u = user;

    (void)h2;
    pfl_log_info("relay-connected", "address=%s relay=%s", pfl_log_quote_str(u->address),
                 pfl_dialer_get_relay(u->dialer));
}

static void on_down(void *user, const char *why, uint64_t retry_ms)
{
    struct pfl_agent_uplink *u = user;

    if (pfl_log_limit_take(&u->log, "relay-lost", uv_now(u->agent->conf.loop)))
        pfl_log_warn("relay-lost", "address=%s reason=%s retry_ms=%llu",
                     pfl_log_quote_str(u->address), pfl_log_quote_str(why),
                     (unsigned long long)retry_ms);
}

static void on_dialer_closed(void *user)
{
    struct pfl_agent_uplink *u = user;

    u->dialer = NULL;
    u->agent->dialers--;
    finish_if_gone(u->agent);
}

static void open_uplink(struct pfl_agent *a, struct pfl_agent_uplink *u, const char *address)
{
    struct pfl_dialer_conf conf = {
        .loop = a->conf.loop,
        .address = address,
        .tls = a->tls,
        .fleet = a->fleet,
        .alpn = PFL_TUNNEL_ALPN_AGENT,
        .is_answering = true,
        .window_bytes = PFL_TUNNEL_CONTROL_WINDOW_BYTES,
        .on_request = on_request,
        .handshake_timeout_ms = HANDSHAKE_TIMEOUT_MS,
        .retry_max_ms = a->conf.retry_max_ms,
        .quiet_ms = a->conf.silence_ms / PFL_TUNNEL_SILENCE_FACTOR,
        .on_up = on_up,
        .on_down = on_down,
        .on_closed = on_dialer_closed,
        .user = u,
    };
    int rc;

    u->agent = a;
    (void)snprintf(u->address, sizeof(u->address), "%s", address);
    rc = pfl_dialer_open(&conf, &u->dialer);
    if (rc == 0)
        a->dialers++;
    else
        pfl_log_error("relay-not-dialled", "address=%s reason=\"%s\"", pfl_log_quote_str(address),
                      pfl_err_str(rc));
}

/* ---- opening ---- */

static int load_tls(struct pfl_agent *a, struct pfl_tls_conf **ret_tls)
{
    char why[320];
    int rc;

    a->conf.files.alpn = alpn;
    a->conf.files.is_server = false;
    rc = pfl_tls_conf_new(&a->conf.files, why, sizeof(why), ret_tls);
    if (rc != 0)
        pfl_log_error("certificates-unusable", "reason=%s", pfl_log_quote_str(why));
    return rc;
}

static int learn_name(struct pfl_agent *a)
{
    const char *uri = pfl_tls_conf_get_identity(a->tls)->uri;
    struct pfl_identity id;

    if (pfl_identity_parse(uri, &id) != 0 || id.role != PFL_IDENTITY_HOST) {
        pfl_log_error("not-a-host",
                      "uri=%s reason=\"the certificate's name is not perfleet://FLEET/host/NAME\" "
                      "remedy=\"issue one: perfleet pki host DIR NAME\"",
                      pfl_log_quote_str(uri));
        return PFL_EINVAL;
    }
    memcpy(a->fleet, id.fleet, sizeof(a->fleet));
    memcpy(a->name, id.name, sizeof(a->name));
    return 0;
}

static int prepare(struct pfl_agent *a)
{
    struct pfl_hello_facts facts;
    int rc = load_tls(a, &a->tls);

    if (rc == 0)
        rc = learn_name(a);
    if (rc != 0)
        return rc;
    pfl_facts_gather(&facts);
    return pfl_hello_encode(&facts, a->conf.labels, a->conf.labels_len, &a->hello);
}

int pfl_agent_open(const struct pfl_agent_conf *conf, struct pfl_agent **ret_agent)
{
    struct pfl_agent *a = pfl_mem_zalloc(sizeof(*a));
    int rc;

    if (a == NULL)
        return PFL_ENOMEM;
    a->conf = *conf;
    a->pool = conf->pool;
    pfl_list_init(&a->streams);
    rc = prepare(a);
    if (rc == 0)
        rc = pfl_lane_open(conf->loop, &a->lane);
    if (rc != 0) {
        pfl_mem_free(a->hello);
        pfl_tls_conf_unref(a->tls);
        pfl_mem_free(a);
        return rc;
    }
    *ret_agent = a;
    for (size_t i = 0; i < conf->relays_len; i++)
        open_uplink(a, &a->uplinks[i], conf->relays[i]);
    pfl_log_info("dialling", "host=%s fleet=%s relays=%zu consumer_socket=%s", a->name, a->fleet,
                 conf->relays_len, pfl_log_quote_str(conf->consumer_socket));
    return 0;
}

void pfl_agent_reload(struct pfl_agent *self)
{
    struct pfl_tls_conf *fresh = NULL;

    if (load_tls(self, &fresh) != 0) {
        pfl_log_error("reload-failed", "the old certificates stay in use");
        return;
    }
    pfl_tls_conf_unref(self->tls);
    self->tls = fresh;
    for (size_t i = 0; i < self->conf.relays_len; i++) {
        if (self->uplinks[i].dialer != NULL)
            pfl_dialer_set_tls(self->uplinks[i].dialer, fresh);
    }
    pfl_log_info("reloaded", "certificate=%s",
                 pfl_log_quote_str(pfl_tls_conf_get_identity(fresh)->uri));
}
