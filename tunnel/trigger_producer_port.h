/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Raises triggers at the tracing service of this host, as a producer would: connects to its
 * producer socket, sends its name, activates the triggers and waits for the service's reply.
 */
#ifndef PFL_TUNNEL_TRIGGER_PRODUCER_PORT_H
#define PFL_TUNNEL_TRIGGER_PRODUCER_PORT_H

#include <uv.h>

#include "base/bytes.h"
#include "base/err.h"

#define PFL_TRIGGER_PRODUCER_TIMEOUT_MS   10000u
#define PFL_TRIGGER_PRODUCER_TRIGGERS_MAX 64u
#define PFL_TRIGGER_PRODUCER_BYTES_MAX    4096u /* name and triggers together */

struct pfl_trigger_producer;

struct pfl_trigger_producer_conf {
    uv_loop_t *loop;           /* borrowed */
    const char *socket;        /* borrowed until open returns: path or "@name" */
    const char *producer_name; /* borrowed until open returns; the producer's name in the trace */
    const struct pfl_span *triggers; /* borrowed until open returns */
    size_t triggers_len;
    /* Once, from the loop: 0, PFL_ECLOSED (the service closed the connection), PFL_ETIMEOUT,
     * PFL_EPROTO (it refused), or the error of an invocation. Frees the object. */
    void (*on_done)(void *user, int err);
    void *user;
};

/* Errors of pfl_fdsock_connect_service; PFL_ELIMIT, PFL_ENOMEM. Then on_done is not called. */
PFL_MUST_USE int pfl_trigger_producer_open(const struct pfl_trigger_producer_conf *conf,
                                           struct pfl_trigger_producer **ret_producer);
/* on_done follows, with PFL_ECLOSED unless it is done already. Idempotent. */
void pfl_trigger_producer_close(struct pfl_trigger_producer *self);

/* The default producer socket of this host's service: static or from the environment; the first one
 * if PERFETTO_PRODUCER_SOCK_NAME has several. */
const char *pfl_trigger_producer_default_socket(void);
/* The producer socket next to `consumer_socket`: the same name with "producer" for "consumer"; the
 * default if it has no such word. Static, until the next call. */
const char *pfl_trigger_producer_socket_beside(const char *consumer_socket);

#endif
