/* SPDX-License-Identifier: Apache-2.0 */
#include "service/output/trace_filter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tests/support/sweep.h"
#include "tests/unit/service/output/filter_kit.h"

/* Trace.packet -> {1, 2 any; 3 nested {1 any}; 4 string; 5 into itself}. */
static struct kit_bytes make_config(void)
{
    const struct kit_bytes code =
        kit_bytecode(KIT_NESTED(1, 1), KIT_END, KIT_RANGE(1, 2), KIT_NESTED(3, 2), KIT_STRING(4),
                     KIT_NESTED(5, 1), KIT_END, KIT_FIELD(1), KIT_END);
    static const struct kit_rule rules[] = {{1, "pin=(\\d+)", NULL, NULL, -1}};
    const struct kit_bytes chain = kit_chain(rules, 1);
    struct kit_bytes config = {.len = 0};

    kit_put(&config, 2, code.data, code.len);
    kit_put(&config, 3, chain.data, chain.len);
    return config;
}

static struct pfl_trace_filter *make(void)
{
    const struct kit_bytes config = make_config();
    struct pfl_trace_filter *filter = NULL;
    char why[PFL_FILTER_WHY_BYTES] = "";

    assert_int_equal(pfl_trace_filter_new(kit_span(&config), &filter, why), 0);
    return filter;
}

/* Filters into other memory and into its own; a copy on the heap shows reads past the end. */
static int run(struct pfl_trace_filter *filter, struct pfl_span packet, uint8_t *out, size_t *len)
{
    uint8_t *same = pfl_mem_alloc(packet.len);
    size_t same_len = 0;
    int same_rc;
    int rc;

    assert_non_null(same);
    if (packet.len != 0)
        memcpy(same, packet.data, packet.len);
    rc = pfl_trace_filter_packet(filter, pfl_span_of(same, packet.len), out, len);
    same_rc = pfl_trace_filter_packet(filter, pfl_span_of(same, packet.len), same, &same_len);
    assert_int_equal(rc, same_rc);
    if (rc == 0) {
        assert_int_equal(*len, same_len);
        assert_memory_equal(out, same, same_len);
        assert_true(*len <= packet.len);
    }
    pfl_mem_free(same);
    return rc;
}

#define BYTES(...)                                                                                 \
    pfl_span_of((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static void only_allowed_fields_pass_each_in_its_shortest_form(void **state)
{
    static const struct {
        const char *claim;
        uint8_t in[40];
        size_t in_len;
        uint8_t out[40];
        size_t out_len;
    } cases[] = {
        {"varint passes", {0x08, 0x05}, 2, {0x08, 0x05}, 2},
        {"redundant varints shrink", {0x88, 0x00, 0x85, 0x80, 0x00}, 5, {0x08, 0x05}, 2},
        {"unknown ids go", {0x30, 0x05, 0x08, 0x01}, 4, {0x08, 0x01}, 2},
        {"fixed32", {0x15, 1, 2, 3, 4}, 5, {0x15, 1, 2, 3, 4}, 5},
        {"fixed64", {0x11, 1, 2, 3, 4, 5, 6, 7, 8}, 9, {0x11, 1, 2, 3, 4, 5, 6, 7, 8}, 9},
        {"fixed32 of another id goes", {0x35, 1, 2, 3, 4}, 5, {0}, 0},
        {"bytes", {0x12, 0x02, 'a', 'b'}, 4, {0x12, 0x02, 'a', 'b'}, 4},
        {"unknown bytes go", {0x32, 0x02, 'a', 'b'}, 4, {0}, 0},
        {"a varint where a message should be goes", {0x18, 0x01}, 2, {0}, 0},
        {"a varint where a string should be goes", {0x20, 0x01}, 2, {0}, 0},
        {"inner fields go", {0x1a, 0x04, 0x08, 1, 0x10, 2}, 6, {0x1a, 0x02, 0x08, 1}, 4},
        {"an emptied message stays", {0x1a, 0x02, 0x10, 2}, 4, {0x1a, 0x00}, 2},
        {"an empty message stays", {0x1a, 0x00}, 2, {0x1a, 0x00}, 2},
        {"messages in messages",
         {0x2a, 0x06, 0x2a, 0x04, 0x08, 1, 0x30, 1},
         8,
         {0x2a, 0x04, 0x2a, 0x02, 0x08, 1},
         6},
        {"id 0 is skipped and its payload read", {0x02, 0x02, 0x08, 0x07}, 4, {0x08, 0x07}, 2},
        {"an id past 2^29 goes",
         {0x80, 0x80, 0x80, 0x80, 0x10, 0x01, 0x08, 0x07},
         8,
         {0x08, 0x07},
         2},
        {"id 0 varint", {0x00, 0x02, 0x08, 0x07}, 4, {0x08, 0x07}, 2},
        {"redacted",
         {0x22, 6, 'p', 'i', 'n', '=', '1', '2'},
         8,
         {0x22, 6, 'p', 'i', 'n', '=', 'P', '6'},
         8},
    };
    struct pfl_trace_filter *filter = make();

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t out[40];
        size_t len = 99;

        assert_int_equal(run(filter, pfl_span_of(cases[i].in, cases[i].in_len), out, &len), 0);
        if (len != cases[i].out_len || memcmp(out, cases[i].out, len) != 0)
            fail_msg("%s: %zu bytes", cases[i].claim, len);
    }
    pfl_trace_filter_free(filter);
}

static void a_packet_of_a_cancelled_filter_is_left_at_once(void **state)
{
    struct pfl_trace_filter *filter = make();
    const struct pfl_span packet = BYTES(0x08, 0x01);
    atomic_bool is_cancelled;
    uint8_t out[8] = {0};
    size_t len = 0;

    (void)state;
    atomic_init(&is_cancelled, true);
    pfl_trace_filter_set_cancel(filter, &is_cancelled);
    assert_int_equal(run(filter, packet, out, &len), PFL_EAGAIN);
    assert_int_equal(out[0], 0);
    atomic_store(&is_cancelled, false);
    assert_int_equal(run(filter, packet, out, &len), 0);
    assert_int_equal(len, packet.len);
    pfl_trace_filter_free(filter);
}

static void lengths_keep_the_bytes_of_the_input(void **state)
{
    struct pfl_trace_filter *filter = make();
    uint8_t in[203] = {0x1a, 0xc8, 0x01, 0x08, 0x01, 0x12, 0xc4, 0x01};
    uint8_t out[sizeof(in)];
    static const uint8_t expected[] = {0x1a, 0x82, 0x00, 0x08, 0x01};
    size_t len = 0;

    (void)state;
    assert_int_equal(run(filter, pfl_span_of(in, sizeof(in)), out, &len), PFL_EPARSE);
    in[6] = 0xc3; /* 195 bytes: what is left of the 200 */
    assert_int_equal(run(filter, pfl_span_of(in, sizeof(in)), out, &len), 0);
    assert_int_equal(len, sizeof(expected));
    assert_memory_equal(out, expected, len);
    pfl_trace_filter_free(filter);
}

static void malformed_packets_are_an_error(void **state)
{
    const struct pfl_span bad[] = {
        {0},
        BYTES(0x08),
        BYTES(0x0b),
        BYTES(0x0c),
        BYTES(0x0e, 0x01),
        BYTES(0x12, 0x02, 'a'),
        BYTES(0x15, 1, 2, 3),
        BYTES(0x1a, 0x01, 0x08),
        BYTES(0x1a, 0x03, 0x12, 0x02, 'a', 'b'),
        BYTES(0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01),
        BYTES(0x12, 0xff, 0xff, 0xff, 0xff, 0x0f),
        BYTES(0x32, 0x80, 0x80, 0x80, 0x80, 0x01),
    };
    struct pfl_trace_filter *filter = make();
    uint8_t out[64];
    size_t len;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(run(filter, bad[i], out, &len), PFL_EPARSE);
    pfl_trace_filter_free(filter);
}

static void a_packet_cut_anywhere_is_whole_fields_or_an_error(void **state)
{
    struct kit_bytes packet = {.len = 0};
    struct pfl_trace_filter *filter = make();
    uint8_t out[PFL_KIT_BYTES];
    unsigned accepted = 0;
    size_t len;

    (void)state;
    kit_put_varint(&packet, 1, 300);
    kit_put(&packet, 3, "\x08\x01\x12\x01z", 5);
    kit_put(&packet, 4, "pin=77", 6);
    for (size_t cut = 0; cut <= packet.len; cut++)
        accepted += run(filter, pfl_span_of(packet.data, cut), out, &len) == 0;
    assert_int_equal(accepted, 3);
    pfl_trace_filter_free(filter);
}

static void depth_is_bounded(void **state)
{
    static uint8_t packet[2 * (PFL_TRACE_FILTER_MAX_DEPTH + 1)];
    static uint8_t out[sizeof(packet)];
    struct pfl_trace_filter *filter = make();
    size_t at = sizeof(packet);
    size_t len;

    (void)state;
    while (at != 0) {
        at -= 2;
        packet[at] = 0x2a;
        packet[at + 1] = (uint8_t)((sizeof(packet) - at - 2) % 128);
    }
    for (size_t levels = 1; levels < 60; levels++) {
        struct pfl_span inner = pfl_span_of(packet + sizeof(packet) - 2 * levels, 2 * levels);

        assert_int_equal(run(filter, inner, out, &len), 0);
        assert_int_equal(len, 2 * levels);
    }
    pfl_trace_filter_free(filter);
}

static void too_many_levels_are_an_error(void **state)
{
    enum { LEVELS = PFL_TRACE_FILTER_MAX_DEPTH + 2 };
    uint8_t packet[4 * LEVELS];
    uint8_t out[sizeof(packet)];
    struct pfl_trace_filter *filter = make();
    size_t at = sizeof(packet);
    size_t len = 0;
    unsigned levels = 0;
    size_t out_len;

    (void)state;
    while (levels < LEVELS) {
        uint8_t head[4];
        size_t head_len = 1 + pfl_varint_put(head + 1, len);

        head[0] = 0x2a;
        at -= head_len;
        memcpy(packet + at, head, head_len);
        len += head_len;
        levels++;
        /* The packet itself is a level, the innermost one is empty and is none. */
        assert_int_equal(run(filter, pfl_span_of(packet + at, len), out, &out_len),
                         levels <= PFL_TRACE_FILTER_MAX_DEPTH ? 0 : PFL_EPARSE);
    }
    pfl_trace_filter_free(filter);
}

static void expect_refused(struct kit_bytes config, const char *words)
{
    struct pfl_trace_filter *filter;
    char why[PFL_FILTER_WHY_BYTES];

    assert_int_equal(pfl_trace_filter_new(kit_span(&config), &filter, why), PFL_EPARSE);
    if (strstr(why, words) == NULL)
        fail_msg("\"%s\" says nothing of \"%s\"", why, words);
    pfl_sweep_assert_no_leak();
}

static void configs_that_cannot_filter_are_refused(void **state)
{
    const struct kit_bytes no_root = kit_bytecode(KIT_FIELD(1), KIT_END);
    const struct kit_bytes good = kit_bytecode(KIT_NESTED(1, 0), KIT_END);
    struct kit_bytes config = {.len = 0};

    (void)state;
    expect_refused(config, "bytecode: empty");
    kit_put(&config, 1, no_root.data, no_root.len);
    expect_refused(config, "Trace.packet");
    kit_put(&config, 1, good.data, good.len);
    kit_put(&config, 4, "x", 1);
    expect_refused(config, "bytecode_overlay_v54");
    kit_put(&config, 5, "\x0a\x02\x08\x09", 4);
    expect_refused(config, "string_filter_chain_v54.rules[0]");
    config.len--;
    expect_refused(config, "no valid message");
}

static void version_two_wins_over_version_one(void **state)
{
    const struct kit_bytes v1 = kit_bytecode(KIT_NESTED(1, 1), KIT_END, KIT_FIELD(1), KIT_END);
    const struct kit_bytes v2 = kit_bytecode(KIT_NESTED(1, 1), KIT_END, KIT_FIELD(2), KIT_END);
    const struct pfl_span packet = BYTES(0x08, 0x01, 0x10, 0x02);
    struct kit_bytes config = {.len = 0};
    struct pfl_trace_filter *filter;
    char why[PFL_FILTER_WHY_BYTES];
    uint8_t out[8];
    size_t len = 0;

    (void)state;
    kit_put(&config, 1, v1.data, v1.len);
    for (unsigned round = 0; round < 2; round++) {
        assert_int_equal(pfl_trace_filter_new(kit_span(&config), &filter, why), 0);
        assert_int_equal(run(filter, packet, out, &len), 0);
        assert_int_equal(len, 2);
        assert_int_equal(out[0], round == 0 ? 0x08 : 0x10);
        pfl_trace_filter_free(filter);
        kit_put(&config, 2, v2.data, v2.len);
    }
}

static int make_two(void *arg)
{
    const struct kit_bytes config = make_config();
    struct pfl_trace_filter *first;
    struct pfl_trace_filter *copy;
    char why[PFL_FILTER_WHY_BYTES];
    int rc = pfl_trace_filter_new(kit_span(&config), &first, why);

    (void)arg;
    if (rc != 0)
        return rc;
    rc = pfl_trace_filter_copy(first, &copy);
    pfl_trace_filter_free(first);
    if (rc == 0)
        pfl_trace_filter_free(copy);
    return rc;
}

static void a_copy_filters_as_the_first_one_does_and_outlives_it(void **state)
{
    /* 1: 7, 4: "pin=12", 6: 1 */
    const struct pfl_span packet =
        BYTES(0x08, 0x07, 0x22, 0x06, 'p', 'i', 'n', '=', '1', '2', 0x30, 0x01);
    struct pfl_trace_filter *first = make();
    struct pfl_trace_filter *copy;
    const atomic_bool is_cancelled = true;
    uint8_t expected[16];
    uint8_t out[16];
    size_t expected_len;
    size_t len;

    (void)state;
    assert_int_equal(run(first, packet, expected, &expected_len), 0);
    assert_int_equal(expected_len, 10);
    assert_memory_equal(expected + 8, "P6", 2);
    assert_int_equal(pfl_trace_filter_copy(first, &copy), 0);
    pfl_trace_filter_set_cancel(first, &is_cancelled); /* of the first one alone */
    assert_int_equal(run(copy, packet, out, &len), 0);
    assert_int_equal(len, expected_len);
    assert_memory_equal(out, expected, len);
    pfl_trace_filter_free(first);
    assert_int_equal(run(copy, packet, out, &len), 0);
    assert_memory_equal(out, expected, len);
    pfl_trace_filter_free(copy);
    pfl_sweep(make_two, NULL, false);
    pfl_sweep_assert_no_leak();
}

static int make_one(void *arg)
{
    const struct kit_bytes config = make_config();
    struct pfl_trace_filter *filter;
    char why[PFL_FILTER_WHY_BYTES];
    int rc = pfl_trace_filter_new(kit_span(&config), &filter, why);

    (void)arg;
    if (rc == 0)
        pfl_trace_filter_free(filter);
    return rc;
}

static void making_one_survives_each_failed_allocation(void **state)
{
    (void)state;
    pfl_sweep(make_one, NULL, false);
    pfl_sweep_assert_no_leak();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_allowed_fields_pass_each_in_its_shortest_form),
        cmocka_unit_test(a_packet_of_a_cancelled_filter_is_left_at_once),
        cmocka_unit_test(lengths_keep_the_bytes_of_the_input),
        cmocka_unit_test(malformed_packets_are_an_error),
        cmocka_unit_test(a_packet_cut_anywhere_is_whole_fields_or_an_error),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(too_many_levels_are_an_error),
        cmocka_unit_test(configs_that_cannot_filter_are_refused),
        cmocka_unit_test(version_two_wins_over_version_one),
        cmocka_unit_test(a_copy_filters_as_the_first_one_does_and_outlives_it),
        cmocka_unit_test(making_one_survives_each_failed_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
