/* SPDX-License-Identifier: Apache-2.0 */
/* /proc/kallsyms: which line is a function, which function has an address. */
#include "agent/probes/kernel_events/ksyms.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/support/sweep.h"

static const char file[] = "ffffffff81000100 T second\n"
                           "ffffffff81000000 t first\n"
                           "ffffffff81000100 t alias_of_second\n"
                           "ffffffff82000000 D data\n"
                           "ffffffff81000200 t $x\n"
                           "0000000000000000 T hidden\n"
                           "nonsense\n"
                           "\n"
                           "ffffffffc0201000 t in_module\t[mod]\n"
                           "ffffffffc0201800 T last_without_newline";

static void assert_name(const struct pfl_ksyms *symbols, uint64_t address, const char *name)
{
    struct pfl_span found = pfl_ksyms_find(symbols, address);

    assert_int_equal(found.len, strlen(name));
    if (found.len != 0)
        assert_memory_equal(found.data, name, found.len);
}

static void assert_all(const struct pfl_ksyms *symbols)
{
    assert_int_equal(symbols->count, 5);
    assert_name(symbols, 5, "");
    assert_name(symbols, UINT64_C(0xffffffff80ffffff), "");
    assert_name(symbols, UINT64_C(0xffffffff81000000), "first");
    assert_name(symbols, UINT64_C(0xffffffff810000ff), "first");
    assert_name(symbols, UINT64_C(0xffffffff81000180), "alias_of_second");
    assert_name(symbols, UINT64_C(0xffffffff91000180), ""); /* too far behind */
    assert_name(symbols, UINT64_C(0xffffffffc0201004), "in_module");
    assert_name(symbols, UINT64_C(0xffffffffc0201801), "last_without_newline");
}

static void address_belongs_to_the_function_before_it(void **state)
{
    struct pfl_ksyms symbols = {0};

    (void)state;
    assert_int_equal(pfl_ksyms_feed(&symbols, pfl_span_of(file, sizeof(file) - 1)), 0);
    pfl_ksyms_seal(&symbols);
    assert_all(&symbols);
    pfl_ksyms_fini(&symbols);
    pfl_sweep_assert_no_leak();
}

static void text_cut_anywhere_is_the_same_text(void **state)
{
    (void)state;
    for (size_t cut = 1; cut < sizeof(file) - 1; cut++) {
        struct pfl_ksyms symbols = {0};

        assert_int_equal(pfl_ksyms_feed(&symbols, pfl_span_of(file, cut)), 0);
        assert_int_equal(pfl_ksyms_feed(&symbols, pfl_span_of(file + cut, sizeof(file) - 1 - cut)),
                         0);
        pfl_ksyms_seal(&symbols);
        assert_all(&symbols);
        pfl_ksyms_fini(&symbols);
    }
}

static void many_symbols_and_a_line_without_end(void **state)
{
    struct pfl_ksyms symbols = {0};
    char line[64];

    (void)state;
    for (uint64_t i = 0; i < 70000; i++) {
        int len = snprintf(line, sizeof(line), "ffffffff8%07llx t symbol_number_%llu\n",
                           (unsigned long long)(70000 - i) * 16, (unsigned long long)i);

        assert_int_equal(pfl_ksyms_feed(&symbols, pfl_span_of(line, (size_t)len)), 0);
    }
    for (int i = 0; i < 100; i++)
        assert_int_equal(pfl_ksyms_feed(&symbols, pfl_span_of("xxxxxxxxxxxxxxxxxxxxxxxx", 24)), 0);
    pfl_ksyms_seal(&symbols);
    assert_int_equal(symbols.count, 70000);
    assert_name(&symbols, UINT64_C(0xffffffff80000013), "symbol_number_69999");
    pfl_ksyms_fini(&symbols);
}

static void address_is_fresh_once_until_the_set_is_cleared(void **state)
{
    struct pfl_ksym_set set;

    (void)state;
    assert_int_equal(pfl_ksym_set_init(&set), 0);
    pfl_ksym_set_add(&set, 0);
    pfl_ksym_set_add(&set, 5);
    pfl_ksym_set_add(&set, 5);
    assert_int_equal(set.fresh_count, 1);
    assert_int_equal(set.fresh[0], 5);
    pfl_ksym_set_clear(&set);
    pfl_ksym_set_add(&set, 5);
    assert_int_equal(set.fresh_count, 1);
    for (uint64_t i = 1; i < 2 * PFL_KSYM_SLOTS; i++)
        pfl_ksym_set_add(&set, i << 20);
    assert_int_equal(set.count, PFL_KSYM_SLOTS / 4 * 3); /* the rest stays numbers */
    pfl_ksym_set_fini(&set);
    pfl_sweep_assert_no_leak();
}

static int read_all(void *arg)
{
    struct pfl_ksyms symbols = {0};
    struct pfl_ksym_set set = {0};
    int rc = pfl_ksyms_feed(&symbols, pfl_span_of(file, sizeof(file) - 1));

    (void)arg;
    if (rc == 0)
        rc = pfl_ksym_set_init(&set);
    pfl_ksyms_seal(&symbols);
    pfl_ksym_set_fini(&set);
    pfl_ksyms_fini(&symbols);
    return rc;
}

static void reading_survives_every_failed_allocation(void **state)
{
    (void)state;
    pfl_sweep(read_all, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(address_belongs_to_the_function_before_it),
        cmocka_unit_test(text_cut_anywhere_is_the_same_text),
        cmocka_unit_test(many_symbols_and_a_line_without_end),
        cmocka_unit_test(address_is_fresh_once_until_the_set_is_cleared),
        cmocka_unit_test(reading_survives_every_failed_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
