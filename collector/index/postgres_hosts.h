/* SPDX-License-Identifier: Apache-2.0 */
/* The hosts of a connection string of libpq, in the order in which they are tried. */
#ifndef PFL_COLLECTOR_POSTGRES_HOSTS_H
#define PFL_COLLECTOR_POSTGRES_HOSTS_H

#include <libpq-fe.h>
#include <stddef.h>

#include "base/err.h"

/* Zero-initialized. */
struct pfl_postgres_hosts {
    char *lists[3]; /* owned; of "host", "hostaddr" and "port", as libpq takes them; or NULL */
    size_t len;     /* of the longest */
};

/* Those of this connection. PFL_ENOMEM. */
PFL_MUST_USE int pfl_postgres_hosts_read(struct pfl_postgres_hosts *self, PGconn *conn);
void pfl_postgres_hosts_fini(struct pfl_postgres_hosts *self); /* legal on zeroed memory */
/* The first one is tried last from now on. */
void pfl_postgres_hosts_rotate(struct pfl_postgres_hosts *self);

#endif
