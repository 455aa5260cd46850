/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of fragments, written in four bytes and read in any number. */
#include "abi/fragment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void four_byte_sizes_are_read_back(void **state)
{
    static const uint32_t sizes[] = {0,     1,       127,     128,        16383,
                                     16384, 2097151, 2097152, 0x0ffffffe, PFL_FRAGMENT_DROP};
    uint8_t bytes[4];
    uint64_t size = 0;

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        pfl_fragment_put_size4(bytes, sizes[i]);
        assert_true(bytes[0] >= 0x80);
        assert_int_equal(pfl_fragment_get_size(bytes, 4, &size), 4);
        assert_int_equal(size, sizes[i]);
        for (size_t left = 0; left < 4; left++)
            assert_int_equal(pfl_fragment_get_size(bytes, left, &size), 0);
    }
}

static void the_drop_marker_has_the_bytes_of_the_reference(void **state)
{
    static const uint8_t want[4] = {0xff, 0xff, 0xff, 0x7f};
    uint8_t bytes[4];

    (void)state;
    pfl_fragment_put_size4(bytes, PFL_FRAGMENT_DROP);
    assert_memory_equal(bytes, want, 4);
}

static void varints_up_to_ten_bytes_are_read_and_no_more(void **state)
{
    uint8_t bytes[11] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01, 0x01};
    uint64_t size = 7;

    (void)state;
    assert_int_equal(pfl_fragment_get_size(bytes, 11, &size), 10);
    assert_true(size == (uint64_t)1 << 63);
    bytes[9] = 0x80;
    assert_int_equal(pfl_fragment_get_size(bytes, 11, &size), 0);
    bytes[0] = 5;
    assert_int_equal(pfl_fragment_get_size(bytes, 11, &size), 1);
    assert_int_equal(size, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_byte_sizes_are_read_back),
        cmocka_unit_test(the_drop_marker_has_the_bytes_of_the_reference),
        cmocka_unit_test(varints_up_to_ten_bytes_are_read_and_no_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
