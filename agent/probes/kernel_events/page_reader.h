/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts pages of one CPU's ring buffer into the bundles of one session: selects events and their
 * form, and collects threads. Pure: pages in, messages out by a callback.
 */
#ifndef PFL_PROBES_PAGE_READER_H
#define PFL_PROBES_PAGE_READER_H

#include "agent/probes/kernel_events/bundle.h"
#include "agent/probes/kernel_events/ksyms.h"
#include "agent/probes/kernel_events/print_filter.h"
#include "agent/probes/kernel_events/syscall_filter.h"
#include "agent/probes/procfs/open_files.h"
#include "agent/probes/procfs/pid_set.h"

/* One FtraceEventBundle, in pieces; valid during the call. */
typedef void (*pfl_page_reader_on_bundle)(void *user, const struct pfl_span *parts, size_t count,
                                          uint64_t bytes);

/* Of one session and one CPU. */
struct pfl_page_cpu {
    uint32_t cpu;
    uint64_t previous_end_ns; /* the last event read, 0 at the session's start */
};

struct pfl_page_reader {
    const struct pfl_event_plan *const *plans; /* borrowed; by event id, NULL: unknown */
    const uint8_t *wanted;                     /* borrowed; a bit an event id */
    size_t event_ids;                          /* of both */
    struct pfl_trace_page_layout layout;
    bool is_compact;
    bool is_dense;                            /* see pfl_event_plan_encode */
    const struct pfl_event_plan *switch_plan; /* borrowed: two of plans, see prepare */
    const struct pfl_event_plan *waking_plan;
    struct pfl_bundle *bundle;    /* borrowed; shared by all readers, closed between calls */
    struct pfl_pid_set *pids;     /* borrowed; NULL: threads are not collected */
    struct pfl_open_files *files; /* borrowed; NULL: open files are not collected */
    const struct pfl_print_filter *print_filter; /* borrowed; NULL: all texts */
    const struct pfl_syscall_filter *syscalls;   /* borrowed; NULL: all */
    const uint8_t *kprobe_types;  /* borrowed; by event id; NULL: the session has no kprobes */
    struct pfl_ksym_set *symbols; /* borrowed; NULL: the kernel's functions are not collected */
    pfl_page_reader_on_bundle on_bundle;
    void *user;
    uint32_t status_seen; /* a bit per pfl_page_status that occurred */
    uint64_t events;      /* records written */
};

/* Finds the scheduler's plans among the wanted ones, for the fast path; without it everything takes
 * the slow one. Call again when `plans` or `wanted` changed for those two. */
void pfl_page_reader_prepare(struct pfl_page_reader *self);
/* Reads `pages` (each page_bytes long) of one CPU; calls back with bundles before it returns. */
void pfl_page_reader_feed(struct pfl_page_reader *self, struct pfl_page_cpu *cpu,
                          struct pfl_span pages, size_t page_bytes);

#endif
