/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/store/store_key.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/ulid.h"

static void escape_is(const char *name, const char *expected)
{
    char dst[PFL_STORE_NAME_BYTES];

    assert_int_equal(pfl_store_escape(name, dst, sizeof(dst)), 0);
    assert_string_equal(dst, expected);
    assert_true(pfl_store_is_key(dst));
}

static void odd_characters_are_escaped(void **state)
{
    (void)state;
    escape_is("web-1.example", "web-1.example");
    escape_is("../../etc/passwd", "%2E.%2F..%2Fetc%2Fpasswd");
    escape_is(".", "%2E");
    escape_is("a b\n%~\x01\xff", "a%20b%0A%25%7E%01%FF");
    escape_is("", "%");
}

static void long_names_stay_different(void **state)
{
    char one[400];
    char two[400];
    char a[PFL_STORE_NAME_BYTES];
    char b[PFL_STORE_NAME_BYTES];

    (void)state;
    memset(one, 'x', sizeof(one) - 1);
    one[sizeof(one) - 1] = '\0';
    memcpy(two, one, sizeof(two));
    two[sizeof(two) - 2] = 'y';
    assert_int_equal(pfl_store_escape(one, a, sizeof(a)), 0);
    assert_int_equal(pfl_store_escape(two, b, sizeof(b)), 0);
    assert_string_not_equal(a, b);
    for (size_t len = 0; len < sizeof(one) - 1; len++) {
        memset(two, '/', len);
        two[len] = '\0';
        assert_int_equal(pfl_store_escape(two, a, sizeof(a)), 0);
        assert_true(pfl_store_is_key(a));
        assert_int_equal(pfl_store_escape(one + len, a, sizeof(a)), 0);
        assert_true(pfl_store_is_key(a));
    }
    assert_int_equal(pfl_store_escape("a", a, sizeof(a) - 1), PFL_ELIMIT);
}

#define NOW_NS UINT64_C(1795432296123456789)

static void a_key_has_fleet_hour_host_and_id(void **state)
{
    static const uint8_t zeros[PFL_ULID_RANDOM_BYTES];
    char id[PFL_ULID_BYTES];
    struct pfl_store_key_parts parts = {
        .fleet = "lab", .host = "we/b", .id = id, .suffix = "pftrace", .unix_ns = NOW_NS};
    char key[PFL_STORE_KEY_BYTES];

    (void)state;
    pfl_ulid_write(NOW_NS / 1000000, zeros, id);
    assert_int_equal(pfl_store_key_make(&parts, key), 0);
    assert_string_equal(key, "v1/lab/2026/11/23/11/we%2Fb/01M841NBNV0000000000000000.pftrace");
    parts.id = "../x";
    assert_int_equal(pfl_store_key_make(&parts, key), PFL_ELIMIT);
    parts.id = "01M841NBNV000000000000000/";
    assert_int_equal(pfl_store_key_make(&parts, key), PFL_ELIMIT);
}

static void hour_is(uint64_t host_ns, const char *hour)
{
    static const uint8_t zeros[PFL_ULID_RANDOM_BYTES];
    char id[PFL_ULID_BYTES];
    const struct pfl_store_key_parts parts = {
        .fleet = "lab", .host = "h", .id = id, .suffix = "pftrace", .unix_ns = host_ns};
    char key[PFL_STORE_KEY_BYTES];

    pfl_ulid_write(NOW_NS / 1000000, zeros, id);
    assert_int_equal(pfl_store_key_make(&parts, key), 0);
    assert_memory_equal(key + strlen("v1/lab/"), hour, strlen(hour));
}

/* Each hour is a folder: a host that chooses any would have millions. */
static void a_clock_that_is_far_off_makes_no_folder(void **state)
{
    (void)state;
    hour_is(NOW_NS - PFL_STORE_KEY_BEFORE_NS, "2026/08/24/11/h/");
    hour_is(NOW_NS - PFL_STORE_KEY_BEFORE_NS - 1000000, "2026/11/23/11/h/");
    hour_is(NOW_NS + PFL_STORE_KEY_AFTER_NS, "2026/11/24/11/h/");
    hour_is(NOW_NS + PFL_STORE_KEY_AFTER_NS + 1000000, "2026/11/23/11/h/");
    hour_is(0, "2026/11/23/11/h/");
    hour_is(UINT64_MAX, "2026/11/23/11/h/");
}

static void keys_and_prefixes_are_judged(void **state)
{
    char key[PFL_STORE_KEY_BYTES + 1];

    (void)state;
    assert_true(pfl_store_is_key("a/b/c/d/e/f/g/h/i/j/k/l"));
    assert_false(pfl_store_is_key("a/b/c/d/e/f/g/h/i/j/k/l/m"));
    assert_true(pfl_store_is_prefix(""));
    assert_true(pfl_store_is_prefix("v1/"));
    assert_true(pfl_store_is_prefix("v1/a"));
    assert_false(pfl_store_is_prefix("/"));
    assert_false(pfl_store_is_prefix("../"));
    memset(key, 'x', sizeof(key) - 1);
    key[sizeof(key) - 1] = '\0';
    assert_false(pfl_store_is_key(key));
    assert_false(pfl_store_is_prefix(key));
    key[PFL_STORE_NAME_BYTES] = '\0';
    assert_false(pfl_store_is_key(key));
    key[PFL_STORE_NAME_BYTES - 1] = '\0';
    assert_true(pfl_store_is_key(key));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(odd_characters_are_escaped),
        cmocka_unit_test(long_names_stay_different),
        cmocka_unit_test(a_key_has_fleet_hour_host_and_id),
        cmocka_unit_test(a_clock_that_is_far_off_makes_no_folder),
        cmocka_unit_test(keys_and_prefixes_are_judged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
