/* SPDX-License-Identifier: Apache-2.0 */
/* The chunk header's words as bytes, counting, and flags. */
#include "abi/chunk.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "abi/ids.h"

static void header_bytes_are_those_of_the_reference(void **state)
{
    static const uint8_t want[8] = {0x04, 0x03, 0x02, 0x01, 0xff, 0x7f, 0x05, 0x14};
    struct pfl_chunk_header chunk;

    (void)state;
    pfl_chunk_set_header(&chunk, PFL_WRITER_ID_MAX, 0x01020304,
                         pfl_chunk_packets_of(5, PFL_CHUNK_CONTINUES_PREV | PFL_CHUNK_NEEDS_PATCH));
    assert_memory_equal(&chunk, want, sizeof(want));
}

static void a_look_gives_back_what_was_set(void **state)
{
    struct pfl_chunk_header chunk;
    struct pfl_chunk_view view;

    (void)state;
    for (uint32_t flags = 0; flags <= PFL_CHUNK_FLAGS_MASK; flags++) {
        pfl_chunk_set_header(&chunk, 77, 88, pfl_chunk_packets_of(1023, flags));
        view = pfl_chunk_look(&chunk);
        assert_int_equal(view.writer_id, 77);
        assert_int_equal(view.chunk_id, 88);
        assert_int_equal(view.count, 1023);
        assert_int_equal(view.flags, flags);
    }
    /* reserved flag bits 8, 16, 32 are not ours */
    assert_int_equal(pfl_chunk_flags(0xffff), PFL_CHUNK_FLAGS_MASK);
    assert_int_equal(pfl_chunk_flags((uint16_t)(0x38u << PFL_CHUNK_COUNT_BITS)), 0);
}

static void counting_stops_at_the_field_s_end_and_keeps_flags(void **state)
{
    struct pfl_chunk_header chunk;

    (void)state;
    pfl_chunk_set_header(&chunk, 1, 0, pfl_chunk_packets_of(0, PFL_CHUNK_CONTINUES_PREV));
    for (uint32_t i = 1; i <= PFL_CHUNK_COUNT_MAX; i++)
        assert_int_equal(pfl_chunk_add_packet(&chunk), i);
    assert_int_equal(pfl_chunk_add_packet(&chunk), PFL_CHUNK_COUNT_MAX);
    assert_int_equal(pfl_chunk_look(&chunk).flags, PFL_CHUNK_CONTINUES_PREV);
}

static void flags_are_set_and_cleared_one_by_one(void **state)
{
    struct pfl_chunk_header chunk;

    (void)state;
    pfl_chunk_set_header(&chunk, 1, 0, 3);
    pfl_chunk_set_flag(&chunk, PFL_CHUNK_NEEDS_PATCH);
    pfl_chunk_set_flag(&chunk, PFL_CHUNK_CONTINUES_NEXT);
    assert_int_equal(pfl_chunk_look(&chunk).flags, 6);
    pfl_chunk_clear_flag(&chunk, PFL_CHUNK_NEEDS_PATCH);
    assert_int_equal(pfl_chunk_look(&chunk).flags, 2);
    assert_int_equal(pfl_chunk_look(&chunk).count, 3);
    pfl_chunk_clear_header(&chunk);
    assert_int_equal(pfl_chunk_look(&chunk).flags, 0);
    assert_int_equal(pfl_chunk_look(&chunk).writer_id, 0);
}

static void writer_ids_and_distances(void **state)
{
    (void)state;
    assert_false(pfl_ids_is_writer(0));
    assert_true(pfl_ids_is_writer(1));
    assert_true(pfl_ids_is_writer(32767));
    assert_false(pfl_ids_is_writer(32768));
    assert_int_equal(pfl_ids_chunk_distance(1, UINT32_MAX), 2);
    assert_int_equal(pfl_ids_chunk_distance(UINT32_MAX, 1), -2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(header_bytes_are_those_of_the_reference),
        cmocka_unit_test(a_look_gives_back_what_was_set),
        cmocka_unit_test(counting_stops_at_the_field_s_end_and_keeps_flags),
        cmocka_unit_test(flags_are_set_and_cleared_one_by_one),
        cmocka_unit_test(writer_ids_and_distances),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
