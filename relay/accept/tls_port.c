/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TLS port: see tls_port.h. It has the sockets and the log; connection_table.h and relay_role.h
 * decide.
 *
 * Happy path: accept -> TLS handshake (both sides show certificates) -> the table admits the peer
 * -> the hub or direct mode takes it. Failures: each ends that one connection with a log line with
 * the peer, the reason and the remedy. Ownership: owns the listener, the TLS conf, the
 * takers and its connections; a connection owns its TLS stream until one of the two takes it. Freed
 * when the listener and the last connection are gone. Limits: max_connections, unfinished
 * handshakes (base/io/handshake_queue.h), handshake_timeout_ms; refusals in the log (log.h).
 */
#include "relay/accept/tls_port.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/mem.h"
#include "proto/tunnel/tunnel.h"
#include "relay/accept/certificates_port.h"
#include "relay/accept/tls_port_impl.h"
#include "relay/accept/tls_server_stream_port.h"

#define REFUSAL_TIMEOUT_MS 500u

/* The best first, for peers that offer several. */
static const char *const alpn[] = {PFL_TUNNEL_ALPN_AGENT, PFL_TUNNEL_ALPN_COLLECTOR,
                                   PFL_TUNNEL_ALPN_OPERATOR, PFL_TUNNEL_ALPN_RAW, NULL};

struct connection {
    struct pfl_accepted_connection accepted; /* in the table */
    struct pfl_tls_port *port;               /* borrowed: outlives us */
    struct pfl_listener *listener;           /* borrowed: lives until we release it */
    struct pfl_stream *tls;                  /* owned; NULL: taken */
    uint64_t start_ms;
    int err;                          /* how its TLS stream ended; 0: not yet */
    struct pfl_tls_identity identity; /* once it is taken */
};

static struct connection *connection_of(const struct pfl_accepted_connection *accepted)
{
    return PFL_CONTAINER_OF(accepted, struct connection, accepted);
}

/* Valid until the connection is taken, or ends. */
static const struct pfl_tls_identity *identity_of(const struct connection *c)
{
    return c->tls != NULL ? pfl_tls_stream_get_identity(c->tls) : &c->identity;
}

/* ---- the end of a connection ---- */

static void free_port(struct pfl_tls_port *p)
{
    pfl_takers_fini(&p->takers);
    pfl_tls_conf_unref(p->tls);
    pfl_mem_free(p);
}

static void finish_if_gone(struct pfl_tls_port *p)
{
    if (p->listener != NULL || p->connections.count != 0)
        return;
    pfl_log_limit_flush(&p->refused_log, "peer-refused");
    pfl_log_limit_flush(&p->failed_log, "accept-failed");
    p->conf.on_closed(p->conf.user);
    free_port(p);
}

static void end_connection(struct connection *c)
{
    struct pfl_tls_port *p = c->port;

    pfl_connection_table_remove(&p->connections, &c->accepted);
    pfl_listener_release(c->listener);
    pfl_mem_free(c);
    finish_if_gone(p);
}

static void on_taker_ended(void *user)
{
    end_connection(user);
}

/* ---- what the table needs: accept_shell.h ---- */

static bool is_revoked(void *user, const struct pfl_accepted_connection *connection)
{
    const struct pfl_tls_port *p = user;

    return pfl_tls_conf_is_revoked(p->tls, identity_of(connection_of(connection)));
}

static int give(void *user, struct pfl_accepted_connection *connection,
                const struct pfl_peer_admission *admission, struct pfl_identity_refusal *ret_why)
{
    struct pfl_tls_port *p = user;
    struct connection *c = connection_of(connection);
    struct pfl_takers_peer peer = {.stream = c->tls,
                                   .admission = admission,
                                   .uri = c->identity.uri,
                                   .address = connection->address,
                                   .start_ms = c->start_ms,
                                   .on_ended = on_taker_ended,
                                   .user = c};
    int rc;

    c->identity = *pfl_tls_stream_get_identity(c->tls);
    rc = pfl_takers_give(&p->takers, &peer, ret_why);
    if (rc == 0)
        c->tls = NULL;
    return rc;
}

static void drop(void *user, struct pfl_accepted_connection *connection)
{
    struct pfl_tls_port *p = user;

    pfl_takers_drop(&p->takers,
                    connection->state == PFL_ACCEPTED_IN_HUB ? PFL_PEER_TAKER_HUB
                                                             : PFL_PEER_TAKER_DIRECT,
                    connection_of(connection));
}

static const char *reason_of_end(const struct connection *c)
{
    const char *words = pfl_tls_stream_get_error(c->tls);
    int saved_errno = pfl_stream_get_errno(c->tls);

    if (words[0] != '\0')
        return words;
    return saved_errno != 0 ? strerror(saved_errno) : pfl_err_str(c->err);
}

static void log_refusal(struct pfl_tls_port *p, const struct pfl_accept_report *r)
{
    const struct connection *c = connection_of(r->connection);
    const struct pfl_tls_identity *id = identity_of(c);

    if (!pfl_log_limit_take(&p->refused_log, "peer-refused", uv_now(p->conf.loop)))
        return;
    if (r->event == PFL_ACCEPT_PEER_REFUSED)
        pfl_log_warn("peer-refused", "address=%s subject=%s uri=%s reason=\"%s\" remedy=\"%s\"",
                     r->connection->address, pfl_log_quote_str(id->subject),
                     pfl_log_quote_str(id->uri), r->why.reason, r->why.remedy);
    else
        pfl_log_warn("peer-refused", "address=%s subject=%s uri=%s reason=\"%s\"",
                     r->connection->address, pfl_log_quote_str(id->subject),
                     pfl_log_quote_str(id->uri), reason_of_end(c));
}

static void report(void *user, const struct pfl_accept_report *r)
{
    if (r->event != PFL_ACCEPT_PEER_DROPPED) {
        log_refusal(user, r);
        return;
    }
    pfl_log_warn("peer-dropped", "address=%s uri=%s reason=\"%s\"", r->connection->address,
                 pfl_log_quote_str(identity_of(connection_of(r->connection))->uri), r->why.reason);
}

/* ---- the handshake ---- */

static void on_tls_data(void *user, struct pfl_span data)
{
    (void)user;
    (void)data; /* after a refusal: what the peer still says does not matter */
}

static void on_tls_closed(void *user, int err)
{
    struct connection *c = user;

    c->err = err;
    pfl_connection_table_fail(&c->port->connections, &c->accepted);
    c->tls = NULL;
    end_connection(c);
}

static void on_tls_ready(void *user)
{
    struct connection *c = user;
    struct pfl_handshake_result result = {
        .alpn = pfl_tls_stream_get_alpn(c->tls),
        .tls_version = pfl_tls_stream_get_version(c->tls),
        .uri_untrusted = pfl_tls_stream_get_identity(c->tls)->uri,
    };

    if (!pfl_connection_table_admit(&c->port->connections, &c->accepted, &result))
        pfl_stream_close_after_flush(c->tls, REFUSAL_TIMEOUT_MS);
}

static const struct pfl_stream_ops tls_ops = {
    .on_data = on_tls_data,
    .on_ready = on_tls_ready,
    .on_closed = on_tls_closed,
};

/* ---- accepting ---- */

static void on_accept(void *user, int fd)
{
    struct pfl_tls_port *p = user;
    struct connection *c = pfl_mem_zalloc(sizeof(*c));
    struct pfl_tls_server_stream_conf conf = {.loop = p->conf.loop,
                                              .tls = p->tls,
                                              .timeout_ms = p->conf.handshake_timeout_ms,
                                              .handshakes = p->conf.handshakes,
                                              .ops = &tls_ops,
                                              .user = c};
    struct pfl_tls_server_stream_peer caller;
    int rc = PFL_ENOMEM;

    if (c != NULL)
        rc = pfl_tls_server_stream_open(&conf, fd, &c->tls);
    if (rc != 0) {
        pfl_connection_table_count_unopened(&p->connections);
        if (rc != PFL_EAGAIN &&
            pfl_log_limit_take(&p->failed_log, "accept-failed", uv_now(p->conf.loop)))
            pfl_log_error("accept-failed", "reason=\"%s\"", pfl_err_str(rc));
        pfl_mem_free(c);
        close(fd);
        pfl_listener_release(p->listener);
        return;
    }
    pfl_tls_server_stream_get_peer(fd, &caller);
    memcpy(c->accepted.address, caller.address, sizeof(c->accepted.address));
    c->port = p;
    c->listener = p->listener;
    c->start_ms = uv_now(p->conf.loop);
    pfl_connection_table_add(&p->connections, &c->accepted);
}

static void on_listener_closed(void *user)
{
    struct pfl_tls_port *p = user;

    p->listener = NULL;
    finish_if_gone(p);
}

/* ---- opening, reloading, closing ---- */

static void tell_ends(const struct pfl_tls_port *p)
{
    if (p->takers.hub != NULL)
        pfl_hub_set_ends(p->takers.hub, pfl_tls_conf_get_identity(p->tls)->not_after_s,
                         p->conf.files.crl_path != NULL ? pfl_tls_conf_get_crl_end(p->tls) : 0);
}

static int decide_role(struct pfl_tls_port *p)
{
    const char *own_uri = pfl_tls_conf_get_identity(p->tls)->uri;
    struct pfl_relay_role_conf conf = {
        .own_uri = own_uri, .fleet = p->conf.fleet, .is_socket_given = p->conf.is_socket_given};
    int rc = pfl_relay_role_decide(&conf, &p->role);

    if (rc != 0)
        pfl_log_error("fleet-unknown",
                      "reason=\"the certificate has no name perfleet://FLEET/host/NAME\" uri=%s "
                      "remedy=\"give --fleet, or a certificate of perfleet pki host\"",
                      pfl_log_quote_str(own_uri));
    return rc;
}

/* Direct mode has a second descriptor for each connection: the consumer socket's. */
static void fit_file_limit(struct pfl_tls_port *p)
{
    rlim_t of_one = p->role.has_direct ? 2 : 1;
    struct rlimit lim;

    if (getrlimit(RLIMIT_NOFILE, &lim) != 0 || lim.rlim_cur < PFL_TLS_PORT_SPARE_FDS + of_one ||
        (lim.rlim_cur - PFL_TLS_PORT_SPARE_FDS) / of_one >= p->conf.max_connections)
        return;
    p->conf.max_connections = (unsigned)((lim.rlim_cur - PFL_TLS_PORT_SPARE_FDS) / of_one);
    pfl_log_warn("file-limit", "max_connections=%u is what %llu open files allow",
                 p->conf.max_connections, (unsigned long long)lim.rlim_cur);
}

static void init_table(struct pfl_tls_port *p)
{
    struct pfl_connection_table_conf conf = {.shell = &p->shell,
                                             .fleet = p->role.fleet,
                                             .has_hub = p->role.has_hub,
                                             .has_direct = p->role.has_direct};

    p->shell = (struct pfl_accept_shell){
        .is_revoked = is_revoked, .give = give, .drop = drop, .report = report, .user = p};
    pfl_connection_table_init(&p->connections, &conf);
}

int pfl_tls_port_open(const struct pfl_tls_port_conf *conf, struct pfl_tls_port **ret_port)
{
    struct pfl_tls_port *p = pfl_mem_zalloc(sizeof(*p));
    struct pfl_listener_conf listener = {
        .loop = conf->loop,
        .address = conf->listen_address,
        .inherited_fd = conf->inherited_fd,
        .is_tcp = true,
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
    pfl_takers_init(&p->takers);
    rc = pfl_certificates_load(&p->conf.files, &p->tls);
    if (rc == 0)
        rc = decide_role(p);
    if (rc == 0)
        rc = pfl_takers_open(&p->takers, &p->conf, &p->role);
    if (rc == 0) {
        init_table(p);
        fit_file_limit(p);
        listener.max_connections = p->conf.max_connections;
        rc = pfl_listener_open(&listener, &p->listener);
    }
    if (rc != 0) {
        free_port(p);
        return rc;
    }
    tell_ends(p);
    *ret_port = p;
    return 0;
}

void pfl_tls_port_reload(struct pfl_tls_port *self)
{
    struct pfl_tls_conf *fresh = NULL;

    pfl_takers_reload_policy(&self->takers);
    if (pfl_certificates_load(&self->conf.files, &fresh) != 0) {
        pfl_log_error("reload-failed", "the old certificates stay in use");
        return;
    }
    pfl_tls_conf_unref(self->tls);
    self->tls = fresh;
    tell_ends(self);
    pfl_audit_log_reopen(self->takers.audit);
    pfl_connection_table_drop_revoked(&self->connections);
    pfl_log_info("reloaded", "certificate=%s",
                 pfl_log_quote_str(pfl_tls_conf_get_identity(fresh)->uri));
}

void pfl_tls_port_forget_old(struct pfl_tls_port *self)
{
    if (self->takers.hub != NULL)
        pfl_hub_forget_old(self->takers.hub);
}

void pfl_tls_port_run_polls(struct pfl_tls_port *self)
{
    if (self->takers.hub != NULL)
        pfl_hub_run_polls(self->takers.hub);
}

void pfl_tls_port_drain(struct pfl_tls_port *self)
{
    if (!pfl_connection_table_drain(&self->connections))
        return;
    pfl_listener_close(self->listener);
    pfl_takers_drain(&self->takers);
}

void pfl_tls_port_close(struct pfl_tls_port *self)
{
    struct pfl_list *it;

    pfl_tls_port_drain(self);
    PFL_LIST_EACH (it, &self->connections.connections) {
        const struct pfl_accepted_connection *connection =
            PFL_CONTAINER_OF(it, struct pfl_accepted_connection, node);

        if (pfl_connection_table_is_ours(connection))
            pfl_stream_close(connection_of(connection)->tls);
    }
    pfl_takers_close(&self->takers);
}

uint16_t pfl_tls_port_get_number(const struct pfl_tls_port *self)
{
    return pfl_listener_get_port(self->listener);
}

unsigned pfl_tls_port_count_connections(const struct pfl_tls_port *self)
{
    return self->connections.count;
}
