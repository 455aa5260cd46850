/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection that redials: see dialer.h.
 *
 *     WAITING -> RESOLVING -> SHAKING -> SETTLING -> UP
 *        ^           |           |           |        |
 *        +-----------+-----------+-----------+--------+      any -> CLOSING
 *
 * Happy path: resolve, try the addresses in turn, TLS, check ALPN and the relay's name, HTTP/2, and
 * when its settings have arrived: on_up. On GOAWAY, close after a random wait. Failures: on_down
 * reports each with a sentence; then WAITING, with backoff. Ownership: the stream until the link
 * takes it, the link, the resolver's result, a TLS reference.
 */
#include "tunnel/dialer.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/io/fdsock.h"
#include "base/mem.h"
#include "proto/tunnel/identity.h"
#include "tunnel/backoff.h"

#define GOAWAY_WAIT_MS    2000u
#define SETTLE_TIMEOUT_MS 10000u
#define UNREACHED                                                                                  \
    "nothing answers at this address: is perfleet-relay running there, and the port right?"
#define UNANSWERED                                                                                 \
    "the handshake was not answered in time: is it a relay's address, and the network well?"
#define RELAY_REVOKED "the relay's certificate was revoked"

enum state {
    STATE_WAITING,
    STATE_RESOLVING,
    STATE_SHAKING,
    STATE_SETTLING,
    STATE_UP,
    STATE_CLOSING
};

/* A relay cancels for its operators, and limits each operator on each connection. */
#define RESETTERS 1024u

struct pfl_dialer {
    struct pfl_dialer_conf conf;
    struct pfl_tls_conf *tls; /* a counted reference */
    enum state state;
    uv_timer_t timer; /* the next attempt, or the deadline of this state */
    uv_getaddrinfo_t resolver;
    struct addrinfo *addresses; /* owned */
    struct addrinfo *next_address;
    struct pfl_stream *stream;    /* owned until the link takes it */
    struct pfl_tunnel_link *link; /* owned until its on_closed */
    struct pfl_backoff backoff;
    uint64_t up_ms;
    bool is_resolving;
    bool is_timer_open;
    bool has_shaken;
    struct pfl_dialer_address address;
    char fleet[PFL_IDENTITY_NAME_BYTES];
    char relay[PFL_IDENTITY_NAME_BYTES];
    struct pfl_tls_identity relay_identity; /* of the connection, or the last one */
    const char *tls_version;                /* static */
    char why[640];
};

static void try_next_address(struct pfl_dialer *d);

static uint64_t random_number(void)
{
    uint64_t number = 0;

    if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
        number = uv_hrtime();
    return number;
}

/* ---- the end ---- */

static void finish_if_gone(struct pfl_dialer *d)
{
    if (d->state != STATE_CLOSING || d->stream != NULL || d->link != NULL || d->is_resolving ||
        d->is_timer_open)
        return;
    if (d->addresses != NULL)
        uv_freeaddrinfo(d->addresses);
    pfl_tls_conf_unref(d->tls);
    d->conf.on_closed(d->conf.user);
    pfl_mem_free(d);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct pfl_dialer *d = handle->data;

    d->is_timer_open = false;
    finish_if_gone(d);
}

void pfl_dialer_close(struct pfl_dialer *self)
{
    if (self->state == STATE_CLOSING)
        return;
    self->state = STATE_CLOSING;
    if (self->is_resolving)
        (void)uv_cancel((uv_req_t *)&self->resolver);
    if (self->stream != NULL)
        pfl_stream_close(self->stream);
    if (self->link != NULL)
        pfl_tunnel_link_close(self->link);
    uv_close((uv_handle_t *)&self->timer, on_timer_closed);
}

/* ---- down: wait and try again ---- */

static void set_why(struct pfl_dialer *d, const char *why)
{
    if (d->why[0] == '\0')
        (void)snprintf(d->why, sizeof(d->why), "%s", why);
}

static void on_attempt(uv_timer_t *timer);

/* Nothing of the attempt or the connection is left. */
static void wait_for_attempt(struct pfl_dialer *d)
{
    uint64_t wait_ms = pfl_backoff_next(&d->backoff, random_number());

    d->state = STATE_WAITING;
    (void)uv_timer_start(&d->timer, on_attempt, wait_ms, 0);
    if (d->conf.on_down != NULL)
        d->conf.on_down(d->conf.user, d->why, wait_ms);
}

static void give_up_attempt(struct pfl_dialer *d, const char *why)
{
    set_why(d, why);
    if (d->stream != NULL)
        pfl_stream_close(d->stream);
    else if (d->link != NULL)
        pfl_tunnel_link_close(d->link);
    else
        wait_for_attempt(d);
}

/* ---- up ---- */

static void on_h2_ready(void *user)
{
    struct pfl_dialer *d = user;

    if (d->state != STATE_SETTLING)
        return;
    d->state = STATE_UP;
    d->up_ms = uv_now(d->conf.loop);
    (void)uv_timer_stop(&d->timer);
    d->conf.on_up(d->conf.user, pfl_tunnel_link_get_h2(d->link));
}

static void on_going(uv_timer_t *timer)
{
    struct pfl_dialer *d = timer->data;

    give_up_attempt(d, "the relay asked us to go");
}

static void on_goaway(void *user)
{
    struct pfl_dialer *d = user;

    if (d->state == STATE_UP)
        (void)uv_timer_start(&d->timer, on_going, random_number() % GOAWAY_WAIT_MS, 0);
}

static void on_request(void *user, struct pfl_h2_stream *stream, const struct pfl_h2_head *head)
{
    struct pfl_dialer *d = user;

    d->conf.on_request(d->conf.user, stream, head);
}

/* A relay takes no certificate of another fleet, or of another kind, and says so in its log only.
 */
static void blame_certificate(struct pfl_dialer *d)
{
    char why[400];

    (void)snprintf(why, sizeof(why),
                   "the relay closed the connection right after the handshake: is our certificate "
                   "(%s) for this use, and of the relay's fleet? Its log says why",
                   pfl_tls_conf_get_identity(d->tls)->uri);
    set_why(d, why);
}

static void on_link_closed(void *user, int err, const char *why)
{
    struct pfl_dialer *d = user;

    (void)err;
    d->link = NULL;
    if (d->state == STATE_CLOSING) {
        finish_if_gone(d);
        return;
    }
    if (d->state == STATE_UP)
        pfl_backoff_lived(&d->backoff, uv_now(d->conf.loop) - d->up_ms);
    if (d->state == STATE_SETTLING && strcmp(why, PFL_TUNNEL_LINK_ENDED) == 0)
        blame_certificate(d);
    set_why(d, why);
    wait_for_attempt(d);
}

/* ---- the handshake ---- */

static bool is_our_relay(struct pfl_dialer *d)
{
    const struct pfl_tls_identity *id = pfl_tls_stream_get_identity(d->stream);
    const char *alpn = pfl_tls_stream_get_alpn(d->stream);
    struct pfl_identity_refusal refusal;
    struct pfl_identity relay;

    if (pfl_identity_authorize(id->uri, d->fleet, PFL_IDENTITY_RELAY, &refusal) != 0 ||
        pfl_identity_parse(id->uri, &relay) != 0) {
        set_why(d, refusal.reason);
        return false;
    }
    if (pfl_tls_conf_is_revoked(d->tls, id)) { /* by a list that came during the handshake */
        set_why(d, RELAY_REVOKED);
        return false;
    }
    if (alpn == NULL || strcmp(alpn, d->conf.alpn) != 0) {
        set_why(d, "the relay does not speak the tunnel's protocol");
        return false;
    }
    memcpy(d->relay, relay.name, sizeof(d->relay));
    d->relay_identity = *id;
    d->tls_version = pfl_tls_stream_get_version(d->stream);
    return true;
}

static void on_settle_timeout(uv_timer_t *timer)
{
    give_up_attempt(timer->data, "the relay said nothing after the handshake");
}

static void on_tls_ready(void *user)
{
    struct pfl_dialer *d = user;
    struct pfl_tunnel_link_conf conf = {
        .loop = d->conf.loop,
        .stream = d->stream,
        .h2 = {.is_answering = d->conf.is_answering,
               .window_bytes = d->conf.window_bytes,
               .resetters = RESETTERS,
               .on_request = d->conf.on_request != NULL ? on_request : NULL,
               .on_ready = on_h2_ready,
               .on_goaway = on_goaway,
               .user = d},
        .quiet_ms = d->conf.quiet_ms,
        .on_closed = on_link_closed,
        .user = d,
    };

    if (d->state == STATE_CLOSING)
        return;
    d->has_shaken = true;
    if (!is_our_relay(d) || pfl_tunnel_link_open(&conf, &d->link) != 0) {
        give_up_attempt(d, "out of memory");
        return;
    }
    d->stream = NULL;
    d->state = STATE_SETTLING;
    (void)uv_timer_start(&d->timer, on_settle_timeout, SETTLE_TIMEOUT_MS, 0);
}

static void on_tls_data(void *user, struct pfl_span data)
{
    (void)user;
    (void)data; /* only after a refusal */
}

static void on_tls_closed(void *user, int err)
{
    struct pfl_dialer *d = user;
    const char *words = pfl_tls_stream_get_error(d->stream);

    if (words[0] != '\0')
        set_why(d, words);
    d->stream = NULL;
    if (d->state == STATE_CLOSING) {
        finish_if_gone(d);
    } else if (d->why[0] == '\0' && !d->has_shaken && d->next_address != NULL) {
        try_next_address(d);
    } else {
        set_why(d, err == PFL_ETIMEOUT ? UNANSWERED : UNREACHED);
        wait_for_attempt(d);
    }
}

static const struct pfl_stream_ops tls_ops = {
    .on_data = on_tls_data,
    .on_ready = on_tls_ready,
    .on_closed = on_tls_closed,
};

/* ---- an attempt ---- */

static int open_address(struct pfl_dialer *d, const struct addrinfo *address)
{
    struct pfl_stream_conf conf = {
        .loop = d->conf.loop,
        .ops = &tls_ops,
        .user = d,
        .queue_max_bytes = PFL_TUNNEL_QUEUE_MAX_BYTES,
        .queue_low_bytes = PFL_TUNNEL_QUEUE_LOW_BYTES,
    };
    struct pfl_tls_handshake handshake = {.conf = d->tls,
                                          .timeout_ms = d->conf.handshake_timeout_ms};
    int fd;
    int rc = pfl_fdsock_connect_addr(address->ai_addr, address->ai_addrlen, &fd);

    if (rc != 0)
        return rc;
    rc = pfl_tls_stream_open(&conf, &handshake, fd, &d->stream);
    if (rc != 0)
        close(fd);
    return rc;
}

static void try_next_address(struct pfl_dialer *d)
{
    int rc = PFL_ENOENT;

    d->state = STATE_SHAKING;
    while (rc != 0 && d->next_address != NULL) {
        const struct addrinfo *address = d->next_address;

        d->next_address = address->ai_next;
        rc = open_address(d, address);
    }
    if (rc != 0)
        give_up_attempt(d, UNREACHED);
}

static void on_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *result)
{
    struct pfl_dialer *d = request->data;
    char why[sizeof(d->address.host) + 100];

    d->is_resolving = false;
    d->addresses = result;
    if (d->state == STATE_CLOSING) {
        finish_if_gone(d);
        return;
    }
    if (status != 0) {
        (void)snprintf(why, sizeof(why), "the name %s cannot be resolved: %s", d->address.host,
                       uv_strerror(status));
        give_up_attempt(d, why);
        return;
    }
    d->next_address = result;
    try_next_address(d);
}

static void on_attempt(uv_timer_t *timer)
{
    static const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct pfl_dialer *d = timer->data;

    d->why[0] = '\0';
    d->has_shaken = false;
    d->state = STATE_RESOLVING;
    if (d->addresses != NULL)
        uv_freeaddrinfo(d->addresses);
    d->addresses = NULL;
    d->resolver.data = d;
    if (uv_getaddrinfo(d->conf.loop, &d->resolver, on_resolved, d->address.host, d->address.port,
                       &hints) != 0)
        give_up_attempt(d, "out of memory");
    else
        d->is_resolving = true;
}

/* ---- opening ---- */

bool pfl_dialer_parse_address(const char *text, struct pfl_dialer_address *ret_address)
{
    const char *bracket = text[0] == '[' ? strchr(text, ']') : NULL;
    const char *colon = strrchr(bracket != NULL ? bracket : text, ':');
    const char *port = colon != NULL ? colon + 1 : PFL_DIALER_PORT;
    size_t host_len = colon != NULL ? (size_t)(colon - text) : strlen(text);

    if (host_len == 0 || port[0] == '\0' || strlen(port) >= sizeof(ret_address->port))
        return false;
    if (text[0] == '[') {
        if (bracket == NULL || bracket + 1 != text + host_len || host_len < 3)
            return false;
        text++;
        host_len -= 2;
    }
    if (host_len >= sizeof(ret_address->host))
        return false;
    memcpy(ret_address->host, text, host_len);
    ret_address->host[host_len] = '\0';
    (void)snprintf(ret_address->port, sizeof(ret_address->port), "%s", port);
    return true;
}

int pfl_dialer_open(const struct pfl_dialer_conf *conf, struct pfl_dialer **ret_dialer)
{
    struct pfl_dialer *d = pfl_mem_zalloc(sizeof(*d));

    if (d == NULL)
        return PFL_ENOMEM;
    d->conf = *conf;
    d->tls_version = "";
    d->backoff.max_ms = conf->retry_max_ms;
    if (!pfl_dialer_parse_address(conf->address, &d->address) ||
        strlen(conf->fleet) >= sizeof(d->fleet)) {
        pfl_mem_free(d);
        return PFL_EINVAL;
    }
    memcpy(d->fleet, conf->fleet, strlen(conf->fleet) + 1);
    d->tls = pfl_tls_conf_ref(conf->tls);
    (void)uv_timer_init(conf->loop, &d->timer);
    d->timer.data = d;
    d->is_timer_open = true;
    (void)uv_timer_start(&d->timer, on_attempt, 0, 0);
    *ret_dialer = d;
    return 0;
}

struct pfl_h2 *pfl_dialer_get_h2(struct pfl_dialer *self)
{
    return self->state == STATE_UP ? pfl_tunnel_link_get_h2(self->link) : NULL;
}

size_t pfl_dialer_get_queued_bytes(const struct pfl_dialer *self)
{
    return self->state == STATE_UP ? pfl_tunnel_link_get_queued_bytes(self->link) : 0;
}

int64_t pfl_dialer_get_relay_end_s(const struct pfl_dialer *self)
{
    return self->relay_identity.not_after_s;
}

const char *pfl_dialer_get_tls_version(const struct pfl_dialer *self)
{
    return self->tls_version;
}

const char *pfl_dialer_get_relay(const struct pfl_dialer *self)
{
    return self->relay;
}

void pfl_dialer_set_tls(struct pfl_dialer *self, struct pfl_tls_conf *tls)
{
    struct pfl_tls_conf *old = self->tls;

    self->tls = pfl_tls_conf_ref(tls);
    pfl_tls_conf_unref(old);
    if ((self->state == STATE_SETTLING || self->state == STATE_UP) &&
        pfl_tls_conf_is_revoked(tls, &self->relay_identity))
        give_up_attempt(self, RELAY_REVOKED);
}
