/* SPDX-License-Identifier: Apache-2.0 */
/* The handlers that switch the library off in the child of a fork. */
#ifndef PFL_PRODUCER_FORK_HANDLERS_H
#define PFL_PRODUCER_FORK_HANDLERS_H

#include <stdbool.h>

/* Installs them once in the process. False when the system refused. */
bool pfl_fork_handlers_install(void);

#endif
