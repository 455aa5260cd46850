/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a session does: a TraceConfig as the consumer sent it, read once and checked. The raw bytes
 * are kept, because they are copied into the trace and, per data source, to the producers. A core:
 * no I/O, no clock.
 */
#ifndef PFL_SERVICE_SESSION_PLAN_H
#define PFL_SERVICE_SESSION_PLAN_H

#include "base/bytes.h"
#include "base/err.h"
#include "service/buffer/trace_buffer.h"
#include "service/output/compressor.h"
#include "service/output/trace_filter.h"
#include "service/plan/plan_index.h"

#define PFL_PLAN_MAX_BUFFERS            128u
#define PFL_PLAN_MAX_SOURCES            1024u
#define PFL_PLAN_MAX_DURATION_MS        (7u * 24 * 3600 * 1000)
#define PFL_PLAN_GUARD_DURATION_MS      (24u * 3600 * 1000)
#define PFL_PLAN_GUARD_BUFFERS_KB       131072u
#define PFL_PLAN_FLUSH_TIMEOUT_MS       5000u
#define PFL_PLAN_STOP_TIMEOUT_MS        5000u
#define PFL_PLAN_SNAPSHOT_PERIOD_MS     10000u
#define PFL_PLAN_SNAPSHOT_PERIOD_MIN_MS 100u
#define PFL_PLAN_FILE_PERIOD_MS         5000u
#define PFL_PLAN_FILE_PERIOD_MIN_MS     100u
/* Each period asks all producers of the session. */
#define PFL_PLAN_ASK_PERIOD_MIN_MS 100u
#define PFL_PLAN_DURATIONS_MAX     2u
#define PFL_PLAN_SEGMENT_MIN_BYTES 65536u
#define PFL_PLAN_SEGMENT_MIN_MS    1000u
#define PFL_PLAN_SEGMENT_NAME_MAX  200u
#define PFL_PLAN_WHY_BYTES         320u /* size of an error text */
/* Space for appended durations behind a config: pfl_session_plan_set_duration. */
#define PFL_PLAN_DURATIONS_BYTES ((1u + PFL_PLAN_DURATIONS_MAX) * (1u + 5u))

enum pfl_lockdown {
    PFL_LOCKDOWN_UNCHANGED = 0,
    PFL_LOCKDOWN_CLEAR = 1,
    PFL_LOCKDOWN_SET = 2,
};

struct pfl_plan_buffer {
    uint32_t size_kb;
    enum pfl_fill_policy fill_policy;
    struct pfl_span name; /* in config */
    bool transfer_on_clone;
    bool clear_before_clone;
    uint32_t engine; /* ExperimentalMode: 0 or 1, treated alike */
};

struct pfl_plan_source {
    struct pfl_span raw; /* TraceConfig.DataSource, in config; its filters: in changed */
    size_t filters_at;   /* in the index */
    size_t filters_len;
    struct pfl_span config; /* its DataSourceConfig */
    struct pfl_span name;
    struct pfl_span target_buffer_name;
    uint32_t target_buffer; /* as asked; after pfl_session_plan_check_early: the buffer's index */
    bool has_vm;            /* protovm_config */
    bool has_vm_memory;
    uint32_t vm_memory_kb;
};

struct pfl_plan_builtin {
    bool no_clock_snapshots;
    bool no_trace_config;
    bool no_system_info;
    bool no_service_events;
    bool no_histograms;
    bool snapshot_counts_suspend;
    bool wants_sessions; /* enable_concurrent_session_events */
    uint32_t primary_clock;
    uint32_t snapshot_period_ms;
};

/* The effective TriggerMode. */
enum pfl_trigger_mode {
    PFL_TRIGGER_NONE = 0,
    PFL_TRIGGER_START = 1,
    PFL_TRIGGER_STOP = 2,
    PFL_TRIGGER_CLONE = 4,
};

/* PriorityBoostConfig, for the service's own thread. */
enum pfl_boost_policy {
    PFL_BOOST_NONE = 0,
    PFL_BOOST_OTHER = 1,
    PFL_BOOST_FIFO = 2,
};

struct pfl_boost {
    enum pfl_boost_policy policy;
    uint32_t priority; /* OTHER: 0 to 20, the negative of a nice value; FIFO: 1 to 99 */
};

/* write_into_file; docs/abi/service.md section 7. */
struct pfl_plan_file {
    bool is_wanted;
    struct pfl_span path; /* empty: the consumer passes a descriptor */
    uint32_t period_ms;   /* never 0 */
    uint64_t max_bytes;   /* 0: no limit */
    uint32_t flush_mode;  /* WriteFlushMode */
    bool flush_first;     /* before each write */
    bool wants_sync;      /* after each write */
    /* perfleet_rotation; if one of the first two is not 0 the file is written in segments */
    uint64_t segment_max_bytes;
    uint32_t segment_period_ms;
    uint32_t max_segments; /* 0: all are kept */
    uint32_t shorten_index_every;
};

struct pfl_session_plan {
    uint8_t *bytes; /* owned */
    struct pfl_span config;
    uint8_t *changed_bytes;          /* owned; NULL until the config was changed */
    struct pfl_span changed;         /* the current config, if it was changed */
    struct pfl_plan_buffer *buffers; /* owned */
    size_t buffers_len;
    struct pfl_plan_source *sources; /* owned */
    size_t sources_len;
    struct pfl_plan_builtin builtin;
    enum pfl_lockdown lockdown;
    uint32_t duration_ms;
    uint32_t flush_period_ms;
    uint32_t flush_timeout_ms; /* never 0 */
    uint32_t stop_timeout_ms;  /* never 0 */
    uint32_t clear_period_ms;
    uint32_t exclusive_prio;
    int32_t bugreport_score;
    uint64_t uuid_msb;
    uint64_t uuid_lsb;
    uint64_t guard_max_buffers_kb;
    bool extra_guardrails;
    bool deferred_start;
    bool trace_all_machines;
    bool duration_counts_suspend;
    struct pfl_span session_name;
    struct pfl_span bugreport_filename;
    bool has_filter;
    struct pfl_span filter_config;   /* TraceFilter, in config */
    struct pfl_trace_filter *filter; /* owned, from check_late until a pipeline takes it */
    enum pfl_codec codec;
    int zstd_level;
    struct pfl_plan_file file;
    bool has_boost;
    struct pfl_boost boost; /* set by check_late: with a policy */
    uint32_t trigger_mode;  /* set by check_early: the effective one */
    bool trigger_clones;
    uint32_t trigger_timeout_ms;
    struct pfl_plan_index index;
    struct pfl_shares *charged; /* borrowed; NULL: nobody is charged */
    uint64_t who;               /* whose share it uses */
    uint64_t held_bytes;        /* counted there */
    uint64_t filter_bytes;      /* of these, for what only its filter has */
    unsigned durations_set; /* set by triggers; the bytes have room for PFL_PLAN_DURATIONS_MAX */
};

/* Copies and reads `config`, and checks only its form. PFL_EPARSE, PFL_ELIMIT (more than
 * PFL_PLAN_MAX_SOURCES data sources), PFL_ENOMEM. */
PFL_MUST_USE int pfl_session_plan_new(struct pfl_span config, struct pfl_session_plan **ret_plan);
void pfl_session_plan_free(struct pfl_session_plan *self);

/*
 * The checks of docs/abi/service.md section 2 that come before the service looks at its other
 * sessions (2 to 13) and those after (20 to 23). PFL_EINVAL with `ret_why` naming field and remedy;
 * late: PFL_ENOMEM.
 */
PFL_MUST_USE int pfl_session_plan_check_early(struct pfl_session_plan *self,
                                              char ret_why[PFL_PLAN_WHY_BYTES]);
PFL_MUST_USE int pfl_session_plan_check_late(struct pfl_session_plan *self,
                                             char ret_why[PFL_PLAN_WHY_BYTES]);

/*
 * Charges what the plan keeps, with its filter, until it is freed: the config, its tables, compiled
 * patterns and rules. What the filter shares with its copies is charged once, until the last of
 * them is freed. `charged` is borrowed until then. PFL_EPERM: the user's share is used up.
 */
PFL_MUST_USE int pfl_session_plan_charge(struct pfl_session_plan *self, struct pfl_shares *charged,
                                         uint64_t who);
/* Changes the config to `bytes`, given, with `len` bytes and these filters; the rest stays as it
 * was. On failure nothing changed: PFL_ENOMEM, PFL_ELIMIT (too many filters), PFL_EPARSE (an
 * invalid pattern), PFL_EPERM (the user's share is used up). */
PFL_MUST_USE int pfl_session_plan_change(struct pfl_session_plan *self, uint8_t *bytes, size_t len,
                                         const struct pfl_span *sources);

struct pfl_plan_producer {
    struct pfl_span name;
    struct pfl_span machine_name;
    uint32_t machine_id; /* 0 = this host */
};
/* Whether the filters of `source` accept this producer; the caller compares the data source's name.
 * Matching uses up `*credit` (service/output/pattern.h); if that does not suffice it becomes 0 and
 * the result is false. */
bool pfl_session_plan_wants(const struct pfl_session_plan *self,
                            const struct pfl_plan_source *source,
                            const struct pfl_plan_producer *producer, uint64_t *credit);

/* The current config; borrowed until it is changed. */
static inline struct pfl_span pfl_session_plan_get_config(const struct pfl_session_plan *self)
{
    return self->changed_bytes != NULL ? self->changed : self->config;
}

/* The first ProducerConfig of that name; 0 for values that it does not set. */
void pfl_session_plan_get_shm(const struct pfl_session_plan *self, struct pfl_span producer_name,
                              uint32_t *ret_page_kb, uint32_t *ret_size_kb);

/* Iterates over the triggers; false at the end. `*walk` starts as pfl_plan_triggers_of. */
struct pfl_plan_triggers {
    struct pfl_reader config;
    struct pfl_reader triggers; /* of one trigger_config */
};

static inline struct pfl_plan_triggers pfl_plan_triggers_of(const struct pfl_session_plan *plan)
{
    return (struct pfl_plan_triggers){.config = pfl_reader_of(plan->config)};
}

bool pfl_plan_triggers_next(struct pfl_plan_triggers *walk, struct pfl_plan_trigger *ret_trigger);
/* The data sources of that name, `*ret_len` of them, in the config's order; NULL: none. */
const struct pfl_plan_name *pfl_session_plan_find_sources(const struct pfl_session_plan *self,
                                                          struct pfl_span name, size_t *ret_len);
/* The first data source of that name; NULL: none. */
const struct pfl_plan_source *pfl_session_plan_find_source(const struct pfl_session_plan *self,
                                                           struct pfl_span name);
/* Finds a trigger by name; NULL: none. */
const struct pfl_plan_trigger *pfl_session_plan_find_trigger(const struct pfl_session_plan *self,
                                                             struct pfl_span name);
/* Called once or twice, when a trigger sets the session's duration. The config in the trace
 * contains it. */
void pfl_session_plan_set_duration(struct pfl_session_plan *self, uint32_t duration_ms);

#endif
