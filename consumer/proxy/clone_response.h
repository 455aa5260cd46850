/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of a clone's own packets belongs behind the packets of its source: what the service tells of
 * the clone. Everything else is in the source's file already, under its own sequences' ids. Pure.
 */
#ifndef PFL_CONSUMER_CLONE_RESPONSE_H
#define PFL_CONSUMER_CLONE_RESPONSE_H

#include "base/buf.h"

/* Larger packets are none that a service tells of a clone. */
#define PFL_CLONE_RESPONSE_PACKET_MAX (256u << 10)

/*
 * Appends the packet, as a trace file has it, when it is one of the service's about the clone: its
 * identity, events, triggers, statistics (those of writers excepted, which go by the clone's ids).
 * Appends nothing otherwise. PFL_EPARSE, PFL_ENOMEM, PFL_ELIMIT.
 */
PFL_MUST_USE int pfl_clone_response_take_packet(struct pfl_span packet, struct pfl_buf *out);
struct pfl_clone_response {
    bool is_ok;
    bool is_for_descriptor; /* refused: a descriptor is needed, for the host's own file */
    uint64_t uuid_lsb;
};

/* Of a CloneSessionResponse. PFL_EPARSE. */
PFL_MUST_USE int pfl_clone_response_parse(struct pfl_span body,
                                          struct pfl_clone_response *ret_answer);
/* Makes a CloneSessionResponse one of a session that writes into a file. PFL_ENOMEM, PFL_ELIMIT. */
PFL_MUST_USE int pfl_clone_response_mark(struct pfl_buf *body);
/* A CloneSessionResponse that says why there is no clone. PFL_ENOMEM, PFL_ELIMIT. */
PFL_MUST_USE int pfl_clone_response_refuse(const char *why, struct pfl_buf *out);

#endif
