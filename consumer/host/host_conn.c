/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection to a consumer port.
 *
 *     RESOLVING -> CONNECTING -> BINDING -> READY
 *         |            |            |         |
 *         +------------+------------+---------+-> CLOSING -> on_closed, freed
 *
 * Happy path: resolve (TLS hosts only; hosts behind a relay are a stream of its client), try the
 * addresses in turn, handshake, check the certificate's name, bind ConsumerPort. Reading stays on
 * unless the owner stops it.
 *
 * Failures: each ends in CLOSING with a sentence that has the error and the remedy. After an
 * address that refuses, the next one is tried. A host that breaks the protocol is closed.
 * Ownership: the stream, the rpc client, the resolver's result. The owner sets the deadlines.
 */
#include "consumer/host/host_conn.h"

#include <stdio.h>
#include <string.h>

#include "base/io/fdsock.h"
#include "base/log.h"
#include "base/mem.h"

#define WHY_MAX         640u
#define QUEUE_MAX_BYTES (1u << 20)
#define CONSUMER_PORT   "ConsumerPort"
#define HOST_REVOKED    "the host's certificate was revoked"

enum state {
    STATE_RESOLVING,
    STATE_CONNECTING,
    STATE_BINDING,
    STATE_READY,
    STATE_CLOSING,
};

struct pfl_host_conn {
    struct pfl_list node; /* in conf.all */
    struct pfl_host_conn_conf conf;
    enum state state;
    uv_timer_t start; /* first step, so that no callback runs from inside open */
    uv_getaddrinfo_t resolver;
    bool is_resolving;
    bool is_timer_open;
    struct addrinfo *addresses; /* owned */
    struct addrinfo *next_address;
    struct pfl_stream *stream;  /* owned; NULL: none */
    struct pfl_rpc_client *rpc; /* owned */
    bool is_corked;
    struct pfl_buf corked; /* requests that go together */
    char name[PFL_HOST_NAME_MAX];
    char why[WHY_MAX];
    bool has_connected; /* bytes arrived or the handshake was done */
};

static const struct pfl_stream_ops stream_ops;

static void move(struct pfl_host_conn *c, enum state to)
{
    static const bool is_legal[5][5] = {
        [STATE_RESOLVING] = {[STATE_CONNECTING] = true, [STATE_CLOSING] = true},
        [STATE_CONNECTING] =
            {[STATE_CONNECTING] = true, [STATE_BINDING] = true, [STATE_CLOSING] = true},
        [STATE_BINDING] = {[STATE_READY] = true, [STATE_CLOSING] = true},
        [STATE_READY] = {[STATE_CLOSING] = true},
    };

    if (is_legal[c->state][to])
        c->state = to;
}

static void finish_close(struct pfl_host_conn *c)
{
    if (c->stream != NULL || c->is_resolving || c->is_timer_open)
        return;
    if (c->addresses != NULL)
        uv_freeaddrinfo(c->addresses);
    pfl_list_remove(&c->node);
    pfl_rpc_client_free(c->rpc);
    pfl_buf_fini(&c->corked);
    c->conf.on_closed(c->conf.user, c->why);
    pfl_mem_free(c);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct pfl_host_conn *c = handle->data;

    c->is_timer_open = false;
    finish_close(c);
}

/* Begins the end; the first reason stays. */
static void begin_close(struct pfl_host_conn *c)
{
    if (c->state == STATE_CLOSING)
        return;
    move(c, STATE_CLOSING);
    if (c->is_resolving)
        uv_cancel((uv_req_t *)&c->resolver);
    if (c->stream != NULL)
        pfl_stream_close(c->stream);
    uv_close((uv_handle_t *)&c->start, on_timer_closed);
}

void pfl_host_conn_close(struct pfl_host_conn *self)
{
    begin_close(self);
}

void pfl_host_conn_set_why(struct pfl_host_conn *self, const char *why)
{
    if (self->why[0] == '\0')
        snprintf(self->why, sizeof(self->why), "%s", why);
}

static void fail(struct pfl_host_conn *c, const char *why)
{
    pfl_host_conn_set_why(c, why);
    begin_close(c);
}

static const char *why_broken(int err)
{
    switch (err) {
    case PFL_EPROTO:
        return "the host sent what is not the tracing protocol: is this its consumer address?";
    case PFL_ELIMIT:
        return "the host sent more than the protocol allows";
    case PFL_ENOMEM:
        return "out of memory";
    case PFL_ETIMEOUT:
        return "the TLS handshake was not answered in time";
    default:
        return "the host closed the connection";
    }
}

static void fail_refused(struct pfl_host_conn *c, int err)
{
    const char *path = pfl_log_quote_str(c->conf.spec->address);
    char why[WHY_MAX];

    if (c->conf.spec->kind == PFL_HOST_TLS)
        snprintf(why, sizeof(why),
                 "nothing answers at this address: is perfleet-relay running there, and the port "
                 "right?");
    else if (err == PFL_ENOENT)
        snprintf(why, sizeof(why),
                 "there is no socket %s: is perfleetd running, and the path right?", path);
    else if (err == PFL_ESTRANGER)
        snprintf(why, sizeof(why), "%s", pfl_fdsock_get_service_why());
    else if (err == PFL_EPERM)
        snprintf(why, sizeof(why),
                 "not allowed to open the socket %s: join its group, or see perfleetd "
                 "--set-socket-permissions",
                 path);
    else
        snprintf(why, sizeof(why), "nothing listens on the socket %s: is perfleetd running?", path);
    fail(c, why);
}

static int send_frame(void *user, const struct iovec *iov, int iov_len, int fd)
{
    struct pfl_host_conn *c = user;
    int rc = 0;

    if (c->stream == NULL)
        return PFL_ESTATE;
    for (int i = 0; c->is_corked && rc == 0 && i < iov_len; i++)
        rc = pfl_buf_append(&c->corked, iov[i].iov_base, iov[i].iov_len);
    if (c->is_corked)
        return rc;
    return pfl_stream_writev(c->stream, iov, iov_len, fd);
}

static struct pfl_stream_conf stream_conf_of(struct pfl_host_conn *c)
{
    return (struct pfl_stream_conf){
        .loop = c->conf.loop,
        .ops = &stream_ops,
        .user = c,
        .queue_max_bytes = QUEUE_MAX_BYTES,
        .queue_low_bytes = QUEUE_MAX_BYTES / 4,
    };
}

static int on_bound(void *user, bool is_bound)
{
    struct pfl_host_conn *c = user;

    if (!is_bound) {
        pfl_host_conn_set_why(
            c, "this is no consumer socket: give the consumer's, not the producers'");
        return PFL_EPROTO;
    }
    move(c, STATE_READY);
    c->conf.on_ready(c->conf.user);
    return 0;
}

static void bind_port(struct pfl_host_conn *c)
{
    int rc;

    move(c, STATE_BINDING);
    rc = pfl_rpc_client_bind(c->rpc, CONSUMER_PORT, on_bound, c);
    if (rc != 0)
        fail(c, why_broken(rc));
}

static void connect_unix(struct pfl_host_conn *c)
{
    struct pfl_stream_conf conf = stream_conf_of(c);
    int fd;
    int rc;

    move(c, STATE_CONNECTING);
    rc = pfl_fdsock_connect_service(c->conf.spec->address, &fd);
    if (rc != 0) {
        fail_refused(c, rc);
        return;
    }
    rc = pfl_fdsock_open(&conf, fd, &c->stream);
    if (rc != 0) {
        close(fd);
        fail(c, why_broken(rc));
        return;
    }
    bind_port(c);
}

static void connect_tunnel(struct pfl_host_conn *c)
{
    struct pfl_tunnel_target target = {.host = c->conf.spec->name, .wants_zstd = true};
    struct pfl_stream_conf conf = stream_conf_of(c);
    int rc;

    move(c, STATE_CONNECTING);
    rc = c->conf.tunnel == NULL
             ? PFL_EINVAL
             : pfl_tunnel_client_connect(c->conf.tunnel, &target, &conf, &c->stream);
    if (rc != 0)
        fail(c, why_broken(rc));
}

static int open_address(struct pfl_host_conn *c, const struct addrinfo *address)
{
    struct pfl_stream_conf conf = stream_conf_of(c);
    struct pfl_tls_handshake handshake = {.conf = *c->conf.tls,
                                          .timeout_ms = c->conf.handshake_timeout_ms};
    int fd;
    int rc = pfl_fdsock_connect_addr(address->ai_addr, address->ai_addrlen, &fd);

    if (rc != 0)
        return rc;
    rc = pfl_tls_stream_open(&conf, &handshake, fd, &c->stream);
    if (rc != 0)
        close(fd);
    return rc;
}

static void try_next_address(struct pfl_host_conn *c)
{
    int rc = PFL_ENOENT;

    move(c, STATE_CONNECTING);
    while (rc != 0 && c->next_address != NULL) {
        const struct addrinfo *address = c->next_address;

        c->next_address = address->ai_next;
        rc = open_address(c, address);
    }
    if (rc != 0)
        fail_refused(c, rc);
}

static void on_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *result)
{
    struct pfl_host_conn *c = request->data;
    char why[WHY_MAX];

    c->is_resolving = false;
    c->addresses = result;
    if (c->state == STATE_CLOSING) {
        finish_close(c);
        return;
    }
    if (status != 0) {
        snprintf(why, sizeof(why), "the name %s cannot be resolved: %s",
                 pfl_log_quote_str(c->conf.spec->address), uv_strerror(status));
        fail(c, why);
        return;
    }
    c->next_address = result;
    try_next_address(c);
}

static void on_start(uv_timer_t *timer)
{
    static const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct pfl_host_conn *c = timer->data;
    const struct pfl_host_spec *spec = c->conf.spec;

    if (spec->kind != PFL_HOST_TLS) {
        if (spec->kind == PFL_HOST_UNIX)
            connect_unix(c);
        else
            connect_tunnel(c);
        return;
    }
    c->resolver.data = c;
    if (uv_getaddrinfo(c->conf.loop, &c->resolver, on_resolved, spec->address, spec->port,
                       &hints) != 0)
        fail(c, why_broken(PFL_ENOMEM));
    else
        c->is_resolving = true;
}

/* By the current list; never before the handshake. */
static bool is_revoked(const struct pfl_host_conn *c)
{
    return pfl_tls_conf_is_revoked(*c->conf.tls, pfl_tls_stream_get_identity(c->stream));
}

/* Checks that the certificate is of the requested host. */
static bool check_identity(struct pfl_host_conn *c)
{
    const struct pfl_tls_identity *identity = pfl_tls_stream_get_identity(c->stream);
    const struct pfl_host_spec *spec = c->conf.spec;
    char fleet[PFL_HOST_NAME_MAX];
    char role[PFL_HOST_NAME_MAX];
    char why[WHY_MAX] = "";

    if (!pfl_host_uri_parse(identity->uri, fleet, role, c->name) || strcmp(role, "host") != 0)
        snprintf(why, sizeof(why), "its certificate is not a host's (it names %s)",
                 pfl_log_quote_str(identity->uri));
    else if (c->conf.fleet != NULL && strcmp(fleet, c->conf.fleet) != 0)
        snprintf(why, sizeof(why), "its certificate is of fleet %s, yours of fleet %s", fleet,
                 c->conf.fleet);
    else if (spec->is_named && strcmp(spec->name, c->name) != 0)
        snprintf(why, sizeof(why),
                 "the host there is %s, not %s: correct the address or the NAME before '='",
                 c->name, spec->name);
    else if (is_revoked(c)) /* by a list that came during the handshake */
        snprintf(why, sizeof(why), "%s", HOST_REVOKED);
    if (why[0] == '\0')
        return true;
    fail(c, why);
    return false;
}

static void on_stream_ready(void *user)
{
    struct pfl_host_conn *c = user;

    c->has_connected = true;
    if (c->conf.spec->kind == PFL_HOST_TUNNEL)
        snprintf(c->name, sizeof(c->name), "%s", c->conf.spec->name);
    if (c->state == STATE_CONNECTING &&
        (c->conf.spec->kind == PFL_HOST_TUNNEL || check_identity(c)))
        bind_port(c);
}

static void on_stream_data(void *user, struct pfl_span data)
{
    struct pfl_host_conn *c = user;
    int rc;

    if (c->state == STATE_CLOSING)
        return;
    c->has_connected = true;
    rc = pfl_rpc_client_feed(c->rpc, data);
    if (rc != 0)
        fail(c, why_broken(rc));
}

static bool is_tunnel(const struct pfl_host_conn *c)
{
    return c->stream != NULL && c->conf.spec->kind == PFL_HOST_TUNNEL;
}

bool pfl_host_conn_is_resuming(const struct pfl_host_conn *self)
{
    struct pfl_tunnel_stream_stats stats;

    if (!is_tunnel(self) || !self->has_connected)
        return false;
    pfl_tunnel_stream_get_stats(self->stream, &stats);
    return !stats.is_attached;
}

unsigned pfl_host_conn_get_resumes(const struct pfl_host_conn *self)
{
    struct pfl_tunnel_stream_stats stats;

    if (!is_tunnel(self))
        return 0;
    pfl_tunnel_stream_get_stats(self->stream, &stats);
    return stats.resumes;
}

static const char *why_ended(const struct pfl_host_conn *c, int err)
{
    if (c->conf.spec->kind == PFL_HOST_TLS && c->state == STATE_BINDING)
        return "the host closed the connection after the handshake: it may not accept your "
               "certificate, or its perfleetd is down; its relay's log says which";
    return why_broken(err);
}

static void on_stream_eof(void *user)
{
    fail(user, why_ended(user, PFL_ECLOSED));
}

static const char *error_of_stream(const struct pfl_host_conn *c)
{
    switch (c->conf.spec->kind) {
    case PFL_HOST_TLS:
        return pfl_tls_stream_get_error(c->stream);
    case PFL_HOST_TUNNEL:
        return pfl_tunnel_stream_get_error(c->stream);
    default:
        return "";
    }
}

static void on_stream_closed(void *user, int err)
{
    struct pfl_host_conn *c = user;
    char why[WHY_MAX];

    snprintf(why, sizeof(why), "%s", error_of_stream(c));
    c->stream = NULL;
    if (c->state == STATE_CLOSING) {
        finish_close(c);
        return;
    }
    if (!c->has_connected && c->next_address != NULL && why[0] == '\0') {
        try_next_address(c);
        return;
    }
    if (why[0] != '\0')
        fail(c, why);
    else if (c->has_connected)
        fail(c, why_ended(c, err));
    else
        fail_refused(c, err);
}

static const struct pfl_stream_ops stream_ops = {
    .on_data = on_stream_data,
    .on_eof = on_stream_eof,
    .on_ready = on_stream_ready,
    .on_closed = on_stream_closed,
};

int pfl_host_conn_open(const struct pfl_host_conn_conf *conf, struct pfl_host_conn **ret_conn)
{
    struct pfl_host_conn *c = pfl_mem_zalloc(sizeof(*c));
    struct pfl_rpc_client_conf rpc = {.user = c, .send = send_frame};
    int rc;

    if (c == NULL)
        return PFL_ENOMEM;
    c->conf = *conf;
    pfl_buf_init(&c->corked, PFL_CONSUMER_CORKED_MAX_BYTES);
    rc = pfl_rpc_client_new(&rpc, &c->rpc);
    if (rc != 0) {
        pfl_mem_free(c);
        return rc;
    }
    uv_timer_init(conf->loop, &c->start);
    c->start.data = c;
    c->is_timer_open = true;
    uv_timer_start(&c->start, on_start, 0, 0);
    if (conf->all != NULL)
        pfl_list_append(conf->all, &c->node);
    *ret_conn = c;
    return 0;
}

bool pfl_host_conn_pass(struct pfl_host_conn *self, const struct pfl_host_spec *spec, void *user)
{
    if (self->state != STATE_READY)
        return false;
    self->conf.spec = spec;
    self->conf.user = user;
    return true;
}

void pfl_host_conn_review_all(struct pfl_list *all)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, all) {
        struct pfl_host_conn *c = PFL_CONTAINER_OF(it, struct pfl_host_conn, node);

        if (c->conf.spec->kind == PFL_HOST_TLS && c->stream != NULL && is_revoked(c))
            fail(c, HOST_REVOKED);
    }
}

const char *pfl_host_conn_get_name(const struct pfl_host_conn *self)
{
    return self->name;
}

int64_t pfl_host_conn_get_cert_end_s(const struct pfl_host_conn *self)
{
    return self->stream != NULL && self->conf.spec->kind == PFL_HOST_TLS
               ? pfl_tls_stream_get_identity(self->stream)->not_after_s
               : 0;
}

const char *pfl_host_conn_get_tls_version(const struct pfl_host_conn *self)
{
    return self->stream != NULL && self->conf.spec->kind == PFL_HOST_TLS
               ? pfl_tls_stream_get_version(self->stream)
               : "";
}

int pfl_host_conn_invoke(struct pfl_host_conn *self, const char *method, struct pfl_span args,
                         pfl_rpc_reply_cb cb, void *user)
{
    if (self->state != STATE_READY)
        return PFL_ESTATE;
    return pfl_rpc_client_invoke(self->rpc, method, args, -1, cb, user);
}

void pfl_host_conn_cork(struct pfl_host_conn *self)
{
    self->is_corked = true;
}

int pfl_host_conn_uncork(struct pfl_host_conn *self)
{
    struct pfl_span together = pfl_buf_get(&self->corked);
    struct iovec iov = {(void *)(uintptr_t)together.data, together.len};
    int rc = PFL_ESTATE;

    self->is_corked = false;
    if (self->state == STATE_READY && self->stream != NULL)
        rc = pfl_stream_writev(self->stream, &iov, 1, -1);
    pfl_buf_clear(&self->corked);
    return rc;
}

void pfl_host_conn_read_stop(struct pfl_host_conn *self)
{
    if (self->stream != NULL && self->state != STATE_CLOSING)
        pfl_stream_read_stop(self->stream);
}

void pfl_host_conn_read_start(struct pfl_host_conn *self)
{
    if (self->stream != NULL && self->state != STATE_CLOSING)
        pfl_stream_read_start(self->stream);
}
