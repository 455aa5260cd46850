/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Points of relays' clocks: see clock_points.h. Happy path: a point a minute comes, and one at the
 * end of each segment; the ring has those of the last hours. Failures: without memory a point is
 * left out. Owns the points.
 * Limits: PFL_CLOCK_POINTS_MAX.
 */
#include "agent/daemon/segment/clock_points.h"

#include <stdbool.h>
#include <string.h>

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

static bool is_of_relay(const Perfleet__ClockPoint *point, const Perfleet__ClockPoint *other)
{
    return strcmp(point->relay, other->relay) == 0 &&
           strcmp(point->relay_boot_id, other->relay_boot_id) == 0;
}

/* The last point of the same relay, if it can go: the one before it is as good for its time. */
static Perfleet__ClockPoint *find_spare(const struct pfl_clock_points *self,
                                        const Perfleet__ClockPoint *point)
{
    Perfleet__ClockPoint *last = NULL;

    for (size_t back = 1; back <= self->len; back++) {
        Perfleet__ClockPoint *p = &self->points[(self->at + self->len - back) % self->len];

        if (!is_of_relay(p, point))
            continue;
        if (last != NULL)
            return point->host_boot_ns - p->host_boot_ns < PFL_CLOCK_POINTS_APART_NS ? last : NULL;
        last = p;
    }
    return NULL;
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
    at = find_spare(self, point);
    if (at == NULL && self->len < PFL_CLOCK_POINTS_MAX) {
        at = &self->points[self->len++];
    } else if (at == NULL) {
        at = &self->points[self->at];
        self->at = (self->at + 1) % PFL_CLOCK_POINTS_MAX;
    }
    pfl_mem_free(at->relay);
    pfl_mem_free(at->relay_boot_id);
    *at = copy;
    if (self->newest_ns < point->host_boot_ns)
        self->newest_ns = point->host_boot_ns;
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
