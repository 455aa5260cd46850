/* SPDX-License-Identifier: Apache-2.0 */
/*
 * linux.process_stats.
 *
 * Happy path: start scans /proc (all processes, all threads); polls write changed counters and
 * describe new processes; ftrace adds met threads to `seen` and opened files to `files`, and
 * describe_fresh looks those up. A packet ends at PACKET_SOFT_BYTES and the next continues. A poll
 * takes turns of POLL_TURN_NS.
 * Failure: a process that ends while it is read is left out; out of memory drops one packet; files
 * that proc_reader cannot read in time are left out. Limits: ENTRIES_MAX processes with counters;
 * FILES_MAX open files of a process, FILES_START_MAX of all of them at the start and FILES_POLL_MAX
 * in a poll, which takes a readlink each: processes take turns.
 */
#include "agent/probes/procfs/process_stats.h"

#include <sys/random.h>

#include "agent/probes/procfs/proc_reader.h"
#include "agent/probes/procfs/proc_text.h"
#include "base/mem.h"
#include "perfetto/process_stats.fields.h"
#include "perfetto/trace_packet.fields.h"

#define PACKET_MAX_BYTES  (1024u * 1024u)
#define PACKET_SOFT_BYTES (24u * 1024u)
#define ENTRIES_MAX       65536u
#define FILES_MAX         16384u
#define FILES_START_MAX   131072u
#define FILES_POLL_MAX    16384u /* at least FILES_MAX */
#define BATCH             PFL_PROC_READER_PROCESSES
#define POLL_TURN_NS      UINT64_C(20000000)

void pfl_process_stats_init(struct pfl_process_stats *self, struct pfl_span config)
{
    struct pfl_hash_key key = {0};

    memset(self, 0, sizeof(*self));
    if (getrandom(&key, sizeof(key), 0) != (ssize_t)sizeof(key))
        memset(&key, 0, sizeof(key));
    pfl_open_files_init(&self->files, &key);
    pfl_process_conf_parse(config, &self->conf);
    pfl_probe_message_init(&self->message, PACKET_MAX_BYTES);
    self->was_cleared = true;
}

void pfl_process_stats_fini(struct pfl_process_stats *self)
{
    pfl_pid_set_fini(&self->seen);
    pfl_open_files_fini(&self->files);
    pfl_probe_message_fini(&self->message);
    pfl_mem_free(self->poll.pids);
    pfl_mem_free(self->entries);
    memset(self, 0, sizeof(*self));
}

/* --- packets ----------------------------------------------------------------------------- */

static void begin_packet(struct pfl_process_stats *self)
{
    pfl_probe_message_clear(&self->message);
    self->scan_start_ns = perfleet_time_ns();
}

static void end_packet(struct pfl_process_stats *self, uint32_t field, uint32_t end_time_field)
{
    struct pfl_span body = pfl_buf_get(&self->message.buf);

    if (body.len != 0 && !self->message.failed) {
        perfleet_packet_begin(self->writer);
        perfleet_uint(self->writer, TRACE_PACKET__TIMESTAMP, self->scan_start_ns);
        if (self->was_cleared)
            perfleet_uint(self->writer, TRACE_PACKET__SEQUENCE_FLAGS, 1);
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

static uint32_t file_bit(enum pfl_proc_file file)
{
    return 1u << file;
}

static size_t limit_to(size_t len, size_t max)
{
    return len < max ? len : max;
}

/* --- open files -------------------------------------------------------------------------- */

struct naming {
    int32_t tid; /* any thread of the process */
    int32_t pid;
    bool is_open; /* a message for the process */
};

static void name_links(struct pfl_process_stats *self, struct naming *naming, const int32_t *fds,
                       size_t len)
{
    struct pfl_proc_link links[PFL_PROC_READER_LINKS];

    pfl_proc_reader_follow(naming->tid, fds, len, NULL, links);
    for (size_t i = 0; i < len; i++) {
        struct pfl_open_file file = {.id = naming->pid, .fd = fds[i]};

        if (links[i].path.len == 0 || pfl_open_files_has(&self->files, file))
            continue;
        if (!naming->is_open)
            pfl_proc_stats_begin_process(&self->message, file.id);
        naming->is_open = true;
        pfl_proc_stats_add_fd(&self->message, file.fd, links[i].path);
        pfl_open_files_add(&self->files, file);
    }
}

static void end_files(struct pfl_process_stats *self, struct naming *naming)
{
    if (naming->is_open)
        pfl_probe_message_end(&self->message);
    naming->is_open = false;
    end_full_packet(self, TRACE_PACKET__PROCESS_STATS, PROCESS_STATS__COLLECTION_END_TIMESTAMP);
}

/* The next from *fds on that are not in the trace. */
static size_t take_unknown(const struct pfl_process_stats *self, struct pfl_open_file *file,
                           const int32_t **fds, const int32_t *end,
                           int32_t unknown[PFL_PROC_READER_LINKS])
{
    size_t count = 0;

    for (; *fds < end && count < PFL_PROC_READER_LINKS; (*fds)++) {
        file->fd = **fds;
        unknown[count] = file->fd;
        count += !pfl_open_files_has(&self->files, *file);
    }
    return count;
}

static void name_files(struct pfl_process_stats *self, int32_t pid)
{
    struct naming naming = {.tid = pid, .pid = pid};
    struct pfl_open_file file = {.id = pid};
    size_t left = pfl_file_turn_get(&self->files_turn, pid);
    int32_t unknown[PFL_PROC_READER_LINKS];
    size_t len = 0;
    int32_t *fds = NULL;

    if (left != 0) /* one more than may be taken, to see that there are more */
        fds = pfl_proc_reader_list(pid, "fd", limit_to(left + 1, FILES_MAX), &len);
    len = pfl_file_turn_take(&self->files_turn, pid, (uint32_t)len);
    for (const int32_t *at = fds; len != 0 && at < fds + len;) {
        size_t count = take_unknown(self, &file, &at, fds + len, unknown);

        if (count != 0)
            name_links(self, &naming, unknown, count);
        if (self->message.buf.len >= PACKET_SOFT_BYTES)
            end_files(self, &naming);
    }
    pfl_mem_free(fds);
    if (left != 0)
        end_files(self, &naming);
}

static int32_t find_process(int32_t tid)
{
    struct pfl_proc_request request = {.pid = tid, .files = file_bit(PFL_PROC_STATUS)};
    struct pfl_proc_answer answer;

    pfl_proc_reader_read(&request, 1, &answer);
    return (int32_t)pfl_proc_number(pfl_proc_find(answer.texts[PFL_PROC_STATUS], "Tgid:"));
}

/* The next of `fresh` from *at on that are of one thread. */
static size_t take_fresh(const struct pfl_process_stats *self, size_t *at,
                         int32_t fds[PFL_PROC_READER_LINKS])
{
    const struct pfl_open_file *fresh = self->files.fresh;
    int32_t tid = fresh[*at].id;
    size_t count = 0;

    for (; *at < self->files.fresh_count && fresh[*at].id == tid && count < PFL_PROC_READER_LINKS;
         (*at)++)
        fds[count++] = fresh[*at].fd;
    return count;
}

/* Those that system calls opened since the last time. */
static void name_fresh_files(struct pfl_process_stats *self)
{
    int32_t fds[PFL_PROC_READER_LINKS];

    begin_packet(self);
    for (size_t at = 0; at < self->files.fresh_count;) {
        struct naming naming = {.tid = self->files.fresh[at].id};
        size_t count = take_fresh(self, &at, fds);

        naming.pid = find_process(naming.tid);
        if (naming.pid > 0)
            name_links(self, &naming, fds, count);
        end_files(self, &naming);
    }
    pfl_open_files_clear_fresh(&self->files);
    end_packet(self, TRACE_PACKET__PROCESS_STATS, PROCESS_STATS__COLLECTION_END_TIMESTAMP);
}

/* --- the tree ---------------------------------------------------------------------------- */

static struct pfl_proc_request request_of_process(const struct pfl_process_stats *self, int32_t pid)
{
    uint32_t files = file_bit(PFL_PROC_STATUS) | file_bit(PFL_PROC_CMDLINE);

    if (self->conf.record_age)
        files |= file_bit(PFL_PROC_STAT);
    return (struct pfl_proc_request){.pid = pid, .files = files};
}

static bool describe_process(struct pfl_process_stats *self, int32_t pid,
                             const struct pfl_proc_answer *answer)
{
    struct pfl_span status = answer->texts[PFL_PROC_STATUS];

    if ((int32_t)pfl_proc_number(pfl_proc_find(status, "Tgid:")) != pid)
        return false;
    end_full_packet(self, TRACE_PACKET__PROCESS_TREE, PROCESS_TREE__COLLECTION_END_TIMESTAMP);
    pfl_proc_tree_add_process(&self->message, status, answer->texts[PFL_PROC_CMDLINE],
                              answer->texts[PFL_PROC_STAT]);
    if (!self->conf.skip_main_thread)
        pfl_proc_tree_add_thread(&self->message, pid, pid, status, self->conf.record_thread_names);
    (void)pfl_pid_set_add(&self->seen, pid);
    return pfl_proc_is_namespaced(status);
}

static void describe_thread(struct pfl_process_stats *self, int32_t tid, int32_t tgid,
                            struct pfl_span status)
{
    end_full_packet(self, TRACE_PACKET__PROCESS_TREE, PROCESS_TREE__COLLECTION_END_TIMESTAMP);
    pfl_proc_tree_add_thread(&self->message, tid, tgid, status, self->conf.record_thread_names);
    (void)pfl_pid_set_add(&self->seen, tid);
}

/* At most BATCH. */
static void describe_threads(struct pfl_process_stats *self, const int32_t *tids, size_t len,
                             int32_t pid, bool with_status)
{
    struct pfl_proc_request requests[BATCH] = {0};
    struct pfl_proc_answer answers[BATCH];

    for (size_t i = 0; i < len; i++)
        requests[i] = (struct pfl_proc_request){.pid = tids[i], .files = file_bit(PFL_PROC_STATUS)};
    memset(answers, 0, sizeof(answers));
    if (with_status)
        pfl_proc_reader_read(requests, len, answers);
    for (size_t i = 0; i < len; i++) {
        if (tids[i] != pid)
            describe_thread(self, tids[i], pid, answers[i].texts[PFL_PROC_STATUS]);
    }
}

static void scan_threads(struct pfl_process_stats *self, int32_t pid, bool is_namespaced)
{
    bool with_status = self->conf.record_thread_names || is_namespaced;
    size_t len;
    int32_t *tids = pfl_proc_reader_list(pid, "task", SIZE_MAX, &len);

    for (size_t at = 0; at < len; at += BATCH)
        describe_threads(self, tids + at, limit_to(len - at, BATCH), pid, with_status);
    pfl_mem_free(tids);
}

/* At most BATCH. */
static void scan_processes(struct pfl_process_stats *self, const int32_t *pids, size_t len)
{
    struct pfl_proc_request requests[BATCH] = {0};
    struct pfl_proc_answer answers[BATCH];
    bool is_namespaced[BATCH];
    bool has_threads[BATCH];

    for (size_t i = 0; i < len; i++)
        requests[i] = request_of_process(self, pids[i]);
    pfl_proc_reader_read(requests, len, answers);
    for (size_t i = 0; i < len; i++) {
        struct pfl_span status = answers[i].texts[PFL_PROC_STATUS];

        has_threads[i] = pfl_proc_number(pfl_proc_find(status, "Threads:")) > 1;
        is_namespaced[i] = status.len != 0 && describe_process(self, pids[i], &answers[i]);
    }
    for (size_t i = 0; i < len; i++) {
        if (has_threads[i])
            scan_threads(self, pids[i], is_namespaced[i]);
    }
    /* They are described: not fresh. */
    pfl_pid_set_clear_fresh(&self->seen);
}

static void scan_all(struct pfl_process_stats *self)
{
    size_t len;
    int32_t *pids = pfl_proc_reader_list(0, "", SIZE_MAX, &len);

    begin_packet(self);
    for (size_t at = 0; at < len; at += BATCH)
        scan_processes(self, pids + at, limit_to(len - at, BATCH));
    end_packet(self, TRACE_PACKET__PROCESS_TREE, PROCESS_TREE__COLLECTION_END_TIMESTAMP);
    pfl_file_turn_begin(&self->files_turn, self->conf.resolve_fds ? FILES_START_MAX : 0);
    for (size_t i = 0; i < len && self->files_turn.left != 0; i++)
        name_files(self, pids[i]);
    pfl_mem_free(pids);
    end_packet(self, TRACE_PACKET__PROCESS_STATS, PROCESS_STATS__COLLECTION_END_TIMESTAMP);
}

void pfl_process_stats_start(struct pfl_process_stats *self, struct perfleet_writer *writer)
{
    self->writer = writer;
    if (self->conf.scan_all_on_start)
        scan_all(self);
}

/* With the thread's status at hand. False: its process is to be described first. */
static bool describe_known(struct pfl_process_stats *self, int32_t tid,
                           const struct pfl_proc_answer *answer)
{
    struct pfl_span status = answer->texts[PFL_PROC_STATUS];
    int32_t tgid = (int32_t)pfl_proc_number(pfl_proc_find(status, "Tgid:"));

    if (tgid > 0 && tgid != tid && !pfl_pid_set_has(&self->seen, tgid))
        return false;
    if (tgid == tid)
        (void)describe_process(self, tid, answer);
    else if (tgid > 0)
        describe_thread(self, tid, tgid, status);
    return true;
}

static void describe_with_process(struct pfl_process_stats *self, int32_t tid)
{
    int32_t tgid = find_process(tid);
    struct pfl_proc_request requests[2] = {request_of_process(self, tgid),
                                           request_of_process(self, tid)};
    struct pfl_proc_answer answers[2];

    if (tgid <= 0)
        return;
    pfl_proc_reader_read(requests, 2, answers);
    if (!pfl_pid_set_has(&self->seen, tgid)) /* of several threads of a batch */
        (void)describe_process(self, tgid, &answers[0]);
    if (answers[1].texts[PFL_PROC_STATUS].len != 0)
        describe_thread(self, tid, tgid, answers[1].texts[PFL_PROC_STATUS]);
}

/* At most BATCH. */
static void describe_some(struct pfl_process_stats *self, const int32_t *tids, size_t len)
{
    struct pfl_proc_request requests[BATCH] = {0};
    struct pfl_proc_answer answers[BATCH];
    bool is_known[BATCH];

    for (size_t i = 0; i < len; i++)
        requests[i] = request_of_process(self, tids[i]);
    pfl_proc_reader_read(requests, len, answers);
    for (size_t i = 0; i < len; i++)
        is_known[i] = describe_known(self, requests[i].pid, &answers[i]);
    for (size_t i = 0; i < len; i++) {
        if (!is_known[i])
            describe_with_process(self, requests[i].pid);
    }
}

static void describe_fresh_threads(struct pfl_process_stats *self)
{
    size_t count = self->seen.fresh_count;

    begin_packet(self);
    /* Leaders met here are appended after `count`: they are described already. */
    for (size_t at = 0; at < count; at += BATCH)
        describe_some(self, self->seen.fresh + at, limit_to(count - at, BATCH));
    pfl_pid_set_clear_fresh(&self->seen);
    end_packet(self, TRACE_PACKET__PROCESS_TREE, PROCESS_TREE__COLLECTION_END_TIMESTAMP);
}

void pfl_process_stats_describe_fresh(struct pfl_process_stats *self)
{
    if (self->seen.fresh_count != 0)
        describe_fresh_threads(self);
    if (self->files.fresh_count != 0)
        name_fresh_files(self);
}

void pfl_process_stats_clear(struct pfl_process_stats *self)
{
    pfl_pid_set_clear(&self->seen);
    pfl_open_files_clear(&self->files);
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
    if (forget)
        pfl_open_files_clear(&self->files);
}

static uint32_t files_to_poll(const struct pfl_process_stats *self, bool is_skipped)
{
    uint32_t files = self->conf.record_runtime ? file_bit(PFL_PROC_STAT) : 0;

    if (is_skipped)
        return files;
    files |= file_bit(PFL_PROC_STATUS) | file_bit(PFL_PROC_OOM_SCORE_ADJ);
    files |= self->conf.scan_smaps_rollup ? file_bit(PFL_PROC_SMAPS_ROLLUP) : 0;
    return files | (self->conf.record_dmabuf ? file_bit(PFL_PROC_DMABUF_RSS) : 0);
}

/* Returns whether its open files are to be named. */
static bool poll_one(struct pfl_process_stats *self, int32_t pid,
                     const struct pfl_proc_answer *answer)
{
    struct pfl_process_counters_entry *entry = get_entry(self, pid);
    const struct pfl_proc_texts texts = {
        .status = answer->texts[PFL_PROC_STATUS],
        .smaps_rollup = answer->texts[PFL_PROC_SMAPS_ROLLUP],
        .oom_score_adj = answer->texts[PFL_PROC_OOM_SCORE_ADJ],
        .stat = answer->texts[PFL_PROC_STAT],
        .dmabuf_rss = answer->texts[PFL_PROC_DMABUF_RSS],
    };

    /* It has ended, or could not be read: whether it has memory is not known. */
    if (entry == NULL || (!entry->is_skipped && texts.status.len == 0))
        return false;
    end_full_packet(self, TRACE_PACKET__PROCESS_STATS, PROCESS_STATS__COLLECTION_END_TIMESTAMP);
    if (!pfl_proc_counters_add(&self->message, pid, &texts, &entry->last))
        entry->is_skipped = true;
    else
        (void)pfl_pid_set_add(&self->seen, pid);
    return !entry->is_skipped;
}

/* At most BATCH. */
static void poll_processes(struct pfl_process_stats *self, const int32_t *pids, size_t len)
{
    struct pfl_proc_request requests[BATCH] = {0};
    struct pfl_proc_answer answers[BATCH];
    bool has_files[BATCH];

    for (size_t i = 0; i < len; i++) {
        struct pfl_process_counters_entry *entry = get_entry(self, pids[i]);

        requests[i] = (struct pfl_proc_request){.pid = pids[i]};
        if (entry == NULL)
            continue;
        entry->seen_tick = self->tick;
        requests[i].files = files_to_poll(self, entry->is_skipped);
    }
    pfl_proc_reader_read(requests, len, answers);
    for (size_t i = 0; i < len; i++)
        has_files[i] = poll_one(self, pids[i], &answers[i]);
    for (size_t i = 0; i < len && self->files_turn.left != 0; i++) {
        if (has_files[i])
            name_files(self, pids[i]);
    }
}

static bool begin_poll(struct pfl_process_stats *self)
{
    struct pfl_process_poll *poll = &self->poll;

    poll->pids = pfl_proc_reader_list(0, "", SIZE_MAX, &poll->len);
    poll->at = 0;
    if (poll->pids == NULL)
        return false;
    self->tick++;
    pfl_file_turn_begin(&self->files_turn, self->conf.resolve_fds ? FILES_POLL_MAX : 0);
    return true;
}

static void end_poll(struct pfl_process_stats *self)
{
    pfl_mem_free(self->poll.pids);
    self->poll.pids = NULL;
    age_entries(self);
    pfl_process_stats_describe_fresh(self);
}

/* A file of a process's memory may take as long as a turn. */
static void poll_batch(struct pfl_process_stats *self)
{
    struct pfl_process_poll *poll = &self->poll;
    size_t len = limit_to(poll->len - poll->at, self->conf.scan_smaps_rollup ? 1 : BATCH);

    poll_processes(self, poll->pids + poll->at, len);
    poll->at += len;
}

bool pfl_process_stats_poll(struct pfl_process_stats *self)
{
    struct pfl_process_poll *poll = &self->poll;
    uint64_t end_ns = perfleet_time_ns() + POLL_TURN_NS;

    if (poll->pids == NULL && !begin_poll(self))
        return true;
    begin_packet(self);
    while (poll->at < poll->len && perfleet_time_ns() < end_ns)
        poll_batch(self);
    end_packet(self, TRACE_PACKET__PROCESS_STATS, PROCESS_STATS__COLLECTION_END_TIMESTAMP);
    if (poll->at < poll->len)
        return false;
    end_poll(self);
    return true;
}
