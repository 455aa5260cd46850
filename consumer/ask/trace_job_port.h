/* SPDX-License-Identifier: Apache-2.0 */
/* One trace that a question is asked of: its pieces go to a Trace Processor of its own, then the
 * question; its rows go to the owner. */
#ifndef PFL_CONSUMER_TRACE_JOB_PORT_H
#define PFL_CONSUMER_TRACE_JOB_PORT_H

#include "consumer/ask/answer_format.h"
#include "consumer/ask/asked_traces.h"
#include "consumer/ask/processor_port.h"
#include "consumer/ask/trace_pieces.h"
#include "consumer/ask/trace_question.h"

/* A Trace Processor's answer about one trace has at most this, and this many times the trace's
 * bytes. */
#define PFL_TRACE_JOB_ANSWER_BYTES (16ull << 20)
#define PFL_TRACE_JOB_ANSWER_RATIO 64u
/* The names of its columns, in all rows together, have this many times as much. */
#define PFL_TRACE_JOB_NAMES_RATIO 4u

#define PFL_TRACE_JOB_WHY_BYTES  480u
#define PFL_TRACE_JOB_HOST_BYTES 256u

/* Faults that every trace would show. */
enum pfl_trace_job_fault {
    PFL_TRACE_JOB_FAULT_NONE,
    PFL_TRACE_JOB_FAULT_QUESTION, /* it has an error */
    PFL_TRACE_JOB_FAULT_PROGRAM,  /* it does not start */
};

struct pfl_trace_job;

/* What is asked, and by which program; all pointers are borrowed until the last job has left. */
struct pfl_trace_job_question {
    struct pfl_span text; /* SQL or a summary's spec */
    bool is_summary;
    bool is_binary; /* the spec */
    struct pfl_ask_engine engine;
};

struct pfl_trace_job_conf { /* of all jobs; all pointers are borrowed */
    struct pfl_trace_job_question question;
    uv_loop_t *loop;
    bool is_files; /* the traces are; else they come from request_piece */
    /* The request's id, for pfl_trace_job_take_piece; 0: it cannot be sent. */
    uint32_t (*request_piece)(void *user, const struct pfl_asked_trace *trace, uint64_t offset,
                              size_t len);
    /* PFL_ESTATE: other columns than those of the first trace; another error ends the job. */
    int (*on_columns)(void *user, const struct pfl_span *names, size_t len);
    int (*on_row)(void *user, const struct pfl_asked_trace *trace, const struct pfl_answer_row *row,
                  size_t cells_len);
    void (*on_rows_end)(void *user); /* of one read: push them on */
    /* Its process has ended: leave. `words`: of its fault, not quoted; borrowed. */
    void (*on_over)(void *user, struct pfl_trace_job *job, const char *words);
    void *user;
};

struct pfl_trace_job {
    const struct pfl_trace_job_conf *conf;
    const struct pfl_asked_trace *trace; /* borrowed; NULL: the job is free */
    struct pfl_trace_question *question;
    struct pfl_processor_port *port; /* NULL: it ended */
    int fd;                          /* of a file; -1 */
    struct pfl_trace_pieces pieces;
    uint32_t request_id; /* of the piece that comes; 0: none */
    uint64_t active_ms;
    uint64_t answer_left;      /* bytes that may still be answered */
    uint64_t answer_rows_left; /* the same of names in rows, and the least widths of columns */
    uint64_t row_bytes;        /* of these in a row */
    uint64_t rows;
    enum pfl_trace_job_fault fault;
    bool is_answered;
    char host[PFL_TRACE_JOB_HOST_BYTES]; /* of files: what the trace says; "": nothing */
    char start[PFL_ANSWER_START_BYTES];
    char why[PFL_TRACE_JOB_WHY_BYTES]; /* it is passed over; "": not yet */
};

void pfl_trace_job_init(struct pfl_trace_job *self, const struct pfl_trace_job_conf *conf);
/* The trace takes the job. False: it is passed over, `why` has the reason; leave. */
bool pfl_trace_job_start(struct pfl_trace_job *self, const struct pfl_asked_trace *trace);
/* A reply to its request. */
void pfl_trace_job_take_piece(struct pfl_trace_job *self, const Perfleet__CollectorReply *reply);
void pfl_trace_job_pause(struct pfl_trace_job *self, bool is_paused);
/* To be called as time passes: a process with too many threads is killed. */
void pfl_trace_job_check_threads(struct pfl_trace_job *self);
/* Its process is killed, if there is one: on_over follows. The first reason counts. */
void pfl_trace_job_give_up(struct pfl_trace_job *self, const char *why);
void pfl_trace_job_stop(struct pfl_trace_job *self); /* the same, without a reason */
/* After on_over: it is free. */
void pfl_trace_job_leave(struct pfl_trace_job *self);

#endif
