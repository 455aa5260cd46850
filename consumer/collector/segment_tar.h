/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments as they are in one tar, with a manifest that names their machines and relates their
 * clocks: Trace Processor's form of several traces
 * (https://perfetto.dev/docs/reference/perfetto-manifest). I/O-free: it makes what is between the
 * segments' bytes.
 *
 *     pfl_segment_tar_new(&tar);
 *     pfl_segment_tar_add(tar, segment, id);           // each of them
 *     pfl_segment_tar_begin(tar);
 *     while (pfl_segment_tar_next(tar, &file))         // then its head, its bytes, its padding
 *     pfl_segment_tar_end(tar, out);                   // the manifest, and the end
 */
#ifndef PFL_CONSUMER_SEGMENT_TAR_H
#define PFL_CONSUMER_SEGMENT_TAR_H

#include <stdbool.h>

#include "base/buf.h"
#include "perfleet/segment.pb-c.h"

#define PFL_SEGMENT_TAR_ID_BYTES  32u /* of a trace, with its NUL: letters and digits */
#define PFL_SEGMENT_TAR_MAX_BYTES ((1ull << 33) - 1) /* of a segment: what a head can say */

struct pfl_segment_tar;

struct pfl_segment_tar_file {
    const char *id; /* borrowed until free */
    uint64_t bytes;
    size_t padding; /* zero bytes that follow its own */
};

PFL_MUST_USE int pfl_segment_tar_new(struct pfl_segment_tar **ret_tar);
void pfl_segment_tar_free(struct pfl_segment_tar *self); /* NULL is legal */
/* As pfl_segment_merge_add. */
PFL_MUST_USE int pfl_segment_tar_add(struct pfl_segment_tar *self, const Perfleet__Segment *segment,
                                     const char *id);
/* After the last one. PFL_ESTATE: there is none with bytes; PFL_ENOMEM. */
PFL_MUST_USE int pfl_segment_tar_begin(struct pfl_segment_tar *self);
/* The next segment, by host, run and number. One without a head is left out. */
bool pfl_segment_tar_next(struct pfl_segment_tar *self, struct pfl_segment_tar_file *ret_file);
/* Appends the head of the segment that next gave last, which is in the tar from then on. */
PFL_MUST_USE int pfl_segment_tar_head(struct pfl_segment_tar *self, struct pfl_buf *out);
/* Appends the manifest and the end of the tar. PFL_ENOMEM, PFL_ELIMIT. */
PFL_MUST_USE int pfl_segment_tar_end(struct pfl_segment_tar *self, struct pfl_buf *out);

size_t pfl_segment_tar_get_files(const struct pfl_segment_tar *self); /* in the tar */

#endif
