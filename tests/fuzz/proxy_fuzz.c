/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A proxy between clients of its socket and a host that answers as it likes. One act a record:
 * clients come, ask any method with any bytes and a file's descriptor, send what is no frame, and
 * leave; the host answers any request again and again, says what is no answer, and goes. At the end
 * all of them are gone, and nothing is left: neither memory nor descriptors.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/closer.h"
#include "base/io/loop.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "consumer/proxy/proxy.h"
#include "perfetto/ipc.fields.h"
#include "tests/fuzz/played_host.h"

#define CLIENTS  3u
#define METHODS  15u
#define ACTS_MAX 64u
#define ARGS_MAX 4096u

enum act {
    ACT_ASK,    /* u8 client, u8 method (and whether with a file), u16 len, args */
    ACT_SAY,    /* u8 client, u16 len, bytes */
    ACT_ANSWER, /* u8 host, u8 which, u8 flags, u16 len, body */
    ACT_RAW,    /* u8 host, u16 len, bytes */
    ACT_LEAVE,  /* u8 client */
    ACT_GO,     /* u8 host */
    ACTS,
};

/* In place of the consumer's: it leads to a played host. One for each client that came. */
struct pfl_host_conn {
    struct pfl_list node;
    struct pfl_host_conn_conf conf;
    struct played_host host;
    uv_timer_t timer; /* what is due to the owner */
    bool is_ready;
    bool is_closing;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uv_loop_t loop;
static struct pfl_list conns;
static struct pfl_proxy *proxy; /* NULL: closed */
static int clients[CLIENTS];    /* -1: not there */
static uint64_t requests;

/* ---- the hosts ---- */

static void on_conn_closed(uv_handle_t *handle)
{
    struct pfl_host_conn *c = handle->data;

    pfl_list_remove(&c->node);
    played_host_fini(&c->host);
    c->conf.on_closed(c->conf.user, "");
    pfl_mem_free(c);
}

void pfl_host_conn_close(struct pfl_host_conn *self)
{
    if (self->is_closing)
        return;
    self->is_closing = true;
    uv_close((uv_handle_t *)&self->timer, on_conn_closed);
}

static void on_due(uv_timer_t *timer)
{
    struct pfl_host_conn *c = timer->data;

    c->is_ready = true;
    c->conf.on_ready(c->conf.user);
}

int pfl_host_conn_open(const struct pfl_host_conn_conf *conf, struct pfl_host_conn **ret_conn)
{
    struct pfl_host_conn *c = pfl_mem_zalloc(sizeof(*c));

    if (c == NULL)
        return PFL_ENOMEM;
    c->conf = *conf;
    played_host_init(&c->host);
    (void)uv_timer_init(&loop, &c->timer);
    c->timer.data = c;
    (void)uv_timer_start(&c->timer, on_due, 0, 0);
    pfl_list_append(&conns, &c->node);
    *ret_conn = c;
    return 0;
}

int pfl_host_conn_invoke(struct pfl_host_conn *self, const char *method, struct pfl_span args,
                         pfl_rpc_reply_cb cb, void *user)
{
    if (self->is_closing)
        return PFL_ECLOSED;
    return pfl_rpc_client_invoke(self->host.client, method, args, -1, cb, user);
}

void pfl_host_conn_read_stop(struct pfl_host_conn *self)
{
    (void)self;
}

void pfl_host_conn_read_start(struct pfl_host_conn *self)
{
    (void)self;
}

static struct pfl_host_conn *find_conn(unsigned index)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &conns) {
        struct pfl_host_conn *c = PFL_CONTAINER_OF(it, struct pfl_host_conn, node);

        if (index-- == 0)
            return c->is_ready && !c->is_closing ? c : NULL;
    }
    return NULL;
}

static void act_of_host(enum act act, struct pfl_reader *r)
{
    struct pfl_host_conn *c = find_conn(pfl_reader_u8(r) % CLIENTS);
    uint8_t which = act == ACT_ANSWER ? pfl_reader_u8(r) : 0;
    uint8_t flags = act == ACT_ANSWER ? pfl_reader_u8(r) : 0;
    size_t len = act == ACT_GO ? 0 : pfl_reader_u16(r);
    struct pfl_span bytes = pfl_reader_bytes(r, len < r->left ? len : r->left);

    if (c == NULL || r->failed)
        return;
    played_host_pump(&c->host);
    if (act == ACT_ANSWER)
        played_host_answer(&c->host, which, flags, bytes);
    else if (act == ACT_RAW)
        played_host_say(&c->host, bytes);
    if (act == ACT_GO || c->host.rc != 0)
        pfl_host_conn_close(c);
}

/* ---- the clients ---- */

static void send_bytes(int sock, struct pfl_span bytes, int fd)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.bytes = {0}};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes.data, .iov_len = bytes.len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    if (fd >= 0) {
        msg.msg_control = control.bytes;
        msg.msg_controllen = sizeof(control.bytes);
        control.align.cmsg_level = SOL_SOCKET;
        control.align.cmsg_type = SCM_RIGHTS;
        control.align.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
    }
    (void)!sendmsg(sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static int get_client(unsigned index)
{
    int fds[2];

    if (clients[index] >= 0)
        return clients[index];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0)
        abort();
    clients[index] = fds[0];
    pfl_proxy_adopt(proxy, fds[1]);
    return fds[0];
}

static void ask(int sock, uint8_t method, struct pfl_span args)
{
    uint8_t frame[ARGS_MAX + 64];
    struct pfl_writer w = pfl_writer_of(frame + 4, sizeof(frame) - 4);
    struct pfl_writer prefix = pfl_writer_of(frame, 4);
    int fd = method & 0x80 ? memfd_create("file", MFD_CLOEXEC) : -1;
    size_t len;

    pfl_writer_field_varint(&w, IPC_FRAME__REQUEST_ID, ++requests);
    pfl_writer_field_header(&w, IPC_FRAME__MSG_INVOKE_METHOD,
                            4 + 1 + pfl_varint_size(args.len) + args.len);
    pfl_writer_field_varint(&w, IPC_FRAME__INVOKE_METHOD__SERVICE_ID, 1);
    pfl_writer_field_varint(&w, IPC_FRAME__INVOKE_METHOD__METHOD_ID, 1 + (method & 0x7f) % METHODS);
    pfl_writer_field_header(&w, IPC_FRAME__INVOKE_METHOD__ARGS_PROTO, args.len);
    pfl_writer_bytes(&w, args.data, args.len);
    if (w.failed)
        abort();
    len = sizeof(frame) - 4 - w.left;
    pfl_writer_u32(&prefix, (uint32_t)len);
    send_bytes(sock, pfl_span_of(frame, len + 4), fd);
    if (fd >= 0)
        (void)close(fd);
}

static void act_of_client(enum act act, struct pfl_reader *r)
{
    unsigned index = pfl_reader_u8(r) % CLIENTS;
    uint8_t method = act == ACT_ASK ? pfl_reader_u8(r) : 0;
    size_t len = act == ACT_LEAVE ? 0 : pfl_reader_u16(r) % ARGS_MAX;
    struct pfl_span bytes = pfl_reader_bytes(r, len < r->left ? len : r->left);

    if (r->failed)
        return;
    if (act == ACT_ASK) {
        ask(get_client(index), method, bytes);
    } else if (act == ACT_SAY) {
        send_bytes(get_client(index), bytes, -1);
    } else if (clients[index] >= 0) {
        (void)close(clients[index]);
        clients[index] = -1;
    }
}

/* ---- the world ---- */

static void on_proxy_closed(void *user)
{
    (void)user;
    proxy = NULL;
}

static void turn(void)
{
    for (unsigned i = 0; i < 4; i++)
        (void)uv_run(&loop, UV_RUN_NOWAIT);
}

static void begin(void)
{
    const struct pfl_proxy_conf conf = {.host = {.loop = &loop}, .on_closed = on_proxy_closed};

    pfl_list_init(&conns);
    requests = 0;
    for (unsigned i = 0; i < CLIENTS; i++)
        clients[i] = -1;
    if (pfl_loop_init(&loop) != 0 || pfl_proxy_open(&conf, &proxy) != 0)
        abort();
}

static void end(void)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    for (unsigned i = 0; i < CLIENTS; i++) {
        if (clients[i] >= 0)
            (void)close(clients[i]);
    }
    turn();
    pfl_proxy_close(proxy);
    PFL_LIST_EACH_SAFE (it, tmp, &conns)
        pfl_host_conn_close(PFL_CONTAINER_OF(it, struct pfl_host_conn, node));
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    pfl_closer_wait();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pfl_reader r = pfl_reader_of(pfl_span_of(data, size));
    struct pfl_mem_stats stats;
    int before;
    int after;

    pfl_log_set_level(PFL_LOG_ERROR);
    begin();
    before = dup(0);
    (void)close(before);
    for (unsigned i = 0; i < ACTS_MAX && r.left != 0; i++) {
        enum act act = (enum act)(pfl_reader_u8(&r) % ACTS);

        if (act == ACT_ASK || act == ACT_SAY || act == ACT_LEAVE)
            act_of_client(act, &r);
        else
            act_of_host(act, &r);
        turn();
    }
    end();
    after = dup(0);
    (void)close(after);
    pfl_mem_stats_get(&stats);
    if (proxy != NULL || uv_loop_close(&loop) != 0 || after > before || stats.live_blocks != 0)
        abort();
    return 0;
}
