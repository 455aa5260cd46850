/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TLS port: see tls_port.h.
 *
 * Happy path: accept -> TLS handshake (both sides show certificates) -> ALPN selects the kind ->
 * the peer's URI name is an operator's (an agent's: a host's) of our fleet -> the hub or direct
 * mode takes it. Failures: each ends that one connection with a log line with the peer, the reason
 * and the remedy. Ownership: owns the listener, the TLS conf, the hub, direct mode and its
 * connections; a connection owns its TLS stream until one of the two takes it. Freed when the
 * listener and the last connection are gone. Limits: max_connections, unfinished handshakes
 * (base/io/handshake_queue.h), handshake_timeout_ms; refusals in the log (log.h).
 */
#include "relay/accept/tls_port.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "proto/tunnel/identity.h"
#include "proto/tunnel/tunnel.h"
#include "relay/accept/tls_accept_port.h"
#include "relay/accept/tls_port_impl.h"
#include "relay/policy/policy_file_port.h"

#define REFUSAL_TIMEOUT_MS 500u
#define SECONDS_PER_DAY    86400

/* The best first, for peers that offer several. */
static const char *const alpn[] = {PFL_TUNNEL_ALPN_AGENT, PFL_TUNNEL_ALPN_OPERATOR,
                                   PFL_TUNNEL_ALPN_RAW, NULL};

/* ---- the end of a connection ---- */

static void free_port(struct pfl_tls_port *p)
{
    pfl_hub_free(p->hub);
    pfl_direct_free(p->direct);
    pfl_policy_free(p->policy);
    pfl_quotas_fini(&p->quotas);
    pfl_audit_log_close(p->audit);
    pfl_tls_conf_unref(p->tls);
    pfl_mem_free(p);
}

static void on_turn_closed(uv_handle_t *handle);

static void finish_if_gone(struct pfl_tls_port *p)
{
    if (p->listener != NULL || !pfl_list_is_empty(&p->connections))
        return;
    if (p->is_turn_open) {
        p->is_turn_open = false;
        uv_close((uv_handle_t *)&p->turn, on_turn_closed);
        return;
    }
    pfl_log_limit_flush(&p->refused_log, "peer-refused");
    pfl_log_limit_flush(&p->failed_log, "accept-failed");
    p->conf.on_closed(p->conf.user);
    free_port(p);
}

static void on_turn_closed(uv_handle_t *handle)
{
    finish_if_gone(handle->data);
}

static void end_connection(struct pfl_tls_port_connection *c)
{
    struct pfl_tls_port *p = c->port;

    pfl_list_remove(&c->node);
    p->count--;
    pfl_listener_release(c->listener);
    pfl_mem_free(c);
    finish_if_gone(p);
}

static const char *reason_of(int err, int saved_errno)
{
    return saved_errno != 0 ? strerror(saved_errno) : pfl_err_str(err);
}

/* ---- before the proxy: the handshake ---- */

static void on_tls_data(void *user, struct pfl_span data)
{
    (void)user;
    (void)data; /* after a refusal: what the peer still says does not matter */
}

static bool may_log_refusal(struct pfl_tls_port *p)
{
    return pfl_log_limit_take(&p->refused_log, "peer-refused", uv_now(p->conf.loop));
}

static const char *reason_of_end(const struct pfl_tls_port_connection *c, int err)
{
    const char *words = pfl_tls_stream_get_error(c->tls);

    return words[0] != '\0' ? words : reason_of(err, pfl_stream_get_errno(c->tls));
}

static void on_tls_closed(void *user, int err)
{
    struct pfl_tls_port_connection *c = user;
    const struct pfl_tls_identity *id = pfl_tls_stream_get_identity(c->tls);

    c->port->refused++;
    if (!c->is_refused && !c->port->is_draining && may_log_refusal(c->port))
        pfl_log_warn("peer-refused", "address=%s subject=%s uri=%s reason=\"%s\"", c->address,
                     pfl_log_quote_str(id->subject), pfl_log_quote_str(id->uri),
                     reason_of_end(c, err));
    c->tls = NULL;
    end_connection(c);
}

static void refuse(struct pfl_tls_port_connection *c)
{
    c->is_refused = true;
    pfl_stream_close_after_flush(c->tls, REFUSAL_TIMEOUT_MS);
}

static void log_refusal(struct pfl_tls_port_connection *c, const char *reason, const char *remedy)
{
    const struct pfl_tls_identity *id = pfl_tls_stream_get_identity(c->tls);

    if (may_log_refusal(c->port))
        pfl_log_warn("peer-refused", "address=%s subject=%s uri=%s reason=\"%s\" remedy=\"%s\"",
                     c->address, pfl_log_quote_str(id->subject), pfl_log_quote_str(id->uri), reason,
                     remedy);
}

static void on_taker_ended(void *user)
{
    end_connection(user);
}

/* False: refused. */
static bool give_to_hub(struct pfl_tls_port_connection *c, const struct pfl_identity *identity)
{
    struct pfl_hub_peer_conf conf = {
        .stream = c->tls,
        .identity = identity,
        .address = c->address,
        .on_ended = on_taker_ended,
        .user = c,
    };

    if (pfl_hub_take(c->port->hub, &conf) == 0)
        return true;
    log_refusal(c, "too many connections of this operator, or out of memory", "close some");
    return false;
}

/* The same. */
static bool give_to_direct(struct pfl_tls_port_connection *c, const struct pfl_identity *identity)
{
    struct pfl_direct_peer_conf conf = {
        .stream = c->tls,
        .identity = identity,
        .uri = c->uri,
        .address = c->address,
        .start_ms = c->start_ms,
        .on_ended = on_taker_ended,
        .user = c,
    };
    struct pfl_identity_refusal why;

    if (pfl_direct_take(c->port->direct, &conf, &why) == 0)
        return true;
    if (why.reason != NULL)
        log_refusal(c, why.reason, why.remedy);
    return false;
}

static void count_handshake(struct pfl_tls_port *p, const char *version)
{
    if (strcmp(version, "1.3") == 0)
        p->handshakes_1_3++;
    else
        p->handshakes_1_2++;
}

/* False: refused. */
static bool hand_over(struct pfl_tls_port_connection *c)
{
    const struct pfl_tls_port *p = c->port;
    const struct pfl_tls_identity *id = pfl_tls_stream_get_identity(c->tls);
    struct pfl_peer_admission_conf conf = {.alpn = pfl_tls_stream_get_alpn(c->tls),
                                           .uri_untrusted = id->uri,
                                           .fleet = p->fleet,
                                           .is_revoked = pfl_tls_conf_is_revoked(p->tls, id),
                                           .has_hub = p->hub != NULL,
                                           .has_direct = p->direct != NULL};
    struct pfl_peer_admission admission;

    pfl_peer_admission_decide(&conf, &admission);
    if (admission.taker == PFL_PEER_TAKER_NONE) {
        log_refusal(c, admission.refusal.reason, admission.refusal.remedy);
        return false;
    }
    (void)snprintf(c->uri, sizeof(c->uri), "%s", id->uri);
    c->identity = *id;
    if (admission.taker == PFL_PEER_TAKER_HUB ? !give_to_hub(c, &admission.identity)
                                              : !give_to_direct(c, &admission.identity))
        return false;
    c->taker = admission.taker;
    c->tls = NULL;
    return true;
}

static void on_tls_ready(void *user)
{
    struct pfl_tls_port_connection *c = user;

    count_handshake(c->port, pfl_tls_stream_get_version(c->tls));
    if (!hand_over(c))
        refuse(c);
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
    struct pfl_tls_port_connection *c = pfl_mem_zalloc(sizeof(*c));
    struct pfl_tls_accept_conf conf = {.loop = p->conf.loop,
                                       .tls = p->tls,
                                       .timeout_ms = p->conf.handshake_timeout_ms,
                                       .handshakes = p->conf.handshakes,
                                       .ops = &tls_ops,
                                       .user = c};
    struct pfl_tls_accept_peer caller;
    int rc = PFL_ENOMEM;

    if (c != NULL)
        rc = pfl_tls_accept_open(&conf, fd, &c->tls);
    p->accepted++;
    if (rc != 0) {
        p->refused++;
        if (rc != PFL_EAGAIN &&
            pfl_log_limit_take(&p->failed_log, "accept-failed", uv_now(p->conf.loop)))
            pfl_log_error("accept-failed", "reason=\"%s\"", pfl_err_str(rc));
        pfl_mem_free(c);
        close(fd);
        pfl_listener_release(p->listener);
        return;
    }
    pfl_tls_accept_get_peer(fd, &caller);
    memcpy(c->address, caller.address, sizeof(c->address));
    c->port = p;
    c->listener = p->listener;
    c->start_ms = uv_now(p->conf.loop);
    p->count++;
    pfl_list_append(&p->connections, &c->node);
}

static void on_listener_closed(void *user)
{
    struct pfl_tls_port *p = user;

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
        pfl_log_error("certificates-unusable", "reason=%s", pfl_log_quote_reason(why));
        return rc;
    }
    tell_end("certificate", files->cert_path, pfl_tls_conf_get_identity(*ret_tls)->not_after_s,
             "issue it again: perfleet pki renew DIR host NAME");
    if (files->crl_path != NULL)
        tell_end("crl", files->crl_path, pfl_tls_conf_get_crl_end(*ret_tls),
                 "renew it, else all peers are refused: perfleet pki crl DIR, then SIGHUP");
    return 0;
}

static int open_hub(struct pfl_tls_port *p, const char *name)
{
    struct pfl_hub_conf conf = {.loop = p->conf.loop,
                                .relay = name,
                                .fleet = p->fleet,
                                .audit = p->audit,
                                .quotas = &p->quotas,
                                .silence_ms = p->conf.silence_ms,
                                .max_per_operator = p->conf.max_per_operator,
                                .max_unread_mib = p->conf.max_unread_mib,
                                .forget_after_ms = p->conf.forget_after_ms};
    int rc = pfl_hub_new(&conf, &p->hub);

    if (rc == 0)
        pfl_hub_set_policy(p->hub, p->policy);
    return rc;
}

static int open_direct(struct pfl_tls_port *p, const char *name)
{
    struct pfl_direct_conf conf = {.loop = p->conf.loop,
                                   .consumer_socket = p->conf.consumer_socket,
                                   .host = name,
                                   .audit = p->audit,
                                   .quotas = &p->quotas,
                                   .max_per_operator = p->conf.max_per_operator,
                                   .half_closed_timeout_ms = p->conf.half_closed_timeout_ms};
    int rc = pfl_direct_new(&conf, &p->direct);

    if (rc == 0)
        pfl_direct_set_policy(p->direct, p->policy);
    return rc;
}

/* Selects the fleet whose operators are admitted; with a relay's certificate this is a fleet
 * relay. */
static int choose_role(struct pfl_tls_port *p)
{
    const struct pfl_tls_identity *own = pfl_tls_conf_get_identity(p->tls);
    struct pfl_identity id = {.role = PFL_IDENTITY_HOST};
    bool is_named = pfl_identity_parse(own->uri, &id) == 0;
    bool is_meeting_point = id.role == PFL_IDENTITY_RELAY;
    int rc;

    if (!is_named && p->conf.fleet == NULL) {
        pfl_log_error("fleet-unknown",
                      "reason=\"the certificate has no name perfleet://FLEET/host/NAME\" uri=%s "
                      "remedy=\"give --fleet, or a certificate of perfleet pki host\"",
                      pfl_log_quote_str(own->uri));
        return PFL_EINVAL;
    }
    (void)snprintf(p->fleet, sizeof(p->fleet), "%s",
                   p->conf.fleet != NULL ? p->conf.fleet : id.fleet);
    rc = pfl_policy_file_load(p->conf.policy_path, &p->policy);
    if (rc == 0 && is_meeting_point)
        rc = open_hub(p, id.name);
    if (rc == 0 && (!is_meeting_point || p->conf.is_socket_given))
        rc = open_direct(p, id.name);
    return rc;
}

static void on_turn_end(uv_check_t *handle)
{
    const struct pfl_tls_port *p = handle->data;

    pfl_hub_end_turn(p->hub);
}

static void watch_turns(struct pfl_tls_port *p)
{
    if (p->hub == NULL)
        return;
    (void)uv_check_init(p->conf.loop, &p->turn);
    p->turn.data = p;
    (void)uv_check_start(&p->turn, on_turn_end);
    p->is_turn_open = true;
}

int pfl_tls_port_open(const struct pfl_tls_port_conf *conf, struct pfl_tls_port **ret_port)
{
    struct pfl_tls_port *p = pfl_mem_zalloc(sizeof(*p));
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
    pfl_quotas_init(&p->quotas);
    rc = load_tls(&p->conf.files, &p->tls);
    if (rc == 0)
        rc = pfl_audit_log_open(conf->audit_path, &p->audit);
    if (rc == 0)
        rc = choose_role(p);
    if (rc == 0)
        rc = pfl_listener_open(&listener, &p->listener);
    if (rc != 0) {
        free_port(p);
        return rc;
    }
    watch_turns(p);
    *ret_port = p;
    return 0;
}

/* Closes connections of peers that were admitted and are revoked now. */
static void drop_revoked(struct pfl_tls_port *p)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &p->connections) {
        struct pfl_tls_port_connection *c =
            PFL_CONTAINER_OF(it, struct pfl_tls_port_connection, node);

        if (!pfl_tls_conf_is_revoked(p->tls, &c->identity))
            continue;
        pfl_log_warn("peer-dropped", "address=%s uri=%s reason=\"its certificate was revoked\"",
                     c->address, pfl_log_quote_str(c->uri));
        if (c->taker == PFL_PEER_TAKER_DIRECT)
            pfl_direct_drop(p->direct, c);
        else if (c->taker == PFL_PEER_TAKER_HUB)
            pfl_hub_drop(p->hub, c);
    }
}

static void reload_policy(struct pfl_tls_port *p)
{
    struct pfl_policy *fresh = NULL;
    struct pfl_policy *old = p->policy;

    if (pfl_policy_file_load(p->conf.policy_path, &fresh) != 0)
        return;
    p->policy = fresh;
    if (p->hub != NULL)
        pfl_hub_set_policy(p->hub, fresh);
    if (p->direct != NULL)
        pfl_direct_set_policy(p->direct, fresh);
    pfl_policy_free(old);
}

void pfl_tls_port_reload(struct pfl_tls_port *self)
{
    struct pfl_tls_conf *fresh = NULL;

    reload_policy(self);
    if (load_tls(&self->conf.files, &fresh) != 0) {
        pfl_log_error("reload-failed", "the old certificates stay in use");
        return;
    }
    pfl_tls_conf_unref(self->tls);
    self->tls = fresh;
    pfl_audit_log_reopen(self->audit);
    drop_revoked(self);
    pfl_log_info("reloaded", "certificate=%s",
                 pfl_log_quote_str(pfl_tls_conf_get_identity(fresh)->uri));
}

void pfl_tls_port_forget_old(struct pfl_tls_port *self)
{
    if (self->hub != NULL)
        pfl_hub_forget_old(self->hub);
}

void pfl_tls_port_drain(struct pfl_tls_port *self)
{
    if (self->is_draining)
        return;
    self->is_draining = true;
    pfl_listener_close(self->listener);
    if (self->hub != NULL)
        pfl_hub_drain(self->hub);
}

void pfl_tls_port_close(struct pfl_tls_port *self)
{
    struct pfl_list *it;

    pfl_tls_port_drain(self);
    PFL_LIST_EACH (it, &self->connections) {
        struct pfl_tls_port_connection *c =
            PFL_CONTAINER_OF(it, struct pfl_tls_port_connection, node);

        if (c->tls != NULL)
            pfl_stream_close(c->tls);
    }
    if (self->direct != NULL)
        pfl_direct_close(self->direct);
    if (self->hub != NULL)
        pfl_hub_close(self->hub);
}

uint16_t pfl_tls_port_get_number(const struct pfl_tls_port *self)
{
    return pfl_listener_get_port(self->listener);
}

unsigned pfl_tls_port_count_connections(const struct pfl_tls_port *self)
{
    return self->count;
}
