/* SPDX-License-Identifier: Apache-2.0 */
/*
 * linux.process_stats.
 *
 * Happy path: start scans /proc (all processes, all threads); polls write changed counters and
 * describe processes not seen before; ftrace puts the threads it met into `seen`, and
 * describe_fresh looks those up. A packet ends at PACKET_SOFT_BYTES and the next goes on.
 * Failure: a process that ends while it is read leaves nothing; out of memory drops one packet.
 * Limits: ENTRIES_MAX processes with counters.
 */
#include "agent/probes/process_stats.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/probes/proc_text.h"
#include "base/mem.h"

#define PACKET_MAX_BYTES  (1024u * 1024u)
#define PACKET_SOFT_BYTES (24u * 1024u)
#define ENTRIES_MAX       65536u
#define FILE_BYTES        8192u
#define PATH_BYTES        64u
#define PACKET_TREE       2u
#define PACKET_TIMESTAMP  8u
#define PACKET_STATS      9u
#define PACKET_SEQ_FLAGS  13u
#define TREE_END_TIME     3u
#define STATS_END_TIME    2u

struct proc_file {
    char text[FILE_BYTES];
    size_t len;
};

void pfl_process_stats_init(struct pfl_process_stats *self, struct pfl_span config)
{
    memset(self, 0, sizeof(*self));
    pfl_process_conf_parse(config, &self->conf);
    pfl_message_init(&self->message, PACKET_MAX_BYTES);
    self->was_cleared = true;
}

void pfl_process_stats_fini(struct pfl_process_stats *self)
{
    pfl_pid_set_fini(&self->seen);
    pfl_message_fini(&self->message);
    pfl_mem_free(self->entries);
    memset(self, 0, sizeof(*self));
}

static struct pfl_span read_file(int32_t pid, const char *name, struct proc_file *file)
{
    char path[PATH_BYTES];
    ssize_t n;
    int fd;

    file->len = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return pfl_span_of(NULL, 0);
    n = read(fd, file->text, sizeof(file->text));
    close(fd);
    file->len = n > 0 ? (size_t)n : 0;
    return pfl_span_of(file->text, file->len);
}

/* --- packets ----------------------------------------------------------------------------- */

static void begin_packet(struct pfl_process_stats *self)
{
    pfl_message_clear(&self->message);
    self->scan_start_ns = perfleet_time_ns();
}

static void end_packet(struct pfl_process_stats *self, uint32_t field, uint32_t end_time_field)
{
    struct pfl_span body = pfl_buf_get(&self->message.buf);

    if (body.len != 0 && !self->message.failed) {
        perfleet_packet_begin(self->writer);
        perfleet_uint(self->writer, PACKET_TIMESTAMP, self->scan_start_ns);
        if (self->was_cleared)
            perfleet_uint(self->writer, PACKET_SEQ_FLAGS, 1);
        self->was_cleared = false;
        perfleet_begin(self->writer, field);
        perfleet_raw(self->writer, body.data, body.len);
        perfleet_uint(self->writer, end_time_field, perfleet_time_ns());
        perfleet_end(self->writer);
        perfleet_packet_end(self->writer);
    }
    begin_packet(self);
}

static void end_full_packet(struct pfl_process_stats *self, uint32_t field, uint32_t time_field)
{
    if (self->message.buf.len >= PACKET_SOFT_BYTES || self->message.failed)
        end_packet(self, field, time_field);
}

/* --- the tree ---------------------------------------------------------------------------- */

static bool describe_process(struct pfl_process_stats *self, int32_t pid, struct pfl_span status)
{
    struct proc_file cmdline;
    struct proc_file stat;
    struct pfl_span line = read_file(pid, "cmdline", &cmdline);
    struct pfl_span age = pfl_span_of(NULL, 0);

    if ((int32_t)pfl_proc_number(pfl_proc_find(status, "Tgid:")) != pid)
        return false;
    if (self->conf.record_age)
        age = read_file(pid, "stat", &stat);
    end_full_packet(self, PACKET_TREE, TREE_END_TIME);
    pfl_proc_tree_add_process(&self->message, status, line, age);
    if (!self->conf.skip_main_thread)
        pfl_proc_tree_add_thread(&self->message, pid, pid, status, self->conf.record_thread_names);
    (void)pfl_pid_set_add(&self->seen, pid);
    return pfl_proc_is_namespaced(status);
}

static void describe_thread(struct pfl_process_stats *self, int32_t tid, int32_t tgid,
                            struct pfl_span status)
{
    end_full_packet(self, PACKET_TREE, TREE_END_TIME);
    pfl_proc_tree_add_thread(&self->message, tid, tgid, status, self->conf.record_thread_names);
    (void)pfl_pid_set_add(&self->seen, tid);
}

static bool next_number(DIR *dir, int32_t *ret_number)
{
    const struct dirent *entry;

    while ((entry = readdir(dir)) != NULL) {
        uint64_t n = pfl_proc_number(pfl_span_of(entry->d_name, strlen(entry->d_name)));

        if (n != 0 && n < PFL_PID_MAX) {
            *ret_number = (int32_t)n;
            return true;
        }
    }
    return false;
}

static void scan_threads(struct pfl_process_stats *self, int32_t pid, bool is_namespaced)
{
    char path[PATH_BYTES];
    struct proc_file file;
    int32_t tid;
    DIR *dir;

    (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    dir = opendir(path);
    if (dir == NULL)
        return;
    while (next_number(dir, &tid)) {
        struct pfl_span status = pfl_span_of(NULL, 0);

        if (tid == pid)
            continue;
        if (self->conf.record_thread_names || is_namespaced)
            status = read_file(tid, "status", &file);
        describe_thread(self, tid, pid, status);
    }
    closedir(dir);
}

static void scan_all(struct pfl_process_stats *self)
{
    struct proc_file file;
    DIR *dir = opendir("/proc");
    int32_t pid;

    if (dir == NULL)
        return;
    begin_packet(self);
    while (next_number(dir, &pid)) {
        struct pfl_span status = read_file(pid, "status", &file);

        if (status.len != 0)
            scan_threads(self, pid, describe_process(self, pid, status));
        /* They are described: not fresh. */
        pfl_pid_set_clear_fresh(&self->seen);
    }
    closedir(dir);
    end_packet(self, PACKET_TREE, TREE_END_TIME);
}

void pfl_process_stats_start(struct pfl_process_stats *self, struct perfleet_writer *writer)
{
    self->writer = writer;
    if (self->conf.scan_all_on_start)
        scan_all(self);
}

static void describe_one(struct pfl_process_stats *self, int32_t tid)
{
    struct proc_file file;
    struct proc_file leader;
    struct pfl_span status = read_file(tid, "status", &file);
    int32_t tgid = (int32_t)pfl_proc_number(pfl_proc_find(status, "Tgid:"));

    if (tgid <= 0)
        return;
    if (tgid == tid) {
        (void)describe_process(self, tid, status);
        return;
    }
    if (!pfl_pid_set_has(&self->seen, tgid))
        (void)describe_process(self, tgid, read_file(tgid, "status", &leader));
    describe_thread(self, tid, tgid, status);
}

void pfl_process_stats_describe_fresh(struct pfl_process_stats *self)
{
    size_t count = self->seen.fresh_count;

    if (count == 0)
        return;
    begin_packet(self);
    /* Leaders met on the way are appended behind `count`: they are described already. */
    for (size_t i = 0; i < count; i++)
        describe_one(self, self->seen.fresh[i]);
    pfl_pid_set_clear_fresh(&self->seen);
    end_packet(self, PACKET_TREE, TREE_END_TIME);
}

void pfl_process_stats_clear(struct pfl_process_stats *self)
{
    pfl_pid_set_clear(&self->seen);
    self->entry_count = 0;
    self->was_cleared = true;
}

/* --- counters ---------------------------------------------------------------------------- */

static size_t find_entry(const struct pfl_process_stats *self, int32_t pid)
{
    size_t low = 0;
    size_t high = self->entry_count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (self->entries[mid].pid < pid)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static struct pfl_process_counters_entry *get_entry(struct pfl_process_stats *self, int32_t pid)
{
    size_t at = find_entry(self, pid);
    struct pfl_process_counters_entry *grown;

    if (at < self->entry_count && self->entries[at].pid == pid)
        return &self->entries[at];
    if (self->entry_count == ENTRIES_MAX)
        return NULL;
    grown = pfl_mem_realloc(self->entries, (self->entry_count + 1) * sizeof(*grown));
    if (grown == NULL)
        return NULL;
    self->entries = grown;
    memmove(&grown[at + 1], &grown[at], (self->entry_count - at) * sizeof(*grown));
    self->entry_count++;
    memset(&grown[at], 0, sizeof(grown[at]));
    grown[at].pid = pid;
    pfl_proc_counters_reset(&grown[at].last);
    return &grown[at];
}

/* Entries of processes that are gone, and after a while the memory of all values. */
static void age_entries(struct pfl_process_stats *self)
{
    bool forget = self->tick % self->conf.cache_ticks == 0;
    size_t kept = 0;

    for (size_t i = 0; i < self->entry_count; i++) {
        if (self->entries[i].seen_tick != self->tick)
            continue;
        self->entries[kept] = self->entries[i];
        if (forget)
            pfl_proc_counters_reset(&self->entries[kept].last);
        kept++;
    }
    self->entry_count = kept;
}

static void poll_one(struct pfl_process_stats *self, int32_t pid)
{
    struct proc_file files[4];
    struct pfl_process_counters_entry *entry = get_entry(self, pid);
    struct pfl_proc_texts texts;

    if (entry == NULL)
        return;
    entry->seen_tick = self->tick;
    memset(&texts, 0, sizeof(texts));
    if (self->conf.record_runtime)
        texts.stat = read_file(pid, "stat", &files[0]);
    if (!entry->is_skipped) {
        texts.status = read_file(pid, "status", &files[1]);
        texts.oom_score_adj = read_file(pid, "oom_score_adj", &files[2]);
        if (self->conf.scan_smaps_rollup)
            texts.smaps_rollup = read_file(pid, "smaps_rollup", &files[3]);
    }
    end_full_packet(self, PACKET_STATS, STATS_END_TIME);
    if (!pfl_proc_counters_add(&self->message, pid, &texts, &entry->last))
        entry->is_skipped = true;
    else
        (void)pfl_pid_set_add(&self->seen, pid);
}

void pfl_process_stats_poll(struct pfl_process_stats *self)
{
    DIR *dir = opendir("/proc");
    int32_t pid;

    if (dir == NULL)
        return;
    self->tick++;
    begin_packet(self);
    while (next_number(dir, &pid))
        poll_one(self, pid);
    closedir(dir);
    end_packet(self, PACKET_STATS, STATS_END_TIME);
    age_entries(self);
    pfl_process_stats_describe_fresh(self);
}
