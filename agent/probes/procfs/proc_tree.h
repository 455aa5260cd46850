/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptions of processes and threads: messages from the text of /proc files. Pure. */
#ifndef PFL_PROBES_PROC_TREE_H
#define PFL_PROBES_PROC_TREE_H

#include "agent/probes/procfs/probe_message.h"

/* ProcessStatsConfig. */
struct pfl_process_conf {
    bool scan_all_on_start;
    bool record_thread_names;
    bool no_on_demand;
    bool record_age;
    bool record_runtime;
    bool scan_smaps_rollup;
    bool skip_main_thread;
    bool resolve_fds;
    bool record_dmabuf;
    uint32_t poll_ms;     /* 0: no counters; else at least 100 */
    uint32_t cache_ticks; /* polls after which every counter is written again */
};

/* Malformed bytes end the parsing; earlier fields count. */
void pfl_process_conf_parse(struct pfl_span config, struct pfl_process_conf *ret_conf);

/* ProcessTree.processes: from status, cmdline and (empty unless the age is wanted) stat. */
void pfl_proc_tree_add_process(struct pfl_probe_message *tree, struct pfl_span status,
                               struct pfl_span cmdline, struct pfl_span stat);
/* ProcessTree.threads; with an empty `status` neither name nor namespace ids. */
void pfl_proc_tree_add_thread(struct pfl_probe_message *tree, int32_t tid, int32_t tgid,
                              struct pfl_span status, bool with_name);
/* Has the status file ids in inner pid namespaces? */
bool pfl_proc_is_namespaced(struct pfl_span status);

#define PFL_PROC_COUNTERS 18u

/* The last written counters of one process; all ones: never. */
struct pfl_proc_counters {
    uint64_t values[PFL_PROC_COUNTERS];
};

void pfl_proc_counters_reset(struct pfl_proc_counters *self);

struct pfl_proc_texts {
    struct pfl_span status;
    struct pfl_span smaps_rollup;
    struct pfl_span oom_score_adj;
    struct pfl_span stat;
    struct pfl_span dmabuf_rss; /* only kernels of Android have the file */
};

/* ProcessStats.processes with the counters that differ from `last`, which is updated; nothing if
 * none differs. Returns false if the process has no memory of its own (a kernel thread). */
bool pfl_proc_counters_add(struct pfl_probe_message *stats, int32_t pid,
                           const struct pfl_proc_texts *texts, struct pfl_proc_counters *last);
/* Begins a ProcessStats.processes with open files (`fds`); pfl_probe_message_end closes it. */
void pfl_proc_stats_begin_process(struct pfl_probe_message *stats, int32_t pid);
void pfl_proc_stats_add_fd(struct pfl_probe_message *stats, int32_t fd, struct pfl_span path);

#endif
