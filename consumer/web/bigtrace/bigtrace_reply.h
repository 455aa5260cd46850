/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON that the BigTrace page reads. Pure. Each function appends to `out`: PFL_ENOMEM, and
 * PFL_ELIMIT of it. */
#ifndef PFL_CONSUMER_WEB_BIGTRACE_REPLY_H
#define PFL_CONSUMER_WEB_BIGTRACE_REPLY_H

#include <stdbool.h>

#include "base/buf.h"
#include "consumer/web/bigtrace/bigtrace_table.h"

#define PFL_BIGTRACE_PAGE_BYTES (3u << 20)
#define PFL_BIGTRACE_PAGE_ROWS  10000u

/* A page of rows: `rows.len` is how many there are, the view says which of them. */
struct pfl_bigtrace_page {
    const struct pfl_bigtrace_table *table;
    const struct pfl_bigtrace_rows *rows;
    uint32_t offset;
    uint32_t limit;        /* at most PFL_BIGTRACE_PAGE_ROWS are given */
    const size_t *columns; /* of the table */
    size_t columns_len;
    const char *uuid;   /* of the execution; NULL: none */
    bool has_available; /* say which columns the table has */
};

enum pfl_bigtrace_status {
    PFL_BIGTRACE_IN_PROGRESS,
    PFL_BIGTRACE_SUCCESS,
    PFL_BIGTRACE_FAILED,
    PFL_BIGTRACE_CANCELLED,
};

enum pfl_bigtrace_detail {
    PFL_BIGTRACE_DETAIL_STATUS, /* how far it is */
    PFL_BIGTRACE_DETAIL_LISTED, /* the same, with the question, which is cut */
    PFL_BIGTRACE_DETAIL_ALL,    /* with all that was asked */
};

/* An execution; all is borrowed. */
struct pfl_bigtrace_facts {
    const char *uuid;
    const char *error; /* "": none */
    const struct pfl_bigtrace_request *request;
    uint64_t start_unix_ns;
    uint64_t end_unix_ns; /* 0: not yet */
    uint64_t rows;
    uint64_t traces; /* answered or passed over */
    uint64_t total;
    enum pfl_bigtrace_status status;
    bool is_kept; /* its rows are fetched, not given with the answer */
};

/* PFL_ELIMIT: also beyond PFL_BIGTRACE_PAGE_BYTES. */
PFL_MUST_USE int pfl_bigtrace_reply_page(const struct pfl_bigtrace_page *page, struct pfl_buf *out);
PFL_MUST_USE int pfl_bigtrace_reply_execution(const struct pfl_bigtrace_facts *facts,
                                              enum pfl_bigtrace_detail detail, struct pfl_buf *out);
PFL_MUST_USE int pfl_bigtrace_reply_list(const struct pfl_bigtrace_facts *facts, size_t len,
                                         struct pfl_buf *out);
/* The settings of an execution, the columns of the list of traces, the ready questions. */
PFL_MUST_USE int pfl_bigtrace_reply_config(struct pfl_buf *out);
PFL_MUST_USE int pfl_bigtrace_reply_schema(struct pfl_buf *out);
PFL_MUST_USE int pfl_bigtrace_reply_presets(struct pfl_buf *out);
PFL_MUST_USE int pfl_bigtrace_reply_uuid(const char *uuid, struct pfl_buf *out);
/* {"detail": why}: why there is no other answer. */
PFL_MUST_USE int pfl_bigtrace_reply_refusal(const char *why, struct pfl_buf *out);

#endif
