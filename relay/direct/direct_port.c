/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Direct mode: see direct_port.h.
 *
 * Happy path: the operator is admitted (direct_admission.h), the service is connected, and bytes
 * are forwarded (direct_proxy.h), through a gate if the operator has a role. Failures: each ends
 * that one connection with a log line with the reason and the remedy. Ownership: connections, each
 * of which owns its proxy. Limits: max_per_operator, the proxy's queues; refusals in the log
 * (log.h).
 */
#include "relay/direct/direct_port.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io/fdsock.h"
#include "base/io/tls_stream.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/shares.h"
#include "relay/direct/direct_admission.h"
#include "relay/direct/direct_proxy.h"

struct pfl_direct {
    struct pfl_direct_conf conf;
    const struct pfl_policy *policy; /* borrowed; NULL allows all */
    struct pfl_list connections;     /* owned */
    struct pfl_traffic ended;        /* `begun` of all, bytes of those that are over */
    struct pfl_log_limit judged_log;
    struct pfl_log_limit unreachable_log;
    char host[PFL_IDENTITY_NAME_BYTES];
};

struct direct_connection {
    struct pfl_list node;
    struct pfl_direct *direct;      /* borrowed: outlives us */
    struct pfl_direct_proxy *proxy; /* owned until its on_ended */
    struct pfl_quota *quota;        /* borrowed; NULL: not admitted */
    struct pfl_identity identity;
    uint64_t start_ms;
    char address[80];
    char uri[256];
    void (*on_ended)(void *user);
    void *user;
};

static struct direct_connection *connection_of(struct pfl_list *node)
{
    return PFL_CONTAINER_OF(node, struct direct_connection, node);
}

/* ---- log ---- */

static bool audit(const struct direct_connection *c, const char *action, unsigned status,
                  const struct pfl_direct_proxy_stats *stats)
{
    struct pfl_audit_log_entry entry = {
        .who = c->identity.name,
        .address = c->address,
        .action = action,
        .host = c->direct->host,
        .stream = "",
        .status = status,
        .bytes_to_host = stats != NULL ? stats->bytes_to_local : 0,
        .bytes_to_operator = stats != NULL ? stats->bytes_to_remote : 0,
    };

    return pfl_audit_log_write(c->direct->conf.audit, &entry);
}

static void log_end(const struct direct_connection *c, const struct pfl_direct_proxy_stats *stats)
{
    uint64_t now_ms = uv_now(c->direct->conf.loop);
    const char *words = stats->remote_words;

    pfl_log_info("connection-ended",
                 "address=%s operator=%s bytes_from_operator=%llu bytes_to_operator=%llu "
                 "duration_ms=%llu operator_side=%s service_side=\"%s\"%s",
                 c->address, pfl_log_quote_str(c->uri), (unsigned long long)stats->bytes_to_local,
                 (unsigned long long)stats->bytes_to_remote,
                 (unsigned long long)(now_ms - c->start_ms),
                 pfl_log_quote_reason(words[0] != '\0' ? words : pfl_err_str(stats->remote_err)),
                 pfl_err_str(stats->local_err), stats->is_idle_end ? " idle=yes" : "");
}

static void on_judged(void *user, enum pfl_method method, const char *why)
{
    struct direct_connection *c = user;
    struct pfl_direct *d = c->direct;

    if (why != NULL && pfl_log_limit_take(&d->judged_log, "request-refused", uv_now(d->conf.loop)))
        pfl_log_warn("request-refused", "address=%s operator=%s method=%s reason=%s", c->address,
                     pfl_log_quote_str(c->uri), pfl_method_name(method), pfl_log_quote_str(why));
}

static const char *remedy_of_connect(int rc)
{
    switch (rc) {
    case PFL_ENOENT:
        return "start perfleetd, or give its socket with --consumer-socket";
    case PFL_ECLOSED:
        return "no service listens there: start perfleetd again";
    case PFL_EPERM:
        return "let this user connect to it: perfleetd --set-socket-permissions, or the socket's "
               "group";
    case PFL_ESTRANGER:
        return "serve where only root or that user can make sockets, or name it: --service-user";
    case PFL_EAGAIN:
        return "the service accepts too slowly: try again";
    default:
        return "see the reason";
    }
}

/* ---- the end of a connection ---- */

static void free_connection(struct direct_connection *c)
{
    if (c->quota != NULL)
        pfl_quota_close(c->quota);
    pfl_list_remove(&c->node);
    pfl_mem_free(c);
}

static void on_proxy_ended(void *user, const struct pfl_direct_proxy_stats *stats)
{
    struct direct_connection *c = user;
    struct pfl_direct *d = c->direct;
    void (*on_ended)(void *user) = c->on_ended;
    void *ended_user = c->user;

    log_end(c, stats);
    d->ended.bytes_to_host += stats->bytes_to_local;
    d->ended.bytes_to_operator += stats->bytes_to_remote;
    d->ended.cut += stats->remote_err != 0 || stats->local_err != 0;
    (void)audit(c, "end", 0, stats);
    free_connection(c);
    on_ended(ended_user);
}

/* ---- a connection comes ---- */

static unsigned count_of(const struct pfl_direct *d, const char *operator_name)
{
    struct pfl_list *it;
    unsigned count = 0;

    PFL_LIST_EACH (it, &d->connections)
        count += strcmp(connection_of(it)->identity.name, operator_name) == 0;
    return count;
}

static struct pfl_direct_admission_conf question_of(const struct direct_connection *c)
{
    const struct pfl_direct *d = c->direct;

    return (struct pfl_direct_admission_conf){
        .policy = d->policy,
        .quotas = d->conf.quotas,
        .operator_name = c->identity.name,
        .host = d->host,
        .connections = count_of(d, c->identity.name),
        .max_connections = d->conf.max_per_operator,
        .now_ms = uv_now(d->conf.loop),
        .can_audit = pfl_audit_log_may_begin(d->conf.audit),
    };
}

static int connect_service(const struct direct_connection *c, int *ret_fd)
{
    struct pfl_direct *d = c->direct;
    int rc = pfl_fdsock_connect_service_for(d->conf.consumer_socket, c->identity.name, ret_fd);

    if (rc != 0 && pfl_log_limit_take(&d->unreachable_log, "consumer-socket-unreachable",
                                      uv_now(d->conf.loop)))
        pfl_log_error("consumer-socket-unreachable",
                      "socket=%s address=%s operator=%s reason=\"%s\" remedy=\"%s\"",
                      pfl_log_quote_str(d->conf.consumer_socket), c->address,
                      pfl_log_quote_str(c->uri), pfl_fdsock_get_service_why(),
                      remedy_of_connect(rc));
    return rc;
}

static int forward(struct direct_connection *c, struct pfl_stream *remote, struct pfl_span role)
{
    struct pfl_direct *d = c->direct;
    struct pfl_direct_proxy_conf conf = {
        .loop = d->conf.loop,
        .remote = remote,
        .half_closed_timeout_ms = d->conf.half_closed_timeout_ms,
        .turns = d->conf.turns,
        .who = pfl_shares_hash(c->uri, strlen(c->uri)),
        .role = role,
        .bucket = c->quota != NULL ? &c->quota->bytes : NULL,
        .on_judged = on_judged,
        .on_ended = on_proxy_ended,
        .user = c,
    };
    int fd = -1;
    int rc = connect_service(c, &fd);

    if (rc == 0) {
        rc = pfl_direct_proxy_new(&conf, fd, &c->proxy);
        if (rc == 0)
            return 0;
        pfl_log_error("forward-failed", "address=%s reason=\"%s\"", c->address, pfl_err_str(rc));
        close(fd);
    }
    (void)audit(c, "refuse", 503, NULL);
    return rc;
}

static int admit(struct direct_connection *c, struct pfl_stream *remote,
                 struct pfl_identity_refusal *ret_refusal)
{
    struct pfl_direct_admission_conf question = question_of(c);
    struct pfl_direct_admission admission;

    pfl_direct_admission_decide(&question, &admission);
    c->quota = admission.quota;
    if (admission.status == 0 && !audit(c, "connect", 0, NULL))
        pfl_direct_admission_refuse_unaudited(&admission);
    if (admission.status == 0)
        return forward(c, remote, admission.role);
    (void)audit(c, "refuse", admission.status, NULL);
    *ret_refusal = admission.refusal;
    return PFL_EPERM;
}

static struct direct_connection *make(struct pfl_direct *d, const struct pfl_direct_peer_conf *conf)
{
    struct direct_connection *c = pfl_mem_zalloc(sizeof(*c));

    if (c == NULL)
        return NULL;
    c->direct = d;
    c->identity = *conf->identity;
    c->start_ms = conf->start_ms;
    (void)snprintf(c->address, sizeof(c->address), "%s", conf->address);
    (void)snprintf(c->uri, sizeof(c->uri), "%s", conf->uri);
    c->on_ended = conf->on_ended;
    c->user = conf->user;
    return c;
}

int pfl_direct_take(struct pfl_direct *self, const struct pfl_direct_peer_conf *conf,
                    struct pfl_identity_refusal *ret_refusal)
{
    struct direct_connection *c = make(self, conf);
    const char *tls_version = pfl_tls_stream_get_version(conf->stream);
    int rc;

    *ret_refusal = (struct pfl_identity_refusal){"out of memory", "try again"};
    if (c == NULL)
        return PFL_ENOMEM;
    ret_refusal->reason = NULL;
    rc = admit(c, conf->stream, ret_refusal);
    if (rc != 0) {
        free_connection(c);
        return rc;
    }
    pfl_list_append(&self->connections, &c->node);
    self->ended.begun++;
    pfl_log_info("connection-started", "address=%s operator=%s tls=%s", c->address,
                 pfl_log_quote_str(c->uri), tls_version);
    return 0;
}

/* ---- the policy, and the end ---- */

static void review(struct direct_connection *c)
{
    struct pfl_direct_admission_conf question = question_of(c);
    struct pfl_direct_admission admission;

    pfl_direct_admission_review(&question, c->quota, &admission);
    if (admission.status != 0) {
        (void)audit(c, "forbid", admission.status, NULL);
        pfl_direct_proxy_close(c->proxy);
        return;
    }
    if (admission.quota != c->quota)
        pfl_direct_proxy_set_bucket(c->proxy, &admission.quota->bytes);
    c->quota = admission.quota;
    pfl_direct_proxy_set_role(c->proxy, admission.role);
}

void pfl_direct_set_policy(struct pfl_direct *self, const struct pfl_policy *policy)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    self->policy = policy;
    PFL_LIST_EACH_SAFE (it, tmp, &self->connections)
        review(connection_of(it));
}

void pfl_direct_drop(struct pfl_direct *self, const void *user)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->connections) {
        if (connection_of(it)->user == user)
            pfl_direct_proxy_close(connection_of(it)->proxy);
    }
}

void pfl_direct_close(struct pfl_direct *self)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->connections)
        pfl_direct_proxy_close(connection_of(it)->proxy);
}

void pfl_direct_add_traffic(const struct pfl_direct *self, struct pfl_traffic *traffic)
{
    struct pfl_direct_proxy_stats stats;
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->connections) {
        pfl_direct_proxy_get_stats(connection_of(it)->proxy, &stats);
        traffic->open++;
        traffic->bytes_to_host += stats.bytes_to_local;
        traffic->bytes_to_operator += stats.bytes_to_remote;
        pfl_traffic_add_queue(traffic, stats.queued_to_local);
        pfl_traffic_add_queue(traffic, stats.queued_to_remote);
    }
    traffic->begun += self->ended.begun;
    traffic->cut += self->ended.cut;
    traffic->bytes_to_host += self->ended.bytes_to_host;
    traffic->bytes_to_operator += self->ended.bytes_to_operator;
}

int pfl_direct_new(const struct pfl_direct_conf *conf, struct pfl_direct **ret_direct)
{
    struct pfl_direct *d = pfl_mem_zalloc(sizeof(*d));

    if (d == NULL)
        return PFL_ENOMEM;
    d->conf = *conf;
    (void)snprintf(d->host, sizeof(d->host), "%s", conf->host);
    pfl_list_init(&d->connections);
    *ret_direct = d;
    return 0;
}

void pfl_direct_free(struct pfl_direct *self)
{
    if (self == NULL)
        return;
    pfl_log_limit_flush(&self->judged_log, "request-refused");
    pfl_log_limit_flush(&self->unreachable_log, "consumer-socket-unreachable");
    pfl_mem_free(self);
}
