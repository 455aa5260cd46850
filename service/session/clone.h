/* SPDX-License-Identifier: Apache-2.0 */
/* Clones of a session: read-only copies of its recorded data (docs/abi/service.md section 10). */
#ifndef PFL_SERVICE_CLONE_H
#define PFL_SERVICE_CLONE_H

#include "service/core/service.h"

#define PFL_CLONE_BUGREPORT UINT64_MAX /* as a session id: the one with the highest score */

struct pfl_clone_trigger {
    struct pfl_span name; /* empty: no trigger led to the clone */
    struct pfl_span producer_name;
    int32_t producer_uid;
    uint64_t boottime_ns;
    uint64_t delay_ms;
};

struct pfl_clone_request {
    uint64_t session_id; /* 0: by name */
    struct pfl_span session_name;
    int *fd; /* for a session that writes into a file; -1: none; set to -1 when it was taken */
    bool skips_filter;
    bool is_compressed; /* as the source's config says; else plain */
    bool for_bugreport;
    struct pfl_clone_trigger trigger;
};

struct pfl_clone_result {
    bool is_ok;
    const char *why; /* error text if the clone failed */
    struct pfl_trace_uuid uuid;
    bool was_write_into_file;
};

/*
 * Flushes the session, copies or takes its buffers, and gives the consumer a session of them, which
 * cannot be read before the answer. Calls the consumer's on_cloned once, also for every failure,
 * and maybe before it returns; never if the consumer disconnects first.
 */
void pfl_clone_start(struct pfl_service *service, struct pfl_consumer *consumer,
                     const struct pfl_clone_request *request);
/* One of the flushes before a clone is over; `flush_request_id` as given to the flush. */
void pfl_clone_on_flushed(struct pfl_service *service, struct pfl_session *session,
                          uint64_t flush_request_id, bool is_ok);
/* The session that is being cloned ends: its clones fail. */
void pfl_clone_cancel(struct pfl_service *service, const struct pfl_session *session);
/* The consumer disconnects: its clones are cancelled. */
void pfl_clone_forget_consumer(struct pfl_service *service, const struct pfl_consumer *consumer);

/* No data is in transit to the session's file: a clone that waits for this continues. */
void pfl_clone_on_file_idle(struct pfl_service *service, struct pfl_session *session);
/* The file of a clone is complete, or failed: its consumer is answered. */
void pfl_clone_on_file_written(struct pfl_service *service, struct pfl_session *clone);
/* Runs the next turn of copying: pfl_session_due_run. */
void pfl_clone_run(struct pfl_service *service);
/* The clone ends before it, or its file, is whole: its consumer gets the failure. */
void pfl_clone_give_up(const struct pfl_session *clone);

#endif
