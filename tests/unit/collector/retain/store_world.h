/* SPDX-License-Identifier: Apache-2.0 */
/* A folder with a real store and a real index, and traces in them. */
#ifndef PFL_TESTS_COLLECTOR_RETAIN_STORE_WORLD_H
#define PFL_TESTS_COLLECTOR_RETAIN_STORE_WORLD_H

#include "collector/index/index.h"
#include "collector/store/store.h"

#define S  UINT64_C(1000000000)
#define T0 (UINT64_C(1795432296) * S)

struct store_world {
    char folder[64];
    char where[128]; /* of the index */
    struct pfl_store *store;
    struct pfl_index *index;
};

/* A new folder; nothing is open. */
void store_world_make(struct store_world *w);
void store_world_remove(struct store_world *w);
/* Opens both, and joins the index. */
void store_world_open(struct store_world *w, const char *collector);
void store_world_close(struct store_world *w);

struct store_world_trace {
    uint32_t number;
    uint64_t bytes;
    uint64_t stored_ns;
    const char *trigger; /* NULL: none */
    bool is_gap;
    char id[PFL_INDEX_ID_BYTES]; /* returned */
    char key[PFL_STORE_KEY_BYTES];
    char description[PFL_STORE_KEY_BYTES];
};
enum store_world_parts {
    STORE_WORLD_OBJECT = 1,
    STORE_WORLD_DESCRIPTION = 2,
    STORE_WORLD_ROW = 4,
    STORE_WORLD_WHOLE = 7,
};
/* Puts those parts of a trace of host "web1"; its id is that of its number and `life`. */
void store_world_put(struct store_world *w, struct store_world_trace *t, unsigned parts,
                     unsigned life);
bool store_world_has(struct store_world *w, const char *key);
/* The state of a row; -1: there is none. */
int store_world_state(struct store_world *w, const char *id);

#endif
