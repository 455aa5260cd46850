/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Perfetto's BigTrace page asks, as JSON (docs/adr/0060): parsed once, on arrival. Pure. What
 * it does not know it passes over, as the page's own server may.
 */
#ifndef PFL_CONSUMER_WEB_BIGTRACE_REQUEST_H
#define PFL_CONSUMER_WEB_BIGTRACE_REQUEST_H

#include <jansson.h>

#include "base/bytes.h"
#include "base/err.h"
#include "consumer/http/form.h"

#define PFL_BIGTRACE_FILTERS_MAX  32u
#define PFL_BIGTRACE_VALUES_MAX   256u /* of all filters of a request */
#define PFL_BIGTRACE_PATTERN_MAX  256u /* bytes of a value of glob */
#define PFL_BIGTRACE_COLUMNS_MAX  160u
#define PFL_BIGTRACE_SETTINGS_MAX 16u

enum pfl_bigtrace_op {
    PFL_BIGTRACE_EQUAL,
    PFL_BIGTRACE_NOT_EQUAL,
    PFL_BIGTRACE_LESS,
    PFL_BIGTRACE_LESS_OR_EQUAL,
    PFL_BIGTRACE_GREATER,
    PFL_BIGTRACE_GREATER_OR_EQUAL,
    PFL_BIGTRACE_GLOB,
    PFL_BIGTRACE_NOT_GLOB,
    PFL_BIGTRACE_IN,
    PFL_BIGTRACE_NOT_IN,
    PFL_BIGTRACE_IS_NULL,
    PFL_BIGTRACE_IS_NOT_NULL,
};

struct pfl_bigtrace_filter {
    const char *field;
    enum pfl_bigtrace_op op;
    size_t first; /* of its values in the view's */
    size_t len;   /* 1, but of IN and NOT_IN any number, of the last two none */
};

/* Which rows of a table, in which order, and which of its columns; texts are borrowed. */
struct pfl_bigtrace_view {
    struct pfl_bigtrace_filter filters[PFL_BIGTRACE_FILTERS_MAX];
    size_t filters_len;
    const char *values[PFL_BIGTRACE_VALUES_MAX]; /* NULL is SQL's */
    size_t values_len;
    char order[256]; /* a column; "": as they are */
    bool is_descending;
    uint32_t offset;
    uint32_t limit;
    const char *columns[PFL_BIGTRACE_COLUMNS_MAX];
    size_t columns_len; /* 0: not said */
};

enum pfl_bigtrace_kind {
    PFL_BIGTRACE_EXECUTE, /* the view is of the traces; `limit` of the answer's rows */
    PFL_BIGTRACE_TRACES,  /* /trace_metadata, and its schema */
    PFL_BIGTRACE_RESULTS, /* :fetch_results */
    PFL_BIGTRACE_OTHER,   /* a body without anything of interest */
};

struct pfl_bigtrace_request {
    json_t *root;    /* owned; all texts are borrowed from it */
    const char *sql; /* of EXECUTE */
    struct pfl_bigtrace_view view;
    struct {
        const char *id;
        const char *value; /* its first one */
    } settings[PFL_BIGTRACE_SETTINGS_MAX];
    size_t settings_len;
};

/* PFL_EPROTO: *ret_why is a static sentence; PFL_ENOMEM. Else the caller has to fini. */
PFL_MUST_USE int pfl_bigtrace_request_parse(enum pfl_bigtrace_kind kind, struct pfl_span body,
                                            struct pfl_bigtrace_request *ret_request,
                                            const char **ret_why);
void pfl_bigtrace_request_fini(struct pfl_bigtrace_request *self); /* zeroed is legal */
/* "" if it is not set. */
const char *pfl_bigtrace_request_get_setting(const struct pfl_bigtrace_request *self,
                                             const char *id);

#endif
