/* SPDX-License-Identifier: Apache-2.0 */
/* What the VMs of a buffer see. That nothing else is different with them:
 * trace_buffer_model_test.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "abi/chunk.h"
#include "service/vm/vm_set.h"
#include "tests/support/sweep.h"
#include "tests/unit/service/buffer/buffer_kit.h"

/*
 * A packet is { 1: n, filler }. The program lists what it sees: number n of the packet becomes an
 * element with this key of the state's field 5, where all of the packet is merged.
 */
static const uint8_t lister[] = {
    0x12, 0x0c, 0x0a, 0x04, 0x12, 0x02, 0x08, 0x01,             /* select packet.1 */
    0x3a, 0x04, 0x12, 0x02, 0x10, 0x00,                         /*   load register 0 */
    0x12, 0x16, 0x0a, 0x0e, 0x08, 0x02, 0x12, 0x02, 0x08, 0x05, /* select state.5 */
    0x12, 0x04, 0x18, 0x01, 0x30, 0x00, 0x18, 0x01,             /*   by key, created */
    0x3a, 0x04, 0x1a, 0x02, 0x08, 0x00,                         /*   merge */
};

static struct pfl_trace_buffer *make_buffer(uint16_t producer_id)
{
    struct pfl_trace_buffer *buffer = kit_buffer(4096, PFL_FILL_RING_BUFFER);
    const struct pfl_vm_set_conf conf = {.source = pfl_span_of("a", 1),
                                         .program = pfl_span_of(lister, sizeof(lister)),
                                         .memory_limit_kb = 64,
                                         .producer_id = producer_id};

    assert_null(pfl_trace_buffer_get_vms(buffer));
    assert_int_equal(pfl_trace_buffer_add_vm(buffer, &conf), 0);
    return buffer;
}

/* The numbers seen, ascending, as "1 2 3"; what was seen twice is there once, and counted. */
static void expect_seen(const struct pfl_trace_buffer *buffer, const char *numbers, uint64_t times)
{
    const struct pfl_vm_set_member *m = pfl_vm_set_get(pfl_trace_buffer_get_vms(buffer), 0);
    char text[256] = "";
    size_t len = 0;
    struct pfl_buf buf;
    struct pfl_reader r;
    struct pfl_field f;

    pfl_buf_init(&buf, 65536);
    assert_int_equal(pfl_vm_encode_state(m->vm, &buf), 0);
    r = pfl_reader_of(pfl_buf_get(&buf));
    while (pfl_reader_field(&r, &f)) {
        struct pfl_reader element = pfl_reader_of(f.bytes);

        assert_int_equal(f.id, 5);
        assert_true(pfl_reader_field(&element, &f));
        len += (size_t)snprintf(text + len, sizeof(text) - len, len != 0 ? " %u" : "%u",
                                (unsigned)f.value);
        assert_true(len < sizeof(text));
    }
    pfl_buf_fini(&buf);
    assert_string_equal(text, numbers);
    assert_int_equal(m->counts.applied, times);
    assert_int_equal(m->counts.missed + m->counts.aborted, 0);
}

struct packet {
    uint8_t data[1000];
    size_t len;
};

static struct packet packet_of(uint8_t number, size_t filler)
{
    struct packet packet = {.len = 0};
    struct pfl_writer w = pfl_writer_of(packet.data, sizeof(packet.data));
    static const uint8_t zeroes[900];

    pfl_writer_field_varint(&w, 1, number);
    pfl_writer_field_bytes(&w, 9, zeroes, filler);
    assert_false(w.failed);
    packet.len = sizeof(packet.data) - w.left;
    return packet;
}

/* A chunk of packets, a digit each. */
static void write(struct pfl_trace_buffer *buffer, uint16_t producer, uint32_t chunk_id,
                  const char *numbers, size_t filler)
{
    static struct kit_chunk c;

    kit_chunk_begin(&c, producer, 1, chunk_id);
    for (const char *n = numbers; *n != '\0'; n++) {
        struct packet packet = packet_of((uint8_t)(*n - '0'), filler);

        kit_chunk_add_bytes(&c, packet.data, packet.len);
    }
    pfl_trace_buffer_commit(buffer, &c.chunk);
}

static void write_part(struct pfl_trace_buffer *buffer, uint32_t chunk_id, const uint8_t *data,
                       size_t len, uint8_t flags)
{
    static struct kit_chunk c;

    kit_chunk_begin(&c, 1, 1, chunk_id);
    kit_chunk_add_bytes(&c, data, len);
    c.chunk.flags = flags;
    pfl_trace_buffer_commit(buffer, &c.chunk);
}

/* Everything that lies in the ring goes; this writer's packets are nobody's. */
static void overwrite_all(struct pfl_trace_buffer *buffer)
{
    static uint32_t chunk_id;
    static struct kit_chunk c;

    kit_chunk_begin(&c, 77, 1, chunk_id++);
    kit_chunk_add(&c, 'x', 4072);
    pfl_trace_buffer_commit(buffer, &c.chunk);
}

static void each_overwritten_packet_is_seen_once(void **state)
{
    struct pfl_trace_buffer *buffer = make_buffer(1);

    (void)state;
    write(buffer, 1, 0, "123", 10);
    write(buffer, 1, 1, "4", 900);
    expect_seen(buffer, "", 0);
    overwrite_all(buffer);
    expect_seen(buffer, "1 2 3 4", 4);
    overwrite_all(buffer);
    expect_seen(buffer, "1 2 3 4", 4);
    pfl_trace_buffer_free(buffer);
    pfl_sweep_assert_no_leak();
}

static void what_was_read_is_not_seen(void **state)
{
    struct pfl_trace_buffer *buffer = make_buffer(1);
    static struct kit_packet packet;

    (void)state;
    write(buffer, 1, 0, "12", 10);
    write(buffer, 1, 1, "34", 10);
    pfl_trace_buffer_begin_read(buffer);
    for (unsigned i = 0; i < 3; i++)
        assert_true(kit_read(buffer, &packet));
    overwrite_all(buffer);
    expect_seen(buffer, "4", 1);
    pfl_trace_buffer_free(buffer);
}

static void packets_of_other_producers_are_not_seen(void **state)
{
    struct pfl_trace_buffer *buffer = make_buffer(2);

    (void)state;
    write(buffer, 1, 0, "12", 10);
    write(buffer, 2, 0, "34", 10);
    overwrite_all(buffer);
    expect_seen(buffer, "3 4", 2);
    pfl_trace_buffer_free(buffer);
}

static void a_packet_in_parts_is_seen_whole_when_its_first_part_goes(void **state)
{
    struct pfl_trace_buffer *buffer = make_buffer(1);
    struct packet packet = packet_of(7, 300);

    (void)state;
    write(buffer, 1, 0, "1", 600);
    write_part(buffer, 1, packet.data, 1, PFL_CHUNK_CONTINUES_NEXT);
    write_part(buffer, 2, packet.data + 1, 100,
               PFL_CHUNK_CONTINUES_PREV | PFL_CHUNK_CONTINUES_NEXT);
    write_part(buffer, 3, packet.data + 101, packet.len - 101, PFL_CHUNK_CONTINUES_PREV);
    for (uint32_t id = 4; id < 9; id++)
        write(buffer, 1, id, "2", 700);
    expect_seen(buffer, "1 7", 2);
    pfl_trace_buffer_free(buffer);
    pfl_sweep_assert_no_leak();
}

static void torn_and_unpatched_packets_are_not_seen(void **state)
{
    struct pfl_trace_buffer *buffer = make_buffer(1);
    struct packet packet = packet_of(7, 300);

    (void)state;
    write_part(buffer, 0, packet.data, 10, PFL_CHUNK_CONTINUES_NEXT);
    write_part(buffer, 2, packet.data, 10, PFL_CHUNK_CONTINUES_PREV);
    write_part(buffer, 3, packet.data, 10, PFL_CHUNK_CONTINUES_NEXT | PFL_CHUNK_NEEDS_PATCH);
    write_part(buffer, 4, packet.data + 10, packet.len - 10, PFL_CHUNK_CONTINUES_PREV);
    write(buffer, 1, 5, "3", 10);
    overwrite_all(buffer);
    expect_seen(buffer, "3", 1);
    pfl_trace_buffer_free(buffer);
}

static void a_clone_keeps_what_was_seen_by_then(void **state)
{
    struct pfl_trace_buffer *buffer = make_buffer(1);
    struct pfl_trace_buffer *clone;

    (void)state;
    write(buffer, 1, 0, "1", 10);
    overwrite_all(buffer);
    write(buffer, 1, 1, "2", 10);
    clone = kit_clone(buffer);
    overwrite_all(buffer);
    expect_seen(buffer, "1 2", 2);
    pfl_trace_buffer_free(buffer);
    expect_seen(clone, "1", 1);
    pfl_trace_buffer_free(clone);
    pfl_sweep_assert_no_leak();
}

static void what_is_taken_has_the_vms_and_the_rest_has_none(void **state)
{
    struct pfl_trace_buffer *buffer = make_buffer(1);
    struct pfl_trace_buffer *taken;

    (void)state;
    write(buffer, 1, 0, "1", 10);
    overwrite_all(buffer);
    assert_int_equal(pfl_trace_buffer_take(buffer, &taken), 0);
    assert_null(pfl_trace_buffer_get_vms(buffer));
    expect_seen(taken, "1", 1);
    write(buffer, 1, 1, "2", 10);
    overwrite_all(buffer);
    pfl_trace_buffer_free(buffer);
    pfl_trace_buffer_free(taken);
    pfl_sweep_assert_no_leak();
}

static void a_program_that_is_refused_leaves_no_vms(void **state)
{
    struct pfl_trace_buffer *buffer = kit_buffer(4096, PFL_FILL_RING_BUFFER);
    static const uint8_t bad[] = {0x12, 0x06, 0x0a, 0x04, 0x12, 0x02, 0x08, 0x00};
    const struct pfl_vm_set_conf conf = {.program = pfl_span_of(bad, sizeof(bad))};

    (void)state;
    assert_int_equal(pfl_trace_buffer_add_vm(buffer, &conf), PFL_EINVAL);
    assert_null(pfl_trace_buffer_get_vms(buffer));
    pfl_trace_buffer_free(buffer);
    pfl_sweep_assert_no_leak();
}

/* Memory for a VM, for a packet of many parts, and for a copy. */
static int live_with_vms(void *arg)
{
    const struct pfl_trace_buffer_conf conf = {.size_bytes = 4096};
    const struct pfl_vm_set_conf vm = {.source = pfl_span_of("a", 1),
                                       .program = pfl_span_of(lister, sizeof(lister)),
                                       .memory_limit_kb = 64,
                                       .producer_id = 1};
    struct pfl_trace_buffer *buffer;
    struct pfl_trace_buffer *clone = NULL;
    struct packet packet = packet_of(7, 50);
    int rc = pfl_trace_buffer_new(&conf, &buffer);

    (void)arg;
    if (rc != 0)
        return rc;
    rc = pfl_trace_buffer_add_vm(buffer, &vm);
    write_part(buffer, 0, packet.data, 1, PFL_CHUNK_CONTINUES_NEXT);
    for (uint32_t i = 1; i + 1 < packet.len; i++)
        write_part(buffer, i, packet.data + i, 1,
                   PFL_CHUNK_CONTINUES_PREV | PFL_CHUNK_CONTINUES_NEXT);
    write_part(buffer, (uint32_t)packet.len - 1, packet.data + packet.len - 1, 1,
               PFL_CHUNK_CONTINUES_PREV);
    overwrite_all(buffer);
    if (rc == 0)
        rc = pfl_trace_buffer_clone(buffer, &clone);
    pfl_trace_buffer_free(clone);
    pfl_trace_buffer_free(buffer);
    return rc;
}

static void no_memory_is_an_error_or_a_packet_not_seen(void **state)
{
    (void)state;
    pfl_sweep(live_with_vms, NULL, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_overwritten_packet_is_seen_once),
        cmocka_unit_test(what_was_read_is_not_seen),
        cmocka_unit_test(packets_of_other_producers_are_not_seen),
        cmocka_unit_test(a_packet_in_parts_is_seen_whole_when_its_first_part_goes),
        cmocka_unit_test(torn_and_unpatched_packets_are_not_seen),
        cmocka_unit_test(a_clone_keeps_what_was_seen_by_then),
        cmocka_unit_test(what_is_taken_has_the_vms_and_the_rest_has_none),
        cmocka_unit_test(a_program_that_is_refused_leaves_no_vms),
        cmocka_unit_test(no_memory_is_an_error_or_a_packet_not_seen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
