/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A live view: copies of a host's flight recorder, one after the other, for one tab of the Perfetto
 * UI. Decides when the next copy is made, and how the page that posts them is answered. Pure.
 *
 *     page asks -> copy is due -> begin -> end -> answer -> the page fetches it -> page asks ...
 */
#ifndef PFL_CONSUMER_LIVE_VIEW_H
#define PFL_CONSUMER_LIVE_VIEW_H

#include "consumer/open/hand_over.h"

#define PFL_LIVE_VIEW_EVERY_MS     5000u
#define PFL_LIVE_VIEW_MIN_EVERY_MS 2000u
#define PFL_LIVE_VIEW_MAX_EVERY_MS 600000u
#define PFL_LIVE_VIEW_REST_FACTOR  4u       /* a copy of T is followed by a rest of 3 T at least */
#define PFL_LIVE_VIEW_RETRY_MAX_MS 60000u   /* the wait after failures doubles up to this */
#define PFL_LIVE_VIEW_HOLD_MS      5000u    /* a question without news is answered then */
#define PFL_LIVE_VIEW_GONE_MS      15000u   /* without a question the page is gone */
#define PFL_LIVE_VIEW_MAX_TIME_MS  1800000u /* by default */
#define PFL_LIVE_VIEW_MAX_MIB      64u      /* of a copy, by default */
#define PFL_LIVE_VIEW_WHY_BYTES    768u

enum pfl_live_view_end {
    PFL_LIVE_VIEW_RUNS,
    PFL_LIVE_VIEW_TAB_CLOSED, /* the UI's */
    PFL_LIVE_VIEW_PAGE_GONE,  /* ours, which hands over */
    PFL_LIVE_VIEW_TIME_OVER,
    PFL_LIVE_VIEW_NEVER_SEEN, /* no tab within wait_ms */
};

enum pfl_live_view_tab {
    PFL_LIVE_VIEW_TAB_NEW,  /* the page itself has just been loaded */
    PFL_LIVE_VIEW_TAB_NONE, /* not opened yet */
    PFL_LIVE_VIEW_TAB_OPEN,
    PFL_LIVE_VIEW_TAB_OVER, /* closed */
};

/* What the page says when it asks. */
struct pfl_live_view_ask {
    uint32_t have; /* the number of the view that the tab has; 0: none */
    enum pfl_live_view_tab tab;
    bool is_held; /* the user keeps the present view */
};

struct pfl_live_view_conf {
    const char *host;     /* borrowed */
    uint64_t every_ms;    /* between the beginnings of two copies, at least */
    uint64_t max_time_ms; /* from the first view in a tab on */
    uint64_t wait_ms;     /* for the tab */
};

struct pfl_live_view {
    struct pfl_live_view_conf conf;
    enum pfl_live_view_end end;
    uint64_t begun_ms;
    uint64_t shown_ms; /* a tab was there first; 0: none yet */
    uint64_t asked_ms;
    bool has_page;
    bool is_wanted; /* a question waits for a view that is not there yet */
    bool is_copying;
    uint64_t copy_begun_ms;
    uint64_t due_ms; /* the next copy may not begin before */
    uint64_t retry_ms;
    uint32_t number; /* of the newest view; 0: none */
    uint64_t bytes;  /* of it */
    uint64_t took_ms;
    uint64_t total_bytes;              /* of all */
    uint32_t failures;                 /* of all */
    char why[PFL_LIVE_VIEW_WHY_BYTES]; /* of the last copy; "": it succeeded */
};

void pfl_live_view_init(struct pfl_live_view *self, const struct pfl_live_view_conf *conf,
                        uint64_t now_ms);
/* have=N&tab=new|none|open|closed&hold=0|1. PFL_EPARSE, PFL_ENOMEM. */
PFL_MUST_USE int pfl_live_view_parse(const char *query, struct pfl_live_view_ask *ret_ask);

/* The page asks. True: answer at once, as it is new, there is a view for it, or an end; false: when
 * there is one, or after HOLD_MS. `is_fetched`: the newest view cannot be had any more. */
bool pfl_live_view_ask(struct pfl_live_view *self, const struct pfl_live_view_ask *ask,
                       bool is_fetched, uint64_t now_ms);
/* Is a copy to be made now? */
bool pfl_live_view_is_due(const struct pfl_live_view *self, uint64_t now_ms);
void pfl_live_view_begin(struct pfl_live_view *self, uint64_t now_ms);
/* `bytes` were read of the host, also of a copy that failed. `why` NULL: it is the newest view. */
void pfl_live_view_end(struct pfl_live_view *self, uint64_t bytes, const char *why,
                       uint64_t now_ms);
/* To be called as time passes. Is the live view over? */
enum pfl_live_view_end pfl_live_view_check(struct pfl_live_view *self, uint64_t now_ms);
/* "the tab was closed", ...; "" while it runs. */
const char *pfl_live_view_end_str(enum pfl_live_view_end end);

/* The page's answer, a line of JSON: the UI, the newest view, what it costs, what is wrong. The
 * view has a path if it is not fetched yet; it is the only trace of `hand_over`. PFL_ENOMEM,
 * PFL_ELIMIT. */
PFL_MUST_USE int pfl_live_view_add_json(const struct pfl_live_view *self,
                                        const struct pfl_hand_over *hand_over, struct pfl_buf *out);

#endif
