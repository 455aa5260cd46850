/* SPDX-License-Identifier: Apache-2.0 */
/* The consumer socket: connections that speak ConsumerPort, on one listening address. */
#ifndef PFL_SERVICE_CONSUMER_PORT_H
#define PFL_SERVICE_CONSUMER_PORT_H

#include "service/port/port.h"

struct pfl_consumer_port;

/* Replies a consumer may leave unread before it is disconnected; reads and queries stay far
 * below. */
#define PFL_CONSUMER_QUEUE_BYTES (16u << 20)
/* Bytes for one reader in a turn of the loop. */
#define PFL_CONSUMER_TURN_BYTES (256u << 10)

/* PFL_EINVAL, PFL_EIO (logged), PFL_ENOMEM. */
PFL_MUST_USE int pfl_consumer_port_open(const struct pfl_port_conf *conf,
                                        struct pfl_consumer_port **ret_port);
/* As pfl_producer_port_adopt. */
PFL_MUST_USE int pfl_consumer_port_adopt(struct pfl_consumer_port *self, int fd);
/* Sends the observed events of this loop turn: call before the loop waits. */
void pfl_consumer_port_send_observed(struct pfl_consumer_port *self);
/* Bytes queued for all consumers, and the longest queue. */
void pfl_consumer_port_get_queued(const struct pfl_consumer_port *self, uint64_t *ret_bytes,
                                  uint64_t *ret_longest_bytes);
/* Asynchronous: closes listener and connections, which frees their sessions; then on_closed. */
void pfl_consumer_port_close(struct pfl_consumer_port *self);

#endif
