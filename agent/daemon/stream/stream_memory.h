/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state for the agent's next process, to continue a stream: one memfd with a record of
 * positions, and the bytes that they refer to (docs/adr/0026). A process may die between any two
 * instructions: bytes are written where the current record does not refer to, and then the next
 * record is published as a whole. The kernel itself notes system calls that move bytes: struct
 * pfl_noted_call.
 *
 *     service --> read (before a gate) --> pipe (before zstd) --> out (until credited)
 *                                                             \-> spool ring -> file -/
 *     operator --> frame (that a gate let through) --> service
 */
#ifndef PFL_AGENT_STREAM_MEMORY_H
#define PFL_AGENT_STREAM_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "agent/daemon/stream/spool_port.h"
#include "proto/tunnel/identity.h"
#include "proto/tunnel/replay.h"
#include "proto/tunnel/tunnel.h"

/* The areas, in bytes. */
#define PFL_STREAM_READ_BYTES (256u * 1024)
#define PFL_STREAM_PIPE_BYTES (1024u * 1024)

/*
 * recvmmsg or sendmmsg of one message, whose struct is in the memory: the kernel writes the number
 * of moved bytes (msg_len) before the call returns, and a kill takes effect only then. So after a
 * death this shows what the last call did. `at` is the record's count of such calls when it was
 * made.
 */
struct pfl_noted_call {
    _Atomic uint64_t at;
    struct mmsghdr message;
};

/* Call it before each such call. */
void pfl_noted_call_begin(struct pfl_noted_call *self, uint64_t at);
/* Bytes moved by a call that was made at `at` and is not in the record; 0: none, or no call. */
size_t pfl_noted_call_get(const struct pfl_noted_call *self, uint64_t at);

/* Positions count bytes since the stream's start, unless stated to be a ring's. */
struct pfl_stream_record {
    uint64_t
        in_used; /* the operator's bytes that were sent to the service, or judged by the gate */
    uint32_t passing_bytes; /* of the frame that the gate permitted; 0: none in progress */
    uint32_t passed_bytes;  /* those of it that were sent to the service */
    uint64_t reads;         /* calls that moved bytes from the service, */
    uint64_t writes;        /* and to it */
    uint64_t pipe_begin;    /* the ring's */
    uint64_t pipe_end;
    uint64_t out_base;
    uint64_t out_end;
    uint64_t out_capacity; /* 0: no ring */
    struct pfl_spool_state spool;
    uint32_t gate_bytes; /* of the saved gate */
    uint32_t gate_slot;
    uint64_t orphan_since_ms; /* CLOCK_BOOTTIME; 0: an HTTP/2 stream carries it */
    uint32_t h2_streams;
    /* Bools, in memory that another process wrote. */
    uint8_t is_frame_open;   /* zstd's */
    uint8_t is_encoded;      /* the end of the encoding was delivered */
    uint8_t is_service_over; /* the service sends no more */
    uint8_t is_in_over;      /* the operator sends no more, and all of it is used */
    uint8_t is_end_sent;     /* our end was sent to the operator */
};

/* Constant facts. */
struct pfl_stream_facts {
    uint64_t out_max_bytes;
    uint64_t ttl_ms;
    uint64_t begin_ms; /* CLOCK_BOOTTIME */
    uint8_t is_zstd;
    uint8_t has_gate;
    char id[PFL_TUNNEL_STREAM_ID_BYTES];
    char operator_name[PFL_IDENTITY_NAME_BYTES];
};

struct pfl_stream_memory;

/* PFL_ENOMEM, PFL_ELIMIT (too large a ring, or larger than the process's limit of file sizes). */
PFL_MUST_USE int pfl_stream_memory_new(const struct pfl_stream_facts *facts,
                                       struct pfl_stream_memory **ret_memory);
/* Maps the memory of a dead process. Takes `fd` on success. PFL_EPARSE: not such a memory, another
 * version, or inconsistent; PFL_ENOMEM. */
PFL_MUST_USE int pfl_stream_memory_take_back(int fd, struct pfl_stream_memory **ret_memory);
/* Call before and after continuing with such a memory. False: so many processes died while doing it
 * that the next one would, too. */
bool pfl_stream_memory_begin_try(struct pfl_stream_memory *self);
void pfl_stream_memory_end_try(struct pfl_stream_memory *self);
void pfl_stream_memory_free(struct pfl_stream_memory *self); /* NULL is legal */
/* The same, and the descriptor stays open. */
void pfl_stream_memory_forget(struct pfl_stream_memory *self);

int pfl_stream_memory_get_fd(const struct pfl_stream_memory *self);
const struct pfl_stream_facts *pfl_stream_memory_get_facts(const struct pfl_stream_memory *self);
/* As last published. */
const struct pfl_stream_record *pfl_stream_memory_get_record(const struct pfl_stream_memory *self);
/* Makes this the record. Sets `gate_slot`; see get_gate_room. */
void pfl_stream_memory_publish(struct pfl_stream_memory *self,
                               const struct pfl_stream_record *record);

struct pfl_noted_call *pfl_stream_memory_get_reading(struct pfl_stream_memory *self);
struct pfl_noted_call *pfl_stream_memory_get_writing(struct pfl_stream_memory *self);
uint8_t *pfl_stream_memory_get_read(struct pfl_stream_memory *self);
/* PFL_FRAME_MAX_BYTES. Holds the permitted frame, because the operator may resend something
 * else. */
uint8_t *pfl_stream_memory_get_frame(struct pfl_stream_memory *self);
uint8_t *pfl_stream_memory_get_pipe(struct pfl_stream_memory *self);
uint8_t *pfl_stream_memory_get_spool(struct pfl_stream_memory *self);
/* Space for the gate's state of the next published record, and the published state. */
struct pfl_writer pfl_stream_memory_get_gate_room(struct pfl_stream_memory *self);
struct pfl_span pfl_stream_memory_get_gate(const struct pfl_stream_memory *self);
/* For pfl_replay_set_memory. Released memory is dropped when the next record is published. */
const struct pfl_replay_memory *pfl_stream_memory_get_out(struct pfl_stream_memory *self);

#endif
