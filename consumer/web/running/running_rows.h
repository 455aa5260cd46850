/* SPDX-License-Identifier: Apache-2.0 */
/* The sessions of many hosts' services; sessions of one name are one row. Pure. */
#ifndef PFL_CONSUMER_WEB_RUNNING_RUNNING_ROWS_H
#define PFL_CONSUMER_WEB_RUNNING_RUNNING_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

#define PFL_RUNNING_ROWS_MAX        200u
#define PFL_RUNNING_ROWS_OF_HOST    8u   /* if that is more than its part of all */
#define PFL_RUNNING_ROWS_NAME_BYTES 128u /* as a session's name and key may have */

struct pfl_running_row {
    char name[PFL_RUNNING_ROWS_NAME_BYTES]; /* "": it has none, and is one host's */
    char key[PFL_RUNNING_ROWS_NAME_BYTES];  /* under which it may have been left; "": none */
    char state[32];                         /* as the first host says it */
    char hosts[256];                        /* names of the first ones */
    size_t hosts_len;
    size_t last_host;    /* the number of the last one, from 1 */
    int64_t since_s;     /* UNIX time, of the oldest; 0: not known */
    int32_t user;        /* who made it there, on the first host */
    uint64_t ring_bytes; /* of all hosts */
    bool is_running;     /* somewhere */
    bool is_own;         /* the operator made it, on the first host */
};

struct pfl_running_rows {
    struct pfl_running_row rows[PFL_RUNNING_ROWS_MAX];
    size_t len;
    size_t hosts_len;     /* that were added */
    size_t of_host_max;   /* new rows of one host */
    size_t of_host_begin; /* of the host that is added: its first new row */
    size_t left_out;      /* sessions for which there was no row left */
};

/* For the sessions of so many hosts. */
void pfl_running_rows_init(struct pfl_running_rows *self, size_t hosts_len);

/* Adds the sessions of a serialized TracingServiceState. PFL_EPARSE, PFL_ENOMEM. */
PFL_MUST_USE int pfl_running_rows_add(struct pfl_running_rows *self, const char *host,
                                      struct pfl_span state);
/* Does this state have a session that may have been left under this key? False, too, if it is
 * malformed or without memory. */
bool pfl_running_rows_has_key(struct pfl_span state, const char *key);

#endif
