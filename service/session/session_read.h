/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a session: the service's own packets around those of its buffers. */
#ifndef PFL_SERVICE_SESSION_READ_H
#define PFL_SERVICE_SESSION_READ_H

#include "service/buffer/readback.h"
#include "service/core/service.h"

enum pfl_session_read_phase {
    PFL_READ_PACKETS = 0, /* the source has more */
    PFL_READ_STATISTICS,  /* the source is at its end; the statistics follow the last batch */
    PFL_READ_END,
};

/*
 * One ReadBuffers call; borrowed by its readback until that is freed.
 *
 *     no pipeline:  buffers -> readback -> frames
 *     pipeline:     buffers -> source -> pipeline, in a worker -> readback, held -> frames
 */
struct pfl_session_read {
    struct pfl_service *service;   /* borrowed */
    struct pfl_session *session;   /* borrowed; NULL once it is gone */
    struct pfl_readback *readback; /* owned; NULL when nothing is being read */
    struct pfl_readback *source;   /* owned; NULL without a pipeline */
    enum pfl_session_read_phase phase;
    struct pfl_span result; /* borrowed from the pipeline: the rest of a long result */
    bool has_results;       /* the pipeline may have more results */
    /* Called for each packet before the pipeline, with the first part of a long one; set after
     * start. NULL: not needed. */
    void (*on_packet)(void *user, const struct pfl_readback_packet *packet);
    /* A pass that got PFL_EAGAIN may continue; set likewise. NULL: the consumer's on_read_ready. */
    void (*on_ready)(void *user);
    void *user;
};

/* Begins a pass; `self` is caller's storage and must not move until stop. PFL_ENOMEM. */
PFL_MUST_USE int pfl_session_read_start(struct pfl_session_read *self, struct pfl_service *service,
                                        struct pfl_session *session, uint64_t request_id);
/* What is read, in frames or packet by packet (not both), as in the readback's functions.
 * PFL_EAGAIN: the worker has a batch; the consumer's on_read_ready tells when to continue. Frames:
 * or can_go_on, or either: is_paused; serve others first. */
PFL_MUST_USE int pfl_session_read_next_frame(struct pfl_session_read *self,
                                             struct pfl_readback_frame *ret_frame);
PFL_MUST_USE int pfl_session_read_next_packet(struct pfl_session_read *self,
                                              struct pfl_readback_packet *ret_packet);
bool pfl_session_read_can_proceed(const struct pfl_session_read *self);
bool pfl_session_read_is_paused(const struct pfl_session_read *self);
/* Ends it, finished or not; legal on zeroed memory. */
void pfl_session_read_stop(struct pfl_session_read *self);

#endif
