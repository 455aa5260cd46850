/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A consumer with one session, under a schedule's orders. What it receives goes to `out`.
 */
#ifndef PFL_TESTS_DIFFERENTIAL_CONSUMER_H
#define PFL_TESTS_DIFFERENTIAL_CONSUMER_H

#include "tests/differential/connection.h"
#include "tests/differential/outcome.h"

struct diff_consumer {
    struct diff_connection connection;
    struct diff_text *out; /* borrowed from the run */
    uint32_t session;
    uint32_t buffers;
    bool is_started;
    bool is_cloning;       /* a CloneSession has not been answered */
    bool is_flushing;      /* a Flush has not been answered */
    uint32_t flushers;     /* bit p: producer p has not acknowledged it */
    uint64_t flush_ids[8]; /* by producer: the id it was asked with */
    struct pfl_buf packet; /* owned; the slices of one that is not whole yet */
    uint64_t read_bytes;   /* of the read under way */
    struct diff_baseline baseline;
};

void diff_consumer_open(struct diff_consumer *self, const char *socket_path, uint32_t session,
                        struct diff_text *out);
void diff_consumer_close(struct diff_consumer *self);

/* The words: SIZE_KB followed by r (ring) or d (discard), for each buffer. */
void diff_consumer_enable(struct diff_consumer *self, struct diff_words *words);
void diff_consumer_flush(struct diff_consumer *self, uint32_t timeout_ms);
void diff_consumer_await_flush(struct diff_consumer *self);
void diff_consumer_read(struct diff_consumer *self);
void diff_consumer_stats(struct diff_consumer *self);
/* CloneSession of another's session with that baseline; await_clone waits for the answer. */
void diff_consumer_clone(struct diff_consumer *self, const struct diff_baseline *source);
void diff_consumer_await_clone(struct diff_consumer *self);
/* DisableTracing, FreeBuffers: methods without arguments that end the session's life. */
void diff_consumer_end(struct diff_consumer *self, const char *method);
/* num of `field` in the service's state (TracingServiceState): its entries, or its value. */
uint64_t diff_consumer_query(struct diff_consumer *self, uint32_t field);

#endif
