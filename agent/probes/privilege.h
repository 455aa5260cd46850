/* SPDX-License-Identifier: Apache-2.0 */
/* Drops unneeded privileges. */
#ifndef PFL_PROBES_PRIVILEGE_H
#define PFL_PROBES_PRIVILEGE_H

#include <stdbool.h>

/*
 * Keeps those of this thread's capabilities (later threads inherit them) that are needed to read
 * other processes' /proc files, drops the rest, and forbids new ones. Root's ownership of tracefs's
 * files suffices for the rest. False if the kernel refuses: then nothing changed.
 */
bool pfl_privilege_drop(void);

#endif
