/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The top-level ring buffer as other users of tracefs have it (adr/0031).
 *
 * Happy path: find_use reads its files, counts its events, reads them as text (which does not
 * consume them), and searches all processes' descriptors for readers. While it is borrowed
 * find_change compares the files, and the kernel's count of read events with our own. Failure: an
 * unreadable file counts as empty, so that the buffer counts as used; a process whose descriptors
 * cannot be read counts as no reader. Limits: SCAN_MAX_BYTES of text, LINKS_MAX descriptors,
 * WATCH_CPUS CPUs a look.
 */
#include "agent/probes/ftrace/top_buffer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/probes/procfs/proc_reader.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#define SCAN_MAX_BYTES 16777216u
#define LINKS_MAX      200000u
#define WATCH_CPUS     8u
#define NS_PER_MS      UINT64_C(1000000)
#define DEFAULT_SIZE   "1408"
#define DEFAULT_CLOCK  "[local]"

static void read_line(int dir_fd, const char *path, char *ret_line, size_t size)
{
    if (pfl_tracefs_read_line(dir_fd, path, ret_line, size) != 0)
        ret_line[0] = '\0';
}

static void read_files(int dir_fd, struct pfl_top_files *ret_files)
{
    read_line(dir_fd, "current_tracer", ret_files->tracer, sizeof(ret_files->tracer));
    read_line(dir_fd, "events/enable", ret_files->events, sizeof(ret_files->events));
    read_line(dir_fd, "tracing_on", ret_files->on, sizeof(ret_files->on));
    read_line(dir_fd, "trace_clock", ret_files->clock, sizeof(ret_files->clock));
    read_line(dir_fd, "buffer_size_kb", ret_files->size, sizeof(ret_files->size));
}

/* --- content ----------------------------------------------------------------------------- */

static uint64_t count_entries(int root_fd)
{
    char text[PFL_CPU_STATS_BYTES];
    double entries = 0;
    uint32_t cpus = pfl_proc_reader_count_cpus();

    for (uint32_t cpu = 0; cpu < PFL_CPUS_MAX && cpu < cpus; cpu++) {
        struct pfl_cpu_stats stats;
        char path[64];
        int fd;
        ssize_t n;

        (void)snprintf(path, sizeof(path), "per_cpu/cpu%u/stats", cpu);
        fd = openat(root_fd, path, O_RDONLY | O_CLOEXEC);
        n = fd >= 0 ? read(fd, text, sizeof(text)) : -1;
        if (fd >= 0)
            close(fd);
        pfl_cpu_stats_parse(pfl_span_of(text, n > 0 ? (size_t)n : 0), &stats);
        entries += stats.values[PFL_CPU_ENTRIES];
    }
    return (uint64_t)entries;
}

static bool is_markers_only(int root_fd)
{
    struct pfl_top_scan scan = {0};
    uint8_t piece[16384];
    size_t bytes = 0;
    ssize_t n = 1;
    int fd = openat(root_fd, "trace", O_RDONLY | O_CLOEXEC);

    while (fd >= 0 && n > 0 && !scan.has_other && bytes < SCAN_MAX_BYTES) {
        n = read(fd, piece, sizeof(piece));
        if (n > 0)
            pfl_top_scan_feed(&scan, pfl_span_of(piece, (size_t)n));
        bytes += n > 0 ? (size_t)n : 0;
    }
    if (fd >= 0)
        close(fd);
    return fd >= 0 && n == 0 && pfl_top_scan_is_markers_only(&scan);
}

/* --- readers ----------------------------------------------------------------------------- */

/* A file of that name elsewhere does not belong to tracefs; any process may have one open. A closed
 * descriptor reads nothing; one that cannot be examined may. */
static bool is_reader(const struct pfl_proc_link *link, const struct statx *tracefs)
{
    if (!link->is_looked_at)
        return false;
    if (link->error != 0)
        return link->error != ENOENT;
    return link->dev_major == tracefs->stx_dev_major && link->dev_minor == tracefs->stx_dev_minor;
}

static bool process_reads(int32_t pid, const struct statx *tracefs, size_t *left)
{
    struct pfl_proc_link links[PFL_PROC_READER_LINKS];
    bool is_found = false;
    size_t len = 0;
    int32_t *fds = *left != 0 ? pfl_proc_reader_list(pid, "fd", *left, &len) : NULL;

    *left -= len;
    for (size_t at = 0; at < len && !is_found; at += PFL_PROC_READER_LINKS) {
        size_t count = len - at < PFL_PROC_READER_LINKS ? len - at : PFL_PROC_READER_LINKS;

        pfl_proc_reader_follow(pid, fds + at, count, pfl_top_is_reader_path, links);
        for (size_t i = 0; i < count; i++)
            is_found = is_found || is_reader(&links[i], tracefs);
    }
    pfl_mem_free(fds);
    return is_found;
}

static bool find_reader(int root_fd, long *ret_reader)
{
    struct statx tracefs;
    bool is_known = statx(root_fd, "", AT_EMPTY_PATH, STATX_TYPE, &tracefs) == 0;
    size_t left = LINKS_MAX;
    bool is_found = false;
    size_t len = 0;
    int32_t *pids = is_known ? pfl_proc_reader_list(0, "", SIZE_MAX, &len) : NULL;

    for (size_t i = 0; i < len && !is_found; i++) {
        is_found = pids[i] != getpid() && process_reads(pids[i], &tracefs, &left);
        if (is_found && ret_reader != NULL)
            *ret_reader = pids[i];
    }
    pfl_mem_free(pids);
    return is_found;
}

/* --- before it is borrowed ---------------------------------------------------------------- */

static enum pfl_top_use find_use(int root_fd, const struct pfl_top_files *files, long *ret_reader)
{
    struct pfl_top_content content = {.entries = count_entries(root_fd)};
    enum pfl_top_use use;

    content.is_markers_only = content.entries == 0 || is_markers_only(root_fd);
    use = pfl_top_judge(files, &content);
    if (use == PFL_TOP_TRACER || use == PFL_TOP_EVENTS)
        return use;
    return find_reader(root_fd, ret_reader) ? PFL_TOP_READER : use; /* the plainer reason */
}

enum pfl_top_use pfl_top_buffer_find_use(int root_fd, long *ret_reader)
{
    struct pfl_top_files files;

    read_files(root_fd, &files);
    return find_use(root_fd, &files, ret_reader);
}

/* --- while it is borrowed ----------------------------------------------------------------- */

void pfl_top_buffer_watch(struct pfl_ftrace_instance *self)
{
    read_files(self->dir_fd, &self->top.files);
    self->top.next_ns = 0;
}

void pfl_top_buffer_note_size(struct pfl_ftrace_instance *self)
{
    read_line(self->dir_fd, "buffer_size_kb", self->top.files.size, sizeof(self->top.files.size));
}

static bool has_own_events(const struct pfl_ftrace_instance *self)
{
    for (size_t i = 0; i < self->users_count; i++) {
        if (self->users[i] != 0)
            return true;
    }
    return false;
}

enum pfl_top_use pfl_top_buffer_find_change(struct pfl_ftrace_instance *self)
{
    uint64_t now_ns = pfl_clock_now_ns(PFL_CLOCK_MONOTONIC);
    struct pfl_top_files now;
    enum pfl_top_use use;
    size_t count = self->buffers.count;

    if (now_ns < self->top.next_ns)
        return PFL_TOP_FREE;
    self->top.next_ns = now_ns + PFL_TOP_WATCH_MS * NS_PER_MS;
    read_files(self->dir_fd, &now);
    use = pfl_top_judge_change(&self->top.files, &now, has_own_events(self));
    for (size_t i = 0; use == PFL_TOP_FREE && i < WATCH_CPUS && i < count; i++) {
        self->top.next_cpu = (self->top.next_cpu + 1) % count;
        if (pfl_cpu_buffers_has_other_reader(&self->buffers, self->top.next_cpu))
            use = PFL_TOP_CONSUMED;
    }
    return use;
}

void pfl_top_buffer_count(struct pfl_ftrace_instance *self, size_t cpu, struct pfl_span pages,
                          struct pfl_trace_page_layout layout)
{
    size_t page_bytes = self->buffers.page_bytes;

    for (size_t at = 0; at + page_bytes <= pages.len; at += page_bytes) {
        struct pfl_trace_page page;
        struct pfl_trace_record record;

        if (!pfl_trace_page_init(&page, pfl_span_of(pages.data + at, page_bytes), layout))
            continue;
        while (pfl_trace_page_next(&page, &record))
            self->buffers.cpus[cpu].records++;
    }
}

void pfl_top_buffer_lose(struct pfl_ftrace_instance *self, struct pfl_ftrace_host *host)
{
    struct pfl_top_files now;

    self->is_lost = true;
    self->has_poll = false;
    pfl_cpu_buffers_release(&self->buffers); /* an open one prevents others from setting a tracer */
    read_files(self->dir_fd, &now);
    if (strcmp(now.on, "1") != 0)
        pfl_undo_forget(host->undo, self, PFL_INSTANCE_TOP "/tracing_on");
    if (strcmp(now.clock, self->top.files.clock) != 0)
        pfl_undo_forget(host->undo, self, PFL_INSTANCE_TOP "/trace_clock");
    if (strcmp(now.size, self->top.files.size) != 0)
        pfl_undo_forget(host->undo, self, PFL_INSTANCE_TOP "/buffer_size_kb");
}

void pfl_top_buffer_give_back(struct pfl_ftrace_instance *self, struct pfl_ftrace_host *host)
{
    struct pfl_top_files files;
    enum pfl_top_use use = PFL_TOP_FREE;

    self->top.next_ns = 0;
    if (!self->is_lost && pfl_top_buffer_find_change(self) != PFL_TOP_FREE)
        pfl_top_buffer_lose(self, host);
    if (self->is_lost) {
        read_files(self->dir_fd, &files);
        /* They have the values that we set: that does not show whether it is used. */
        (void)snprintf(files.size, sizeof(files.size), DEFAULT_SIZE);
        (void)snprintf(files.clock, sizeof(files.clock), DEFAULT_CLOCK);
        use = find_use(host->fs->root_fd, &files, NULL);
    }
    if (use != PFL_TOP_FREE) {
        pfl_log_warn("tracefs-top-buffer-left", "reason=\"%s\"", pfl_top_explain(use));
        pfl_undo_forget(host->undo, self, NULL);
    } else if (pfl_tracefs_truncate(self->dir_fd, "trace") != 0) {
        pfl_log_debug("tracefs-write-refused", "path=%s/trace", self->path);
    }
}
