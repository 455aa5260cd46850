/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data source linux.ftrace: sessions that share instances of tracefs. A shell; the work on
 * pages is page_reader's.
 *
 * A session is a number below PERFLEET_MAX_INSTANCES, from the producer library.
 */
#ifndef PFL_PROBES_FTRACE_H
#define PFL_PROBES_FTRACE_H

#include "agent/probes/ftrace/ftrace_instance.h"
#include "producer/perfleet.h"

struct pfl_ftrace_session;
struct pfl_process_stats;

/* A session's reader of one instance. */
struct pfl_ftrace_feed {
    struct pfl_ftrace_session *session; /* borrowed: the owner */
    struct pfl_ftrace_instance *in; /* borrowed from the owner of the data source; NULL: nothing */
    uint8_t *wanted;                /* owned; a bit per event id */
    struct pfl_page_cpu *cpus;      /* owned; as many as buffers */
    struct pfl_page_reader reader;
};

struct pfl_ftrace_session {
    bool is_open;
    bool is_started;
    struct pfl_ftrace_conf conf;
    struct pfl_ftrace_feed main;    /* while started */
    struct pfl_ftrace_feed markers; /* events that only the top-level buffer gets (adr/0031) */
    struct perfleet_writer *writer; /* borrowed from the owner of the data source, while started */
    uint16_t *events;               /* owned; indexes in the catalog */
    size_t event_count;
    size_t wanted_ids;     /* of the feeds */
    uint8_t *kprobe_types; /* owned; by event id; NULL: no kprobes */
    struct pfl_probe_message stats_before;
    struct pfl_probe_message unknown; /* FtraceStats: errors of the setup */
    bool has_throttled;               /* see throttle_rss_stat */
    bool has_syscalls;                /* it takes events of raw_syscalls */
    struct pfl_ksym_set symbols;
    const struct pfl_ksyms *ksyms; /* borrowed from the owner; NULL: addresses stay numbers */
    const uint64_t *address_key;   /* borrowed from the catalog */
    bool has_sent_symbols;         /* in this drain */
};

/* Our own instance, at most one more for each session, and the top-level buffer. */
#define PFL_FTRACE_INSTANCES (PERFLEET_MAX_INSTANCES + 2)

struct pfl_ftrace {
    struct pfl_tracefs fs; /* the maker's while it is busy, except root_fd */
    struct pfl_instance_maker maker;
    struct pfl_undo undo;
    struct pfl_ftrace_host host; /* passed to instances; the owner sets is_ending */
    struct pfl_event_catalog catalog;
    bool has_catalog;
    struct pfl_ftrace_instance instances[PFL_FTRACE_INSTANCES]; /* the first is our own one */
    struct pfl_ksyms ksyms; /* while a session wants them, or longer */
    bool retain_ksyms;
    struct pfl_buf scratch;
    struct pfl_ftrace_session sessions[PERFLEET_MAX_INSTANCES];
};

/* PFL_ENOENT, PFL_EPERM: tracefs is not available; only fini is legal then. */
PFL_MUST_USE int pfl_ftrace_init(struct pfl_ftrace *self);
/* Removes the instance. */
void pfl_ftrace_fini(struct pfl_ftrace *self);
/* Starts making the instance for the first session; its thread inherits the caller's privileges. */
void pfl_ftrace_prepare(struct pfl_ftrace *self);

/* Why a session that began now would not get ftrace/print, static; NULL: it would, or this is
 * unknown. Call it while no session is started, and rarely: it looks at all processes. */
const char *pfl_ftrace_find_no_print(struct pfl_ftrace *self);

/* `config` is the FtraceConfig. PFL_EPARSE, PFL_ENOMEM, PFL_EIO. */
PFL_MUST_USE int pfl_ftrace_open_session(struct pfl_ftrace *self, uint32_t session,
                                         struct pfl_span config);
/* Switches the events on. `writer` stays valid until close_session. On failure `writer` has
 * FtraceStats with the reason. */
PFL_MUST_USE int pfl_ftrace_start_session(struct pfl_ftrace *self, uint32_t session,
                                          struct perfleet_writer *writer);
/* Sets the receiver of threads that the session meets and, if it wants them, of files that they
 * open; NULL: none. Borrowed until changed. */
void pfl_ftrace_set_met(struct pfl_ftrace *self, uint32_t session, struct pfl_process_stats *stats);
/* Legal on a session that is not open. After the last one the instance is made again. */
void pfl_ftrace_close_session(struct pfl_ftrace *self, uint32_t session);

/* Reads all CPUs for all sessions. */
void pfl_ftrace_drain(struct pfl_ftrace *self);
/* The same as one of many drains: if a CPU had a full page, the page that is being written is
 * left. */
void pfl_ftrace_drain_lazily(struct pfl_ftrace *self);
/* Drains, writes the session's statistics, gives its memory to the service. */
void pfl_ftrace_flush_session(struct pfl_ftrace *self, uint32_t session);

/* Descriptors that become readable when a CPU's buffer is filling up; returns their number (0: not
 * supported by this kernel). Borrowed until the next start or close of a session. */
size_t pfl_ftrace_get_fds(const struct pfl_ftrace *self, int *ret_fds, size_t max);
/* One of them became readable: drains. A kernel that reports empty buffers is not polled again. */
void pfl_ftrace_drain_full(struct pfl_ftrace *self);

/* Pages read by the running instances. */
uint64_t pfl_ftrace_count_pages(const struct pfl_ftrace *self);

/* The shortest period of the started sessions; 0: none. */
uint32_t pfl_ftrace_get_period_ms(const struct pfl_ftrace *self);

#endif
