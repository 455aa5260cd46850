/* SPDX-License-Identifier: Apache-2.0 */
/* Is this the child of a fork? There the library is switched off. */
#ifndef PFL_PRODUCER_FORK_H
#define PFL_PRODUCER_FORK_H

#include <stdbool.h>

extern bool pfl_fork_child_flag;

/* Are we in a child? Set before the child runs anything of the program, never cleared. */
static inline bool pfl_fork_is_child(void)
{
    return __builtin_expect(pfl_fork_child_flag, 0);
}

#endif
