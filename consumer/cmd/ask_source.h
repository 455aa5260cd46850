/* SPDX-License-Identifier: Apache-2.0 */
/* Which traces `perfleet ask` asks: files that are named, or those of a collector. */
#ifndef PFL_CONSUMER_ASK_SOURCE_H
#define PFL_CONSUMER_ASK_SOURCE_H

#include "consumer/ask/asked_traces.h"
#include "consumer/cmd/collector_session.h"

struct pfl_ask_source {
    struct pfl_asked_traces traces; /* oldest first */
    bool is_files;
    uint64_t unknown;                     /* IDs that are not there */
    struct pfl_collector_session session; /* open unless is_files */
    /* While it lists. */
    uint8_t cursor[4096];
    size_t cursor_len;
    int rc;
};

/* The words are files, or IDs (ULIDs) of a collector's traces. 0 or the exit code: error reported
 * on stderr, and nothing is open. `self` stays where it is until it is closed. */
int pfl_ask_source_open(struct pfl_ask_source *self, struct pfl_args *args);
void pfl_ask_source_close(struct pfl_ask_source *self);

#endif
