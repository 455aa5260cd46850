/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets of many hosts in, the bytes of one trace file out. Gives every host its machine id, all
 * sequences disjoint ids, and Trace Processor the data to put every host on the reference host's
 * timeline. docs/merged-trace.md has the method and the reasons. I/O-free.
 */
#ifndef PFL_CONSUMER_MERGE_H
#define PFL_CONSUMER_MERGE_H

#include <sys/uio.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/hash.h"
#include "consumer/clock/clock_sync.h"
#include "consumer/merge/interned.h"
#include "consumer/merge/lossy_processes.h"
#include "proto/packet_scan.h"

#define PFL_MERGE_MAX_HOSTS      1024u
#define PFL_MERGE_MAX_SEQUENCES  (1u << 20) /* of a session of a host */
#define PFL_MERGE_HOST_SEQUENCES (1u << 22) /* of all sessions of a host */
#define PFL_MERGE_MAX_MACHINES   256u       /* behind one host's service */
#define PFL_MERGE_MAX_POINTS     256u       /* clock points per host */
/* What one packet holds compressed. */
#define PFL_MERGE_DECODED_MAX_BYTES PFL_PACKET_MAX_BYTES

struct pfl_merge;

/* The destination of the file's bytes. */
struct pfl_merge_sink {
    void *user;
    /* Room for `len` bytes; a second reserve without commit replaces the first and need not keep
     * what was written. A negative return becomes the result. */
    int (*reserve)(void *user, size_t len, uint8_t **ret_room);
    /* `len` bytes of the room are the next whole packets of the file. */
    void (*commit)(void *user, size_t len);
};

/* The destinations after a cut. */
struct pfl_merge_next {
    struct pfl_merge_sink sink;   /* the next file */
    struct pfl_merge_sink before; /* the file until now */
};

struct pfl_merge_host_conf {
    const char *name; /* copied; what Trace Processor's machine table shows */
    /* Copied; the same instants on this host's boot clock and on the reference's, ascending. The
     * reference host has exactly one; a host whose clock is unknown has none, and is aligned by its
     * wall clock. */
    const struct pfl_clock_point *points;
    size_t points_len;
    bool is_reference; /* exactly one host of a merge */
    /* Another session of a host that was added before: it has that one's machine, name and clock,
     * and sequences of its own. */
    bool is_same_machine;
    size_t machine_of; /* that host's index */
    /* Another boot of a host that was added before: their sequences count together. */
    bool is_same_host;
    size_t host_of; /* that host's index */
    /* Its clock relative to the reference's, for readers of the trace: see docs/merged-trace.md. */
    bool has_clock;
    int64_t offset_ns; /* at the beginning */
    int64_t drift_ns;  /* its change until the end */
    int64_t error_ns;  /* a bound */
};

struct pfl_merge_stats {
    uint64_t packets;         /* written to the file, preamble excluded */
    uint64_t bytes;           /* of the file, preamble excluded */
    uint64_t refused_packets; /* malformed, impossible, or compressed and not to be decoded */
    /* Packets that came in compressed ones, and their bytes; of a compressed packet that is refused
     * the bytes that the attempt took. */
    uint64_t decoded_packets;
    uint64_t decoded_bytes;
    uint64_t loss_marks;   /* packets before which something was lost */
    uint32_t loss_reasons; /* all DataLossReason bits seen */
    uint32_t sequences;
    uint64_t unrepeated_packets; /* that each file should have, and that did not fit */
    /* Packets whose interned data is missing, so that readers skip them. */
    struct pfl_interned_counts unreadable;
    struct pfl_lossy_processes lossy_processes; /* whose packets mark losses */
    uint64_t started_ns; /* host's boot clock at its start of tracing; 0 unknown */
    uint64_t cloned_ns;  /* likewise when the session was copied; 0: it was not */
};

/* The key is random and secret: hosts choose ids, and must not choose their slots in tables. */
PFL_MUST_USE int pfl_merge_new(const struct pfl_merge_sink *sink,
                               const struct pfl_hash_key *hash_key, struct pfl_merge **ret_merge);
void pfl_merge_free(struct pfl_merge *self); /* NULL is legal */

/* From then on the packets in compressed ones (proto/compressed.h) are merged; without it
 * compressed packets are refused, as one inside another is always. PFL_ENOMEM. */
PFL_MUST_USE int pfl_merge_decode(struct pfl_merge *self);

/* Before pfl_merge_begin, or with pfl_merge_join after it. PFL_ELIMIT, PFL_ENOMEM, PFL_EINVAL (a
 * second reference, too many points, a machine of no host).
 */
PFL_MUST_USE int pfl_merge_add_host(struct pfl_merge *self, const struct pfl_merge_host_conf *conf,
                                    size_t *ret_host);
/* Writes names and clock points of all hosts. PFL_ESTATE without a reference. */
PFL_MUST_USE int pfl_merge_begin(struct pfl_merge *self);
/* Writes name and clock points of a host that was added after pfl_merge_begin. */
PFL_MUST_USE int pfl_merge_join(struct pfl_merge *self, size_t host);
/* Writes more clock points of a host, later than those it has; the reference has none. */
PFL_MUST_USE int pfl_merge_add_points(struct pfl_merge *self, size_t host,
                                      const struct pfl_clock_point *points, size_t points_len);
/* Counts a packet of a host that is not given to pfl_merge_packet, as it is too long. */
void pfl_merge_refuse(struct pfl_merge *self, size_t host);
/*
 * One packet of a host (index from add_host), `bytes` long, in slices. A packet that cannot be
 * merged is counted and left out, and so is one of a sequence or machine beyond what a user or a
 * host may have: 0. PFL_ENOMEM, or what the sink returned.
 */
PFL_MUST_USE int pfl_merge_packet(struct pfl_merge *self, size_t host, const struct iovec *slices,
                                  int slices_len, size_t bytes);
/* A run of packets (proto/packet_run.h): the same as pfl_merge_packet with each of them.
 * *ret_bytes: the bytes of all, as the host has them. Also PFL_EPROTO: its columns are
 * inconsistent; earlier packets are written. */
PFL_MUST_USE int pfl_merge_run(struct pfl_merge *self, size_t host,
                               const struct pfl_packet_run *run, uint64_t *ret_bytes);
/*
 * A recording in several files, each of which can be read alone. What each of them needs is kept
 * from pfl_merge_keep_state on, which is called before pfl_merge_begin: `host_bytes` of a
 * host (pfl_kept_packets_share).
 *
 * pfl_merge_cut begins the next file: with the hosts' names, clocks and configs. Sequences whose
 * packets refer to data in the previous file (interned data, incremental timestamps) continue there
 * until their producers clear that state (SEQ_INCREMENTAL_STATE_CLEARED); pfl_merge_is_cutting says
 * whether there are any. pfl_merge_end_cut: no more is written to the previous file. Failures: as
 * pfl_merge_packet; PFL_ESTATE while a cut has not ended.
 */
void pfl_merge_keep_state(struct pfl_merge *self, size_t host_bytes);
PFL_MUST_USE int pfl_merge_cut(struct pfl_merge *self, const struct pfl_merge_next *next);
bool pfl_merge_is_cutting(const struct pfl_merge *self);
void pfl_merge_end_cut(struct pfl_merge *self);
/* Of all hosts. */
uint64_t pfl_merge_get_packets(const struct pfl_merge *self);
/* Borrowed until free. */
const struct pfl_merge_stats *pfl_merge_get_stats(const struct pfl_merge *self, size_t host);

#endif
