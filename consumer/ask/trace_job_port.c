/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One trace: see trace_job_port.h.
 *
 * Happy path: a process is started; it gets the trace piece by piece, the next one when it has
 * taken the last, then the question; rows go to the owner as they come; then it is killed.
 * Failures: a trace that cannot be read, is too large, or has too long an answer, a process that
 * dies: the trace is passed over. Ownership: the process belongs to the job until on_ended. Limits:
 * a piece, and those of the header.
 */
#include "consumer/ask/trace_job_port.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"

#define CANNOT_RUN 126 /* see cmd_confined.c */
#define CELL_BYTES 12u /* of a row, besides the name: the least width of a column */

void pfl_trace_job_init(struct pfl_trace_job *self, const struct pfl_trace_job_conf *conf)
{
    *self = (struct pfl_trace_job){.conf = conf, .fd = -1};
}

void pfl_trace_job_give_up(struct pfl_trace_job *self, const char *why)
{
    if (self->why[0] == '\0')
        (void)snprintf(self->why, sizeof(self->why), "%s", why);
    pfl_trace_job_stop(self);
}

void pfl_trace_job_stop(struct pfl_trace_job *self)
{
    if (self->port != NULL)
        pfl_processor_port_close(self->port);
}

void pfl_trace_job_pause(struct pfl_trace_job *self, bool is_paused)
{
    if (self->port != NULL)
        pfl_processor_port_pause(self->port, is_paused);
}

void pfl_trace_job_check_threads(struct pfl_trace_job *self)
{
    char why[PFL_TRACE_JOB_WHY_BYTES];

    if (self->port == NULL || !pfl_processor_port_has_too_many_threads(self->port))
        return;
    (void)snprintf(why, sizeof(why), "its Trace Processor makes more than %u threads",
                   PFL_PROCESSOR_PORT_MAX_THREADS);
    pfl_trace_job_give_up(self, why);
}

static void give_up_for(struct pfl_trace_job *j, int rc)
{
    pfl_trace_job_give_up(j, pfl_err_str(rc));
}

/* ---- rows ---- */

static int on_columns(void *user, const struct pfl_span *names, size_t len)
{
    struct pfl_trace_job *j = user;

    j->row_bytes = 0;
    for (size_t i = 0; i < len; i++)
        j->row_bytes += names[i].len + CELL_BYTES;
    return j->conf->on_columns(j->conf->user, names, len);
}

static int on_row(void *user, const struct pfl_cell *cells, size_t len)
{
    struct pfl_trace_job *j = user;
    const struct pfl_answer_row row = {
        .host = j->host, .start = j->start, .trace = j->trace->name, .cells = cells};

    /* A row that is short in the reply may be long in the answer: with names, or in columns. */
    if (j->row_bytes > j->answer_rows_left)
        return PFL_EFULL;
    j->answer_rows_left -= j->row_bytes;
    j->rows++;
    return j->conf->on_row(j->conf->user, j->trace, &row, len);
}

static void on_about(void *user, const struct pfl_cell cells[PFL_TRACE_QUESTION_ABOUT])
{
    struct pfl_trace_job *j = user;

    if (cells[0].type == PFL_CELL_TEXT)
        (void)snprintf(j->host, sizeof(j->host), "%.*s",
                       (int)(cells[0].bytes.len < PFL_TRACE_JOB_HOST_BYTES
                                 ? cells[0].bytes.len
                                 : PFL_TRACE_JOB_HOST_BYTES),
                       (const char *)cells[0].bytes.data);
    if (cells[1].type == PFL_CELL_INTEGER && cells[1].integer > 0)
        pfl_answer_format_start((uint64_t)cells[1].integer, j->start);
}

/* The error itself is the last one. */
static const char *find_last_line(const char *why)
{
    const char *line = strrchr(why, '\n');

    return line != NULL && line[1] != '\0' ? line + 1 : why;
}

static void take_outcome(struct pfl_trace_job *j)
{
    const char *words = pfl_trace_question_get_why(j->question);
    const char *said = pfl_log_quote_reason(find_last_line(words));
    char why[PFL_TRACE_JOB_WHY_BYTES];

    switch (pfl_trace_question_get(j->question)) {
    case PFL_TRACE_QUESTION_OPEN:
        return;
    case PFL_TRACE_QUESTION_ANSWERED:
        pfl_processor_port_close(j->port);
        return;
    case PFL_TRACE_QUESTION_UNREADABLE:
        (void)snprintf(why, sizeof(why), "it cannot be read: %s", said);
        break;
    case PFL_TRACE_QUESTION_REFUSED:
        if (!pfl_trace_question_has_columns(j->question))
            j->fault = PFL_TRACE_JOB_FAULT_QUESTION;
        (void)snprintf(why, sizeof(why), "the question has an error there: %s", said);
        break;
    default:
        (void)snprintf(why, sizeof(why), "its Trace Processor: %s", said);
        break;
    }
    pfl_trace_job_give_up(j, why);
}

static void on_data(void *user, struct pfl_span bytes)
{
    struct pfl_trace_job *j = user;
    int rc = bytes.len <= j->answer_left ? pfl_trace_question_feed(j->question, bytes) : PFL_EFULL;

    j->answer_left -= rc == PFL_EFULL ? j->answer_left : bytes.len;
    if (rc == PFL_EFULL) {
        pfl_trace_job_give_up(j, "its answer has more than 16 MiB and 64 times the trace's bytes");
    } else if (rc == PFL_ESTATE) {
        pfl_trace_job_give_up(j, "its columns are not those of the first trace");
    } else if (rc != 0) {
        give_up_for(j, rc);
    } else {
        take_outcome(j);
    }
    j->conf->on_rows_end(j->conf->user);
}

/* ---- the trace, piece by piece ---- */

static void give_piece(struct pfl_trace_job *j, struct pfl_span data)
{
    struct pfl_buf out;
    int rc;

    pfl_buf_init(&out, 2 * PFL_TRACE_PIECES_BYTES);
    rc = pfl_trace_question_load(j->question, data, &out);
    if (rc == 0)
        rc = pfl_processor_port_write(j->port, &out);
    pfl_buf_fini(&out);
    if (rc != 0)
        give_up_for(j, rc);
}

static void give_question(struct pfl_trace_job *j)
{
    struct pfl_buf out;
    int rc;

    pfl_buf_init(&out, 2 * j->conf->question.text.len + PFL_TRACE_PIECES_BYTES);
    rc = pfl_trace_question_ask(j->question, &out);
    if (rc == 0)
        rc = pfl_processor_port_write(j->port, &out);
    pfl_buf_fini(&out);
    if (rc != 0)
        give_up_for(j, rc);
}

static void read_piece(struct pfl_trace_job *j, size_t len)
{
    uint8_t *room = pfl_mem_alloc(len);
    ssize_t n = room != NULL ? pread(j->fd, room, len, (off_t)j->pieces.offset) : -1;

    if (n <= 0) {
        pfl_trace_job_give_up(j, room == NULL ? pfl_err_str(PFL_ENOMEM)
                                 : n == 0     ? "it became shorter"
                                              : strerror(errno));
    } else {
        pfl_trace_pieces_begin(&j->pieces, (size_t)n);
        (void)pfl_trace_pieces_take(&j->pieces, (size_t)n, true);
        give_piece(j, pfl_span_of(room, (size_t)n));
    }
    pfl_mem_free(room);
}

static void request_piece(struct pfl_trace_job *j, size_t len)
{
    uint32_t id = j->conf->request_piece(j->conf->user, j->trace, j->pieces.offset, len);

    if (id == 0) {
        give_up_for(j, PFL_ECLOSED);
        return;
    }
    j->request_id = id;
    pfl_trace_pieces_begin(&j->pieces, len);
}

/* What the process is to have next. */
static void feed(struct pfl_trace_job *j)
{
    size_t len = 0;

    if (j->port == NULL || j->why[0] != '\0')
        return;
    switch (pfl_trace_pieces_next(&j->pieces, pfl_processor_port_is_written(j->port), &len)) {
    case PFL_TRACE_PIECES_PIECE:
        if (j->fd >= 0)
            read_piece(j, len);
        else
            request_piece(j, len);
        break;
    case PFL_TRACE_PIECES_QUESTION:
        give_question(j);
        break;
    default:
        break;
    }
}

static void on_written(void *user)
{
    feed(user);
}

void pfl_trace_job_take_piece(struct pfl_trace_job *self, const Perfleet__CollectorReply *reply)
{
    char why[PFL_TRACE_JOB_WHY_BYTES];

    if (!reply->has_more)
        self->request_id = 0;
    if (reply->status != 0) {
        (void)snprintf(why, sizeof(why), "the collector: %s",
                       reply->why != NULL ? pfl_log_quote_reason(reply->why) : "it refuses");
        pfl_trace_job_give_up(self, why);
        return;
    }
    if (!pfl_trace_pieces_take(&self->pieces, reply->data.len, !reply->has_more)) {
        pfl_trace_job_give_up(self, "it has another length than it had");
        return;
    }
    if (self->port != NULL && self->why[0] == '\0' && reply->data.len != 0)
        give_piece(self, pfl_span_of(reply->data.data, reply->data.len));
    else
        feed(self); /* the last reply was empty: on_written may have been before it */
}

/* ---- the process ---- */

static void explain_death(struct pfl_trace_job *j, const struct pfl_processor_port_end *end)
{
    const char *words =
        end->last_words[0] != '\0' ? pfl_log_quote_reason(end->last_words) : "it said nothing";

    if (end->signal != 0)
        (void)snprintf(j->why, sizeof(j->why),
                       "its Trace Processor died of signal %d (it had %" PRIu32
                       " MiB: --max-mib): %s",
                       end->signal, j->conf->question.engine.max_mib, words);
    else
        (void)snprintf(j->why, sizeof(j->why), "its Trace Processor ended with %d: %s", end->status,
                       words);
}

static const char *find_words(const struct pfl_trace_job *j,
                              const struct pfl_processor_port_end *end)
{
    switch (j->fault) {
    case PFL_TRACE_JOB_FAULT_QUESTION:
        return pfl_trace_question_get_why(j->question);
    case PFL_TRACE_JOB_FAULT_PROGRAM:
        return end->last_words;
    default:
        return "";
    }
}

static void on_ended(void *user, const struct pfl_processor_port_end *end)
{
    struct pfl_trace_job *j = user;
    size_t len;

    j->port = NULL;
    j->is_answered = pfl_trace_question_get(j->question) == PFL_TRACE_QUESTION_ANSWERED;
    if (!end->was_closed && end->signal == 0 && end->status == CANNOT_RUN)
        j->fault = PFL_TRACE_JOB_FAULT_PROGRAM;
    if (!j->is_answered && j->why[0] == '\0' && !end->was_closed)
        explain_death(j, end);
    len = strlen(j->why);
    if (len != 0 && j->rows != 0)
        (void)snprintf(j->why + len, sizeof(j->why) - len, "; %" PRIu64 " rows of it came",
                       j->rows);
    j->conf->on_over(j->conf->user, j, find_words(j, end));
}

/* Of a file: what there is of it. False: it is passed over. */
static bool open_trace(struct pfl_trace_job *j)
{
    struct stat st;

    if (!j->conf->is_files) {
        pfl_trace_pieces_init(&j->pieces, j->trace->bytes);
        return true;
    }
    j->fd = open(j->trace->name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (j->fd < 0 || fstat(j->fd, &st) != 0) {
        (void)snprintf(j->why, sizeof(j->why), "%s", strerror(errno));
        return false;
    }
    if (!S_ISREG(st.st_mode)) {
        (void)snprintf(j->why, sizeof(j->why), "it is no file");
        return false;
    }
    pfl_trace_pieces_init(&j->pieces, (uint64_t)st.st_size);
    return true;
}

/* A Trace Processor takes two to four times the bytes of a trace. */
static bool has_room(struct pfl_trace_job *j)
{
    uint64_t mib = j->pieces.left >> 20;

    if (mib <= j->conf->question.engine.max_mib / 2)
        return true;
    (void)snprintf(j->why, sizeof(j->why),
                   "it is too large: it has %" PRIu64 " MiB, and a Trace Processor %" PRIu32
                   " (--max-mib)",
                   mib, j->conf->question.engine.max_mib);
    return false;
}

static bool start_process(struct pfl_trace_job *j)
{
    const struct pfl_trace_job_question *q = &j->conf->question;
    const struct pfl_trace_question_conf question = {.text = q->text,
                                                     .is_summary = q->is_summary,
                                                     .is_binary = q->is_binary,
                                                     .on_columns = on_columns,
                                                     .on_row = on_row,
                                                     .on_about =
                                                         j->conf->is_files ? on_about : NULL,
                                                     .user = j};
    const struct pfl_processor_port_conf port = {.loop = j->conf->loop,
                                                 .self = q->engine.self,
                                                 .program = q->engine.program,
                                                 .mode = q->engine.sandbox,
                                                 .max_mib = q->engine.max_mib,
                                                 .max_seconds = q->engine.max_time_ms / 1000 + 2,
                                                 .on_data = on_data,
                                                 .on_written = on_written,
                                                 .on_ended = on_ended,
                                                 .user = j};
    int rc = pfl_trace_question_new(&question, &j->question);

    if (rc == 0)
        rc = pfl_processor_port_open(&port, &j->port);
    if (rc == 0)
        return true;
    (void)snprintf(j->why, sizeof(j->why), "no process can be started: %s",
                   rc == PFL_EIO ? strerror(errno) : pfl_err_str(rc));
    return false;
}

bool pfl_trace_job_start(struct pfl_trace_job *self, const struct pfl_asked_trace *trace)
{
    self->trace = trace;
    (void)snprintf(self->host, sizeof(self->host), "%s", trace->host);
    pfl_answer_format_start(trace->begin_unix_ns, self->start);
    if (!open_trace(self) || !has_room(self) || !start_process(self))
        return false;
    self->answer_left = PFL_TRACE_JOB_ANSWER_BYTES + PFL_TRACE_JOB_ANSWER_RATIO * self->pieces.left;
    self->answer_rows_left = PFL_TRACE_JOB_NAMES_RATIO * self->answer_left;
    feed(self);
    return true;
}

void pfl_trace_job_leave(struct pfl_trace_job *self)
{
    if (self->fd >= 0)
        (void)close(self->fd);
    pfl_trace_question_free(self->question);
    pfl_trace_job_init(self, self->conf);
}
