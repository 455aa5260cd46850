/* SPDX-License-Identifier: Apache-2.0 */
/* Events as the journal's datagrams: whose fields, and that no text can make others. */
#include "base/journal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static char out[PFL_JOURNAL_MAX_BYTES + 1];

static const char *encode(const char *text)
{
    const struct pfl_journal_event event = {
        .program = "p", .priority = 6, .level = "info", .event = "e", .text = text};
    size_t len = pfl_journal_encode(&event, out);

    assert_true(len <= PFL_JOURNAL_MAX_BYTES);
    out[len] = '\0';
    return strstr(out, "MESSAGE=");
}

static void every_key_is_a_field_and_prose_is_none(void **state)
{
    (void)state;
    assert_string_equal(
        encode("streams=4 all are cut why=\"a \\\"b\\\" \\\\ c\" left_out=2"),
        "MESSAGE=info e: streams=4 all are cut why=\"a \\\"b\\\" \\\\ c\" left_out=2\n"
        "PERFLEET_STREAMS=4\nPERFLEET_WHY=a \"b\" \\ c\nPERFLEET_LEFT_OUT=2\n");
    assert_string_equal(encode(""), "MESSAGE=info e: \n");
    assert_string_equal(encode("a="), "MESSAGE=info e: a=\nPERFLEET_A=\n");
    assert_string_equal(encode("=x a-b=c \"d=e"), "MESSAGE=info e: =x a-b=c \"d=e\n");
    assert_string_equal(encode("open=\"never"),
                        "MESSAGE=info e: open=\"never\nPERFLEET_OPEN=never\n");
}

static void a_line_end_in_a_value_makes_no_field(void **state)
{
    (void)state;
    assert_string_equal(encode("name=\"x\nPRIORITY=0\""),
                        "MESSAGE=info e: name=\"x PRIORITY=0\"\nPERFLEET_NAME=x PRIORITY=0\n");
}

static void what_has_no_room_is_left_out_whole(void **state)
{
    static char text[7000] = "long=";
    const char *message;

    (void)state;
    memset(text + 5, 'x', sizeof(text) - 20);
    message = encode(text);
    assert_non_null(strchr(message, '\n'));
    assert_null(strstr(message, "PERFLEET_LONG"));
    assert_int_equal(out[strlen(out) - 1], '\n');
}

static void there_is_a_maximum_of_fields(void **state)
{
    char text[1024];
    size_t len = 0;
    unsigned fields = 0;

    (void)state;
    for (unsigned i = 0; i < 2 * PFL_JOURNAL_MAX_FIELDS; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "k%u=1 ", i);
    for (const char *at = encode(text); (at = strstr(at, "\nPERFLEET_K")) != NULL; at++)
        fields++;
    assert_int_equal(fields, PFL_JOURNAL_MAX_FIELDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_is_a_field_and_prose_is_none),
        cmocka_unit_test(a_line_end_in_a_value_makes_no_field),
        cmocka_unit_test(what_has_no_room_is_left_out_whole),
        cmocka_unit_test(there_is_a_maximum_of_fields),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
