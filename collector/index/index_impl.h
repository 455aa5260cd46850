/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the index, for its files. */
#ifndef PFL_COLLECTOR_INDEX_INDEX_IMPL_H
#define PFL_COLLECTOR_INDEX_INDEX_IMPL_H

#include "collector/index/index.h"
#include "collector/index/sql.h"

struct pfl_index {
    struct pfl_sql *sql; /* owned */
    char why[PFL_INDEX_WHY_BYTES];
    unsigned void_ms;
    char collector[PFL_INDEX_NAME_BYTES]; /* "": none joined */
    uint64_t generation;
    /* What a call packs, or keeps of a row; the larger of a segment and an order. */
    uint8_t packed[PFL_INDEX_ORDER_BYTES];
};

/* The steps of a transaction; called again from the begin when it must be repeated. */
typedef int (*pfl_index_steps)(struct pfl_index *self, void *arg);

/* Runs the steps in a transaction: all of them hold, or none. */
int pfl_index_transact(struct pfl_index *self, pfl_index_steps steps, void *arg);
/* One statement; by itself it is a transaction. `call->statement` is set by the caller. */
int pfl_index_run(struct pfl_index *self, struct pfl_sql_call *call);
/* Notes the sentence; returns `rc`. */
int pfl_index_fail(struct pfl_index *self, int rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Packs a message into self->packed. PFL_ELIMIT: longer than `max`. */
int pfl_index_pack(struct pfl_index *self, const ProtobufCMessage *message, size_t max,
                   struct pfl_span *ret_packed);
/* "" for NULL. PFL_ELIMIT: longer than PFL_INDEX_NAME_BYTES; PFL_EINVAL: not UTF-8. */
int pfl_index_check_name(struct pfl_index *self, const char *what, const char *name);

/* What changes in the counts of a run: numbers that are live, in gaps, removed; bytes. */
struct pfl_index_counts {
    int64_t stored;
    int64_t in_gaps;
    int64_t removed;
    int64_t bytes;
    uint64_t last;
};

/* Adds them, the bytes to those of its host as well. */
int pfl_index_count(struct pfl_index *self, uint64_t run_id, uint64_t host_id,
                    const struct pfl_index_counts *counts);

/* Adds to the gaps of a host, which are bounded; answers how many there are. */
int pfl_index_count_gaps(struct pfl_index *self, uint64_t host_id, int64_t more,
                         uint64_t *ret_gaps);

#define PFL_INDEX_PARAMS(...)                                                                      \
    (const struct pfl_sql_value[]){__VA_ARGS__},                                                   \
        sizeof((const struct pfl_sql_value[]){__VA_ARGS__}) / sizeof(struct pfl_sql_value)

#endif
