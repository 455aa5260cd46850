/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Direct mode: an operator's connection is forwarded to the consumer socket of this host.
 *
 * Happy path: the policy allows it, the operator's quota has room, the service is connected, and
 * bytes are forwarded (direct_proxy.h), through a gate if the operator has a role. Failures: each
 * ends that one connection with a log line with the reason and the remedy. Ownership: the
 * connection's; see tls_port.c.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io/fdsock.h"
#include "relay/accept/tls_port_impl.h"

static void audit(const struct pfl_tls_port_connection *c, const char *action, unsigned status,
                  const struct pfl_direct_proxy_stats *stats)
{
    struct pfl_identity identity = {0};
    struct pfl_audit_log_entry entry = {
        .who = identity.name,
        .address = c->address,
        .action = action,
        .host = c->port->name,
        .stream = "",
        .status = status,
        .bytes_to_host = stats != NULL ? stats->bytes_to_local : 0,
        .bytes_to_operator = stats != NULL ? stats->bytes_to_remote : 0,
    };

    if (pfl_identity_parse(c->uri, &identity) == 0)
        pfl_audit_log_write(c->port->audit, &entry);
}

static void on_forward_ended(void *user, const struct pfl_direct_proxy_stats *stats)
{
    struct pfl_tls_port_connection *c = user;
    uint64_t now_ms = uv_now(c->port->conf.loop);
    const char *words = stats->remote_words;

    pfl_log_info("connection-ended",
                 "address=%s operator=%s bytes_from_operator=%llu bytes_to_operator=%llu "
                 "duration_ms=%llu operator_side=%s service_side=\"%s\"%s",
                 c->address, pfl_log_quote_str(c->uri), (unsigned long long)stats->bytes_to_local,
                 (unsigned long long)stats->bytes_to_remote,
                 (unsigned long long)(now_ms - c->start_ms),
                 pfl_log_quote_reason(words[0] != '\0' ? words : pfl_err_str(stats->remote_err)),
                 pfl_err_str(stats->local_err), stats->is_idle_end ? " idle=yes" : "");
    c->port->ended.bytes_to_host += stats->bytes_to_local;
    c->port->ended.bytes_to_operator += stats->bytes_to_remote;
    c->port->ended.cut += stats->remote_err != 0 || stats->local_err != 0;
    audit(c, "end", 0, stats);
    if (c->quota != NULL)
        pfl_quota_close(c->quota);
    c->direct_proxy = NULL;
    pfl_tls_port_end_connection(c);
}

static void on_judged(void *user, enum pfl_method method, const char *why)
{
    struct pfl_tls_port_connection *c = user;

    if (why != NULL &&
        pfl_log_limit_take(&c->port->judged_log, "request-refused", uv_now(c->port->conf.loop)))
        pfl_log_warn("request-refused", "address=%s operator=%s method=%s reason=%s", c->address,
                     pfl_log_quote_str(c->uri), pfl_method_name(method), pfl_log_quote_str(why));
}

static const char *remedy_of_connect(int rc)
{
    switch (rc) {
    case PFL_ENOENT:
        return "start perfleetd, or give its socket with --consumer-socket";
    case PFL_ECLOSED:
        return "nobody listens there: start perfleetd again";
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

static void decide(const struct pfl_tls_port_connection *c,
                   struct pfl_policy_decision *ret_decision)
{
    struct pfl_identity identity = {0};
    struct pfl_policy_question question = {.operator_name = identity.name, .host = c->port->name};

    *ret_decision = (struct pfl_policy_decision){0};
    if (pfl_identity_parse(c->uri, &identity) == 0)
        pfl_policy_decide(c->port->policy, &question, ret_decision);
}

static bool has_too_many(const struct pfl_tls_port_connection *c)
{
    struct pfl_list *it;
    unsigned count = 0;

    PFL_LIST_EACH (it, &c->port->connections) {
        const struct pfl_tls_port_connection *other =
            PFL_CONTAINER_OF(it, struct pfl_tls_port_connection, node);

        count += other->direct_proxy != NULL && strcmp(other->uri, c->uri) == 0;
    }
    return count >= c->port->conf.max_per_operator;
}

/* False: refused, and logged. */
static bool is_permitted(struct pfl_tls_port_connection *c,
                         struct pfl_policy_decision *ret_decision)
{
    struct pfl_tls_port *p = c->port;
    struct pfl_identity identity = {0};
    uint64_t now_ms = uv_now(p->conf.loop);

    if (!pfl_tls_port_authorize(c, PFL_IDENTITY_OPERATOR))
        return false;
    if (has_too_many(c)) {
        audit(c, "refuse", 429, NULL);
        pfl_tls_port_log_refusal(c, "too many connections of this operator", "close some");
        return false;
    }
    decide(c, ret_decision);
    if (!ret_decision->is_allowed) {
        audit(c, "refuse", 403, NULL);
        pfl_tls_port_log_refusal(c, "no rule of the policy lets this operator use this host",
                                 "add one to the policy, then SIGHUP");
        return false;
    }
    if (ret_decision->rates.len == 0)
        return true;
    (void)!pfl_identity_parse(c->uri, &identity);
    c->quota = pfl_quotas_get(&p->quotas, identity.name, ret_decision->rates, now_ms);
    if (c->quota != NULL && pfl_quota_try_open(c->quota, true, now_ms))
        return true;
    c->quota = NULL;
    audit(c, "refuse", 429, NULL);
    pfl_tls_port_log_refusal(c, "this operator's role gives no more streams at the moment",
                             "close some, or wait");
    return false;
}

static int connect_service(struct pfl_tls_port_connection *c, int *ret_fd)
{
    struct pfl_tls_port *p = c->port;
    int rc = pfl_fdsock_connect_service(p->conf.consumer_socket, ret_fd);

    if (rc != 0 && pfl_log_limit_take(&p->unreachable_log, "consumer-socket-unreachable",
                                      uv_now(p->conf.loop)))
        pfl_log_error("consumer-socket-unreachable",
                      "socket=%s address=%s operator=%s reason=\"%s\" remedy=\"%s\"",
                      pfl_log_quote_str(p->conf.consumer_socket), c->address,
                      pfl_log_quote_str(c->uri), pfl_fdsock_get_service_why(),
                      remedy_of_connect(rc));
    return rc;
}

static int forward(struct pfl_tls_port_connection *c, const struct pfl_policy_decision *decision)
{
    struct pfl_direct_proxy_conf conf = {
        .loop = c->port->conf.loop,
        .remote = c->tls,
        .half_closed_timeout_ms = c->port->conf.half_closed_timeout_ms,
        .role = decision->role,
        .bucket = c->quota != NULL ? &c->quota->bytes : NULL,
        .on_judged = on_judged,
        .on_ended = on_forward_ended,
        .user = c,
    };
    int fd = -1;
    int rc = connect_service(c, &fd);

    if (rc != 0)
        return rc;
    rc = pfl_direct_proxy_new(&conf, fd, &c->direct_proxy);
    if (rc == 0) {
        c->port->ended.begun++;
        return 0;
    }
    pfl_log_error("forward-failed", "address=%s reason=\"%s\"", c->address, pfl_err_str(rc));
    close(fd);
    return rc;
}

void pfl_direct_port_open(struct pfl_tls_port_connection *c)
{
    struct pfl_policy_decision decision;

    if (c->port->hub != NULL && !c->port->conf.is_socket_given) {
        pfl_tls_port_log_refusal(c, "this meeting point has no consumer socket of its own",
                                 "use the tunnel (ALPN h2), or start it with --consumer-socket");
        pfl_tls_port_refuse(c);
        return;
    }
    if (!is_permitted(c, &decision) || forward(c, &decision) != 0) {
        if (c->quota != NULL)
            pfl_quota_close(c->quota);
        c->quota = NULL;
        pfl_tls_port_refuse(c);
        return;
    }
    pfl_log_info("connection-started", "address=%s operator=%s tls=%s", c->address,
                 pfl_log_quote_str(c->uri), pfl_tls_stream_get_version(c->tls));
    c->tls = NULL;
    audit(c, "connect", 0, NULL);
}

/* Of the role as it is now, or of another. */
static void take_rates(struct pfl_tls_port_connection *c, struct pfl_span role)
{
    struct pfl_tls_port *p = c->port;
    struct pfl_quota *quota;

    if (c->quota == NULL || role.len == 0)
        return;
    quota = pfl_quotas_get(&p->quotas, c->quota->operator_name, role, uv_now(p->conf.loop));
    if (quota == NULL || quota == c->quota)
        return;
    quota->streams++;
    pfl_quota_close(c->quota);
    c->quota = quota;
    pfl_direct_proxy_set_bucket(c->direct_proxy, &quota->bytes);
}

void pfl_direct_port_review(struct pfl_tls_port_connection *c)
{
    struct pfl_policy_decision decision;

    decide(c, &decision);
    if (decision.is_allowed) {
        take_rates(c, decision.rates);
        pfl_direct_proxy_set_role(c->direct_proxy, decision.role);
        return;
    }
    audit(c, "forbid", 403, NULL);
    pfl_direct_proxy_close(c->direct_proxy);
}
