/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One object in four files, which call each other: host_link.c (the state machine),
 * host_link_steps.c (requests and replies), host_link_sessions.c (sessions that are found, watched,
 * read and given back) and host_link_stream.c (a recording that is read while it runs).
 */
#ifndef PFL_CONSUMER_HOST_LINK_IMPL_H
#define PFL_CONSUMER_HOST_LINK_IMPL_H

#include "consumer/host/host_link.h"
#include "consumer/host/read_pace.h"

struct pfl_host_link {
    struct pfl_host_link_conf conf;
    enum pfl_link_state state;
    struct pfl_host_report report;
    struct pfl_host_conn *conn;       /* owned; NULL: closed */
    struct pfl_host_conn *clock_conn; /* owned; NULL: closed */
    bool is_conn_ready;
    bool is_clock_ready;
    bool is_timer_open;
    bool is_paused;
    bool is_session_over; /* EnableTracing was answered */
    uv_timer_t timer;
    struct pfl_clock_probe probe;
    bool has_own_wait; /* WATCH: our own session waits for the triggers */
    bool is_attached;  /* to a session that is to outlive the connection */
    bool is_visiting;  /* READ: the last answer of a visit is pending */
    bool is_flushed;
    bool has_session;    /* READ: it exists, and is not freed */
    bool has_looked;     /* the service has listed its sessions, or cannot */
    bool is_copied;      /* READ: reads a copy of the session */
    bool has_no_name;    /* READ: it has only a key, and cannot be copied */
    bool is_to_keep;     /* under conf.kept_key */
    uint64_t stop_by_ms; /* READ: of the loop, deadline of the session's stop */
    uint64_t lost_ms;    /* of the loop, when the connection was first seen lost; 0: connected */
    bool is_closing_now;
    struct pfl_packet_scan scan;
    struct pfl_read_budget budget; /* while READING */
    struct pfl_read_pace pace;     /* likewise */
    uint64_t paced_ms;             /* of the loop: the last check */
    uint64_t away_sum_ms;          /* while READING */
    bool has_spent_budget;
    uint64_t progress_bytes; /* of the trace, when the deadline of READING was last reset */
    struct {
        bool is_open; /* its last reply is pending */
        bool is_flushing;
        uint64_t flushes_failed;
        uint64_t bytes;   /* bytes that it has brought */
        uint64_t next_ms; /* of the loop: when the next pass is due */
        uint64_t period_ms;
        uint64_t flush_ms; /* when the next flush is due */
        uint64_t clock_period_ms;
        uint64_t clock_ms;        /* when the clock is to be measured */
    } pass;                       /* of reading while it records: host_link_stream.c */
    struct pfl_buf service_state; /* while a session is looked for */
    struct pfl_buf wait;          /* WATCH: EnableTracing's request for our own session */
    struct pfl_buf trigger;       /* of CloneSession's request: the raised trigger */
    char title[PFL_HOST_NAME_MAX * 6];
};

/* The remedy for a host that is stuck in that state; "" if it waits for nothing. */
const char *pfl_link_state_remedy(enum pfl_link_state state);

/* Changes the state and makes its request; then notifies the coordinator. */
void pfl_host_link_move(struct pfl_host_link *self, enum pfl_link_state to);
/* (Re)starts the deadline of the state. */
void pfl_host_link_arm(struct pfl_host_link *self);
/* READ, in DISABLING: pfl_host_link_look_at_session follows, or the deadline. */
void pfl_host_link_look_later(struct pfl_host_link *self);
/* While READING: resets the deadline when enough of the trace has arrived since. */
void pfl_host_link_note_progress(struct pfl_host_link *self);
/* Closes both connections; DONE or FAILED follows. */
void pfl_host_link_begin_close(struct pfl_host_link *self);
/* In READ_OUT and after it: the data is complete, though the host is lost. */
void pfl_host_link_close_when_read(struct pfl_host_link *self);
/* In CLOSING, without waiting for anything. Idempotent. */
void pfl_host_link_close_now(struct pfl_host_link *self);

/* READING begins. */
void pfl_host_link_begin_pace(struct pfl_host_link *self);
/* Makes the state's first request. */
void pfl_host_link_enter(struct pfl_host_link *self);
/* Makes a request of this link; a failure to send it ends the link. */
void pfl_host_link_ask(struct pfl_host_link *self, const char *method, struct pfl_span args,
                       pfl_rpc_reply_cb cb);
/* The answer to EnableTracing: the session has ended. */
int pfl_host_link_on_session_end(void *user, const struct pfl_rpc_reply *reply);

/* Sessions of others, or for later reading (host_link_sessions.c). */
void pfl_host_link_find_session(struct pfl_host_link *self);
/* READ, WATCH: attaches only for `act`, which the service does at once. */
void pfl_host_link_visit_session(struct pfl_host_link *self, void (*act)(struct pfl_host_link *));
/* READ, in DISABLING: queries whether it has stopped. */
void pfl_host_link_look_at_session(struct pfl_host_link *self);
/* WATCH, in RECORDING: pfl_host_link_look_at_watched follows periodically. */
void pfl_host_link_watch_later(struct pfl_host_link *self);
/* WATCH, in SETUP: without a session of our own. */
void pfl_host_link_attach_watched(struct pfl_host_link *self);
/* Queries whether the watched session still exists. */
void pfl_host_link_look_at_watched(struct pfl_host_link *self);
void pfl_host_link_clone_session(struct pfl_host_link *self);
void pfl_host_link_detach_session(struct pfl_host_link *self);
/* READ: a session whose copy was read. */
void pfl_host_link_remove_session(struct pfl_host_link *self);
/* Before closing: leaves our unread session at the host, under its name or kept_key. */
void pfl_host_link_give_session_back(struct pfl_host_link *self);

/* A reply of a pass (host_link_stream.c). */
int pfl_host_link_on_pass(struct pfl_host_link *self, const struct pfl_rpc_reply *reply);
/* The packets of one reply; a failure ends the link. */
PFL_MUST_USE int pfl_host_link_take_packets(struct pfl_host_link *self,
                                            const struct pfl_rpc_reply *reply);
/* Writes the service's counters into the report. */
void pfl_host_link_take_losses(struct pfl_host_link *self, const struct pfl_losses *losses);
void pfl_host_link_ask_read(struct pfl_host_link *self);
void pfl_host_link_measure_clock(struct pfl_host_link *self);

/* The host's clock stays unmeasured; the recording continues. */
void pfl_host_link_skip_clock(struct pfl_host_link *self);

#endif
