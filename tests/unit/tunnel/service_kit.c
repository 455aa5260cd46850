/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/tunnel/service_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h> /* mkdtemp */
#include <unistd.h>

#include <cmocka.h>

#include "base/io/fdsock.h"
#include "base/io/loop.h"
#include "base/mem.h"

#define LAST_TURNS 2000

static struct service_peer *peer_of(struct pfl_list *node)
{
    return PFL_CONTAINER_OF(node, struct service_peer, node);
}

static int send_frame(void *user, const struct iovec *iov, int iov_len, int fd)
{
    struct service_peer *p = user;

    return pfl_stream_writev(p->stream, iov, iov_len, fd);
}

static void on_data(void *user, struct pfl_span data)
{
    struct service_peer *p = user;

    if (p->kit->on_data != NULL)
        p->kit->on_data(p, data);
    else if (pfl_rpc_host_feed(&p->rpc, data) != 0)
        pfl_stream_close(p->stream);
}

static void on_eof(void *user)
{
    pfl_stream_close(((struct service_peer *)user)->stream);
}

static void on_closed(void *user, int err)
{
    struct service_peer *p = user;

    (void)err;
    if (p->kit->on_gone != NULL)
        p->kit->on_gone(p);
    pfl_list_remove(&p->node);
    pfl_rpc_host_fini(&p->rpc);
    pfl_listener_release(p->kit->listener);
    pfl_mem_free(p);
}

static const struct pfl_stream_ops ops = {
    .on_data = on_data, .on_eof = on_eof, .on_closed = on_closed};

static void on_accept(void *user, int fd)
{
    struct service_kit *kit = user;
    struct service_peer *p = pfl_mem_zalloc(sizeof(*p));
    struct pfl_stream_conf stream = {
        .loop = &kit->loop, .ops = &ops, .user = p, .queue_max_bytes = 1 << 20};
    struct pfl_rpc_host_conf rpc = {
        .services = kit->service, .services_len = 1, .user = p, .send = send_frame};

    kit->connections++;
    if (p == NULL || pfl_fdsock_open(&stream, fd, &p->stream) != 0) {
        pfl_mem_free(p);
        (void)close(fd);
        pfl_listener_release(kit->listener);
        return;
    }
    p->kit = kit;
    pfl_list_append(&kit->peers, &p->node);
    pfl_rpc_host_init(&p->rpc, &rpc);
}

void service_kit_open(struct service_kit *kit)
{
    struct pfl_listener_conf conf = {.loop = &kit->loop,
                                     .address = kit->path,
                                     .max_connections = 64,
                                     .mode = -1,
                                     .on_accept = on_accept,
                                     .user = kit};

    (void)snprintf(kit->folder, sizeof(kit->folder), "/tmp/pfl-kit-XXXXXX");
    assert_non_null(mkdtemp(kit->folder));
    (void)snprintf(kit->path, sizeof(kit->path), "%s/s", kit->folder);
    assert_int_equal(pfl_loop_init(&kit->loop), 0);
    pfl_list_init(&kit->peers);
    assert_int_equal(pfl_listener_open(&conf, &kit->listener), 0);
}

void service_kit_stop_listening(struct service_kit *kit)
{
    if (kit->listener != NULL)
        pfl_listener_close(kit->listener);
    kit->listener = NULL;
    for (int i = 0; i < LAST_TURNS && uv_run(&kit->loop, UV_RUN_NOWAIT) != 0; i++)
        continue; /* a claim that failed may have left something open */
}

void service_kit_close(struct service_kit *kit)
{
    service_kit_stop_listening(kit);
    assert_int_equal(uv_loop_close(&kit->loop), 0);
    (void)unlink(kit->path);
    (void)rmdir(kit->folder);
}

void service_kit_hang_up(struct service_kit *kit)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &kit->peers)
        pfl_stream_close(peer_of(it)->stream);
}

int service_peer_reply(struct service_peer *peer, struct pfl_rpc_request request, unsigned flags,
                       struct pfl_span body)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)body.data, .iov_len = body.len};

    return pfl_rpc_host_reply(&peer->rpc, request, flags, &iov, body.len != 0, -1);
}
