/* SPDX-License-Identifier: Apache-2.0 */
/* Every preset is a config that can be sent. */
#include "consumer/config/preset.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "consumer/config/config.h"
#include "tests/support/sweep.h"

static void every_preset_is_accepted_and_described(void **state)
{
    (void)state;
    assert_true(pfl_presets_len >= 4);
    for (size_t i = 0; i < pfl_presets_len; i++) {
        struct pfl_span text = pfl_span_of(pfl_presets[i].text, pfl_presets[i].text_len);
        struct pfl_config_info info;
        struct pfl_buf parsed;
        struct pfl_buf out;
        struct pfl_config_why why = {""};

        pfl_buf_init(&parsed, PFL_CONFIG_MAX_BYTES);
        pfl_buf_init(&out, PFL_CONFIG_MAX_BYTES);
        assert_memory_equal(text.data, "# ", 2);
        assert_int_equal(pfl_config_read(text, "preset", &parsed, &why), 0);
        assert_int_equal(pfl_config_prepare(pfl_buf_get(&parsed), &(struct pfl_config_overrides){0},
                                            &out, &info, &why),
                         0);
        assert_true(info.duration_ms != 0);
        pfl_buf_fini(&parsed);
        pfl_buf_fini(&out);
    }
    pfl_sweep_assert_no_leak();
}

static void presets_are_found_by_name(void **state)
{
    (void)state;
    assert_non_null(pfl_preset_find("default"));
    assert_non_null(pfl_preset_find("chromium"));
    assert_non_null(pfl_preset_find("sched"));
    assert_non_null(pfl_preset_find("system"));
    assert_null(pfl_preset_find("defaul"));
    assert_null(pfl_preset_find(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_preset_is_accepted_and_described),
        cmocka_unit_test(presets_are_found_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
