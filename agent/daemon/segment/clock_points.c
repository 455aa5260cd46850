/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Points of relays' clocks: see clock_points.h. Happy path: a point a minute comes, and the ring
 * has those of the last hours. Failures: without memory a point is left out. Owns the points.
 * Limits: PFL_CLOCK_POINTS_MAX.
 */
#include "agent/daemon/segment/clock_points.h"

#include <stdbool.h>

#include "base/mem.h"

void pfl_clock_points_fini(struct pfl_clock_points *self)
{
    for (size_t i = 0; i < self->len; i++) {
        pfl_mem_free(self->points[i].relay);
        pfl_mem_free(self->points[i].relay_boot_id);
    }
    pfl_mem_free(self->points);
    *self = (struct pfl_clock_points){.len = 0};
}

void pfl_clock_points_add(struct pfl_clock_points *self, const Perfleet__ClockPoint *point)
{
    Perfleet__ClockPoint copy = *point;
    Perfleet__ClockPoint *at;

    if (self->points == NULL)
        self->points = pfl_mem_calloc(PFL_CLOCK_POINTS_MAX, sizeof(*self->points));
    copy.relay = pfl_mem_strdup(point->relay);
    copy.relay_boot_id = pfl_mem_strdup(point->relay_boot_id);
    if (self->points == NULL || copy.relay == NULL || copy.relay_boot_id == NULL) {
        pfl_mem_free(copy.relay);
        pfl_mem_free(copy.relay_boot_id);
        return;
    }
    if (self->len < PFL_CLOCK_POINTS_MAX) {
        at = &self->points[self->len++];
    } else {
        at = &self->points[self->at];
        self->at = (self->at + 1) % PFL_CLOCK_POINTS_MAX;
        pfl_mem_free(at->relay);
        pfl_mem_free(at->relay_boot_id);
    }
    *at = copy;
}

static bool is_around(const Perfleet__ClockPoint *point, uint64_t begin_ns, uint64_t end_ns)
{
    return point->host_boot_ns + PFL_CLOCK_POINTS_AROUND_NS >= begin_ns &&
           point->host_boot_ns <= end_ns + PFL_CLOCK_POINTS_AROUND_NS;
}

size_t pfl_clock_points_choose(const struct pfl_clock_points *self, uint64_t begin_ns,
                               uint64_t end_ns, Perfleet__ClockPoint *dst[PFL_CLOCK_POINTS_OF_ONE])
{
    size_t fitting = 0;
    size_t seen = 0;
    size_t len = 0;

    for (size_t i = 0; i < self->len; i++)
        fitting += is_around(&self->points[i], begin_ns, end_ns);
    for (size_t i = 0; i < self->len && len < PFL_CLOCK_POINTS_OF_ONE; i++) {
        Perfleet__ClockPoint *point = &self->points[(self->at + i) % self->len];

        if (!is_around(point, begin_ns, end_ns))
            continue;
        if (fitting <= PFL_CLOCK_POINTS_OF_ONE || seen * PFL_CLOCK_POINTS_OF_ONE >= len * fitting)
            dst[len++] = point;
        seen++;
    }
    return len;
}
