/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of /proc/meminfo and /proc/vmstat by the kernel's names. Pure. */
#ifndef PFL_PROBES_SYS_COUNTERS_H
#define PFL_PROBES_SYS_COUNTERS_H

#include "base/bytes.h"

#define PFL_SYS_COUNTERS_MAX 192u /* every number below is smaller */

/* The number in MeminfoCounters and VmstatCounters; 0: none. */
uint32_t pfl_sys_counters_find_meminfo(struct pfl_span name);
uint32_t pfl_sys_counters_find_vmstat(struct pfl_span name);

#endif
