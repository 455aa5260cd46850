/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of cleaning share: clean_work_port.c has the cycle, clean_items_port.c what all
 * sweeps need, the others a sweep each. */
#ifndef PFL_COLLECTOR_RETAIN_CLEAN_IMPL_H
#define PFL_COLLECTOR_RETAIN_CLEAN_IMPL_H

#include "base/retention_clock.h"
#include "collector/describe/description.h"
#include "collector/retain/clean_work_port.h"
#include "proto/unpack.h"

#define PFL_CLEAN_NS_PER_S    UINT64_C(1000000000)
#define PFL_CLEAN_SWEEP_STEPS 8u
#define PFL_CLEAN_SWEEP_EVERY 120u /* cycles: temporary files are looked for */

enum pfl_clean_phase {
    PFL_CLEAN_PHASE_IDLE = 0,
    PFL_CLEAN_PHASE_LEASE,
    PFL_CLEAN_PHASE_RETAIN,
    PFL_CLEAN_PHASE_BURY_LIST,
    PFL_CLEAN_PHASE_BURY_DELETE,
    PFL_CLEAN_PHASE_BURY_NOTE,
    PFL_CLEAN_PHASE_FORGET,
    PFL_CLEAN_PHASE_LIVE_LIST,
    PFL_CLEAN_PHASE_LIVE_LOOK,
    PFL_CLEAN_PHASE_LIVE_NOTE,
    PFL_CLEAN_PHASE_OBJECTS_LIST,
    PFL_CLEAN_PHASE_OBJECTS_MATCH,
    PFL_CLEAN_PHASE_ORPHAN_LOOK,  /* of the page's orphans, one after the other */
    PFL_CLEAN_PHASE_ORPHAN_PARSE, /* its description */
    PFL_CLEAN_PHASE_ORPHAN_MATCH, /* whether something else stands for its number */
    PFL_CLEAN_PHASE_ORPHAN_DELETE,
    PFL_CLEAN_PHASE_SWEEP,
    PFL_CLEAN_PHASES,
};

struct pfl_clean_item {
    char id[PFL_INDEX_ID_BYTES];
    char host[PFL_INDEX_NAME_BYTES];
    char key[PFL_STORE_KEY_BYTES];
    char description[PFL_STORE_KEY_BYTES]; /* the key of its JSON */
    uint64_t bytes;
    uint64_t begin_unix_ns;
    int rc;                        /* of the store */
    char why[PFL_STORE_WHY_BYTES]; /* a tombstone is still there */
    bool is_orphan;                /* no row names it */
};

struct pfl_clean {
    struct pfl_clean_conf conf;
    char fleet[PFL_INDEX_NAME_BYTES];
    struct pfl_retention *retention; /* owned */
    enum pfl_clean_phase phase;
    uint64_t wall_unix_ns; /* of this cycle, as the clocks say */
    uint64_t boot_ns;
    struct pfl_retention_clock clock;
    bool has_clock;       /* the last cycle was this collector's */
    uint64_t now_unix_ns; /* by that clock */
    uint64_t cycles;
    struct pfl_clean_item items[PFL_CLEAN_PAGE];
    size_t len;
    size_t at; /* the orphan that is judged */
    struct pfl_store_object objects[PFL_CLEAN_PAGE];
    struct pfl_index_look live; /* the page of live traces */
    bool is_live_long;          /* it is of those of more than 15 minutes */
    char objects_after[PFL_STORE_KEY_BYTES];
    unsigned steps;               /* pages of this sweep in this cycle */
    uint64_t sweep_begun_ns;      /* of the monotonic clock */
    uint64_t swept_boot_ns;       /* the last cycle with sweeps */
    bool is_counted;              /* tombstones, in this cycle */
    uint64_t unknown;             /* in this round of the store */
    struct pfl_buf description;   /* room is reserved */
    Perfleet__StoredTrace *trace; /* owned; of the orphan */
    struct pfl_clean_report report;
    struct pfl_clean_figures figures;
};

/* ---- reports and items: clean_items_port.c ---- */

/* Of this step; `event` is static. */
struct pfl_clean_report *pfl_clean_report_item(struct pfl_clean *self, const char *event,
                                               const char *what, const char *reason);
struct pfl_clean_report *pfl_clean_report_trace(struct pfl_clean *self, const char *event,
                                                const struct pfl_clean_item *item,
                                                const char *reason);
/* The engine does not answer: the rest waits for the next cycle. */
void pfl_clean_give_up(struct pfl_clean *self, const char *engine, const char *why);
void pfl_clean_give_up_index(struct pfl_clean *self);
/* There is room for it. */
struct pfl_clean_item *pfl_clean_add_item(struct pfl_clean *self, const struct pfl_index_row *row);
/* The key of the JSON beside an object. `dst`: PFL_STORE_KEY_BYTES. */
void pfl_clean_make_description_key(const char *key, char *dst);
/* The description first: an object without one is no trace for a rebuild. */
int pfl_clean_delete_objects(struct pfl_clean *self, const struct pfl_clean_item *item);
void pfl_clean_drop_trace(struct pfl_clean *self);
/* A sweep waits for the store at each object: a slow one must not keep retention waiting. */
void pfl_clean_begin_sweep(struct pfl_clean *self);
bool pfl_clean_is_sweep_late(const struct pfl_clean *self);

/* ---- steps; each sets the next phase ---- */

/* clean_tombstones_port.c */
void pfl_clean_list_tombstones(struct pfl_clean *self);
void pfl_clean_delete_tombstones(struct pfl_clean *self);
void pfl_clean_note_tombstones(struct pfl_clean *self);
void pfl_clean_forget(struct pfl_clean *self);
/* clean_lost_port.c */
void pfl_clean_list_live(struct pfl_clean *self);
void pfl_clean_look_for_objects(struct pfl_clean *self);
void pfl_clean_note_lost(struct pfl_clean *self);
/* clean_orphans_port.c */
void pfl_clean_list_objects(struct pfl_clean *self);
void pfl_clean_match_objects(struct pfl_clean *self);
void pfl_clean_look_at_orphan(struct pfl_clean *self);
void pfl_clean_parse_orphan(struct pfl_clean *self);
void pfl_clean_match_orphan(struct pfl_clean *self);
void pfl_clean_delete_orphan(struct pfl_clean *self);
void pfl_clean_sweep(struct pfl_clean *self);

#endif
