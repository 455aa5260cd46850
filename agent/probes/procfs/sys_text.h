/* SPDX-License-Identifier: Apache-2.0 */
/* SysStats messages from the text of /proc files, and SysStatsConfig. Pure. */
#ifndef PFL_PROBES_SYS_TEXT_H
#define PFL_PROBES_SYS_TEXT_H

#include "agent/probes/procfs/probe_message.h"
#include "agent/probes/procfs/sys_counters.h"

enum pfl_sys_kind {
    PFL_SYS_MEMINFO,
    PFL_SYS_VMSTAT,
    PFL_SYS_STAT,
    PFL_SYS_CPUFREQ,
    PFL_SYS_BUDDYINFO,
    PFL_SYS_DISKSTAT,
    PFL_SYS_PSI,
    PFL_SYS_CPUIDLE,
    PFL_SYS_THERMAL,
    PFL_SYS_DEVFREQ,
    PFL_SYS_GPUFREQ,
    PFL_SYS_SLAB,
    PFL_SYS_KINDS,
};

struct pfl_sys_conf {
    uint32_t period_ms[PFL_SYS_KINDS];  /* 0: not wanted; else at least 10 */
    bool meminfo[PFL_SYS_COUNTERS_MAX]; /* selected; all false: all */
    bool vmstat[PFL_SYS_COUNTERS_MAX];
    bool has_meminfo_choice;
    bool has_vmstat_choice;
    uint32_t stat_choice; /* a bit a StatCounters; 0: all */
};

#define PFL_SYS_STAT_CPU_TIMES 1u
#define PFL_SYS_STAT_IRQS      2u
#define PFL_SYS_STAT_SOFTIRQS  3u
#define PFL_SYS_STAT_FORKS     4u

/* Malformed bytes end the parsing; earlier fields count. */
void pfl_sys_conf_parse(struct pfl_span config, struct pfl_sys_conf *ret_conf);

/* Each appends fields of SysStats. */
void pfl_sys_add_meminfo(struct pfl_probe_message *m, const struct pfl_sys_conf *conf,
                         struct pfl_span text);
void pfl_sys_add_vmstat(struct pfl_probe_message *m, const struct pfl_sys_conf *conf,
                        struct pfl_span text);
void pfl_sys_add_stat(struct pfl_probe_message *m, const struct pfl_sys_conf *conf,
                      struct pfl_span text, uint64_t ns_per_tick);
void pfl_sys_add_diskstat(struct pfl_probe_message *m, struct pfl_span text);
void pfl_sys_add_buddyinfo(struct pfl_probe_message *m, struct pfl_span text);
/* `resource_some`: PsiResource of the line "some"; the line "full" has the next number. */
void pfl_sys_add_psi(struct pfl_probe_message *m, uint32_t resource_some, struct pfl_span text);

/* /proc/slabinfo. */
void pfl_sys_add_slab(struct pfl_probe_message *m, struct pfl_span text);
/* The current step in AMD's pp_dpm_sclk. */
bool pfl_sys_find_current_mhz(struct pfl_span text, uint64_t *ret_mhz);

#endif
