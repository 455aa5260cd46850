/* SPDX-License-Identifier: Apache-2.0 */
/* See replies.h. */
#include "tests/unit/consumer/ask/replies.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

void reply_add(struct pfl_buf *out, unsigned method, uint32_t id, struct pfl_span args)
{
    struct pfl_message m = pfl_message_of(out);
    size_t mark = pfl_message_begin(&m, TRACE_PROCESSOR_RPC_STREAM__MSG);

    pfl_message_varint(&m, TRACE_PROCESSOR_RPC__SEQ, 5);
    pfl_message_varint(&m, TRACE_PROCESSOR_RPC__RESPONSE, method);
    if (id != 0)
        pfl_message_bytes(&m, id, args);
    pfl_message_end(&m, mark);
    assert_int_equal(m.rc, 0);
}

static void add_loaded(struct pfl_buf *out, unsigned method, uint32_t id, uint32_t error_id,
                       const char *error)
{
    struct pfl_message m;
    struct pfl_buf args;

    pfl_buf_init(&args, 1024);
    m = pfl_message_of(&args);
    if (error != NULL)
        pfl_message_str(&m, error_id, error);
    reply_add(out, method, id, pfl_buf_get(&args));
    pfl_buf_fini(&args);
}

void reply_add_appended(struct pfl_buf *out, const char *error)
{
    add_loaded(out, TRACE_PROCESSOR_RPC__TPM_APPEND_TRACE_DATA, TRACE_PROCESSOR_RPC__APPEND_RESULT,
               APPEND_TRACE_DATA_RESULT__ERROR, error);
}

void reply_add_finalized(struct pfl_buf *out, const char *error)
{
    add_loaded(out, TRACE_PROCESSOR_RPC__TPM_FINALIZE_TRACE_DATA,
               TRACE_PROCESSOR_RPC__FINALIZE_DATA_RESULT, FINALIZE_DATA_RESULT__ERROR, error);
}

void reply_make_result(struct pfl_buf *out, bool is_last)
{
    static const uint8_t cells[] = {2, 4, 1, 2, 4, 3};
    static const uint8_t integers[] = {7, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1};
    static const uint8_t reals[] = {0, 0, 0, 0, 0, 0, 0xe0, 0x3f};
    struct pfl_message m = pfl_message_of(out);
    size_t mark;

    pfl_message_str(&m, QUERY_RESULT__COLUMN_NAMES, "n");
    pfl_message_str(&m, QUERY_RESULT__COLUMN_NAMES, "text");
    pfl_message_str(&m, QUERY_RESULT__COLUMN_NAMES, "host");
    mark = pfl_message_begin(&m, QUERY_RESULT__BATCH);
    pfl_message_bytes(&m, QUERY_RESULT__CELLS_BATCH__CELLS, pfl_span_of(cells, sizeof(cells)));
    pfl_message_bytes(&m, QUERY_RESULT__CELLS_BATCH__VARINT_CELLS,
                      pfl_span_of(integers, sizeof(integers)));
    pfl_message_bytes(&m, QUERY_RESULT__CELLS_BATCH__FLOAT64_CELLS,
                      pfl_span_of(reals, sizeof(reals)));
    pfl_message_bytes(&m, QUERY_RESULT__CELLS_BATCH__STRING_CELLS, pfl_span_of("one\0\0", 5));
    if (is_last)
        pfl_message_varint(&m, QUERY_RESULT__CELLS_BATCH__IS_LAST_BATCH, 1);
    pfl_message_end(&m, mark);
    pfl_message_varint(&m, QUERY_RESULT__STATEMENT_COUNT, 1);
    assert_int_equal(m.rc, 0);
}

void reply_add_result(struct pfl_buf *out, struct pfl_span result)
{
    reply_add(out, TRACE_PROCESSOR_RPC__TPM_QUERY_STREAMING, TRACE_PROCESSOR_RPC__QUERY_RESULT,
              result);
}
