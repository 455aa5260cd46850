/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One recording of all hosts for a page: from the request of a tracing service's client to one
 * merged trace in a file without a name.
 */
#ifndef PFL_CONSUMER_UI_FLEET_RUN_H
#define PFL_CONSUMER_UI_FLEET_RUN_H

#include "consumer/recording/recording.h"

/* What a page can hold; a recording that is read while it lasts stops at three quarters of it. */
#define PFL_FLEET_TRACE_MAX_BYTES ((uint64_t)1 << 30)
#define PFL_FLEET_WHY_BYTES       3072u

struct pfl_fleet_run;

struct pfl_fleet_run_conf {
    /* Hosts, connections, timeouts, quorum and wait; the rest is ours. */
    const struct pfl_recording_conf *recording; /* what it borrows lives until free */
    uint64_t max_bytes;                         /* of the trace */
    void (*on_over)(void *user);                /* once; the run may be freed */
    void *user;
};

/*
 * Of an EnableTracingRequest; its write_into_file means that the hosts are read while they record.
 * PFL_EINVAL with `ret_why` (room for PFL_FLEET_WHY_BYTES) saying why not and what would be right,
 * PFL_ENOMEM.
 */
PFL_MUST_USE int pfl_fleet_run_record(const struct pfl_fleet_run_conf *conf,
                                      struct pfl_span request, char *ret_why,
                                      struct pfl_fleet_run **ret_run);
/* Of a CloneSessionRequest that gives a session's name: copies of all hosts' sessions of that name,
 * as they are now. Errors as above. */
PFL_MUST_USE int pfl_fleet_run_clone(const struct pfl_fleet_run_conf *conf, struct pfl_span request,
                                     char *ret_why, struct pfl_fleet_run **ret_run);
/* Ends in good order: what was recorded is read. */
void pfl_fleet_run_stop(struct pfl_fleet_run *self);
/* Nobody wants it any more. on_over follows. */
void pfl_fleet_run_abort(struct pfl_fleet_run *self);
/* Only after on_over; NULL is legal. */
void pfl_fleet_run_free(struct pfl_fleet_run *self);

/* How full the hosts' buffers, or the file, are: for a GetTraceStatsResponse. Asks the hosts for
 * the next time. */
void pfl_fleet_run_measure(struct pfl_fleet_run *self, uint64_t *ret_bytes, uint64_t *ret_size);

/* After on_over: why there is no trace, with the hosts that failed; "": there is one. */
const char *pfl_fleet_run_get_why(const struct pfl_fleet_run *self);
/* Hosts that are not in the trace, or not to its end, in a sentence; "": none. */
const char *pfl_fleet_run_get_missing(const struct pfl_fleet_run *self);
/* That as packets for the trace's end, or nothing. PFL_ENOMEM, PFL_ELIMIT. */
PFL_MUST_USE int pfl_fleet_run_take_note(const struct pfl_fleet_run *self, struct pfl_buf *out);
/* The file of the trace, to be read from its start: the caller's from now on. */
int pfl_fleet_run_take_file(struct pfl_fleet_run *self);

#endif
