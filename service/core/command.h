/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes the commands of GetAsyncCommand and passes them to the producer's port. */
#ifndef PFL_SERVICE_COMMAND_H
#define PFL_SERVICE_COMMAND_H

#include "service/core/session.h"

/* If a command cannot be encoded (no memory), the producer misses it, and gets the next ones. */
void pfl_command_setup_tracing(struct pfl_producer *producer);
void pfl_command_setup_source(const struct pfl_instance *instance);
void pfl_command_start_source(const struct pfl_instance *instance);
void pfl_command_stop_source(const struct pfl_instance *instance);

/* Which data sources take part, by what happens to their buffer when the session is cloned. */
enum pfl_command_scope {
    PFL_SCOPE_ALL = 0,
    PFL_SCOPE_TRANSFERRED,
    PFL_SCOPE_COPIED,
};

struct pfl_command_flush {
    enum pfl_command_scope scope;
    uint64_t request_id;
    uint64_t flags;
};
/* Sends flush (or clear_incremental_state if `flush` is NULL) for the session's instances in that
 * producer that take part. False: there are none, and nothing was sent. */
bool pfl_command_flush(struct pfl_producer *producer, const struct pfl_session *session,
                       const struct pfl_command_flush *flush);

#endif
