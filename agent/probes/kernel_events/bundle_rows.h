/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of the compact form, inline: with system-wide scheduling they are nearly all events.
 * Private to the page reader.
 *
 * The number of instructions matters here: each put is optimized for the likely length, and the
 * encoded pid is kept with its name.
 */
#ifndef PFL_PROBES_BUNDLE_ROWS_H
#define PFL_PROBES_BUNDLE_ROWS_H

#include "agent/probes/kernel_events/bundle.h"

static inline uint8_t *pfl_row_put_long(uint8_t *p, uint64_t v)
{
    while (v >= 0x80) {
        *p++ = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    *p++ = (uint8_t)v;
    return p;
}

/* Nearly always below 128. */
static inline uint8_t *pfl_row_put_small(uint8_t *p, uint64_t v)
{
    if (__builtin_expect(v >= 0x80, 0))
        return pfl_row_put_long(p, v);
    *p = (uint8_t)v;
    return p + 1;
}

/* Nearly always between 128 and 16383. */
static inline uint8_t *pfl_row_put_medium(uint8_t *p, uint64_t v)
{
    if (__builtin_expect(v - 0x80 >= 0x4000 - 0x80, 0))
        return pfl_row_put_long(p, v);
    p[0] = (uint8_t)(v | 0x80);
    p[1] = (uint8_t)(v >> 7);
    return p + 2;
}

/* The entry of the thread; *ret_new says whether the thread or its name is new in this bundle. */
static inline const struct pfl_bundle_known *pfl_row_find(struct pfl_bundle *self, int32_t pid,
                                                          const uint8_t *at, bool *ret_new)
{
    struct pfl_bundle_known *known = &self->known[(uint32_t)pid & (PFL_BUNDLE_KNOWN - 1)];
    uint64_t comm[2];

    memcpy(comm, at, sizeof(comm));
    *ret_new = known->generation != self->generation || known->pid != pid ||
               ((known->comm[0] ^ comm[0]) | (known->comm[1] ^ comm[1])) != 0;
    if (__builtin_expect(*ret_new, 0))
        pfl_bundle_intern(self, known, pid, comm);
    return known;
}

/* Copies more bytes than needed: columns have space for it. */
static inline uint8_t *pfl_row_put_pid(uint8_t *p, const struct pfl_bundle_known *known)
{
    if (__builtin_expect(known->pid_bytes == 0, 0))
        return pfl_row_put_long(p, (uint32_t)known->pid);
    memcpy(p, known->pid_varint, sizeof(known->pid_varint));
    return p + known->pid_bytes;
}

static inline uint64_t pfl_row_take_delta(struct pfl_bundle *self, enum pfl_bundle_row kind,
                                          uint64_t now_ns)
{
    uint64_t delta = now_ns - self->last_ns[kind];

    self->last_ns[kind] = now_ns;
    self->rows[kind]++;
    return delta;
}

/* Both return the event's thread if anything about it is new, which may have filled the bundle;
 * else NULL. */
__attribute__((always_inline)) static inline const struct pfl_bundle_known *
pfl_row_add_switch(struct pfl_bundle *self, const struct pfl_event_plan *plan, const uint8_t *data,
                   uint64_t now_ns)
{
    const uint16_t *at = plan->special_offsets;
    struct pfl_bundle_column *c = &self->columns[PFL_SWITCH_TIME];
    const struct pfl_bundle_known *known;
    int64_t state;
    int32_t pid;
    int32_t prio;
    bool is_new;

    memcpy(&state, data + at[0], sizeof(state));
    memcpy(&pid, data + at[2], sizeof(pid));
    memcpy(&prio, data + at[3], sizeof(prio));
    known = pfl_row_find(self, pid, data + at[1], &is_new);
    c[0].pos = pfl_row_put_medium(c[0].pos, pfl_row_take_delta(self, PFL_ROW_SWITCH, now_ns));
    c[1].pos = pfl_row_put_small(c[1].pos, (uint64_t)state);
    c[2].pos = pfl_row_put_pid(c[2].pos, known);
    c[3].pos = pfl_row_put_small(c[3].pos, (uint64_t)(int64_t)prio);
    c[4].pos = pfl_row_put_small(c[4].pos, known->index);
    return __builtin_expect(is_new, 0) ? known : NULL;
}

__attribute__((always_inline)) static inline const struct pfl_bundle_known *
pfl_row_add_waking(struct pfl_bundle *self, const struct pfl_event_plan *plan, const uint8_t *data,
                   uint64_t now_ns)
{
    const uint16_t *at = plan->special_offsets;
    struct pfl_bundle_column *c = &self->columns[PFL_WAKING_TIME];
    const struct pfl_bundle_known *known;
    uint8_t flags = data[plan->flags_offset];
    int32_t pid;
    int32_t prio;
    int32_t cpu;
    bool is_new;

    memcpy(&pid, data + at[1], sizeof(pid));
    memcpy(&prio, data + at[2], sizeof(prio));
    memcpy(&cpu, data + at[3], sizeof(cpu));
    known = pfl_row_find(self, pid, data + at[0], &is_new);
    c[0].pos = pfl_row_put_medium(c[0].pos, pfl_row_take_delta(self, PFL_ROW_WAKING, now_ns));
    c[1].pos = pfl_row_put_pid(c[1].pos, known);
    c[2].pos = pfl_row_put_small(c[2].pos, (uint64_t)(int64_t)cpu);
    c[3].pos = pfl_row_put_small(c[3].pos, (uint64_t)(int64_t)prio);
    c[4].pos = pfl_row_put_small(c[4].pos, known->index);
    c[5].pos = pfl_row_put_small(c[5].pos, flags);
    return __builtin_expect(is_new, 0) ? known : NULL;
}

#endif
