/* SPDX-License-Identifier: Apache-2.0 */
/* The producer socket: connections that speak ProducerPort, on one listening address. */
#ifndef PFL_SERVICE_PRODUCER_PORT_H
#define PFL_SERVICE_PRODUCER_PORT_H

#include "service/port/port.h"

struct pfl_producer_port;

/* Commands and replies a producer may leave unread before it is disconnected. */
#define PFL_PRODUCER_QUEUE_BYTES (1u << 20)
#define PFL_PRODUCER_TURN_BYTES  (4u << 10) /* read from one producer in a turn of the loop */
#define PFL_PRODUCER_TURN_NS     75000u     /* of one user's producers, in a turn of the loop */

/* PFL_EINVAL, PFL_EIO (logged), PFL_ENOMEM. */
PFL_MUST_USE int pfl_producer_port_open(const struct pfl_port_conf *conf,
                                        struct pfl_producer_port **ret_port);
/* Takes a connected socket as if it had been accepted: for inherited sockets and tests. On failure
 * `fd` is closed. */
PFL_MUST_USE int pfl_producer_port_adopt(struct pfl_producer_port *self, int fd);
/* 0 if it is not a TCP socket. */
uint16_t pfl_producer_port_get_tcp_port(const struct pfl_producer_port *self);
/* Asynchronous: closes listener and connections, then on_closed. */
void pfl_producer_port_close(struct pfl_producer_port *self);

#endif
