/* SPDX-License-Identifier: Apache-2.0 */
/* ClientHellos byte by byte: what they offer, and what offers nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/io/tls_hello.h"

#define SESSION_AT   43u /* after the headers, version and random */
#define SESSION_LEN  32u
#define LIST_AT      (SESSION_AT + 1 + SESSION_LEN)
#define LIST_END     (LIST_AT + 2 + 6)
#define NAME_AT      (LIST_END + 2 + 2) /* after the compression methods and the extensions' length */
#define NAME_LEN     30u
#define VERSIONS_AT  (NAME_AT + 4 + NAME_LEN)
#define VERSIONS_END (VERSIONS_AT + 4 + 1 + 4)
#define HELLO_LENGTH (VERSIONS_END + 13)

static uint8_t hello[HELLO_LENGTH];

static int setup(void **state)
{
    static const uint8_t head[] = {22, 3, 1, 0, HELLO_LENGTH - 5, 1, 0, 0, HELLO_LENGTH - 9, 3, 3};
    static const uint8_t list[] = {0, 6, 0x13, 0x02, 0x13, 0x03, 0xcc, 0xa9};
    static const uint8_t compression[] = {1, 0, 0};
    static const uint8_t name[] = {0, 0, 0, NAME_LEN};
    static const uint8_t versions[] = {0, 43, 0, 5, 4, 3, 4, 3, 5};

    (void)state;
    memset(hello, 0x13, sizeof(hello));
    memcpy(hello, head, sizeof(head));
    hello[SESSION_AT] = SESSION_LEN;
    memcpy(hello + LIST_AT, list, sizeof(list));
    memcpy(hello + LIST_END, compression, sizeof(compression));
    hello[LIST_END + 3] = HELLO_LENGTH - NAME_AT;
    memcpy(hello + NAME_AT, name, sizeof(name));
    memcpy(hello + VERSIONS_AT, versions, sizeof(versions));
    return 0;
}

static bool offers(size_t len, uint16_t suite)
{
    return pfl_tls_hello_offers(pfl_span_of(hello, len), suite);
}

static void a_hello_offers_what_its_list_holds(void **state)
{
    (void)state;
    assert_true(offers(sizeof(hello), 0x1302));
    assert_true(offers(sizeof(hello), 0x1303));
    assert_true(offers(sizeof(hello), 0xcca9));
    assert_false(offers(sizeof(hello), 0x1301));
    assert_false(offers(sizeof(hello), 0x0213)); /* across two of them */
    assert_false(offers(sizeof(hello), 0x1313)); /* behind the list */
}

static void a_list_that_is_not_all_here_offers_nothing(void **state)
{
    (void)state;
    for (size_t len = 0; len < sizeof(hello); len++)
        assert_int_equal(offers(len, 0x1302), len >= LIST_END);
}

static void a_list_past_the_first_record_offers_nothing(void **state)
{
    (void)state;
    hello[4] = LIST_END - 5;
    assert_true(offers(sizeof(hello), 0x1302));
    hello[4]--;
    assert_false(offers(sizeof(hello), 0x1302));
}

static void what_is_no_client_hello_offers_nothing(void **state)
{
    static const size_t places[] = {0, 5};

    (void)state;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        hello[places[i]]++;
        assert_false(offers(sizeof(hello), 0x1302));
        hello[places[i]]--;
    }
    hello[SESSION_AT] = 255;
    assert_false(offers(sizeof(hello), 0x1302));
}

static void half_a_suite_is_none(void **state)
{
    (void)state;
    hello[LIST_AT + 1] = 3;
    assert_true(offers(sizeof(hello), 0x1302));
    assert_false(offers(sizeof(hello), 0x1303));
}

static bool excludes_1_2(size_t len)
{
    return pfl_tls_hello_excludes_tls_1_2(pfl_span_of(hello, len));
}

static void a_list_of_newer_versions_excludes_tls_1_2(void **state)
{
    (void)state;
    assert_true(excludes_1_2(sizeof(hello)));
    for (size_t i = 1; i <= 3; i += 2) { /* in each place of the list */
        hello[VERSIONS_END - i] = 3;
        assert_false(excludes_1_2(sizeof(hello)));
        hello[VERSIONS_END - i] = 4;
    }
}

static void a_hello_without_a_list_of_versions_excludes_nothing(void **state)
{
    (void)state;
    hello[VERSIONS_AT + 1]++;
    assert_false(excludes_1_2(sizeof(hello)));
    hello[VERSIONS_AT + 1]--;
    hello[VERSIONS_AT + 4] = 0;
    assert_false(excludes_1_2(sizeof(hello)));
    hello[VERSIONS_AT + 4] = 5; /* past its extension */
    assert_false(excludes_1_2(sizeof(hello)));
}

static void versions_that_are_not_all_here_exclude_nothing(void **state)
{
    (void)state;
    for (size_t len = 0; len < sizeof(hello); len++)
        assert_int_equal(excludes_1_2(len), len >= VERSIONS_END);
    hello[5]++;
    assert_false(excludes_1_2(sizeof(hello)));
}

#define T(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_hello_offers_what_its_list_holds),
        T(a_list_that_is_not_all_here_offers_nothing),
        T(a_list_past_the_first_record_offers_nothing),
        T(what_is_no_client_hello_offers_nothing),
        T(half_a_suite_is_none),
        T(a_list_of_newer_versions_excludes_tls_1_2),
        T(a_hello_without_a_list_of_versions_excludes_nothing),
        T(versions_that_are_not_all_here_exclude_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
