/* SPDX-License-Identifier: Apache-2.0 */
/* Datagrams of a service: their requests to the store, and what is passed to the manager above. */
#include "agent/supervisor/notice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct pfl_notice notice;

static int parse(const char *text)
{
    return pfl_notice_parse(pfl_span_of(text, strlen(text)), &notice);
}

static void a_store_is_asked_for_by_name(void **state)
{
    (void)state;
    assert_int_equal(parse("FDSTORE=1\nFDNAME=memory-09.a_Z\nFDPOLL=0"), 0);
    assert_true(notice.stores && !notice.removes && !notice.has_bad_name && !notice.is_ready);
    assert_string_equal(notice.name, "memory-09.a_Z");
    assert_int_equal(notice.passed_on_len, 0);
    assert_int_equal(parse("FDNAME=x\nFDSTOREREMOVE=1\n"), 0);
    assert_true(notice.removes && !notice.stores);
    assert_string_equal(notice.name, "x");
}

static void one_without_a_name_is_kept_by_the_name_of_all_such(void **state)
{
    (void)state;
    assert_int_equal(parse("FDSTORE=1"), 0);
    assert_true(notice.stores && !notice.has_bad_name);
    assert_string_equal(notice.name, PFL_NOTICE_NO_NAME);
}

static void a_name_that_is_none_is_reported(void **state)
{
    static const char *const bad[] = {
        "",
        "a:b",
        "a b",
        "a/b",
        "\xc3\xa4",
        "\x1b[",
        "0123456789012345678901234567890123456789012345678901234567890123"};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char text[128];

        (void)snprintf(text, sizeof(text), "FDSTORE=1\nFDNAME=%s", bad[i]);
        assert_int_equal(parse(text), 0);
        assert_true(notice.has_bad_name && notice.stores);
        assert_string_equal(notice.name, PFL_NOTICE_NO_NAME);
    }
}

static void nothing_is_removed_without_a_name(void **state)
{
    (void)state;
    assert_int_equal(parse("FDSTOREREMOVE=1"), 0);
    assert_false(notice.removes);
    assert_int_equal(parse("FDSTOREREMOVE=1\nFDNAME=a b"), 0);
    assert_false(notice.removes);
}

static void only_what_a_service_says_of_its_state_goes_on(void **state)
{
    (void)state;
    assert_int_equal(parse("READY=1\nSTATUS=all is well\nMAINPID=1\nFDSTORE=1\nBARRIER=1\nX=1\n"
                           "WATCHDOG=1\nFDNAME=x"),
                     0);
    assert_true(notice.is_ready);
    assert_string_equal(notice.passed_on, "READY=1\nSTATUS=all is well\nWATCHDOG=1");
    assert_int_equal(parse("RELOADING=1\nMONOTONIC_USEC=12"), 0);
    assert_false(notice.is_ready);
    assert_string_equal(notice.passed_on, "RELOADING=1\nMONOTONIC_USEC=12");
    assert_int_equal(parse("READY=0"), 0);
    assert_false(notice.is_ready);
}

static void a_full_datagram_has_room_and_a_longer_one_is_none(void **state)
{
    static char text[PFL_NOTICE_MAX_BYTES + 2];

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    memcpy(text, "STATUS=", 7);
    assert_int_equal(parse(text), PFL_EPARSE);
    text[PFL_NOTICE_MAX_BYTES] = '\0';
    assert_int_equal(parse(text), 0);
    assert_int_equal(notice.passed_on_len, PFL_NOTICE_MAX_BYTES);
    for (size_t i = 0; i + 7 <= PFL_NOTICE_MAX_BYTES; i += 7)
        memcpy(text + i, "READY=\n", 7);
    assert_int_equal(parse(text), 0);
    assert_true(notice.passed_on_len > 0 && notice.passed_on_len <= PFL_NOTICE_MAX_BYTES);
}

static void what_is_no_text_is_refused(void **state)
{
    (void)state;
    assert_int_equal(parse(""), PFL_EPARSE);
    assert_int_equal(pfl_notice_parse(pfl_span_of("READY=1", 8), &notice), PFL_EPARSE);
    assert_int_equal(pfl_notice_parse(pfl_span_of("READY=1\n\0FDSTORE=1", 18), &notice),
                     PFL_EPARSE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_store_is_asked_for_by_name),
        cmocka_unit_test(one_without_a_name_is_kept_by_the_name_of_all_such),
        cmocka_unit_test(a_name_that_is_none_is_reported),
        cmocka_unit_test(nothing_is_removed_without_a_name),
        cmocka_unit_test(only_what_a_service_says_of_its_state_goes_on),
        cmocka_unit_test(a_full_datagram_has_room_and_a_longer_one_is_none),
        cmocka_unit_test(what_is_no_text_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
