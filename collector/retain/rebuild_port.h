/* SPDX-License-Identifier: Apache-2.0 */
/* Makes an index from the store alone, out of the descriptions beside the objects. */
#ifndef PFL_COLLECTOR_RETAIN_REBUILD_PORT_H
#define PFL_COLLECTOR_RETAIN_REBUILD_PORT_H

#include "collector/index/index.h"
#include "collector/store/store.h"

struct pfl_rebuild_figures {
    uint64_t added;     /* traces and gaps that the index did not have */
    uint64_t known;     /* that it has */
    uint64_t conflicts; /* another trace has their number */
    uint64_t broken;    /* without an object of their length, or without a description */
    uint64_t bytes;     /* of those that were added */
};

/*
 * Adds what the index does not have; blocks, and logs what it does. An index that a collector uses
 * is refused (PFL_ESTATE). A call that was interrupted may be repeated. Errors of the engines,
 * which are logged.
 */
PFL_MUST_USE int pfl_rebuild_run(const struct pfl_store_conf *store, const char *index,
                                 struct pfl_rebuild_figures *ret_figures);

#endif
