/* SPDX-License-Identifier: Apache-2.0 */
/* The copiers' processes, for service/core/copies.h: their sockets, watched by the loop, and their
 * areas. Their parent forks them (service/copy/copier_parent.h). */
#ifndef PFL_SERVICE_COPIER_PORT_H
#define PFL_SERVICE_COPIER_PORT_H

#include <uv.h>

#include "service/core/copies.h"

/* Zero-initialized. */
struct pfl_copier_port {
    uv_loop_t *loop;      /* borrowed */
    int parent;           /* owned: the socket of the copiers' parent */
    uint32_t last_number; /* of a copier */
    bool is_parent_lost;  /* which was noted */
};

/* `user` of these is the port. */
extern const struct pfl_copies_ops pfl_copier_port_ops;

/* `parent` becomes the port's. */
void pfl_copier_port_open(struct pfl_copier_port *self, uv_loop_t *loop, int parent);
/* All copiers have been closed. Their parent ends. */
void pfl_copier_port_close(struct pfl_copier_port *self);

#endif
