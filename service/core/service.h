/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole service without its sockets: producers, consumers, sessions, buffers, flushes. Ports
 * call it when requests arrive, after they have sent the request's own reply. Actions elsewhere
 * leave through the ops of producers and consumers, which never call back. A core: clocks are read
 * through `conf`.
 *
 *     service -> sessions -> instances        producers -> data sources
 *        \-> buffer table (id -> ring)            \-> shared memory, writers
 */
#ifndef PFL_SERVICE_SERVICE_H
#define PFL_SERVICE_SERVICE_H

#include "base/clock.h"
#include "base/hash.h"
#include "base/shares.h"
#include "base/user_rates.h"
#include "service/buffer/commit.h"
#include "service/core/copies.h"
#include "service/core/disk.h"
#include "service/core/figures.h"
#include "service/core/flush.h"
#include "service/core/loop_budget.h"
#include "service/core/remote_machines.h"
#include "service/core/session.h"
#include "service/core/turns.h"

#define PFL_SERVICE_MAX_PRODUCERS        65535u
#define PFL_SERVICE_MAX_SESSIONS         15u
#define PFL_SERVICE_MAX_SESSIONS_PER_UID 5u
#define PFL_SERVICE_SPARE_SESSIONS       3u           /* for users who have none */
#define PFL_SERVICE_SESSIONS_LIMIT       1000u        /* upper bound of the configured maximum */
#define PFL_SERVICE_MAX_SMB_BYTES        (8ull << 30) /* memory shared with all producers */
#define PFL_SERVICE_MAX_SOURCES          65536u       /* data sources of all producers */
#define PFL_SERVICE_BUFFER_IDS           65536u
#define PFL_SERVICE_MAX_BUFFERS          65535u /* 0 is no id */
#define PFL_SERVICE_PRODUCER_IDS         65536u
#define PFL_SERVICE_NAMES                1024u /* lists of data sources by their names' hash */
#define PFL_SERVICE_INSTANCE_LISTS       4096u /* lists of instances by their ids */
#define PFL_SERVICE_MAX_CONSUMERS        16384u
/* Memory that peers make the service keep: what they registered, and data queued from and for
 * them. */
#define PFL_SERVICE_MAX_PEER_BYTES (512u << 20)
/* What the buffers know of writers: some 800 bytes for each that has chunks in a buffer. */
#define PFL_SERVICE_MAX_WRITER_BYTES (256u << 20)
/* Packet sequence ids of all sessions, some 96 bytes each. */
#define PFL_SERVICE_MAX_SEQUENCE_ID_BYTES (128u << 20)
/* Connections of one user, at both sockets: a burst, and a rate after it. */
#define PFL_SERVICE_CONNECT_AT_ONCE 1000u
#define PFL_SERVICE_CONNECT_PER_S   100u
#define PFL_SERVICE_CONN_BYTES      4096u /* charged for a connection */
#define PFL_SERVICE_CONN_FDS        2u /* charged for a connection: its own, and memory's, or a file's */
/* Limit of all buffers: a part of the machine's memory. A clone counts what it holds. */
#define PFL_SERVICE_CLONE_BYTES (1u << 20) /* charged for a clone */
#define PFL_SERVICE_MAX_CLONES  1024u
/* Work of all producers' programs in a second (service/vm): some 0.1 s of the loop. */
#define PFL_SERVICE_VM_UNITS 20000000u

struct pfl_service_conf {
    uint64_t (*now_ns)(void *user, enum pfl_clock_id id);
    void (*random)(void *user, void *dst, size_t len);
    pfl_work_submit submit; /* NULL: costly work is done at once */
    int (*boost)(void *user,
                 const struct pfl_boost *boost); /* NULL: sessions that ask for it are refused */
    /* Sets the metrics of the process: CPU time, its loop. NULL: they are 0. */
    void (*measure)(void *user, struct pfl_figures *figures);
    void *user;                            /* borrowed */
    const struct pfl_service_facts *facts; /* borrowed */
    const struct pfl_copies_ops *copies;   /* NULL: the service maps all producers' memory */
    void *copies_user;                     /* borrowed */
    const struct pfl_disk_ops *disk;       /* NULL: sessions cannot write files */
    void *disk_user;                       /* borrowed */
    uint32_t sessions_max;                 /* 0: PFL_SERVICE_MAX_SESSIONS */
    uint32_t sessions_per_uid_max;         /* 0: PFL_SERVICE_MAX_SESSIONS_PER_UID */
    bool has_output_dirs; /* any user's config may name a file there; else only the service user's
                             and root's */
    uint64_t buffer_bytes_max; /* of all sessions; 0: no limit */
    uint64_t fds_max;          /* for connections; 0: no limit */
    uint64_t memory_max;       /* that the service may have at all; 0: no limit */
};

/* Bytes of all clones' buffers that a turn of the loop copies (clone.h). */
#define PFL_CLONE_TURN_BYTES (64u << 10)
/* pfl_service_shares_memory */
#define PFL_SERVICE_UNSHARED_MS  3600000u
#define PFL_SERVICE_UNSTARTED_MS 10000u /* after one that could not start */
/* One of so many of memory_max is the most that is shared with producers. */
#define PFL_SERVICE_SMB_PART 4u

/* Units of service/buffer/smb_scrape.h in a turn of the loop (scrape_turns.h): 0.03 ms. */
#define PFL_SCRAPE_TURN_UNITS 50u

struct pfl_service_buffer {
    struct pfl_trace_buffer *ring; /* borrowed from its session; NULL: the id is free */
    struct pfl_session *session;
};

/* When a guarded session name was last traced (validation rule 17). */
#define PFL_SERVICE_GUARD_NAMES  64u
#define PFL_SERVICE_GUARD_GAP_MS 300000u
struct pfl_service_guard {
    uint64_t hash; /* of the name */
    uint32_t who;  /* whose session it was: nobody keeps others from theirs by a name */
    uint64_t boottime_ms;
};

struct pfl_service {
    struct pfl_service_conf conf;
    struct pfl_list producers; /* owned; in registration order */
    size_t producers_len;
    struct pfl_list leaving; /* owned pfl_producer: disconnected, and not scraped completely */
    struct pfl_list copying; /* likewise, while they wait for a copier */
    size_t leaving_len;      /* of both */
    struct pfl_copies copies;
    struct pfl_list permitted; /* those that may write to a buffer */
    uint64_t permitted_seen;
    struct pfl_hash_key hash_key; /* for names and ids that producers choose */
    struct pfl_list sources_by_name[PFL_SERVICE_NAMES];
    size_t sources_len; /* of all producers */
    uint64_t sources_seen;
    uint16_t last_producer_id;
    uint64_t producer_ids[PFL_SERVICE_PRODUCER_IDS / 64]; /* bitmap of those in use */
    uint64_t producers_seen;
    uint64_t producer_walks;   /* pfl_producer.walk */
    struct pfl_list consumers; /* borrowed pfl_consumer */
    struct pfl_list clones;    /* owned pfl_clone: being made */
    uint64_t last_clone_id;
    uint64_t clone_due_ms;    /* when the first user has waited; CLOCK_MONOTONIC */
    uint32_t last_copied_who; /* the user for whose clone buffers were copied last */
    uint32_t copy_bytes_left; /* of PFL_CLONE_TURN_BYTES, left in this turn */
    bool is_copying;          /* pfl_clone_run has something to do */
    bool is_scraping;         /* pfl_scrape_turns_run has something to do */
    struct pfl_list sessions; /* owned */
    size_t sessions_len;
    struct pfl_list closing; /* owned sessions that ended while their file is still being written */
    size_t closing_len;
    struct pfl_trigger_history triggers;
    struct pfl_consumer nobody; /* the consumer of sessions that have none (detached or closing);
                                   ignores callbacks */
    uint64_t last_session_id;
    uint64_t last_instance_id;
    struct pfl_list instances_by_id[PFL_SERVICE_INSTANCE_LISTS]; /* pfl_instance.of_id */
    struct pfl_service_buffer *buffers; /* owned; PFL_SERVICE_BUFFER_IDS, touched as ids are used */
    uint16_t last_buffer_id;
    size_t buffers_len;
    struct pfl_flush_book flushes;
    struct pfl_remote_machines relays;
    struct pfl_commit_counters commits;
    struct pfl_service_guard guards[PFL_SERVICE_GUARD_NAMES];
    size_t guards_next;
    uint64_t due_ms;        /* nothing is due before this, CLOCK_MONOTONIC: session_due.h */
    struct pfl_boost boost; /* in effect */
    bool is_locked_down;
    bool is_stopping; /* the loop has no more turns */
    struct {
        struct pfl_shares producers; /* connections */
        struct pfl_shares consumers; /* likewise */
        struct pfl_shares fds;       /* of producers and consumers */
        struct pfl_shares sources;
        struct pfl_shares smb_bytes; /* memory of all producers */
        struct pfl_shares peer_bytes;
        struct pfl_shares buffer_bytes; /* of all sessions, as configured; of clones, as filled */
        struct pfl_shares buffer_ids;
        struct pfl_shares writer_bytes; /* of all buffers' tables of writers */
        struct pfl_shares sequence_id_bytes;
    } shares;
    struct pfl_user_rates connects;       /* by user */
    uint64_t connections_refused;         /* because of their user's rate or share */
    uint64_t last_scraped_who;            /* the user whose scrape had the last turn */
    uint64_t scrape_turns;                /* their number so far */
    uint64_t left_turn;                   /* the last one for a producer that left */
    uint64_t scrape_units_left;           /* of PFL_SCRAPE_TURN_UNITS, left in this turn */
    struct pfl_loop_budget scrape_budget; /* for scraping while the service stops */
    struct pfl_loop_budget vm_budget;     /* for producers' programs */
    struct pfl_turns turns;               /* loop time of consumers */
    struct pfl_turns unshared;            /* users who have no shared memory for a while */
    bool has_unshared;
    uint64_t timed_ns;              /* all that pfl_service_end_time measured */
    struct pfl_loop_budget judging; /* for all sessions' filters: judging.h */
    struct pfl_figures gone;        /* counters of sessions that are gone */
};

/* Call after setting a deadline of a session or a flush: lowers the time of the next run
 * (session_due.h). CLOCK_MONOTONIC. */
static inline void pfl_service_look_at(struct pfl_service *self, uint64_t due_ms)
{
    self->due_ms = due_ms < self->due_ms ? due_ms : self->due_ms;
}

PFL_MUST_USE int pfl_service_init(struct pfl_service *self, const struct pfl_service_conf *conf);
/* Producers and consumers must be gone. */
void pfl_service_fini(struct pfl_service *self);
/* Besides root, shares do not bind this user. Initially the user of the facts. */
void pfl_service_set_owner(struct pfl_service *self, uint32_t uid);

uint64_t pfl_service_now_ns(const struct pfl_service *self); /* CLOCK_MONOTONIC */
uint64_t pfl_service_now_ms(const struct pfl_service *self); /* likewise */
uint64_t pfl_service_boottime_ns(const struct pfl_service *self);

/* An id that no live producer has, never 0; in use until the producer is freed. */
uint16_t pfl_service_new_producer_id(struct pfl_service *self);
/* Frees the producer, its id and what is charged for it. It must be in no list. */
void pfl_service_free_producer(struct pfl_service *self, struct pfl_producer *producer);
/* Frees a producer that left (registry.h), when its memory is scraped. */
void pfl_service_free_left(struct pfl_service *self, struct pfl_producer *producer);

/* A list of all data sources with that name (pfl_data_source.of_name), and of others, in the order
 * of their registration. */
struct pfl_list *pfl_service_get_named(struct pfl_service *self, struct pfl_span name);
/* Gives the instance an id by which it is found. */
void pfl_service_add_instance(struct pfl_service *self, struct pfl_instance *instance);
/* NULL: that producer has none of that id. */
struct pfl_instance *pfl_service_find_instance(const struct pfl_service *self,
                                               const struct pfl_producer *producer,
                                               uint64_t id_untrusted);
/* As pfl_producer_allow, until the buffer is removed. */
PFL_MUST_USE int pfl_service_allow(struct pfl_service *self, struct pfl_producer *producer,
                                   uint16_t buffer_id);
/* Revokes all its permissions to write; passes of scrape_turns.h skip it. */
void pfl_service_forbid(struct pfl_service *self, struct pfl_producer *producer);

/* False: the user connects faster than a user may, so the connection is to be closed at once. */
bool pfl_service_may_connect(struct pfl_service *self, uint64_t who);
/* Takes a connection at one of the two listeners, and its cost, from the user's share, until it is
 * released. False: the share is used up. */
PFL_MUST_USE bool pfl_service_take_connection(struct pfl_service *self, struct pfl_shares *listener,
                                              uint64_t who);
void pfl_service_give_connection(struct pfl_service *self, struct pfl_shares *listener,
                                 uint64_t who);

/* Charges shared memory that the producer gets or brings, until it leaves. PFL_ELIMIT: its user's
 * share is used up. */
PFL_MUST_USE int pfl_service_take_smb(struct pfl_service *self, struct pfl_producer *producer,
                                      uint64_t bytes);
void pfl_service_give_smb(struct pfl_service *self, struct pfl_producer *producer);

/*
 * Loop time that goes to a consumer's user (turns.h): of requests, and of what they cause later. A
 * measurement does not count what others measured meanwhile. That of root and of the service's user
 * is not charged.
 */
struct pfl_service_time {
    uint64_t began_ns;
    uint64_t timed_ns; /* as of the service, then */
};

struct pfl_service_time pfl_service_begin_time(const struct pfl_service *self);
void pfl_service_end_time(struct pfl_service *self, struct pfl_turns_who who,
                          struct pfl_service_time begin);
/* In how many ms more may be done for it; 0: now. */
uint64_t pfl_service_get_wait_ms(const struct pfl_service *self, struct pfl_turns_who who);

/* After a part of the producer's memory was read: notes, once, that it could not be. */
void pfl_service_check_memory(struct pfl_service *self, struct pfl_producer *producer);
/* Has this user memory in common with the service? If not, chunks come in messages: for
 * PFL_SERVICE_UNSHARED_MS after its copier has ended. */
bool pfl_service_shares_memory(const struct pfl_service *self, uint64_t who);
/* Makes memory for the producer, or takes what it offers (codes: smb_map.h), and passes it to its
 * copier. */
PFL_MUST_USE int pfl_service_create_smb(struct pfl_service *self, struct pfl_producer *producer,
                                        struct pfl_smb_size size);
/* Its copier has the memory now, if it had not; or it is lost. */
void pfl_service_attach_smb(struct pfl_producer *producer);
PFL_MUST_USE int pfl_service_adopt_smb(struct pfl_service *self, struct pfl_producer *producer,
                                       int fd);

struct pfl_session *pfl_service_find_session(const struct pfl_service *self, uint64_t id);
/* Gives the session an id for each of its buffers. PFL_ELIMIT: out of ids, none was given. */
PFL_MUST_USE int pfl_service_add_buffers(struct pfl_service *self, struct pfl_session *session);
void pfl_service_remove_buffers(struct pfl_service *self, struct pfl_session *session);

#endif
