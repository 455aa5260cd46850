/* SPDX-License-Identifier: Apache-2.0 */
/* A relay's answer to GET /v1/spools: hosts, and what their spools have. Pure. */
#ifndef PFL_COLLECTOR_RELAY_SPOOL_LIST_H
#define PFL_COLLECTOR_RELAY_SPOOL_LIST_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/err.h"
#include "proto/order/order_set.h"
#include "proto/tunnel/identity.h"

/* A relay sends 256 hosts of at most 32 labels: 1.2 MB, 11,000 values. */
#define PFL_SPOOL_LIST_BYTES_MAX     (2u << 20)
#define PFL_SPOOL_LIST_VALUES_MAX    32768u
#define PFL_SPOOL_LIST_LABELS_MAX    64u
#define PFL_SPOOL_LIST_VERSION_BYTES 64u

struct pfl_spool_host {
    const char *name;
    bool is_connected;
    bool is_from_start;  /* what was known of it at this relay is void, also the policy */
    char *const *labels; /* "name=value" */
    size_t labels_len;
    uint64_t segments;
    uint64_t bytes;
    const char *orders; /* the hash of the orders that it has; "": not reported */
};

/* For each host of the list; borrowed until return. */
typedef void (*pfl_spool_list_on_host)(void *user, const struct pfl_spool_host *host);

struct pfl_spool_list {
    char version[PFL_SPOOL_LIST_VERSION_BYTES];
    size_t hosts;   /* that were reported */
    size_t ignored; /* entries that are malformed */
    bool is_from_start;
    bool has_more; /* ask again at once */
};

/* PFL_EPARSE: no such list, and nothing was reported; PFL_ELIMIT: the same, it is too long;
 * PFL_ENOMEM. */
PFL_MUST_USE int pfl_spool_list_parse(struct pfl_span body_untrusted,
                                      pfl_spool_list_on_host on_host, void *user,
                                      struct pfl_spool_list *ret_list);

#endif
