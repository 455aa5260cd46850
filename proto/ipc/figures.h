/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perfleetd's counters in an answer: the fields of TracingServiceState.PerfleetFigures
 * (proto/perfetto/service_state.proto) by their numbers, each a varint.
 */
#ifndef PFL_PROTO_IPC_FIGURES_H
#define PFL_PROTO_IPC_FIGURES_H

#define PFL_FIGURES_FIELD  50001u /* in the request and in TracingServiceState */
#define PFL_LEFT_OUT_FIELD 50002u /* in TracingServiceState */

/* In a TracingSession: the number of triggers that clone it. */
#define PFL_CLONE_TRIGGERS_FIELD 50003u
/* In a TracingSession: the key under which it was detached, if that is not its name. */
#define PFL_DETACH_KEY_FIELD 50004u
/* In a TracingSession: those triggers, as TriggerConfig.Trigger; none if they are too long. */
#define PFL_TRIGGERS_TOLD_FIELD 50005u
/* In a TracingSession: its remaining duration in milliseconds, if it is limited. */
#define PFL_ENDS_IN_FIELD 50006u

enum pfl_figure {
    /* now */
    PFL_FIGURE_PRODUCERS = 1,
    PFL_FIGURE_PRODUCERS_SEEN = 2, /* since the service started, like all that follows "ever" */
    PFL_FIGURE_DATA_SOURCES = 3,
    PFL_FIGURE_CONSUMERS = 4,
    PFL_FIGURE_SESSIONS_SEEN = 5,
    PFL_FIGURE_SHARED_MEMORY_BYTES = 6,
    PFL_FIGURE_BUFFERS = 7,
    PFL_FIGURE_RING_BYTES = 8, /* as configured */
    PFL_FIGURE_RING_USED_BYTES = 9,
    PFL_FIGURE_DISCARD_BYTES = 10,
    PFL_FIGURE_DISCARD_USED_BYTES = 11,
    /* ever; of buffers without their clones */
    PFL_FIGURE_BYTES_WRITTEN = 12,
    PFL_FIGURE_BYTES_READ = 13,
    PFL_FIGURE_CHUNKS_WRITTEN = 14,
    PFL_FIGURE_LOST_BY_WRITERS = 15,
    PFL_FIGURE_MALFORMED_CHUNKS = 16,
    PFL_FIGURE_OVERWRITTEN_CHUNKS = 17,
    PFL_FIGURE_DISCARDED_CHUNKS = 18,
    PFL_FIGURE_FAILED_PATCHES = 19,
    PFL_FIGURE_CHUNKS_WITHOUT_BUFFER = 20,
    PFL_FIGURE_PATCHES_WITHOUT_BUFFER = 21,
    PFL_FIGURE_MISMATCHED_ENTRIES = 22,
    PFL_FIGURE_INVALID_PACKETS = 23,
    PFL_FIGURE_FLUSHES = 24,
    PFL_FIGURE_FAILED_FLUSHES = 25,
    PFL_FIGURE_CPU_NS = 26,
    PFL_FIGURE_LOOP_BUSY_NS = 27,
    PFL_FIGURE_LOOP_LONGEST_NS = 28,
    PFL_FIGURE_SEND_QUEUE_BYTES = 29, /* now: of all consumers */
    PFL_FIGURE_SEND_QUEUE_LONGEST_BYTES = 30,
    PFL_FIGURES = 31,
};

#endif
