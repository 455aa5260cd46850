/* SPDX-License-Identifier: Apache-2.0 */
/* The supported part of FtraceConfig. Pure. */
#ifndef PFL_PROBES_FTRACE_CONF_H
#define PFL_PROBES_FTRACE_CONF_H

#include "agent/probes/kernel_events/print_filter.h"
#include "agent/probes/kernel_events/syscall_filter.h"

#define PFL_FTRACE_WISHES_MAX  4096u /* patterns of events */
#define PFL_FTRACE_TIDS_MAX    1024u
#define PFL_FTRACE_OPTIONS_MAX 32u
#define PFL_FTRACE_CPUMASK_MAX 1024u /* bytes */
#define PFL_FTRACE_KPROBES_MAX 1024u
#define PFL_FTRACE_NAME_MAX    64u /* of an instance, with its NUL */

/* KprobeEvent.KprobeType, as the trace has it. */
enum pfl_kprobe_type { PFL_KPROBE_BEGIN = 1, PFL_KPROBE_END = 2, PFL_KPROBE_INSTANT = 3 };

/* events of these groups come only from kprobe_events */
#define PFL_KPROBE_GROUP    "perfetto_kprobes"
#define PFL_KRETPROBE_GROUP "perfetto_kretprobes"

struct pfl_ftrace_kprobe {
    char *name; /* owned; of the function and of the event */
    bool is_return;
    enum pfl_kprobe_type type;
};

struct pfl_ftrace_texts {
    char **items; /* owned, with the texts */
    size_t count;
};

struct pfl_ftrace_conf {
    char **wanted; /* owned: group/name, a group and a star, or a bare name */
    size_t wanted_count;
    /* Options of the whole instance, not of one session alone (exclusive features). */
    int32_t *tids; /* owned */
    size_t tid_count;
    char *cpumask;                         /* owned; NULL: all */
    char *options[PFL_FTRACE_OPTIONS_MAX]; /* owned; as trace_options takes them: name or noname */
    size_t option_count;
    struct pfl_print_filter print_filter;
    struct pfl_syscall_filter syscalls;
    char **unknown_syscalls; /* owned: names that are no system call */
    size_t unknown_syscall_count;
    struct pfl_ftrace_kprobe *kprobes; /* owned; each name at most once per kind */
    size_t kprobe_count;
    struct pfl_ftrace_texts graph_filters;
    struct pfl_ftrace_texts graph_roots;
    char *instance_name;      /* owned; NULL: none */
    uint32_t buffer_size_kb;  /* of one CPU; 0: default */
    uint32_t drain_period_ms; /* 0: default */
    uint32_t drain_percent;   /* 0: default */
    uint32_t graph_depth;     /* 0: no limit */
    uint32_t ignored;         /* enum pfl_ftrace_ignored */
    bool no_compact_sched;
    bool no_generic_events;
    bool no_dense;          /* generic events with names instead of descriptors */
    bool is_lower_bound;    /* buffer_size_kb is a minimum, the default may be larger */
    bool has_mono_raw;      /* the clock is CLOCK_MONOTONIC_RAW instead of boot time */
    bool throttle_rss_stat; /* kmem/rss_stat means synthetic/rss_stat_throttled, if the kernel has
                               it */
    bool symbolize_ksyms;
    bool retain_ksyms;  /* the symbols stay in memory for the next session */
    bool has_graph;     /* enable_function_graph */
    bool is_preserving; /* preserve_ftrace_buffer */
};

/* Unsupported options; the log and docs/probes.md list them. */
enum pfl_ftrace_ignored {
    PFL_FTRACE_NO_ATRACE = 1,
    PFL_FTRACE_NO_DEBUG_ABI = 2,
};

/* "not supported by perfleet-probes: field field"; cut to `size`. */
void pfl_ftrace_conf_list_ignored(const struct pfl_ftrace_conf *self, char *ret_text, size_t size);

static inline bool pfl_ftrace_conf_is_exclusive(const struct pfl_ftrace_conf *self)
{
    return self->tid_count != 0 || self->cpumask != NULL || self->option_count != 0;
}

/* PFL_EPARSE: not protobuf; PFL_ELIMIT; PFL_ENOMEM. */
PFL_MUST_USE int pfl_ftrace_conf_parse(struct pfl_span config, struct pfl_ftrace_conf *ret_conf);
void pfl_ftrace_conf_fini(struct pfl_ftrace_conf *self); /* legal on zeroed memory */

/* Does a pattern match this event? With syscall_events also both of raw_syscalls, with the function
 * graph its two. A bare name means the event of every group; a missing `/` is also accepted as
 * "group:name". Never an event of the groups of kprobe_events. */
bool pfl_ftrace_conf_wants(const struct pfl_ftrace_conf *self, const char *group, const char *name);

#endif
