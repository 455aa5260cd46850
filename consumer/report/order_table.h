/* SPDX-License-Identifier: Apache-2.0 */
/* Orders and what hosts do of them, as text and JSON. Pure. */
#ifndef PFL_CONSUMER_ORDER_TABLE_H
#define PFL_CONSUMER_ORDER_TABLE_H

#include "base/buf.h"
#include "perfleet/collector.pb-c.h"

/* One line an order; PFL_ELIMIT, PFL_ENOMEM. */
PFL_MUST_USE int pfl_order_table_list(Perfleet__OrderStatus *const *orders, size_t len,
                                      struct pfl_buf *out);
/* The order, and a line for each of its hosts. */
PFL_MUST_USE int pfl_order_table_show(const Perfleet__OrderStatus *order, struct pfl_buf *out);
PFL_MUST_USE int pfl_order_table_json(Perfleet__OrderStatus *const *orders, size_t len,
                                      struct pfl_buf *out);

#endif
