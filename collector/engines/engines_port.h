/* SPDX-License-Identifier: Apache-2.0 */
/* The store and the index with the threads that their blocking calls run on. */
#ifndef PFL_COLLECTOR_ENGINES_ENGINES_PORT_H
#define PFL_COLLECTOR_ENGINES_ENGINES_PORT_H

#include <uv.h>

#include "base/io/worker.h"
#include "base/list.h"
#include "collector/index/index.h"
#include "collector/store/store.h"

#define PFL_ENGINES_STORE_THREADS 4u

struct pfl_engines_conf {
    uv_loop_t *loop;
    struct pfl_store_conf store;
    const char *index; /* "sqlite:PATH" or "postgres:CONNINFO" */
    const char *name;  /* under which it joins the index */
    /* Another process speaks under this name: this one must end. */
    void (*on_replaced)(void *user);
    void (*on_collector_lost)(void *user); /* another one's leases are void */
    void *user;
};

struct pfl_engines {
    struct pfl_engines_conf conf;
    struct pfl_store *store;         /* owned; for works of store_worker */
    struct pfl_index *index;         /* owned; for works of index_worker: one at a time */
    struct pfl_worker *store_worker; /* owned */
    struct pfl_worker *index_worker; /* owned; one thread */
    uv_timer_t beat_timer;
    struct pfl_work beat;
    int beat_rc;
    struct pfl_index_leases leases; /* at the last beat */
    uint64_t collectors;            /* at the one before */
    bool is_beating;
    bool is_closing;
    char why[PFL_INDEX_WHY_BYTES]; /* of the last beat that failed */
};

/* Blocks; logs failures. Call before the loop runs. */
PFL_MUST_USE int pfl_engines_open(const struct pfl_engines_conf *conf,
                                  struct pfl_engines *ret_self);
/* Waits for works that are under way, whose on_done is called; no work is taken any more. */
void pfl_engines_close(struct pfl_engines *self);

#endif
