/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two state machines of a session (docs/abi/service.md section 5), each one const table.
 *
 *   session:   CONFIGURED -> STARTED -> STOP_WAIT -> DISABLED
 *                   \___________\____________________/
 *   instance:  CONFIGURED -> STARTING -> STARTED -> STOPPING -> STOPPED
 *   (of a data source; every state but STOPPED may go straight to STOPPED: its producer left)
 */
#ifndef PFL_SERVICE_SESSION_STATE_H
#define PFL_SERVICE_SESSION_STATE_H

#include <stdbool.h>

enum pfl_session_state {
    PFL_SESSION_CONFIGURED, /* waits for StartTracing */
    PFL_SESSION_STARTED,    /* records; waits for the end */
    PFL_SESSION_STOP_WAIT,  /* waits for data sources to say that they stopped */
    PFL_SESSION_DISABLED,   /* over; waits for reads and FreeBuffers */
    PFL_SESSION_CLONED, /* a read-only copy, in this state for life; waits for reads and FreeBuffers
                         */
    PFL_SESSION_STATES,
};

enum pfl_instance_state {
    PFL_INSTANCE_CONFIGURED, /* waits for the start */
    PFL_INSTANCE_STARTING,   /* waits for NotifyDataSourceStarted */
    PFL_INSTANCE_STARTED,    /* waits for the stop */
    PFL_INSTANCE_STOPPING,   /* waits for NotifyDataSourceStopped */
    PFL_INSTANCE_STOPPED,
    PFL_INSTANCE_STATES,
};

bool pfl_session_state_may_move(enum pfl_session_state from, enum pfl_session_state to);
bool pfl_instance_state_may_move(enum pfl_instance_state from, enum pfl_instance_state to);
/* Asserts the move and makes it. */
void pfl_session_state_move(enum pfl_session_state *state, enum pfl_session_state to);
void pfl_instance_state_move(enum pfl_instance_state *state, enum pfl_instance_state to);
/* As QueryServiceState spells it: "CONFIGURED", "STARTED", "STOP_WAIT", "DISABLED",
 * "CLONED_READ_ONLY". */
const char *pfl_session_state_str(enum pfl_session_state state);

#endif
