/* SPDX-License-Identifier: Apache-2.0 */
/* Orders and what hosts do of them, as text and JSON. Pure. */
#ifndef PFL_CONSUMER_ORDER_TABLE_H
#define PFL_CONSUMER_ORDER_TABLE_H

#include <stdbool.h>

#include <jansson.h>

#include "base/buf.h"
#include "perfleet/collector.pb-c.h"

/* "continuous"; "?": it says nothing that is known. */
const char *pfl_order_table_when(const Perfleet__OrderStatus *order);
/* "running"; of NULL "unknown". */
const char *pfl_order_table_state(const Perfleet__HostOrderState *state);

enum pfl_order_table_form {
    PFL_ORDER_TABLE_LIST, /* one line an order */
    PFL_ORDER_TABLE_SHOW, /* the order, and a line for each of its hosts */
    PFL_ORDER_TABLE_JSON,
};

/* Its fields are its own. One life: init, add, end or fini. */
struct pfl_order_table {
    enum pfl_order_table_form form;
    struct pfl_buf *out;  /* borrowed until the end */
    struct pfl_buf begun; /* LIST: the line of the last order, up to its counts */
    struct pfl_buf last;  /* names the last order */
    json_t *list;         /* owned; JSON */
    json_t *hosts;        /* of the last order, borrowed from `list` */
    size_t orders;
    size_t n_host; /* of the last order, as the next two */
    size_t running;
    size_t refused;
    bool is_paused;
};

void pfl_order_table_init(struct pfl_order_table *self, enum pfl_order_table_form form,
                          struct pfl_buf *out);
/* An order, or further hosts of the one before, which then has the same name and orderer.
 * PFL_ELIMIT, PFL_ENOMEM. */
PFL_MUST_USE int pfl_order_table_add(struct pfl_order_table *self,
                                     const Perfleet__OrderStatus *order);
PFL_MUST_USE int pfl_order_table_end(struct pfl_order_table *self);
void pfl_order_table_fini(struct pfl_order_table *self);

#endif
