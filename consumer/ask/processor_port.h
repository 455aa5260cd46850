/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Trace Processor as a process in a sandbox of its own (base/sandbox/guest.h): what is written
 * goes to its standard input, its standard output comes back. Callbacks run from the loop.
 */
#ifndef PFL_CONSUMER_PROCESSOR_PORT_H
#define PFL_CONSUMER_PROCESSOR_PORT_H

#include <stdbool.h>
#include <uv.h>

#include "base/buf.h"
#include "base/sandbox/sandbox.h"

#define PFL_PROCESSOR_PORT_WORDS_BYTES 512u
/* Of root's process, whose threads the kernel does not count; others have fewer (guest.c). */
#define PFL_PROCESSOR_PORT_MAX_THREADS 64u

struct pfl_processor_port;

struct pfl_processor_port_end {
    bool was_closed;        /* by pfl_processor_port_close; the rest says nothing then */
    int signal;             /* that ended it; 0: none */
    int status;             /* its exit code */
    const char *last_words; /* its last line on standard error, not quoted; borrowed; "" */
};

/* What questions to traces are asked with. All pointers are borrowed until the last job has left.
 */
struct pfl_ask_engine {
    const char *program; /* the Trace Processor: an absolute path; NULL: there is none */
    const char *self;    /* perfleet's own program */
    enum pfl_sandbox_mode sandbox;
    uint32_t jobs;        /* at once: 1 to PFL_ASKING_JOBS_MAX */
    uint32_t max_mib;     /* of a Trace Processor */
    uint32_t max_time_ms; /* of one trace */
};

struct pfl_processor_port_conf {
    uv_loop_t *loop;
    const char *self;    /* perfleet's own program, which confines; borrowed during open */
    const char *program; /* absolute path; likewise */
    enum pfl_sandbox_mode mode;
    uint32_t max_mib;                                   /* of its address space */
    uint32_t max_seconds;                               /* of CPU time */
    void (*on_data)(void *user, struct pfl_span bytes); /* borrowed until return */
    void (*on_written)(void *user); /* all that was written is with the process */
    /* The last callback; then it is freed. */
    void (*on_ended)(void *user, const struct pfl_processor_port_end *end);
    void *user;
};

/* PFL_ENOMEM; PFL_EIO: no process; errno has the reason. */
PFL_MUST_USE int pfl_processor_port_open(const struct pfl_processor_port_conf *conf,
                                         struct pfl_processor_port **ret_port);
/* Takes the content of `bytes`, and leaves it empty. After a process that died: dropped.
 * PFL_ENOMEM. */
PFL_MUST_USE int pfl_processor_port_write(struct pfl_processor_port *self, struct pfl_buf *bytes);
/* Is all that was written with the process? True also when it ended. */
bool pfl_processor_port_is_written(const struct pfl_processor_port *self);
/* While paused the process is held back by its full pipe. */
void pfl_processor_port_pause(struct pfl_processor_port *self, bool is_paused);
/* Has it more than PFL_PROCESSOR_PORT_MAX_THREADS now? To be asked again and again. */
bool pfl_processor_port_has_too_many_threads(const struct pfl_processor_port *self);
/* Kills it; on_ended follows. Idempotent. */
void pfl_processor_port_close(struct pfl_processor_port *self);

#endif
