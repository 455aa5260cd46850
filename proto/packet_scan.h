/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bodies of ReadBuffers replies in, whole trace packets out (docs/abi/service.md section 7). A
 * packet is returned in its original slices, without copying; only one that spans several replies
 * is collected. Requested runs of packets are returned unchanged (proto/packet_run.h). I/O-free.
 */
#ifndef PFL_PROTO_PACKET_SCAN_H
#define PFL_PROTO_PACKET_SCAN_H

#include <sys/uio.h>

#include "base/buf.h"

/* A larger packet is skipped: any local program may have written it. */
#define PFL_PACKET_MAX_BYTES (64u * 1024 * 1024)

#define PFL_PACKET_SCAN_SLICES 64

/* `bytes` is the sum of the slices, >= 0. Borrowed until return. A negative return stops. */
typedef int (*pfl_packet_cb)(void *user, const struct iovec *slices, int slices_len, size_t bytes);

/* Packets with the same last bytes, in columns; borrowed until return. */
struct pfl_packet_run {
    struct pfl_span tail; /* at most PFL_RUN_TAIL_MAX_BYTES */
    /* Not validated yet. */
    struct pfl_span rest;
    struct pfl_span times;
    struct pfl_span lengths;     /* not empty */
    const uint8_t *readable_end; /* end of the memory that contains these three */
};

typedef int (*pfl_packet_run_cb)(void *user, const struct pfl_packet_run *run);

struct pfl_packet_scan {
    pfl_packet_run_cb on_run; /* NULL, as set by init: runs were not requested and are refused */
    struct pfl_buf partial;   /* owned; slices of earlier replies of the open packet */
    bool is_open;             /* a packet has begun and not ended */
    bool is_skipping;         /* it exceeds the maximum */
    uint64_t skipped;         /* packets that did */
    uint64_t skipped_bytes;   /* of these, so far */
    struct iovec slices[PFL_PACKET_SCAN_SLICES + 1]; /* [0] is reserved for `partial` */
};

void pfl_packet_scan_init(struct pfl_packet_scan *self, size_t packet_max_bytes);
void pfl_packet_scan_fini(struct pfl_packet_scan *self);

/*
 * Takes one serialized ReadBuffersResponse; `user` is on_run's, too. A packet that exceeds the
 * maximum is counted, and not handed out. PFL_EPROTO if it is malformed, PFL_ENOMEM, or what `cb`
 * or on_run returned. After a failure: only fini.
 */
PFL_MUST_USE int pfl_packet_scan_feed(struct pfl_packet_scan *self, struct pfl_span body,
                                      pfl_packet_cb cb, void *user);

/* True if the stream ended inside a packet, which is lost. */
bool pfl_packet_scan_is_open(const struct pfl_packet_scan *self);

#endif
