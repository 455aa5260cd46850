/* SPDX-License-Identifier: Apache-2.0 */
/* The orders of this host on disk, beside the segments: a file each, mode 0600. Blocks. */
#ifndef PFL_AGENT_ORDER_FILES_PORT_H
#define PFL_AGENT_ORDER_FILES_PORT_H

#include "agent/daemon/order/order_book.h"

struct pfl_order_files {
    int dir;
    const char *path; /* borrowed */
};

/* PFL_EIO (errno); close is legal then. */
PFL_MUST_USE int pfl_order_files_open(struct pfl_order_files *self, const char *path);
void pfl_order_files_close(struct pfl_order_files *self);
/* Puts all into the book; what is not an order that this user wrote is removed. PFL_EIO,
 * PFL_ENOMEM.
 */
PFL_MUST_USE int pfl_order_files_read(const struct pfl_order_files *self,
                                      struct pfl_order_book *book);
/* PFL_EIO, PFL_ELIMIT, PFL_ENOMEM: the file of before stays. */
PFL_MUST_USE int pfl_order_files_keep(const struct pfl_order_files *self,
                                      const Perfleet__HostOrder *order);
void pfl_order_files_remove(const struct pfl_order_files *self, const Perfleet__HostOrder *order);

#endif
