/* SPDX-License-Identifier: Apache-2.0 */
/* One trace of `perfleet ask`: its pieces go to a Trace Processor of its own, then the question;
 * its rows go to the output. */
#ifndef PFL_CONSUMER_ASK_JOB_H
#define PFL_CONSUMER_ASK_JOB_H

#include "consumer/ask/processor_port.h"
#include "consumer/ask/trace_pieces.h"
#include "consumer/ask/trace_question.h"
#include "consumer/cmd/ask_output.h"
#include "consumer/cmd/ask_run.h"
#include "consumer/cmd/ask_source.h"

#define PFL_ASK_JOB_WHY_BYTES  480u
#define PFL_ASK_JOB_HOST_BYTES 256u

/* Faults that every trace would show. */
enum pfl_ask_job_fault {
    PFL_ASK_JOB_FAULT_NONE,
    PFL_ASK_JOB_FAULT_QUESTION, /* it has an error */
    PFL_ASK_JOB_FAULT_PROGRAM,  /* it does not start */
};

struct pfl_ask_job;

struct pfl_ask_job_conf { /* of all jobs; all pointers are borrowed */
    const struct pfl_ask_plan *plan;
    struct pfl_ask_source *source;
    struct pfl_ask_output *output;
    uv_loop_t *loop;
    /* The output is congested: pause all jobs until it is writable. */
    void (*on_congested)(void *user);
    /* The collector's replies, each for one job: pfl_ask_job_take_piece. */
    void (*on_reply)(void *user, const Perfleet__CollectorReply *reply);
    /* Its process has ended: leave. `words`: of its fault, not quoted; borrowed. */
    void (*on_over)(void *user, struct pfl_ask_job *job, const char *words);
    void *user;
};

struct pfl_ask_job {
    const struct pfl_ask_job_conf *conf;
    const struct pfl_ask_trace *trace; /* borrowed from the source; NULL: the job is free */
    struct pfl_trace_question *question;
    struct pfl_processor_port *port; /* NULL: it ended */
    int fd;                          /* of a file; -1 */
    struct pfl_trace_pieces pieces;
    uint32_t request_id; /* of the piece that comes; 0: none */
    uint64_t active_ms;
    uint64_t answer_left; /* bytes that may still be answered */
    uint64_t rows;
    enum pfl_ask_job_fault fault;
    bool is_answered;
    char host[PFL_ASK_JOB_HOST_BYTES]; /* of files: what the trace says; "": nothing */
    char start[PFL_ANSWER_START_BYTES];
    char why[PFL_ASK_JOB_WHY_BYTES]; /* it is passed over; "": not yet */
};

void pfl_ask_job_init(struct pfl_ask_job *self, const struct pfl_ask_job_conf *conf);
/* The trace takes the job. False: it is passed over, `why` has the reason; leave. */
bool pfl_ask_job_start(struct pfl_ask_job *self, const struct pfl_ask_trace *trace);
/* A reply to its request. */
void pfl_ask_job_take_piece(struct pfl_ask_job *self, const Perfleet__CollectorReply *reply);
void pfl_ask_job_pause(struct pfl_ask_job *self, bool is_paused);
/* Its process is killed, if there is one: on_over follows. The first reason counts. */
void pfl_ask_job_give_up(struct pfl_ask_job *self, const char *why);
void pfl_ask_job_stop(struct pfl_ask_job *self); /* the same, without a reason */
/* After on_over: it is free. */
void pfl_ask_job_leave(struct pfl_ask_job *self);

#endif
