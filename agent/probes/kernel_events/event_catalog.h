/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's events: names at first, plans when a session wants them. */
#ifndef PFL_PROBES_EVENT_CATALOG_H
#define PFL_PROBES_EVENT_CATALOG_H

#include "agent/probes/kernel_events/event_plan.h"
#include "agent/probes/kernel_events/ftrace_conf.h"
#include "base/buf.h"

#define PFL_CATALOG_EVENTS_MAX 16384u

struct pfl_catalog_event {
    char *group; /* owned; one block with the name */
    char *name;
    const struct pfl_event_plan *plan; /* borrowed from by_id; NULL: not loaded or not usable */
    bool is_broken;                    /* its format could not be read: not tried again */
    bool is_late; /* appeared after init; it may be removed, and another event may get its id */
};

/* Events of group ftrace that our own instance does not get by itself. */
enum pfl_top_event {
    PFL_TOP_EVENT_NONE,
    PFL_TOP_EVENT_MARKER, /* programs' writes to trace_marker[_raw]; newer kernels copy them */
    PFL_TOP_EVENT_PRINTK, /* the kernel's own trace_printk: only in the top-level buffer */
};

struct pfl_event_catalog {
    struct pfl_catalog_event *events; /* owned */
    size_t count;
    struct pfl_event_plan **by_id; /* owned, with the plans */
    size_t ids;
    struct pfl_printk_formats printk;
    struct pfl_trace_page_layout layout;
    uint64_t address_key[2]; /* set by the owner after init, secret: see event_plan.h */
};

/* `available` is tracefs available_events, `header_page` events/header_page, `printk` the file
 * printk_formats (may be empty). PFL_EPARSE, PFL_ENOMEM. */
PFL_MUST_USE int pfl_event_catalog_init(struct pfl_event_catalog *self, struct pfl_span available,
                                        struct pfl_span header_page, struct pfl_span printk);
void pfl_event_catalog_fini(struct pfl_event_catalog *self); /* legal on zeroed memory */

/* False: none; ret_index may be NULL. */
bool pfl_event_catalog_find(const struct pfl_event_catalog *self, const char *group,
                            const char *name, size_t *ret_index);
/* Adds an event that appeared later, or is not in the list; known ones are found. A later event
 * with its id replaces its plan. PFL_EPARSE: invalid format, or the id belongs to another event;
 * PFL_ELIMIT, PFL_ENOMEM. */
PFL_MUST_USE int pfl_event_catalog_add(struct pfl_event_catalog *self, const char *group,
                                       const char *name, struct pfl_span format, size_t *ret_index);

enum pfl_top_event pfl_event_catalog_find_top_event(const struct pfl_catalog_event *event);

/* Makes the event's plan from its format file. PFL_EPARSE (then is_broken), PFL_ENOMEM. */
PFL_MUST_USE int pfl_event_catalog_load(struct pfl_event_catalog *self, size_t index,
                                        struct pfl_span format);

#endif
