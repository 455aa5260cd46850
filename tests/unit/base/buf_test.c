/* SPDX-License-Identifier: Apache-2.0 */
/* The bounded buffer against a plain model, its limits, and failed allocations. */
#include "base/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tests/support/sweep.h"

static void content_is_what_was_appended_less_what_was_consumed(void **state)
{
    struct pfl_buf buf;
    uint32_t seed = 1;
    uint32_t written = 0;
    uint32_t read = 0;

    (void)state;
    pfl_buf_init(&buf, 5000);
    for (int i = 0; i < 20000; i++) {
        uint8_t piece[700];
        size_t n;

        seed = seed * 1664525u + 1013904223u;
        n = (seed >> 8) % sizeof(piece);
        if ((seed & 1) != 0) {
            for (size_t k = 0; k < n; k++)
                piece[k] = (uint8_t)(written + k);
            if (pfl_buf_append(&buf, piece, n) == 0)
                written += (uint32_t)n;
            else
                assert_true(buf.len + n > 5000);
        } else {
            n = n < buf.len ? n : buf.len;
            pfl_buf_consume(&buf, n);
            read += (uint32_t)n;
        }
        assert_int_equal(buf.len, written - read);
        if (buf.len != 0) {
            assert_int_equal(pfl_buf_get(&buf).data[0], (uint8_t)read);
            assert_int_equal(pfl_buf_get(&buf).data[buf.len - 1], (uint8_t)(written - 1));
        }
        assert_true(buf.capacity <= 5000);
    }
    pfl_buf_fini(&buf);
    pfl_sweep_assert_no_leak();
}

static void maximum_is_exact(void **state)
{
    static const uint8_t data[1000];
    struct pfl_buf buf;

    (void)state;
    pfl_buf_init(&buf, 1000);
    assert_int_equal(pfl_buf_append(&buf, data, 1000), 0);
    assert_int_equal(pfl_buf_append(&buf, data, 1), PFL_ELIMIT);
    assert_int_equal(pfl_buf_append(&buf, data, 0), 0);
    assert_int_equal(buf.len, 1000);
    pfl_buf_consume(&buf, 1);
    assert_int_equal(pfl_buf_append(&buf, data, 1), 0);
    assert_int_equal(pfl_buf_append(&buf, data, SIZE_MAX), PFL_ELIMIT);
    pfl_buf_fini(&buf);
    pfl_sweep_assert_no_leak();
}

static void maximum_below_the_first_capacity_is_kept(void **state)
{
    struct pfl_buf buf;

    (void)state;
    pfl_buf_init(&buf, 3);
    assert_int_equal(pfl_buf_append(&buf, "abc", 3), 0);
    assert_int_equal(buf.capacity, 3);
    assert_int_equal(pfl_buf_append(&buf, "d", 1), PFL_ELIMIT);
    pfl_buf_fini(&buf);
}

static void empty_buffer_owns_nothing_and_can_be_used_again(void **state)
{
    struct pfl_buf buf = {0};
    uint8_t *room;

    (void)state;
    pfl_buf_fini(&buf); /* legal on zeroed memory */
    pfl_buf_init(&buf, 100);
    assert_null(pfl_buf_get(&buf).data);
    pfl_sweep_assert_no_leak();
    assert_int_equal(pfl_buf_reserve(&buf, 10, &room), 0);
    room[0] = 'x';
    pfl_buf_extend(&buf, 1);
    pfl_buf_clear(&buf);
    assert_int_equal(buf.len, 0);
    pfl_buf_fini(&buf);
    assert_int_equal(pfl_buf_append(&buf, "y", 1), 0);
    assert_int_equal(pfl_buf_get(&buf).data[0], 'y');
    pfl_buf_fini(&buf);
    pfl_sweep_assert_no_leak();
}

static int append_body(void *arg)
{
    static const uint8_t data[4000];
    struct pfl_buf buf;
    int rc = 0;

    (void)arg;
    pfl_buf_init(&buf, 100000);
    for (int i = 0; i < 10 && rc == 0; i++) {
        size_t before = buf.len;

        rc = pfl_buf_append(&buf, data, sizeof(data));
        assert_int_equal(buf.len, rc == 0 ? before + sizeof(data) : before);
    }
    pfl_buf_fini(&buf);
    return rc;
}

static void failed_growth_changes_nothing(void **state)
{
    (void)state;
    pfl_sweep(append_body, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(content_is_what_was_appended_less_what_was_consumed),
        cmocka_unit_test(maximum_is_exact),
        cmocka_unit_test(maximum_below_the_first_capacity_is_kept),
        cmocka_unit_test(empty_buffer_owns_nothing_and_can_be_used_again),
        cmocka_unit_test(failed_growth_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
