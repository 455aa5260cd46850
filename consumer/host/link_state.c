/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The states of one host in a recording, as tables: their names, the remedy if a host is stuck, and
 * the legal transitions. Nothing here can fail.
 */
#include "consumer/host/host_link_impl.h"

struct state_info {
    const char *words;
    const char *remedy;
};

static const struct state_info infos[PFL_LINK_STATES] = {
    [PFL_LINK_CONNECTING] = {"connecting", "check address, port and firewall"},
    [PFL_LINK_CLOCK_BEFORE] = {"measuring the clock", "the service there may be stuck"},
    [PFL_LINK_SETUP] = {"setting up", "the service there may be stuck: see its log"},
    [PFL_LINK_READY] = {"ready", ""},
    [PFL_LINK_STARTING] = {"starting", "the service there may be stuck: see its log"},
    [PFL_LINK_RECORDING] = {"recording", ""},
    [PFL_LINK_FLUSHING] = {"flushing", "a producer there may be stuck"},
    [PFL_LINK_DISABLING] = {"stopping", "a producer there may be stuck"},
    [PFL_LINK_DETACHING] = {"leaving the session", "the service there may be stuck: see its log"},
    [PFL_LINK_CLONING] = {"copying the session", "a producer there may be stuck"},
    [PFL_LINK_STATS] = {"reading the counters", "the service there may be stuck"},
    [PFL_LINK_CLOCK_AFTER] = {"measuring the clock", "the service there may be stuck"},
    [PFL_LINK_STOPPED] = {"stopped", ""},
    [PFL_LINK_READING] = {"reading", "the network or the service there may be stuck"},
    [PFL_LINK_READ_OUT] = {"read", ""},
    [PFL_LINK_FREEING] = {"freeing the buffers", ""},
    [PFL_LINK_REMOVING] = {"removing the session", ""},
    [PFL_LINK_CLOSING] = {"closing", ""},
    [PFL_LINK_DONE] = {"done", ""},
    [PFL_LINK_FAILED] = {"failed", ""},
};

#define TO(state) (1u << PFL_LINK_##state)
static const unsigned legal_moves[PFL_LINK_STATES] = {
    [PFL_LINK_CONNECTING] = TO(CLOCK_BEFORE) | TO(SETUP) | TO(CLOSING),
    [PFL_LINK_CLOCK_BEFORE] = TO(SETUP) | TO(CLOSING),
    [PFL_LINK_SETUP] = TO(READY) | TO(CLOSING),
    [PFL_LINK_READY] =
        TO(STARTING) | TO(RECORDING) | TO(FLUSHING) | TO(CLONING) | TO(STATS) | TO(CLOSING),
    [PFL_LINK_STARTING] = TO(RECORDING) | TO(DETACHING) | TO(STATS) | TO(CLOSING),
    [PFL_LINK_RECORDING] = TO(FLUSHING) | TO(DETACHING) | TO(STATS) | TO(CLOSING),
    [PFL_LINK_FLUSHING] = TO(DISABLING) | TO(STATS) | TO(CLOSING),
    [PFL_LINK_DISABLING] = TO(CLONING) | TO(STATS) | TO(CLOSING),
    [PFL_LINK_DETACHING] = TO(CLONING) | TO(CLOSING),
    [PFL_LINK_CLONING] = TO(STATS) | TO(CLOSING),
    [PFL_LINK_STATS] = TO(CLOCK_AFTER) | TO(STOPPED) | TO(CLOSING),
    [PFL_LINK_CLOCK_AFTER] = TO(STOPPED) | TO(CLOSING),
    [PFL_LINK_STOPPED] = TO(READING) | TO(CLOSING),
    [PFL_LINK_READING] = TO(READ_OUT) | TO(CLOSING),
    [PFL_LINK_READ_OUT] = TO(FREEING) | TO(CLOSING),
    [PFL_LINK_FREEING] = TO(REMOVING) | TO(CLOSING),
    [PFL_LINK_REMOVING] = TO(CLOSING),
    [PFL_LINK_CLOSING] = TO(DONE) | TO(FAILED),
};
#undef TO

const char *pfl_link_state_str(enum pfl_link_state state)
{
    return infos[state].words;
}

const char *pfl_link_state_remedy(enum pfl_link_state state)
{
    return infos[state].remedy;
}

bool pfl_link_is_move_legal(enum pfl_link_state from, enum pfl_link_state to)
{
    return (legal_moves[from] >> to & 1) != 0;
}
