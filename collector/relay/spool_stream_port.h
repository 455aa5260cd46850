/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream to one host's spool: requests, and replies one at a time. Callbacks run from the loop,
 * and from pfl_spool_stream_resume.
 */
#ifndef PFL_COLLECTOR_RELAY_SPOOL_STREAM_PORT_H
#define PFL_COLLECTOR_RELAY_SPOOL_STREAM_PORT_H

#include "perfleet/spool.pb-c.h"
#include "tunnel/client.h"

#define PFL_SPOOL_STREAM_FRAME_MAX_BYTES (1u << 20)
#define PFL_SPOOL_STREAM_HELD_MAX_BYTES  (4u << 20) /* frames that wait for resume */

struct pfl_spool_stream;

struct pfl_spool_stream_conf {
    uv_loop_t *loop;
    struct pfl_tunnel_client *client; /* borrowed; closing it breaks the stream */
    const char *host;
    const char *orderer; /* act for this operator; NULL: for itself */
    void (*on_ready)(void *user);
    /* `reply` is taken. No further one comes before pfl_spool_stream_resume. */
    void (*on_reply)(void *user, Perfleet__SpoolReply *reply);
    /* Last callback, when the stream breaks. `err`: PFL_EPERM (refused by the policy), PFL_ENOENT
     * (the host has no spool), PFL_ECLOSED and others. */
    void (*on_closed)(void *user, int err, const char *why);
    void *user;
};

PFL_MUST_USE int pfl_spool_stream_open(const struct pfl_spool_stream_conf *conf,
                                       struct pfl_spool_stream **ret_stream);
/* PFL_ESTATE: it is closed; PFL_ELIMIT: too much waits to be sent; PFL_ENOMEM. */
PFL_MUST_USE int pfl_spool_stream_send(struct pfl_spool_stream *self,
                                       const Perfleet__SpoolRequest *request);
void pfl_spool_stream_resume(struct pfl_spool_stream *self);
/* No callback follows. NULL is legal. */
void pfl_spool_stream_close(struct pfl_spool_stream *self);

#endif
