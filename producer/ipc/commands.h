/* SPDX-License-Identifier: Apache-2.0 */
/* Executes the service's commands. Library's thread. */
#ifndef PFL_PRODUCER_COMMANDS_H
#define PFL_PRODUCER_COMMANDS_H

#include "producer/ipc/client.h"

/* One GetAsyncCommandResponse. Malformed: the connection fails. */
void pfl_commands_do(struct perfleet *p, struct pfl_span body);
/* Commits, and reports that the instance has stopped. */
void pfl_commands_say_stopped(struct perfleet *p, uint64_t id);
/* Acknowledges completed asynchronous flushes. */
void pfl_commands_settle_flushes(struct perfleet *p);

#endif
