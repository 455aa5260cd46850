/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's statistics of one CPU's ring buffer (per_cpu/cpuN/stats). Pure. */
#ifndef PFL_PROBES_CPU_STATS_H
#define PFL_PROBES_CPU_STATS_H

#include "agent/probes/procfs/probe_message.h"
#include "base/bytes.h"

#define PFL_CPU_STATS_BYTES 1024u /* of the file */

/* The kernel's counters of one CPU's buffer: FtraceCpuStats. */
enum pfl_cpu_stat {
    PFL_CPU_ENTRIES,
    PFL_CPU_OVERRUN,
    PFL_CPU_COMMIT_OVERRUN,
    PFL_CPU_BYTES,
    PFL_CPU_OLDEST_TS,
    PFL_CPU_NOW_TS,
    PFL_CPU_DROPPED,
    PFL_CPU_READ,
    PFL_CPU_STATS,
};
struct pfl_cpu_stats {
    double values[PFL_CPU_STATS]; /* seconds or numbers */
    uint32_t has;                 /* a bit an enum pfl_cpu_stat */
};

/* Parses the file; malformed lines are left out. */
void pfl_cpu_stats_parse(struct pfl_span text, struct pfl_cpu_stats *ret_stats);
/* Combines two buffers of one CPU: numbers add up, the oldest event is the older one. */
void pfl_cpu_stats_add(struct pfl_cpu_stats *self, const struct pfl_cpu_stats *other);
/* Appends FtraceStats.cpu_stats. */
void pfl_cpu_stats_encode(const struct pfl_cpu_stats *self, uint32_t cpu,
                          struct pfl_probe_message *message);

#endif
