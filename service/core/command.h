/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of GetAsyncCommand: encoded and handed to the producer's port. */
#ifndef PFL_SERVICE_COMMAND_H
#define PFL_SERVICE_COMMAND_H

#include "service/core/session.h"

/* A producer whose command could not be encoded (no memory) misses it: the next ones come. */
void pfl_command_setup_tracing(struct pfl_producer *producer);
void pfl_command_setup_source(const struct pfl_instance *instance);
void pfl_command_start_source(const struct pfl_instance *instance);
void pfl_command_stop_source(const struct pfl_instance *instance);

/* Which data sources take part: by what their buffer does when the session is cloned. */
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
/* Flush, or clear_incremental_state when `flush` is NULL, for the session's instances in that
 * producer that take part. False when there are none, and nothing was sent. */
bool pfl_command_flush(struct pfl_producer *producer, const struct pfl_session *session,
                       const struct pfl_command_flush *flush);

#endif
