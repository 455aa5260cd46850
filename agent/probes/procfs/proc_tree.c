/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ProcessTree and ProcessStats from the text of /proc/<pid>/{status,cmdline,stat,...}.
 *
 * Happy path: each function reads one process's texts and appends one sub-message. Counters are
 * written only when they changed: a table says which line of which file is which field.
 * Failure: a missing line leaves its field out; a process that ended meanwhile has empty texts.
 */
#include "agent/probes/procfs/proc_tree.h"

#include <unistd.h>

#include "agent/probes/procfs/proc_text.h"

#define TREE_PROCESSES 1u
#define TREE_THREADS   2u
#define STATS_PROCESS  1u
#define PROCESS_FDS    15u
#define MIN_POLL_MS    100u

enum config_field {
    C_QUIRKS = 1,
    C_SCAN_ALL = 2,
    C_THREAD_NAMES = 3,
    C_POLL_MS = 4,
    C_CACHE_TTL_MS = 6,
    C_FDS = 9,
    C_SMAPS = 10,
    C_AGE = 11,
    C_RUNTIME = 12,
    C_DMABUF = 13,
    C_SKIP_MAIN = 14,
};
#define QUIRK_NO_ON_DEMAND 2u

enum process_field {
    P_PID = 1,
    P_PPID = 2,
    P_CMDLINE = 3,
    P_UID = 5,
    P_NSPID = 6,
    P_START = 7,
    P_IS_KTHREAD = 8,
    P_IS_COMM = 9,
};

void pfl_process_conf_parse(struct pfl_span config, struct pfl_process_conf *ret_conf)
{
    struct pfl_reader r = pfl_reader_of(config);
    struct pfl_field f;
    uint64_t ttl_ms = 0;
    uint64_t poll_ms = 0;

    memset(ret_conf, 0, sizeof(*ret_conf));
    while (pfl_reader_field(&r, &f)) {
        bool is_on = f.value != 0;

        switch (f.id) {
        case C_QUIRKS:
            ret_conf->no_on_demand |= f.value == QUIRK_NO_ON_DEMAND;
            break;
        case C_SCAN_ALL:
            ret_conf->scan_all_on_start = is_on;
            break;
        case C_THREAD_NAMES:
            ret_conf->record_thread_names = is_on;
            break;
        case C_POLL_MS:
            poll_ms = f.value;
            break;
        case C_CACHE_TTL_MS:
            ttl_ms = f.value;
            break;
        case C_SMAPS:
            ret_conf->scan_smaps_rollup = is_on;
            break;
        case C_AGE:
            ret_conf->record_age = is_on;
            break;
        case C_RUNTIME:
            ret_conf->record_runtime = is_on;
            break;
        case C_SKIP_MAIN:
            ret_conf->skip_main_thread = is_on;
            break;
        case C_FDS:
            ret_conf->resolve_fds = is_on;
            break;
        case C_DMABUF:
            ret_conf->record_dmabuf = is_on;
            break;
        default:
            break;
        }
    }
    if (poll_ms == 0)
        return;
    ret_conf->poll_ms = poll_ms < MIN_POLL_MS ? MIN_POLL_MS
                        : poll_ms > 3600000u  ? 3600000u
                                              : (uint32_t)poll_ms;
    ret_conf->cache_ticks = ttl_ms / ret_conf->poll_ms > UINT32_MAX
                                ? UINT32_MAX
                                : (uint32_t)(ttl_ms / ret_conf->poll_ms);
    if (ret_conf->cache_ticks == 0)
        ret_conf->cache_ticks = 1;
}

/* The first word of the line is the id everybody sees; the rest are those of inner namespaces. */
static bool take_inner_ids(struct pfl_span *ids)
{
    struct pfl_span word;
    struct pfl_span rest;

    if (!pfl_proc_take_word(ids, &word))
        return false;
    rest = *ids;
    return pfl_proc_take_word(&rest, &word);
}

bool pfl_proc_is_namespaced(struct pfl_span status)
{
    struct pfl_span ids = pfl_proc_find(status, "NSpid:");

    return take_inner_ids(&ids);
}

static void add_inner_ids(struct pfl_probe_message *message, uint32_t field, struct pfl_span status)
{
    struct pfl_span ids = pfl_proc_find(status, "NSpid:");
    struct pfl_span word;

    if (!take_inner_ids(&ids))
        return;
    while (pfl_proc_take_word(&ids, &word))
        pfl_probe_message_uint(message, field, pfl_proc_number(word));
}

static void add_cmdline(struct pfl_probe_message *tree, struct pfl_span cmdline,
                        struct pfl_span status)
{
    struct pfl_span name = pfl_proc_find(status, "Name:");

    if (cmdline.len == 0) {
        pfl_probe_message_bytes(tree, P_CMDLINE, name.data, name.len);
        pfl_probe_message_uint(tree, P_IS_COMM, 1);
        return;
    }
    for (size_t at = 0; at < cmdline.len;) {
        size_t len = strnlen((const char *)cmdline.data + at, cmdline.len - at);

        if (len != 0)
            pfl_probe_message_bytes(tree, P_CMDLINE, cmdline.data + at, len);
        at += len + 1;
    }
}

/* The n-th value of /proc/<pid>/stat, counted as proc(5) does; the name may contain anything. */
static uint64_t find_stat_ns(struct pfl_span stat, uint32_t nth)
{
    const uint8_t *after = stat.len != 0 ? memrchr(stat.data, ')', stat.len) : NULL;
    uint64_t hz = (uint64_t)sysconf(_SC_CLK_TCK);
    struct pfl_span rest;
    struct pfl_span word = {0};

    if (after == NULL || hz == 0)
        return 0;
    rest = pfl_span_of(after + 1, stat.len - (size_t)(after + 1 - stat.data));
    for (uint32_t i = 3; i <= nth; i++) {
        if (!pfl_proc_take_word(&rest, &word))
            return 0;
    }
    return pfl_proc_number(word) * (UINT64_C(1000000000) / hz);
}

void pfl_proc_tree_add_process(struct pfl_probe_message *tree, struct pfl_span status,
                               struct pfl_span cmdline, struct pfl_span stat)
{
    struct pfl_span kthread = pfl_proc_find(status, "Kthread:");
    uint64_t start_ns = find_stat_ns(stat, 22);

    pfl_probe_message_begin(tree, TREE_PROCESSES);
    pfl_probe_message_uint(tree, P_PID, pfl_proc_number(pfl_proc_find(status, "Pid:")));
    pfl_probe_message_uint(tree, P_PPID, pfl_proc_number(pfl_proc_find(status, "PPid:")));
    pfl_probe_message_uint(tree, P_UID, pfl_proc_number(pfl_proc_find(status, "Uid:")));
    add_inner_ids(tree, P_NSPID, status);
    add_cmdline(tree, cmdline, status);
    if (start_ns != 0)
        pfl_probe_message_uint(tree, P_START, start_ns);
    if (kthread.len != 0)
        pfl_probe_message_uint(tree, P_IS_KTHREAD, pfl_proc_number(kthread) != 0);
    pfl_probe_message_end(tree);
}

void pfl_proc_tree_add_thread(struct pfl_probe_message *tree, int32_t tid, int32_t tgid,
                              struct pfl_span status, bool with_name)
{
    struct pfl_span name = pfl_proc_find(status, "Name:");

    pfl_probe_message_begin(tree, TREE_THREADS);
    pfl_probe_message_uint(tree, 1, (uint64_t)tid);
    pfl_probe_message_uint(tree, 3, (uint64_t)tgid);
    add_inner_ids(tree, 4, status);
    if (with_name && name.len != 0)
        pfl_probe_message_bytes(tree, 2, name.data, name.len);
    pfl_probe_message_end(tree);
}

/* --- counters ---------------------------------------------------------------------------- */

enum counter_file { FILE_STATUS, FILE_SMAPS, FILE_OOM, FILE_USER, FILE_KERNEL, FILE_DMABUF };

static const struct {
    enum counter_file file;
    uint32_t field;
    const char *key;
} counters[] = {
    {FILE_STATUS, 2, "VmSize:"},   {FILE_STATUS, 3, "VmRSS:"},     {FILE_STATUS, 4, "RssAnon:"},
    {FILE_STATUS, 5, "RssFile:"},  {FILE_STATUS, 6, "RssShmem:"},  {FILE_STATUS, 7, "VmSwap:"},
    {FILE_STATUS, 8, "VmLck:"},    {FILE_STATUS, 9, "VmHWM:"},     {FILE_OOM, 10, ""},
    {FILE_SMAPS, 16, "Rss:"},      {FILE_SMAPS, 17, "Pss:"},       {FILE_SMAPS, 18, "Pss_Anon:"},
    {FILE_SMAPS, 19, "Pss_File:"}, {FILE_SMAPS, 20, "Pss_Shmem:"}, {FILE_SMAPS, 23, "SwapPss:"},
    {FILE_USER, 21, ""},           {FILE_KERNEL, 22, ""},          {FILE_DMABUF, 24, ""},
};
_Static_assert(sizeof(counters) / sizeof(counters[0]) == PFL_PROC_COUNTERS, "as in the header");

void pfl_proc_counters_reset(struct pfl_proc_counters *self)
{
    memset(self, 0xff, sizeof(*self));
}

static bool read_counter(size_t index, const struct pfl_proc_texts *texts, uint64_t *ret_value)
{
    struct pfl_span line = texts->oom_score_adj;

    if (counters[index].file == FILE_STATUS)
        line = pfl_proc_find(texts->status, counters[index].key);
    else if (counters[index].file == FILE_SMAPS)
        line = pfl_proc_find(texts->smaps_rollup, counters[index].key);
    else if (counters[index].file == FILE_DMABUF)
        line = texts->dmabuf_rss;
    else if (counters[index].file != FILE_OOM)
        line = texts->stat;
    if (line.len == 0)
        return false;
    if (counters[index].file == FILE_USER || counters[index].file == FILE_KERNEL)
        *ret_value = find_stat_ns(texts->stat, counters[index].file == FILE_USER ? 14 : 15);
    else if (counters[index].file == FILE_DMABUF)
        *ret_value = pfl_proc_number(line) / 1024;
    else
        *ret_value = pfl_proc_number(line);
    return true;
}

void pfl_proc_stats_begin_process(struct pfl_probe_message *stats, int32_t pid)
{
    pfl_probe_message_begin(stats, STATS_PROCESS);
    pfl_probe_message_uint(stats, P_PID, (uint64_t)pid);
}

bool pfl_proc_counters_add(struct pfl_probe_message *stats, int32_t pid,
                           const struct pfl_proc_texts *texts, struct pfl_proc_counters *last)
{
    bool has_memory = pfl_proc_find(texts->status, "VmSize:").len != 0;
    bool is_open = false;
    uint64_t value;

    for (size_t i = 0; i < PFL_PROC_COUNTERS; i++) {
        if (counters[i].file == FILE_OOM && !has_memory)
            continue;
        if (!read_counter(i, texts, &value) || value == last->values[i])
            continue;
        last->values[i] = value;
        if (!is_open)
            pfl_proc_stats_begin_process(stats, pid);
        is_open = true;
        pfl_probe_message_uint(stats, counters[i].field, value);
    }
    if (is_open)
        pfl_probe_message_end(stats);
    return has_memory;
}

void pfl_proc_stats_add_fd(struct pfl_probe_message *stats, int32_t fd, struct pfl_span path)
{
    pfl_probe_message_begin(stats, PROCESS_FDS);
    pfl_probe_message_uint(stats, 1, (uint64_t)fd);
    pfl_probe_message_bytes(stats, 2, path.data, path.len);
    pfl_probe_message_end(stats);
}
