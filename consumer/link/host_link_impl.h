/* SPDX-License-Identifier: Apache-2.0 */
/* What host_link.c (the machine) and host_link_steps.c (requests and replies) share. */
#ifndef PFL_CONSUMER_HOST_LINK_IMPL_H
#define PFL_CONSUMER_HOST_LINK_IMPL_H

#include "consumer/link/host_link.h"
#include "consumer/link/read_pace.h"

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
    bool has_own_wait; /* WATCH: a session of our own waits for the triggers */
    bool is_attached;  /* to a session that is to outlive us */
    bool is_visiting;  /* READ: the last answer of a visit has not come */
    bool is_flushed;
    bool has_session;    /* READ: it was found, and is not freed */
    bool has_looked;     /* the service has said which sessions there are, or that it does not */
    bool is_copied;      /* READ: what is read is a copy of the session */
    bool has_no_name;    /* READ: it has only a key, and cannot be copied */
    bool is_to_keep;     /* under conf.kept_key */
    uint64_t stop_by_ms; /* READ: of the loop, until when the session may take to stop */
    uint64_t lost_ms;    /* of the loop, when the connection was first seen lost; 0: it is there */
    bool is_closing_now;
    struct pfl_packet_scan scan;
    struct pfl_read_budget budget; /* while READING */
    struct pfl_read_pace pace;     /* likewise */
    uint64_t paced_ms;             /* of the loop: when it was looked at last */
    uint64_t away_sum_ms;          /* while READING */
    bool has_spent_budget;
    uint64_t progress_bytes; /* of the trace, when the deadline of READING last began again */
    struct {
        bool is_open; /* its last reply has not come */
        bool is_flushing;
        uint64_t flushes_failed;
        uint64_t bytes;   /* that it has brought */
        uint64_t next_ms; /* of the loop: when the next one is due */
        uint64_t period_ms;
        uint64_t flush_ms; /* when the next flush is due */
        uint64_t clock_period_ms;
        uint64_t clock_ms;        /* when the clock is to be measured */
    } pass;                       /* of reading while it records: host_link_stream.c */
    struct pfl_buf service_state; /* while a session is looked for */
    struct pfl_buf wait;          /* WATCH: EnableTracing's request of our own session */
    struct pfl_buf trigger;       /* of CloneSession's request: what was raised here */
    char title[PFL_HOST_NAME_MAX * 6];
};

/* What may help a host that got stuck in that state; "" where nothing is waited for. */
const char *pfl_link_state_remedy(enum pfl_link_state state);

/* Changes the state and makes its request; the coordinator learns of it last. */
void pfl_host_link_move(struct pfl_host_link *self, enum pfl_link_state to);
/* (Re)starts the deadline of the state. */
void pfl_host_link_arm(struct pfl_host_link *self);
/* READ, in DISABLING: pfl_host_link_look_at_session follows, or the deadline. */
void pfl_host_link_look_later(struct pfl_host_link *self);
/* While READING: the deadline begins again when enough of the trace has come since. */
void pfl_host_link_note_progress(struct pfl_host_link *self);
/* Closes both connections; DONE or FAILED follows. */
void pfl_host_link_begin_close(struct pfl_host_link *self);
/* In READ_OUT and after it: what came is whole, though the host is gone. */
void pfl_host_link_close_when_read(struct pfl_host_link *self);
/* In CLOSING, without waiting for anything. Idempotent. */
void pfl_host_link_close_now(struct pfl_host_link *self);

/* READING begins. */
void pfl_host_link_begin_pace(struct pfl_host_link *self);
/* Makes the request that the state begins with. */
void pfl_host_link_enter(struct pfl_host_link *self);
/* A request of this link; a failure to send it ends the link. */
void pfl_host_link_ask(struct pfl_host_link *self, const char *method, struct pfl_span args,
                       pfl_rpc_reply_cb cb);
/* The answer to EnableTracing: the session has ended. */
int pfl_host_link_on_session_end(void *user, const struct pfl_rpc_reply *reply);

/* Sessions that others made or will read (host_link_sessions.c). */
void pfl_host_link_find_session(struct pfl_host_link *self);
/* READ, WATCH: is attached for the time of `act` alone, which the service does at once. */
void pfl_host_link_visit_session(struct pfl_host_link *self, void (*act)(struct pfl_host_link *));
/* READ, in DISABLING: asks whether it has stopped. */
void pfl_host_link_look_at_session(struct pfl_host_link *self);
/* WATCH, in RECORDING: pfl_host_link_look_at_watched follows now and then. */
void pfl_host_link_watch_later(struct pfl_host_link *self);
/* WATCH, in SETUP: without a session of our own. */
void pfl_host_link_attach_watched(struct pfl_host_link *self);
/* Asks whether the session that is waited for is there still. */
void pfl_host_link_look_at_watched(struct pfl_host_link *self);
void pfl_host_link_clone_session(struct pfl_host_link *self);
void pfl_host_link_detach_session(struct pfl_host_link *self);
/* READ: a session whose copy was read. */
void pfl_host_link_remove_session(struct pfl_host_link *self);
/* Before closing: what we hold and did not read stays on the host, under its name or kept_key. */
void pfl_host_link_give_session_back(struct pfl_host_link *self);

/* A reply of a pass (host_link_stream.c). */
int pfl_host_link_on_pass(struct pfl_host_link *self, const struct pfl_rpc_reply *reply);
/* The packets of one reply; a failure ends the link. */
PFL_MUST_USE int pfl_host_link_take_packets(struct pfl_host_link *self,
                                            const struct pfl_rpc_reply *reply);
/* The service's counters, into the report. */
void pfl_host_link_take_losses(struct pfl_host_link *self, const struct pfl_losses *losses);
void pfl_host_link_ask_read(struct pfl_host_link *self);
void pfl_host_link_measure_clock(struct pfl_host_link *self);

/* The host's clock stays unmeasured; the recording goes on. */
void pfl_host_link_skip_clock(struct pfl_host_link *self);

#endif
