/* SPDX-License-Identifier: Apache-2.0 */
/* The data source linux.process_stats: reads /proc and writes the trace. A shell. */
#ifndef PFL_PROBES_PROCESS_STATS_H
#define PFL_PROBES_PROCESS_STATS_H

#include "agent/probes/procfs/open_files.h"
#include "agent/probes/procfs/pid_set.h"
#include "agent/probes/procfs/proc_tree.h"
#include "producer/perfleet.h"

struct pfl_process_counters_entry {
    int32_t pid;
    uint32_t seen_tick;
    bool is_skipped; /* a kernel thread: has no memory to count */
    struct pfl_proc_counters last;
};

/* A poll in progress: of long files it takes many turns. */
struct pfl_process_poll {
    int32_t *pids; /* owned; NULL: none is in progress */
    size_t len;
    size_t at;
};

struct pfl_process_stats {
    struct pfl_process_conf conf;
    struct perfleet_writer *writer; /* borrowed from the data source until stop */
    struct pfl_pid_set seen;        /* ftrace adds to it; fresh ones are described next */
    struct pfl_open_files files;    /* with resolve_process_fds; ftrace meets new ones */
    struct pfl_probe_message message;
    struct pfl_process_counters_entry *entries; /* owned; sorted by pid */
    size_t entry_count;
    uint32_t tick;
    struct pfl_process_poll poll;
    struct pfl_file_turn files_turn;
    bool was_cleared;
    uint64_t scan_start_ns;
};

void pfl_process_stats_init(struct pfl_process_stats *self, struct pfl_span config);
void pfl_process_stats_fini(struct pfl_process_stats *self);

/* Describes all processes if the config says so. */
void pfl_process_stats_start(struct pfl_process_stats *self, struct perfleet_writer *writer);
/* Writes counters of all processes, and the names of new ones: in turns of some 20 ms, between
 * which others are served. False: it continues with the next call. */
bool pfl_process_stats_poll(struct pfl_process_stats *self);
/* Describes the threads that were added to `seen` since the last call, and names the files that
 * were opened. */
void pfl_process_stats_describe_fresh(struct pfl_process_stats *self);
/* Readers cleared their state: everything is written again as it is met. */
void pfl_process_stats_clear(struct pfl_process_stats *self);

#endif
