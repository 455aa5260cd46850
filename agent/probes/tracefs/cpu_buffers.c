/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the kernel's ring buffers.
 *
 * Happy path: trace_pipe_raw of every CPU is open and non-blocking. A drain reads page after page
 * into one batch, passes the batch on, and continues until the kernel has no more, a page is less
 * than half full (we have caught up with the writer), or the limit is reached. A lazy drain checks
 * after the first page how much there is and leaves the page that is being written: the kernel
 * copies such a page, and later its rest, event by event, at ten times the cost of a full one.
 * Failure: EAGAIN, EBUSY, ENOMEM, ENODEV (an offline CPU) end the drain of that CPU for now; any
 * other error is returned. Limits: the caller's limit keeps a busy CPU from blocking the others.
 */
#include "agent/probes/tracefs/cpu_buffers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "agent/probes/procfs/proc_reader.h"
#include "agent/probes/tracefs/cpu_stats.h"
#include "agent/probes/tracefs/tracefs.h"
#include "base/mem.h"

#define PERCENT_DEFAULT 70u
#define BATCH_BYTES     (64u * 1024u)
#define COMMIT_OFFSET   8u
#define COMMIT_MASK     0x07ffffffu
#define PAGE_REST_BYTES 256u /* that a full page may leave empty */
#define PATH_HERE       64

static int open_cpu(struct pfl_cpu_buffers *self, int instance_fd, uint32_t cpu)
{
    struct pfl_cpu_buffer *grown;
    struct pfl_cpu_stats now;
    char path[PATH_HERE];
    int fd;

    (void)snprintf(path, sizeof(path), "per_cpu/cpu%u/trace_pipe_raw", cpu);
    fd = openat(instance_fd, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? PFL_ENOENT : PFL_EIO;
    grown = pfl_mem_realloc(self->cpus, (self->count + 1) * sizeof(*grown));
    if (grown == NULL) {
        close(fd);
        return PFL_ENOMEM;
    }
    self->cpus = grown;
    (void)snprintf(path, sizeof(path), "per_cpu/cpu%u/stats", cpu);
    self->cpus[self->count++] = (struct pfl_cpu_buffer){
        .fd = fd, .stats_fd = openat(instance_fd, path, O_RDONLY | O_CLOEXEC), .cpu = cpu};
    pfl_cpu_buffers_read_stats(self, self->count - 1, &now);
    self->cpus[self->count - 1].reads_before = now.values[PFL_CPU_READ];
    return 0;
}

/* The sub-buffer's size, which is what one read gives at most. */
static size_t find_page_bytes(int instance_fd)
{
    struct pfl_buf text;
    size_t kb = 0;

    pfl_buf_init(&text, 4096 + 16384);
    if (pfl_tracefs_read(instance_fd, "buffer_subbuf_size_kb", &text) == 0 &&
        pfl_buf_append(&text, "", 1) == 0 && pfl_buf_get(&text).data != NULL)
        kb = strtoul((const char *)pfl_buf_get(&text).data, NULL, 10);
    pfl_buf_fini(&text);
    return kb >= 4 && kb <= 1024 ? kb * 1024 : (size_t)sysconf(_SC_PAGESIZE);
}

int pfl_cpu_buffers_open(struct pfl_cpu_buffers *self, int instance_fd)
{
    int rc = 0;

    memset(self, 0, sizeof(*self));
    self->page_bytes = find_page_bytes(instance_fd);
    self->batch_pages = self->page_bytes < BATCH_BYTES ? BATCH_BYTES / self->page_bytes : 1;
    self->pages = pfl_mem_alloc(self->page_bytes * self->batch_pages);
    if (self->pages == NULL)
        return PFL_ENOMEM;
    for (uint32_t cpu = 0; cpu < PFL_CPUS_MAX && (rc == 0 || rc == PFL_ENOENT); cpu++) {
        if (cpu >= pfl_proc_reader_count_cpus() && rc == PFL_ENOENT)
            break;
        rc = open_cpu(self, instance_fd, cpu);
    }
    if (rc == PFL_ENOENT || rc == 0)
        rc = self->count != 0 ? 0 : PFL_EIO;
    if (rc != 0)
        pfl_cpu_buffers_close(self);
    return rc;
}

static void close_files(struct pfl_cpu_buffer *cpu)
{
    if (cpu->fd >= 0)
        close(cpu->fd);
    if (cpu->stats_fd >= 0)
        close(cpu->stats_fd);
    cpu->fd = -1;
    cpu->stats_fd = -1;
}

void pfl_cpu_buffers_release(struct pfl_cpu_buffers *self)
{
    for (size_t i = 0; i < self->count; i++) {
        pfl_cpu_buffers_read_stats(self, i, &self->cpus[i].final);
        close_files(&self->cpus[i]);
    }
}

void pfl_cpu_buffers_close(struct pfl_cpu_buffers *self)
{
    for (size_t i = 0; i < self->count; i++)
        close_files(&self->cpus[i]);
    pfl_mem_free(self->cpus);
    pfl_mem_free(self->pages);
    memset(self, 0, sizeof(*self));
}

/* Before 6.9 poll on trace_pipe_raw does not keep to buffer_percent. */
bool pfl_cpu_buffers_can_poll(int instance_fd, uint32_t percent)
{
    struct utsname name;
    char text[16];
    char *end;
    unsigned long major;
    unsigned long minor;

    if (uname(&name) != 0)
        return false;
    major = strtoul(name.release, &end, 10);
    minor = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;
    (void)snprintf(text, sizeof(text), "%u", percent != 0 ? percent : PERCENT_DEFAULT);
    return (major > 6 || (major == 6 && minor >= 9)) &&
           pfl_tracefs_write(instance_fd, "buffer_percent", text) == 0;
}

static bool is_temporary(int error)
{
    return error == EAGAIN || error == EBUSY || error == ENOMEM || error == ENODEV ||
           error == EINTR;
}

/* A page less than half full: the writer has been caught up with. */
static bool is_last_page(const struct pfl_cpu_buffers *self, const uint8_t *page, size_t len)
{
    uint32_t commit;

    if (len < COMMIT_OFFSET + sizeof(commit))
        return true;
    memcpy(&commit, page + COMMIT_OFFSET, sizeof(commit));
    return (commit & COMMIT_MASK) < self->page_bytes / 2;
}

struct batch {
    size_t bytes;
    bool is_last;
    bool has_failed;
};

static struct batch read_batch(struct pfl_cpu_buffers *self, const struct pfl_cpu_buffer *cpu,
                               size_t max_pages, bool is_first)
{
    struct batch batch = {0};

    for (size_t i = 0; i < max_pages && !batch.is_last; i++) {
        uint8_t *page = self->pages + batch.bytes;
        ssize_t n = read(cpu->fd, page, self->page_bytes);

        if (n <= 0) {
            batch.has_failed = n < 0 && !is_temporary(errno);
            batch.is_last = true;
            break;
        }
        /* The rest of a page that was read in part before says nothing about the writer. */
        batch.is_last = (size_t)n != self->page_bytes ||
                        (!(is_first && i == 0) && is_last_page(self, page, (size_t)n));
        if ((size_t)n < self->page_bytes)
            memset(page + n, 0, self->page_bytes - (size_t)n);
        batch.bytes += self->page_bytes;
    }
    return batch;
}

/* As many as there are at least; SIZE_MAX: unknown. */
static size_t count_full_pages(const struct pfl_cpu_buffers *self, size_t index)
{
    struct pfl_cpu_stats now;

    pfl_cpu_buffers_read_stats(self, index, &now);
    if ((now.has >> PFL_CPU_BYTES & 1) == 0 || now.values[PFL_CPU_BYTES] > 1e15)
        return SIZE_MAX;
    return (size_t)now.values[PFL_CPU_BYTES] / (self->page_bytes - PAGE_REST_BYTES);
}

bool pfl_cpu_buffers_drain(struct pfl_cpu_buffers *self, size_t index, size_t max_pages,
                           pfl_cpu_buffers_on_pages on_pages, void *user)
{
    struct batch batch = {0};
    size_t done = 0;

    if (self->cpus[index].fd < 0)
        return true;
    while (done < max_pages && !batch.is_last) {
        bool is_probing = self->is_lazy && done == 0;
        size_t most = is_probing ? 1 : self->batch_pages;
        size_t pages = max_pages - done < most ? max_pages - done : most;
        size_t full;

        batch = read_batch(self, &self->cpus[index], pages, done == 0);
        if (batch.bytes != 0)
            on_pages(user, index, pfl_span_of(self->pages, batch.bytes));
        done += pages;
        full = is_probing && !batch.is_last ? count_full_pages(self, index) : SIZE_MAX;
        if (full < max_pages - done)
            max_pages = done + full;
    }
    return !batch.has_failed;
}

void pfl_cpu_buffers_read_stats(const struct pfl_cpu_buffers *self, size_t index,
                                struct pfl_cpu_stats *ret_stats)
{
    const struct pfl_cpu_buffer *cpu = &self->cpus[index];
    char text[PFL_CPU_STATS_BYTES];
    ssize_t n = cpu->stats_fd >= 0 ? pread(cpu->stats_fd, text, sizeof(text), 0) : 0;

    *ret_stats = cpu->final;
    if (n > 0)
        pfl_cpu_stats_parse(pfl_span_of(text, (size_t)n), ret_stats);
}

bool pfl_cpu_buffers_has_other_reader(const struct pfl_cpu_buffers *self, size_t index)
{
    const struct pfl_cpu_buffer *cpu = &self->cpus[index];
    struct pfl_cpu_stats now;

    pfl_cpu_buffers_read_stats(self, index, &now);
    return (now.has >> PFL_CPU_READ & 1) != 0 &&
           now.values[PFL_CPU_READ] != cpu->reads_before + (double)cpu->records;
}
