/* SPDX-License-Identifier: Apache-2.0 */
/* A recording as a page: its hosts with a bar of progress each, what is lost and who is away; its
 * trace when it is over. Pure. */
#ifndef PFL_CONSUMER_WEB_RECORD_RECORDING_PAGE_H
#define PFL_CONSUMER_WEB_RECORD_RECORDING_PAGE_H

#include "consumer/web/html/layout.h"

#define PFL_RECORDING_PAGE_MAX_ROWS 200u
#define PFL_RECORDING_NO_BAR        (-1.0)

enum pfl_recording_view_state {
    PFL_RECORDING_VIEW_BEGINS, /* hosts are connected and set up */
    PFL_RECORDING_VIEW_RUNS,
    PFL_RECORDING_VIEW_STOPS,
    PFL_RECORDING_VIEW_READS,
    PFL_RECORDING_VIEW_ENDS, /* the file is completed, the hosts' data freed */
    PFL_RECORDING_VIEW_OVER,
};

struct pfl_recording_host_view {
    const char *name;
    const char *state; /* in a word */
    const char *why;   /* "" or why it failed */
    double share;      /* of its way, 0 to 1; PFL_RECORDING_NO_BAR */
    uint64_t bytes;    /* that were read */
    uint64_t losses;
    bool has_losses;
    bool has_clock;
    int64_t clock_error_ns;
    uint64_t away_ms; /* for how long its connection is lost; 0: it is there */
};

/* Strings are borrowed. */
struct pfl_recording_view {
    uint32_t id;
    enum pfl_recording_view_state state;
    bool is_stopping;  /* it was stopped before, and still waits */
    const char *what;  /* "preset default" */
    const char *where; /* the selection */
    const char *command;
    const struct pfl_recording_host_view *hosts;
    size_t hosts_len;
    size_t failed; /* of them */
    size_t away;
    const char *longest_away; /* its name, or "the relay"; "": none is away */
    uint64_t longest_away_ms;
    bool is_waited_for;   /* nothing else is left to do */
    uint64_t elapsed_ms;  /* of the recording itself */
    uint64_t duration_ms; /* 0: until it is stopped */
    uint64_t read_bytes;
    uint64_t expected_bytes; /* 0: not known */
    uint64_t losses;
    uint64_t file_bytes;
    const char *warnings; /* "" or lines */
    const char *why;      /* "" or why it failed as a whole */
    const char *summary;  /* "" or what `perfleet record` prints at the end */
    bool has_trace;
    bool has_lost; /* the summary has losses, or hosts are missing */
    const char *file_name;
    uint64_t kept_s; /* when it is over: for how long it is kept */
};

void pfl_recording_page_write(const struct pfl_recording_view *view,
                              const struct pfl_layout *layout, struct pfl_html *h);
/* The part that is sent again and again. */
void pfl_recording_page_write_progress(const struct pfl_recording_view *view, struct pfl_html *h);
/* The list of recordings on the Record page. */
void pfl_recording_page_write_list(const struct pfl_recording_view *views, size_t len,
                                   struct pfl_html *h);

#endif
