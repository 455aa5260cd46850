/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One object in four files, which call each other: host_recording.c (the state machine),
 * host_recording_steps.c (requests and replies), host_recording_sessions.c (sessions that are
 * found, watched, read and given back) and host_recording_stream.c (a recording that is read while
 * it runs).
 */
#ifndef PFL_CONSUMER_HOST_RECORDING_IMPL_H
#define PFL_CONSUMER_HOST_RECORDING_IMPL_H

#include "consumer/host/host_recording.h"
#include "consumer/host/read_pace.h"

/* What is known about the session of the host that the task is about: one that outlives our
 * connection. RECORD has none, START from its Detach on. */
enum pfl_session_hold {
    PFL_HOLD_UNKNOWN,  /* the service has not listed its sessions yet */
    PFL_HOLD_NONE,     /* it is not there, or not for us */
    PFL_HOLD_DETACHED, /* it exists, and runs by itself */
    PFL_HOLD_VISITED,  /* likewise; the last answer of a visit is pending */
    PFL_HOLD_ATTACHED, /* to our connection, or will be: it must be given back before closing */
};

/* READ: where the packets come from. */
enum pfl_read_source {
    PFL_READ_NAMED,    /* the session itself, if the service does not copy it */
    PFL_READ_KEY_ONLY, /* the session itself: it has only a key, and cannot be copied */
    PFL_READ_COPY,     /* a copy: the session is removed afterwards */
};

enum pfl_close_step { PFL_CLOSE_NOT_BEGUN, PFL_CLOSE_BEGUN, PFL_CLOSE_TIMER_DONE };

struct pfl_host_recording {
    struct pfl_host_recording_conf conf;
    enum pfl_host_recording_state state;
    struct pfl_host_report report;
    struct pfl_host_conn *conn;       /* owned; NULL: closed */
    struct pfl_host_conn *clock_conn; /* owned; NULL: closed */
    bool is_conn_ready;
    bool is_clock_ready;
    bool is_paused;
    bool is_session_over; /* EnableTracing was answered */
    uv_timer_t timer;
    struct pfl_clock_probe probe;
    bool has_own_wait; /* WATCH: our own session waits for the triggers */
    bool is_flushed;
    bool is_to_keep; /* under conf.kept_key */
    enum pfl_session_hold hold;
    enum pfl_read_source source;
    uint64_t stop_by_ms; /* READ: of the loop, deadline of the session's stop */
    uint64_t lost_ms;    /* of the loop, when the connection was first seen lost; 0: connected */
    enum pfl_close_step closing;
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
    } pass;                       /* of reading while it records: host_recording_stream.c */
    struct pfl_buf service_state; /* while a session is looked for */
    struct pfl_buf wait;          /* WATCH: EnableTracing's request for our own session */
    struct pfl_buf trigger;       /* of CloneSession's request: the raised trigger */
    char title[PFL_HOST_NAME_MAX * 6];
};

/* The remedy for a host that is stuck in that state; "" if it waits for nothing. */
const char *pfl_host_recording_state_remedy(enum pfl_host_recording_state state);

/* Changes the state and makes its request; then notifies the coordinator. */
void pfl_host_recording_move(struct pfl_host_recording *self, enum pfl_host_recording_state to);
/* (Re)starts the deadline of the state. */
void pfl_host_recording_arm(struct pfl_host_recording *self);
/* READ, in DISABLING: pfl_host_recording_look_at_session follows, or the deadline. */
void pfl_host_recording_look_later(struct pfl_host_recording *self);
/* While READING: resets the deadline when enough of the trace has arrived since. */
void pfl_host_recording_note_progress(struct pfl_host_recording *self);
/* Closes both connections; DONE or FAILED follows. */
void pfl_host_recording_begin_close(struct pfl_host_recording *self);
/* In READ_OUT and after it: the data is complete, though the host is lost. */
void pfl_host_recording_close_when_read(struct pfl_host_recording *self);
/* In CLOSING, without waiting for anything. Idempotent. */
void pfl_host_recording_close_now(struct pfl_host_recording *self);

/* READING begins. */
void pfl_host_recording_begin_pace(struct pfl_host_recording *self);
/* Makes the state's first request. */
void pfl_host_recording_enter(struct pfl_host_recording *self);
/* Makes a request at this host; the host fails if it cannot be sent. */
void pfl_host_recording_ask(struct pfl_host_recording *self, const char *method,
                            struct pfl_span args, pfl_rpc_reply_cb cb);
/* The answer to EnableTracing: the session has ended. */
int pfl_host_recording_on_session_end(void *user, const struct pfl_rpc_reply *reply);

/* Sessions of others, or for later reading (host_recording_sessions.c). */
void pfl_host_recording_find_session(struct pfl_host_recording *self);
/* READ, WATCH: attaches only for `act`, which the service does at once. */
void pfl_host_recording_visit_session(struct pfl_host_recording *self,
                                      void (*act)(struct pfl_host_recording *));
/* READ, in DISABLING: queries whether it has stopped. */
void pfl_host_recording_look_at_session(struct pfl_host_recording *self);
/* WATCH, in RECORDING: pfl_host_recording_look_at_watched follows periodically. */
void pfl_host_recording_watch_later(struct pfl_host_recording *self);
/* WATCH, in SETUP: without a session of our own. */
void pfl_host_recording_attach_watched(struct pfl_host_recording *self);
/* Queries whether the watched session still exists. */
void pfl_host_recording_look_at_watched(struct pfl_host_recording *self);
void pfl_host_recording_clone_session(struct pfl_host_recording *self);
void pfl_host_recording_detach_session(struct pfl_host_recording *self);
/* READ: a session whose copy was read. */
void pfl_host_recording_remove_session(struct pfl_host_recording *self);
/* Before closing: leaves our unread session at the host, under its name or kept_key. */
void pfl_host_recording_give_session_back(struct pfl_host_recording *self);

/* A reply of a pass (host_recording_stream.c). */
int pfl_host_recording_on_pass(struct pfl_host_recording *self, const struct pfl_rpc_reply *reply);
/* The packets of one reply; on a failure the host fails. */
PFL_MUST_USE int pfl_host_recording_take_packets(struct pfl_host_recording *self,
                                                 const struct pfl_rpc_reply *reply);
/* Writes the service's counters into the report. */
void pfl_host_recording_take_losses(struct pfl_host_recording *self,
                                    const struct pfl_losses *losses);
void pfl_host_recording_ask_read(struct pfl_host_recording *self);
void pfl_host_recording_measure_clock(struct pfl_host_recording *self);

/* The host's clock stays unmeasured; the recording continues. */
void pfl_host_recording_skip_clock(struct pfl_host_recording *self);

#endif
