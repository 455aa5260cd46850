/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The segments of a merge, sorted into runs and machines. For segment_merge.c alone.
 *
 *     machine (host, boot) -> run (orderer, order, incarnation) -> segments by number
 */
#ifndef PFL_CONSUMER_SEGMENT_RUNS_H
#define PFL_CONSUMER_SEGMENT_RUNS_H

#include "base/buf.h"
#include "consumer/collector/clock_graph.h"

struct pfl_segment_row {
    size_t machine; /* index */
    size_t added;   /* its place in the order of add */
    char *run;      /* owned: "ORDERER/ORDER/INCARNATION" */
    uint32_t number;
    uint64_t bytes;
    uint64_t begin_boot_ns;
    uint64_t end_boot_ns;
    uint64_t begin_unix_ns;
    bool is_failed;
    bool is_left_out; /* by pfl_segment_runs_limit, which removes it */
};

struct pfl_segment_host {
    char *host;   /* owned */
    char *name;   /* owned: in the trace; set by pfl_segment_runs_sort */
    size_t first; /* machine of this host: index */
    size_t clock;
    uint64_t begin_ns; /* on its boot clock, of all its segments */
    uint64_t end_ns;
    size_t segments;
    size_t left_out; /* of `first`: segments of this host that have no row, nor a gap */
};

struct pfl_segment_runs {
    struct pfl_segment_row *rows; /* owned; sorted by machine, run and number */
    size_t rows_len;
    size_t added;                   /* with gaps */
    struct pfl_segment_host *hosts; /* owned */
    size_t hosts_len;
    struct pfl_clock_graph *clocks; /* owned */
};

PFL_MUST_USE int pfl_segment_runs_init(struct pfl_segment_runs *self);
void pfl_segment_runs_fini(struct pfl_segment_runs *self);
/* As pfl_segment_merge_add. Segments of boots that are too many for their host are left out. */
PFL_MUST_USE int pfl_segment_runs_add(struct pfl_segment_runs *self,
                                      const Perfleet__Segment *segment);
/* Sorts the rows, drops numbers that are there twice, names the machines. PFL_ENOMEM. */
PFL_MUST_USE int pfl_segment_runs_sort(struct pfl_segment_runs *self);
/* Of more than `max` runs, leaves out some of the hosts that have most: each host keeps what it
 * has, or as many as any other. After the sort. PFL_ELIMIT: more hosts than runs; PFL_ENOMEM. */
PFL_MUST_USE int pfl_segment_runs_limit(struct pfl_segment_runs *self, size_t max);
/* The host that has most runs, or, before they are sorted, most segments, and how many. NULL: none,
 * or out of memory. */
const char *pfl_segment_runs_find_largest(const struct pfl_segment_runs *self, bool is_sorted,
                                          size_t *ret_count);
bool pfl_segment_runs_is_same(const struct pfl_segment_row *a, const struct pfl_segment_row *b);

#endif
