/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory the cgroup of a process may have: with less than that free, the kernel ends it.
 */
#ifndef PFL_SERVICE_MEMORY_LIMIT_H
#define PFL_SERVICE_MEMORY_LIMIT_H

#include <stdint.h>

/* The lowest limit of the cgroups that `cgroups` (/proc/self/cgroup) names, and of those above
 * them, below `root` (/sys/fs/cgroup), of either version; 0: none, or not known. */
uint64_t pfl_memory_limit_read(const char *cgroups, const char *root);

#endif
