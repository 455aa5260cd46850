/* SPDX-License-Identifier: Apache-2.0 */
/* Searches for a window, before which a host has many segments, on every engine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/collector/index/index_cases_impl.h"

#define S  UINT64_C(1000000000)
#define T0 (UINT64_C(1795432296) * S)

/* Numbers in the order of their begin: 5000 long segments, of which one reaches into the window
 * from T0 on, 70,000 short ones, of which 7 do, some with the same begin, and 3 in the window. */
static const char segments[] =
    "INSERT INTO host(id, name) VALUES(1, 'a');"
    "INSERT INTO run(id, host_id, orderer, order_name, incarnation, kind_id)"
    " VALUES(1, 1, '', 'cpu', 'r', 1);"
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 75003)"
    " INSERT INTO segment(id, run_id, host_id, number, last, is_gap, is_long, state, begin_ns,"
    " end_ns, bytes, object_key, collector, generation, changed_ns, stored_ns)"
    " SELECT '0' || (100000 + i), 1, 1, i, i, 0, CASE WHEN i <= 5000 THEN 1 ELSE 0 END, 1,"
    " CASE WHEN i <= 5000 THEN 1795429000000000000 + i"
    " WHEN i <= 75000 THEN 1795432290000000000 + i / 7 ELSE 1795432297000000000 END,"
    " CASE WHEN i % 10000 = 2500 THEN 1795432296000000001"
    " WHEN i <= 5000 THEN 1795430000000000000 + i"
    " WHEN i <= 75000 THEN 1795432290000100000 ELSE 1795432298000000000 END,"
    " 0, 'v1/x', '', 0, 1, 1 FROM n;";

static const uint64_t expected[] = {2500,  12500, 22500, 32500, 42500, 52500,
                                    62500, 72500, 75001, 75002, 75003};
#define EXPECTED (sizeof(expected) / sizeof(expected[0]))

struct seen {
    bool is_oldest_first;
    size_t len;
};

static bool on_row(void *user, const struct pfl_index_row *row)
{
    struct seen *seen = user;

    assert_true(seen->len < EXPECTED);
    assert_int_equal(row->number,
                     expected[seen->is_oldest_first ? seen->len : EXPECTED - 1 - seen->len]);
    seen->len++;
    return true;
}

/* Searches that it takes to find all of them. */
static unsigned count_searches(Perfleet__TraceQuery query)
{
    struct seen seen = {query.oldest_first, 0};
    const struct pfl_index_find find = {.query = &query, .on_row = on_row, .user = &seen};
    struct pfl_index_cursor cursor = {.len = 0};
    uint8_t after[PFL_INDEX_CURSOR_BYTES];
    unsigned searches = 0;

    do {
        size_t before = seen.len;

        memcpy(after, cursor.bytes, sizeof(after));
        query.after = (ProtobufCBinaryData){cursor.len, after};
        assert_int_equal(pfl_index_find(index_cases_get(), &find, &cursor), 0);
        assert_int_equal(cursor.looked_at, seen.len - before);
        searches++;
    } while (cursor.len != 0);
    assert_int_equal(seen.len, EXPECTED);
    return searches;
}

/* It is work to pass them: some 19 strips, of which a search has 16. */
static void what_begins_before_a_window_is_passed_in_strips(void **state)
{
    static const uint32_t limits[] = {0, 3, 1};
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;
    char *hosts[] = {"a"};

    (void)state;
    index_cases_script(segments);
    query.begin_unix_ns = T0;
    query.end_unix_ns = T0 + 1000 * S;
    query.host = hosts;
    for (unsigned i = 0; i < 12; i++) {
        unsigned least;

        query.oldest_first = i % 2;
        query.n_host = i / 2 % 2;
        query.limit = limits[i / 4];
        least = query.limit == 0 ? 2 : ((unsigned)EXPECTED + query.limit - 1) / query.limit;
        assert_in_range(count_searches(query), least, least + 2);
    }
}

static bool on_last(void *user, const struct pfl_index_row *row)
{
    *(uint64_t *)user = *(uint64_t *)user * 10 + row->number;
    return true;
}

static uint64_t list_numbers(bool is_oldest_first)
{
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;
    uint64_t numbers = 0;
    const struct pfl_index_find find = {.query = &query, .on_row = on_last, .user = &numbers};
    struct pfl_index_cursor cursor = {.len = 0};
    uint8_t after[PFL_INDEX_CURSOR_BYTES];

    query.oldest_first = is_oldest_first;
    query.limit = 1;
    do {
        memcpy(after, cursor.bytes, sizeof(after));
        query.after = (ProtobufCBinaryData){cursor.len, after};
        assert_int_equal(pfl_index_find(index_cases_get(), &find, &cursor), 0);
        assert_true(numbers <= 321);
    } while (cursor.len != 0);
    return numbers;
}

static void the_last_moment_is_found_once(void **state)
{
    (void)state;
    index_cases_script("INSERT INTO host(id, name) VALUES(1, 'a');"
                       "INSERT INTO run(id, host_id, orderer, order_name, incarnation, kind_id)"
                       " VALUES(1, 1, '', 'cpu', 'r', 1);"
                       "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3)"
                       " INSERT INTO segment(id, run_id, host_id, number, last, is_gap, is_long,"
                       " state, begin_ns, end_ns, bytes, object_key, collector, generation,"
                       " changed_ns, stored_ns) SELECT '0' || i, 1, 1, i, i, 0, 0, 1,"
                       " 9223372036854775807, 9223372036854775807, 0, 'v1/x', '', 0, 1, 1 FROM n;");
    assert_int_equal(list_numbers(false), 321);
    assert_int_equal(list_numbers(true), 123);
}

static size_t count_gaps(uint64_t begin, uint64_t end)
{
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;
    const struct pfl_index_find find = {.query = &query, .on_row = NULL, .is_visible = NULL};
    struct pfl_index_cursor cursor;

    query.begin_unix_ns = begin;
    query.end_unix_ns = end;
    query.pinned = 1; /* none: it is enough to look at them */
    assert_int_equal(pfl_index_find(index_cases_get(), &find, &cursor), 0);
    return cursor.looked_at;
}

static void a_gap_that_is_extended_ends_no_earlier(void **state)
{
    Perfleet__Segment segment = PERFLEET__SEGMENT__INIT;
    Perfleet__SegmentGap gap = PERFLEET__SEGMENT_GAP__INIT;
    struct pfl_index_place place = {.id = "01K", .key = "v1/x"};
    enum pfl_index_reserve result;

    (void)state;
    segment.host = "a";
    segment.order = "cpu";
    segment.incarnation = "01JD0000000000000000000009";
    segment.number = 5;
    segment.begin_unix_ns = T0;
    segment.end_unix_ns = T0 + S;
    gap.last = 6;
    segment.gap = &gap;
    assert_int_equal(pfl_index_reserve(index_cases_get(), &segment, T0, &place, &result), 0);
    assert_int_equal(result, PFL_INDEX_RESERVE_NEW);
    assert_int_equal(count_gaps(T0, T0 + S), 1);
    gap.last = 7;
    segment.begin_unix_ns = segment.end_unix_ns = 0;
    assert_int_equal(pfl_index_reserve(index_cases_get(), &segment, T0, &place, &result), 0);
    assert_int_equal(result, PFL_INDEX_RESERVE_NOTED);
    assert_int_equal(count_gaps(T0, T0 + S), 1);
}

int index_window_cases_run(const char *engine, int (*begin)(void **state), int (*end)(void **state))
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(what_begins_before_a_window_is_passed_in_strips),
        CASE(the_last_moment_is_found_once),
        CASE(a_gap_that_is_extended_ends_no_earlier),
    };

    return cmocka_run_group_tests_name(engine, tests, NULL, NULL);
}
