/* SPDX-License-Identifier: Apache-2.0 */
/* What port.c (relays and streams) and metrics_port.c (their figures) share. */
#ifndef PFL_AGENT_PORT_IMPL_H
#define PFL_AGENT_PORT_IMPL_H

#include "agent/port.h"
#include "base/io/lane.h"
#include "base/list.h"
#include "base/log.h"
#include "proto/identity.h"
#include "tunnel/dialer.h"

struct pfl_agent_uplink {
    struct pfl_agent *agent;
    struct pfl_dialer *dialer; /* owned until its on_closed */
    struct pfl_log_limit log;
    char address[300];
};

struct pfl_agent {
    struct pfl_agent_conf conf;
    struct pfl_tls_conf *tls; /* a counted reference */
    struct pfl_agent_uplink uplinks[PFL_AGENT_MAX_RELAYS];
    unsigned dialers;
    struct pfl_list streams; /* owned until each one's on_gone */
    unsigned streams_len;
    uint64_t streams_begun;
    struct pfl_spool_pool pool;
    struct pfl_lane *lane; /* owned; encodes */
    char *hello;           /* owned */
    bool is_closing;
    char fleet[PFL_IDENTITY_NAME_BYTES];
    char name[PFL_IDENTITY_NAME_BYTES];
};

#endif
