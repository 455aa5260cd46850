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
#include "perfetto/os_configs.fields.h"
#include "perfetto/process_stats.fields.h"

#define MIN_POLL_MS 100u

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
        case PROCESS_STATS_CONFIG__QUIRKS:
            ret_conf->no_on_demand |= f.value == PROCESS_STATS_CONFIG__DISABLE_ON_DEMAND;
            break;
        case PROCESS_STATS_CONFIG__SCAN_ALL_PROCESSES_ON_START:
            ret_conf->scan_all_on_start = is_on;
            break;
        case PROCESS_STATS_CONFIG__RECORD_THREAD_NAMES:
            ret_conf->record_thread_names = is_on;
            break;
        case PROCESS_STATS_CONFIG__PROC_STATS_POLL_MS:
            poll_ms = f.value;
            break;
        case PROCESS_STATS_CONFIG__PROC_STATS_CACHE_TTL_MS:
            ttl_ms = f.value;
            break;
        case PROCESS_STATS_CONFIG__SCAN_SMAPS_ROLLUP:
            ret_conf->scan_smaps_rollup = is_on;
            break;
        case PROCESS_STATS_CONFIG__RECORD_PROCESS_AGE:
            ret_conf->record_age = is_on;
            break;
        case PROCESS_STATS_CONFIG__RECORD_PROCESS_RUNTIME:
            ret_conf->record_runtime = is_on;
            break;
        case PROCESS_STATS_CONFIG__SKIP_MAIN_THREAD_MESSAGE:
            ret_conf->skip_main_thread = is_on;
            break;
        case PROCESS_STATS_CONFIG__RESOLVE_PROCESS_FDS:
            ret_conf->resolve_fds = is_on;
            break;
        case PROCESS_STATS_CONFIG__RECORD_PROCESS_DMABUF_RSS:
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
        pfl_probe_message_bytes(tree, PROCESS_TREE__PROCESS__CMDLINE, name.data, name.len);
        pfl_probe_message_uint(tree, PROCESS_TREE__PROCESS__CMDLINE_IS_COMM, 1);
        return;
    }
    for (size_t at = 0; at < cmdline.len;) {
        size_t len = strnlen((const char *)cmdline.data + at, cmdline.len - at);

        if (len != 0)
            pfl_probe_message_bytes(tree, PROCESS_TREE__PROCESS__CMDLINE, cmdline.data + at, len);
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

    pfl_probe_message_begin(tree, PROCESS_TREE__PROCESSES);
    pfl_probe_message_uint(tree, PROCESS_TREE__PROCESS__PID,
                           pfl_proc_number(pfl_proc_find(status, "Pid:")));
    pfl_probe_message_uint(tree, PROCESS_TREE__PROCESS__PPID,
                           pfl_proc_number(pfl_proc_find(status, "PPid:")));
    pfl_probe_message_uint(tree, PROCESS_TREE__PROCESS__UID,
                           pfl_proc_number(pfl_proc_find(status, "Uid:")));
    add_inner_ids(tree, PROCESS_TREE__PROCESS__NSPID, status);
    add_cmdline(tree, cmdline, status);
    if (start_ns != 0)
        pfl_probe_message_uint(tree, PROCESS_TREE__PROCESS__PROCESS_START_FROM_BOOT, start_ns);
    if (kthread.len != 0)
        pfl_probe_message_uint(tree, PROCESS_TREE__PROCESS__IS_KTHREAD,
                               pfl_proc_number(kthread) != 0);
    pfl_probe_message_end(tree);
}

void pfl_proc_tree_add_thread(struct pfl_probe_message *tree, int32_t tid, int32_t tgid,
                              struct pfl_span status, bool with_name)
{
    struct pfl_span name = pfl_proc_find(status, "Name:");

    pfl_probe_message_begin(tree, PROCESS_TREE__THREADS);
    pfl_probe_message_uint(tree, PROCESS_TREE__THREAD__TID, (uint64_t)tid);
    pfl_probe_message_uint(tree, PROCESS_TREE__THREAD__TGID, (uint64_t)tgid);
    add_inner_ids(tree, PROCESS_TREE__THREAD__NSTID, status);
    if (with_name && name.len != 0)
        pfl_probe_message_bytes(tree, PROCESS_TREE__THREAD__NAME, name.data, name.len);
    pfl_probe_message_end(tree);
}

/* --- counters ---------------------------------------------------------------------------- */

enum counter_file { FILE_STATUS, FILE_SMAPS, FILE_OOM, FILE_USER, FILE_KERNEL, FILE_DMABUF };

static const struct {
    enum counter_file file;
    uint32_t field;
    const char *key;
} counters[] = {
    {FILE_STATUS, PROCESS_STATS__PROCESS__VM_SIZE_KB, "VmSize:"},
    {FILE_STATUS, PROCESS_STATS__PROCESS__VM_RSS_KB, "VmRSS:"},
    {FILE_STATUS, PROCESS_STATS__PROCESS__RSS_ANON_KB, "RssAnon:"},
    {FILE_STATUS, PROCESS_STATS__PROCESS__RSS_FILE_KB, "RssFile:"},
    {FILE_STATUS, PROCESS_STATS__PROCESS__RSS_SHMEM_KB, "RssShmem:"},
    {FILE_STATUS, PROCESS_STATS__PROCESS__VM_SWAP_KB, "VmSwap:"},
    {FILE_STATUS, PROCESS_STATS__PROCESS__VM_LOCKED_KB, "VmLck:"},
    {FILE_STATUS, PROCESS_STATS__PROCESS__VM_HWM_KB, "VmHWM:"},
    {FILE_OOM, PROCESS_STATS__PROCESS__OOM_SCORE_ADJ, ""},
    {FILE_SMAPS, PROCESS_STATS__PROCESS__SMR_RSS_KB, "Rss:"},
    {FILE_SMAPS, PROCESS_STATS__PROCESS__SMR_PSS_KB, "Pss:"},
    {FILE_SMAPS, PROCESS_STATS__PROCESS__SMR_PSS_ANON_KB, "Pss_Anon:"},
    {FILE_SMAPS, PROCESS_STATS__PROCESS__SMR_PSS_FILE_KB, "Pss_File:"},
    {FILE_SMAPS, PROCESS_STATS__PROCESS__SMR_PSS_SHMEM_KB, "Pss_Shmem:"},
    {FILE_SMAPS, PROCESS_STATS__PROCESS__SMR_SWAP_PSS_KB, "SwapPss:"},
    {FILE_USER, PROCESS_STATS__PROCESS__RUNTIME_USER_MODE, ""},
    {FILE_KERNEL, PROCESS_STATS__PROCESS__RUNTIME_KERNEL_MODE, ""},
    {FILE_DMABUF, PROCESS_STATS__PROCESS__DMABUF_RSS_KB, ""},
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
    pfl_probe_message_begin(stats, PROCESS_STATS__PROCESSES);
    pfl_probe_message_uint(stats, PROCESS_STATS__PROCESS__PID, (uint64_t)pid);
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
    pfl_probe_message_begin(stats, PROCESS_STATS__PROCESS__FDS);
    pfl_probe_message_uint(stats, PROCESS_STATS__FD_INFO__FD, (uint64_t)fd);
    pfl_probe_message_bytes(stats, PROCESS_STATS__FD_INFO__PATH, path.data, path.len);
    pfl_probe_message_end(stats);
}
