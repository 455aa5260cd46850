/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs: neighbouring short packets of one sequence in a ReadBuffers reply, with what they all end
 * in said once. Our own extension, which a consumer asks for; who does not gets slices alone.
 *
 *     ReadBuffersRequest   perfleet_accepts_runs = 50001
 *     ReadBuffersResponse  slices = 2, perfleet_runs = 50001, in any mixture: order is the packets'
 *     PacketRun            tail = 1, packets = 2: both once, in this order
 *     packets              {varint length, bytes}...: at least one; each packet is these bytes and
 *                          then `tail`. The varint may be spelled in any legal way.
 *
 * A run never stands inside a packet that is open (a slice without last_slice_for_packet came).
 * What carries a loss, is PFL_RUN_PACKET_MAX_BYTES long or longer, or was made by the service
 * itself still comes in slices. A service that does not know the request's field ignores it.
 */
#ifndef PFL_PROTO_PACKET_RUN_H
#define PFL_PROTO_PACKET_RUN_H

#define PFL_READ_ACCEPTS_RUNS_FIELD 50001u /* of ReadBuffersRequest */
#define PFL_READ_RUNS_FIELD         50001u /* of ReadBuffersResponse */

enum pfl_run_field {
    PFL_RUN_TAIL = 1,
    PFL_RUN_PACKETS = 2,
};

#define PFL_RUN_TAIL_MAX_BYTES 64u
/* The service's line, without the tail; a reader takes any length. */
#define PFL_RUN_PACKET_MAX_BYTES 4096u

#endif
