/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets that a host's service writes once or rarely, and that every file of a recording needs:
 * config, clocks, identity. The last packet of each kind is kept, as it is in the file. Pure.
 */
#ifndef PFL_CONSUMER_KEPT_PACKETS_H
#define PFL_CONSUMER_KEPT_PACKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

/* Of one host. Packets past the limits are not kept: later files lack them. */
#define PFL_KEPT_PACKETS_MAX       1024u
#define PFL_KEPT_PACKETS_BYTES     (4u << 20)
#define PFL_KEPT_PACKETS_BYTES_MIN (8u << 10) /* of a host's share */
#define PFL_KEPT_PACKETS_PART      4u         /* all hosts have this part of a file */

struct pfl_kept_packet {
    uint32_t kind;    /* the id of its field */
    uint32_t machine; /* as the host has it */
    uint8_t *bytes;   /* owned */
    size_t len;
    uint64_t hash; /* of the bytes, if there are many of the kind */
};

struct pfl_kept_packets {
    struct pfl_kept_packet *list; /* owned; in the order of their first packets */
    size_t len;
    size_t capacity;
    size_t bytes;      /* in sum */
    size_t max_bytes;  /* 0: PFL_KEPT_PACKETS_BYTES */
    uint64_t left_out; /* packets that did not fit */
};

/* The bytes of a host in a recording of `hosts` with files of `file_bytes`; 0: of any size. */
size_t pfl_kept_packets_share(uint64_t file_bytes, size_t hosts);

void pfl_kept_packets_fini(struct pfl_kept_packets *self); /* zeros are an empty one */
/* Replaces the packet of that kind and machine, or, if there are many of a kind (`is_one` is
 * false), adds it unless an equal one exists. PFL_ENOMEM. */
PFL_MUST_USE int pfl_kept_packets_put(struct pfl_kept_packets *self, uint32_t kind,
                                      uint32_t machine, bool is_one, struct pfl_span packet);

#endif
