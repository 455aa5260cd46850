/* SPDX-License-Identifier: Apache-2.0 */
/* Many hosts as a table: a row a host, what is wrong below it, one line that sums up. Pure. */
#ifndef PFL_CONSUMER_HOST_TABLE_H
#define PFL_CONSUMER_HOST_TABLE_H

#include "consumer/report/service_state.h"

struct pfl_host_table_conf {
    const struct pfl_service_state_host *hosts;
    size_t hosts_len;
    const char *columns; /* "name,state,..."; NULL: the usual ones */
    bool is_problems;    /* only hosts with which something is wrong */
    bool is_color;
    unsigned width; /* of the terminal: the usual columns are chosen to fit; 0: any */
    /* Of a screen: at most so many lines, none longer than `width`; what does not fit is counted in
     * the last line, and hosts with problems come first then. 0: any, and lines may be longer. */
    unsigned height;
    int64_t now_s; /* UNIX time, for certificates */
};

/* The n-th column's name; NULL past the last. */
const char *pfl_host_table_get_column(size_t n);
/* PFL_EINVAL with `ret_why` = which column is none, and which there are. */
PFL_MUST_USE int pfl_host_table_check(const char *columns, char *ret_why, size_t why_len);
/* `columns` are good. PFL_ENOMEM, PFL_ELIMIT. */
PFL_MUST_USE int pfl_host_table_text(const struct pfl_host_table_conf *conf, struct pfl_buf *out);

#endif
