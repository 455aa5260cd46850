/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs: adjacent short packets of one sequence in a ReadBuffers reply, in columns, with their
 * common end written once. Our own extension, on request of the consumer; others get only slices.
 *
 *     ReadBuffersRequest   perfleet_accepts_runs = 50001
 *     ReadBuffersResponse  slices = 2, perfleet_runs = 50001, in any mixture: order is the packets'
 *     PacketRun            tail = 1, rest = 2, times = 3, lengths = 4: each once, in this order
 *
 *     lengths  of each packet: varint (its bytes in `rest`) << 1 | whether it begins with a time
 *     times    of each that does: the varint of its first field, which is timestamp (8)
 *     rest     of each: what is behind its time, or all of it
 *     packet   [40 time] rest tail
 *
 * There is at least one packet; the last one uses up `rest` and `times`. Varints may have any legal
 * form of at most 10 bytes. Times are separate from repetitive bytes, which helps the compressor:
 * docs/adr/0028. A run is never inside an open packet (after a slice without
 * last_slice_for_packet). Packets that carry a loss, have PFL_RUN_PACKET_MAX_BYTES or more, or were
 * made by the service itself are still sent in slices. A service that does not know the request's
 * field ignores it.
 */
#ifndef PFL_PROTO_PACKET_RUN_H
#define PFL_PROTO_PACKET_RUN_H

#define PFL_RUN_TIME_TAG 0x40u /* timestamp, varint */

#define PFL_RUN_TAIL_MAX_BYTES 64u
/* The service's threshold, without the tail; a reader accepts any length. */
#define PFL_RUN_PACKET_MAX_BYTES 4096u

_Static_assert(PFL_RUN_TAIL_MAX_BYTES < PFL_RUN_PACKET_MAX_BYTES, "a tail is part of a packet");

#endif
