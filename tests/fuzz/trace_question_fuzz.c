/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a Trace Processor writes: the first byte says how large its pieces are and what was asked,
 * the rest is its stream. Every row has all its columns, and every form takes it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "consumer/ask/answer_format.h"
#include "consumer/ask/trace_question.h"
#include "consumer/text.h"
#include "tests/support/fuzz_note.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct world {
    struct pfl_answer_columns *columns;
    size_t columns_len;
    unsigned rows;
};

static int on_columns(void *user, const struct pfl_span *names, size_t len)
{
    struct world *w = user;

    if (w->columns != NULL || len == 0 || len > PFL_QUERY_COLUMNS_MAX)
        abort();
    for (size_t i = 0; i < len; i++)
        note_bytes("column", names[i]);
    w->columns_len = len;
    return pfl_answer_columns_new(names, len, &w->columns);
}

static int on_row(void *user, const struct pfl_cell *cells, size_t len)
{
    static const enum pfl_answer_form forms[] = {PFL_ANSWER_TEXT, PFL_ANSWER_CSV, PFL_ANSWER_JSON};
    const struct pfl_answer_row row = {.host = "h", .start = "s", .trace = "t", .cells = cells};
    struct world *w = user;
    struct pfl_buf out;

    if (w->columns == NULL || len != w->columns_len)
        abort();
    if (w->rows++ > 16)
        return 0;
    pfl_buf_init(&out, 1u << 20);
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        int rc = pfl_answer_format_row(forms[i], w->columns, &row, &out);

        note_text("row", pfl_buf_get(&out));
        pfl_buf_clear(&out);
        if (rc != 0 && rc != PFL_ELIMIT && rc != PFL_ENOMEM)
            abort();
    }
    pfl_buf_fini(&out);
    return 0;
}

static void on_about(void *user, const struct pfl_cell cells[PFL_TRACE_QUESTION_ABOUT])
{
    const struct world *w = user;

    if (w->rows != 0 || cells[0].type > PFL_CELL_BLOB)
        abort();
}

static void talk(struct pfl_trace_question *q, struct pfl_span stream, size_t piece)
{
    struct pfl_buf out;
    int rc;

    pfl_buf_init(&out, 4096);
    rc = pfl_trace_question_load(q, pfl_span_of("t", 1), &out);
    if (rc == 0)
        rc = pfl_trace_question_ask(q, &out);
    while (rc == 0 && stream.len != 0) {
        size_t len = stream.len < piece ? stream.len : piece;

        rc = pfl_trace_question_feed(q, pfl_span_of(stream.data, len));
        stream = pfl_span_of(stream.data + len, stream.len - len);
    }
    note_bytes("sent", pfl_buf_get(&out));
    note("%s, %d, %s", pfl_err_str(rc), pfl_trace_question_get(q),
         pfl_trace_question_get(q) > PFL_TRACE_QUESTION_ANSWERED ? pfl_trace_question_get_why(q)
                                                                 : "-");
    if (rc == 0 && pfl_trace_question_get(q) > PFL_TRACE_QUESTION_ANSWERED &&
        strlen(pfl_trace_question_get_why(q)) >= PFL_TRACE_QUESTION_WHY_BYTES)
        abort();
    pfl_buf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct world w = {0};
    struct pfl_trace_question_conf conf = {
        .text = pfl_span_of("SELECT 1", 8), .on_columns = on_columns, .on_row = on_row, .user = &w};
    struct pfl_trace_question *q = NULL;

    if (size == 0)
        return 0;
    json_set_alloc_funcs(pfl_mem_alloc, pfl_mem_free);
    conf.is_summary = (data[0] & 1) != 0;
    conf.on_about = (data[0] & 2) != 0 ? on_about : NULL;
    if (pfl_trace_question_new(&conf, &q) == 0)
        talk(q, pfl_span_of(data + 1, size - 1), (size_t)(data[0] >> 2) + 1);
    pfl_trace_question_free(q);
    pfl_answer_columns_free(w.columns);
    return 0;
}
