/* SPDX-License-Identifier: Apache-2.0 */
/* Giving up what is not needed. */
#ifndef PFL_PROBES_PRIVILEGE_H
#define PFL_PROBES_PRIVILEGE_H

#include <stdbool.h>

/*
 * Keeps of this thread's capabilities (threads made later inherit) those for reading other
 * processes' /proc files, drops the rest, and forbids new ones. Root's ownership of tracefs's
 * files is enough for the rest. False when the kernel refuses: then nothing is changed.
 */
bool pfl_privilege_drop(void);

#endif
