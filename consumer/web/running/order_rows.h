/* SPDX-License-Identifier: Apache-2.0 */
/* Orders as a collector lists them, and what hosts do of them, for pages. Pure. */
#ifndef PFL_CONSUMER_WEB_RUNNING_ORDER_ROWS_H
#define PFL_CONSUMER_WEB_RUNNING_ORDER_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "perfleet/collector.pb-c.h"

#define PFL_ORDER_ROWS_MAX        200u
#define PFL_ORDER_ROWS_HOSTS_MAX  500u /* of one order */
#define PFL_ORDER_ROWS_NAME_BYTES 64u  /* of an order, and of who ordered it */
#define PFL_ORDER_ROWS_WHY_BYTES  256u /* the rest is cut */

struct pfl_order_host_row {
    char name[256];
    const char *state; /* static */
    bool is_connected;
    uint32_t behind_segments; /* that no collector has yet */
    uint64_t behind_bytes;
    uint64_t behind_ms; /* the oldest one's age */
    bool has_copies;
    uint64_t copies; /* for triggers, as the next */
    uint64_t skipped;
    char why[PFL_ORDER_ROWS_WHY_BYTES]; /* "" or why it does not record */
};

struct pfl_order_row {
    char name[PFL_ORDER_ROWS_NAME_BYTES];
    char orderer[PFL_ORDER_ROWS_NAME_BYTES];
    const char *when; /* static */
    uint32_t generation;
    bool is_paused;
    size_t hosts;
    size_t running; /* of them, as the next */
    size_t refused;
    size_t away; /* not connected */
    uint64_t behind_bytes;
    char why_host[256]; /* the first one that refuses; "": none */
    char why[PFL_ORDER_ROWS_WHY_BYTES];
};

struct pfl_order_rows {
    struct pfl_order_row rows[PFL_ORDER_ROWS_MAX];
    size_t len;
    bool has_more;                    /* orders for which there was no row left */
    struct pfl_order_host_row *hosts; /* borrowed; NULL: hosts are only counted */
    size_t hosts_len;
    size_t hosts_left_out;
};

/* For one order: its hosts go to `room`, of PFL_ORDER_ROWS_HOSTS_MAX. */
void pfl_order_rows_keep_hosts(struct pfl_order_rows *self, struct pfl_order_host_row *room);
/* Those of a reply to show_order. */
void pfl_order_rows_take(struct pfl_order_rows *self, const Perfleet__CollectorReply *reply);

#endif
