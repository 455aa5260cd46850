/* SPDX-License-Identifier: Apache-2.0 */
/* What is repeated in every file: the last of its kind, within bounds. */
#include "consumer/merge/kept_packets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tests/support/sweep.h"

#define CLOCKS     6u
#define EXTENSIONS 72u

static struct pfl_kept_packets kept;

static void put(uint32_t kind, uint32_t machine, bool is_one, const char *text)
{
    assert_int_equal(
        pfl_kept_packets_put(&kept, kind, machine, is_one, pfl_span_of(text, strlen(text))), 0);
}

static int end(void **state)
{
    (void)state;
    pfl_kept_packets_fini(&kept);
    pfl_sweep_assert_no_leak();
    return 0;
}

static void assert_kept(size_t index, const char *text)
{
    assert_true(index < kept.len);
    assert_int_equal(kept.list[index].len, strlen(text));
    assert_memory_equal(kept.list[index].bytes, text, strlen(text));
}

static void the_last_of_a_kind_takes_the_first_ones_place(void **state)
{
    (void)state;
    put(CLOCKS, 0, true, "first");
    put(CLOCKS, 3, true, "another machine's");
    put(CLOCKS, 0, true, "the second");
    assert_int_equal(kept.len, 2);
    assert_kept(0, "the second");
    assert_kept(1, "another machine's");
    assert_int_equal(kept.bytes, strlen("the second") + strlen("another machine's"));
}

static void of_a_kind_with_many_each_is_kept_once(void **state)
{
    (void)state;
    put(EXTENSIONS, 0, false, "one");
    put(EXTENSIONS, 0, false, "two");
    put(EXTENSIONS, 0, false, "one");
    assert_int_equal(kept.len, 2);
    assert_kept(0, "one");
    assert_kept(1, "two");
}

static void what_does_not_fit_is_left_out(void **state)
{
    uint8_t *large = pfl_mem_zalloc(PFL_KEPT_PACKETS_BYTES + 1);
    uint32_t n;

    (void)state;
    assert_non_null(large);
    put(CLOCKS, 0, true, "old");
    assert_int_equal(pfl_kept_packets_put(&kept, CLOCKS, 0, true,
                                          pfl_span_of(large, PFL_KEPT_PACKETS_BYTES + 1)),
                     0);
    assert_kept(0, "old");
    assert_int_equal(
        pfl_kept_packets_put(&kept, CLOCKS, 0, true, pfl_span_of(large, PFL_KEPT_PACKETS_BYTES)),
        0);
    assert_int_equal(kept.bytes, PFL_KEPT_PACKETS_BYTES);
    put(CLOCKS, 1, true, "no room");
    assert_int_equal(kept.len, 1);
    put(CLOCKS, 0, true, "old");
    for (n = 1; n < PFL_KEPT_PACKETS_MAX + 10; n++)
        put(CLOCKS, n, true, "x");
    assert_int_equal(kept.len, PFL_KEPT_PACKETS_MAX);
    pfl_mem_free(large);
}

static void hosts_share_a_quarter_of_a_file(void **state)
{
    (void)state;
    assert_int_equal(pfl_kept_packets_share(0, 1000), PFL_KEPT_PACKETS_BYTES);
    assert_int_equal(pfl_kept_packets_share(1u << 20, 1), 256u << 10);
    assert_int_equal(pfl_kept_packets_share(2u << 20, 2), 256u << 10);
    assert_int_equal(pfl_kept_packets_share(1u << 20, 1024), PFL_KEPT_PACKETS_BYTES_MIN);
    assert_int_equal(pfl_kept_packets_share(UINT64_C(4) << 30, 2), PFL_KEPT_PACKETS_BYTES);
    assert_int_equal(pfl_kept_packets_share(1u << 20, 0), 256u << 10);
}

static void what_does_not_fit_into_a_share_is_counted(void **state)
{
    (void)state;
    kept.max_bytes = 8;
    put(EXTENSIONS, 0, false, "1234");
    put(EXTENSIONS, 0, false, "5678");
    put(EXTENSIONS, 0, false, "9");
    put(EXTENSIONS, 0, false, "1234");
    assert_int_equal(kept.len, 2);
    assert_int_equal(kept.bytes, 8);
    assert_int_equal(kept.left_out, 1);
}

static int put_many(void *arg)
{
    struct pfl_kept_packets k = {0};
    int rc = 0;

    (void)arg;
    for (uint32_t i = 0; rc == 0 && i < 20; i++)
        rc = pfl_kept_packets_put(&k, CLOCKS, i % 15, true, pfl_span_of("abcdefghijklmnopqrst", i));
    pfl_kept_packets_fini(&k);
    return rc;
}

static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    pfl_sweep(put_many, NULL, false);
}

/* As many and as long as may be, which differ in their last bytes. */
static void packets_that_look_alike_are_distinguished(void **state)
{
    static uint8_t packet[PFL_KEPT_PACKETS_BYTES / PFL_KEPT_PACKETS_MAX];
    const struct pfl_span span = pfl_span_of(packet, sizeof(packet));

    (void)state;
    for (uint32_t i = 0; i < 20 * PFL_KEPT_PACKETS_MAX; i++) {
        memcpy(packet + sizeof(packet) - sizeof(i), &i, sizeof(i));
        assert_int_equal(pfl_kept_packets_put(&kept, EXTENSIONS, 0, false, span), 0);
    }
    assert_int_equal(kept.len, PFL_KEPT_PACKETS_MAX);
    assert_int_equal(kept.bytes, PFL_KEPT_PACKETS_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_last_of_a_kind_takes_the_first_ones_place, end),
        cmocka_unit_test_teardown(of_a_kind_with_many_each_is_kept_once, end),
        cmocka_unit_test_teardown(what_does_not_fit_is_left_out, end),
        cmocka_unit_test_teardown(hosts_share_a_quarter_of_a_file, end),
        cmocka_unit_test_teardown(what_does_not_fit_into_a_share_is_counted, end),
        cmocka_unit_test_teardown(packets_that_look_alike_are_distinguished, end),
        cmocka_unit_test_teardown(every_failed_allocation_is_survived, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
