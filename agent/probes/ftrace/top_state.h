/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is the kernel's top-level ring buffer in use? The decision, from the content of its files
 * (adr/0031). Pure.
 */
#ifndef PFL_PROBES_TOP_STATE_H
#define PFL_PROBES_TOP_STATE_H

#include <stdint.h>

#include "base/bytes.h"

enum pfl_top_use {
    PFL_TOP_FREE,
    PFL_TOP_TRACER,  /* current_tracer is not nop */
    PFL_TOP_EVENTS,  /* events are on */
    PFL_TOP_READER,  /* a process has trace_pipe or trace_pipe_raw open */
    PFL_TOP_STOPPED, /* it holds events, and tracing_on is 0 */
    PFL_TOP_SIZED,   /* it holds events, and its size or clock is not the kernel's default */
    PFL_TOP_CONTENT, /* it holds events other than trace_marker's, or too many */
    /* Only while it is borrowed: */
    PFL_TOP_SWITCHED, /* tracing_on is not 1 any more */
    PFL_TOP_CLOCK,    /* trace_clock is not what was set */
    PFL_TOP_RESIZED,  /* buffer_size_kb is not what was set */
    PFL_TOP_CONSUMED, /* another program read events, or emptied the buffer */
};

/* The first line of each file, cut. */
struct pfl_top_files {
    char tracer[32]; /* current_tracer */
    char events[8];  /* events/enable */
    char on[8];      /* tracing_on */
    char clock[128]; /* trace_clock */
    char size[32];   /* buffer_size_kb */
};

struct pfl_top_content {
    uint64_t entries;     /* of all CPUs */
    bool is_markers_only; /* each is text or data that a program wrote to trace_marker[_raw] */
};

/* Before it is borrowed; the caller searches for readers. */
enum pfl_top_use pfl_top_judge(const struct pfl_top_files *files,
                               const struct pfl_top_content *content);
/* While it is borrowed: has another program begun to use it since `before`? `has_events`: the
 * borrower has events on itself. */
enum pfl_top_use pfl_top_judge_change(const struct pfl_top_files *before,
                                      const struct pfl_top_files *now, bool has_events);
/* Why it counts as used, as a text. */
const char *pfl_top_explain(enum pfl_top_use use);

/* Is all of a file `trace` text that programs wrote to trace_marker? Zero-initialized. */
struct pfl_top_scan {
    char line[256]; /* the beginning of the current line */
    size_t line_len;
    uint64_t markers;
    bool has_other; /* a line that is neither such an event nor a remark */
};
void pfl_top_scan_feed(struct pfl_top_scan *self, struct pfl_span text);
/* After the last byte. */
bool pfl_top_scan_is_markers_only(struct pfl_top_scan *self);

/* Does a descriptor with this link read the top-level buffer's events? */
bool pfl_top_is_reader_path(const char *path);

#endif
