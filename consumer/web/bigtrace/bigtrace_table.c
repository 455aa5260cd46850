/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows in memory: see bigtrace_table.h.
 *
 *     cells: row by row, 16 bytes each; texts in one buffer
 *
 * Happy path: columns, rows, then a selection. Values of filters are texts: one that is a number is
 * compared as one with cells that are numbers. Rows are in the order of SQLite: NULL, numbers,
 * texts. Failures: memory and the limits. Limits: those of the header, over all cells and texts.
 */
#include "consumer/web/bigtrace/bigtrace_table.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/mem.h"

#define NAME_BYTES (PFL_QUERY_NAME_MAX_BYTES + 8u)

struct stored {
    union {
        int64_t integer;
        double real;
        struct {
            uint32_t offset;
            uint32_t len;
        } text;
    } value;
    enum pfl_cell_type type;
};

struct pfl_bigtrace_table {
    const struct pfl_bigtrace_table *joined; /* borrowed; NULL: none */
    char (*names)[NAME_BYTES];               /* owned */
    size_t columns;
    struct pfl_buf cells; /* of struct stored */
    struct pfl_buf texts;
    struct pfl_buf joins; /* of uint32_t */
    size_t rows;
};

/* ---- making ---- */

int pfl_bigtrace_table_new(const struct pfl_bigtrace_table *joined,
                           struct pfl_bigtrace_table **ret_table)
{
    struct pfl_bigtrace_table *t = pfl_mem_zalloc(sizeof(*t));

    if (t == NULL)
        return PFL_ENOMEM;
    t->joined = joined;
    pfl_buf_init(&t->cells, PFL_BIGTRACE_TABLE_BYTES);
    pfl_buf_init(&t->texts, PFL_BIGTRACE_TABLE_BYTES);
    pfl_buf_init(&t->joins, PFL_BIGTRACE_TABLE_ROWS * sizeof(uint32_t));
    *ret_table = t;
    return 0;
}

void pfl_bigtrace_table_free(struct pfl_bigtrace_table *self)
{
    if (self == NULL)
        return;
    pfl_buf_fini(&self->cells);
    pfl_buf_fini(&self->texts);
    pfl_buf_fini(&self->joins);
    pfl_mem_free(self->names);
    pfl_mem_free(self);
}

static bool has_name(const struct pfl_bigtrace_table *t, const char *name)
{
    for (size_t i = 0; i < pfl_bigtrace_table_get_columns(t); i++)
        if (strcasecmp(pfl_bigtrace_table_get_name(t, i), name) == 0)
            return true;
    return false;
}

/* Names are a trace's: what is no text of ASCII is changed. */
static void write_name(struct pfl_bigtrace_table *t, struct pfl_span name, char room[NAME_BYTES])
{
    size_t len = name.len < PFL_QUERY_NAME_MAX_BYTES - 1 ? name.len : PFL_QUERY_NAME_MAX_BYTES - 1;

    for (size_t i = 0; i < len; i++)
        room[i] = name.data[i] >= ' ' && name.data[i] <= '~' ? (char)name.data[i] : '_';
    room[len] = '\0';
    if (len == 0)
        len = (size_t)snprintf(room, NAME_BYTES, "column");
    for (unsigned i = 2; has_name(t, room); i++)
        (void)snprintf(room + len, NAME_BYTES - len, "_%u", i);
}

int pfl_bigtrace_table_add_column(struct pfl_bigtrace_table *self, struct pfl_span name)
{
    char room[NAME_BYTES];
    void *names;

    assert(self->rows == 0);
    if (pfl_bigtrace_table_get_columns(self) == PFL_BIGTRACE_COLUMNS_MAX)
        return PFL_ELIMIT;
    write_name(self, name, room);
    names = pfl_mem_realloc(self->names, (self->columns + 1) * sizeof(self->names[0]));
    if (names == NULL)
        return PFL_ENOMEM;
    self->names = names;
    memcpy(self->names[self->columns++], room, sizeof(room));
    return 0;
}

static int add_hex(struct pfl_buf *texts, struct pfl_span bytes)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t *room;
    int rc = pfl_buf_reserve(texts, 2 * bytes.len, &room);

    if (rc != 0)
        return rc;
    for (size_t i = 0; i < bytes.len; i++) {
        room[2 * i] = (uint8_t)digits[bytes.data[i] >> 4];
        room[2 * i + 1] = (uint8_t)digits[bytes.data[i] & 15];
    }
    pfl_buf_extend(texts, 2 * bytes.len);
    return 0;
}

static int store(struct pfl_bigtrace_table *t, const struct pfl_cell *cell,
                 struct stored *ret_stored)
{
    size_t offset = t->texts.len;
    int rc = 0;

    memset(ret_stored, 0, sizeof(*ret_stored));
    ret_stored->type = cell->type == PFL_CELL_BLOB ? PFL_CELL_TEXT : cell->type;
    if (cell->type == PFL_CELL_INTEGER)
        ret_stored->value.integer = cell->integer;
    if (cell->type == PFL_CELL_REAL)
        ret_stored->value.real = cell->real;
    if (ret_stored->type != PFL_CELL_TEXT)
        return 0;
    if (cell->bytes.len != 0)
        rc = cell->type == PFL_CELL_BLOB
                 ? add_hex(&t->texts, cell->bytes)
                 : pfl_buf_append(&t->texts, cell->bytes.data, cell->bytes.len);
    ret_stored->value.text.offset = (uint32_t)offset;
    ret_stored->value.text.len = (uint32_t)(t->texts.len - offset);
    return rc;
}

int pfl_bigtrace_table_add_row(struct pfl_bigtrace_table *self, uint32_t joined_row,
                               const struct pfl_cell *cells)
{
    size_t cells_before = self->cells.len;
    size_t texts_before = self->texts.len;
    int rc = self->rows < PFL_BIGTRACE_TABLE_ROWS ? 0 : PFL_ELIMIT;

    for (size_t i = 0; rc == 0 && i < self->columns; i++) {
        struct stored stored;

        rc = store(self, &cells[i], &stored);
        if (rc == 0)
            rc = pfl_buf_append(&self->cells, &stored, sizeof(stored));
    }
    if (rc == 0 && self->cells.len + self->texts.len > PFL_BIGTRACE_TABLE_BYTES)
        rc = PFL_ELIMIT;
    if (rc == 0)
        rc = pfl_buf_append(&self->joins, &joined_row, sizeof(joined_row));
    if (rc == 0) {
        self->rows++;
        return 0;
    }
    self->cells.len = cells_before;
    self->texts.len = texts_before;
    return rc;
}

/* ---- reading ---- */

size_t pfl_bigtrace_table_get_own_columns(const struct pfl_bigtrace_table *self)
{
    return self->columns;
}

size_t pfl_bigtrace_table_get_columns(const struct pfl_bigtrace_table *self)
{
    return self->columns + (self->joined != NULL ? self->joined->columns : 0);
}

const char *pfl_bigtrace_table_get_name(const struct pfl_bigtrace_table *self, size_t column)
{
    return column < self->columns ? self->names[column]
                                  : self->joined->names[column - self->columns];
}

size_t pfl_bigtrace_table_find(const struct pfl_bigtrace_table *self, const char *name)
{
    for (size_t i = 0; i < pfl_bigtrace_table_get_columns(self); i++)
        if (strcmp(pfl_bigtrace_table_get_name(self, i), name) == 0)
            return i;
    return SIZE_MAX;
}

size_t pfl_bigtrace_table_get_rows(const struct pfl_bigtrace_table *self)
{
    return self->rows;
}

struct pfl_cell pfl_bigtrace_table_get_cell(const struct pfl_bigtrace_table *self, uint32_t row,
                                            size_t column)
{
    struct stored s;
    struct pfl_cell cell;

    if (column >= self->columns) {
        column -= self->columns;
        memcpy(&row, self->joins.data + self->joins.start + row * sizeof(row), sizeof(row));
        self = self->joined;
    }
    memcpy(&s,
           self->cells.data + self->cells.start +
               ((size_t)row * self->columns + column) * sizeof(s),
           sizeof(s));
    cell = (struct pfl_cell){.type = s.type};
    if (s.type == PFL_CELL_INTEGER)
        cell.integer = s.value.integer;
    else if (s.type == PFL_CELL_REAL)
        cell.real = s.value.real;
    else if (s.type == PFL_CELL_TEXT)
        cell.bytes = s.value.text.len != 0
                         ? pfl_span_of(self->texts.data + self->texts.start + s.value.text.offset,
                                       s.value.text.len)
                         : pfl_span_of("", 0);
    return cell;
}

/* ---- comparing ---- */

static int compare_texts(struct pfl_span a, struct pfl_span b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int difference = len != 0 ? memcmp(a.data, b.data, len) : 0;

    return difference != 0 ? difference : (a.len > b.len) - (a.len < b.len);
}

static double real_of(const struct pfl_cell *cell)
{
    return cell->type == PFL_CELL_INTEGER ? (double)cell->integer : cell->real;
}

static bool is_number(const struct pfl_cell *cell)
{
    return cell->type == PFL_CELL_INTEGER || cell->type == PFL_CELL_REAL;
}

static int class_of(const struct pfl_cell *cell)
{
    return cell->type == PFL_CELL_NULL ? 0 : is_number(cell) ? 1 : 2;
}

static int compare(const struct pfl_cell *a, const struct pfl_cell *b)
{
    if (class_of(a) != class_of(b))
        return class_of(a) - class_of(b);
    if (a->type == PFL_CELL_INTEGER && b->type == PFL_CELL_INTEGER)
        return (a->integer > b->integer) - (a->integer < b->integer);
    if (is_number(a))
        return (real_of(a) > real_of(b)) - (real_of(a) < real_of(b));
    return a->type == PFL_CELL_NULL ? 0 : compare_texts(a->bytes, b->bytes);
}

/* A filter's value, read as the cell that it is compared with: a number only with numbers. */
static struct pfl_cell read_value(const char *text, const struct pfl_cell *like)
{
    struct pfl_cell value = {.type = PFL_CELL_TEXT, .bytes = pfl_span_of(text, strlen(text))};
    char *end;

    if (!is_number(like) || text[0] == '\0')
        return value;
    errno = 0;
    value.integer = strtoll(text, &end, 10);
    if (*end == '\0' && errno == 0) {
        value.type = PFL_CELL_INTEGER;
        return value;
    }
    value.real = strtod(text, &end);
    if (*end == '\0')
        value.type = PFL_CELL_REAL;
    return value;
}

/* ---- patterns: *, ? and [...], as SQLite's GLOB ---- */

/* A set at `pattern`, which begins with [. *ret_end is behind it; NULL: it does not end. */
static bool is_in_set(const char *pattern, char c, const char **ret_end)
{
    const char *at = pattern + 1;
    bool is_inverted = *at == '^';
    bool is_in = false;

    at += is_inverted ? 1 : 0;
    for (bool is_first = true; *at != '\0' && (is_first || *at != ']'); is_first = false) {
        char low = *at++;
        char high = low;

        if (at[0] == '-' && at[1] != '\0' && at[1] != ']') {
            high = at[1];
            at += 2;
        }
        is_in = is_in || (c >= low && c <= high);
    }
    *ret_end = *at == ']' ? at + 1 : NULL;
    return is_in != is_inverted;
}

/* Does one character fit what is at `pattern`? *ret_next is behind that. */
static bool fits_one(const char *pattern, char c, const char **ret_next)
{
    bool is_fit;

    if (*pattern == '[') {
        is_fit = is_in_set(pattern, c, ret_next);
        return is_fit && *ret_next != NULL;
    }
    *ret_next = pattern + 1;
    return *pattern != '\0' && (*pattern == '?' || *pattern == c);
}

/* Time: the product of both lengths at most. */
static bool fits(const char *pattern, struct pfl_span text)
{
    const char *star = NULL; /* behind the last one */
    size_t from = 0;         /* what it reaches to */
    size_t i = 0;

    while (i < text.len) {
        const char *next;

        if (*pattern == '*') {
            star = ++pattern;
            from = i;
        } else if (fits_one(pattern, (char)text.data[i], &next)) {
            pattern = next;
            i++;
        } else if (star != NULL) {
            pattern = star;
            i = ++from;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

static bool fits_cell(const char *pattern, const struct pfl_cell *cell)
{
    char number[32];

    if (cell->type == PFL_CELL_TEXT)
        return fits(pattern, cell->bytes);
    if (cell->type == PFL_CELL_INTEGER)
        (void)snprintf(number, sizeof(number), "%lld", (long long)cell->integer);
    else
        (void)snprintf(number, sizeof(number), "%.17g", cell->real);
    return fits(pattern, pfl_span_of(number, strlen(number)));
}

/* ---- filters ---- */

static bool is_one_of(const struct pfl_cell *cell, const char *const *values, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        struct pfl_cell value;

        if (values[i] == NULL)
            continue;
        value = read_value(values[i], cell);
        if (compare(cell, &value) == 0)
            return true;
    }
    return false;
}

/* Against one value that is not NULL, and a cell that is not. */
static bool holds(enum pfl_bigtrace_op op, const struct pfl_cell *cell, const char *text)
{
    struct pfl_cell value = read_value(text, cell);

    switch (op) {
    case PFL_BIGTRACE_EQUAL:
        return compare(cell, &value) == 0;
    case PFL_BIGTRACE_NOT_EQUAL:
        return compare(cell, &value) != 0;
    case PFL_BIGTRACE_LESS:
        return compare(cell, &value) < 0;
    case PFL_BIGTRACE_LESS_OR_EQUAL:
        return compare(cell, &value) <= 0;
    case PFL_BIGTRACE_GREATER:
        return compare(cell, &value) > 0;
    case PFL_BIGTRACE_GREATER_OR_EQUAL:
        return compare(cell, &value) >= 0;
    case PFL_BIGTRACE_GLOB:
        return fits_cell(text, cell);
    default:
        return !fits_cell(text, cell);
    }
}

/* As SQL's: NULL fits nothing but what asks for it; = NULL is taken for IS NULL, as it is meant. */
static bool is_let_through(const struct pfl_bigtrace_view *v, const struct pfl_bigtrace_filter *f,
                           const struct pfl_cell *cell)
{
    const char *const *values = v->values + f->first;
    bool is_null = cell->type == PFL_CELL_NULL;

    switch (f->op) {
    case PFL_BIGTRACE_IS_NULL:
        return is_null;
    case PFL_BIGTRACE_IS_NOT_NULL:
        return !is_null;
    case PFL_BIGTRACE_IN:
        return !is_null && is_one_of(cell, values, f->len);
    case PFL_BIGTRACE_NOT_IN:
        return !is_null && !is_one_of(cell, values, f->len);
    default:
        break;
    }
    if (values[0] == NULL)
        return f->op == PFL_BIGTRACE_EQUAL ? is_null : f->op == PFL_BIGTRACE_NOT_EQUAL && !is_null;
    return !is_null && holds(f->op, cell, values[0]);
}

/* ---- selecting ---- */

struct order {
    const struct pfl_bigtrace_table *table;
    size_t column;
    bool is_descending;
};

/* Rows that are equal stay in their order. */
static int compare_rows(const void *a, const void *b, void *arg)
{
    const struct order *o = arg;
    uint32_t left = *(const uint32_t *)a;
    uint32_t right = *(const uint32_t *)b;
    struct pfl_cell x = pfl_bigtrace_table_get_cell(o->table, left, o->column);
    struct pfl_cell y = pfl_bigtrace_table_get_cell(o->table, right, o->column);
    int difference = compare(&x, &y);

    if (difference == 0)
        return (left > right) - (left < right);
    return o->is_descending ? -difference : difference;
}

/* False: *ret_name is not there. */
static bool find_columns(const struct pfl_bigtrace_table *t, const struct pfl_bigtrace_view *v,
                         size_t columns[PFL_BIGTRACE_FILTERS_MAX], struct order *order,
                         const char **ret_name)
{
    for (size_t i = 0; i < v->filters_len; i++) {
        columns[i] = pfl_bigtrace_table_find(t, v->filters[i].field);
        *ret_name = v->filters[i].field;
        if (columns[i] == SIZE_MAX)
            return false;
    }
    *order = (struct order){.table = t, .is_descending = v->is_descending};
    *ret_name = v->order;
    order->column = v->order[0] != '\0' ? pfl_bigtrace_table_find(t, v->order) : 0;
    return order->column != SIZE_MAX;
}

static bool is_selected(const struct pfl_bigtrace_table *t, const struct pfl_bigtrace_view *v,
                        const size_t *columns, uint32_t row)
{
    for (size_t i = 0; i < v->filters_len; i++) {
        struct pfl_cell cell = pfl_bigtrace_table_get_cell(t, row, columns[i]);

        if (!is_let_through(v, &v->filters[i], &cell))
            return false;
    }
    return true;
}

int pfl_bigtrace_table_select(const struct pfl_bigtrace_table *self,
                              const struct pfl_bigtrace_view *view,
                              struct pfl_bigtrace_rows *ret_rows, const char **ret_name)
{
    struct pfl_bigtrace_rows rows = {.len = 0};
    size_t columns[PFL_BIGTRACE_FILTERS_MAX];
    struct order order;

    if (!find_columns(self, view, columns, &order, ret_name))
        return PFL_ENOENT;
    if (self->rows != 0) {
        rows.all = pfl_mem_alloc(self->rows * sizeof(rows.all[0]));
        if (rows.all == NULL)
            return PFL_ENOMEM;
    }
    for (uint32_t i = 0; i < self->rows; i++)
        if (is_selected(self, view, columns, i))
            rows.all[rows.len++] = i;
    if (view->order[0] != '\0' && rows.len > 1)
        qsort_r(rows.all, rows.len, sizeof(rows.all[0]), compare_rows, &order);
    *ret_rows = rows;
    return 0;
}

void pfl_bigtrace_rows_fini(struct pfl_bigtrace_rows *self)
{
    pfl_mem_free(self->all);
    *self = (struct pfl_bigtrace_rows){.len = 0};
}
