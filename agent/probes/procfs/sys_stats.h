/* SPDX-License-Identifier: Apache-2.0 */
/* The data sources linux.sys_stats and linux.system_info: read /proc and /sys. A shell. */
#ifndef PFL_PROBES_SYS_STATS_H
#define PFL_PROBES_SYS_STATS_H

#include "agent/probes/procfs/sys_text.h"
#include "producer/perfleet.h"

struct pfl_sys_stats {
    struct pfl_sys_conf conf;
    uint64_t due_ns[PFL_SYS_KINDS]; /* when each kind is read next */
    struct pfl_probe_message message;
    struct pfl_buf file;
};

void pfl_sys_stats_init(struct pfl_sys_stats *self, struct pfl_span config);
void pfl_sys_stats_fini(struct pfl_sys_stats *self);

/* When to call poll; UINT64_MAX: never. */
uint64_t pfl_sys_stats_get_due_ns(const struct pfl_sys_stats *self);
/* Reads the kinds that are due and writes one packet of them. */
void pfl_sys_stats_poll(struct pfl_sys_stats *self, uint64_t now_ns,
                        struct perfleet_writer *writer);

/* Writes the CpuInfo packet, and InterruptInfo if the SystemInfoConfig wants it. */
void pfl_system_info_write(struct pfl_span config, struct perfleet_writer *writer);

#endif
