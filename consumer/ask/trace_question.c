/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The conversation: see trace_question.h.
 *
 * Either direction is a TraceProcessorRpcStream: each message has its tag and length in front.
 * Requests are sent without waiting for replies: APPEND_TRACE_DATA*, FINALIZE_TRACE_DATA,
 * QUERY_STREAMING for what the trace says about itself, and QUERY_STREAMING or SUMMARIZE_TRACE. The
 * replies come in the same order; a question with many rows has several.
 *
 * Failures: an error in a reply is the outcome, with its text; a reply that nobody asked for, that
 * is too large or malformed ends the conversation. Owns what is not a whole message yet. Limits:
 * PFL_TRACE_QUESTION_REPLY_MAX_BYTES and _CELLS.
 */
#include "consumer/ask/trace_question.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/message.h"
#include "perfetto/trace_processor.fields.h"

/* Pieces of a stream are smaller. */
#define FEED_MAX_BYTES (1u << 20)
#define HEAD_BYTES     48u

/* Older Trace Processors do not know a machine's name. */
static const char about[] =
    "SELECT (SELECT group_concat(name, '+') FROM (SELECT DISTINCT name FROM machine "
    "WHERE name IS NOT NULL ORDER BY name LIMIT 8)), to_realtime(trace_start())";

struct pfl_trace_question {
    struct pfl_trace_question_conf conf;
    struct pfl_buf replies; /* the beginning of a message */
    uint64_t seq;
    uint64_t appended; /* pieces whose reply is to come */
    bool is_asked;
    bool is_finalized; /* the reply to it came */
    bool is_about;     /* the next reply is to what the trace says about itself */
    size_t columns_len;
    size_t cells; /* of the reply that is read */
    bool has_columns;
    enum pfl_trace_question_outcome outcome;
    char why[PFL_TRACE_QUESTION_WHY_BYTES];
};

int pfl_trace_question_new(const struct pfl_trace_question_conf *conf,
                           struct pfl_trace_question **ret_question)
{
    struct pfl_trace_question *q = pfl_mem_zalloc(sizeof(*q));

    if (q == NULL)
        return PFL_ENOMEM;
    q->conf = *conf;
    pfl_buf_init(&q->replies, PFL_TRACE_QUESTION_REPLY_MAX_BYTES + 2 * FEED_MAX_BYTES);
    *ret_question = q;
    return 0;
}

void pfl_trace_question_free(struct pfl_trace_question *self)
{
    if (self == NULL)
        return;
    pfl_buf_fini(&self->replies);
    pfl_mem_free(self);
}

enum pfl_trace_question_outcome pfl_trace_question_get(const struct pfl_trace_question *self)
{
    return self->outcome;
}

bool pfl_trace_question_has_columns(const struct pfl_trace_question *self)
{
    return self->has_columns;
}

const char *pfl_trace_question_get_why(const struct pfl_trace_question *self)
{
    return self->why;
}

/* ---- requests ---- */

/* `arg`: the number of the argument's field; 0: none. */
static int add_request(struct pfl_trace_question *q, unsigned method, uint32_t arg,
                       struct pfl_span value, struct pfl_buf *out)
{
    uint8_t head[HEAD_BYTES];
    struct pfl_writer w = pfl_writer_of(head, sizeof(head));
    size_t before = out->len;
    size_t len;
    int rc;

    pfl_writer_field_varint(&w, TRACE_PROCESSOR_RPC__SEQ, q->seq);
    pfl_writer_field_varint(&w, TRACE_PROCESSOR_RPC__REQUEST, method);
    if (arg != 0)
        pfl_writer_field_header(&w, arg, value.len);
    len = sizeof(head) - w.left;
    rc = pfl_message_append_header(out, TRACE_PROCESSOR_RPC_STREAM__MSG, len + value.len);
    if (rc == 0)
        rc = pfl_buf_append(out, head, len);
    if (rc == 0 && value.len != 0)
        rc = pfl_buf_append(out, value.data, value.len);
    if (rc == 0)
        q->seq++;
    else
        out->len = before;
    return rc;
}

int pfl_trace_question_load(struct pfl_trace_question *self, struct pfl_span data,
                            struct pfl_buf *out)
{
    int rc = add_request(self, TRACE_PROCESSOR_RPC__TPM_APPEND_TRACE_DATA,
                         TRACE_PROCESSOR_RPC__APPEND_TRACE_DATA, data, out);

    if (rc == 0)
        self->appended++;
    return rc;
}

static int add_query(struct pfl_trace_question *q, struct pfl_span sql, struct pfl_buf *out)
{
    struct pfl_buf args;
    struct pfl_message m;

    pfl_buf_init(&args, sql.len + HEAD_BYTES);
    m = pfl_message_of(&args);
    pfl_message_bytes(&m, QUERY_ARGS__SQL_QUERY, sql);
    if (m.rc == 0)
        m.rc = add_request(q, TRACE_PROCESSOR_RPC__TPM_QUERY_STREAMING,
                           TRACE_PROCESSOR_RPC__QUERY_ARGS, pfl_buf_get(&args), out);
    pfl_buf_fini(&args);
    return m.rc;
}

static int add_summary(struct pfl_trace_question *q, struct pfl_buf *out)
{
    const struct pfl_trace_question_conf *conf = &q->conf;
    struct pfl_buf args;
    struct pfl_message m;
    size_t mark;

    pfl_buf_init(&args, conf->text.len + HEAD_BYTES);
    m = pfl_message_of(&args);
    pfl_message_bytes(
        &m, conf->is_binary ? TRACE_SUMMARY_ARGS__PROTO_SPECS : TRACE_SUMMARY_ARGS__TEXTPROTO_SPECS,
        conf->text);
    mark = pfl_message_begin(&m, TRACE_SUMMARY_ARGS__COMPUTATION_SPEC);
    pfl_message_varint(&m, TRACE_SUMMARY_ARGS__COMPUTATION_SPEC__RUN_ALL_METRICS, 1);
    pfl_message_end(&m, mark);
    pfl_message_varint(&m, TRACE_SUMMARY_ARGS__OUTPUT_FORMAT, TRACE_SUMMARY_ARGS__TEXTPROTO);
    if (m.rc == 0)
        m.rc = add_request(q, TRACE_PROCESSOR_RPC__TPM_SUMMARIZE_TRACE,
                           TRACE_PROCESSOR_RPC__TRACE_SUMMARY_ARGS, pfl_buf_get(&args), out);
    pfl_buf_fini(&args);
    return m.rc;
}

int pfl_trace_question_ask(struct pfl_trace_question *self, struct pfl_buf *out)
{
    const struct pfl_trace_question_conf *conf = &self->conf;
    int rc = add_request(self, TRACE_PROCESSOR_RPC__TPM_FINALIZE_TRACE_DATA, 0,
                         pfl_span_of(NULL, 0), out);

    self->is_about = conf->on_about != NULL;
    if (rc == 0 && self->is_about)
        rc = add_query(self, pfl_span_of(about, sizeof(about) - 1), out);
    if (rc == 0)
        rc = conf->is_summary ? add_summary(self, out) : add_query(self, conf->text, out);
    self->is_asked = rc == 0;
    return rc;
}

/* ---- replies ---- */

static int end(struct pfl_trace_question *q, enum pfl_trace_question_outcome outcome,
               struct pfl_span why)
{
    int len = why.len < sizeof(q->why) ? (int)why.len : (int)sizeof(q->why) - 1;

    q->outcome = outcome;
    (void)snprintf(q->why, sizeof(q->why), "%.*s", len, why.len != 0 ? (const char *)why.data : "");
    return 0;
}

static int end_with(struct pfl_trace_question *q, enum pfl_trace_question_outcome outcome,
                    const char *why)
{
    return end(q, outcome, pfl_span_of(why, strlen(why)));
}

static int break_off(struct pfl_trace_question *q)
{
    return end_with(q, PFL_TRACE_QUESTION_BROKEN, "its reply is malformed");
}

/* The text in the message's field `id`; empty: none. False: malformed. */
static bool find_text(struct pfl_span message, uint32_t id, struct pfl_span *ret_text)
{
    struct pfl_reader r = pfl_reader_of(message);
    struct pfl_field f;

    *ret_text = pfl_span_of(NULL, 0);
    while (pfl_reader_field(&r, &f))
        if (f.id == id && f.type == PFL_WIRE_BYTES)
            *ret_text = f.bytes;
    return !r.failed;
}

/* To a piece of the trace, or to its end. */
static int take_loaded(struct pfl_trace_question *q, struct pfl_span message, uint32_t error_id)
{
    struct pfl_span error;

    if (!find_text(message, error_id, &error))
        return break_off(q);
    return error.len != 0 ? end(q, PFL_TRACE_QUESTION_UNREADABLE, error) : 0;
}

static int take_columns(struct pfl_trace_question *q, const struct pfl_query_part *part)
{
    if (q->has_columns)
        return part->columns_len == 0 ? 0 : break_off(q);
    q->has_columns = part->columns_len != 0;
    q->columns_len = part->columns_len;
    return q->has_columns ? q->conf.on_columns(q->conf.user, part->columns, part->columns_len) : 0;
}

static int take_rows(struct pfl_trace_question *q, struct pfl_query_cells *cells)
{
    struct pfl_cell row[PFL_QUERY_COLUMNS_MAX];
    int rc;

    while ((rc = pfl_query_cells_read_row(cells, row, q->columns_len)) == 0) {
        q->cells += q->columns_len;
        if (q->cells > PFL_TRACE_QUESTION_REPLY_MAX_CELLS)
            return end_with(q, PFL_TRACE_QUESTION_BROKEN, "a reply of it has too many cells");
        rc = q->conf.on_row(q->conf.user, row, q->columns_len);
        if (rc != 0)
            return rc;
    }
    return rc == PFL_EEOF ? 0 : break_off(q);
}

static int take_result(struct pfl_trace_question *q, struct pfl_span message)
{
    struct pfl_reader batches = pfl_reader_of(message);
    struct pfl_query_cells cells;
    struct pfl_query_part part;
    int rc = pfl_query_part_parse(message, &part);

    if (rc == PFL_ELIMIT)
        return end_with(q, PFL_TRACE_QUESTION_REFUSED,
                        "it has too many columns, or one with a name that is too long");
    if (rc != 0)
        return break_off(q);
    q->cells = 0;
    rc = take_columns(q, &part);
    while (rc == 0 && q->outcome == PFL_TRACE_QUESTION_OPEN) {
        rc = pfl_query_cells_next_batch(&batches, &cells);
        if (rc == PFL_EPROTO)
            return break_off(q);
        if (rc == 0)
            rc = take_rows(q, &cells);
    }
    if ((rc != 0 && rc != PFL_EEOF) || q->outcome != PFL_TRACE_QUESTION_OPEN)
        return rc == PFL_EEOF ? 0 : rc;
    if (part.error.len != 0)
        return end(q, PFL_TRACE_QUESTION_REFUSED, part.error);
    if (part.is_last)
        q->outcome = PFL_TRACE_QUESTION_ANSWERED;
    return 0;
}

/* One row in one batch; an error is none. */
static int take_about(struct pfl_trace_question *q, struct pfl_span message)
{
    struct pfl_cell cells[PFL_TRACE_QUESTION_ABOUT];
    struct pfl_reader batches = pfl_reader_of(message);
    struct pfl_query_cells rows;
    struct pfl_query_part part;

    if (pfl_query_part_parse(message, &part) != 0)
        return break_off(q);
    if (part.error.len == 0 && part.columns_len == PFL_TRACE_QUESTION_ABOUT &&
        pfl_query_cells_next_batch(&batches, &rows) == 0 &&
        pfl_query_cells_read_row(&rows, cells, PFL_TRACE_QUESTION_ABOUT) == 0)
        q->conf.on_about(q->conf.user, cells);
    q->is_about = part.error.len == 0 && !part.is_last;
    return 0;
}

static int take_summary(struct pfl_trace_question *q, struct pfl_span message)
{
    const struct pfl_span name = pfl_span_of("summary", 7);
    struct pfl_cell cell = {.type = PFL_CELL_TEXT};
    struct pfl_span error;
    int rc;

    if (!find_text(message, TRACE_SUMMARY_RESULT__ERROR, &error) ||
        !find_text(message, TRACE_SUMMARY_RESULT__TEXTPROTO_SUMMARY, &cell.bytes))
        return break_off(q);
    if (error.len != 0)
        return end(q, PFL_TRACE_QUESTION_REFUSED, error);
    q->has_columns = true;
    rc = q->conf.on_columns(q->conf.user, &name, 1);
    if (rc == 0)
        rc = q->conf.on_row(q->conf.user, &cell, 1);
    q->outcome = PFL_TRACE_QUESTION_ANSWERED;
    return rc;
}

/* A reply's parts. */
struct reply {
    uint64_t method;
    bool is_unknown; /* the method, to the other side */
    struct pfl_span fatal;
    struct pfl_span args;
    uint32_t args_id;
};

static bool parse_reply(struct pfl_span message, struct reply *ret_reply)
{
    struct pfl_reader r = pfl_reader_of(message);
    struct pfl_field f;

    *ret_reply = (struct reply){0};
    while (pfl_reader_field(&r, &f)) {
        if (f.id == TRACE_PROCESSOR_RPC__RESPONSE && f.type == PFL_WIRE_VARINT)
            ret_reply->method = f.value;
        else if (f.id == TRACE_PROCESSOR_RPC__INVALID_REQUEST)
            ret_reply->is_unknown = true;
        else if (f.id == TRACE_PROCESSOR_RPC__FATAL_ERROR && f.type == PFL_WIRE_BYTES)
            ret_reply->fatal = f.bytes;
        else if (f.id > TRACE_PROCESSOR_RPC__TRACE_SUMMARY_ARGS && f.type == PFL_WIRE_BYTES) {
            ret_reply->args = f.bytes;
            ret_reply->args_id = f.id;
        }
    }
    return !r.failed;
}

static int take_args(struct pfl_trace_question *q, const struct reply *reply)
{
    switch (reply->args_id) {
    case TRACE_PROCESSOR_RPC__APPEND_RESULT:
        if (q->appended == 0)
            return break_off(q);
        q->appended--;
        return take_loaded(q, reply->args, APPEND_TRACE_DATA_RESULT__ERROR);
    case TRACE_PROCESSOR_RPC__FINALIZE_DATA_RESULT:
        if (!q->is_asked || q->appended != 0 || q->is_finalized)
            return break_off(q);
        q->is_finalized = true;
        return take_loaded(q, reply->args, FINALIZE_DATA_RESULT__ERROR);
    case TRACE_PROCESSOR_RPC__QUERY_RESULT:
        if (q->is_finalized && q->is_about)
            return take_about(q, reply->args);
        return q->is_finalized && !q->conf.is_summary ? take_result(q, reply->args) : break_off(q);
    case TRACE_PROCESSOR_RPC__TRACE_SUMMARY_RESULT:
        return q->is_finalized && q->conf.is_summary ? take_summary(q, reply->args) : break_off(q);
    default:
        return break_off(q);
    }
}

static int take_message(struct pfl_trace_question *q, struct pfl_span message)
{
    struct reply reply;

    if (!parse_reply(message, &reply))
        return break_off(q);
    if (reply.fatal.len != 0)
        return end(q, PFL_TRACE_QUESTION_BROKEN, reply.fatal);
    if (reply.is_unknown)
        return end_with(q, PFL_TRACE_QUESTION_BROKEN,
                        "it is too old: it does not know this request");
    /* The oldest ones reply to the end of a trace without an argument. */
    if (reply.args_id == 0 && reply.method == TRACE_PROCESSOR_RPC__TPM_FINALIZE_TRACE_DATA)
        reply.args_id = TRACE_PROCESSOR_RPC__FINALIZE_DATA_RESULT;
    return take_args(q, &reply);
}

/* The next whole message. PFL_EAGAIN: it is not whole yet; PFL_EPROTO. */
static int find_message(struct pfl_span bytes, struct pfl_span *ret_message, size_t *ret_len)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    uint8_t tag = pfl_reader_u8(&r);
    uint64_t len;

    if (r.failed)
        return PFL_EAGAIN;
    if (tag != (TRACE_PROCESSOR_RPC_STREAM__MSG << 3 | PFL_WIRE_BYTES))
        return PFL_EPROTO;
    len = pfl_reader_varint(&r);
    if (r.failed)
        return bytes.len <= PFL_VARINT_MAX_BYTES ? PFL_EAGAIN : PFL_EPROTO;
    if (len > PFL_TRACE_QUESTION_REPLY_MAX_BYTES)
        return PFL_ELIMIT;
    if (len > r.left)
        return PFL_EAGAIN;
    *ret_message = pfl_reader_bytes(&r, (size_t)len);
    *ret_len = bytes.len - r.left;
    return 0;
}

static int take_messages(struct pfl_trace_question *q)
{
    struct pfl_span message;
    size_t len = 0;
    int rc = 0;

    while (rc == 0 && q->outcome == PFL_TRACE_QUESTION_OPEN) {
        rc = find_message(pfl_buf_get(&q->replies), &message, &len);
        if (rc == PFL_EAGAIN)
            return 0;
        if (rc == PFL_ELIMIT)
            return end_with(q, PFL_TRACE_QUESTION_BROKEN, "a row of it has more than 16 MiB");
        if (rc != 0)
            return break_off(q);
        rc = take_message(q, message);
        pfl_buf_consume(&q->replies, len);
    }
    return rc;
}

int pfl_trace_question_feed(struct pfl_trace_question *self, struct pfl_span bytes)
{
    int rc = 0;

    while (rc == 0 && bytes.len != 0 && self->outcome == PFL_TRACE_QUESTION_OPEN) {
        size_t len = bytes.len < FEED_MAX_BYTES ? bytes.len : FEED_MAX_BYTES;

        rc = pfl_buf_append(&self->replies, bytes.data, len);
        if (rc == 0)
            rc = take_messages(self);
        bytes = pfl_span_of(bytes.data + len, bytes.len - len);
    }
    return rc;
}
