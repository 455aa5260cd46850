/* SPDX-License-Identifier: Apache-2.0 */
/* What one host may bring. */
#include "consumer/host/read_budget.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MIB (1ull << 20)

/* Two buffers of 1 MiB; fields around them that are none of ours. */
static const uint8_t two_buffers[] = {
    0x0a, 0x03, 0x08, 0x80, 0x08,             /* buffers { size_kb: 1024 } */
    0x18, 0x05,                               /* duration_ms: 5 */
    0x0a, 0x05, 0x20, 0x01, 0x08, 0x80, 0x08, /* buffers { fill_policy: 1 size_kb: 1024 } */
};

static uint64_t take_all(struct pfl_read_budget b, uint64_t packet_bytes)
{
    uint64_t bytes = 0;

    while (pfl_read_budget_take(&b, 1, packet_bytes))
        bytes += packet_bytes;
    return bytes;
}

static void honest_packets_of_any_size_fit(void **state)
{
    (void)state;
    for (uint64_t payload = 2; payload <= MIB; payload = payload * 3 / 2 + 1) {
        struct pfl_read_budget b =
            pfl_read_budget_of_config(pfl_span_of(two_buffers, sizeof(two_buffers)));
        uint64_t packets = 2 * MIB / (payload + 1);

        assert_true(
            pfl_read_budget_take(&b, packets, packets * (payload + PFL_READ_TRUSTED_MAX_BYTES)));
        assert_true(
            pfl_read_budget_take(&b, 1, PFL_READ_SERVICE_MAX_BYTES)); /* and the service's */
    }
}

static void more_than_the_buffers_can_hold_does_not(void **state)
{
    struct pfl_read_budget b =
        pfl_read_budget_of_config(pfl_span_of(two_buffers, sizeof(two_buffers)));

    (void)state;
    assert_true(take_all(b, MIB) <= 2 * MIB + PFL_READ_SERVICE_MAX_BYTES + 200 * 32);
    assert_true(take_all(b, PFL_READ_TRUSTED_MAX_BYTES) <=
                12 * 2 * MIB + PFL_READ_SERVICE_MAX_BYTES);
    assert_false(pfl_read_budget_take(&b, 1, UINT64_MAX));
    assert_true(pfl_read_budget_take(&b, 1, 100)); /* what did not fit took nothing */
}

static void config_that_is_none_has_the_services_own(void **state)
{
    struct pfl_read_budget b = pfl_read_budget_of_config(pfl_span_of("\xff\xff", 2));

    (void)state;
    assert_int_equal(b.bytes_left, PFL_READ_SERVICE_MAX_BYTES);
}

static void largest_numbers_do_not_wrap(void **state)
{
    struct pfl_read_budget b = pfl_read_budget_of_buffers(UINT64_MAX - 5);

    (void)state;
    assert_true(b.ring_left == UINT64_MAX && b.bytes_left == UINT64_MAX);
}

static void operators_limit_counts_bytes_alone(void **state)
{
    struct pfl_read_budget b = pfl_read_budget_of_limit(10 * MIB);

    (void)state;
    assert_int_equal(take_all(b, 64), 10 * MIB);
    assert_int_equal(take_all(b, MIB), 10 * MIB);
    b = pfl_read_budget_of_limit(0);
    assert_true(pfl_read_budget_take(&b, 1000, 1ull << 60));
}

static void what_is_on_its_way_goes_on_top(void **state)
{
    struct pfl_read_budget b = pfl_read_budget_of_buffers(MIB);
    struct pfl_read_budget all = pfl_read_budget_of_limit(0);
    struct pfl_read_budget more = pfl_read_budget_and(&b, 5 * MIB);

    (void)state;
    assert_int_equal(more.ring_left, b.ring_left + 5 * MIB);
    assert_int_equal(more.bytes_left, b.bytes_left + 5 * MIB);
    more = pfl_read_budget_and(&all, 1);
    assert_int_equal(more.bytes_left, UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_on_its_way_goes_on_top),
        cmocka_unit_test(honest_packets_of_any_size_fit),
        cmocka_unit_test(more_than_the_buffers_can_hold_does_not),
        cmocka_unit_test(config_that_is_none_has_the_services_own),
        cmocka_unit_test(largest_numbers_do_not_wrap),
        cmocka_unit_test(operators_limit_counts_bytes_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
