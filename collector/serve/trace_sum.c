/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of traces: see trace_sum.h. Happy path: the row of a trace's name is found, or begun; its
 * cells are those that the time of the trace overlaps. Failures: none after new; when all rows are
 * used, further names share the last. Ownership: one block. Limits: those of the header; a search
 * for a name compares with each row, of which there are few, after the row of the last trace.
 */
#include "collector/serve/trace_sum.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "perfleet/collector.fields.h"
#include "perfleet/segment.fields.h"

struct cell {
    uint64_t traces;
    uint64_t bytes;
    uint64_t gaps;
    uint64_t losses;
};

struct row {
    char name[PFL_INDEX_NAME_BYTES];
    struct cell cells[PFL_TRACE_SUM_CELLS_MAX];
};

struct pfl_trace_sum {
    struct pfl_trace_sum_conf conf;
    size_t len;
    size_t last; /* the row that was added to last */
    bool has_rest;
    struct row rows[PFL_TRACE_SUM_ROWS_MAX];
};

int pfl_trace_sum_new(const struct pfl_trace_sum_conf *conf, struct pfl_trace_sum **ret_sum)
{
    struct pfl_trace_sum *s = pfl_mem_zalloc(sizeof(*s));

    if (s == NULL)
        return PFL_ENOMEM;
    s->conf = *conf;
    *ret_sum = s;
    return 0;
}

void pfl_trace_sum_free(struct pfl_trace_sum *self)
{
    pfl_mem_free(self);
}

/* ---- which row ---- */

static struct pfl_span find_label(const struct pfl_index_row *row, const char *label)
{
    struct pfl_reader reader = pfl_reader_of(row->segment);
    struct pfl_field field;
    size_t len = strlen(label);

    while (pfl_reader_field(&reader, &field)) {
        const char *text = (const char *)field.bytes.data;

        if (field.id == SEGMENT__LABEL && field.bytes.len > len && memcmp(text, label, len) == 0 &&
            text[len] == '=')
            return pfl_span_of(text + len + 1, field.bytes.len - len - 1);
    }
    return pfl_span_of("", 0);
}

static bool is_named(const struct row *row, struct pfl_span name)
{
    return strncmp(row->name, (const char *)name.data, name.len) == 0 &&
           row->name[name.len] == '\0';
}

/* With a NUL inside it would not be found again. */
static struct pfl_span cut(struct pfl_span name)
{
    size_t len = strnlen((const char *)name.data, name.len);

    return pfl_span_of(name.data, len < PFL_INDEX_NAME_BYTES ? len : PFL_INDEX_NAME_BYTES - 1);
}

static size_t find_row(struct pfl_trace_sum *s, struct pfl_span name)
{
    if (s->last < s->len && is_named(&s->rows[s->last], name))
        return s->last;
    for (size_t i = 0; i < s->len; i++)
        if (is_named(&s->rows[i], name))
            return i;
    if (s->len == PFL_TRACE_SUM_ROWS_MAX - 1) {
        s->has_rest = true;
        return s->len;
    }
    if (name.len != 0)
        memcpy(s->rows[s->len].name, name.data, name.len);
    return s->len++;
}

/* ---- which cells ---- */

static uint64_t count_losses(struct pfl_span segment)
{
    struct pfl_reader reader = pfl_reader_of(segment);
    struct pfl_field field;
    uint64_t count = 0;

    while (pfl_reader_field(&reader, &field)) {
        struct pfl_reader loss = pfl_reader_of(field.bytes);
        struct pfl_field part;

        while (field.id == SEGMENT__LOSS && pfl_reader_field(&loss, &part))
            if (part.id == SEGMENT_LOSS__COUNT && part.value <= INT64_MAX - count)
                count += part.value;
    }
    return count;
}

/* What begins before the first cell, or ends behind the last, is in these. */
static uint32_t find_cell(const struct pfl_trace_sum *s, uint64_t unix_ns)
{
    uint64_t cell =
        unix_ns > s->conf.begin_unix_ns ? (unix_ns - s->conf.begin_unix_ns) / s->conf.cell_ns : 0;

    return cell < s->conf.cells ? (uint32_t)cell : s->conf.cells - 1;
}

void pfl_trace_sum_add(struct pfl_trace_sum *self, const struct pfl_index_row *row)
{
    struct pfl_span name = self->conf.label[0] != '\0' ? find_label(row, self->conf.label)
                                                       : pfl_span_of(row->host, strlen(row->host));
    uint32_t first = find_cell(self, row->begin_unix_ns);
    uint32_t last =
        row->end_unix_ns > row->begin_unix_ns ? find_cell(self, row->end_unix_ns - 1) : first;
    struct cell *cells;

    self->last = find_row(self, cut(name));
    cells = self->rows[self->last].cells;
    for (uint32_t i = first; i <= last; i++) {
        cells[i].traces += row->key[0] != '\0';
        cells[i].gaps += row->key[0] == '\0';
    }
    cells[first].bytes += row->bytes;
    cells[first].losses += count_losses(row->segment);
}

/* ---- the result ---- */

static int compare_rows(const void *a, const void *b)
{
    return strcmp(((const struct row *)a)->name, ((const struct row *)b)->name);
}

static void write_cell(const struct cell *cell, uint32_t index, struct pfl_message *m)
{
    size_t mark;

    if (cell->traces == 0 && cell->gaps == 0)
        return;
    mark = pfl_message_begin(m, TRACE_SUM__CELL);
    pfl_message_varint(m, TRACE_SUM__CELL__INDEX, index);
    pfl_message_varint(m, TRACE_SUM__CELL__TRACES, cell->traces);
    pfl_message_varint(m, TRACE_SUM__CELL__BYTES, cell->bytes);
    pfl_message_varint(m, TRACE_SUM__CELL__GAPS, cell->gaps);
    pfl_message_varint(m, TRACE_SUM__CELL__LOSSES, cell->losses);
    pfl_message_end(m, mark);
}

void pfl_trace_sum_write(struct pfl_trace_sum *self, uint32_t field, struct pfl_message *m)
{
    qsort(self->rows, self->len, sizeof(self->rows[0]), compare_rows);
    self->last = self->len;
    for (size_t i = 0; i < self->len + self->has_rest; i++) {
        size_t mark = pfl_message_begin(m, field);

        pfl_message_str(m, TRACE_SUM__NAME, self->rows[i].name);
        if (i == self->len)
            pfl_message_varint(m, TRACE_SUM__IS_REST, 1);
        for (uint32_t k = 0; k < self->conf.cells; k++)
            write_cell(&self->rows[i].cells[k], k, m);
        pfl_message_end(m, mark);
    }
}
