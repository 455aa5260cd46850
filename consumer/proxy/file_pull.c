/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pulls a session into a file.
 *
 *     every period, and on request (hurry):
 *                    Flush -> ReadBuffers -> packets to the file -> on_read_out
 *     at the end:    ReadBuffers -> packets to the file -> fdatasync -> on_finished
 *
 * Happy path: as drawn; a period is skipped while the last one is unfinished. Failures: the service
 * counts failed flushes; a file that is full or broken gets nothing more (whole packets only, as
 * the service does), and on_full is called. Limits: the loop writes the local file, so a file on a
 * slow disk slows only the tunnel.
 */
#include "consumer/proxy/file_pull.h"

#include <errno.h>
#include <unistd.h>

#include "base/closer.h"
#include "base/log.h"
#include "perfetto/consumer_port.fields.h"
#include "perfetto/trace_packet.fields.h"

#define FLUSH_FLAGS (1u | 2u << 4) /* periodic, by a command line (docs/abi/service.md 4) */

static void read_out(struct pfl_file_pull *p);
static void begin(struct pfl_file_pull *p);

static void give_up_file(struct pfl_file_pull *p, int err)
{
    if (p->is_full)
        return;
    p->is_full = true;
    p->conf.on_full(p->conf.user, err);
}

/* Truncates a partly written packet that does not fit. */
static void cut(int fd, off_t bytes)
{
    off_t end = bytes != 0 ? lseek(fd, -bytes, SEEK_CUR) : -1;

    if (end >= 0 && ftruncate(fd, end) != 0)
        (void)lseek(fd, bytes, SEEK_CUR);
}

/* Writes all of it, or nothing if the file can be truncated; else an errno. */
static int write_packet(int fd, struct iovec *iov, int len)
{
    off_t done = 0;

    while (len > 0) {
        ssize_t n = writev(fd, iov, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            int err = errno;

            cut(fd, done);
            return err;
        }
        done += n;
        while (len > 0 && (size_t)n >= iov->iov_len) {
            n -= (ssize_t)iov->iov_len;
            iov++;
            len--;
        }
        if (len > 0) {
            iov->iov_base = (uint8_t *)iov->iov_base + n;
            iov->iov_len -= (size_t)n;
        }
    }
    return 0;
}

static int on_packet(void *user, const struct iovec *slices, int slices_len, size_t bytes)
{
    struct pfl_file_pull *p = user;
    struct iovec iov[PFL_PACKET_SCAN_SLICES + 2];
    uint8_t header[16];
    struct pfl_writer w = pfl_writer_of(header, sizeof(header));
    size_t total;
    int err;

    if (p->is_full)
        return 0;
    pfl_writer_field_header(&w, TRACE__PACKET, bytes);
    iov[0] = (struct iovec){header, sizeof(header) - w.left};
    for (int i = 0; i < slices_len; i++)
        iov[i + 1] = slices[i];
    total = iov[0].iov_len + bytes;
    if (p->conf.file_request.max_bytes != 0 &&
        p->written_bytes + total >= p->conf.file_request.max_bytes) {
        give_up_file(p, 0);
        return 0;
    }
    err = write_packet(p->conf.fd, iov, slices_len + 1);
    if (err != 0)
        give_up_file(p, err);
    else
        p->written_bytes += total;
    return 0;
}

static void end(struct pfl_file_pull *p)
{
    if (p->phase == PFL_FILE_PULL_OVER)
        return;
    p->phase = PFL_FILE_PULL_OVER;
    if (p->scan.skipped != 0)
        pfl_log_warn("packets-left-out", "packets=%llu reason=\"more than 64 MiB\"",
                     (unsigned long long)p->scan.skipped);
    if (fdatasync(p->conf.fd) != 0 && errno == EIO)
        give_up_file(p, errno);
    p->conf.on_finished(p->conf.user);
}

static int on_read(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_file_pull *p = user;
    int rc = 0;

    if (!p->is_open)
        return 0;
    if (reply->success)
        rc = pfl_packet_scan_feed(&p->scan, reply->body, on_packet, p);
    if (rc != 0 || (reply->success && reply->has_more))
        return rc;
    p->is_busy = false;
    p->had = p->begun;
    if (p->phase == PFL_FILE_PULL_LAST) {
        end(p);
        return 0;
    }
    if (p->phase == PFL_FILE_PULL_FINISHING)
        read_out(p);
    else if (p->wanted != p->begun)
        begin(p);
    p->conf.on_read_out(p->conf.user);
    return 0;
}

static void read_out(struct pfl_file_pull *p)
{
    p->is_busy = true;
    if (p->phase == PFL_FILE_PULL_FINISHING)
        p->phase = PFL_FILE_PULL_LAST;
    if (pfl_host_conn_invoke(p->conf.conn, "ReadBuffers", pfl_span_of(NULL, 0), on_read, p) == 0)
        return;
    p->is_busy = false;
    if (p->phase == PFL_FILE_PULL_LAST)
        end(p);
}

static int on_flushed(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_file_pull *p = user;

    (void)reply;
    if (p->is_open)
        read_out(p);
    return 0;
}

static void begin(struct pfl_file_pull *p)
{
    static const uint8_t args[] = {FLUSH_REQUEST__FLAGS << 3, FLUSH_FLAGS};

    if (p->is_busy || p->is_full || p->phase != PFL_FILE_PULL_PERIODIC)
        return;
    p->begun = p->wanted;
    p->is_busy = pfl_host_conn_invoke(p->conf.conn, "Flush", pfl_span_of(args, sizeof(args)),
                                      on_flushed, p) == 0;
}

static void on_period(uv_timer_t *timer)
{
    begin(timer->data);
}

void pfl_file_pull_hurry(struct pfl_file_pull *self, uint64_t mark)
{
    self->wanted = mark;
    begin(self);
}

bool pfl_file_pull_has(const struct pfl_file_pull *self, uint64_t mark)
{
    return self->had >= mark || self->is_full || self->phase == PFL_FILE_PULL_OVER;
}

void pfl_file_pull_open(struct pfl_file_pull *self, const struct pfl_file_pull_conf *conf)
{
    *self = (struct pfl_file_pull){.conf = *conf, .is_open = true};
    pfl_packet_scan_init(&self->scan, PFL_PACKET_MAX_BYTES);
    uv_timer_init(conf->loop, &self->timer);
    self->timer.data = self;
    uv_timer_start(&self->timer, on_period, conf->file_request.period_ms,
                   conf->file_request.period_ms);
}

void pfl_file_pull_finish(struct pfl_file_pull *self)
{
    if (self->phase != PFL_FILE_PULL_PERIODIC)
        return;
    self->phase = PFL_FILE_PULL_FINISHING;
    uv_timer_stop(&self->timer);
    if (!self->is_busy)
        read_out(self);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct pfl_file_pull *p = handle->data;

    p->on_closed(p->conf.user);
}

void pfl_file_pull_close(struct pfl_file_pull *self, void (*on_closed)(void *user))
{
    self->is_open = false;
    self->on_closed = on_closed;
    pfl_packet_scan_fini(&self->scan);
    pfl_closer_close(self->conf.fd, geteuid());
    uv_close((uv_handle_t *)&self->timer, on_timer_closed);
}
