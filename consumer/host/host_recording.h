/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One host's part in a recording, from connecting to the last byte read. It advances by itself to a
 * barrier, where the coordinator (recording.h) waits for the others. All callbacks run from the
 * loop.
 */
#ifndef PFL_CONSUMER_HOST_RECORDING_H
#define PFL_CONSUMER_HOST_RECORDING_H

#include "consumer/host/clock_probe.h"
#include "consumer/host/losses.h"
#include "consumer/host/read_budget.h"
#include "consumer/host/registered_sources.h"
#include "consumer/host/session_fate.h"

/* Named by what it waits for. */
enum pfl_host_recording_state {
    PFL_HOST_CONNECTING,   /* both connections: TLS, identity, bind */
    PFL_HOST_CLOCK_BEFORE, /* the first clock measurement */
    PFL_HOST_SETUP,        /* the session is configured */
    PFL_HOST_READY,        /* barrier: pfl_host_recording_begin */
    PFL_HOST_STARTING,     /* the answer to StartTracing */
    PFL_HOST_RECORDING,    /* pfl_host_recording_end, or the session's own end */
    PFL_HOST_FLUSHING,     /* the producers' last data */
    PFL_HOST_DISABLING,    /* the session's end */
    PFL_HOST_DETACHING,    /* the session continues without us */
    PFL_HOST_CLONING,      /* a copy of the session */
    PFL_HOST_STATS,        /* the service's counters */
    PFL_HOST_CLOCK_AFTER,  /* the second clock measurement */
    PFL_HOST_STOPPED,      /* barrier: pfl_host_recording_read */
    PFL_HOST_READING,      /* the last reply of ReadBuffers */
    PFL_HOST_READ_OUT,     /* barrier: pfl_host_recording_free_session */
    PFL_HOST_FREEING,      /* what was read is freed */
    PFL_HOST_REMOVING,     /* the session that was copied for reading is freed */
    PFL_HOST_CLOSING,      /* the connections to close */
    PFL_HOST_DONE,
    PFL_HOST_FAILED,
    PFL_HOST_STATES, /* how many there are */
};

/* The task for a session on the host. */
enum pfl_host_task {
    PFL_HOST_TASK_RECORD,   /* made, started, stopped, read, freed */
    PFL_HOST_TASK_START,    /* made, started, left running under its name */
    PFL_HOST_TASK_READ,     /* one that was left: stopped, copied, the copy read, both freed */
    PFL_HOST_TASK_SNAPSHOT, /* copied in its current state; the copy is read and freed */
    PFL_HOST_TASK_WATCH,    /* the same, when a trigger is raised on any host */
};

struct pfl_host_recording;

struct pfl_host_recording_conf {
    enum pfl_host_task task;
    /* Of every task but RECORD; borrowed. "" for SNAPSHOT: the one with the highest bugreport
     * score. */
    const char *session;
    bool is_streamed;     /* RECORD: read while it records, by pfl_host_recording_stream */
    uint64_t ring_bytes;  /* of the smallest buffer; with is_streamed */
    bool keeps_session;   /* READ: the session is not removed */
    const char *kept_key; /* key under which pfl_host_recording_keep leaves unread data; borrowed */
    struct pfl_host_conn_conf conn; /* the host recording sets on_ready, on_closed and user */
    struct pfl_span trace_config;   /* borrowed; serialized, with deferred_start */
    uint64_t flush_timeout_ms;      /* > 0 */
    uint64_t stop_timeout_ms;       /* > 0; data sources' time to stop */
    uint64_t step_timeout_ms;       /* > 0; of every other step */
    /* Maximum that the host may send; without has_read_limit the capacity of its buffers. */
    bool has_read_limit;
    uint64_t read_limit_bytes; /* 0: no limit */
    void (*on_change)(void *user,
                      struct pfl_host_recording *host_recording); /* after each change of state */
    /* Its clock was measured again while streaming: clock_after is fresh. May be NULL. */
    void (*on_clock)(void *user, struct pfl_host_recording *host_recording);
    /* While READING or streamed; as pfl_packet_cb. A negative return fails this host. What a packet
     * holds compressed is charged from inside (pfl_host_recording_charge). */
    int (*on_packet)(void *user, struct pfl_host_recording *host_recording,
                     const struct iovec *slices, int slices_len, size_t bytes);
    /* The same for a run of packets; *ret_bytes: the bytes of all its packets. */
    int (*on_run)(void *user, struct pfl_host_recording *host_recording,
                  const struct pfl_packet_run *run, uint64_t *ret_bytes);
    void *user;
};

/* What is known about a host; complete in DONE and FAILED. */
struct pfl_host_report {
    char name[PFL_HOST_NAME_MAX]; /* given, from the certificate, or of this machine */
    char why[768];                /* FAILED: step, reason, remedy; else "" */
    enum pfl_host_recording_state failed_in;
    bool has_clock_before;
    bool has_clock_after;
    struct pfl_clock_line clock_before;
    struct pfl_clock_line clock_after;
    struct pfl_losses baseline; /* of the service before the session */
    bool has_losses;
    struct pfl_losses losses;
    /* Of RECORD and START, from READY on: data sources of the config that it has. */
    struct pfl_registered_sources sources;
    int64_t start_sent_ns;           /* CLOCK_BOOTTIME here */
    int64_t start_answered_ns;       /* likewise */
    bool has_ended_itself;           /* by duration or trigger, not by our DisableTracing */
    char trigger[PFL_HOST_NAME_MAX]; /* WATCH: the trigger that was raised here, else "" */
    bool is_cut_short;               /* reading began and did not complete */
    uint64_t passes;                 /* reads while it recorded */
    enum pfl_session_fate fate;
    bool is_given_up;         /* with all others, for a reason that is not its own */
    uint64_t bytes_read;      /* of packets */
    uint64_t skipped_packets; /* too long to be read */
    int64_t read_began_ns;    /* CLOCK_BOOTTIME here; 0: not begun */
    int64_t read_ended_ns;    /* likewise */
    unsigned resumes;         /* how often its connection was lost and restored */
};

/* Begins to connect; on_change follows from the loop. PFL_ENOMEM. */
PFL_MUST_USE int pfl_host_recording_new(const struct pfl_host_recording_conf *conf,
                                        struct pfl_host_recording **ret_host_recording);
/* Only in DONE or FAILED. */
void pfl_host_recording_free(struct pfl_host_recording *self);

enum pfl_host_recording_state pfl_host_recording_get_state(const struct pfl_host_recording *self);
const struct pfl_host_report *pfl_host_recording_get_report(const struct pfl_host_recording *self);
/* Name and address, for messages. */
const char *pfl_host_recording_get_title(const struct pfl_host_recording *self);
void pfl_host_recording_set_name(struct pfl_host_recording *self, const char *name);
/* "connecting", "setting up", ... for messages. */
const char *pfl_host_recording_state_str(enum pfl_host_recording_state state);
bool pfl_host_recording_is_move_legal(enum pfl_host_recording_state from,
                                      enum pfl_host_recording_state to);

void pfl_host_recording_begin(struct pfl_host_recording *self); /* in READY */
/* Only in RECORDING: flush and disable; of WATCH, make the copy now. */
void pfl_host_recording_end(struct pfl_host_recording *self);
void pfl_host_recording_read(struct pfl_host_recording *self); /* in STOPPED */
/* Call often while RECORDING: reads when it is due, and measures the clock. */
void pfl_host_recording_stream(struct pfl_host_recording *self);
/* While RECORDING, not streamed: updates the host's counters in the report, a little later. */
void pfl_host_recording_ask_losses(struct pfl_host_recording *self);
/* In on_packet and on_run: the host sent these, too, compressed. PFL_ELIMIT: more than it may;
 * return that. */
PFL_MUST_USE int pfl_host_recording_charge(struct pfl_host_recording *self, uint64_t packets,
                                           uint64_t bytes);
/* Call often while READING, as one of `hosts` that are read: one that sends too little fails,
 * unless it is disconnected or held back. */
void pfl_host_recording_pace(struct pfl_host_recording *self, size_t hosts);
/* In READ_OUT: the data is safely stored. */
void pfl_host_recording_free_session(struct pfl_host_recording *self);
/* After that: does not wait for the answers. */
void pfl_host_recording_hurry(struct pfl_host_recording *self);
/* From STOPPED to READ_OUT: aborts, together with all others; unread data stays at the host. */
void pfl_host_recording_keep(struct pfl_host_recording *self, const char *why);
/* How long its connection has been lost while an answer is expected; 0: it is not. */
uint64_t pfl_host_recording_get_away_ms(struct pfl_host_recording *self);
/* While READING: stops and resumes reading. */
void pfl_host_recording_pause(struct pfl_host_recording *self);
void pfl_host_recording_resume(struct pfl_host_recording *self);
/* Aborts with a reason; on_change to FAILED follows from the loop. Idempotent. */
void pfl_host_recording_fail(struct pfl_host_recording *self, const char *why);
/* The same if the reason is not the host's: the whole recording is aborted. */
void pfl_host_recording_give_up(struct pfl_host_recording *self, const char *why);

#endif
