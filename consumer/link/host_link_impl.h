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
    bool is_attached; /* to a session that is to outlive us while nothing of it was read */
    bool is_closing_now;
    struct pfl_packet_scan scan;
    struct pfl_read_budget budget; /* while READING */
    bool has_spent_budget;
    struct pfl_buf service_state; /* while a session is looked for */
    struct pfl_buf trigger;       /* of CloneSession's request: what was raised here */
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
/* In CLOSING, without waiting for anything. Idempotent. */
void pfl_host_link_close_now(struct pfl_host_link *self);

/* Makes the request that the state begins with. */
void pfl_host_link_enter(struct pfl_host_link *self);
/* A request of this link; a failure to send it ends the link. */
void pfl_host_link_ask(struct pfl_host_link *self, const char *method, struct pfl_span args,
                       pfl_rpc_reply_cb cb);
/* The answer to EnableTracing: the session has ended. */
int pfl_host_link_on_session_end(void *user, const struct pfl_rpc_reply *reply);

/* Sessions that others made or will read (host_link_sessions.c). */
void pfl_host_link_find_session(struct pfl_host_link *self);
void pfl_host_link_clone_session(struct pfl_host_link *self);
void pfl_host_link_detach_session(struct pfl_host_link *self);
/* Before closing: what we hold and did not read stays on the host. */
void pfl_host_link_give_session_back(struct pfl_host_link *self);

/* The host's clock stays unmeasured; the recording goes on. */
void pfl_host_link_skip_clock(struct pfl_host_link *self);

#endif
