/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A central trace buffer with the V2 semantics of docs/abi/tracebuffer.md: chunks in, whole packets
 * out, oldest first, per-sequence order by chunk id. A core: no I/O, no clock, no log.
 *
 * Everything that comes from shared memory is untrusted and may change while it is read: a chunk is
 * copied once into the ring and checked there.
 *
 * A buffer may have VMs (service/vm): they receive, packet by packet, what is overwritten unread.
 */
#ifndef PFL_SERVICE_TRACE_BUFFER_H
#define PFL_SERVICE_TRACE_BUFFER_H

#include <sys/uio.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/hash.h"

struct pfl_long_packet;
struct pfl_shares;
struct pfl_trace_buffer;
struct pfl_vm_set;
struct pfl_vm_set_conf;

enum pfl_fill_policy {
    PFL_FILL_RING_BUFFER = 0,
    PFL_FILL_DISCARD = 1,
};

struct pfl_trace_buffer_conf {
    uint64_t size_bytes; /* > 0, at most UINT32_MAX; rounded up to 4096 */
    enum pfl_fill_policy fill_policy;
    struct pfl_hash_key hash_key; /* for the tables of writers, whose ids producers choose */
    struct pfl_shares *charged;   /* for their memory, bytes; borrowed; NULL: nobody is charged */
};

/* The names and numbers of TraceStats.BufferStats (docs/abi/tracebuffer.md section 8). */
struct pfl_trace_buffer_stats {
    uint64_t buffer_size;
    uint64_t bytes_written;
    uint64_t bytes_overwritten;
    uint64_t bytes_read;
    uint64_t padding_bytes_written;
    uint64_t padding_bytes_cleared;
    uint64_t chunks_written;
    uint64_t chunks_rewritten;
    uint64_t chunks_relocated;
    uint64_t chunks_overwritten;
    uint64_t chunks_discarded;
    uint64_t chunks_read;
    uint64_t chunks_committed_out_of_order;
    uint64_t write_wrap_count;
    uint64_t patches_succeeded;
    uint64_t patches_failed;
    uint64_t readaheads_succeeded;
    uint64_t readaheads_failed;
    uint64_t abi_violations;
    uint64_t trace_writer_packet_loss;
};

/*
 * What a producer may cost in all buffers together, besides what each request has: its chunks earn
 * it, up to a maximum. Starts with zeros.
 */
struct pfl_trace_buffer_credit {
    uint32_t spent;    /* records that were passed for chunks and patches that came late */
    uint32_t searched; /* of these, and free ones, since was_long of commit.c said so */
    uint32_t looks;    /* records that may be looked at for packets that are overwritten */
};

/* One SMB chunk as it is committed or scraped. */
struct pfl_trace_buffer_chunk {
    uint16_t producer_id;
    uint32_t producer_serial; /* tells it from an earlier producer with this id */
    uint16_t writer_id;
    uint32_t chunk_id;
    uint16_t fragments;     /* the header's count */
    uint8_t flags;          /* enum pfl_chunk_flags of abi/chunk.h: 1, 2, 4 */
    bool is_complete;       /* false: scraped while being written */
    const uint8_t *payload; /* after the chunk header; may be shared memory that changes */
    size_t payload_bytes;
    /* The writer's identity, for the packets' trusted fields; kept with the sequence. */
    uint32_t producer_uid;
    int64_t producer_pid;                   /* -1 unknown */
    uint32_t machine_id;                    /* 0 = this host */
    uint64_t who;                           /* is charged for the writer's sequence: shares.h */
    struct pfl_trace_buffer_credit *credit; /* the producer's; borrowed until return; NULL: none */
};

struct pfl_trace_buffer_patch {
    uint32_t offset_untrusted; /* from the first payload byte */
    uint8_t data[4];
};

/* Memory is mapped without reserve and touched as it fills. PFL_ENOMEM, PFL_ELIMIT (size). */
PFL_MUST_USE int pfl_trace_buffer_new(const struct pfl_trace_buffer_conf *conf,
                                      struct pfl_trace_buffer **ret_buffer);
void pfl_trace_buffer_free(struct pfl_trace_buffer *self); /* NULL is legal */

/*
 * For a clone of the session (trace_buffer_clone.c). Both results are read-only, start where the
 * source's next pass would start, and count what is read from 0.
 * clone copies everything except the bytes in the ring; copy_more copies these, as they are now.
 * Before the clone is whole, do not read, take or clone it. VMs are copied as they are now, and do
 * not run in the copy.
 * take moves the content and leaves `self` empty at its address. VMs move with it, and `self` has
 * none then, as upstream.
 * PFL_ENOMEM, PFL_ELIMIT, PFL_ESTATE (can_clone is false): `self` is unchanged.
 */
PFL_MUST_USE int pfl_trace_buffer_clone(struct pfl_trace_buffer *self,
                                        struct pfl_trace_buffer **ret_clone);
PFL_MUST_USE int pfl_trace_buffer_take(struct pfl_trace_buffer *self,
                                       struct pfl_trace_buffer **ret_taken);
/* Copies up to `*budget_bytes` of the bytes that a clone still lacks, and subtracts what it
 * copied. */
void pfl_trace_buffer_copy_more(struct pfl_trace_buffer *self, uint32_t *budget_bytes);
/* False: a clone that still lacks bytes. */
bool pfl_trace_buffer_is_whole(const struct pfl_trace_buffer *self);
/* True if it is whole, and no clone of it lacks bytes. */
bool pfl_trace_buffer_can_clone(const struct pfl_trace_buffer *self);
/* Whether anything was ever stored. */
bool pfl_trace_buffer_has_data(const struct pfl_trace_buffer *self);

/* From now on a VM receives what this producer loses here: pfl_vm_set_add, with its codes. */
PFL_MUST_USE int pfl_trace_buffer_add_vm(struct pfl_trace_buffer *self,
                                         const struct pfl_vm_set_conf *conf);
/* Borrowed; NULL when there are none. */
const struct pfl_vm_set *pfl_trace_buffer_get_vms(const struct pfl_trace_buffer *self);
/* An upper bound of the size of its VMs' states. */
size_t pfl_trace_buffer_get_vm_bytes(const struct pfl_trace_buffer *self);
/* What its table of writers takes, nearly. A clone's is charged to nobody: its owner pays it. */
uint64_t pfl_trace_buffer_get_table_bytes(const struct pfl_trace_buffer *self);

/* Never fails for the caller: what cannot be stored is counted. */
void pfl_trace_buffer_commit(struct pfl_trace_buffer *self,
                             const struct pfl_trace_buffer_chunk *chunk);
/* A batch for one chunk; offsets and values are the peer's. */
struct pfl_trace_buffer_patches {
    uint16_t producer_id;
    uint32_t producer_serial;
    uint16_t writer_id;
    uint32_t chunk_id;
    bool has_more_patches;
    const struct pfl_trace_buffer_patch *patches; /* borrowed until return */
    size_t patches_len;
    struct pfl_trace_buffer_credit *credit; /* as in a chunk */
};
void pfl_trace_buffer_patch(struct pfl_trace_buffer *self,
                            const struct pfl_trace_buffer_patches *batch);

/* Used payload bytes of the chunks that a writer committed: TraceStats.writer_stats. The last entry
 * counts what is larger than every bound. */
#define PFL_USAGE_BOUNDS 10u
extern const uint32_t pfl_trace_buffer_usage_bounds[PFL_USAGE_BOUNDS];
struct pfl_trace_buffer_usage {
    uint64_t sums[PFL_USAGE_BOUNDS + 1];
    uint32_t counts[PFL_USAGE_BOUNDS + 1];
};

#define PFL_TRUSTED_MAX_BYTES 40u

/* A sequence as the reader knows it. Its address is stable while it has chunks in the buffer. Of
 * sequences without chunks, the 1024 most recently emptied are kept. */
struct pfl_trace_buffer_source {
    uint16_t producer_id;
    uint16_t writer_id;
    uint32_t producer_serial;
    uint32_t producer_uid;
    uint64_t who;
    int64_t producer_pid;
    uint32_t machine_id;
    /* Belongs to the reader: zeroed when the sequence appears, never touched by the buffer. The
     * session keeps its packet sequence id (0: none yet) and the encoded trusted fields here. */
    uint32_t packet_sequence_id;
    uint8_t trusted_len;
    uint8_t trusted[PFL_TRUSTED_MAX_BYTES];
    struct pfl_trace_buffer_usage usage;
};

struct pfl_trace_buffer_packet {
    const struct iovec *slices; /* into the ring; borrowed until the next call on the buffer */
    size_t slices_len;          /* >= 1, at most PFL_PACKET_SLICES_MAX */
    size_t bytes;
    uint32_t loss_reasons; /* DataLossReason bits, 0 = nothing lost before it */
    bool is_long;          /* its one slice is not in the ring: pfl_trace_buffer_take_long */
    bool is_valid;         /* only if it is long: the result of pfl_packet_is_valid */
    struct pfl_trace_buffer_source *source;
};

/* A packet of 2^28 bytes in chunks of 4 KiB takes half of this. */
#define PFL_PACKET_SLICES_MAX 131072u

/* Starts a pass: sequences that stalled in the last one are looked at again. */
void pfl_trace_buffer_begin_read(struct pfl_trace_buffer *self);
/*
 * Consumes the next packet. False: the end of the pass, until the next begin_read; or a pause.
 * Packets of size 0 are skipped. Calls to commit and patch are legal between two calls: what they
 * add, and a sequence that was waiting for it, is read in the same pass. A packet of many chunks
 * needs an allocated array of slices. If that fails, or it has more than PFL_PACKET_SLICES_MAX, the
 * packet is dropped and the next one of the sequence carries a loss.
 */
bool pfl_trace_buffer_read(struct pfl_trace_buffer *self,
                           struct pfl_trace_buffer_packet *ret_packet);

/* Moves the memory of the last packet that read returned, which is long, to the caller
 * (service/buffer/gather.h). Its slice stays valid until the memory is freed. */
void pfl_trace_buffer_take_long(struct pfl_trace_buffer *self, struct pfl_long_packet *ret_packet);
/* The reader ends this pass early: frees the memory of an incomplete long packet. */
void pfl_trace_buffer_end_read(struct pfl_trace_buffer *self);

/* After read returned false: it looked at many records without a packet, or is in the middle of a
 * long packet, and continues at the next call. Otherwise the pass is at its end. */
bool pfl_trace_buffer_is_paused(const struct pfl_trace_buffer *self);

/*
 * The rest of the record that the last packet was read from, for a caller that takes short packets
 * directly: fragments that are whole packets of `source` without a loss. The last fragment, which
 * ends at `end`, must be taken by read. Empty if there is no such record, or if the next packet
 * carries a loss. A fragment of 0 bytes, or with an invalid size, must be taken by read, too.
 */
struct pfl_trace_buffer_stretch {
    struct pfl_trace_buffer_source *source;
    const uint8_t *pos;
    const uint8_t *end;
};
struct pfl_trace_buffer_stretch pfl_trace_buffer_get_stretch(const struct pfl_trace_buffer *self);
/* Consumes the fragments before `pos`, which must be the start of a fragment. */
void pfl_trace_buffer_take_stretch(struct pfl_trace_buffer *self, const uint8_t *pos);

void pfl_trace_buffer_stats_get(const struct pfl_trace_buffer *self,
                                struct pfl_trace_buffer_stats *ret_stats);
/* The filled part of its size: all of it once the ring has wrapped. */
uint64_t pfl_trace_buffer_get_used_bytes(const struct pfl_trace_buffer *self);
/* Calls `each` for every sequence that ever wrote, in no order. For a forgotten one only the ids,
 * `who` and the usage are set. */
void pfl_trace_buffer_each_source(const struct pfl_trace_buffer *self,
                                  void (*each)(void *user, const struct pfl_trace_buffer_source *s),
                                  void *user);

#endif
