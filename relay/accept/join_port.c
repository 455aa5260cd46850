/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The join port for machines without a certificate: see join_port.h.
 *
 * Happy path: accept; TLS, in which only we show a certificate; connect the signer's socket, if a
 * trusted user serves it (base/service_user.h); forward until both sides are done. Failures: each
 * ends that one connection with a log line (limited: strangers can cause it). Ownership: the port
 * owns listener, TLS conf and connections; a connection its stream, or the proxy that took it, and
 * a timer; the last of them frees it. Limits: PFL_JOIN_MAX_CONNECTIONS at the signer (past it the
 * oldest one of the address with most is closed); unfinished handshakes
 * (base/io/handshake_queue.h); PFL_JOIN_LIFETIME_MS; the proxy's queues.
 */
#include "relay/accept/join_port.h"

#include <string.h>
#include <unistd.h>

#include "base/io/fdsock.h"
#include "base/io/handshake_queue.h"
#include "base/io/listener.h"
#include "base/log.h"
#include "base/mem.h"
#include "relay/accept/join_slots.h"
#include "relay/accept/tls_server_stream_port.h"
#include "relay/direct/direct_proxy.h"

struct pfl_join_port {
    struct pfl_join_port_conf conf;
    struct pfl_tls_conf *tls;      /* a counted reference */
    struct pfl_listener *listener; /* owned; NULL once closed */
    struct pfl_join_slots slots;   /* of all connections */
    struct pfl_log_limit log;
    bool is_closing;
};

struct joiner {
    struct pfl_join_slot slot;
    struct pfl_join_port *port;            /* borrowed: outlives us */
    struct pfl_listener *listener;         /* borrowed: lives until we release it */
    struct pfl_stream *tls;                /* owned until `direct_proxy` is made */
    struct pfl_direct_proxy *direct_proxy; /* owned until its on_ended */
    uv_timer_t timer;
    struct pfl_tls_server_stream_peer caller;
};

static struct joiner *joiner_of(struct pfl_join_slot *slot)
{
    return PFL_CONTAINER_OF(slot, struct joiner, slot);
}

static void free_if_gone(struct pfl_join_port *p)
{
    if (!p->is_closing || p->listener != NULL || !pfl_list_is_empty(&p->slots.all))
        return;
    pfl_tls_conf_unref(p->tls);
    pfl_mem_free(p);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct joiner *j = handle->data;
    struct pfl_join_port *p = j->port;

    pfl_listener_release(j->listener);
    pfl_join_slots_remove(&p->slots, &j->slot);
    pfl_mem_free(j);
    free_if_gone(p);
}

static void cut(struct joiner *j)
{
    pfl_join_slots_release(&j->port->slots, &j->slot);
    if (j->direct_proxy != NULL)
        pfl_direct_proxy_close(j->direct_proxy);
    else if (j->tls != NULL)
        pfl_stream_close(j->tls);
}

static void on_timer(uv_timer_t *timer)
{
    cut(timer->data);
}

static void tell(struct joiner *j, const char *reason)
{
    if (pfl_log_limit_take(&j->port->log, "join-refused", uv_now(j->port->conf.loop)))
        pfl_log_warn("join-refused", "address=%s reason=%s", j->caller.address,
                     pfl_log_quote_reason(reason));
}

/* ---- one connection ---- */

static void on_forward_ended(void *user, const struct pfl_direct_proxy_stats *stats)
{
    struct joiner *j = user;

    pfl_join_slots_release(&j->port->slots, &j->slot);
    j->direct_proxy = NULL;
    if (pfl_log_limit_take(&j->port->log, "join-carried", uv_now(j->port->conf.loop)))
        pfl_log_info("join-carried", "address=%s bytes_to_signer=%llu bytes_from_signer=%llu",
                     j->caller.address, (unsigned long long)stats->bytes_to_local,
                     (unsigned long long)stats->bytes_to_remote);
    uv_close((uv_handle_t *)&j->timer, on_timer_closed);
}

static void on_tls_data(void *user, struct pfl_span data)
{
    (void)user;
    (void)data; /* after a refusal */
}

static void on_tls_closed(void *user, int err)
{
    struct joiner *j = user;
    const char *words = pfl_tls_stream_get_error(j->tls);

    if (err != 0)
        tell(j, words[0] != '\0' ? words : pfl_err_str(err));
    j->tls = NULL;
    uv_close((uv_handle_t *)&j->timer, on_timer_closed);
}

static void take_slot(struct joiner *j)
{
    struct pfl_join_slot *closed = pfl_join_slots_take(&j->port->slots, &j->slot);

    if (closed == NULL)
        return;
    tell(joiner_of(closed), "it gave way to a newer one: too many are at the signer");
    cut(joiner_of(closed));
}

static void on_tls_ready(void *user)
{
    struct joiner *j = user;
    struct pfl_direct_proxy_conf conf = {
        .loop = j->port->conf.loop,
        .remote = j->tls,
        .half_closed_timeout_ms = PFL_JOIN_LIFETIME_MS,
        .on_ended = on_forward_ended,
        .user = j,
    };
    int fd = -1;
    int rc = pfl_fdsock_connect_service(j->port->conf.signer_socket, &fd);

    if (rc == PFL_ESTRANGER)
        tell(j, pfl_fdsock_get_service_why());
    else if (rc != 0)
        tell(j, "the signer cannot be reached: perfleet pki serve");
    else
        rc = pfl_direct_proxy_new(&conf, fd, &j->direct_proxy);
    if (rc == 0) {
        j->tls = NULL;
        take_slot(j);
        return;
    }
    if (fd >= 0)
        close(fd);
    pfl_stream_close(j->tls);
}

static const struct pfl_stream_ops tls_ops = {
    .on_data = on_tls_data,
    .on_ready = on_tls_ready,
    .on_closed = on_tls_closed,
};

static void on_accept(void *user, int fd)
{
    struct pfl_join_port *p = user;
    struct joiner *j = pfl_mem_zalloc(sizeof(*j));
    struct pfl_tls_server_stream_conf conf = {.loop = p->conf.loop,
                                              .tls = p->tls,
                                              .timeout_ms = PFL_JOIN_LIFETIME_MS,
                                              .handshakes = p->conf.handshakes,
                                              .ops = &tls_ops,
                                              .user = j};

    if (j == NULL || pfl_tls_server_stream_open(&conf, fd, &j->tls) != 0) {
        pfl_mem_free(j);
        close(fd);
        pfl_listener_release(p->listener);
        return;
    }
    j->port = p;
    j->listener = p->listener;
    pfl_tls_server_stream_get_peer(fd, &j->caller);
    pfl_pending_handshakes_read_address(&j->caller.peer, j->slot.address);
    pfl_join_slots_add(&p->slots, &j->slot);
    (void)uv_timer_init(p->conf.loop, &j->timer);
    j->timer.data = j;
    (void)uv_timer_start(&j->timer, on_timer, PFL_JOIN_LIFETIME_MS, 0);
}

/* ---- the port ---- */

static void on_listener_closed(void *user)
{
    struct pfl_join_port *p = user;

    p->listener = NULL;
    free_if_gone(p);
}

static int load_tls(struct pfl_join_port *p, struct pfl_tls_conf **ret_tls)
{
    char why[320];
    int rc = pfl_tls_conf_new(&p->conf.files, why, sizeof(why), ret_tls);

    if (rc != 0)
        pfl_log_error("certificates-unusable", "reason=%s", pfl_log_quote_reason(why));
    return rc;
}

int pfl_join_port_open(const struct pfl_join_port_conf *conf, struct pfl_join_port **ret_port)
{
    struct pfl_join_port *p = pfl_mem_zalloc(sizeof(*p));
    struct pfl_listener_conf listener = {
        .loop = conf->loop,
        .address = conf->listen_address,
        .is_tcp = true,
        /* That a cut one is gone a turn later. */
        .max_connections =
            2 * PFL_JOIN_MAX_CONNECTIONS + pfl_handshake_queue_get_max(conf->handshakes),
        .mode = -1,
        .on_accept = on_accept,
        .on_closed = on_listener_closed,
        .user = p,
    };
    int rc;

    if (p == NULL)
        return PFL_ENOMEM;
    p->conf = *conf;
    p->conf.files.is_server = true;
    p->conf.files.is_enrolling = true;
    p->conf.files.crl_path = NULL; /* peers show no certificate */
    p->conf.files.alpn = NULL;
    pfl_join_slots_init(&p->slots, PFL_JOIN_MAX_CONNECTIONS);
    rc = load_tls(p, &p->tls);
    if (rc == 0)
        rc = pfl_listener_open(&listener, &p->listener);
    if (rc != 0) {
        pfl_tls_conf_unref(p->tls);
        pfl_mem_free(p);
        return rc;
    }
    pfl_log_info("join-listening", "port=%u signer=%s", pfl_listener_get_port(p->listener),
                 pfl_log_quote_str(conf->signer_socket));
    *ret_port = p;
    return 0;
}

void pfl_join_port_reload(struct pfl_join_port *self)
{
    struct pfl_tls_conf *fresh;

    if (self == NULL || load_tls(self, &fresh) != 0)
        return;
    pfl_tls_conf_unref(self->tls);
    self->tls = fresh;
}

void pfl_join_port_close(struct pfl_join_port *self)
{
    struct pfl_list *it;

    if (self == NULL || self->is_closing)
        return;
    self->is_closing = true;
    pfl_listener_close(self->listener);
    PFL_LIST_EACH (it, &self->slots.all)
        cut(joiner_of(PFL_CONTAINER_OF(it, struct pfl_join_slot, node)));
}
