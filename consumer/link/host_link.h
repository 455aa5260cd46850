/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One host's part in a recording, from connecting to the last byte read. It goes forward by itself
 * up to a barrier, where the coordinator (recording.h) waits for the others. All callbacks run from
 * the loop.
 */
#ifndef PFL_CONSUMER_HOST_LINK_H
#define PFL_CONSUMER_HOST_LINK_H

#include "consumer/link/clock_probe.h"
#include "consumer/link/losses.h"
#include "consumer/link/offers.h"
#include "consumer/link/read_budget.h"

/* Named by what is waited for. */
enum pfl_link_state {
    PFL_LINK_CONNECTING,   /* both connections: TLS, identity, bind */
    PFL_LINK_CLOCK_BEFORE, /* the first clock measurement */
    PFL_LINK_SETUP,        /* the session is configured */
    PFL_LINK_READY,        /* barrier: pfl_host_link_begin */
    PFL_LINK_STARTING,     /* the answer to StartTracing */
    PFL_LINK_RECORDING,    /* pfl_host_link_end, or the session's own end */
    PFL_LINK_FLUSHING,     /* the producers' last data */
    PFL_LINK_DISABLING,    /* the session's end */
    PFL_LINK_DETACHING,    /* the session lives on without us */
    PFL_LINK_CLONING,      /* a copy of the session as it is now */
    PFL_LINK_STATS,        /* the service's counters */
    PFL_LINK_CLOCK_AFTER,  /* the second clock measurement */
    PFL_LINK_STOPPED,      /* barrier: pfl_host_link_read */
    PFL_LINK_READING,      /* the last reply of ReadBuffers */
    PFL_LINK_READ_OUT,     /* barrier: pfl_host_link_free_session */
    PFL_LINK_FREEING,      /* what was read is gone */
    PFL_LINK_REMOVING,     /* the session that was copied to be read is gone */
    PFL_LINK_CLOSING,      /* the connections' ends */
    PFL_LINK_DONE,
    PFL_LINK_FAILED,
    PFL_LINK_STATES, /* how many there are */
};

/* What is done with a session on the host. */
enum pfl_link_task {
    PFL_LINK_RECORD,   /* made, started, stopped, read, freed */
    PFL_LINK_START,    /* made, started, left running under its name */
    PFL_LINK_READ,     /* one that was left: stopped, copied, the copy read, both freed */
    PFL_LINK_SNAPSHOT, /* copied as it is now; the copy is read and freed */
    PFL_LINK_WATCH,    /* likewise, once a trigger is raised on any host */
};

struct pfl_host_link;

struct pfl_host_link_conf {
    enum pfl_link_task task;
    /* Of every task but RECORD; borrowed. "" for SNAPSHOT: the one with the highest bugreport
     * score. */
    const char *session;
    bool is_streamed;     /* RECORD: read while it records, by pfl_host_link_stream */
    uint64_t ring_bytes;  /* of the smallest buffer; with is_streamed */
    bool keeps_session;   /* READ: it stays as it is */
    const char *kept_key; /* under which pfl_host_link_keep leaves what was not read; borrowed */
    struct pfl_host_conn_conf conn; /* on_ready, on_closed and user are ours */
    struct pfl_span trace_config;   /* borrowed; serialized, with deferred_start */
    uint64_t flush_timeout_ms;      /* > 0 */
    uint64_t stop_timeout_ms;       /* > 0; data sources' time to stop */
    uint64_t step_timeout_ms;       /* > 0; of every other step */
    /* What the host may bring at most; without has_read_limit what its buffers can hold. */
    bool has_read_limit;
    uint64_t read_limit_bytes;                                 /* 0: no limit */
    void (*on_change)(void *user, struct pfl_host_link *link); /* after each change of state */
    /* Its clock was measured again while it is streamed: clock_after is fresh. May be NULL. */
    void (*on_clock)(void *user, struct pfl_host_link *link);
    /* While READING or streamed; as pfl_packet_cb. A negative return fails this host. */
    int (*on_packet)(void *user, struct pfl_host_link *link, const struct iovec *slices,
                     int slices_len, size_t bytes);
    /* Likewise of a run of packets; *ret_bytes: of all that are in it. */
    int (*on_run)(void *user, struct pfl_host_link *link, const struct pfl_packet_run *run,
                  uint64_t *ret_bytes);
    void *user;
};

/* What is known of a host; complete in DONE and FAILED. */
struct pfl_host_report {
    char name[PFL_HOST_NAME_MAX]; /* given, from the certificate, or of this machine */
    char why[768];                /* FAILED: step, reason, remedy; else "" */
    enum pfl_link_state failed_in;
    bool has_clock_before;
    bool has_clock_after;
    struct pfl_clock_line clock_before;
    struct pfl_clock_line clock_after;
    struct pfl_losses baseline; /* of the service before the session */
    bool has_losses;
    struct pfl_losses losses;
    struct pfl_offers offers;  /* of RECORD and START, from READY on: what it has of the config */
    int64_t start_sent_ns;     /* CLOCK_BOOTTIME here */
    int64_t start_answered_ns; /* likewise */
    bool has_ended_itself;     /* duration or trigger, not our DisableTracing */
    char trigger[PFL_HOST_NAME_MAX]; /* WATCH: the one that was raised here, else "" */
    bool is_cut_short;               /* reading began and did not end */
    uint64_t passes;                 /* of reading while it recorded */
    bool is_kept;                    /* what was not read is there under kept_key */
    bool is_not_removed;             /* READ: it was read, but the session is there still */
    bool is_left;                    /* READ: it was not read whole, and all of it is there still */
    bool is_unknown;                 /* READ: it has not said whether the session is there */
    bool is_given_up;                /* with all others, for a reason that is not its own */
    uint64_t bytes_read;             /* of packets */
    int64_t read_began_ns;           /* CLOCK_BOOTTIME here; 0: not yet */
    int64_t read_ended_ns;           /* likewise */
    unsigned resumes;                /* how often the way to it was lost and found again */
};

/* Begins to connect; on_change follows from the loop. PFL_ENOMEM. */
PFL_MUST_USE int pfl_host_link_new(const struct pfl_host_link_conf *conf,
                                   struct pfl_host_link **ret_link);
/* Only in DONE or FAILED. */
void pfl_host_link_free(struct pfl_host_link *self);

enum pfl_link_state pfl_host_link_get_state(const struct pfl_host_link *self);
const struct pfl_host_report *pfl_host_link_get_report(const struct pfl_host_link *self);
/* Name and address, for messages. */
const char *pfl_host_link_get_title(const struct pfl_host_link *self);
void pfl_host_link_set_name(struct pfl_host_link *self, const char *name);
/* "connecting", "setting up", ... for messages. */
const char *pfl_link_state_str(enum pfl_link_state state);
bool pfl_link_is_move_legal(enum pfl_link_state from, enum pfl_link_state to);

void pfl_host_link_begin(struct pfl_host_link *self); /* in READY */
/* Only in RECORDING: flush and disable; of WATCH, the copy is made now. */
void pfl_host_link_end(struct pfl_host_link *self);
void pfl_host_link_read(struct pfl_host_link *self); /* in STOPPED */
/* While RECORDING, often: reads what there is when it is time, and measures the clock. */
void pfl_host_link_stream(struct pfl_host_link *self);
/* While RECORDING, not streamed: has the host's counters in the report, a little later. */
void pfl_host_link_ask_losses(struct pfl_host_link *self);
/* While READING, often, as one of `hosts` that are read: one that brings too little fails, unless
 * it is away or held back. */
void pfl_host_link_pace(struct pfl_host_link *self, size_t hosts);
/* In READ_OUT: what was read is safe elsewhere. */
void pfl_host_link_free_session(struct pfl_host_link *self);
/* After that: does not wait for the answers. */
void pfl_host_link_hurry(struct pfl_host_link *self);
/* From STOPPED to READ_OUT: gives up, as all others do; what the host still has of the data stays
 * there. */
void pfl_host_link_keep(struct pfl_host_link *self, const char *why);
/* For how long its connection is lost, of which an answer is wanted; 0: it is there. */
uint64_t pfl_host_link_get_away_ms(struct pfl_host_link *self);
/* While READING: holds the host back, and lets it go on. */
void pfl_host_link_pause(struct pfl_host_link *self);
void pfl_host_link_resume(struct pfl_host_link *self);
/* Gives up, with a reason; on_change to FAILED follows from the loop. Idempotent. */
void pfl_host_link_fail(struct pfl_host_link *self, const char *why);
/* Likewise, when the reason is not the host's: the recording itself is given up. */
void pfl_host_link_give_up(struct pfl_host_link *self, const char *why);

#endif
