/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/played_host.h"

#include <stdlib.h>

#define TO_HOST_MAX (64u << 20)

static int on_request(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    struct played_host *h = user;

    (void)args;
    if (h->asked_len < PLAYED_HOST_ASKED_MAX)
        h->asked[h->asked_len++] = request;
    return 0;
}

#define METHOD(name)                                                                               \
    {                                                                                              \
#name, on_request                                                                          \
    }
static const struct pfl_rpc_method methods[] = {
    METHOD(EnableTracing),
    METHOD(DisableTracing),
    METHOD(ReadBuffers),
    METHOD(FreeBuffers),
    METHOD(Flush),
    METHOD(StartTracing),
    METHOD(ChangeTraceConfig),
    METHOD(Detach),
    METHOD(Attach),
    METHOD(GetTraceStats),
    METHOD(ObserveEvents),
    METHOD(QueryServiceState),
    METHOD(QueryCapabilities),
    METHOD(SaveTraceForBugreport),
    METHOD(CloneSession),
};
static const struct pfl_rpc_service services[] = {
    {"ConsumerPort", methods, sizeof(methods) / sizeof(methods[0])}};

static int send_to_host(void *user, const struct iovec *iov, int iov_len, int fd)
{
    struct played_host *h = user;
    int rc = 0;

    (void)fd;
    for (int i = 0; rc == 0 && i < iov_len; i++)
        rc = pfl_buf_append(&h->to_host, iov[i].iov_base, iov[i].iov_len);
    return rc;
}

static int send_to_client(void *user, const struct iovec *iov, int iov_len, int fd)
{
    struct played_host *h = user;

    (void)fd;
    for (int i = 0; i < iov_len; i++)
        played_host_say(h, pfl_span_of(iov[i].iov_base, iov[i].iov_len));
    return 0;
}

static int on_bound(void *user, bool is_bound)
{
    (void)user;
    if (!is_bound)
        abort();
    return 0;
}

void played_host_init(struct played_host *self)
{
    const struct pfl_rpc_client_conf client = {.user = self, .send = send_to_host};
    const struct pfl_rpc_host_conf host = {
        .services = services, .services_len = 1, .user = self, .send = send_to_client};

    self->asked_len = 0;
    self->rc = 0;
    pfl_buf_init(&self->to_host, TO_HOST_MAX);
    pfl_rpc_host_init(&self->host, &host);
    if (pfl_rpc_client_new(&client, &self->client) != 0 ||
        pfl_rpc_client_bind(self->client, "ConsumerPort", on_bound, self) != 0)
        abort();
    played_host_pump(self);
}

void played_host_fini(struct played_host *self)
{
    pfl_rpc_client_free(self->client);
    pfl_rpc_host_fini(&self->host);
    pfl_buf_fini(&self->to_host);
}

/* Its own bytes never break the host. */
void played_host_pump(struct played_host *self)
{
    struct pfl_buf bytes = self->to_host;

    pfl_buf_init(&self->to_host, TO_HOST_MAX);
    if (pfl_rpc_host_feed(&self->host, pfl_buf_get(&bytes)) != 0)
        abort();
    pfl_buf_fini(&bytes);
}

void played_host_answer(struct played_host *self, unsigned which, unsigned flags,
                        struct pfl_span body)
{
    struct iovec iov = {(void *)(uintptr_t)body.data, body.len};

    if (self->asked_len == 0 || self->rc != 0)
        return;
    (void)!pfl_rpc_host_reply(&self->host, self->asked[which % self->asked_len], flags, &iov, 1,
                              -1);
}

void played_host_say(struct played_host *self, struct pfl_span bytes)
{
    if (self->rc == 0)
        self->rc = pfl_rpc_client_feed(self->client, bytes);
}
