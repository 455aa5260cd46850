/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections on which relays make requests: see serve_port.h.
 *
 * Happy path: dial every relay, forever; what it asks for is operator_streams_port's. Failures: an
 * unreachable relay is tried again. Ownership: dialers until their last callback, the known hosts;
 * freed after the last dialer and the last stream. Limits: PFL_RELAYS_MAX.
 */
#include "collector/serve/serve_port.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/log.h"
#include "base/mem.h"
#include "tunnel/dialer.h"

#define HANDSHAKE_TIMEOUT_MS 10000u
#define QUIET_MS             20000u

static const char *const alpn[] = {PFL_TUNNEL_ALPN_COLLECTOR, NULL};

struct uplink {
    struct pfl_serve *serve;
    struct pfl_dialer *dialer; /* owned until its on_closed */
    struct pfl_log_limit log;
    unsigned relay;
    char address[300];
};

struct pfl_serve {
    struct pfl_serve_conf conf;
    struct pfl_tls_conf *tls; /* a counted reference */
    struct uplink uplinks[PFL_RELAYS_MAX];
    struct pfl_known_hosts *hosts; /* owned */
    struct pfl_operator_streams streams;
    uv_timer_t timer;
    unsigned open; /* dialers and the timer */
    bool is_closing;
};

static void finish(struct pfl_serve *v)
{
    if (!v->is_closing || v->open != 0 || !pfl_list_is_empty(&v->streams.list))
        return;
    v->conf.on_closed(v->conf.user);
    pfl_tls_conf_unref(v->tls);
    pfl_known_hosts_free(v->hosts);
    pfl_mem_free(v);
}

/* ---- connections ---- */

static void on_request(void *user, struct pfl_h2_stream *h2_stream, const struct pfl_h2_head *head)
{
    struct uplink *u = user;

    pfl_operator_streams_take(&u->serve->streams, u->relay, h2_stream, head);
}

static void on_up(void *user, struct pfl_h2 *h2)
{
    struct uplink *u = user;

    (void)h2;
    pfl_log_info("serving", "address=%s relay=%s", pfl_log_quote_str(u->address),
                 pfl_dialer_get_relay(u->dialer));
}

static void on_down(void *user, const char *why, uint64_t retry_ms)
{
    struct uplink *u = user;

    if (pfl_log_limit_take(&u->log, "not-serving", uv_now(u->serve->conf.loop)))
        pfl_log_warn("not-serving", "address=%s reason=%s retry_ms=%llu",
                     pfl_log_quote_str(u->address), pfl_log_quote_reason(why),
                     (unsigned long long)retry_ms);
}

static void on_dialer_closed(void *user)
{
    struct uplink *u = user;

    u->dialer = NULL;
    u->serve->open--;
    finish(u->serve);
}

static void open_uplink(struct pfl_serve *v, unsigned relay)
{
    struct uplink *u = &v->uplinks[relay];
    const struct pfl_dialer_conf conf = {
        .loop = v->conf.loop,
        .address = v->conf.addresses[relay],
        .tls = v->tls,
        .fleet = pfl_relays_get_fleet(v->conf.relays),
        .alpn = PFL_TUNNEL_ALPN_COLLECTOR,
        .is_answering = true,
        .window_bytes = PFL_TUNNEL_CONTROL_WINDOW_BYTES,
        .on_request = on_request,
        .handshake_timeout_ms = HANDSHAKE_TIMEOUT_MS,
        .quiet_ms = QUIET_MS,
        .on_up = on_up,
        .on_down = on_down,
        .on_closed = on_dialer_closed,
        .user = u,
    };
    int rc;

    u->serve = v;
    u->relay = relay;
    (void)snprintf(u->address, sizeof(u->address), "%s", conf.address);
    rc = pfl_dialer_open(&conf, &u->dialer);
    if (rc == 0)
        v->open++;
    else
        pfl_log_error("relay-not-dialled", "address=%s reason=\"%s\"",
                      pfl_log_quote_str(u->address), pfl_err_str(rc));
}

/* ---- opening ---- */

static int load_tls(struct pfl_serve *v, struct pfl_tls_conf **ret_tls)
{
    char why[320];
    int rc;

    v->conf.files.alpn = alpn;
    v->conf.files.is_server = false;
    rc = pfl_tls_conf_new(&v->conf.files, why, sizeof(why), ret_tls);
    if (rc != 0)
        pfl_log_error("certificates-unusable", "reason=%s", pfl_log_quote_reason(why));
    return rc;
}

static void on_orders_changed(void *user)
{
    struct pfl_serve *v = user;

    if (v->conf.on_orders_changed != NULL)
        v->conf.on_orders_changed(v->conf.user);
}

static void on_empty(void *user)
{
    finish(user);
}

static void on_timer(uv_timer_t *timer)
{
    struct pfl_serve *v = timer->data;

    pfl_operator_streams_keep_alive(&v->streams);
}

int pfl_serve_open(const struct pfl_serve_conf *conf, struct pfl_serve **ret_serve)
{
    struct pfl_operator_streams_conf streams = {.loop = conf->loop,
                                                .engines = conf->engines,
                                                .relays = conf->relays,
                                                .on_orders_changed = on_orders_changed,
                                                .on_empty = on_empty};
    struct pfl_serve *v = pfl_mem_zalloc(sizeof(*v));
    struct pfl_hash_key key;
    int rc;

    if (v == NULL)
        return PFL_ENOMEM;
    v->conf = *conf;
    rc = getrandom(&key, sizeof(key), 0) == (ssize_t)sizeof(key) ? 0 : PFL_EIO;
    if (rc == 0)
        rc = pfl_known_hosts_new(&key, &v->hosts);
    if (rc == 0)
        rc = load_tls(v, &v->tls);
    if (rc != 0) {
        pfl_known_hosts_free(v->hosts);
        pfl_mem_free(v);
        return rc;
    }
    streams.hosts = v->hosts;
    streams.user = v;
    pfl_operator_streams_init(&v->streams, &streams);
    (void)uv_timer_init(conf->loop, &v->timer);
    v->timer.data = v;
    (void)uv_timer_start(&v->timer, on_timer, PFL_OPERATOR_ALIVE_MS, PFL_OPERATOR_ALIVE_MS / 3);
    v->open++;
    for (unsigned i = 0; i < conf->len; i++)
        open_uplink(v, i); /* logged; the others serve */
    *ret_serve = v;
    return 0;
}

void pfl_serve_on_host(struct pfl_serve *self, unsigned relay, const struct pfl_spool_host *host)
{
    const struct pfl_known_host known = {.name = host->name,
                                         .relay = relay,
                                         .is_connected = host->is_connected,
                                         .labels = host->labels,
                                         .labels_len = host->labels_len};
    int rc = pfl_known_hosts_set(self->hosts, &known);

    if (rc != 0)
        pfl_log_warn("host-ignored", "host=%s reason=\"%s\"", pfl_log_quote_str(host->name),
                     pfl_err_str(rc));
}

void pfl_serve_on_relay_lost(struct pfl_serve *self, unsigned relay)
{
    pfl_known_hosts_forget_relay(self->hosts, relay);
}

void pfl_serve_get_figures(const struct pfl_serve *self, struct pfl_operator_figures *ret_figures)
{
    *ret_figures = self->streams.figures;
}

void pfl_serve_reload(struct pfl_serve *self)
{
    struct pfl_tls_conf *fresh = NULL;

    if (load_tls(self, &fresh) != 0)
        return;
    pfl_tls_conf_unref(self->tls);
    self->tls = fresh;
    for (unsigned i = 0; i < self->conf.len; i++) {
        if (self->uplinks[i].dialer != NULL)
            pfl_dialer_set_tls(self->uplinks[i].dialer, fresh);
    }
}

void pfl_serve_stop(struct pfl_serve *self)
{
    if (self != NULL)
        pfl_operator_streams_stop(&self->streams);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct pfl_serve *v = handle->data;

    v->open--;
    finish(v);
}

void pfl_serve_close(struct pfl_serve *self)
{
    if (self == NULL)
        return;
    self->is_closing = true;
    uv_close((uv_handle_t *)&self->timer, on_timer_closed);
    for (unsigned i = 0; i < self->conf.len; i++) {
        if (self->uplinks[i].dialer != NULL)
            pfl_dialer_close(self->uplinks[i].dialer);
    }
}
