/* SPDX-License-Identifier: Apache-2.0 */
/* Roles: what is one, what the relay keeps of it, and its way through a header field. */
#include "proto/gate/role.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define NAME "\x0a\x01r" /* name: "r" */

struct example {
    const char *bytes;
    size_t len;
    const char *of_agent; /* NULL: a role; else a word of the reason */
    const char *of_relay;
};

#define ROLE(bytes, of_agent, of_relay)                                                            \
    {                                                                                              \
        bytes, sizeof(bytes) - 1, of_agent, of_relay                                               \
    }

static void expect(const char *why, const char *word, size_t i)
{
    if ((why == NULL) != (word == NULL) || (word != NULL && strstr(why, word) == NULL))
        fail_msg("case %zu: %s", i, why != NULL ? why : "accepted");
}

static void a_role_has_a_name_known_fields_and_each_number_once(void **state)
{
    static const struct example cases[] = {
        ROLE(NAME, NULL, NULL),
        ROLE("", "wants a name", "wants a name"),
        ROLE("\x12\x01m", "wants a name", "wants a name"),
        ROLE(NAME NAME, "repeated", "repeated"),
        ROLE(NAME "\x12\x01m\x12\x01m\x1a\x01s\x1a\x01s\x22\x01k\x22\x01k\x3a\x01t\x3a\x01t", NULL,
             NULL),
        ROLE(NAME "\x28\x01\x30\x01", NULL, NULL),
        ROLE(NAME "\x28\x01\x28\x01", "repeated", "repeated"),
        ROLE(NAME "\x30\x01\x30\x01", "repeated", "repeated"),
        ROLE(NAME "\x40\x01", "does not know", "does not know"),
        ROLE(NAME "\xa0\x06\x01\xa8\x06\x01\xb0\x06\x01\xb8\x06\x01", "does not know", NULL),
        ROLE(NAME "\xa0\x06\x01\xa0\x06\x01", "does not know", "repeated"),
        ROLE(NAME "\xb8\x06\x01\xb8\x06\x01", "does not know", "repeated"),
        ROLE(NAME "\x98\x06\x01", "does not know", "does not know"), /* 99 */
        ROLE(NAME "\xc0\x06\x01\xd8\x06\x01", "does not know", NULL),
        ROLE(NAME "\xd8\x06\x01\xd8\x06\x01", "does not know", "repeated"),
        ROLE(NAME "\xe0\x06\x01", "does not know", "does not know"), /* 108 */
        ROLE(NAME "\x10\x01", "does not know", "does not know"),     /* a number as a method */
        ROLE(NAME "\x2a\x01x", "does not know", "does not know"),    /* text as a duration */
        ROLE(NAME "\x38\x01", "does not know", "does not know"),
        ROLE(NAME "\x12", "malformed", "malformed"),
        ROLE(NAME "\x28\xff\xff\xff\xff\x0f", NULL, NULL),
        ROLE(NAME "\x28\x80\x80\x80\x80\x10", "too large", "too large"),
        ROLE(NAME "\xa0\x06\x80\x80\x80\x80\x80\x80\x80\x02", "does not know", NULL), /* 2^50 */
        ROLE(NAME "\xa0\x06\x81\x80\x80\x80\x80\x80\x80\x02", "does not know", "too large"),
        ROLE(NAME "\xa8\x06\x80\x80\x80\x80\x10", "does not know", "too large"),
        ROLE("\x0a\x00", "1 to 127", "1 to 127"),
        ROLE(NAME "\x12\x01 ", "1 to 127", "1 to 127"),
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pfl_span role = pfl_span_of(cases[i].bytes, cases[i].len);

        expect(pfl_role_check(role, false), cases[i].of_agent, i);
        expect(pfl_role_check(role, true), cases[i].of_relay, i);
    }
}

static void a_pattern_has_printable_characters_and_a_length(void **state)
{
    static const char wrong[] = " \"'\\\x7f\x1f\n\x80";
    char text[PFL_ROLE_PATTERN_MAX + 1];

    (void)state;
    memset(text, '!', sizeof(text));
    assert_false(pfl_pattern_is_one(pfl_span_of(text, 0)));
    assert_true(pfl_pattern_is_one(pfl_span_of(text, 1)));
    assert_true(pfl_pattern_is_one(pfl_span_of(text, PFL_ROLE_PATTERN_MAX)));
    assert_false(pfl_pattern_is_one(pfl_span_of(text, PFL_ROLE_PATTERN_MAX + 1)));
    assert_true(pfl_pattern_is_one(pfl_span_of("~*", 2)));
    for (size_t i = 0; wrong[i] != '\0'; i++) {
        text[2] = wrong[i];
        assert_false(pfl_pattern_is_one(pfl_span_of(text, 3)));
    }
}

/* name, two methods, a duration; the relay's rate and list of hosts. */
static const char whole[] = "\x0a\x04"
                            "role"
                            "\x12\x03"
                            "Get"
                            "\x12\x02"
                            "R*"
                            "\x28\x90\x4e"
                            "\x3a\x01t"
                            "\xa0\x06\x05"
                            "\xb8\x06\x01";
#define CUT_LEN 21u

static void fields_are_found_and_patterns_match(void **state)
{
    const struct pfl_span role = pfl_span_of(whole, sizeof(whole) - 1);
    char name[PFL_ROLE_PATTERN_MAX + 1];

    (void)state;
    assert_null(pfl_role_check(role, true));
    pfl_role_copy_name(role, name);
    assert_string_equal(name, "role");
    assert_int_equal(pfl_role_get_number(role, ROLE__MAX_DURATION_MS), 10000);
    assert_int_equal(pfl_role_get_number(role, ROLE__MAX_BUFFER_KB), 0);
    assert_true(pfl_role_has(role, ROLE__FORGET));
    assert_false(pfl_role_has(role, ROLE__SESSION));
    assert_true(pfl_role_matches(role, ROLE__METHOD, pfl_span_of("Get", 3)));
    assert_true(pfl_role_matches(role, ROLE__METHOD, pfl_span_of("ReadBuffers", 11)));
    assert_false(pfl_role_matches(role, ROLE__METHOD, pfl_span_of("Gets", 4)));
    assert_false(pfl_role_matches(role, ROLE__METHOD, pfl_span_of("t", 1)));
    assert_true(pfl_role_matches(role, ROLE__TRIGGER, pfl_span_of("t", 1)));
    assert_false(pfl_role_matches(role, ROLE__SESSION, pfl_span_of("", 0)));
    assert_int_equal(pfl_role_get_name(pfl_span_of(whole + 6, 5)).len, 0);
}

static void patterns_are_listed_as_far_as_there_is_room(void **state)
{
    const struct pfl_span role = pfl_span_of(whole, sizeof(whole) - 1);
    char text[20];

    (void)state;
    pfl_role_list(role, ROLE__METHOD, text, sizeof(text));
    assert_string_equal(text, "Get, R*");
    pfl_role_list(role, ROLE__METHOD, text, 8);
    assert_string_equal(text, "Get, R*");
    pfl_role_list(role, ROLE__METHOD, text, 7);
    assert_string_equal(text, "Get");
    pfl_role_list(role, ROLE__METHOD, text, 4);
    assert_string_equal(text, "Get");
    pfl_role_list(role, ROLE__SESSION, text, sizeof(text));
    assert_string_equal(text, "none");
}

static void an_agent_gets_the_role_without_the_relays_fields(void **state)
{
    struct pfl_buf out;

    (void)state;
    pfl_buf_init(&out, PFL_ROLE_MAX_BYTES);
    assert_int_equal(pfl_role_cut(pfl_span_of(whole, sizeof(whole) - 1), &out), 0);
    assert_int_equal(out.len, CUT_LEN);
    assert_memory_equal(pfl_buf_get(&out).data, whole, CUT_LEN);
    pfl_buf_fini(&out);
    pfl_buf_init(&out, CUT_LEN - 1);
    assert_int_equal(pfl_role_cut(pfl_span_of(whole, sizeof(whole) - 1), &out), PFL_ELIMIT);
    pfl_buf_fini(&out);
}

static void a_header_field_has_the_role_in_digits(void **state)
{
    static const char *const wrong[] = {"0a017",  "0A0172", "0a01g2", "0a01`2", "0a01/2",
                                        "0a01:2", "0a01 2", "0a0272", "",       "1201 72"};
    char text[PFL_ROLE_FIELD_BYTES];
    struct pfl_buf out;

    (void)state;
    pfl_role_write(pfl_span_of(whole, CUT_LEN), text);
    assert_string_equal(text, "0a04726f6c65120347657412025"
                              "22a28904e3a0174");
    pfl_buf_init(&out, PFL_ROLE_MAX_BYTES);
    assert_int_equal(pfl_role_read(text, &out), 0);
    assert_int_equal(out.len, CUT_LEN);
    assert_memory_equal(pfl_buf_get(&out).data, whole, CUT_LEN);
    pfl_buf_clear(&out);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        if (pfl_role_read(wrong[i], &out) != PFL_EPARSE || out.len != 0)
            fail_msg("read: %s", wrong[i]);
    }
    pfl_buf_fini(&out);
}

static void a_role_of_the_largest_size_is_written_and_read(void **state)
{
    char role[PFL_ROLE_MAX_BYTES + 1] = NAME;
    char text[PFL_ROLE_FIELD_BYTES + 2];
    size_t len = 3;
    struct pfl_buf out;

    (void)state;
    pfl_buf_init(&out, 2 * PFL_ROLE_MAX_BYTES);
    while (len < PFL_ROLE_MAX_BYTES) {
        size_t left = PFL_ROLE_MAX_BYTES - len - 2;
        size_t pattern = left <= 100 ? left : left < 110 ? 50 : 100;

        role[len] = 0x12;
        role[len + 1] = (char)pattern;
        memset(role + len + 2, 'm', pattern);
        len += 2 + pattern;
    }
    assert_int_equal(len, PFL_ROLE_MAX_BYTES);
    pfl_role_write(pfl_span_of(role, len), text);
    assert_int_equal(strlen(text), 2 * PFL_ROLE_MAX_BYTES);
    assert_int_equal(pfl_role_read(text, &out), 0);
    assert_int_equal(out.len, PFL_ROLE_MAX_BYTES);
    memcpy(text + strlen(text), "00", 3);
    assert_int_equal(pfl_role_read(text, &out), PFL_EPARSE);
    pfl_buf_fini(&out);
}

static void the_longest_name_is_copied_whole(void **state)
{
    char expected[PFL_ROLE_PATTERN_MAX + 1];
    char name[PFL_ROLE_PATTERN_MAX + 1];
    uint8_t role[PFL_ROLE_PATTERN_MAX + 16];
    struct pfl_writer w = pfl_writer_of(role, sizeof(role));

    (void)state;
    memset(expected, 'n', PFL_ROLE_PATTERN_MAX);
    expected[PFL_ROLE_PATTERN_MAX] = '\0';
    pfl_writer_field_bytes(&w, ROLE__NAME, expected, PFL_ROLE_PATTERN_MAX);
    pfl_role_copy_name(pfl_span_of(role, sizeof(role) - w.left), name);
    assert_string_equal(name, expected);
}

static void a_role_is_written_as_digits_up_to_its_longest(void **state)
{
    static uint8_t role[PFL_ROLE_MAX_BYTES + 1];
    char text[PFL_ROLE_FIELD_BYTES + 2];

    (void)state;
    memset(role, 0xa5, sizeof(role));
    memset(text, '#', sizeof(text));
    pfl_role_write(pfl_span_of(role, 2), text);
    assert_string_equal(text, "a5a5");
    for (size_t more = 0; more < 2; more++) {
        pfl_role_write(pfl_span_of(role, PFL_ROLE_MAX_BYTES + more), text);
        assert_int_equal(strlen(text), 2 * PFL_ROLE_MAX_BYTES);
        assert_int_equal(text[PFL_ROLE_FIELD_BYTES], '#');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_role_has_a_name_known_fields_and_each_number_once),
        cmocka_unit_test(a_pattern_has_printable_characters_and_a_length),
        cmocka_unit_test(fields_are_found_and_patterns_match),
        cmocka_unit_test(patterns_are_listed_as_far_as_there_is_room),
        cmocka_unit_test(an_agent_gets_the_role_without_the_relays_fields),
        cmocka_unit_test(a_header_field_has_the_role_in_digits),
        cmocka_unit_test(a_role_of_the_largest_size_is_written_and_read),
        cmocka_unit_test(the_longest_name_is_copied_whole),
        cmocka_unit_test(a_role_is_written_as_digits_up_to_its_longest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
