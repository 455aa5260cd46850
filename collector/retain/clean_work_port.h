/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What keeps the store and the index tidy, as steps that block: retention, deletion of tombstones,
 * forgetting, and the two sweeps. A step is short and runs on the thread of the engine that it
 * names; between two steps the process may die. Allocates in new and free alone.
 */
#ifndef PFL_COLLECTOR_RETAIN_CLEAN_WORK_PORT_H
#define PFL_COLLECTOR_RETAIN_CLEAN_WORK_PORT_H

#include "collector/retain/retention.h"
#include "collector/store/store.h"

#define PFL_CLEAN_GRACE_S   86400  /* what no row names is younger than this, or is removed */
#define PFL_CLEAN_PAGE      64u    /* traces, or objects, of one step */
#define PFL_CLEAN_PARTS     4u     /* of a step that deletes objects */
#define PFL_CLEAN_SWEEP_MS  30000u /* of each sweep in a cycle; then retention has its turn */
#define PFL_CLEAN_BEHIND_S  300    /* sweeps wait so long while retention has more to delete */
#define PFL_CLEAN_FORGET_NS (UINT64_C(90) * 86400 * 1000000000)
#define PFL_CLEAN_RUNS_NS   (UINT64_C(180) * 86400 * 1000000000)

enum pfl_clean_thread {
    PFL_CLEAN_IDLE = 0, /* the cycle is over */
    PFL_CLEAN_ON_INDEX,
    PFL_CLEAN_ON_STORE,
    PFL_CLEAN_ON_LOOP, /* where the program may allocate */
};

struct pfl_clean_conf {
    struct pfl_store *store; /* borrowed */
    struct pfl_index *index; /* borrowed */
    const struct pfl_keep_rules *rules;
    const char *fleet; /* copied */
    int64_t grace_s;   /* 0: PFL_CLEAN_GRACE_S */
    uint64_t sweep_ns; /* 0: PFL_CLEAN_SWEEP_MS */
};

struct pfl_clean;

PFL_MUST_USE int pfl_clean_new(const struct pfl_clean_conf *conf, struct pfl_clean **ret_clean);
void pfl_clean_free(struct pfl_clean *self); /* NULL is legal */

/* A cycle begins: a pass of retention, all tombstones, and, if retention has no more to delete, or
 * PFL_CLEAN_BEHIND_S after the last one, a part of each sweep. The wall clock may jump
 * (retention_clock.h), also while no collector runs: the index has the time of the last cycle.
 */
void pfl_clean_begin(struct pfl_clean *self, uint64_t wall_unix_ns, uint64_t boot_ns);
/* Where the next step runs. */
enum pfl_clean_thread pfl_clean_get_thread(const struct pfl_clean *self);
/* Runs it; blocks. */
void pfl_clean_run(struct pfl_clean *self);
/* 1, or PFL_CLEAN_PARTS: the step may be run in parts instead, in any order and in several threads
 * at a time; then end_parts. What a part that was not run has to do waits. */
unsigned pfl_clean_get_parts(const struct pfl_clean *self);
void pfl_clean_run_part(struct pfl_clean *self, unsigned part);
void pfl_clean_end_parts(struct pfl_clean *self);
/* Another cycle has work at once. */
bool pfl_clean_is_cut(const struct pfl_clean *self);

/* What the last step has to tell. */
struct pfl_clean_report {
    const char *event; /* static, as are cause and effect; NULL: nothing */
    const char *cause; /* NULL: none */
    const char *effect;
    bool is_warning;
    uint64_t bytes;
    char what[PFL_STORE_KEY_BYTES]; /* an id, a key or an engine */
    char host[PFL_INDEX_NAME_BYTES];
    char reason[PFL_INDEX_WHY_BYTES];
};
/* NULL: nothing. */
const struct pfl_clean_report *pfl_clean_get_report(const struct pfl_clean *self);

struct pfl_clean_figures {
    uint64_t deleted_objects; /* of tombstones */
    uint64_t failed;          /* deletions that the store refused */
    uint64_t tombstones;      /* that wait for their deletion; 0 if another collector cleans */
    uint64_t lost;            /* live, and not in the store */
    uint64_t found;           /* lost, and there again */
    uint64_t orphans;         /* objects that were removed */
    uint64_t leftovers;       /* temporary files, uploads */
    uint64_t unknown;         /* whole traces without a row, in the last round of the store */
    uint64_t rounds;          /* of the store */
    bool is_held;             /* this collector cleans */
};
const struct pfl_clean_figures *pfl_clean_get_figures(const struct pfl_clean *self);
const struct pfl_retention_figures *pfl_clean_get_retention(const struct pfl_clean *self);

#endif
