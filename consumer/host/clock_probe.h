/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures a host's boot clock through its consumer port, on a connection that owns no session. A
 * session without buffers is started and flushed repeatedly; the service records the begin and end
 * of each flush on its boot clock, and these events are read at the end. Works with every service
 * that speaks the protocol.
 */
#ifndef PFL_CONSUMER_CLOCK_PROBE_H
#define PFL_CONSUMER_CLOCK_PROBE_H

#include "consumer/clock/clock_sync.h"
#include "consumer/host/host_conn.h"
#include "proto/packet_scan.h"

#define PFL_CLOCK_PROBE_ROUNDS 32u /* the service remembers 64 */

struct pfl_clock_probe {
    struct pfl_host_conn *conn; /* borrowed from start until on_done */
    /* `line` is NULL if the host could not be measured. Called from the loop. */
    void (*on_done)(void *user, const struct pfl_clock_line *line);
    void *user;
    bool is_running;
    unsigned rounds; /* answered so far */
    unsigned begun;  /* events read back */
    unsigned ended;
    struct pfl_clock_sample samples[PFL_CLOCK_PROBE_ROUNDS];
    struct pfl_packet_scan scan; /* owned while running */
};

/* Starts one measurement; `self` is zeroed or finished. On failure nothing was started. */
PFL_MUST_USE int
pfl_clock_probe_start(struct pfl_clock_probe *self, struct pfl_host_conn *conn,
                      void (*on_done)(void *user, const struct pfl_clock_line *line), void *user);
/* The connection is closed: on_done is not called any more. Legal on a zeroed probe. */
void pfl_clock_probe_fini(struct pfl_clock_probe *self);

#endif
