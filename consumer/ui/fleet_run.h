/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One recording of all hosts for a page: from the request of a tracing service's client to one
 * merged trace in an unnamed file.
 */
#ifndef PFL_CONSUMER_UI_FLEET_RUN_H
#define PFL_CONSUMER_UI_FLEET_RUN_H

#include "consumer/recording/recording.h"

/* The limit of a page; a streamed recording stops at three quarters of it. */
#define PFL_FLEET_TRACE_MAX_BYTES ((uint64_t)1 << 30)
#define PFL_FLEET_WHY_BYTES       3072u

struct pfl_fleet_run;

struct pfl_fleet_run_conf {
    /* Hosts, connections, timeouts, quorum and wait; the run sets the rest. */
    const struct pfl_recording_conf *recording; /* what it borrows lives until free */
    uint64_t max_bytes;                         /* of the trace */
    void (*on_over)(void *user);                /* once; the run may be freed */
    void *user;
};

/*
 * For an EnableTracingRequest; its write_into_file means that the hosts are read while they record.
 * PFL_EINVAL with `ret_why` (room for PFL_FLEET_WHY_BYTES): reason and remedy, PFL_ENOMEM.
 */
PFL_MUST_USE int pfl_fleet_run_record(const struct pfl_fleet_run_conf *conf,
                                      struct pfl_span request, char *ret_why,
                                      struct pfl_fleet_run **ret_run);
/* For a CloneSessionRequest with a session's name: copies all hosts' sessions of that name, in
 * their current state. Errors as above. */
PFL_MUST_USE int pfl_fleet_run_clone(const struct pfl_fleet_run_conf *conf, struct pfl_span request,
                                     char *ret_why, struct pfl_fleet_run **ret_run);
/* Ends in order: recorded data is read. */
void pfl_fleet_run_stop(struct pfl_fleet_run *self);
/* It is no longer needed. on_over follows. */
void pfl_fleet_run_abort(struct pfl_fleet_run *self);
/* Only after on_over; NULL is legal. */
void pfl_fleet_run_free(struct pfl_fleet_run *self);

/* How full the hosts' buffers, or the file, are: for a GetTraceStatsResponse. Queries the hosts for
 * the next call. */
void pfl_fleet_run_measure(struct pfl_fleet_run *self, uint64_t *ret_bytes, uint64_t *ret_size);

/* After on_over: why there is no trace, with the failed hosts; "": there is one. */
const char *pfl_fleet_run_get_why(const struct pfl_fleet_run *self);
/* Hosts that are missing from the trace, or cut short, as a sentence; "": none. */
const char *pfl_fleet_run_get_missing(const struct pfl_fleet_run *self);
/* The same as packets for the trace's end, or nothing. PFL_ENOMEM, PFL_ELIMIT. */
PFL_MUST_USE int pfl_fleet_run_take_note(const struct pfl_fleet_run *self, struct pfl_buf *out);
/* The file of the trace, to be read from its start; the caller owns it now. */
int pfl_fleet_run_take_file(struct pfl_fleet_run *self);

#endif
