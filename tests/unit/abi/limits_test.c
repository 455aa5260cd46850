/* SPDX-License-Identifier: Apache-2.0 */
/* Which sizes a shared memory buffer gets, and which ones are taken as they are. */
#include "abi/limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct choice {
    uint32_t conf_smb_kb, conf_page_kb, hint_smb, hint_page;
    uint32_t want_smb, want_page;
};

static void sizes_follow_config_hint_default_and_caps(void **state)
{
    static const struct choice choices[] = {
        {0, 0, 0, 0, 262144, 4096},
        {0, 0, 1048576, 0, 1048576, 4096},
        {0, 0, 1048576, 32768, 1048576, 32768},
        {512, 8, 1048576, 32768, 524288, 8192}, /* the config wins */
        {0, 0, 1048576, 65536, 1048576, 32768}, /* page capped */
        {65536, 0, 0, 0, 33554432, 4096},       /* buffer capped */
        {UINT32_MAX, UINT32_MAX, 0, 0, 33554432, 32768},
        {0, 0, 1048576, 12288, 262144, 4096}, /* no such page: both fall back */
        {0, 0, 1048577, 4096, 262144, 4096},  /* not divisible */
        {0, 32, 4096, 0, 262144, 4096},       /* smaller than a page */
        {0, 0, 0, 1, 262144, 4096},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++) {
        const struct choice *c = &choices[i];
        struct pfl_smb_size got =
            pfl_limits_choose_smb(c->conf_smb_kb, c->conf_page_kb, c->hint_smb, c->hint_page);

        assert_int_equal(got.smb_bytes, c->want_smb);
        assert_int_equal(got.page_bytes, c->want_page);
        assert_true(pfl_limits_is_smb(got.smb_bytes, got.page_bytes));
    }
}

static void offered_memory_is_taken_or_refused_as_it_is(void **state)
{
    (void)state;
    assert_true(pfl_limits_is_smb(1048576, 32768));
    assert_true(pfl_limits_is_smb(4096, 4096));
    assert_false(pfl_limits_is_smb(1048576, 0));
    assert_false(pfl_limits_is_smb(1048576, 65536));
    assert_false(pfl_limits_is_smb(1048576, 12288));
    assert_false(pfl_limits_is_smb(67108864, 4096));
    assert_false(pfl_limits_is_smb(0, 4096));
    assert_false(pfl_limits_is_smb(4096, 8192));
}

static void the_layout_allows_more_than_a_service_does(void **state)
{
    (void)state;
    assert_true(pfl_limits_is_layout(65536, 65536));
    assert_true(pfl_limits_is_layout(12288 * 3, 12288));
    assert_false(pfl_limits_is_layout(4096, 2048));
    assert_false(pfl_limits_is_layout(131072, 131072));
    assert_false(pfl_limits_is_layout((uint64_t)1 << 33, 4096));
    assert_false(pfl_limits_is_layout(0, 4096));
    assert_false(pfl_limits_is_layout(4096, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_follow_config_hint_default_and_caps),
        cmocka_unit_test(offered_memory_is_taken_or_refused_as_it_is),
        cmocka_unit_test(the_layout_allows_more_than_a_service_does),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
