/* SPDX-License-Identifier: Apache-2.0 */
/* What host_link.c (the machine) and host_link_steps.c (requests and replies) share. */
#ifndef PFL_CONSUMER_HOST_LINK_IMPL_H
#define PFL_CONSUMER_HOST_LINK_IMPL_H

#include "consumer/link/host_link.h"

struct pfl_host_link {
    struct pfl_host_link_conf conf;
    enum pfl_link_state state;
    struct pfl_host_report report;
    struct pfl_consumer_conn *conn;       /* owned; NULL: closed */
    struct pfl_consumer_conn *clock_conn; /* owned; NULL: closed */
    bool is_conn_ready;
    bool is_clock_ready;
    bool is_timer_open;
    bool is_paused;
    bool is_session_over; /* EnableTracing was answered */
    uv_timer_t timer;
    struct pfl_clock_probe probe;
    struct pfl_packet_scan scan;
    char title[PFL_HOST_NAME_MAX * 6];
};

/* What may help a host that got stuck in that state; "" where nothing is waited for. */
const char *pfl_link_state_remedy(enum pfl_link_state state);

/* Changes the state and makes its request; the coordinator is told last. */
void pfl_host_link_move(struct pfl_host_link *self, enum pfl_link_state to);
/* (Re)starts the deadline of the state. */
void pfl_host_link_arm(struct pfl_host_link *self);
/* Closes both connections; DONE or FAILED follows. */
void pfl_host_link_begin_close(struct pfl_host_link *self);

/* Makes the request that the state begins with. */
void pfl_host_link_enter(struct pfl_host_link *self);
/* The host's clock stays unmeasured; the recording goes on. */
void pfl_host_link_skip_clock(struct pfl_host_link *self);

#endif
