/* SPDX-License-Identifier: Apache-2.0 */
/* Reserving: gaps over numbers that are stored, in an index on SQLite. */
#include "collector/pull/reservation.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#define NOW UINT64_C(1795432296000000000)

struct made {
    Perfleet__Segment segment;
    Perfleet__SegmentGap gap;
    uint8_t sha256[32];
};

static char folder[64];
static char where[128];
static struct pfl_index *ix;

static unsigned statements; /* of all connections */

static int on_statement(unsigned kind, void *user, void *statement, void *text)
{
    (void)kind;
    (void)user;
    (void)statement;
    (void)text;
    statements++;
    return 0;
}

static int on_open(sqlite3 *db, char **ret_why, const struct sqlite3_api_routines *api)
{
    (void)ret_why;
    (void)api;
    return sqlite3_trace_v2(db, SQLITE_TRACE_STMT, on_statement, NULL);
}

static int setup(void **state)
{
    const struct pfl_index_conf conf = {.where = where, .may_create = true};
    char why[PFL_INDEX_WHY_BYTES];
    uint64_t generation;

    (void)state;
    (void)snprintf(folder, sizeof(folder), "/tmp/pfl-reservation-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    (void)snprintf(where, sizeof(where), "sqlite:%s/index", folder);
    if (sqlite3_auto_extension((void (*)(void))on_open) != SQLITE_OK ||
        pfl_index_open(&conf, why, &ix) != 0)
        return -1;
    (void)sqlite3_cancel_auto_extension((void (*)(void))on_open);
    return pfl_index_join(ix, "c1", &generation);
}

static int teardown(void **state)
{
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    char path[160];

    (void)state;
    pfl_index_close(ix);
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s/index%s", folder, suffixes[i]);
        (void)unlink(path);
    }
    return rmdir(folder);
}

static void make(struct made *m, uint32_t number, uint8_t bytes)
{
    *m = (struct made){.segment = PERFLEET__SEGMENT__INIT};
    m->segment.host = "a";
    m->segment.orderer = "me";
    m->segment.order = "cpu";
    m->segment.incarnation = "01JD0000000000000000000009";
    m->segment.has_number = 1;
    m->segment.number = number;
    m->segment.has_bytes = 1;
    m->segment.bytes = 1000;
    memset(m->sha256, bytes, sizeof(m->sha256));
    m->segment.has_sha256 = 1;
    m->segment.sha256 = (ProtobufCBinaryData){sizeof(m->sha256), m->sha256};
    m->segment.has_begin_unix_ns = 1;
    m->segment.begin_unix_ns = NOW + number;
    m->segment.has_end_unix_ns = 1;
    m->segment.end_unix_ns = NOW + number + 1;
}

static void make_gap(struct made *m, uint32_t number, uint32_t last)
{
    make(m, number, 0);
    perfleet__segment_gap__init(&m->gap);
    m->gap.has_last = 1;
    m->gap.last = last;
    m->segment.gap = &m->gap;
    m->segment.has_bytes = 0;
    m->segment.has_sha256 = 0;
    m->segment.sha256 = (ProtobufCBinaryData){0, NULL};
}

static enum pfl_index_reserve reserve(struct made *m, struct pfl_index_place *place)
{
    static unsigned ids;
    enum pfl_index_reserve result;

    (void)snprintf(place->id, sizeof(place->id), "01JD%022u", ++ids);
    (void)snprintf(place->key, sizeof(place->key), "v1/lab/%s.pftrace", place->id);
    assert_int_equal(pfl_reservation_make(ix, &m->segment, NOW, place, &result), 0);
    return result;
}

static void store(uint32_t number)
{
    struct pfl_index_place place;
    struct made m;

    make(&m, number, (uint8_t)number);
    assert_int_equal(reserve(&m, &place), PFL_INDEX_RESERVE_NEW);
    assert_int_equal(pfl_index_set_live(ix, place.id, NOW), 0);
}

static void a_gap_begins_behind_what_is_stored(void **state)
{
    struct pfl_index_place place;
    struct made m;

    (void)state;
    store(2);
    store(3);
    make_gap(&m, 2, 5);
    assert_int_equal(reserve(&m, &place), PFL_INDEX_RESERVE_NEW);
    assert_int_equal(m.segment.number, 4);
    assert_int_equal(m.gap.last, 5);
}

static void a_gap_over_nothing_but_what_is_stored_is_stored(void **state)
{
    struct pfl_index_place place;
    struct made m;

    (void)state;
    store(2);
    store(3);
    make_gap(&m, 2, 3);
    assert_int_equal(reserve(&m, &place), PFL_INDEX_RESERVE_STORED);
    make_gap(&m, 3, 3);
    assert_int_equal(reserve(&m, &place), PFL_INDEX_RESERVE_STORED);
}

static void a_gap_behind_what_is_stored_stays_as_it_is(void **state)
{
    struct pfl_index_place place;
    struct made m;

    (void)state;
    store(2);
    make_gap(&m, 3, 9);
    assert_int_equal(reserve(&m, &place), PFL_INDEX_RESERVE_NEW);
    assert_int_equal(m.segment.number, 3);
}

/* Its begin is in the key of its description: others would leave a file each. */
static void a_gap_that_is_said_again_keeps_its_begin(void **state)
{
    struct pfl_index_place place;
    struct made m;

    (void)state;
    make_gap(&m, 3, 9);
    assert_int_equal(reserve(&m, &place), PFL_INDEX_RESERVE_NEW);
    for (uint32_t last = 9; last < 11; last++) { /* the same, and a larger one */
        make_gap(&m, 3, last);
        m.segment.begin_unix_ns = m.segment.end_unix_ns = last;
        assert_int_equal(reserve(&m, &place), PFL_INDEX_RESERVE_NOTED);
        assert_int_equal(m.segment.begin_unix_ns, NOW + 3);
        assert_int_equal(m.segment.end_unix_ns, NOW + 3);
    }
}

/* How many numbers that are stored a gap begins with is the host's word. */
static void a_gap_over_many_stored_numbers_takes_few_statements(void **state)
{
    struct pfl_index_place place;
    struct made m;
    sqlite3 *db;

    (void)state;
    store(1);
    assert_int_equal(sqlite3_open(where + strlen("sqlite:"), &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(
            db,
            "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)"
            " INSERT INTO segment(id, run_id, host_id, number, last, is_gap, is_long, state,"
            " begin_ns, end_ns, bytes, sha256, object_key, collector, generation, changed_ns,"
            " stored_ns) SELECT '0' || i, run_id, host_id, i, i, 0, 0, 1, 1, 1, 1, sha256, 'v1/x',"
            " '', 0, 1, 1 FROM n, segment WHERE number = 1;",
            NULL, NULL, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    for (uint32_t first = 4990; first > 0; first -= 998) {
        make_gap(&m, first != 998 ? first : 1, 6000);
        statements = 0;
        (void)reserve(&m, &place);
        assert_in_range(statements, 1, 40);
        assert_int_equal(m.segment.number, first != 998 ? 5001 : 4097);
    }
}

static void other_bytes_of_a_stored_number_are_a_conflict(void **state)
{
    struct pfl_index_place place;
    struct made m;

    (void)state;
    store(2);
    make(&m, 2, 99);
    assert_int_equal(reserve(&m, &place), PFL_INDEX_RESERVE_CONFLICT);
    assert_int_equal(m.segment.number, 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_gap_begins_behind_what_is_stored),
        TEST(a_gap_over_nothing_but_what_is_stored_is_stored),
        TEST(a_gap_behind_what_is_stored_stays_as_it_is),
        TEST(a_gap_that_is_said_again_keeps_its_begin),
        TEST(other_bytes_of_a_stored_number_are_a_conflict),
        TEST(a_gap_over_many_stored_numbers_takes_few_statements),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
