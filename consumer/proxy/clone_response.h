/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects those of a clone's own packets that belong after the packets of its source: the service's
 * packets about the clone. Everything else is in the source's file already, under its own sequence
 * ids. Pure.
 */
#ifndef PFL_CONSUMER_CLONE_RESPONSE_H
#define PFL_CONSUMER_CLONE_RESPONSE_H

#include "base/buf.h"

/* The service's packets about a clone are smaller. */
#define PFL_CLONE_RESPONSE_PACKET_MAX (256u << 10)

/*
 * Appends the packet, encoded for a trace file, if it is one of the service's about the clone: its
 * identity, events, triggers, statistics (except those of writers, which use the clone's ids).
 * Otherwise appends nothing. PFL_EPARSE, PFL_ENOMEM, PFL_ELIMIT.
 */
PFL_MUST_USE int pfl_clone_response_take_packet(struct pfl_span packet, struct pfl_buf *out);
struct pfl_clone_response {
    bool is_ok;
    bool is_for_descriptor; /* refused: a descriptor is needed, for the host's own file */
    uint64_t uuid_lsb;
};

/* Parses a CloneSessionResponse. PFL_EPARSE. */
PFL_MUST_USE int pfl_clone_response_parse(struct pfl_span body,
                                          struct pfl_clone_response *ret_answer);
/* Marks a CloneSessionResponse as one of a session that writes into a file. PFL_ENOMEM,
 * PFL_ELIMIT. */
PFL_MUST_USE int pfl_clone_response_mark(struct pfl_buf *body);
/* A CloneSessionResponse with the reason why there is no clone. PFL_ENOMEM, PFL_ELIMIT. */
PFL_MUST_USE int pfl_clone_response_refuse(const char *why, struct pfl_buf *out);

#endif
