/* SPDX-License-Identifier: Apache-2.0 */
/* Judges what a host says of a segment, before anything is done with it. Pure. */
#ifndef PFL_COLLECTOR_PULL_SEGMENT_CHECK_H
#define PFL_COLLECTOR_PULL_SEGMENT_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "perfleet/segment.pb-c.h"

#define PFL_SEGMENT_MAX_BYTES        (16ull << 30) /* of the trace */
#define PFL_SEGMENT_MAX_PACKED_BYTES (64u << 10)   /* of the message */
#define PFL_SEGMENT_SHA256_BYTES     32u
#define PFL_SEGMENT_LABELS_MAX       64u
#define PFL_SEGMENT_CLOCKS_MAX       256u  /* exchanges of clocks */
#define PFL_SEGMENT_LOSSES_MAX       256u  /* causes of loss */
#define PFL_SEGMENT_SOURCES_MAX      4096u /* data sources */
#define PFL_SEGMENT_LABEL_BYTES      256u  /* of each, with its NUL */

/* What is wrong with it, and where. Zero-initialized: nothing. */
struct pfl_segment_fault {
    const char *what;  /* static; NULL: nothing */
    const char *field; /* static: its name in segment.proto */
    size_t index;      /* of a repeated field, from 0 */
    uint64_t value;    /* the number, or the length of a text, of bytes, or of the list */
};

/* True: it is well-formed, and the names in it are names. Else a host sent it, and it is left
 * there. */
bool pfl_segment_check(const Perfleet__Segment *segment, struct pfl_segment_fault *ret_fault);
/* The number of the last segment that it speaks for: its own, or the end of its gap. */
uint32_t pfl_segment_get_last(const Perfleet__Segment *segment);

#endif
