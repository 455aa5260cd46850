/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words into a trace config: see category.h.
 *
 * Happy path: buffers, then linux.ftrace with the events of all categories and the named events,
 * compact if they include the scheduler's; processes and system information, without which events
 * have no names; then the named data sources. Failures: an unknown word, with the nearest category.
 * Words are validated before they are written, so nothing needs quotes. Limits: `out`'s.
 */
#include "consumer/config/category.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/suggest.h"
#include "consumer/text.h"

#define EVENTS_MAX 9u
#define WORD_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

struct category {
    const char *name;
    const char *events[EVENTS_MAX];
};

/* Categories of atrace that exist on Linux, with their kernel events. */
static const struct category categories[] = {
    {"sched",
     {"sched/sched_switch", "sched/sched_waking", "sched/sched_wakeup_new",
      "sched/sched_blocked_reason", "sched/sched_process_exit", "sched/sched_process_free",
      "task/task_newtask", "task/task_rename"}},
    {"freq", {"power/cpu_frequency", "power/cpu_frequency_limits", "power/suspend_resume"}},
    {"idle", {"power/cpu_idle"}},
    {"irq", {"irq/*", "ipi/*"}},
    {"disk",
     {"block/block_bio_queue", "block/block_bio_complete", "block/block_rq_issue",
      "block/block_rq_complete", "ext4/ext4_sync_file_enter", "ext4/ext4_sync_file_exit"}},
    {"workq", {"workqueue/*"}},
    {"memory", {"kmem/rss_stat", "oom/oom_score_adj_update", "oom/mark_victim"}},
    {"memreclaim",
     {"vmscan/mm_vmscan_direct_reclaim_begin", "vmscan/mm_vmscan_direct_reclaim_end",
      "vmscan/mm_vmscan_kswapd_wake", "vmscan/mm_vmscan_kswapd_sleep"}},
    {"pagecache",
     {"filemap/mm_filemap_add_to_page_cache", "filemap/mm_filemap_delete_from_page_cache"}},
    {"sync", {"dma_fence/*"}},
    {"thermal", {"thermal/*"}},
    {"i2c", {"i2c/*"}},
};
#define CATEGORIES (sizeof(categories) / sizeof(categories[0]))

const char *pfl_category_get_name(size_t n)
{
    return n < CATEGORIES ? categories[n].name : NULL;
}

static const struct category *find(const char *word)
{
    for (size_t i = 0; i < CATEGORIES; i++)
        if (strcmp(categories[i].name, word) == 0)
            return &categories[i];
    return NULL;
}

/* GROUP/EVENT or GROUP with a star. */
static bool is_event(const char *word)
{
    size_t group = strspn(word, WORD_CHARS);
    const char *event = word + group + 1;

    return group != 0 && word[group] == '/' &&
           (strcmp(event, "*") == 0 ||
            (event[0] != '\0' && event[strspn(event, WORD_CHARS)] == '\0'));
}

static bool is_source(const char *word)
{
    return strcmp(word, "track_event") == 0 || (strchr(word, '.') != NULL && word[0] != '.' &&
                                                word[strspn(word, WORD_CHARS ".-")] == '\0');
}

static int refuse(const char *word, char ret_why[PFL_CATEGORY_WHY_MAX])
{
    struct pfl_suggest suggest;
    const char *best;

    pfl_suggest_init(&suggest, word);
    pfl_suggest_offer(&suggest, "track_event");
    for (size_t i = 0; i < CATEGORIES; i++)
        pfl_suggest_offer(&suggest, categories[i].name);
    best = pfl_suggest_get(&suggest);
    if (best != NULL) {
        snprintf(ret_why, PFL_CATEGORY_WHY_MAX, "%s: there is no such category; did you mean %s?",
                 pfl_log_quote_str(word), best);
        return PFL_EINVAL;
    }
    snprintf(ret_why, PFL_CATEGORY_WHY_MAX,
             "%s: give a category (sched, freq, idle, irq, disk, workq, memory, memreclaim, "
             "pagecache, sync, thermal, i2c), a kernel event (sched/sched_switch, irq/*) or a data "
             "source (track_event, linux.sys_stats)",
             pfl_log_quote_str(word));
    return PFL_EINVAL;
}

static int add_events(const char *word, struct pfl_buf *out)
{
    const struct category *category = find(word);
    int rc = 0;

    if (category == NULL)
        return is_event(word) ? pfl_text_add(out, "  ftrace_events: \"%s\"\n", word) : 0;
    for (size_t i = 0; rc == 0 && i < EVENTS_MAX && category->events[i] != NULL; i++)
        rc = pfl_text_add(out, "  ftrace_events: \"%s\"\n", category->events[i]);
    return rc;
}

static int add_ftrace(const char *const *words, size_t len, struct pfl_buf *out)
{
    bool has_events = false;
    int rc;

    for (size_t i = 0; i < len; i++)
        has_events = has_events || find(words[i]) != NULL || is_event(words[i]);
    if (!has_events)
        return 0;
    rc = pfl_text_add(out, "data_sources { config { name: \"linux.ftrace\" ftrace_config {\n");
    for (size_t i = 0; rc == 0 && i < len; i++)
        rc = add_events(words[i], out);
    return rc != 0 ? rc : pfl_text_add(out, "  compact_sched { enabled: true }\n} } }\n");
}

static int add_source(const char *word, struct pfl_buf *out)
{
    if (strcmp(word, "disk") == 0)
        return pfl_text_add(out, "data_sources { config { name: \"linux.sys_stats\" target_buffer: "
                                 "1 sys_stats_config { diskstat_period_ms: 1000 } } }\n");
    if (strcmp(word, "track_event") == 0)
        return pfl_text_add(out, "data_sources { config { name: \"track_event\" track_event_config "
                                 "{ enabled_categories: \"*\" } } }\n");
    if (find(word) == NULL && is_source(word))
        return pfl_text_add(out, "data_sources { config { name: \"%s\" } }\n", word);
    return 0;
}

int pfl_category_make_config(const char *const *words, size_t len, uint32_t buffer_kb,
                             struct pfl_buf *out, char ret_why[PFL_CATEGORY_WHY_MAX])
{
    int rc;

    for (size_t i = 0; i < len; i++)
        if (find(words[i]) == NULL && !is_event(words[i]) && !is_source(words[i]))
            return refuse(words[i], ret_why);
    snprintf(ret_why, PFL_CATEGORY_WHY_MAX, "out of memory");
    rc = pfl_text_add(out,
                      "buffers { size_kb: %" PRIu32 " fill_policy: RING_BUFFER }\n"
                      "buffers { size_kb: 8192 fill_policy: RING_BUFFER }\n",
                      buffer_kb != 0 ? buffer_kb : PFL_CATEGORY_BUFFER_KB);
    if (rc == 0)
        rc = add_ftrace(words, len, out);
    for (size_t i = 0; rc == 0 && i < len; i++)
        rc = add_source(words[i], out);
    if (rc == 0)
        rc = pfl_text_add(
            out, "data_sources { config { name: \"linux.process_stats\" target_buffer: 1 "
                 "process_stats_config { scan_all_processes_on_start: true } } }\n"
                 "data_sources { config { name: \"linux.system_info\" target_buffer: 1 } }\n"
                 "incremental_state_config { clear_period_ms: 5000 }\n"
                 "flush_timeout_ms: 5000\n");
    return rc;
}

bool pfl_category_parse_size(const char *text, uint32_t *ret_kb)
{
    static const struct {
        const char *suffix;
        uint64_t kb;
    } units[] = {{"kb", 1}, {"k", 1}, {"mb", 1024}, {"m", 1024}, {"gb", 1048576}, {"g", 1048576}};
    char *end;
    unsigned long long number = strtoull(text, &end, 10);

    if (text[0] < '0' || text[0] > '9' || number == 0 || number > 4194304)
        return false;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(end, units[i].suffix) != 0)
            continue;
        if (number * units[i].kb > 4194304)
            return false;
        *ret_kb = (uint32_t)(number * units[i].kb);
        return true;
    }
    return false;
}
