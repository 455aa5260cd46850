/* SPDX-License-Identifier: Apache-2.0 */
/* When commits are sent: see commits.c. */
#ifndef PFL_PRODUCER_COMMITS_H
#define PFL_PRODUCER_COMMITS_H

#include "producer/ipc/client.h"

/* The library's thread: sends queued bytes and commits what is due; never waits. */
void pfl_commits_turn(struct perfleet *p);
/* The library's thread: sends the queue with waiting, at most `ms`. */
void pfl_commits_drain(struct perfleet *p, uint64_t ms);
/* For the arbiter; `p` is the struct perfleet. On the library's thread, in a callback that found no
 * memory while no other thread can make room: commits, waits a little. False: the connection is
 * lost. */
bool pfl_commits_now(void *p);
/* For the arbiter, on a writer's thread, with its send_lock: commits without waiting. */
bool pfl_commits_here(void *p);

#endif
