/* SPDX-License-Identifier: Apache-2.0 */
/* Reserves a segment in the index. Blocks, as the index does; allocates nothing. */
#ifndef PFL_COLLECTOR_PULL_RESERVATION_H
#define PFL_COLLECTOR_PULL_RESERVATION_H

#include "collector/index/index.h"

/*
 * As pfl_index_reserve. A host that did not get our release may have removed what is stored, and
 * send a gap over it: then the gap begins behind what is stored, and `segment` is changed so. The
 * begin of a gap that is known is the first one that was said.
 * Nothing left of it: PFL_INDEX_RESERVE_STORED.
 */
PFL_MUST_USE int pfl_reservation_make(struct pfl_index *index, Perfleet__Segment *segment,
                                      uint64_t now_unix_ns, struct pfl_index_place *place,
                                      enum pfl_index_reserve *ret_result);

#endif
