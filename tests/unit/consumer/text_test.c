/* SPDX-License-Identifier: Apache-2.0 */
/* What a peer's string does in the operator's JSON: it is the same for a program, and harmless on a
 * terminal. */
#include "consumer/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/sweep.h"

#define OUT_MAX 4096u

static const char *dump(const char *str, struct pfl_buf *out)
{
    pfl_buf_init(out, OUT_MAX);
    assert_int_equal(pfl_text_dump_json(json_pack("{s:o}", "name", pfl_text_json_peer(str)), out),
                     0);
    assert_int_equal(pfl_buf_append(out, "", 1), 0);
    return (const char *)pfl_buf_get(out).data;
}

static void assert_dumped(const char *str, const char *expected)
{
    struct pfl_buf out;
    json_t *back;

    assert_non_null(strstr(dump(str, &out), expected));
    back = json_loads((const char *)pfl_buf_get(&out).data, 0, NULL);
    assert_non_null(back);
    assert_string_equal(json_string_value(json_object_get(back, "name")), str);
    json_decref(back);
    pfl_buf_fini(&out);
    pfl_sweep_assert_no_leak();
}

static void characters_that_change_a_terminal_are_escaped(void **state)
{
    (void)state;
    assert_dumped("a\x1b[2J", "\"a\\u001B[2J\"");
    assert_dumped("a\x7f\x7f", "\"a\\u007F\\u007F\"");
    assert_dumped("\xc2\x9b"
                  "2J",
                  "\"\\u009B2J\"");
    assert_dumped("\xc2\x80\xc2\x9f", "\"\\u0080\\u009F\"");
}

static void characters_that_turn_or_hide_text_are_escaped(void **state)
{
    (void)state;
    assert_dumped("x\xe2\x80\xaegnp.exe", "\"x\\u202Egnp.exe\"");
    assert_dumped("\xe2\x81\xa6y\xe2\x81\xa9", "\"\\u2066y\\u2069\"");
    assert_dumped("\xe2\x80\x8b\xe2\x80\x8f\xe2\x80\xa8", "\"\\u200B\\u200F\\u2028\"");
    assert_dumped("\xd8\x9c\xc2\xad\xef\xbb\xbf", "\"\\u061C\\u00AD\\uFEFF\"");
}

static void everybody_elses_letters_stay(void **state)
{
    (void)state;
    assert_dumped("Z\xc3\xbcrich \xd7\xa9\xd7\x9c \xe6\x9d\xb1\xe4\xba\xac \xf0\x9f\x98\x80",
                  "\"Z\xc3\xbcrich \xd7\xa9\xd7\x9c \xe6\x9d\xb1\xe4\xba\xac \xf0\x9f\x98\x80\"");
    assert_dumped("\xc2\xa0\xe2\x80\x90\xe2\x80\xaf", "\"\xc2\xa0\xe2\x80\x90\xe2\x80\xaf\"");
}

static void what_is_no_utf8_is_quoted_as_bytes(void **state)
{
    struct pfl_buf out;

    (void)state;
    assert_non_null(strstr(dump("\x9b\xe2\x80", &out), "\\\\x9b\\\\xe2\\\\x80"));
    pfl_buf_fini(&out);
    pfl_sweep_assert_no_leak();
}

static json_t *make_object(void)
{
    return json_pack("{s:s, s:i, s:{s:s}}", "a\xc2\x80", "b", "count", 5, "inner", "key", "value");
}

/* Whatever is the last that fits. */
static void a_dump_is_whole_or_nothing(void **state)
{
    struct pfl_buf whole;

    (void)state;
    pfl_buf_init(&whole, 4096);
    assert_int_equal(pfl_text_dump_json_line(make_object(), &whole), 0);
    assert_int_equal(pfl_buf_get(&whole).data[whole.len - 1], '\n');
    for (size_t room = 1; room <= whole.len; room++) {
        struct pfl_buf out;
        int rc;

        pfl_buf_init(&out, room);
        rc = pfl_text_dump_json_line(make_object(), &out);
        assert_int_equal(rc, room < whole.len ? PFL_ELIMIT : 0);
        assert_int_equal(out.len, rc == 0 ? whole.len : 0);
        pfl_buf_fini(&out);
    }
    pfl_buf_fini(&whole);
    pfl_sweep_assert_no_leak();
}

static void a_process_is_known_by_its_programs_file(void **state)
{
    (void)state;
    assert_string_equal(pfl_text_short_name("/usr/lib/chromium/chromium"), "\"chromium\"");
    assert_string_equal(pfl_text_short_name("/opt/b/chrome --type=gpu-process --x=/a/b"),
                        "\"chrome\"");
    assert_string_equal(pfl_text_short_name("/opt/My App/my app"), "\"my app\"");
    assert_string_equal(pfl_text_short_name("./app"), "\"app\"");
    assert_string_equal(pfl_text_short_name("../bin/app -v"), "\"app\"");
    /* Names that are no paths. */
    assert_string_equal(pfl_text_short_name("perfleet-raise/guest"), "\"perfleet-raise/guest\"");
    assert_string_equal(pfl_text_short_name("sshd: me@pts/0"), "\"sshd: me@pts/0\"");
    assert_string_equal(pfl_text_short_name("my - app"), "\"my - app\"");
    assert_string_equal(pfl_text_short_name(".hidden/app"), "\".hidden/app\"");
    assert_string_equal(pfl_text_short_name("..x/app"), "\"..x/app\"");
    assert_string_equal(pfl_text_short_name(""), "\"\"");
    /* And paths of nothing. */
    assert_string_equal(pfl_text_short_name("/"), "\"/\"");
    assert_string_equal(pfl_text_short_name("/usr/"), "\"/usr/\"");
    assert_string_equal(pfl_text_short_name("/usr/ -x"), "\"/usr/ -x\"");
    assert_string_equal(pfl_text_short_name("/a/b\x1b[2J"), "\"b\\x1b[2J\"");
}

static int init_json(void **state)
{
    (void)state;
    pfl_text_init_json();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_that_change_a_terminal_are_escaped),
        cmocka_unit_test(characters_that_turn_or_hide_text_are_escaped),
        cmocka_unit_test(everybody_elses_letters_stay),
        cmocka_unit_test(what_is_no_utf8_is_quoted_as_bytes),
        cmocka_unit_test(a_dump_is_whole_or_nothing),
        cmocka_unit_test(a_process_is_known_by_its_programs_file),
    };

    return cmocka_run_group_tests(tests, init_json, NULL);
}
