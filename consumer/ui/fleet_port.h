/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A consumer port for many hosts at once: what a client records here is recorded on all of them and
 * returned as one merged trace. Implements as much of the port as the Perfetto UI's recording page
 * uses.
 */
#ifndef PFL_CONSUMER_UI_FLEET_PORT_H
#define PFL_CONSUMER_UI_FLEET_PORT_H

#include "consumer/ui/fleet_run.h"

#define PFL_FLEET_MAX_RECORDINGS 4u /* of all clients, including those being read */
/* Of one client: a page requests it again when its user selects the target again. */
#define PFL_FLEET_MAX_STATE_REQUESTS 8u
/* Replies queued to a client that does not read: above the first limit its trace waits. */
#define PFL_FLEET_QUEUE_HIGH_BYTES (1u << 20)
#define PFL_FLEET_QUEUE_MAX_BYTES  (16u << 20)

struct pfl_fleet;

struct pfl_fleet_conf {
    /* Hosts, connections, step timeout, quorum and wait; what it borrows lives until on_closed. */
    struct pfl_recording_conf recording;
    uint64_t max_trace_bytes; /* 0: PFL_FLEET_TRACE_MAX_BYTES */
    const char *version;      /* borrowed; this program's, for the state */
    /* A client's connection ended, or hosts are missing from its trace, with a reason; "" if the
     * client disconnected. */
    void (*on_client_gone)(void *user, const char *why);
    void (*on_closed)(void *user); /* last callback */
    void *user;
};

/* PFL_ENOMEM. */
PFL_MUST_USE int pfl_fleet_open(const struct pfl_fleet_conf *conf, struct pfl_fleet **ret_fleet);
/* Adds a client: takes `fd`, a connected socket. */
void pfl_fleet_adopt(struct pfl_fleet *self, int fd);
/* Asynchronous, idempotent: recordings are aborted. */
void pfl_fleet_close(struct pfl_fleet *self);

#endif
