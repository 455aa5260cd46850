/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading of results: see query_cells.h.
 *
 *     part = column_names*, error?, batch*
 *     batch = cells: the type of each cell, in the order of rows
 *             varint_cells, float64_cells, string_cells (each text with its NUL), blob_cells*:
 *             the values of each type, in the order of its cells
 *
 * The program that answers may have been taken over by a trace: nothing of it is believed. A batch
 * has whole rows. Failures: PFL_EPROTO for whatever else. Owns nothing.
 */
#include "consumer/ask/query_cells.h"

#include "perfetto/trace_processor.fields.h"

static int take_name(struct pfl_query_part *part, struct pfl_span name)
{
    if (part->columns_len == PFL_QUERY_COLUMNS_MAX || name.len > PFL_QUERY_NAME_MAX_BYTES)
        return PFL_ELIMIT;
    if (name.len != 0 && memchr(name.data, '\0', name.len) != NULL)
        return PFL_EPROTO;
    part->columns[part->columns_len++] = name;
    return 0;
}

/* Whether the batch is the result's last. */
static int read_end(struct pfl_span batch, bool *ret_is_last)
{
    struct pfl_reader r = pfl_reader_of(batch);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f))
        if (f.id == QUERY_RESULT__CELLS_BATCH__IS_LAST_BATCH && f.type == PFL_WIRE_VARINT)
            *ret_is_last = f.value != 0;
    return r.failed ? PFL_EPROTO : 0;
}

static int take_field(struct pfl_query_part *part, const struct pfl_field *f)
{
    if (f->type != PFL_WIRE_BYTES)
        return 0;
    switch (f->id) {
    case QUERY_RESULT__COLUMN_NAMES:
        return take_name(part, f->bytes);
    case QUERY_RESULT__ERROR:
        part->error = f->bytes;
        return 0;
    case QUERY_RESULT__BATCH:
        return read_end(f->bytes, &part->is_last);
    default:
        return 0;
    }
}

int pfl_query_part_parse(struct pfl_span message, struct pfl_query_part *ret_part)
{
    struct pfl_reader r = pfl_reader_of(message);
    struct pfl_field f;
    int rc = 0;

    ret_part->columns_len = 0;
    ret_part->error = pfl_span_of(NULL, 0);
    ret_part->message = message;
    ret_part->is_last = false;
    while (rc == 0 && pfl_reader_field(&r, &f))
        rc = take_field(ret_part, &f);
    return rc == 0 && r.failed ? PFL_EPROTO : rc;
}

/* One list of values: a second one of its kind would be out of order. */
static int take_list(struct pfl_reader *list, const struct pfl_field *f)
{
    if (f->type != PFL_WIRE_BYTES || list->pos != NULL)
        return PFL_EPROTO;
    *list = pfl_reader_of(f->bytes);
    return 0;
}

static int open_batch(struct pfl_span batch, struct pfl_query_cells *cells)
{
    struct pfl_reader r = pfl_reader_of(batch);
    struct pfl_field f;
    int rc = 0;

    *cells = (struct pfl_query_cells){.blobs = r};
    while (rc == 0 && pfl_reader_field(&r, &f)) {
        switch (f.id) {
        case QUERY_RESULT__CELLS_BATCH__CELLS:
            rc = take_list(&cells->types, &f);
            break;
        case QUERY_RESULT__CELLS_BATCH__VARINT_CELLS:
            rc = take_list(&cells->integers, &f);
            break;
        case QUERY_RESULT__CELLS_BATCH__FLOAT64_CELLS:
            rc = take_list(&cells->reals, &f);
            break;
        case QUERY_RESULT__CELLS_BATCH__STRING_CELLS:
            rc = take_list(&cells->texts, &f);
            break;
        default:
            break;
        }
    }
    return rc == 0 && r.failed ? PFL_EPROTO : rc;
}

int pfl_query_cells_next_batch(struct pfl_reader *reader, struct pfl_query_cells *ret_cells)
{
    struct pfl_field f;

    while (pfl_reader_field(reader, &f))
        if (f.id == QUERY_RESULT__BATCH && f.type == PFL_WIRE_BYTES)
            return open_batch(f.bytes, ret_cells);
    return reader->failed ? PFL_EPROTO : PFL_EEOF;
}

static int read_text(struct pfl_reader *texts, struct pfl_span *ret_text)
{
    const uint8_t *end = texts->left != 0 ? memchr(texts->pos, '\0', texts->left) : NULL;

    if (end == NULL)
        return PFL_EPROTO;
    *ret_text = pfl_reader_bytes(texts, (size_t)(end - texts->pos));
    (void)pfl_reader_u8(texts);
    return 0;
}

static int read_blob(struct pfl_reader *batch, struct pfl_span *ret_blob)
{
    struct pfl_field f;

    while (pfl_reader_field(batch, &f)) {
        if (f.id != QUERY_RESULT__CELLS_BATCH__BLOB_CELLS || f.type != PFL_WIRE_BYTES)
            continue;
        *ret_blob = f.bytes;
        return 0;
    }
    return PFL_EPROTO;
}

static int read_cell(struct pfl_query_cells *c, struct pfl_cell *ret_cell)
{
    struct pfl_cell cell = {.type = PFL_CELL_NULL};
    uint64_t bits;
    int rc = 0;

    switch (pfl_reader_varint(&c->types)) {
    case QUERY_RESULT__CELLS_BATCH__CELL_NULL:
        break;
    case QUERY_RESULT__CELLS_BATCH__CELL_VARINT:
        cell.type = PFL_CELL_INTEGER;
        cell.integer = (int64_t)pfl_reader_varint(&c->integers);
        break;
    case QUERY_RESULT__CELLS_BATCH__CELL_FLOAT64:
        cell.type = PFL_CELL_REAL;
        bits = pfl_reader_u64(&c->reals);
        memcpy(&cell.real, &bits, sizeof(bits));
        break;
    case QUERY_RESULT__CELLS_BATCH__CELL_STRING:
        cell.type = PFL_CELL_TEXT;
        rc = read_text(&c->texts, &cell.bytes);
        break;
    case QUERY_RESULT__CELLS_BATCH__CELL_BLOB:
        cell.type = PFL_CELL_BLOB;
        rc = read_blob(&c->blobs, &cell.bytes);
        break;
    default:
        return PFL_EPROTO;
    }
    if (rc == 0 && (c->types.failed || c->integers.failed || c->reals.failed))
        rc = PFL_EPROTO;
    if (rc == 0)
        *ret_cell = cell;
    return rc;
}

int pfl_query_cells_read_row(struct pfl_query_cells *self, struct pfl_cell *ret_row, size_t len)
{
    int rc = 0;

    if (self->types.left == 0)
        return PFL_EEOF;
    if (len == 0)
        return PFL_EPROTO;
    for (size_t i = 0; rc == 0 && i < len; i++)
        rc = read_cell(self, &ret_row[i]);
    return rc;
}
