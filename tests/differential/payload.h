/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fragments as words, and as the bytes they stand for.
 *
 *   ID/LEN      LEN bytes of a TracePacket that name ID: whole fields, so that fragments in any
 *               order and number make a packet that is valid and shows what it was made of
 *     s         the size as the shortest varint (otherwise four bytes)
 *     L         the size as a varint of six bytes
 *     r         brings a field that is reserved for the service
 *     d         brings previous_packet_dropped of its own
 *     f         brings first_packet_on_sequence
 *     b         is no packet: an impossible wire type
 *     +N        claims N bytes more than it has
 *   0           an empty fragment
 *   !           the writer's drop marker
 */
#ifndef PFL_TESTS_DIFFERENTIAL_PAYLOAD_H
#define PFL_TESTS_DIFFERENTIAL_PAYLOAD_H

#include "base/bytes.h"

/* Writes it at `w`; false when it does not fit (nothing was written) or is no such word. */
bool diff_payload_put(struct pfl_writer *w, const char *word);

/* FNV-1a of 32 bits, going on from `hash`. */
#define DIFF_HASH_BEGIN 2166136261u
uint32_t diff_hash(uint32_t hash, struct pfl_span bytes);

#endif
