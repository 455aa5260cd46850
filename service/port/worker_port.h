/* SPDX-License-Identifier: Apache-2.0 */
/* Work of the cores in a few threads, which are made as work comes. */
#ifndef PFL_SERVICE_WORKER_PORT_H
#define PFL_SERVICE_WORKER_PORT_H

#include <stdbool.h>

#include "base/io/wakeup.h"
#include "base/shares.h"
#include "service/session/work.h"

#define PFL_WORKERS_MAX 8u

struct pfl_worker_port {
    struct pfl_wakeup *wakeup; /* borrowed */
    uv_mutex_t lock;           /* for the queue and what follows */
    uv_cond_t wake;
    struct pfl_worker_request *first; /* in the order they came; owned */
    struct pfl_worker_request *last;
    unsigned queued;
    unsigned waiting;          /* threads */
    struct pfl_shares running; /* works, by user */
    bool is_closing;
    uv_thread_t threads[PFL_WORKERS_MAX];
    unsigned threads_len;
};

/* `self` must not move. PFL_ENOMEM. */
PFL_MUST_USE int pfl_worker_port_open(struct pfl_worker_port *self, struct pfl_wakeup *wakeup);
/* Whose service it is: not bound by a share. Before any work. */
void pfl_worker_port_set_owner(struct pfl_worker_port *self, uint32_t uid);
/* When all work is done: the loop has run dry. */
void pfl_worker_port_close(struct pfl_worker_port *self);

/* `work->done` follows on the loop, which stays alive until then. PFL_ENOMEM, PFL_EIO. */
PFL_MUST_USE int pfl_worker_port_submit(struct pfl_worker_port *self, struct pfl_work *work);

#endif
