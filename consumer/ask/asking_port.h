/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One question to many traces: several Trace Processors at once, each with one trace. Callbacks run
 * from the loop.
 */
#ifndef PFL_CONSUMER_ASKING_PORT_H
#define PFL_CONSUMER_ASKING_PORT_H

#include "consumer/ask/answer_store.h"
#include "consumer/ask/trace_job_port.h"

#define PFL_ASKING_JOBS_MAX 64u

struct pfl_asking;

struct pfl_asking_ops {
    /* Asks for a piece of a trace; the replies go to pfl_asking_take_reply. The request's id; 0: it
     * cannot be sent. */
    uint32_t (*request_piece)(void *user, const struct pfl_asked_trace *trace, uint64_t offset,
                              size_t len);
    /* PFL_ESTATE: other columns than those of the first trace; another error passes the trace
     * over. */
    int (*on_columns)(void *user, const struct pfl_span *names, size_t len);
    int (*on_row)(void *user, const struct pfl_asked_trace *trace, const struct pfl_answer_row *row,
                  size_t cells_len);
    /* The rows of one read were given. True: there is no room for more until pfl_asking_resume. */
    bool (*on_rows_end)(void *user);
    /* A trace's end: it is answered, or passed over. */
    void (*on_trace)(void *user, const struct pfl_asked_trace *trace,
                     const struct pfl_answer_store_trace *end);
    /* All traces would show this: the asking ends. `words` are not quoted. */
    void (*on_fault)(void *user, enum pfl_trace_job_fault fault, const char *words);
    void (*on_over)(void *user); /* last callback; free it then, or later */
};

struct pfl_asking_conf { /* all pointers are borrowed until on_over */
    struct pfl_trace_job_question question;
    const struct pfl_asked_traces *traces;
    bool is_files; /* the traces are; else they come from request_piece */
    uv_loop_t *loop;
    const struct pfl_asking_ops *ops;
    void *user;
};

/* PFL_ENOMEM. */
PFL_MUST_USE int pfl_asking_open(const struct pfl_asking_conf *conf,
                                 struct pfl_asking **ret_asking);
/* Of a request for a piece, or of another one, which is passed over. */
void pfl_asking_take_reply(struct pfl_asking *self, const Perfleet__CollectorReply *reply);
void pfl_asking_resume(struct pfl_asking *self);
/* Kills the processes; on_over follows. Traces that were under way have no on_trace. Idempotent. */
void pfl_asking_stop(struct pfl_asking *self);
/* A piece is awaited; a trace has not begun yet. */
bool pfl_asking_is_waiting(const struct pfl_asking *self);
bool pfl_asking_has_next(const struct pfl_asking *self);
void pfl_asking_free(struct pfl_asking *self); /* after on_over; NULL is legal */

#endif
