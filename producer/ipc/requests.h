/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of the library's thread to the service: see requests.c. Only that thread calls these,
 * except pfl_requests_try_commit. */
#ifndef PFL_PRODUCER_REQUESTS_H
#define PFL_PRODUCER_REQUESTS_H

#include "producer/ipc/client.h"

#define PFL_REQUESTS_FRAME_ROOM 64u /* overhead of a frame */

/* The request's id, 0 if the service lacks the method. */
uint64_t pfl_requests_invoke(struct perfleet *p, enum pfl_ipc_method method, struct pfl_span args,
                             bool drop_reply);
/* A request whose only argument is field 1, a number; no reply. */
void pfl_requests_invoke_number(struct perfleet *p, enum pfl_ipc_method method, uint64_t number);
/* InitializeConnection and GetAsyncCommand. */
void pfl_requests_greet(struct perfleet *p);
void pfl_requests_register_source(struct perfleet *p, const struct pfl_source *s);
/* Its descriptor has changed. */
void pfl_requests_update_source(struct perfleet *p, const struct pfl_source *s);
void pfl_requests_unregister_source(struct perfleet *p, const struct pfl_source *s);
/* Sends everything that is pending: opened writers, CommitData, closed writers. */
void pfl_requests_commit(struct perfleet *p);
/* Any thread, with the arbiter's send_lock: commits and sends without waiting. False: the
 * connection is not idle, nothing was done. `ret_is_rest`: the library's thread must continue. */
bool pfl_requests_try_commit(struct perfleet *p, bool *ret_is_rest);
/* Sends queued bytes as far as the socket accepts them; returns what is left. */
size_t pfl_requests_send(struct perfleet *p);
size_t pfl_requests_queued(struct perfleet *p);

#endif
