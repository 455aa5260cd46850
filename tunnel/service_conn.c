/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connects to the service of this host: see service_conn.h.
 *
 * Happy path: connect, bind, requests and their replies. Failures: any error closes the connection,
 * and is reported once. Ownership: stream and rpc client until the stream's on_closed. Limits:
 * QUEUE_BYTES of requests that the service does not read.
 */
#include "tunnel/service_conn.h"

#include <unistd.h>

#include "base/io/fdsock.h"
#include "base/mem.h"

#define QUEUE_BYTES (256u * 1024)

struct pfl_service_conn {
    struct pfl_service_conn_conf conf;
    struct pfl_stream *stream;  /* owned until its on_closed */
    struct pfl_rpc_client *rpc; /* owned */
    bool is_closing;
};

void pfl_service_conn_close(struct pfl_service_conn *self)
{
    if (self->is_closing)
        return;
    self->is_closing = true;
    pfl_stream_close(self->stream);
}

static int on_bound(void *user, bool is_bound)
{
    struct pfl_service_conn *c = user;

    if (!is_bound)
        return PFL_EPROTO;
    c->conf.on_bound(c->conf.user);
    return 0;
}

static int send_frame(void *user, const struct iovec *iov, int iov_len, int fd)
{
    struct pfl_service_conn *c = user;

    return pfl_stream_writev(c->stream, iov, iov_len, fd);
}

static void on_data(void *user, struct pfl_span data)
{
    struct pfl_service_conn *c = user;

    if (!c->is_closing && pfl_rpc_client_feed(c->rpc, data) != 0)
        pfl_service_conn_close(c);
}

static void on_eof(void *user)
{
    pfl_service_conn_close(user);
}

static void on_closed(void *user, int err)
{
    struct pfl_service_conn *c = user;

    (void)err;
    c->conf.on_closed(c->conf.user);
    pfl_rpc_client_free(c->rpc);
    pfl_mem_free(c);
}

static const struct pfl_stream_ops ops = {
    .on_data = on_data, .on_eof = on_eof, .on_closed = on_closed};

int pfl_service_conn_open(const struct pfl_service_conn_conf *conf,
                          struct pfl_service_conn **ret_conn)
{
    struct pfl_service_conn *c = pfl_mem_zalloc(sizeof(*c));
    const struct pfl_stream_conf stream = {
        .loop = conf->loop, .ops = &ops, .user = c, .queue_max_bytes = QUEUE_BYTES};
    const struct pfl_rpc_client_conf rpc = {.user = c, .send = send_frame};
    int fd = -1;
    int rc;

    if (c == NULL)
        return PFL_ENOMEM;
    c->conf = *conf;
    rc = pfl_rpc_client_new(&rpc, &c->rpc);
    if (rc == 0)
        rc = pfl_fdsock_connect_service(conf->socket, &fd);
    if (rc == 0)
        rc = pfl_fdsock_open(&stream, fd, &c->stream);
    if (rc != 0) {
        if (fd >= 0)
            (void)close(fd);
        pfl_rpc_client_free(c->rpc);
        pfl_mem_free(c);
        return rc;
    }
    if (pfl_rpc_client_bind(c->rpc, conf->port != NULL ? conf->port : "ConsumerPort", on_bound,
                            c) != 0)
        pfl_service_conn_close(c);
    *ret_conn = c;
    return 0;
}

int pfl_service_conn_invoke(struct pfl_service_conn *self, const char *method, struct pfl_span args,
                            pfl_rpc_reply_cb cb, void *user)
{
    if (self->is_closing)
        return PFL_ESTATE;
    return pfl_rpc_client_invoke(self->rpc, method, args, -1, cb, user);
}

void pfl_service_conn_set_paused(struct pfl_service_conn *self, bool is_paused)
{
    if (self->is_closing)
        return;
    if (is_paused)
        pfl_stream_read_stop(self->stream);
    else
        pfl_stream_read_start(self->stream);
}

bool pfl_service_conn_has_method(const struct pfl_service_conn *self, const char *method)
{
    return pfl_rpc_client_has_method(self->rpc, method);
}
