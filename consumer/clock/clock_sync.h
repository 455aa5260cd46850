/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host's boot clock relative to the operator's, from exchanges of four timestamps, with a hard
 * error bound: a host's reading lies between our sending and our receiving. Pure: samples in, a
 * line out. All times are nanoseconds of CLOCK_BOOTTIME.
 */
#ifndef PFL_CONSUMER_CLOCK_SYNC_H
#define PFL_CONSUMER_CLOCK_SYNC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* sent <= first <= last <= received in true time; first and last are read on the host's clock. */
struct pfl_clock_sample {
    int64_t sent_ns;
    int64_t host_first_ns;
    int64_t host_last_ns;
    int64_t received_ns;
};

/* host clock - operator clock, as a straight line through two instants of the operator's clock. */
struct pfl_clock_line {
    int64_t begin_ns;
    int64_t begin_offset_ns;
    int64_t end_ns; /* == begin_ns: the offset is constant */
    int64_t end_offset_ns;
    int64_t error_ns; /* the true offset at both instants is within +- this */
};

/* A host's instant and the reference host's, the same moment. */
struct pfl_clock_point {
    int64_t host_ns;
    int64_t reference_ns;
};

/*
 * The constant offset that all of `samples` allow. PFL_EINVAL without a sample whose timestamps are
 * in order. If samples contradict each other, the fastest exchange decides.
 */
PFL_MUST_USE int pfl_clock_sync_fit(const struct pfl_clock_sample *samples, size_t len,
                                    struct pfl_clock_line *ret_line);

/*
 * Joins a fit made before the recording and one made after it: their intersection if both allow one
 * offset, else a drifting line. One of them may be NULL (not measured).
 */
void pfl_clock_sync_join(const struct pfl_clock_line *before, const struct pfl_clock_line *after,
                         struct pfl_clock_line *ret_line);

/* The line's offset at an instant of the operator's clock; extrapolated beyond its ends. */
int64_t pfl_clock_line_offset(const struct pfl_clock_line *line, int64_t operator_ns);

/* A stretch of the operator's clock. */
struct pfl_clock_span {
    int64_t from_ns;
    int64_t to_ns;
};

/*
 * Fills `ret_points` (room for `max` >= 1) with instants of `span`, so close together that a
 * constant offset between two of them errs by at most half a microsecond, or as close as `max`
 * allows. Returns how many.
 */
size_t pfl_clock_sync_points(const struct pfl_clock_line *host,
                             const struct pfl_clock_line *reference, struct pfl_clock_span span,
                             struct pfl_clock_point *ret_points, size_t max);

#endif
