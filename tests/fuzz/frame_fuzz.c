/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection's bytes into both sides of the protocol. The first byte says into pieces of which
 * size they are cut: the answers must be those of the uncut bytes.
 */
#include <stdlib.h>

#include "proto/ipc/rpc_client.h"
#include "proto/ipc/rpc_host.h"
#include "tests/support/fuzz_note.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
    int rc;
    uint64_t sum; /* of everything that came out */
};

struct side {
    struct pfl_rpc_host host;
    struct outcome out;
};

static void add(struct outcome *out, struct pfl_span bytes)
{
    note_bytes("  ", bytes);
    out->sum = out->sum * 31 + bytes.len;
    for (size_t i = 0; i < bytes.len; i++)
        out->sum = out->sum * 31 + bytes.data[i];
}

static int on_send(void *user, const struct iovec *iov, int iov_len, int fd)
{
    (void)fd;
    note("send");
    for (int i = 0; i < iov_len; i++)
        add(&((struct side *)user)->out, pfl_span_of(iov[i].iov_base, iov[i].iov_len));
    return 0;
}

static int answer(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    struct side *s = user;
    struct iovec body = {(void *)(uintptr_t)args.data, args.len};
    int rc;

    add(&s->out, args);
    if (args.len != 0 && args.data[0] == 0xff)
        return PFL_EPARSE;
    rc = pfl_rpc_host_reply(&s->host, request, PFL_RPC_SUCCESS, &body, 1, -1);
    return rc == PFL_ELIMIT ? 0 : rc;
}

static void on_peer_identity(void *user, const struct pfl_rpc_peer_identity *identity)
{
    add(&((struct side *)user)->out, identity->machine_id_hint);
    add(&((struct side *)user)->out, identity->machine_name);
}

static struct outcome run_host(struct pfl_span bytes, size_t piece)
{
    static const struct pfl_rpc_method methods[] = {{"A", answer}, {"B", answer}};
    static const struct pfl_rpc_service services[] = {{"ProducerPort", methods, 2},
                                                      {"ConsumerPort", methods, 1}};
    struct side s = {.out = {0, 0}};
    const struct pfl_rpc_host_conf conf = {.services = services,
                                           .services_len = 2,
                                           .user = &s,
                                           .send = on_send,
                                           .on_peer_identity = on_peer_identity};

    pfl_rpc_host_init(&s.host, &conf);
    for (size_t at = 0; at < bytes.len && s.out.rc == 0; at += piece) {
        size_t len = piece < bytes.len - at ? piece : bytes.len - at;

        s.out.rc = pfl_rpc_host_feed(&s.host, pfl_span_of(bytes.data + at, len));
    }
    note("host: %s", pfl_err_str(s.out.rc));
    pfl_rpc_host_fini(&s.host);
    return s.out;
}

static int on_reply(void *user, const struct pfl_rpc_reply *reply)
{
    struct side *s = user;

    note("reply: success %d, more %d", reply->success, reply->has_more);
    s->out.sum = s->out.sum * 7 + reply->success * 2u + reply->has_more;
    add(&s->out, reply->body);
    return 0;
}

static int on_bound(void *user, bool is_bound)
{
    struct side *s = user;

    note("bound: %d", is_bound);
    s->out.sum = s->out.sum * 7 + is_bound;
    return 0;
}

/* Request 1 binds; requests 2 to 4 are tried before each piece. */
static struct outcome run_client(struct pfl_span bytes, size_t piece)
{
    static const char name[] = "EnableTracing";
    struct side s = {.out = {0, 0}};
    const struct pfl_rpc_client_conf conf = {.user = &s, .send = on_send};
    struct pfl_rpc_client *client;
    unsigned asked = 0;

    if (pfl_rpc_client_new(&conf, &client) != 0 ||
        pfl_rpc_client_bind(client, "ConsumerPort", on_bound, &s) != 0)
        abort();
    for (size_t at = 0; at < bytes.len && s.out.rc == 0; at += piece) {
        size_t len = piece < bytes.len - at ? piece : bytes.len - at;

        if (asked < 3 && pfl_rpc_client_has_method(client, name)) {
            asked++;
            if (pfl_rpc_client_invoke(client, name, pfl_span_of("x", 1), -1, on_reply, &s) != 0)
                abort();
        }
        s.out.rc = pfl_rpc_client_feed(client, pfl_span_of(bytes.data + at, len));
    }
    note("client: %s", pfl_err_str(s.out.rc));
    pfl_rpc_client_free(client);
    return s.out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pfl_span bytes;
    struct outcome whole;
    struct outcome cut;
    size_t piece;

    if (size < 2)
        return 0;
    piece = (size_t)data[0] + 1;
    bytes = pfl_span_of(data + 1, size - 1);
    whole = run_host(bytes, bytes.len);
    cut = run_host(bytes, piece);
    if (whole.rc != cut.rc || whole.sum != cut.sum)
        abort();
    (void)run_client(bytes, piece);
    return 0;
}
