/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/collector/store/store_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/io/sha256.h"
#include "tests/support/pattern.h"

#define KEY "v1/lab/2026/11/23/11/web-1/01JD0000000000000000000001.pftrace"

static struct pfl_store *store;
static struct pfl_store_put *put;
static bool sorts_by_bytes;

static int begin_case(void **state)
{
    (void)state;
    return pfl_store_put_new(store, &put);
}

static int end_case(void **state)
{
    const struct pfl_store_listing all = {"", ""};
    struct pfl_store_object object;
    size_t len;

    (void)state;
    pfl_store_put_free(put);
    do {
        if (pfl_store_list(store, &all, &object, 1, &len) != 0)
            return -1;
        if (len != 0 && pfl_store_delete(store, object.key) != 0)
            return -1;
    } while (len != 0);
    return 0;
}

static void hash_pattern(uint64_t bytes, uint8_t ret_hash[PFL_STORE_SHA_BYTES])
{
    struct pfl_sha256 *sha256;

    assert_int_equal(pfl_sha256_new(&sha256), 0);
    for (uint64_t at = 0; at < bytes; at += PFL_PATTERN_PIECE_BYTES) {
        uint64_t left = bytes - at;
        size_t len = left < PFL_PATTERN_PIECE_BYTES ? (size_t)left : PFL_PATTERN_PIECE_BYTES;

        pfl_sha256_add(sha256, pfl_span_of(pfl_pattern_get(at), len));
    }
    assert_int_equal(pfl_sha256_end(sha256, ret_hash), 0);
    pfl_sha256_free(sha256);
}

static void begin_pattern(const char *key, uint64_t bytes)
{
    uint8_t hash[PFL_STORE_SHA_BYTES];

    hash_pattern(bytes, hash);
    assert_int_equal(pfl_store_put_begin(put, key, bytes, hash), 0);
}

/* `step`: bytes at a time. */
static void write_pattern(uint64_t bytes, size_t step)
{
    for (uint64_t at = 0; at < bytes; at += step) {
        size_t len = bytes - at < step ? (size_t)(bytes - at) : step;

        assert_int_equal(pfl_store_put_write(put, pfl_span_of(pfl_pattern_get(at), len)), 0);
    }
}

static void put_pattern(const char *key, uint64_t bytes)
{
    begin_pattern(key, bytes);
    write_pattern(bytes, 100000);
    assert_int_equal(pfl_store_put_commit(put), 0);
}

struct got {
    uint64_t at;
    uint64_t bytes;
    uint64_t at_most;
    bool is_right;
};

static bool on_data(void *user, struct pfl_span bytes)
{
    struct got *got = user;

    got->is_right = got->is_right && pfl_pattern_is(got->at, bytes.data, bytes.len);
    got->at += bytes.len;
    got->bytes += bytes.len;
    return got->bytes < got->at_most;
}

static int get_at_most(const char *key, struct pfl_store_range range, struct got *got)
{
    got->is_right = true;
    return pfl_store_get(store, key, &range, on_data, got);
}

/* The bytes that a get of this range yields, all of them right. */
static uint64_t get_range(const char *key, uint64_t offset, uint64_t length)
{
    struct got got = {.at = offset, .at_most = UINT64_MAX};

    assert_int_equal(get_at_most(key, (struct pfl_store_range){offset, length}, &got), 0);
    assert_true(got.is_right);
    return got.bytes;
}

static size_t list_keys(const char *prefix, const char *after, struct pfl_store_object *dst,
                        size_t room)
{
    const struct pfl_store_listing what = {prefix, after};
    size_t len;

    assert_int_equal(pfl_store_list(store, &what, dst, room, &len), 0);
    return len;
}

static bool is_there(const char *key)
{
    struct pfl_store_object object;
    int rc = pfl_store_head(store, key, &object);

    assert_true(rc == 0 || rc == PFL_ENOENT);
    return rc == 0;
}

static void what_is_put_can_be_read(void **state)
{
    static const uint64_t sizes[] = {0, 1, 4096, 1000003, 5000000};
    struct pfl_store_object object;

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        put_pattern(KEY, sizes[i]);
        assert_int_equal(pfl_store_head(store, KEY, &object), 0);
        assert_string_equal(object.key, KEY);
        assert_int_equal(object.bytes, sizes[i]);
        assert_in_range(object.modified_s, time(NULL) - 86400, time(NULL) + 86400);
        assert_int_equal(get_range(KEY, 0, UINT64_MAX), sizes[i]);
    }
}

static void a_range_yields_its_bytes_and_no_others(void **state)
{
    (void)state;
    put_pattern(KEY, 1000003);
    assert_int_equal(get_range(KEY, 0, 1), 1);
    assert_int_equal(get_range(KEY, 17, 300000), 300000);
    assert_int_equal(get_range(KEY, 1000000, 300000), 3);
    assert_int_equal(get_range(KEY, 1000002, UINT64_MAX), 1);
    assert_int_equal(get_range(KEY, 1000003, 5), 0);
    assert_int_equal(get_range(KEY, 2000000, UINT64_MAX), 0);
    assert_int_equal(get_range(KEY, 3, 0), 0);
}

static void a_reader_may_stop(void **state)
{
    struct got got = {.at_most = 1};

    (void)state;
    put_pattern(KEY, 1000003);
    assert_int_equal(get_at_most(KEY, (struct pfl_store_range){0, UINT64_MAX}, &got), PFL_ECLOSED);
    assert_true(got.is_right);
}

static void what_is_not_there_is_not_found(void **state)
{
    struct got got = {.at_most = UINT64_MAX};
    struct pfl_store_object object;

    (void)state;
    assert_int_equal(pfl_store_head(store, KEY, &object), PFL_ENOENT);
    assert_int_equal(get_at_most(KEY, (struct pfl_store_range){0, UINT64_MAX}, &got), PFL_ENOENT);
    assert_int_equal(got.bytes, 0);
    assert_int_equal(pfl_store_delete(store, KEY), 0);
    put_pattern(KEY, 10);
    assert_int_equal(pfl_store_head(store, "v1/lab", &object), PFL_ENOENT);
    assert_int_equal(pfl_store_head(store, KEY "x", &object), PFL_ENOENT);
}

static void nothing_is_visible_before_commit(void **state)
{
    struct pfl_store_object object;

    (void)state;
    begin_pattern(KEY, 300000);
    write_pattern(300000, 1000);
    assert_false(is_there(KEY));
    assert_int_equal(list_keys("", "", &object, 1), 0);
    pfl_store_put_abort(put);
    assert_false(is_there(KEY));
    put_pattern(KEY, 12);
    assert_true(is_there(KEY));
}

static void other_bytes_than_promised_are_not_kept(void **state)
{
    uint8_t hash[PFL_STORE_SHA_BYTES];

    (void)state;
    begin_pattern(KEY, 1000);
    write_pattern(999, 100);
    assert_int_equal(pfl_store_put_commit(put), PFL_EPARSE);
    assert_non_null(strstr(pfl_store_get_error(), "999 bytes instead of 1000"));
    assert_false(is_there(KEY));

    begin_pattern(KEY, 1000);
    write_pattern(1000, 100);
    assert_int_equal(pfl_store_put_write(put, pfl_span_of("x", 1)), PFL_EPARSE);
    pfl_store_put_abort(put);
    assert_false(is_there(KEY));

    hash_pattern(1000, hash);
    hash[31] ^= 1;
    assert_int_equal(pfl_store_put_begin(put, KEY, 1000, hash), 0);
    write_pattern(1000, 1000);
    assert_int_equal(pfl_store_put_commit(put), PFL_EPARSE);
    assert_false(is_there(KEY));
}

static void calls_in_the_wrong_order_are_refused(void **state)
{
    uint8_t hash[PFL_STORE_SHA_BYTES] = {0};

    (void)state;
    assert_int_equal(pfl_store_put_commit(put), PFL_ESTATE);
    assert_int_equal(pfl_store_put_write(put, pfl_span_of(hash, 1)), PFL_ESTATE);
    pfl_store_put_abort(put);
    begin_pattern(KEY, 5);
    assert_int_equal(pfl_store_put_begin(put, KEY, 5, hash), PFL_ESTATE);
    assert_int_equal(pfl_store_put_all(put, KEY, pfl_span_of(hash, 1)), PFL_ESTATE);
    pfl_store_put_abort(put);
}

static void malformed_keys_are_refused(void **state)
{
    static const char *const keys[] = {"",    "/",      "/a",          "a/",   "a//b",
                                       "..",  "a/../b", ".incoming/x", "a/.b", "a\nb",
                                       "a b", "a/b\\c", "a/\xc3\xa4"};
    struct pfl_store_object object;
    uint8_t hash[PFL_STORE_SHA_BYTES] = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        assert_int_equal(pfl_store_put_begin(put, keys[i], 0, hash), PFL_EINVAL);
        assert_int_equal(pfl_store_head(store, keys[i], &object), PFL_EINVAL);
        assert_int_equal(pfl_store_delete(store, keys[i]), PFL_EINVAL);
    }
}

static void a_put_replaces_what_was_there(void **state)
{
    (void)state;
    put_pattern(KEY, 2000);
    put_pattern(KEY, 1000);
    assert_int_equal(get_range(KEY, 0, UINT64_MAX), 1000);
}

static void a_small_object_is_put_in_one_call(void **state)
{
    (void)state;
    assert_int_equal(pfl_store_put_all(put, "v1/a.json", pfl_span_of(pfl_pattern_get(0), 321)), 0);
    assert_int_equal(get_range("v1/a.json", 0, UINT64_MAX), 321);
    assert_int_equal(pfl_store_put_all(put, "v1/empty", pfl_span_of(NULL, 0)), 0);
    assert_int_equal(get_range("v1/empty", 0, UINT64_MAX), 0);
}

/* In the order of bytes: "-" and "." are below "/", "0" and "_" above. */
static const char *const sorted[] = {"v1/a-b/1",   "v1/a.b", "v1/a/1",     "v1/a/2",
                                     "v1/a/b/c/d", "v1/a0",  "v1/a_",      "v1/b",
                                     "v2/%41",     "v2/A",   "v2/a=b+c@d~"};
#define SORTED (sizeof(sorted) / sizeof(sorted[0]))

static void put_sorted(void)
{
    for (size_t i = 0; i < SORTED; i++)
        put_pattern(sorted[(i * 7) % SORTED], i);
}

static void list_in_pieces(size_t room)
{
    struct pfl_store_object objects[SORTED + 1];
    char last[PFL_STORE_KEY_BYTES] = "";
    size_t seen = 0;
    size_t len;

    do {
        len = list_keys("", last, objects, room);
        for (size_t i = 0; i < len; i++)
            assert_string_equal(objects[i].key, sorted[seen++]);
        if (len != 0)
            (void)snprintf(last, sizeof(last), "%s", objects[len - 1].key);
    } while (len == room);
    assert_int_equal(seen, SORTED);
}

static void a_list_is_sorted_and_bounded(void **state)
{
    (void)state;
    if (!sorts_by_bytes)
        skip();
    put_sorted();
    for (size_t room = 1; room <= SORTED + 1; room++)
        list_in_pieces(room);
}

static size_t count_with(const char *prefix, const char *after)
{
    struct pfl_store_object objects[SORTED];
    size_t len = list_keys(prefix, after, objects, SORTED);

    for (size_t i = 0; i < len; i++)
        assert_memory_equal(objects[i].key, prefix, strlen(prefix));
    return len;
}

static void a_list_has_what_begins_with_its_prefix(void **state)
{
    (void)state;
    put_sorted();
    assert_int_equal(count_with("v1/", ""), 8);
    assert_int_equal(count_with("v1/a", ""), 7);
    assert_int_equal(count_with("v1/a/", ""), 3);
    assert_int_equal(count_with("v1/a/b/c/d", ""), 1);
    assert_int_equal(count_with("v1/a/", "v1/a/1"), 2);
    assert_int_equal(count_with("v1/a/", "v1/a/b/c/d"), 0);
    assert_int_equal(count_with("v3", ""), 0);
    assert_int_equal(count_with("v2/", "v1/b"), 3);
}

static void a_list_of_many_is_whole(void **state)
{
    struct pfl_store_object objects[50];
    char last[PFL_STORE_KEY_BYTES] = "";
    char key[64];
    size_t seen = 0;
    size_t len;

    (void)state;
    for (unsigned i = 0; i < 300; i++) {
        (void)snprintf(key, sizeof(key), "v1/h/%03u", i * 7 % 300);
        assert_int_equal(pfl_store_put_all(put, key, pfl_span_of("x", 1)), 0);
    }
    do {
        len = list_keys("v1/", last, objects, 50);
        for (size_t i = 0; i < len; i++, seen++) {
            (void)snprintf(key, sizeof(key), "v1/h/%03zu", seen);
            assert_string_equal(objects[i].key, key);
        }
        if (len != 0)
            (void)snprintf(last, sizeof(last), "%s", objects[len - 1].key);
    } while (len == 50);
    assert_int_equal(seen, 300);
}

static void what_is_deleted_is_gone(void **state)
{
    (void)state;
    put_pattern("v1/a/1", 10);
    put_pattern("v1/a/2", 10);
    assert_int_equal(pfl_store_delete(store, "v1/a/1"), 0);
    assert_false(is_there("v1/a/1"));
    assert_true(is_there("v1/a/2"));
    assert_int_equal(pfl_store_delete(store, "v1/a/2"), 0);
    put_pattern("v1/a/1", 10); /* its folder was removed with the last object */
    assert_true(is_there("v1/a/1"));
}

static void a_sweep_leaves_what_is_whole(void **state)
{
    unsigned count;

    (void)state;
    put_pattern(KEY, 10);
    assert_int_equal(pfl_store_sweep(store, 0, &count), 0);
    assert_true(is_there(KEY));
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, begin_case, end_case)

int store_cases_run(const char *name, struct pfl_store *used, bool is_by_bytes)
{
    const struct CMUnitTest tests[] = {
        CASE(what_is_put_can_be_read),
        CASE(a_range_yields_its_bytes_and_no_others),
        CASE(a_reader_may_stop),
        CASE(what_is_not_there_is_not_found),
        CASE(nothing_is_visible_before_commit),
        CASE(other_bytes_than_promised_are_not_kept),
        CASE(calls_in_the_wrong_order_are_refused),
        CASE(malformed_keys_are_refused),
        CASE(a_put_replaces_what_was_there),
        CASE(a_small_object_is_put_in_one_call),
        CASE(a_list_is_sorted_and_bounded),
        CASE(a_list_has_what_begins_with_its_prefix),
        CASE(a_list_of_many_is_whole),
        CASE(what_is_deleted_is_gone),
        CASE(a_sweep_leaves_what_is_whole),
    };

    store = used;
    sorts_by_bytes = is_by_bytes;
    return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}
