/* SPDX-License-Identifier: Apache-2.0 */
/* The bounded buffer against a plain array, at its limit, and without memory. */
#include "base/buf.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tests/support/sweep.h"

static void content_is_what_was_appended_less_what_was_consumed(void **state)
{
    struct pfl_buf buf;
    uint8_t next_in = 0, next_out = 0;
    uint32_t seed = 1;

    (void)state;
    pfl_buf_init(&buf, 1000);
    for (int step = 0; step < 5000; step++) {
        uint8_t chunk[97];
        size_t len = (seed = seed * 1664525u + 1013904223u) % sizeof(chunk);

        for (size_t i = 0; i < len; i++)
            chunk[i] = (uint8_t)(next_in + i);
        if (pfl_buf_append(&buf, chunk, len) == 0)
            next_in = (uint8_t)(next_in + len);
        else
            assert_true(pfl_buf_get(&buf).len + len > 1000);
        len = (seed >> 8) % (pfl_buf_get(&buf).len + 1);
        for (size_t i = 0; i < len; i++)
            assert_int_equal(pfl_buf_get(&buf).data[i], next_out++);
        pfl_buf_consume(&buf, len);
        assert_true(buf.capacity <= 1000);
    }
    pfl_buf_fini(&buf);
    pfl_sweep_assert_no_leak();
}

static void the_maximum_is_reached_exactly_and_never_passed(void **state)
{
    struct pfl_buf buf;
    uint8_t byte = 7;
    uint8_t *room;

    (void)state;
    pfl_buf_init(&buf, 300);
    for (int i = 0; i < 300; i++)
        assert_int_equal(pfl_buf_append(&buf, &byte, 1), 0);
    assert_int_equal(pfl_buf_append(&buf, &byte, 1), PFL_ELIMIT);
    assert_int_equal(pfl_buf_reserve(&buf, SIZE_MAX, &room), PFL_ELIMIT);
    assert_int_equal(pfl_buf_get(&buf).len, 300);
    assert_int_equal(buf.capacity, 300);
    pfl_buf_consume(&buf, 1);
    assert_int_equal(pfl_buf_append(&buf, &byte, 1), 0);
    pfl_buf_fini(&buf);
}

static void an_emptied_buffer_keeps_its_memory_and_a_finished_one_can_start_again(void **state)
{
    struct pfl_buf buf;
    uint8_t *before;

    (void)state;
    pfl_buf_init(&buf, 4096);
    assert_int_equal(pfl_buf_append(&buf, "abc", 3), 0);
    before = buf.data;
    pfl_buf_clear(&buf);
    assert_int_equal(pfl_buf_get(&buf).len, 0);
    assert_null(pfl_buf_get(&buf).data);
    assert_int_equal(pfl_buf_append(&buf, "de", 2), 0);
    assert_ptr_equal(buf.data, before);
    pfl_buf_fini(&buf);
    pfl_buf_fini(&buf);
    assert_int_equal(pfl_buf_append(&buf, "f", 1), 0);
    pfl_buf_fini(&buf);
    pfl_sweep_assert_no_leak();
}

static void room_that_was_reserved_counts_only_once_extended(void **state)
{
    struct pfl_buf buf;
    uint8_t *room;

    (void)state;
    pfl_buf_init(&buf, 100);
    assert_int_equal(pfl_buf_reserve(&buf, 100, &room), 0);
    memset(room, 'x', 100);
    assert_int_equal(pfl_buf_get(&buf).len, 0);
    pfl_buf_extend(&buf, 40);
    assert_int_equal(pfl_buf_get(&buf).len, 40);
    assert_int_equal(pfl_buf_get(&buf).data[39], 'x');
    pfl_buf_fini(&buf);
}

static int fill(void *arg)
{
    struct pfl_buf buf;
    int rc = 0;

    pfl_buf_init(&buf, 100000);
    for (int i = 0; i < 100 && rc == 0; i++) {
        size_t before = buf.len;

        rc = pfl_buf_append(&buf, arg, 900);
        assert_int_equal(buf.len, rc == 0 ? before + 900 : before);
    }
    pfl_buf_fini(&buf);
    return rc;
}

static void without_memory_nothing_is_appended_and_nothing_leaks(void **state)
{
    uint8_t chunk[900] = {0};

    (void)state;
    pfl_sweep(fill, chunk, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(content_is_what_was_appended_less_what_was_consumed),
        cmocka_unit_test(the_maximum_is_reached_exactly_and_never_passed),
        cmocka_unit_test(an_emptied_buffer_keeps_its_memory_and_a_finished_one_can_start_again),
        cmocka_unit_test(room_that_was_reserved_counts_only_once_extended),
        cmocka_unit_test(without_memory_nothing_is_appended_and_nothing_leaks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
