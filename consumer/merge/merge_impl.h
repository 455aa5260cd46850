/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by merge.c and merge_rewrite.c; private to them. */
#ifndef PFL_CONSUMER_MERGE_IMPL_H
#define PFL_CONSUMER_MERGE_IMPL_H

#include "base/buf.h"
#include "base/shares.h"
#include "consumer/merge/id_map.h"
#include "consumer/merge/interned.h"
#include "consumer/merge/kept_packets.h"
#include "consumer/merge/merge.h"
#include "consumer/merge/packet_view.h"
#include "proto/compressed.h"
#include "proto/packet_run.h"

#define PFL_TRACE_PACKET_TAG   0x0au /* Trace.packet, length-delimited */
#define PFL_MERGE_TAIL_BLOCK   32u   /* nearly all tails with their ids are shorter */
#define PFL_MERGE_IDS_MAX      16u   /* the ids that a packet gets */
#define PFL_MERGE_OWN_SEQUENCE 1u    /* of the packets that the merge itself writes */
#define PFL_SERVICE_SEQUENCE   1u    /* of the packets that a host's service itself writes */

/* TracePacket fields (docs/abi/fields.tsv). */

/* The trusted fields of packets, as written to the file. */
struct pfl_merge_tail {
    size_t len;
    uint32_t sequence; /* in the file; 0: none */
    uint8_t bytes[PFL_RUN_TAIL_MAX_BYTES + PFL_MERGE_IDS_MAX];
};

struct pfl_merge_host {
    char *name;                     /* owned */
    struct pfl_clock_point *points; /* owned */
    size_t points_len;
    struct pfl_clock_point last_point; /* that was written; of points_len != 0 */
    bool has_clock;
    int64_t offset_ns;
    int64_t drift_ns;
    int64_t error_ns;
    uint32_t machine_id;  /* 0 = the reference */
    bool is_same_machine; /* as another host, which has name and clock */
    struct pfl_id_map sequences;
    size_t payer; /* the host that counts the sequences of all its sessions and boots */
    struct pfl_shares sequences_of_users;   /* by the uid that the service wrote */
    struct pfl_shares sequences_of_subuids; /* of these, by uid, of uids that may be subordinate */
    struct pfl_shares all_sequences_of_users; /* likewise, of all for whom it counts */
    struct pfl_id_map machines;               /* remote machines of this host's service */
    struct pfl_kept_packets kept;
    struct pfl_packet_tail tail;
    struct pfl_merge_tail tail_out; /* of `tail`: at most PFL_MERGE_TAIL_BLOCK bytes */
    struct pfl_merge_stats stats;
};

struct pfl_merge {
    struct pfl_merge_sink sink;
    struct pfl_hash_key hash_key;
    struct pfl_merge_sink before; /* the previous file, while is_cutting */
    bool is_cutting;
    bool keeps_state;  /* what every file needs is kept */
    size_t kept_bytes; /* of a host */
    struct pfl_merge_host hosts[PFL_MERGE_MAX_HOSTS];
    size_t hosts_len;
    size_t reference; /* SIZE_MAX until known */
    uint32_t next_sequence;
    uint32_t next_machine;
    struct pfl_interned interned;
    struct pfl_buf scratch;
    struct pfl_compressed_decoder *decoder; /* owned; NULL: nothing is decoded */
    struct pfl_buf decoded;                 /* of the packet in progress; else empty */
    bool is_decoded;                        /* the packet in progress is one of these */
};

/* A packet that contains ids or clocks deeper inside. */
struct pfl_merge_special {
    uint32_t id;      /* of the field, one of the above */
    uint32_t machine; /* as the host wrote it */
    uint64_t timestamp_ns;
};

/* Of a sequence that may be new, of that user. PFL_ELIMIT: the user has its share of them already;
 * PFL_ENOMEM. */
PFL_MUST_USE int pfl_merge_map_sequence(struct pfl_merge *self, struct pfl_merge_host *h,
                                        uint64_t who, uint32_t from, uint32_t *ret_to);
#define PFL_MERGE_NOBODY (PFL_SHARES_UIDS | 1) /* no user is known */

/* Writes the rewritten packet to self->scratch; empty: the packet is omitted from the merged file.
 * PFL_EPARSE: malformed inside. */
PFL_MUST_USE int pfl_merge_rewrite(struct pfl_merge *self, struct pfl_merge_host *h,
                                   const struct pfl_merge_special *special, struct pfl_span packet);

/* `view` is the walk of a packet that is `tail` alone, of PFL_RUN_TAIL_MAX_BYTES at most. */
PFL_MUST_USE int pfl_merge_map_tail(struct pfl_merge *self, struct pfl_merge_host *h,
                                    const struct pfl_packet_view *view, struct pfl_span tail,
                                    struct pfl_merge_tail *ret_out);

/* Writes a packet unchanged to that file. */
PFL_MUST_USE int pfl_merge_emit(const struct pfl_merge_sink *sink, struct pfl_span packet);
/* Writes what pfl_merge_begin wrote, in its current state, and the kept packets, to self->sink. */
PFL_MUST_USE int pfl_merge_begin_again(struct pfl_merge *self);

/*
 * Call after a remote_clock_sync of a machine behind a host was written: writes a packet with a
 * timestamp of that machine (merge_preamble.c has the reason). No effect without a boot clock in
 * it.
 */
PFL_MUST_USE int pfl_merge_emit_pin(struct pfl_merge *self, struct pfl_span sync_packet);

#endif
