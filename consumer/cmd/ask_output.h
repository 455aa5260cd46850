/* SPDX-License-Identifier: Apache-2.0 */
/* Where the rows of `perfleet ask` go: standard output or a file, as text, CSV or JSON; or a file
 * of SQLite. */
#ifndef PFL_CONSUMER_ASK_OUTPUT_H
#define PFL_CONSUMER_ASK_OUTPUT_H

#include <uv.h>

#include "consumer/ask/answer_store.h"
#include "consumer/recording/trace_file.h"

struct pfl_ask_output {
    uv_loop_t *loop;
    const char *path; /* "-": standard output */
    enum pfl_answer_form form;
    bool is_sqlite;
    struct pfl_span question; /* as asked; borrowed */
    bool no_clobber;
    void (*on_writable)(void *user); /* after is_congested */
    void *user;

    struct pfl_answer_columns *columns; /* owned; NULL: no trace gave any yet */
    struct pfl_answer_store *store;     /* owned, like file and worker */
    struct pfl_worker *worker;
    struct pfl_trace_file *file;
    struct pfl_buf row;
    int file_error;
    bool is_closed;
    bool has_failed; /* and it was said */
    uint64_t rows;
};

/* The members down to `user` are the caller's. 0 or the exit code: error reported on stderr. */
int pfl_ask_output_open(struct pfl_ask_output *self);
/* PFL_ESTATE: other columns than those of the first trace. Else a failure of the output, which is
 * reported. */
int pfl_ask_output_take_columns(struct pfl_ask_output *self, const struct pfl_span *names,
                                size_t len);
int pfl_ask_output_add_row(struct pfl_ask_output *self, const struct pfl_answer_row *row,
                           size_t cells_len);
int pfl_ask_output_add_trace(struct pfl_ask_output *self,
                             const struct pfl_answer_store_trace *trace);
/* To the disk, or the reader, what came so far. */
void pfl_ask_output_push(struct pfl_ask_output *self);
bool pfl_ask_output_is_congested(const struct pfl_ask_output *self);
/* `code`: of the command so far; the exit code. A file of a command that was broken off stays
 * partial; one without any answer is removed. */
int pfl_ask_output_close(struct pfl_ask_output *self, int code, bool is_broken_off);

#endif
