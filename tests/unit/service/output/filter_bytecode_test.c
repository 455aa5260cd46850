/* SPDX-License-Identifier: Apache-2.0 */
#include "service/output/filter_bytecode.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/sweep.h"
#include "tests/unit/service/output/filter_kit.h"

static const struct pfl_span none = {0};

struct expected {
    uint32_t message;
    uint32_t field;
    enum pfl_filter_kind kind;
    uint32_t argument;
};

static void expect_actions(const struct pfl_filter_bytecode *b, const struct expected *e,
                           size_t len)
{
    for (size_t i = 0; i < len; i++) {
        pfl_filter_action action = pfl_filter_bytecode_find(b, e[i].message, e[i].field);

        assert_int_equal(pfl_filter_kind_of(action), e[i].kind);
        assert_int_equal(pfl_filter_argument_of(action), e[i].argument);
    }
}

static void each_opcode_becomes_its_action(void **state)
{
    const struct kit_bytes code =
        kit_bytecode(KIT_NESTED(1, 1), KIT_END, KIT_FIELD(2), KIT_STRING(3), KIT_TYPED(4, 77),
                     KIT_RANGE(126, 4), KIT_FIELD(200), KIT_NESTED(1000, 0), KIT_END);
    static const struct expected e[] = {
        {0, 1, PFL_FILTER_NESTED, 1},        {0, 2, PFL_FILTER_DROP, 0},
        {1, 1, PFL_FILTER_DROP, 0},          {1, 2, PFL_FILTER_PASS, 0},
        {1, 3, PFL_FILTER_STRING, 0},        {1, 4, PFL_FILTER_STRING, 77},
        {1, 125, PFL_FILTER_DROP, 0},        {1, 126, PFL_FILTER_PASS, 0},
        {1, 129, PFL_FILTER_PASS, 0},        {1, 130, PFL_FILTER_DROP, 0},
        {1, 200, PFL_FILTER_PASS, 0},        {1, 1000, PFL_FILTER_NESTED, 0},
        {1, UINT32_MAX, PFL_FILTER_DROP, 0}, {2, 2, PFL_FILTER_DROP, 0},
    };
    struct pfl_filter_bytecode b;
    char why[PFL_FILTER_WHY_BYTES];

    (void)state;
    assert_int_equal(pfl_filter_bytecode_parse(kit_span(&code), none, &b, why), 0);
    expect_actions(&b, e, sizeof(e) / sizeof(e[0]));
    pfl_filter_bytecode_fini(&b);
    pfl_sweep_assert_no_leak();
}

static void the_overlay_adds_and_replaces_fields(void **state)
{
    const struct kit_bytes code = kit_bytecode(KIT_FIELD(2), KIT_NESTED(5, 1), KIT_FIELD(300),
                                               KIT_END, KIT_FIELD(1), KIT_END);
    const struct kit_bytes over =
        kit_bytecode(0, KIT_FIELD(1), 0, 0, KIT_STRING(2), 0, 0, KIT_TYPED(5, 3), 0, KIT_FIELD(200),
                     0, 0, KIT_FIELD(301), 0, 1, KIT_FIELD(9), 0);
    static const struct expected e[] = {
        {0, 1, PFL_FILTER_PASS, 0},   {0, 2, PFL_FILTER_STRING, 0}, {0, 5, PFL_FILTER_STRING, 3},
        {0, 200, PFL_FILTER_PASS, 0}, {0, 300, PFL_FILTER_PASS, 0}, {0, 301, PFL_FILTER_PASS, 0},
        {1, 1, PFL_FILTER_PASS, 0},   {1, 9, PFL_FILTER_PASS, 0},
    };
    struct pfl_filter_bytecode b;
    char why[PFL_FILTER_WHY_BYTES];

    (void)state;
    assert_int_equal(pfl_filter_bytecode_parse(kit_span(&code), kit_span(&over), &b, why), 0);
    expect_actions(&b, e, sizeof(e) / sizeof(e[0]));
    pfl_filter_bytecode_fini(&b);
}

static void expect_refused(struct kit_bytes code, struct kit_bytes over, const char *words)
{
    struct pfl_filter_bytecode b;
    char why[PFL_FILTER_WHY_BYTES] = "";

    assert_int_equal(pfl_filter_bytecode_parse(kit_span(&code), kit_span(&over), &b, why),
                     PFL_EPARSE);
    if (strstr(why, words) == NULL)
        fail_msg("\"%s\" says nothing of \"%s\"", why, words);
    pfl_sweep_assert_no_leak();
}

static void bytecode_that_is_none_is_refused_with_the_reason(void **state)
{
    const struct kit_bytes no = {.len = 0};
    const struct kit_bytes cut = {.data = {0x88}, .len = 1};
    struct kit_bytes wrong_sum = kit_bytecode(KIT_FIELD(1), KIT_END);

    (void)state;
    wrong_sum.data[0] ^= 0x10;
    expect_refused(no, no, "bytecode: empty");
    expect_refused(cut, no, "word 0 is no varint");
    expect_refused(wrong_sum, no, "checksum");
    expect_refused(kit_bytecode(KIT_FIELD(1)), no, "does not end with the end");
    expect_refused(kit_bytecode(0x0f, KIT_END), no, "unknown opcode 7");
    expect_refused(kit_bytecode(KIT_FIELD(0), KIT_END), no, "0 is no field id");
    expect_refused(kit_bytecode(1 << 3 | 3), no, "ends inside the field at word 0");
    expect_refused(kit_bytecode(KIT_NESTED(1, 1), KIT_END), no, "leads to message 1");
    expect_refused(kit_bytecode(KIT_NESTED(1, UINT32_MAX), KIT_END), no, "no message 4294967295");
    expect_refused(kit_bytecode(KIT_RANGE(200, 9), KIT_FIELD(205), KIT_END), no, "later range");
    expect_refused(kit_bytecode(KIT_TYPED(1, 65535), KIT_END), no,
                   "word 1: no semantic type 65535");
}

static void overlay_that_is_none_is_refused_with_the_reason(void **state)
{
    const struct kit_bytes code = kit_bytecode(KIT_FIELD(1), KIT_END);
    struct kit_bytes wrong_sum = kit_bytecode(0, KIT_FIELD(1), 0);

    (void)state;
    wrong_sum.data[1] ^= 0x10;
    expect_refused(code, wrong_sum, "bytecode_overlay_v54: checksum");
    expect_refused(code, kit_bytecode(0, KIT_FIELD(1)), "three for each field");
    expect_refused(code, kit_bytecode(0, KIT_NESTED(1, 0)), "opcode 3");
    expect_refused(code, kit_bytecode(0, KIT_FIELD(2), 0, 0, KIT_FIELD(2), 0), "ascending");
    expect_refused(code, kit_bytecode(1, KIT_FIELD(2), 0), "fields of message 1");
    expect_refused(code, kit_bytecode(0, KIT_TYPED(1, 65534)), "semantic type 65534");
}

static void a_huge_table_is_refused_before_it_is_made(void **state)
{
    enum { MESSAGES = 20000 };
    static uint32_t words[2 * MESSAGES];
    static uint8_t bytes[8 * MESSAGES];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));
    uint64_t hash = 14695981039346656037ull;
    struct pfl_filter_bytecode b;
    char why[PFL_FILTER_WHY_BYTES] = "";

    (void)state;
    for (size_t i = 0; i < MESSAGES; i++)
        words[2 * i] = KIT_FIELD(127);
    for (size_t i = 0; i < 2 * MESSAGES; i++) {
        for (unsigned byte = 0; byte < 4; byte++)
            hash = (hash ^ (words[i] >> (8 * byte) & 0xff)) * 1099511628211ull;
        pfl_writer_varint(&w, words[i]);
    }
    pfl_writer_varint(&w, (uint32_t)hash);
    assert_int_equal(
        pfl_filter_bytecode_parse(pfl_span_of(bytes, sizeof(bytes) - w.left), none, &b, why),
        PFL_EPARSE);
    assert_non_null(strstr(why, "when unpacked"));
    pfl_sweep_assert_no_leak();
}

static int parse_one(void *arg)
{
    const struct kit_bytes code = kit_bytecode(KIT_NESTED(1, 1), KIT_END, KIT_FIELD(2),
                                               KIT_RANGE(126, 400), KIT_STRING(900), KIT_END);
    const struct kit_bytes over = kit_bytecode(1, KIT_STRING(2), 0);
    struct pfl_filter_bytecode b;
    char why[PFL_FILTER_WHY_BYTES];
    int rc = pfl_filter_bytecode_parse(kit_span(&code), kit_span(&over), &b, why);

    (void)arg;
    if (rc == 0)
        pfl_filter_bytecode_fini(&b);
    return rc;
}

static void parsing_survives_each_failed_allocation(void **state)
{
    (void)state;
    pfl_sweep(parse_one, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_opcode_becomes_its_action),
        cmocka_unit_test(the_overlay_adds_and_replaces_fields),
        cmocka_unit_test(bytecode_that_is_none_is_refused_with_the_reason),
        cmocka_unit_test(overlay_that_is_none_is_refused_with_the_reason),
        cmocka_unit_test(a_huge_table_is_refused_before_it_is_made),
        cmocka_unit_test(parsing_survives_each_failed_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
