/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TLS port: see port.h.
 *
 * Happy path: accept -> TLS handshake (both sides show certificates) -> ALPN says which kind -> the
 * peer's URI name is an operator's (an agent's: a host's) of our fleet -> the hub takes it, or
 * connect to the consumer socket and forward until both sides are done. Failures: each ends that
 * one connection with a log line that names who, why and the remedy. Ownership: owns the listener,
 * the TLS conf and its connections; a connection owns its TLS stream until a forward or the hub
 * takes it. Freed when the listener and the last connection are gone. Limits: max_connections, of
 * which at most half are without a certificate so far (handshakes.h), handshake_timeout_ms, the
 * forward's queues; refusals in the log (log.h).
 */
#include "relay/port.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/io/fdsock.h"
#include "base/io/listener.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "proto/identity.h"
#include "proto/tunnel.h"
#include "relay/forward.h"
#include "relay/handshakes.h"
#include "relay/hub_port.h"
#include "relay/policy_port.h"

#define REFUSAL_TIMEOUT_MS 500u
#define SECONDS_PER_DAY    86400

/* The best first, for peers that offer several. */
static const char *const alpn[] = {PFL_TUNNEL_ALPN_AGENT, PFL_TUNNEL_ALPN_OPERATOR,
                                   PFL_TUNNEL_ALPN_RAW, NULL};

struct pfl_port {
    struct pfl_port_conf conf;
    struct pfl_hub *hub;           /* owned; NULL: not a meeting point */
    struct pfl_audit *audit;       /* owned */
    struct pfl_tls_conf *tls;      /* a counted reference */
    struct pfl_listener *listener; /* owned; NULL once closed */
    struct pfl_list connections;   /* owned */
    unsigned count;
    struct pfl_handshakes handshakes; /* those of the connections that are not ready yet */
    struct pfl_log_limit refused_log;
    struct pfl_log_limit unreachable_log;
    struct pfl_log_limit failed_log;
    char fleet[PFL_IDENTITY_NAME_BYTES];
    bool is_draining;
};

struct connection {
    struct pfl_list node;
    struct pfl_port *port;
    struct pfl_listener *listener;  /* borrowed: lives until we release it */
    struct pfl_stream *tls;         /* owned until `forward` is made */
    struct pfl_forward *forward;    /* owned until its on_ended */
    struct pfl_handshake handshake; /* in the port's list until ready */
    uint64_t start_ms;
    bool is_refused; /* logged already */
    bool is_peer;    /* the hub's */
    bool is_ousted;  /* gave way to a newer handshake */
    char address[80];
    char uri[256];
    struct pfl_tls_identity identity; /* once it is let in */
};

/* ---- the end of a connection ---- */

static void free_port(struct pfl_port *p)
{
    pfl_hub_free(p->hub);
    pfl_audit_close(p->audit);
    pfl_tls_conf_unref(p->tls);
    pfl_mem_free(p);
}

static void finish_if_gone(struct pfl_port *p)
{
    if (p->listener != NULL || !pfl_list_is_empty(&p->connections))
        return;
    pfl_log_limit_flush(&p->refused_log, "peer-refused");
    pfl_log_limit_flush(&p->unreachable_log, "consumer-socket-unreachable");
    pfl_log_limit_flush(&p->failed_log, "accept-failed");
    p->conf.on_closed(p->conf.user);
    free_port(p);
}

static void free_connection(struct connection *c)
{
    struct pfl_port *p = c->port;

    pfl_list_remove(&c->node);
    pfl_handshakes_remove(&p->handshakes, &c->handshake);
    p->count--;
    pfl_listener_release(c->listener);
    pfl_mem_free(c);
    finish_if_gone(p);
}

static const char *reason_of(int err, int saved_errno)
{
    return saved_errno != 0 ? strerror(saved_errno) : pfl_err_str(err);
}

static void on_forward_ended(void *user, const struct pfl_forward_stats *stats)
{
    struct connection *c = user;
    uint64_t now_ms = uv_now(c->port->conf.loop);

    pfl_log_info("connection-ended",
                 "address=%s operator=%s bytes_from_operator=%llu bytes_to_operator=%llu "
                 "duration_ms=%llu operator_side=\"%s\" service_side=\"%s\"%s",
                 c->address, pfl_log_quote_str(c->uri), (unsigned long long)stats->bytes_to_local,
                 (unsigned long long)stats->bytes_to_remote,
                 (unsigned long long)(now_ms - c->start_ms), pfl_err_str(stats->remote_err),
                 pfl_err_str(stats->local_err), stats->is_idle_end ? " idle=yes" : "");
    c->forward = NULL;
    free_connection(c);
}

/* ---- before the forward: the handshake ---- */

static void on_tls_data(void *user, struct pfl_span data)
{
    (void)user;
    (void)data; /* after a refusal: what the peer still says does not matter */
}

static bool may_log_refusal(struct pfl_port *p)
{
    return pfl_log_limit_take(&p->refused_log, "peer-refused", uv_now(p->conf.loop));
}

static const char *reason_of_end(const struct connection *c, int err)
{
    const char *words = pfl_tls_stream_get_error(c->tls);

    if (words[0] == '\0' && c->is_ousted)
        return "the TLS handshake gave way to a newer one: too many are unfinished";
    return words[0] != '\0' ? words : reason_of(err, pfl_stream_get_errno(c->tls));
}

static void on_tls_closed(void *user, int err)
{
    struct connection *c = user;
    const struct pfl_tls_identity *id = pfl_tls_stream_get_identity(c->tls);

    if (!c->is_refused && !c->port->is_draining && may_log_refusal(c->port))
        pfl_log_warn("peer-refused", "address=%s subject=%s uri=%s reason=\"%s\"", c->address,
                     pfl_log_quote_str(id->subject), pfl_log_quote_str(id->uri),
                     reason_of_end(c, err));
    c->tls = NULL;
    free_connection(c);
}

static void refuse(struct connection *c)
{
    c->is_refused = true;
    pfl_stream_close_after_flush(c->tls, REFUSAL_TIMEOUT_MS);
}

static void log_refusal(struct connection *c, const char *reason, const char *remedy)
{
    const struct pfl_tls_identity *id = pfl_tls_stream_get_identity(c->tls);

    if (may_log_refusal(c->port))
        pfl_log_warn("peer-refused", "address=%s subject=%s uri=%s reason=\"%s\" remedy=\"%s\"",
                     c->address, pfl_log_quote_str(id->subject), pfl_log_quote_str(id->uri), reason,
                     remedy);
}

static bool is_allowed(struct connection *c, enum pfl_identity_role role)
{
    const struct pfl_tls_identity *id = pfl_tls_stream_get_identity(c->tls);
    struct pfl_identity_refusal why;

    if (pfl_identity_authorize(id->uri, c->port->fleet, role, &why) == 0) {
        (void)snprintf(c->uri, sizeof(c->uri), "%s", id->uri);
        c->identity = *id;
        return true;
    }
    log_refusal(c, why.reason, why.remedy);
    return false;
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
    case PFL_EAGAIN:
        return "the service accepts too slowly: try again";
    default:
        return "see the reason";
    }
}

static void on_peer_ended(void *user)
{
    free_connection(user);
}

/* False: refused. */
static bool hand_to_hub(struct connection *c, enum pfl_identity_role role)
{
    struct pfl_identity identity;
    struct pfl_peer_conf conf = {
        .stream = c->tls,
        .identity = &identity,
        .address = c->address,
        .on_ended = on_peer_ended,
        .user = c,
    };

    if (c->port->hub == NULL) {
        log_refusal(c, "this relay is no meeting point",
                    "give it a relay certificate: perfleet-pki relay DIR NAME");
        return false;
    }
    if (!is_allowed(c, role) || pfl_identity_parse(c->uri, &identity) != 0)
        return false;
    c->is_peer = true;
    if (pfl_hub_take(c->port->hub, &conf) == 0) {
        c->tls = NULL;
        return true;
    }
    c->is_peer = false;
    log_refusal(c, "too many connections of this operator, or out of memory", "close some");
    return false;
}

static void forward_raw(struct connection *c)
{
    struct pfl_port *p = c->port;
    struct pfl_forward_conf conf = {
        .loop = p->conf.loop,
        .remote = c->tls,
        .half_closed_timeout_ms = p->conf.half_closed_timeout_ms,
        .on_ended = on_forward_ended,
        .user = c,
    };
    int saved_errno;
    int fd = -1;
    int rc;

    if (p->hub != NULL && !p->conf.is_socket_given) {
        log_refusal(c, "this meeting point has no consumer socket of its own",
                    "use the tunnel (ALPN h2), or start it with --consumer-socket");
        refuse(c);
        return;
    }
    if (!is_allowed(c, PFL_IDENTITY_OPERATOR)) {
        refuse(c);
        return;
    }
    rc = pfl_fdsock_connect_unix(p->conf.consumer_socket, &fd);
    if (rc != 0) {
        saved_errno = errno;
        if (pfl_log_limit_take(&p->unreachable_log, "consumer-socket-unreachable",
                               uv_now(p->conf.loop)))
            pfl_log_error("consumer-socket-unreachable",
                          "socket=%s address=%s operator=%s reason=\"%s\" remedy=\"%s\"",
                          pfl_log_quote_str(p->conf.consumer_socket), c->address,
                          pfl_log_quote_str(c->uri), strerror(saved_errno), remedy_of_connect(rc));
        refuse(c);
        return;
    }
    rc = pfl_forward_new(&conf, fd, &c->forward);
    if (rc != 0) {
        pfl_log_error("forward-failed", "address=%s reason=\"%s\"", c->address, pfl_err_str(rc));
        close(fd);
        refuse(c);
        return;
    }
    c->tls = NULL;
    pfl_log_info("connection-started", "address=%s operator=%s", c->address,
                 pfl_log_quote_str(c->uri));
}

static void on_tls_ready(void *user)
{
    struct connection *c = user;
    const char *protocol = pfl_tls_stream_get_alpn(c->tls);

    pfl_handshakes_remove(&c->port->handshakes, &c->handshake);
    if (protocol == NULL || strcmp(protocol, PFL_TUNNEL_ALPN_RAW) == 0)
        forward_raw(c);
    else if (!hand_to_hub(c, strcmp(protocol, PFL_TUNNEL_ALPN_AGENT) == 0 ? PFL_IDENTITY_HOST
                                                                          : PFL_IDENTITY_OPERATOR))
        refuse(c);
}

static const struct pfl_stream_ops tls_ops = {
    .on_data = on_tls_data,
    .on_ready = on_tls_ready,
    .on_closed = on_tls_closed,
};

/* ---- accepting ---- */

static void tell_address(int fd, struct sockaddr_storage *ret_peer, char *dst, size_t room)
{
    socklen_t len = sizeof(*ret_peer);
    char host[64];
    char port[8];

    if (getpeername(fd, (struct sockaddr *)ret_peer, &len) != 0 ||
        getnameinfo((struct sockaddr *)ret_peer, len, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        (void)snprintf(dst, room, "unknown");
    else
        (void)snprintf(dst, room, strchr(host, ':') != NULL ? "[%s]:%s" : "%s:%s", host, port);
}

/* Those who only hold a place make room for those who come to stay. */
static void limit_handshakes(struct connection *c, const struct sockaddr_storage *peer)
{
    struct pfl_handshake *goes = pfl_handshakes_add(&c->port->handshakes, &c->handshake, peer);
    struct connection *ousted;

    if (goes == NULL)
        return;
    ousted = PFL_CONTAINER_OF(goes, struct connection, handshake);
    ousted->is_ousted = true;
    pfl_stream_close(ousted->tls);
}

static void on_accept(void *user, int fd)
{
    struct pfl_port *p = user;
    struct connection *c = pfl_mem_zalloc(sizeof(*c));
    struct pfl_stream_conf conf = {
        .loop = p->conf.loop,
        .ops = &tls_ops,
        .user = c,
        .queue_max_bytes = PFL_FORWARD_QUEUE_BYTES,
        .queue_low_bytes = PFL_FORWARD_LOW_BYTES,
    };
    struct pfl_tls_handshake handshake = {.conf = p->tls,
                                          .timeout_ms = p->conf.handshake_timeout_ms};
    struct sockaddr_storage peer = {0};
    int rc = PFL_ENOMEM;

    if (c != NULL) {
        tell_address(fd, &peer, c->address, sizeof(c->address));
        rc = pfl_tls_stream_open(&conf, &handshake, fd, &c->tls);
    }
    if (rc != 0) {
        if (pfl_log_limit_take(&p->failed_log, "accept-failed", uv_now(p->conf.loop)))
            pfl_log_error("accept-failed", "reason=\"%s\"", pfl_err_str(rc));
        pfl_mem_free(c);
        close(fd);
        pfl_listener_release(p->listener);
        return;
    }
    c->port = p;
    c->listener = p->listener;
    c->start_ms = uv_now(p->conf.loop);
    p->count++;
    pfl_list_append(&p->connections, &c->node);
    limit_handshakes(c, &peer);
}

static void on_listener_closed(void *user)
{
    struct pfl_port *p = user;

    p->listener = NULL;
    finish_if_gone(p);
}

/* ---- opening, reloading, closing ---- */

/* What ends, when, and how to renew it. */
static void tell_end(const char *what, const char *file, int64_t end_s, const char *remedy)
{
    uv_timeval64_t now;
    int64_t left_s;
    char event[64];

    (void)uv_gettimeofday(&now);
    if (end_s - now.tv_sec >= 14 * SECONDS_PER_DAY)
        return;
    left_s = end_s - now.tv_sec;
    (void)snprintf(event, sizeof(event), left_s < 0 ? "%s-expired" : "%s-expires-soon", what);
    pfl_log(left_s < 0 ? PFL_LOG_ERROR : PFL_LOG_WARN, event, "file=%s days=%lld remedy=\"%s\"",
            pfl_log_quote_str(file), (long long)(left_s / SECONDS_PER_DAY), remedy);
}

static int load_tls(const struct pfl_tls_files *files, struct pfl_tls_conf **ret_tls)
{
    char why[320];
    int rc = pfl_tls_conf_new(files, why, sizeof(why), ret_tls);

    if (rc != 0) {
        pfl_log_error("certificates-unusable", "reason=%s", pfl_log_quote_str(why));
        return rc;
    }
    tell_end("certificate", files->cert_path, pfl_tls_conf_get_identity(*ret_tls)->not_after_s,
             "issue it again: perfleet-pki host DIR NAME --force");
    if (files->crl_path != NULL)
        tell_end("crl", files->crl_path, pfl_tls_conf_get_crl_end(*ret_tls),
                 "renew it, else nobody is let in: perfleet-pki crl DIR, then SIGHUP");
    return 0;
}

/* Whose operators may come; and with a relay's certificate this is a meeting point. */
static int choose_role(struct pfl_port *p)
{
    const struct pfl_tls_identity *own = pfl_tls_conf_get_identity(p->tls);
    struct pfl_identity id = {.role = PFL_IDENTITY_HOST};
    struct pfl_hub_conf hub = {.loop = p->conf.loop, .relay = id.name, .fleet = p->fleet};
    bool is_named = pfl_identity_parse(own->uri, &id) == 0;
    struct pfl_policy *policy = NULL;
    int rc;

    if (!is_named && p->conf.fleet == NULL) {
        pfl_log_error("fleet-unknown",
                      "reason=\"the certificate has no name perfleet://FLEET/host/NAME\" uri=%s "
                      "remedy=\"give --fleet, or a certificate of perfleet-pki host\"",
                      pfl_log_quote_str(own->uri));
        return PFL_EINVAL;
    }
    (void)snprintf(p->fleet, sizeof(p->fleet), "%s",
                   p->conf.fleet != NULL ? p->conf.fleet : id.fleet);
    if (id.role != PFL_IDENTITY_RELAY)
        return 0;
    hub.audit = p->audit;
    rc = pfl_policy_load(p->conf.policy_path, &policy);
    if (rc == 0)
        rc = pfl_hub_new(&hub, &p->hub);
    if (rc == 0)
        pfl_hub_set_policy(p->hub, policy);
    else
        pfl_policy_free(policy);
    return rc;
}

int pfl_port_open(const struct pfl_port_conf *conf, struct pfl_port **ret_port)
{
    struct pfl_port *p = pfl_mem_zalloc(sizeof(*p));
    struct pfl_listener_conf listener = {
        .loop = conf->loop,
        .address = conf->listen_address,
        .inherited_fd = conf->inherited_fd,
        .is_tcp = true,
        .max_connections = conf->max_connections,
        .mode = -1,
        .on_accept = on_accept,
        .on_closed = on_listener_closed,
        .user = p,
    };
    int rc;

    if (p == NULL)
        return PFL_ENOMEM;
    p->conf = *conf;
    p->conf.files.alpn = alpn;
    pfl_list_init(&p->connections);
    pfl_handshakes_init(&p->handshakes, conf->max_connections > 1 ? conf->max_connections / 2 : 1);
    rc = load_tls(&p->conf.files, &p->tls);
    if (rc == 0)
        rc = pfl_audit_open(conf->audit_path, &p->audit);
    if (rc == 0)
        rc = choose_role(p);
    if (rc == 0)
        rc = pfl_listener_open(&listener, &p->listener);
    if (rc != 0) {
        free_port(p);
        return rc;
    }
    *ret_port = p;
    return 0;
}

/* Who was let in, and is revoked by now, goes. */
static void drop_revoked(struct pfl_port *p)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &p->connections) {
        struct connection *c = PFL_CONTAINER_OF(it, struct connection, node);

        if (!pfl_tls_conf_is_revoked(p->tls, &c->identity))
            continue;
        pfl_log_warn("peer-dropped", "address=%s uri=%s reason=\"its certificate was revoked\"",
                     c->address, pfl_log_quote_str(c->uri));
        if (c->forward != NULL)
            pfl_forward_close(c->forward);
        else if (c->is_peer)
            pfl_hub_drop(p->hub, c);
    }
}

void pfl_port_reload(struct pfl_port *self)
{
    struct pfl_tls_conf *fresh = NULL;
    struct pfl_policy *policy = NULL;

    if (self->hub != NULL && pfl_policy_load(self->conf.policy_path, &policy) == 0)
        pfl_hub_set_policy(self->hub, policy);
    if (load_tls(&self->conf.files, &fresh) != 0) {
        pfl_log_error("reload-failed", "the old certificates stay in use");
        return;
    }
    pfl_tls_conf_unref(self->tls);
    self->tls = fresh;
    pfl_audit_reopen(self->audit);
    drop_revoked(self);
    pfl_log_info("reloaded", "certificate=%s",
                 pfl_log_quote_str(pfl_tls_conf_get_identity(fresh)->uri));
}

void pfl_port_drain(struct pfl_port *self)
{
    if (self->is_draining)
        return;
    self->is_draining = true;
    pfl_listener_close(self->listener);
    if (self->hub != NULL)
        pfl_hub_drain(self->hub);
}

void pfl_port_close(struct pfl_port *self)
{
    struct pfl_list *it;

    pfl_port_drain(self);
    PFL_LIST_EACH (it, &self->connections) {
        struct connection *c = PFL_CONTAINER_OF(it, struct connection, node);

        if (c->forward != NULL)
            pfl_forward_close(c->forward);
        else if (c->tls != NULL)
            pfl_stream_close(c->tls);
    }
    if (self->hub != NULL)
        pfl_hub_close(self->hub);
}

uint16_t pfl_port_get_number(const struct pfl_port *self)
{
    return pfl_listener_get_port(self->listener);
}

unsigned pfl_port_count_connections(const struct pfl_port *self)
{
    return self->count;
}
