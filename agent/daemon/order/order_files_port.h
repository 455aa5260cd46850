/* SPDX-License-Identifier: Apache-2.0 */
/* The orders of this host on disk, beside the segments: a file each, mode 0600. Opening and reading
 * block; files are written and removed on the thread of the segments, in order. */
#ifndef PFL_AGENT_ORDER_FILES_PORT_H
#define PFL_AGENT_ORDER_FILES_PORT_H

#include "agent/daemon/order/host_orders.h"
#include "agent/daemon/segment/segments_port.h"
#include "base/list.h"

struct pfl_sha256;
struct pfl_order_keep; /* an order that is being written */

/* To whom an order is put: whether it is on the disk. */
struct pfl_order_answer {
    void (*done)(void *user, int rc, const char *why); /* NULL: nobody asks */
    void *user;
};

struct pfl_order_kept {
    const char *orderer;
    const char *name;
    uint32_t generation;
    bool is_put; /* there was an answer to give */
    struct pfl_order_answer answer;
    int rc; /* 0, PFL_ELIMIT (the disk is full), PFL_EIO: the file of before stays */
};

struct pfl_order_files_conf {
    const char *path;              /* borrowed until close */
    struct pfl_segments *segments; /* likewise */
    void (*on_kept)(void *user, const struct pfl_order_kept *kept);
    void *user;
};

struct pfl_order_files {
    struct pfl_order_files_conf conf;
    int dir;
    struct pfl_sha256 *sha256; /* owned; of names */
    struct pfl_list keeps;
};

/* PFL_EIO (errno), PFL_ENOMEM; close is legal then. */
PFL_MUST_USE int pfl_order_files_open(struct pfl_order_files *self,
                                      const struct pfl_order_files_conf *conf);
/* Files that are being written will be; on_kept does not follow. */
void pfl_order_files_close(struct pfl_order_files *self);
/* Puts all into the table; what is not an order that this user wrote is removed. PFL_EIO,
 * PFL_ENOMEM.
 */
PFL_MUST_USE int pfl_order_files_read(const struct pfl_order_files *self,
                                      struct pfl_host_orders *host_orders);
/* on_kept follows, with `answer` (NULL: it is no put). PFL_ELIMIT, PFL_ENOMEM, PFL_EIO: nothing
 * follows, and the file of before stays. */
PFL_MUST_USE int pfl_order_files_keep(struct pfl_order_files *self,
                                      const Perfleet__HostOrder *order,
                                      const struct pfl_order_answer *answer,
                                      struct pfl_order_keep **ret_keep);
/* Nobody asks any more. */
void pfl_order_keep_cancel(struct pfl_order_keep *keep);
/* PFL_ENOMEM, PFL_EIO: the file stays. */
PFL_MUST_USE int pfl_order_files_remove(struct pfl_order_files *self,
                                        const Perfleet__HostOrder *order);

#endif
