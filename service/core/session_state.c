/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of session_state.h. A move that is not in its table is a bug of ours: asserted. */
#include "service/core/session_state.h"

#include <assert.h>

static const bool session_moves[PFL_SESSION_STATES][PFL_SESSION_STATES] = {
    [PFL_SESSION_CONFIGURED] = {[PFL_SESSION_STARTED] = true, [PFL_SESSION_DISABLED] = true},
    [PFL_SESSION_STARTED] = {[PFL_SESSION_STOP_WAIT] = true, [PFL_SESSION_DISABLED] = true},
    [PFL_SESSION_STOP_WAIT] = {[PFL_SESSION_DISABLED] = true},
};

static const bool instance_moves[PFL_INSTANCE_STATES][PFL_INSTANCE_STATES] = {
    [PFL_INSTANCE_CONFIGURED] = {[PFL_INSTANCE_STARTING] = true,
                                 [PFL_INSTANCE_STARTED] = true,
                                 [PFL_INSTANCE_STOPPED] = true},
    [PFL_INSTANCE_STARTING] = {[PFL_INSTANCE_STARTED] = true,
                               [PFL_INSTANCE_STOPPING] = true,
                               [PFL_INSTANCE_STOPPED] = true},
    [PFL_INSTANCE_STARTED] = {[PFL_INSTANCE_STOPPING] = true, [PFL_INSTANCE_STOPPED] = true},
    [PFL_INSTANCE_STOPPING] = {[PFL_INSTANCE_STOPPED] = true},
};

bool pfl_session_state_may_move(enum pfl_session_state from, enum pfl_session_state to)
{
    return session_moves[from][to];
}

bool pfl_instance_state_may_move(enum pfl_instance_state from, enum pfl_instance_state to)
{
    return instance_moves[from][to];
}

void pfl_session_state_move(enum pfl_session_state *state, enum pfl_session_state to)
{
    assert(session_moves[*state][to]);
    *state = to;
}

void pfl_instance_state_move(enum pfl_instance_state *state, enum pfl_instance_state to)
{
    assert(instance_moves[*state][to]);
    *state = to;
}

const char *pfl_session_state_str(enum pfl_session_state state)
{
    static const char *const names[PFL_SESSION_STATES] = {"CONFIGURED", "STARTED", "STOP_WAIT",
                                                          "DISABLED", "CLONED_READ_ONLY"};

    return names[state];
}
