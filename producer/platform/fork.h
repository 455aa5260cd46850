/* SPDX-License-Identifier: Apache-2.0 */
/* What happens to the library in the child of a fork: it is switched off. */
#ifndef PFL_PRODUCER_FORK_H
#define PFL_PRODUCER_FORK_H

#include <stdbool.h>

extern bool pfl_fork_child_flag;

/* Installs the handlers once in the process. False when the system refused. */
bool pfl_fork_init(void);

/* Are we in a child? Set before the child runs anything of the program, never cleared. */
static inline bool pfl_fork_is_child(void)
{
    return __builtin_expect(pfl_fork_child_flag, 0);
}

#endif
