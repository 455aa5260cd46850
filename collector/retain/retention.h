/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass of retention: which traces go, and why. Pure: it asks for lists and for the oldest trace
 * of a group, and says which one is to be deleted.
 *
 * In this order: age; traces of a trigger; bytes of orders, of hosts, of classes, of all; how many
 * there are of all. A group above its bound loses the oldest traces that no trigger made, then the
 * oldest that one made, and no more than are needed. What is pinned or kept for a while stays: then
 * the group stays above its bound, and the figures say so.
 */
#ifndef PFL_COLLECTOR_RETAIN_RETENTION_H
#define PFL_COLLECTOR_RETAIN_RETENTION_H

#include "base/err.h"
#include "collector/index/index.h"
#include "collector/retain/keep_rules.h"

#define PFL_RETENTION_PAGE      64u   /* hosts or triggers above their bound, of a list */
#define PFL_RETENTION_LOOKS     1024u /* triggers that one list looks at */
#define PFL_RETENTION_PASS_MAX  256u  /* traces that a pass deletes; another one follows */
#define PFL_RETENTION_WHY_BYTES 160u
#define PFL_RETENTION_NOTES     4u /* a quarter of the bytes of all is for notes of deletions */
#define PFL_RETENTION_NOTES_MIN 10000u

enum pfl_retention_step {
    PFL_RETENTION_KINDS,    /* add each kind, then on_listed */
    PFL_RETENTION_TRIGGERS, /* of pfl_retention_get_use: add each, then on_listed */
    PFL_RETENTION_HOSTS,    /* likewise */
    PFL_RETENTION_OLDEST,   /* of pfl_retention_get_oldest: on_oldest */
    PFL_RETENTION_DELETE,   /* pfl_retention_get_victim: on_deleted */
    PFL_RETENTION_END,
};

enum pfl_retention_cause {
    PFL_RETENTION_AGE = 0,
    PFL_RETENTION_PER_TRIGGER,
    PFL_RETENTION_ORDER_BYTES,
    PFL_RETENTION_HOST_BYTES,
    PFL_RETENTION_CLASS_BYTES,
    PFL_RETENTION_ALL_BYTES,
    PFL_RETENTION_ALL_TRACES,
    PFL_RETENTION_CAUSES,
};
const char *pfl_retention_cause_name(enum pfl_retention_cause cause); /* static */

struct pfl_retention;

PFL_MUST_USE int pfl_retention_new(const struct pfl_keep_rules *rules,
                                   struct pfl_retention **ret_retention); /* PFL_ENOMEM */
void pfl_retention_free(struct pfl_retention *self);                      /* NULL is legal */

/* A pass begins. */
void pfl_retention_begin(struct pfl_retention *self, uint64_t now_unix_ns);
/* The step that is to be done now; the same again until its result came. */
enum pfl_retention_step pfl_retention_get_step(const struct pfl_retention *self);

/* How many notes of deletions there may be; UINT64_MAX: no bound. */
uint64_t pfl_retention_get_notes_max(const struct pfl_retention *self);
/* How many there are: they count among the bytes of all. With the kinds, before on_listed. */
void pfl_retention_set_notes(struct pfl_retention *self, uint64_t notes);
/* False: no more are taken. Of uses those that are not above their bound are passed. */
bool pfl_retention_add_kind(struct pfl_retention *self, const struct pfl_index_kind *kind);
bool pfl_retention_add_use(struct pfl_retention *self, const struct pfl_index_use *use);
void pfl_retention_on_listed(struct pfl_retention *self);
void pfl_retention_get_use(const struct pfl_retention *self, struct pfl_index_use_query *ret_query);
/* Strings and the look are borrowed until the next call. */
void pfl_retention_get_oldest(struct pfl_retention *self, struct pfl_index_oldest *ret_query);
/* `row` NULL: there is none. If the look has more, the step is the same again. */
void pfl_retention_on_oldest(struct pfl_retention *self, const struct pfl_index_row *row);

struct pfl_retention_victim {
    char id[PFL_INDEX_ID_BYTES];
    char host[PFL_INDEX_NAME_BYTES];
    uint64_t kind;
    uint64_t bytes;
    uint64_t stored_unix_ns;
    enum pfl_retention_cause cause;
    char why[PFL_RETENTION_WHY_BYTES];
};
const struct pfl_retention_victim *pfl_retention_get_victim(const struct pfl_retention *self);
/* 0: it went. Others: it stays, and its group is left for this pass. */
void pfl_retention_on_deleted(struct pfl_retention *self, int rc);

struct pfl_retention_figures {
    uint64_t traces[PFL_RETENTION_CAUSES]; /* deleted, since the first pass */
    uint64_t bytes[PFL_RETENTION_CAUSES];
    uint64_t over[PFL_RETENTION_CAUSES]; /* bytes, or traces, above bounds after the last pass */
    uint64_t live_bytes;                 /* of the index, in the last pass */
    uint64_t live_traces;
};
const struct pfl_retention_figures *pfl_retention_get_figures(const struct pfl_retention *self);
/* PFL_RETENTION_PASS_MAX were deleted, and there may be more. */
bool pfl_retention_is_cut(const struct pfl_retention *self);

#endif
