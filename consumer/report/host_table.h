/* SPDX-License-Identifier: Apache-2.0 */
/* A table of many hosts: a row per host, problems below it, one summary line. Pure. */
#ifndef PFL_CONSUMER_HOST_TABLE_H
#define PFL_CONSUMER_HOST_TABLE_H

#include "consumer/report/service_state.h"

struct pfl_host_table_conf {
    const struct pfl_service_state_host *hosts;
    size_t hosts_len;
    const char *columns; /* "name,state,..."; NULL: the default */
    bool is_problems;    /* only hosts with problems */
    bool is_color;
    unsigned width; /* of the terminal: default columns are chosen to fit; 0: any */
    /* Of a screen: maximal number of lines, none longer than `width`; the last line counts what
     * does not fit, and hosts with problems come first then. 0: any, and lines may be longer. */
    unsigned height;
    int64_t now_s; /* UNIX time, for certificates */
};

/* The n-th column's name; NULL past the last. */
const char *pfl_host_table_get_column(size_t n);
/* PFL_EINVAL with `ret_why` = the unknown column, and the list of columns. */
PFL_MUST_USE int pfl_host_table_check(const char *columns, char *ret_why, size_t why_len);
/* `columns` were checked. PFL_ENOMEM, PFL_ELIMIT. */
PFL_MUST_USE int pfl_host_table_text(const struct pfl_host_table_conf *conf, struct pfl_buf *out);

#endif
