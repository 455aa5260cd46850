/* SPDX-License-Identifier: Apache-2.0 */
/* See merge_world.h. */
#include "tests/unit/consumer/merge/merge_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct pfl_clock_point reference_point = {B_REFERENCE_NS, B_REFERENCE_NS};
static const struct pfl_clock_point other_point = {B_HOST_NS, B_REFERENCE_NS};

int merge_world_open(struct merge_world *self)
{
    struct pfl_merge_sink sink;
    struct pfl_merge_host_conf a = {
        .name = "alpha", .points = &reference_point, .points_len = 1, .is_reference = true};
    struct pfl_merge_host_conf b = {.name = "beta", .points = &other_point, .points_len = 1};
    int rc;

    *self = (struct merge_world){0};
    trace_sink_init(&self->sink, &sink);
    rc = pfl_merge_new(&sink, &(const struct pfl_hash_key){{1, 2}}, &self->merge);
    if (rc == 0)
        rc = pfl_merge_add_host(self->merge, &a, &self->a);
    if (rc == 0)
        rc = pfl_merge_add_host(self->merge, &b, &self->b);
    return rc != 0 ? rc : pfl_merge_begin(self->merge);
}

void merge_world_close(struct merge_world *self)
{
    pfl_merge_free(self->merge);
    trace_sink_fini(&self->sink);
}

int merge_world_give(struct merge_world *self, size_t host, const void *packet, size_t len)
{
    struct iovec slice = {(void *)(uintptr_t)packet, len};

    return pfl_merge_packet(self->merge, host, &slice, 1, len);
}

struct pfl_span merge_world_last(const struct merge_world *self)
{
    return trace_packet(&self->sink, trace_packets(&self->sink) - 1);
}

size_t make_packet(uint8_t *out, size_t room, uint32_t sequence, uint32_t machine)
{
    struct pfl_writer w = pfl_writer_of(out, room);

    pfl_writer_field_varint(&w, TIMESTAMP, 77);
    pfl_writer_field_bytes(&w, FOR_TESTING,
                           "\x0a\x03"
                           "abc",
                           5);
    pfl_writer_field_varint(&w, 3, 1000);
    if (sequence != 0)
        pfl_writer_field_varint(&w, SEQUENCE, sequence);
    pfl_writer_field_varint(&w, 79, 4321);
    if (machine != 0)
        pfl_writer_field_varint(&w, MACHINE, machine);
    assert_false(w.failed);
    return room - w.left;
}

static size_t nest(uint8_t *out, size_t room, uint32_t id, const uint8_t *payload, size_t len)
{
    struct pfl_writer w = pfl_writer_of(out, room);

    pfl_writer_field_bytes(&w, id, payload, len);
    assert_false(w.failed);
    return room - w.left;
}

size_t make_nested(uint8_t *out, size_t room, const uint32_t *path, uint64_t value)
{
    uint8_t a[64];
    uint8_t b[64];
    struct pfl_writer w = pfl_writer_of(a, sizeof(a));
    size_t depth = 0;
    size_t len;

    while (path[depth + 1] != 0)
        depth++;
    pfl_writer_field_varint(&w, path[depth], value);
    len = sizeof(a) - w.left;
    while (depth-- > 0) {
        len = nest(b, sizeof(b), path[depth], a, len);
        memcpy(a, b, len);
    }
    memcpy(out, a, len);
    w = pfl_writer_of(out + len, room - len);
    pfl_writer_field_varint(&w, SEQUENCE, 1);
    return room - w.left;
}

uint64_t nested_value(struct pfl_span p, const uint32_t *path)
{
    while (path[1] != 0)
        p = field_bytes(p, *path++);
    return field_value(p, *path);
}
