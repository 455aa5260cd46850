/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bodies of ReadBuffers replies in, whole trace packets out (docs/abi/service.md section 7). A
 * packet is handed out as the slices it arrived in, without copying; only one that spans several
 * replies is collected. Runs of packets, where they were asked for, are handed out as they are
 * (proto/packet_run.h). I/O-free.
 */
#ifndef PFL_CONSUMER_PACKET_SCAN_H
#define PFL_CONSUMER_PACKET_SCAN_H

#include <sys/uio.h>

#include "base/buf.h"

/* A host whose packet passes this is broken: nothing in the field comes near. */
#define PFL_PACKET_MAX_BYTES (64u * 1024 * 1024)

#define PFL_PACKET_SCAN_SLICES 64

/* `bytes` is the sum of the slices, >= 0. Borrowed until return. A negative return stops. */
typedef int (*pfl_packet_cb)(void *user, const struct iovec *slices, int slices_len, size_t bytes);

/* Packets that end in the same bytes, in columns; borrowed until return. */
struct pfl_packet_run {
    struct pfl_span tail; /* at most PFL_RUN_TAIL_MAX_BYTES */
    /* Not looked at yet. */
    struct pfl_span rest;
    struct pfl_span times;
    struct pfl_span lengths;     /* not empty */
    const uint8_t *readable_end; /* of the memory in which these three lie */
};

typedef int (*pfl_packet_run_cb)(void *user, const struct pfl_packet_run *run);

struct pfl_packet_scan {
    pfl_packet_run_cb on_run; /* NULL, as init leaves it: nobody asked for runs, they are refused */
    struct pfl_buf partial;   /* owned; slices of earlier replies of the packet that is open */
    bool is_open;             /* a packet has begun and not ended */
    struct iovec slices[PFL_PACKET_SCAN_SLICES + 1]; /* [0] is kept for `partial` */
};

void pfl_packet_scan_init(struct pfl_packet_scan *self, size_t packet_max_bytes);
void pfl_packet_scan_fini(struct pfl_packet_scan *self);

/*
 * Takes one serialized ReadBuffersResponse; `user` is on_run's, too. PFL_EPROTO when it is
 * malformed, PFL_ELIMIT when a packet passes the maximum, PFL_ENOMEM, or what `cb` or on_run
 * returned. After a failure: only fini.
 */
PFL_MUST_USE int pfl_packet_scan_feed(struct pfl_packet_scan *self, struct pfl_span body,
                                      pfl_packet_cb cb, void *user);

/* True when the stream ended inside a packet: its first part was lost with the rest. */
bool pfl_packet_scan_is_open(const struct pfl_packet_scan *self);

#endif
