/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows in memory, of an answer or of a list of traces, as the BigTrace page filters, sorts and
 * pages them. A row of an answer can be joined with the row of its trace in another table, whose
 * columns follow. Pure.
 */
#ifndef PFL_CONSUMER_WEB_BIGTRACE_TABLE_H
#define PFL_CONSUMER_WEB_BIGTRACE_TABLE_H

#include "consumer/ask/query_cells.h"
#include "consumer/web/bigtrace/bigtrace_request.h"

#define PFL_BIGTRACE_TABLE_BYTES (8u << 20)
#define PFL_BIGTRACE_TABLE_ROWS  100000u

struct pfl_bigtrace_table;

/* `joined` is borrowed; NULL: none. PFL_ENOMEM. */
PFL_MUST_USE int pfl_bigtrace_table_new(const struct pfl_bigtrace_table *joined,
                                        struct pfl_bigtrace_table **ret_table);
void pfl_bigtrace_table_free(struct pfl_bigtrace_table *self); /* NULL is legal */

/* Before the first row. A name that is there already, in whatever case, also of `joined`, gets a
 * number. PFL_ELIMIT: PFL_BIGTRACE_COLUMNS_MAX; PFL_ENOMEM. */
PFL_MUST_USE int pfl_bigtrace_table_add_column(struct pfl_bigtrace_table *self,
                                               struct pfl_span name);
/* As many cells as own columns; a blob becomes a text of hex digits. PFL_ELIMIT: the bytes or the
 * rows of the header; PFL_ENOMEM; then nothing was added. */
PFL_MUST_USE int pfl_bigtrace_table_add_row(struct pfl_bigtrace_table *self, uint32_t joined_row,
                                            const struct pfl_cell *cells);

/* Own columns, then those of `joined`. */
size_t pfl_bigtrace_table_get_own_columns(const struct pfl_bigtrace_table *self);
size_t pfl_bigtrace_table_get_columns(const struct pfl_bigtrace_table *self);
const char *pfl_bigtrace_table_get_name(const struct pfl_bigtrace_table *self, size_t column);
/* SIZE_MAX: there is none of that name. */
size_t pfl_bigtrace_table_find(const struct pfl_bigtrace_table *self, const char *name);
size_t pfl_bigtrace_table_get_rows(const struct pfl_bigtrace_table *self);
/* The bytes of texts are borrowed until the next row. */
struct pfl_cell pfl_bigtrace_table_get_cell(const struct pfl_bigtrace_table *self, uint32_t row,
                                            size_t column);

struct pfl_bigtrace_rows {
    uint32_t *all; /* owned */
    size_t len;
};

/* The rows that all filters let through, in the view's order; limit and offset are the caller's.
 * PFL_ENOENT: a column is not there, *ret_name; PFL_ENOMEM. */
PFL_MUST_USE int pfl_bigtrace_table_select(const struct pfl_bigtrace_table *self,
                                           const struct pfl_bigtrace_view *view,
                                           struct pfl_bigtrace_rows *ret_rows,
                                           const char **ret_name);
void pfl_bigtrace_rows_fini(struct pfl_bigtrace_rows *self);

#endif
