/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The states of one host in a recording, as tables: their names, the remedy if a host is stuck, and
 * the legal transitions. Nothing here can fail.
 */
#include "consumer/host/host_recording_impl.h"

struct state_info {
    const char *words;
    const char *remedy;
};

static const struct state_info infos[PFL_HOST_STATES] = {
    [PFL_HOST_CONNECTING] = {"connecting", "check address, port and firewall"},
    [PFL_HOST_CLOCK_BEFORE] = {"measuring the clock", "the service there may be stuck"},
    [PFL_HOST_SETUP] = {"setting up", "the service there may be stuck: see its log"},
    [PFL_HOST_READY] = {"ready", ""},
    [PFL_HOST_STARTING] = {"starting", "the service there may be stuck: see its log"},
    [PFL_HOST_RECORDING] = {"recording", ""},
    [PFL_HOST_FLUSHING] = {"flushing", "a producer there may be stuck"},
    [PFL_HOST_DISABLING] = {"stopping", "a producer there may be stuck"},
    [PFL_HOST_DETACHING] = {"leaving the session", "the service there may be stuck: see its log"},
    [PFL_HOST_CLONING] = {"copying the session", "a producer there may be stuck"},
    [PFL_HOST_STATS] = {"reading the counters", "the service there may be stuck"},
    [PFL_HOST_CLOCK_AFTER] = {"measuring the clock", "the service there may be stuck"},
    [PFL_HOST_STOPPED] = {"stopped", ""},
    [PFL_HOST_READING] = {"reading", "the network or the service there may be stuck"},
    [PFL_HOST_READ_OUT] = {"read", ""},
    [PFL_HOST_FREEING] = {"freeing the buffers", ""},
    [PFL_HOST_REMOVING] = {"removing the session", ""},
    [PFL_HOST_CLOSING] = {"closing", ""},
    [PFL_HOST_DONE] = {"done", ""},
    [PFL_HOST_FAILED] = {"failed", ""},
};

#define TO(state) (1u << PFL_HOST_##state)
static const unsigned legal_moves[PFL_HOST_STATES] = {
    [PFL_HOST_CONNECTING] = TO(CLOCK_BEFORE) | TO(SETUP) | TO(CLOSING),
    [PFL_HOST_CLOCK_BEFORE] = TO(SETUP) | TO(CLOSING),
    [PFL_HOST_SETUP] = TO(READY) | TO(CLOSING),
    [PFL_HOST_READY] =
        TO(STARTING) | TO(RECORDING) | TO(FLUSHING) | TO(CLONING) | TO(STATS) | TO(CLOSING),
    [PFL_HOST_STARTING] = TO(RECORDING) | TO(DETACHING) | TO(STATS) | TO(CLOSING),
    [PFL_HOST_RECORDING] = TO(FLUSHING) | TO(DETACHING) | TO(STATS) | TO(CLOSING),
    [PFL_HOST_FLUSHING] = TO(DISABLING) | TO(STATS) | TO(CLOSING),
    [PFL_HOST_DISABLING] = TO(CLONING) | TO(STATS) | TO(CLOSING),
    [PFL_HOST_DETACHING] = TO(CLONING) | TO(CLOSING),
    [PFL_HOST_CLONING] = TO(STATS) | TO(CLOSING),
    [PFL_HOST_STATS] = TO(CLOCK_AFTER) | TO(STOPPED) | TO(CLOSING),
    [PFL_HOST_CLOCK_AFTER] = TO(STOPPED) | TO(CLOSING),
    [PFL_HOST_STOPPED] = TO(READING) | TO(CLOSING),
    [PFL_HOST_READING] = TO(READ_OUT) | TO(CLOSING),
    [PFL_HOST_READ_OUT] = TO(FREEING) | TO(CLOSING),
    [PFL_HOST_FREEING] = TO(REMOVING) | TO(CLOSING),
    [PFL_HOST_REMOVING] = TO(CLOSING),
    [PFL_HOST_CLOSING] = TO(DONE) | TO(FAILED),
};
#undef TO

const char *pfl_host_recording_state_str(enum pfl_host_recording_state state)
{
    return infos[state].words;
}

const char *pfl_host_recording_state_remedy(enum pfl_host_recording_state state)
{
    return infos[state].remedy;
}

bool pfl_host_recording_is_move_legal(enum pfl_host_recording_state from,
                                      enum pfl_host_recording_state to)
{
    return (legal_moves[from] >> to & 1) != 0;
}
