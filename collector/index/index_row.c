/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of segments: out of the database, and as messages. Pure. Fails if a message does not fit. */
#include "collector/index/index_row.h"

#include <string.h>

#include "perfleet/collector.fields.h"

const char *pfl_index_row_text(const struct pfl_sql_row *row, unsigned column, char *dst,
                               size_t room)
{
    struct pfl_span text = pfl_sql_row_bytes(row, column);
    size_t len = text.len < room - 1 ? text.len : room - 1;

    if (len != 0)
        memcpy(dst, text.data, len);
    dst[len] = '\0';
    return dst;
}

/* In the order of the columns of ROW (statements.c). */
void pfl_index_row_read(const struct pfl_sql_row *row, struct pfl_index_row_texts *texts,
                        struct pfl_index_row *ret_row)
{
    *ret_row = (struct pfl_index_row){
        .id = pfl_index_row_text(row, 0, texts->id, sizeof(texts->id)),
        .key = pfl_index_row_text(row, 1, texts->key, sizeof(texts->key)),
        .host = pfl_index_row_text(row, 2, texts->host, sizeof(texts->host)),
        .orderer = pfl_index_row_text(row, 3, texts->orderer, sizeof(texts->orderer)),
        .order = pfl_index_row_text(row, 4, texts->order, sizeof(texts->order)),
        .incarnation = pfl_index_row_text(row, 5, texts->incarnation, sizeof(texts->incarnation)),
        .state = (enum pfl_index_state)pfl_sql_row_int(row, 6),
        .number = pfl_sql_row_int(row, 7),
        .begin_unix_ns = pfl_sql_row_int(row, 8),
        .end_unix_ns = pfl_sql_row_int(row, 9),
        .bytes = pfl_sql_row_int(row, 10),
        .sha256 = pfl_sql_row_bytes(row, 11),
        .segment = pfl_sql_row_bytes(row, 12),
        .stored_unix_ns = pfl_sql_row_int(row, 13),
        .keep_unix_ns = pfl_sql_row_int(row, 14),
        .pin_who = pfl_index_row_text(row, 15, texts->pin_who, sizeof(texts->pin_who)),
        .pin_reason = pfl_index_row_text(row, 16, texts->pin_reason, sizeof(texts->pin_reason)),
        .pin_end_unix_ns = pfl_sql_row_int(row, 17),
        .kind = pfl_sql_row_int(row, 18),
    };
}

static void write_pin(const struct pfl_index_row *row, struct pfl_writer *out)
{
    uint8_t pin[2 * PFL_INDEX_NAME_BYTES + 32];
    struct pfl_writer w = pfl_writer_of(pin, sizeof(pin));

    pfl_writer_field_bytes(&w, STORED_TRACE__PIN__WHO, row->pin_who, strlen(row->pin_who));
    pfl_writer_field_bytes(&w, STORED_TRACE__PIN__REASON, row->pin_reason, strlen(row->pin_reason));
    pfl_writer_field_varint(&w, STORED_TRACE__PIN__END_UNIX_NS, row->pin_end_unix_ns);
    pfl_writer_field_bytes(out, STORED_TRACE__PIN, pin, sizeof(pin) - w.left);
}

int pfl_index_row_encode(const struct pfl_index_row *row, uint8_t *dst, size_t room,
                         size_t *ret_len)
{
    struct pfl_writer w = pfl_writer_of(dst, room);

    pfl_writer_field_bytes(&w, STORED_TRACE__ID, row->id, strlen(row->id));
    pfl_writer_field_bytes(&w, STORED_TRACE__SEGMENT, row->segment.data, row->segment.len);
    pfl_writer_field_varint(&w, STORED_TRACE__STORED_UNIX_NS, row->stored_unix_ns);
    if (row->pin_who[0] != '\0')
        write_pin(row, &w);
    if (w.failed)
        return PFL_ELIMIT;
    *ret_len = room - w.left;
    return 0;
}
