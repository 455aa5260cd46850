/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client clones a session whose file is written here.
 *
 *     host's answer -> the source read out once more -> its file copied -> what the service tells
 *     of the clone behind it -> the client's answer
 *
 * Happy path: the host's clone has the content of the buffers and no file; the shared identity
 * marks it as a clone of a pulled session. The source's own next read-out brings the content of the
 * buffers, so that the copy of its file has all of it, once, under one set of sequence ids. Of the
 * host's clone only the service's packets about it are used. Failures: no descriptor, a file that
 * cannot be read or written, a lost source: the client's answer has the reason, and the host's
 * clone is freed. Ownership: descriptors, answer and packets while a clone is in progress; the
 * copying thread is asked to stop and waited for. Limits: one clone per client,
 * CLONE_STORY_MAX_BYTES.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "consumer/proxy/clone_response.h"
#include "consumer/proxy/proxy_impl.h"

#define CLONE_STORY_MAX_BYTES  (4u << 20)
#define CLONE_ANSWER_MAX_BYTES 65536u
#define COPY_BYTES             65536u /* at a time, on the thread's stack */
#define COPY_THREADS           4u

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* No clone is in progress any more. */
static void settle(struct pfl_proxy_clone *clone)
{
    if (clone->state == PFL_PROXY_CLONE_PACKETS)
        pfl_packet_scan_fini(&clone->scan);
    clone->state = PFL_PROXY_CLONE_NONE;
    clone->source = NULL;
    pfl_buf_fini(&clone->answer);
    pfl_buf_fini(&clone->service_packets);
    close_fd(&clone->from);
    close_fd(&clone->to);
}

static int reply(struct pfl_proxy_client *c, struct pfl_rpc_request request, struct pfl_span data)
{
    struct iovec body = {(void *)(uintptr_t)data.data, data.len};

    return pfl_rpc_host_reply(&c->rpc, request, PFL_RPC_SUCCESS, &body, 1, -1);
}

static int tell(struct pfl_proxy_client *c, struct pfl_rpc_request request, const char *why)
{
    struct pfl_buf body;
    int rc;

    pfl_buf_init(&body, CLONE_ANSWER_MAX_BYTES);
    rc = pfl_clone_response_refuse(why, &body);
    if (rc == 0)
        rc = reply(c, request, pfl_buf_get(&body));
    pfl_buf_fini(&body);
    return rc;
}

/* The client gets the reason, and the host's clone is freed. */
static void refuse(struct pfl_proxy_client *c, struct pfl_rpc_request request, const char *why)
{
    int rc = tell(c, request, why);

    if (rc == 0 && c->conn != NULL)
        rc = pfl_host_conn_invoke(c->conn, "FreeBuffers", pfl_span_of(NULL, 0), NULL, NULL);
    if (rc != 0)
        pfl_proxy_client_fail(c, "a clone that failed cannot be given back");
}

static void give_up(struct pfl_proxy_client *c, const char *why)
{
    struct pfl_rpc_request request = c->clone.request;

    settle(&c->clone);
    refuse(c, request, why);
}

/* The clone's packets. */

/* 0 or an errno. */
static int write_all(int fd, const uint8_t *data, size_t len)
{
    while (len != 0) {
        ssize_t n = write(fd, data, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

/* 0 or an errno. What is no file has nothing to sync. */
static int sync_data(int fd)
{
    return fdatasync(fd) != 0 && errno == EIO ? EIO : 0;
}

static void finish(struct pfl_proxy_client *c)
{
    struct pfl_proxy_clone *clone = &c->clone;
    struct pfl_span service_packets = pfl_buf_get(&clone->service_packets);
    int error = write_all(clone->to, service_packets.data, service_packets.len);
    int rc;

    if (error == 0)
        error = sync_data(clone->to);
    if (error != 0) {
        give_up(c, strerror(error));
        return;
    }
    rc = pfl_clone_response_mark(&clone->answer);
    if (rc == 0)
        rc = reply(c, clone->request, pfl_buf_get(&clone->answer));
    settle(clone);
    if (rc != 0)
        pfl_proxy_client_fail(c, pfl_err_str(rc));
}

static int on_packet(void *user, const struct iovec *slices, int slices_len, size_t bytes)
{
    struct pfl_proxy_client *c = user;
    struct pfl_buf whole;
    int rc = 0;

    if (bytes > PFL_CLONE_RESPONSE_PACKET_MAX)
        return 0;
    if (slices_len == 1)
        return pfl_clone_response_take_packet(pfl_span_of(slices[0].iov_base, bytes),
                                              &c->clone.service_packets);
    pfl_buf_init(&whole, PFL_CLONE_RESPONSE_PACKET_MAX);
    for (int i = 0; rc == 0 && i < slices_len; i++)
        rc = pfl_buf_append(&whole, slices[i].iov_base, slices[i].iov_len);
    if (rc == 0)
        rc = pfl_clone_response_take_packet(pfl_buf_get(&whole), &c->clone.service_packets);
    pfl_buf_fini(&whole);
    return rc;
}

/* A host that breaks the protocol here breaks its connection. */
static int on_service_packets(void *user, const struct pfl_rpc_reply *part)
{
    struct pfl_proxy_client *c = user;
    int rc = 0;

    if (c->clone.state != PFL_PROXY_CLONE_PACKETS)
        return 0;
    if (part->success)
        rc = pfl_packet_scan_feed(&c->clone.scan, part->body, on_packet, c);
    if (rc == 0 && (!part->success || !part->has_more))
        finish(c);
    return rc;
}

static void read_service_packets(struct pfl_proxy_client *c)
{
    pfl_packet_scan_init(&c->clone.scan, PFL_PACKET_MAX_BYTES);
    c->clone.state = PFL_PROXY_CLONE_PACKETS;
    if (c->conn == NULL || pfl_host_conn_invoke(c->conn, "ReadBuffers", pfl_span_of(NULL, 0),
                                                on_service_packets, c) != 0)
        give_up(c, "the clone cannot be read");
}

/* The copy. */

/* On a thread: the file's first bytes, which stay, whatever is appended meanwhile. */
static void copy(struct pfl_work *work)
{
    struct pfl_proxy_clone *clone = PFL_CONTAINER_OF(work, struct pfl_proxy_clone, work);
    uint8_t part[COPY_BYTES];
    uint64_t at = 0;

    while (clone->error == 0 && at < clone->copy_bytes && !atomic_load(&clone->is_cancelled)) {
        uint64_t left = clone->copy_bytes - at;
        ssize_t n =
            pread(clone->from, part, left < sizeof(part) ? (size_t)left : sizeof(part), (off_t)at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            clone->error = n < 0 ? errno : EIO; /* another process truncated it */
            return;
        }
        clone->error = write_all(clone->to, part, (size_t)n);
        at += (uint64_t)n;
    }
    /* Here, so that the loop has only the few packets behind it to wait for. */
    if (clone->error == 0 && !atomic_load(&clone->is_cancelled))
        clone->error = sync_data(clone->to);
}

static void on_copied(struct pfl_work *work)
{
    struct pfl_proxy_clone *clone = PFL_CONTAINER_OF(work, struct pfl_proxy_clone, work);
    struct pfl_proxy_client *c = PFL_CONTAINER_OF(clone, struct pfl_proxy_client, clone);

    if (c->is_closing) {
        settle(&c->clone);
        pfl_proxy_client_check_closed(c);
    } else if (c->clone.error != 0) {
        give_up(c, strerror(c->clone.error));
    } else {
        read_service_packets(c);
    }
}

static int submit(struct pfl_proxy *proxy, struct pfl_work *work)
{
    const struct pfl_worker_conf conf = {.loop = proxy->conf.host.loop,
                                         .threads_max = COPY_THREADS};
    int rc = proxy->worker == NULL ? pfl_worker_open(&conf, &proxy->worker) : 0;

    return rc != 0 ? rc : pfl_worker_submit(proxy->worker, work);
}

static void start_copy(struct pfl_proxy_client *c)
{
    struct pfl_proxy_clone *clone = &c->clone;
    int source = clone->source->pull.conf.fd;
    off_t end = lseek(source, 0, SEEK_CUR);

    clone->source = NULL;
    clone->from = end >= 0 ? fcntl(source, F_DUPFD_CLOEXEC, 0) : -1;
    if (clone->from < 0 || (fcntl(clone->from, F_GETFL) & O_ACCMODE) == O_WRONLY) {
        give_up(c, "the file of this session cannot be read");
        return;
    }
    clone->copy_bytes = (uint64_t)end;
    clone->error = 0;
    atomic_store(&clone->is_cancelled, false);
    clone->work = (struct pfl_work){.run = copy, .on_done = on_copied};
    clone->state = PFL_PROXY_CLONE_DISK;
    if (submit(c->proxy, &clone->work) != 0)
        give_up(c, "no thread can be started");
}

/* The source. */

static struct pfl_proxy_client *find_source(struct pfl_proxy *proxy, uint64_t uuid_lsb)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &proxy->clients) {
        struct pfl_proxy_client *c = PFL_CONTAINER_OF(it, struct pfl_proxy_client, node);

        if (c->has_pull && !c->is_closing && c->pull.conf.file_request.uuid_lsb == uuid_lsb)
            return c;
    }
    return NULL;
}

static void await_source(struct pfl_proxy_client *c, struct pfl_proxy_client *source)
{
    c->clone.source = source;
    c->clone.mark = ++c->proxy->last_mark;
    c->clone.to = c->fd;
    c->fd = -1;
    c->clone.state = PFL_PROXY_CLONE_SOURCE;
    pfl_file_pull_hurry(&source->pull, c->clone.mark);
    pfl_proxy_clone_on_read_out(source);
}

int pfl_proxy_clone_take(struct pfl_proxy_client *c, struct pfl_rpc_request request,
                         const struct pfl_rpc_reply *answer)
{
    struct pfl_clone_response parsed;
    struct pfl_proxy_client *source = NULL;
    int rc = pfl_clone_response_parse(answer->body, &parsed);

    if (rc != 0)
        return rc;
    if (parsed.is_ok)
        source = find_source(c->proxy, parsed.uuid_lsb);
    if (!parsed.is_ok && parsed.is_for_descriptor && c->fd >= 0)
        return tell(c, request,
                    "the host's service writes this session into a file there, and no descriptor "
                    "crosses the network: clone it on the host");
    if (source == NULL)
        return reply(c, request, answer->body);
    if (c->clone.state != PFL_PROXY_CLONE_NONE) {
        refuse(c, request, "another clone of this connection is being written");
        return 0;
    }
    if (c->fd < 0) {
        refuse(c, request, "this session writes into a file: a descriptor is needed to copy it to");
        return 0;
    }
    c->clone.request = request;
    rc = pfl_buf_append(&c->clone.answer, answer->body.data, answer->body.len);
    if (rc == 0)
        await_source(c, source);
    return rc;
}

void pfl_proxy_clone_on_read_out(struct pfl_proxy_client *source)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    PFL_LIST_EACH_SAFE (it, tmp, &source->proxy->clients) {
        struct pfl_proxy_client *c = PFL_CONTAINER_OF(it, struct pfl_proxy_client, node);

        if (!c->is_closing && c->clone.state == PFL_PROXY_CLONE_SOURCE &&
            c->clone.source == source && pfl_file_pull_has(&source->pull, c->clone.mark))
            start_copy(c);
    }
}

void pfl_proxy_clone_on_source_lost(struct pfl_proxy_client *source)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    PFL_LIST_EACH_SAFE (it, tmp, &source->proxy->clients) {
        struct pfl_proxy_client *c = PFL_CONTAINER_OF(it, struct pfl_proxy_client, node);

        if (!c->is_closing && c->clone.source == source)
            give_up(c, "the session ended while it was cloned");
    }
}

/* One clone. */

void pfl_proxy_clone_init(struct pfl_proxy_client *c)
{
    c->clone.from = -1;
    c->clone.to = -1;
    pfl_buf_init(&c->clone.answer, CLONE_ANSWER_MAX_BYTES);
    pfl_buf_init(&c->clone.service_packets, CLONE_STORY_MAX_BYTES);
}

void pfl_proxy_clone_close(struct pfl_proxy_client *c)
{
    atomic_store(&c->clone.is_cancelled, true);
    if (c->clone.state != PFL_PROXY_CLONE_DISK)
        settle(&c->clone);
}

bool pfl_proxy_clone_is_closed(const struct pfl_proxy_client *c)
{
    return c->clone.state != PFL_PROXY_CLONE_DISK;
}
