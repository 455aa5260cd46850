/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tracing session: its plan, buffers, instances of data sources, its events for the trace and the
 * state of reading. Only the object; session_run.h, session_flush.h and session_read.h have its
 * life.
 */
#ifndef PFL_SERVICE_SESSION_H
#define PFL_SERVICE_SESSION_H

#include "base/shares.h"
#include "service/core/concurrent.h"
#include "service/core/consumer.h"
#include "service/core/judging.h"
#include "service/core/machine_set.h"
#include "service/core/pipeline_job.h"
#include "service/core/producer.h"
#include "service/core/sequence_ids.h"
#include "service/core/service_packets.h"
#include "service/core/trigger_list.h"
#include "service/plan/session_plan.h"

struct pfl_service;

#define PFL_SESSION_MAX_INSTANCES 8192u
#define PFL_SESSION_NEVER         UINT64_MAX

struct pfl_session_buffer {
    uint16_t id;                   /* service-wide */
    struct pfl_trace_buffer *ring; /* owned */
    uint64_t vm_bytes;             /* of the session's held_bytes: for its VMs */
};

/* Deadlines, CLOCK_MONOTONIC in ms; PFL_SESSION_NEVER: none. */
struct pfl_session_timers {
    uint64_t flush_ms;
    uint64_t snapshot_ms; /* CLOCK_BOOTTIME when the plan counts suspend */
    uint64_t clear_ms;
    uint64_t stop_ms;     /* the deadline of the stop acks */
    uint64_t slow_ms;     /* the warning about slow data sources */
    uint64_t duration_ms; /* CLOCK_BOOTTIME when the plan counts suspend */
};

/* What the next read still has to send. */
struct pfl_session_pending {
    bool is_first_pass;
    bool sync_marker;
    bool stats;
};

/* A pass over its producers' memory: scrape_turns.h. */
struct pfl_scrape_pass {
    const struct pfl_list *at;   /* pfl_producer.permitted of the next one; NULL: no pass runs */
    uint64_t last;               /* pfl_producer.permitted_serial: the pass ignores later ones */
    uint32_t page;               /* the next page of that producer */
    bool is_cut;                 /* a part was left out */
    uint64_t waited_ms;          /* for copiers, so far */
    uint64_t waits_since_ms;     /* for the copier of that producer; 0: it does not */
    struct pfl_copy_job copy;    /* of that producer's memory */
    struct pfl_service *service; /* borrowed; for `copy` */
};

struct pfl_session_counters {
    uint64_t invalid_packets;
    uint64_t flushes_requested;
    uint64_t flushes_succeeded;
    uint64_t flushes_failed;
    uint32_t final_flush_outcome; /* TraceStats.FinalFlushOutcome */
};

/* What parts of a session tell its life (session_run.h). The session may be gone afterwards. */
struct pfl_session_ops {
    /* A pass over its producers' memory is over. */
    void (*on_scraped)(struct pfl_service *service, struct pfl_session *session);
    /* A flush is over that asked for more than a reply. */
    void (*on_flushed)(struct pfl_service *service, struct pfl_session *session,
                       const struct pfl_flush *flush, bool is_ok);
    /* No data is in transit to its file. */
    void (*on_file_idle)(struct pfl_service *service, struct pfl_session *session);
    void (*on_file_closed)(struct pfl_service *service, struct pfl_session *session);
};

struct pfl_session {
    struct pfl_list node; /* in the service */
    const struct pfl_session_ops *ops;
    uint64_t id;
    uint32_t uid;
    uint32_t who;                  /* the user whose share it uses: base/shares.h */
    uint64_t subject;              /* in whose name it was made, as of struct pfl_consumer */
    uint64_t held_bytes;           /* counted in the service's buffer_bytes */
    struct pfl_service *service;   /* borrowed, outlives the session; for the cost of VMs */
    struct pfl_consumer *consumer; /* borrowed; never NULL: the service's nobody when detached */
    uint8_t *detach_key;           /* owned; any bytes; NULL while a consumer has it */
    size_t detach_key_len;
    uint8_t *clone_trigger; /* owned: a CLONE_SNAPSHOT trigger as a packet, or NULL */
    size_t clone_trigger_len;
    struct pfl_session_plan *plan; /* owned */
    enum pfl_session_state state;
    struct pfl_session_buffer *buffers; /* owned, plan->buffers_len */
    struct pfl_session_file *file;      /* owned; NULL: the consumer reads */
    struct pfl_trigger_list triggers;
    struct pfl_pipeline_job *output; /* owned; NULL: packets go out as they are */
    struct pfl_list instances;       /* owned pfl_instance.of_session; by producer, then setup */
    size_t instances_len;
    size_t instances_in[PFL_INSTANCE_STATES]; /* of these, in each state */
    struct pfl_shares instance_shares;
    uint64_t left_out; /* data sources left out because of a share */
    struct pfl_judging judging;
    struct pfl_session_events events;
    struct pfl_concurrent concurrent;
    struct pfl_session_timers timers;
    struct pfl_session_pending pending;
    struct pfl_machine_set infos_sent;  /* machines whose system_info was sent */
    struct pfl_machine_set clocks_sent; /* machines whose remote_clock_sync was sent */
    struct pfl_session_counters counters;
    struct pfl_session_counters inherited; /* of a clone: the part that its original counted */
    struct pfl_sequence_ids sequences;
    struct pfl_trace_uuid uuid;
    uint64_t start_realtime_ns;
    struct pfl_scrape_pass scrape;
    uint64_t scrape_turn; /* number of its last scrape turn */
    bool is_finishing; /* DISABLED, but its last scrape is not over, and on_disabled not called */
    bool is_all_started_sent;
    bool has_told_of_no_id; /* of a writer without a packet sequence id */
    bool is_copied;         /* a clone whose buffers are still being copied; its consumer waits */
    bool is_boosted;        /* its plan's boost is in effect */
};

/* Takes `plan` on success. Buffers have no ids yet; `charged` as of pfl_trace_buffer_conf.
 * PFL_ENOMEM (also for a buffer that does not fit). */
PFL_MUST_USE int pfl_session_new(struct pfl_session_plan *plan, const struct pfl_hash_key *hash_key,
                                 struct pfl_shares *charged, struct pfl_session **ret_session);
/* Removes its instances from their producers. */
void pfl_session_free(struct pfl_session *self);

/* Adds an instance in setup order after those of smaller producer ids. PFL_ELIMIT: the producer's
 * user's share is used up. PFL_ENOMEM. */
PFL_MUST_USE int pfl_session_add_instance(struct pfl_session *self, struct pfl_producer *producer,
                                          const struct pfl_data_source *source, size_t plan_source,
                                          struct pfl_instance **ret_instance);
/* False: the share of the producer's user is used up. */
bool pfl_session_has_room_for(const struct pfl_session *self, const struct pfl_producer *producer);
void pfl_session_remove_instance(struct pfl_session *self, struct pfl_instance *instance);
/* Moves the instance to a state and reports that to the consumer. */
void pfl_session_move_instance(struct pfl_session *self, struct pfl_instance *instance,
                               enum pfl_instance_state to);
/* Reports this instance's state to the consumer, if it observes instances. */
void pfl_session_tell_instance(struct pfl_session *self, const struct pfl_instance *instance);
static inline bool pfl_session_is_detached(const struct pfl_session *self)
{
    return self->detach_key != NULL;
}
bool pfl_session_are_all(const struct pfl_session *self, enum pfl_instance_state state);
static inline const struct pfl_plan_source *
pfl_session_source_of(const struct pfl_session *self, const struct pfl_instance *instance)
{
    return &self->plan->sources[instance->source];
}
/* The session's buffer of that service-wide id, or NULL. */
struct pfl_trace_buffer *pfl_session_get_buffer(const struct pfl_session *self, uint16_t id);

#endif
