/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reservations: see reservation.h. Happy path: one call of the index. A gap whose first number has
 * bytes in the index is a conflict there: it is tried again from the first number on that has none,
 * which one statement finds: how many there are is the host's word. A gap that is known keeps its
 * begin, which is in the key of its description: else each begin that a host says would leave a
 * file in the store. Failures: those of the index. Limits: a gap that begins with as many stored
 * numbers as a statement looks at is left at the host.
 */
#include "collector/pull/reservation.h"

static int reserve_gap(struct pfl_index *index, Perfleet__Segment *segment, uint64_t now_unix_ns,
                       struct pfl_index_place *place, enum pfl_index_reserve *ret_result)
{
    int rc = pfl_index_reserve(index, segment, now_unix_ns, place, ret_result);

    if (rc != 0 || *ret_result != PFL_INDEX_RESERVE_NOTED)
        return rc;
    segment->has_begin_unix_ns = true;
    segment->begin_unix_ns = place->begin_unix_ns;
    if (segment->end_unix_ns < segment->begin_unix_ns)
        segment->end_unix_ns = segment->begin_unix_ns;
    return 0;
}

int pfl_reservation_make(struct pfl_index *index, Perfleet__Segment *segment, uint64_t now_unix_ns,
                         struct pfl_index_place *place, enum pfl_index_reserve *ret_result)
{
    uint64_t number;
    int rc;

    if (segment->gap == NULL)
        return pfl_index_reserve(index, segment, now_unix_ns, place, ret_result);
    rc = reserve_gap(index, segment, now_unix_ns, place, ret_result);
    if (rc != 0 || *ret_result != PFL_INDEX_RESERVE_CONFLICT)
        return rc;
    rc = pfl_index_find_hole(index, segment, &number);
    if (rc != 0)
        return rc;
    if (number > segment->gap->last) {
        *ret_result = PFL_INDEX_RESERVE_STORED;
        return 0;
    }
    segment->number = (uint32_t)number;
    return reserve_gap(index, segment, now_unix_ns, place, ret_result);
}
