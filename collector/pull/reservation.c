/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reservations: see reservation.h. Happy path: one call of the index. A gap whose first number has
 * bytes in the index is a conflict there: it is tried again from the next number on. Failures:
 * those of the index. Limits: a gap of GAP_STEPS stored numbers in a row is left for the next
 * visit.
 */
#include "collector/pull/reservation.h"

#define GAP_STEPS 4096u

int pfl_reservation_make(struct pfl_index *index, Perfleet__Segment *segment, uint64_t now_unix_ns,
                         struct pfl_index_place *place, enum pfl_index_reserve *ret_result)
{
    int rc = pfl_index_reserve(index, segment, now_unix_ns, place, ret_result);

    if (segment->gap == NULL)
        return rc;
    for (unsigned i = 0; i < GAP_STEPS; i++) {
        if (rc != 0 || *ret_result != PFL_INDEX_RESERVE_CONFLICT)
            return rc;
        if (segment->number == segment->gap->last) {
            *ret_result = PFL_INDEX_RESERVE_STORED;
            return 0;
        }
        segment->number++;
        rc = pfl_index_reserve(index, segment, now_unix_ns, place, ret_result);
    }
    return rc;
}
