/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A QueryResult of a Trace Processor (proto/perfetto/trace_processor.proto), read in place: names
 * of columns, an error, and batches of typed cells. Nothing is copied or allocated.
 */
#ifndef PFL_CONSUMER_QUERY_CELLS_H
#define PFL_CONSUMER_QUERY_CELLS_H

#include "base/bytes.h"
#include "base/err.h"

#define PFL_QUERY_COLUMNS_MAX    128u
#define PFL_QUERY_NAME_MAX_BYTES 256u

enum pfl_cell_type {
    PFL_CELL_NULL,
    PFL_CELL_INTEGER,
    PFL_CELL_REAL,
    PFL_CELL_TEXT, /* `bytes` without the NUL that follows them */
    PFL_CELL_BLOB,
};

struct pfl_cell {
    enum pfl_cell_type type;
    int64_t integer;
    double real;
    struct pfl_span bytes; /* borrowed from the message */
};

/* One message of several that a result may have. */
struct pfl_query_part {
    struct pfl_span columns[PFL_QUERY_COLUMNS_MAX]; /* borrowed; only the first part has them */
    size_t columns_len;
    struct pfl_span error; /* empty: none */
    struct pfl_span message;
    bool is_last;
};

/* Of one batch. */
struct pfl_query_cells {
    struct pfl_reader types;
    struct pfl_reader integers;
    struct pfl_reader reals;
    struct pfl_reader texts;
    struct pfl_reader blobs; /* all fields of the batch */
};

/* PFL_EPROTO: malformed; PFL_ELIMIT: too many columns, or a name that is too long. */
PFL_MUST_USE int pfl_query_part_parse(struct pfl_span message, struct pfl_query_part *ret_part);

/* The next batch of `reader`, which begins as pfl_reader_of(part->message). PFL_EEOF: no more;
 * PFL_EPROTO. */
PFL_MUST_USE int pfl_query_cells_next_batch(struct pfl_reader *reader,
                                            struct pfl_query_cells *ret_cells);
/* One row of `len` cells. PFL_EEOF: no more; PFL_EPROTO: part of a row, a type that is not known,
 * cells without a value. */
PFL_MUST_USE int pfl_query_cells_read_row(struct pfl_query_cells *self, struct pfl_cell *ret_row,
                                          size_t len);

#endif
