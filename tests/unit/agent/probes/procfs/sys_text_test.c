/* SPDX-License-Identifier: Apache-2.0 */
/* /proc files into SysStats, and which of their lines a config chooses. */
#include "agent/probes/procfs/sys_text.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "tests/support/sweep.h"
#include "tests/unit/agent/probes/ftrace_kit.h"

#define TEXT(s) pfl_span_of((s), sizeof(s) - 1)

static struct pfl_probe_message m;
static struct pfl_sys_conf conf;

static int setup(void **state)
{
    (void)state;
    memset(&conf, 0, sizeof(conf));
    pfl_probe_message_init(&m, 1 << 20);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    assert_false(m.failed);
    pfl_probe_message_fini(&m);
    pfl_sweep_assert_no_leak();
    return 0;
}

static uint64_t value_at(uint32_t first, uint32_t second)
{
    uint32_t path[] = {first, second, 0};
    struct pfl_field f;

    assert_true(kit_find(pfl_buf_get(&m.buf), path, &f));
    return f.value;
}

static void chosen_counters_only(void **state)
{
    static const uint8_t config[] = {0x08, 5, 0x10, 2, 0x20, 49, 0x30, 4};

    (void)state;
    pfl_sys_conf_parse(pfl_span_of(config, sizeof(config)), &conf);
    assert_int_equal(conf.period_ms[PFL_SYS_MEMINFO], 10);
    pfl_sys_add_meminfo(&m, &conf, TEXT("MemTotal:  100 kB\nMemFree:   42 kB\nOdd: 1\n:\n"));
    assert_int_equal(value_at(1, 1), 2);
    assert_int_equal(value_at(1, 2), 42);
    pfl_sys_add_vmstat(&m, &conf, TEXT("nr_free_pages 5\npgmajfault\npgfault 9\n"));
    assert_int_equal(value_at(2, 1), 49);
}

static void counters_may_be_chosen_in_one_packed_field(void **state)
{
    static const uint8_t config[] = {0x12, 2, 1, 2, 0x32, 2, 0xff, 0x7f};

    (void)state;
    pfl_sys_conf_parse(pfl_span_of(config, sizeof(config)), &conf);
    assert_true(conf.has_meminfo_choice);
    assert_true(conf.meminfo[1] && conf.meminfo[2]);
    assert_false(conf.meminfo[0] || conf.meminfo[3]);
    assert_int_equal(conf.stat_choice, 0); /* 16383 is no counter */
}

static void processor_times_are_nanoseconds(void **state)
{
    (void)state;
    pfl_sys_add_stat(&m, &conf,
                     TEXT("cpu  9 9 9\ncpu1 1 2 3 4 5 6 7 8 9 10\nintr 30 0 7\nprocesses 77\n"
                          "softirq 9 1 0\n"),
                     10000000);
    assert_int_equal(value_at(3, 1), 1);
    assert_int_equal(value_at(3, 2), 10000000);
    assert_int_equal(value_at(3, 9), 80000000);
    assert_int_equal(value_at(6, 1), 1); /* zeros are left out */
    assert_int_equal(value_at(6, 2), 7);
    assert_int_equal(value_at(8, 2), 1);
}

static void disks_pressure_and_free_lists(void **state)
{
    (void)state;
    pfl_sys_add_diskstat(&m, TEXT(" 8 0 sda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n"));
    assert_int_equal(value_at(13, 2), 3); /* sectors and ms that were read */
    assert_int_equal(value_at(13, 3), 4);
    assert_int_equal(value_at(13, 4), 7); /* written */
    assert_int_equal(value_at(13, 5), 8);
    assert_int_equal(value_at(13, 6), 14); /* discarded */
    assert_int_equal(value_at(13, 7), 15);
    assert_int_equal(value_at(13, 8), 16); /* flushes */
    assert_int_equal(value_at(13, 9), 17);
    pfl_sys_add_psi(&m, 3, TEXT("some avg10=0.0 total=12\nfull avg10=0.0 total=5\n"));
    assert_int_equal(value_at(14, 1), 3);
    assert_int_equal(value_at(14, 2), 12000);
    pfl_sys_add_buddyinfo(&m, TEXT("Node 0, zone   Normal   11 22\n"));
    assert_int_equal(value_at(12, 3), 11);
}

static void slabs_and_the_graphics_clock(void **state)
{
    uint64_t mhz = 0;

    (void)state;
    pfl_sys_add_slab(&m, TEXT("slabinfo - version: 2.1\n# name <active_objs>\n"
                              "dentry 10 20 192 21 2 : tunables 0 0 0 : slabdata 7 9 0\nodd 1\n"));
    assert_int_equal(value_at(18, 2), 2);
    assert_int_equal(value_at(18, 3), 9);
    assert_true(pfl_sys_find_current_mhz(TEXT("0: 300Mhz \n1: 1300Mhz *\n2: 1900Mhz"), &mhz));
    assert_int_equal(mhz, 1300);
    assert_false(pfl_sys_find_current_mhz(TEXT("0: 300Mhz\n*\n"), &mhz));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(chosen_counters_only, setup, teardown),
        cmocka_unit_test_setup_teardown(counters_may_be_chosen_in_one_packed_field, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(processor_times_are_nanoseconds, setup, teardown),
        cmocka_unit_test_setup_teardown(slabs_and_the_graphics_clock, setup, teardown),
        cmocka_unit_test_setup_teardown(disks_pressure_and_free_lists, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
