/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output: see ask_output.h. Happy path: open, columns once, rows, close. Failures: the disk, a
 * reader that went away; said once, with exit code 5. A file of before stays until the new one is
 * complete. Owns its files. Limits: those of trace_file.h for what is not written yet.
 */
#include "consumer/cmd/ask_output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "consumer/cmd/cmd_error.h"
#include "consumer/report/summary.h"

#define CHUNK_BYTES (256u << 10)

static int fail(struct pfl_ask_output *o, const char *why)
{
    if (!o->has_failed)
        pfl_cmd_error("%s cannot be written: %s",
                      strcmp(o->path, "-") == 0 ? "standard output" : pfl_log_quote_str(o->path),
                      why);
    o->has_failed = true;
    return PFL_EIO;
}

static void on_writable(void *user)
{
    struct pfl_ask_output *o = user;

    o->on_writable(o->user);
}

static void on_failed(void *user, int err)
{
    struct pfl_ask_output *o = user;

    o->file_error = err;
    (void)fail(o, strerror(err));
}

static int open_file(struct pfl_ask_output *o)
{
    const struct pfl_worker_conf worker = {.loop = o->loop, .threads_max = 1};
    struct pfl_trace_file_conf conf = {.path = o->path,
                                       .no_clobber = o->no_clobber,
                                       .chunk_bytes = CHUNK_BYTES,
                                       .on_writable = on_writable,
                                       .on_failed = on_failed,
                                       .user = o};
    int rc = pfl_worker_open(&worker, &o->worker);

    if (rc != 0)
        return rc;
    conf.worker = o->worker;
    return pfl_trace_file_open(&conf, &o->file);
}

int pfl_ask_output_open(struct pfl_ask_output *self)
{
    int rc;

    pfl_buf_init(&self->row, PFL_ANSWER_ROW_MAX_BYTES);
    rc = self->is_sqlite
             ? pfl_answer_store_open(self->path, self->no_clobber, self->question, &self->store)
             : open_file(self);
    if (rc == 0)
        return PFL_EXIT_OK;
    (void)fail(self, rc == PFL_ENOMEM   ? pfl_err_str(rc)
                     : rc == PFL_EEXIST ? strerror(EEXIST)
                                        : strerror(errno));
    return PFL_EXIT_FILE;
}

/* ---- rows ---- */

static int put_row_buf(struct pfl_ask_output *o)
{
    struct pfl_span text = pfl_buf_get(&o->row);
    uint8_t *room;
    int rc = text.len != 0 ? pfl_trace_file_reserve(o->file, text.len, &room) : 0;

    if (rc == 0 && text.len != 0) {
        memcpy(room, text.data, text.len);
        pfl_trace_file_commit(o->file, text.len);
    }
    pfl_buf_clear(&o->row);
    return rc == PFL_EIO ? fail(o, strerror(o->file_error)) : rc;
}

int pfl_ask_output_take_columns(struct pfl_ask_output *self, const struct pfl_span *names,
                                size_t len)
{
    int rc;

    if (self->columns != NULL)
        return pfl_answer_columns_are(self->columns, names, len) ? 0 : PFL_ESTATE;
    rc = pfl_answer_columns_new(names, len, &self->columns);
    if (rc != 0)
        return rc;
    if (self->is_sqlite) {
        rc = pfl_answer_store_set_columns(self->store, self->columns);
        return rc == PFL_EIO ? fail(self, pfl_answer_store_get_why(self->store)) : rc;
    }
    rc = pfl_answer_format_head(self->form, self->columns, &self->row);
    return rc == 0 ? put_row_buf(self) : rc;
}

int pfl_ask_output_add_row(struct pfl_ask_output *self, const struct pfl_answer_row *row,
                           size_t cells_len)
{
    int rc;

    if (self->is_sqlite) {
        rc = pfl_answer_store_add_row(self->store, row, cells_len);
        if (rc == PFL_EIO)
            return fail(self, pfl_answer_store_get_why(self->store));
    } else {
        rc = pfl_answer_format_row(self->form, self->columns, row, &self->row);
        if (rc == 0)
            rc = put_row_buf(self);
    }
    if (rc == 0)
        self->rows++;
    return rc;
}

int pfl_ask_output_add_trace(struct pfl_ask_output *self,
                             const struct pfl_answer_store_trace *trace)
{
    if (!self->is_sqlite || self->has_failed)
        return 0;
    return pfl_answer_store_add_trace(self->store, trace) == 0
               ? 0
               : fail(self, pfl_answer_store_get_why(self->store));
}

void pfl_ask_output_push(struct pfl_ask_output *self)
{
    if (self->file != NULL)
        pfl_trace_file_push(self->file);
}

bool pfl_ask_output_is_congested(const struct pfl_ask_output *self)
{
    return self->file != NULL && pfl_trace_file_is_congested(self->file);
}

/* ---- the end ---- */

static void on_closed(void *user, const struct pfl_trace_file_end *end)
{
    struct pfl_ask_output *o = user;

    if (end->err != 0)
        (void)fail(o, strerror(end->err));
    if (end->partial != NULL)
        pfl_cmd_error("what came is in %s", pfl_log_quote_str(end->partial));
    o->is_closed = true;
}

static void close_file(struct pfl_ask_output *o, enum pfl_trace_file_fate fate)
{
    if (o->file != NULL) {
        pfl_trace_file_close(o->file, fate, on_closed);
        while (!o->is_closed)
            uv_run(o->loop, UV_RUN_ONCE);
    }
    pfl_worker_close(o->worker);
    o->file = NULL;
    o->worker = NULL;
}

static void close_store(struct pfl_ask_output *o, enum pfl_trace_file_fate fate)
{
    char partial[512];

    if (o->store == NULL)
        return;
    (void)snprintf(partial, sizeof(partial), "%s", pfl_answer_store_get_partial(o->store));
    if (pfl_answer_store_close(o->store, fate != PFL_TRACE_FILE_REMOVED,
                               fate == PFL_TRACE_FILE_WHOLE) != 0) {
        (void)fail(o, "it could not be completed");
        fate = PFL_TRACE_FILE_PARTIAL;
    }
    o->store = NULL;
    if (fate == PFL_TRACE_FILE_PARTIAL)
        pfl_cmd_error("what came is in %s", pfl_log_quote_str(partial));
}

int pfl_ask_output_close(struct pfl_ask_output *self, int code, bool is_broken_off)
{
    enum pfl_trace_file_fate fate = PFL_TRACE_FILE_WHOLE;

    if (code == PFL_EXIT_USAGE || (code == PFL_EXIT_NOTHING && self->rows == 0))
        fate = PFL_TRACE_FILE_REMOVED;
    else if (is_broken_off || self->has_failed)
        fate = PFL_TRACE_FILE_PARTIAL;
    close_file(self, fate);
    close_store(self, fate);
    pfl_answer_columns_free(self->columns);
    self->columns = NULL;
    pfl_buf_fini(&self->row);
    return self->has_failed ? PFL_EXIT_FILE : code;
}
