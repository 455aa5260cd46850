/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit log: see audit_log_port.h.
 *
 * Happy path: one line is one write(2) on a descriptor with O_APPEND, so that lines never mix. All
 * strings are names of the certificate grammar, addresses, and hex ids, which need no escapes; of
 * `detail` only plain characters are kept. Failures: a line that cannot be written is logged
 * (limited) and counted; the number becomes a line of its own as soon as one can be written. The
 * caller begins nothing meanwhile (may_begin). A partly written line is ended before the next.
 * Ownership: the descriptor. Limits: one line of LINE_MAX_BYTES; the rate of one operator's
 * refusals (refusal_limit.h); one line has the number of those left out.
 */
#include "relay/policy/audit_log_port.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "relay/policy/refusal_limit.h"

#define LINE_MAX_BYTES 1536

struct pfl_audit_log {
    const char *path; /* borrowed */
    int fd;           /* -1: could not be opened again */
    bool is_optional; /* of audit_log_port.h */
    bool is_torn;     /* the last line was not written to its end */
    uint64_t lost;    /* lines that the file does not have, and does not say so yet */
    uint64_t lost_total;
    time_t lost_since; /* the first of `lost` */
    struct pfl_log_limit failed_log;
    struct pfl_refusal_limit refusals;
};

static int open_file(const char *path)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);

    if (fd < 0)
        pfl_log_error("audit-log-unusable", "file=%s reason=\"%s\"", pfl_log_quote_str(path),
                      strerror(errno));
    return fd;
}

/* A relay that died, or a disk that was full, may have left part of a line. */
static bool ends_torn(const char *path)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    off_t end = fd >= 0 ? lseek(fd, 0, SEEK_END) : -1;
    char last = '\n';

    if (end > 0)
        (void)!pread(fd, &last, 1, end - 1);
    if (fd >= 0)
        (void)close(fd);
    return last != '\n';
}

int pfl_audit_log_open(const char *path, bool is_optional, struct pfl_audit_log **ret_audit)
{
    struct pfl_audit_log *a;

    if (path == NULL) {
        *ret_audit = NULL;
        return 0;
    }
    a = pfl_mem_zalloc(sizeof(*a));
    if (a == NULL)
        return PFL_ENOMEM;
    a->path = path;
    a->is_optional = is_optional;
    a->fd = open_file(path);
    if (a->fd < 0) {
        pfl_mem_free(a);
        return PFL_EIO;
    }
    a->is_torn = ends_torn(path);
    *ret_audit = a;
    return 0;
}

static bool is_same_file(int a, int b)
{
    struct stat one;
    struct stat two;

    return fstat(a, &one) == 0 && fstat(b, &two) == 0 && one.st_dev == two.st_dev &&
           one.st_ino == two.st_ino;
}

/* `,"detail":"..."`, or nothing. */
static void write_detail(const char *detail, char *dst, size_t room)
{
    char plain[PFL_AUDIT_LOG_DETAIL_BYTES];
    size_t len = 0;

    dst[0] = '\0';
    if (detail == NULL || detail[0] == '\0')
        return;
    for (; detail[len] != '\0' && len < sizeof(plain) - 1; len++) {
        char c = detail[len];

        plain[len] = c;
        if (c < ' ' || c > '~' || c == '\\')
            plain[len] = '?';
        else if (c == '"')
            plain[len] = '\'';
    }
    plain[len] = '\0';
    (void)snprintf(dst, room, ",\"detail\":\"%s\"", plain);
}

static void format_time(time_t at, char *dst, size_t room)
{
    struct tm utc;

    (void)gmtime_r(&at, &utc);
    (void)strftime(dst, room, "%Y-%m-%dT%H:%M:%S", &utc);
}

static void lose(struct pfl_audit_log *a, uint64_t lines)
{
    if (a->lost == 0)
        a->lost_since = time(NULL);
    a->lost += lines;
    a->lost_total += lines;
}

/* A torn line is ended first, so that the next one is intact. */
static bool write_line(struct pfl_audit_log *a, const char *line, size_t len)
{
    ssize_t rc = a->fd < 0 ? -1 : 0;

    if (rc == 0 && a->is_torn)
        rc = write(a->fd, "\n", 1);
    if (rc >= 0) {
        a->is_torn = false;
        rc = write(a->fd, line, len);
    }
    if (rc == (ssize_t)len)
        return true;
    a->is_torn |= rc > 0;
    if (pfl_log_limit_take(&a->failed_log, "audit-log-failed",
                           pfl_clock_now_ns(PFL_CLOCK_MONOTONIC) / 1000000))
        pfl_log_error("audit-log-failed", "file=%s reason=\"%s\"", pfl_log_quote_str(a->path),
                      rc < 0 ? strerror(errno) : "the line was written in part");
    return false;
}

static bool write_entry(struct pfl_audit_log *self, const struct pfl_audit_log_entry *entry)
{
    char line[LINE_MAX_BYTES];
    char method[64] = "";
    char detail[PFL_AUDIT_LOG_DETAIL_BYTES + 16];
    char when[32];
    struct timespec now;
    int len;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    format_time(now.tv_sec, when, sizeof(when));
    if (entry->method != NULL)
        (void)snprintf(method, sizeof(method), ",\"method\":\"%s\"", entry->method);
    write_detail(entry->detail, detail, sizeof(detail));
    len = snprintf(line, sizeof(line),
                   "{\"time\":\"%s.%03ldZ\",\"who\":\"%s\",\"address\":\"%s\",\"action\":\"%s\","
                   "\"host\":\"%s\",\"stream\":\"%s\",\"status\":%u,\"bytes_to_host\":%llu,"
                   "\"bytes_to_operator\":%llu%s%s}\n",
                   when, now.tv_nsec / 1000000, entry->who, entry->address, entry->action,
                   entry->host, entry->stream, entry->status,
                   (unsigned long long)entry->bytes_to_host,
                   (unsigned long long)entry->bytes_to_operator, method, detail);
    assert(len > 0 && len < (int)sizeof(line)); /* all parts are bounded */
    return write_line(self, line, (size_t)len);
}

/* ---- lines that were lost ---- */

/* Writes the number of lines that were lost. False: that is not possible yet. */
static bool write_lost(struct pfl_audit_log *self)
{
    char since[32];
    char detail[96];
    struct pfl_audit_log_entry entry = {
        .who = "", .address = "", .action = "lost", .host = "", .stream = "", .detail = detail};

    if (self->lost == 0)
        return true;
    format_time(self->lost_since, since, sizeof(since));
    (void)snprintf(detail, sizeof(detail), "%llu lines since %sZ", (unsigned long long)self->lost,
                   since);
    if (!write_entry(self, &entry))
        return false;
    pfl_log_warn("audit-log-continued", "file=%s lost=%llu since=%sZ",
                 pfl_log_quote_str(self->path), (unsigned long long)self->lost, since);
    self->lost = 0;
    return true;
}

bool pfl_audit_log_may_begin(struct pfl_audit_log *self)
{
    return self == NULL || self->is_optional || write_lost(self);
}

uint64_t pfl_audit_log_get_lost(const struct pfl_audit_log *self)
{
    return self != NULL ? self->lost_total : 0;
}

/* `lines`: how many it stands for. */
static bool write_or_lose(struct pfl_audit_log *a, const struct pfl_audit_log_entry *entry,
                          uint64_t lines)
{
    if (write_lost(a) && write_entry(a, entry))
        return true;
    lose(a, lines);
    return a->is_optional;
}

/* ---- refusals ---- */

static void write_count(struct pfl_audit_log *a, const struct pfl_refusal_limit_slot *slot)
{
    char detail[64];
    struct pfl_audit_log_entry entry = {.who = slot->who,
                                        .address = "",
                                        .action = "left-out",
                                        .host = "",
                                        .stream = "",
                                        .detail = detail};

    (void)snprintf(detail, sizeof(detail), "%llu more refusals", (unsigned long long)slot->counted);
    (void)write_or_lose(a, &entry, slot->counted);
}

static void write_counted(struct pfl_audit_log *a)
{
    struct pfl_refusal_limit_slot slot;

    while (pfl_refusal_limit_next(&a->refusals, &slot))
        write_count(a, &slot);
}

bool pfl_audit_log_write(struct pfl_audit_log *self, const struct pfl_audit_log_entry *entry)
{
    uint64_t now_ms = pfl_clock_now_ns(PFL_CLOCK_MONOTONIC) / 1000000;
    struct pfl_refusal_limit_slot other = {.counted = 0};
    bool is_logged = true;
    bool may_begin = true;

    if (self == NULL)
        return true;
    if (entry->is_refused || strcmp(entry->action, "refuse") == 0)
        is_logged = pfl_refusal_limit_take(&self->refusals, entry->who, now_ms, &other);
    if (other.counted != 0)
        write_count(self, &other);
    if (is_logged)
        may_begin = write_or_lose(self, entry, 1);
    if (pfl_refusal_limit_is_due(&self->refusals, now_ms))
        write_counted(self);
    return may_begin;
}

/* ---- its file ---- */

void pfl_audit_log_reopen(struct pfl_audit_log *self)
{
    bool is_torn;
    int fd;

    if (self == NULL)
        return;
    write_counted(self);
    fd = open_file(self->path);
    if (fd < 0)
        return; /* the old one is better than none */
    is_torn = self->is_torn && is_same_file(fd, self->fd);
    if (self->fd >= 0)
        close(self->fd);
    self->fd = fd;
    self->is_torn = is_torn;
    (void)write_lost(self); /* says in the new file what the old one lacks */
}

void pfl_audit_log_close(struct pfl_audit_log *self)
{
    if (self == NULL)
        return;
    write_counted(self);
    if (!write_lost(self))
        pfl_log_error("audit-log-incomplete", "file=%s lost=%llu", pfl_log_quote_str(self->path),
                      (unsigned long long)self->lost);
    if (self->fd >= 0)
        close(self->fd);
    pfl_mem_free(self);
}
