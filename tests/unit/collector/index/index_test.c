/* SPDX-License-Identifier: Apache-2.0 */
/* The cases of every engine on SQLite; then schemas that are newer, damaged files, and a process
 * that is killed. */
#include "collector/index/index.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "collector/index/sql.h"
#include "tests/support/sweep.h"
#include "tests/unit/collector/index/index_cases.h"

static char folder[64];
static char where[128];

static void remove_file(const char *suffix)
{
    char path[160];

    (void)snprintf(path, sizeof(path), "%s%s", where + strlen("sqlite:"), suffix);
    (void)unlink(path);
}

static int make_empty(void)
{
    remove_file("");
    remove_file("-wal");
    remove_file("-shm");
    return 0;
}

static int on_count(void *user, int columns, char **values, char **names)
{
    (void)columns;
    (void)names;
    *(unsigned *)user = (unsigned)strtoul(values[0], NULL, 10);
    return 0;
}

static unsigned count(const char *table)
{
    char text[64];
    unsigned rows = 0;
    sqlite3 *db;

    (void)snprintf(text, sizeof(text), "SELECT COUNT(*) FROM %s", table);
    assert_int_equal(sqlite3_open(where + strlen("sqlite:"), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, text, on_count, &rows, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return rows;
}

static void script(const char *text)
{
    sqlite3 *db;

    assert_int_equal(sqlite3_open(where + strlen("sqlite:"), &db), SQLITE_OK);
    if (sqlite3_exec(db, text, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s", sqlite3_errmsg(db));
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static int open_with(bool may_create, char *why, struct pfl_index **ret_index)
{
    const struct pfl_index_conf conf = {.where = where, .may_create = may_create};

    return pfl_index_open(&conf, why, ret_index);
}

static void a_newer_schema_is_refused_in_words(void **state)
{
    char why[PFL_INDEX_WHY_BYTES];
    struct pfl_index *index = NULL;
    sqlite3 *db;

    (void)state;
    make_empty();
    assert_int_equal(open_with(true, why, &index), 0);
    pfl_index_close(index);
    assert_int_equal(sqlite3_open(where + strlen("sqlite:"), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "UPDATE perfleet_schema SET version = 9", NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    index = NULL;
    assert_int_equal(open_with(true, why, &index), PFL_ENEWER);
    assert_string_equal(why,
                        "the index has version 9, and this program knows versions up to 7: use "
                        "the newer program");
    assert_null(index);
}

static void what_is_no_database_is_refused(void **state)
{
    char why[PFL_INDEX_WHY_BYTES];
    struct pfl_index *index = NULL;
    const struct pfl_index_conf conf = {.where = "mysql:x"};
    FILE *file;

    (void)state;
    make_empty();
    assert_int_equal(open_with(false, why, &index), PFL_EPERM);
    file = fopen(where + strlen("sqlite:"), "we");
    assert_non_null(file);
    for (int i = 0; i < 1000; i++)
        (void)fputs("no database ", file);
    (void)fclose(file);
    assert_int_equal(open_with(true, why, &index), PFL_EIO);
    assert_non_null(strstr(why, "not a database"));
    assert_int_equal(pfl_index_open(&conf, why, &index), PFL_EINVAL);
}

static bool on_kind(void *user, const struct pfl_index_kind *kind)
{
    if (kind->traces != 0) {
        assert_string_equal(kind->class_name, "default");
        assert_string_equal(kind->order, "cpu");
        assert_int_equal(kind->bytes, PFL_INDEX_TRACE_BYTES + 10);
        *(uint64_t *)user = kind->id;
    }
    return true;
}

static bool on_oldest(void *user, const struct pfl_index_row *row)
{
    assert_string_equal(row->id, "01J");
    *(bool *)user = true;
    return true;
}

/* Version 1 did not know classes: such traces stay for a year. */
static void an_index_of_version_1_is_brought_up_to_date(void **state)
{
    static const char rows[] =
        "CREATE TABLE perfleet_schema(version BIGINT NOT NULL);"
        "INSERT INTO perfleet_schema VALUES(1);"
        "INSERT INTO host(id, name, bytes) VALUES(7, 'web1', 10);"
        "INSERT INTO run(id, host_id, orderer, order_name, incarnation, stored, bytes)"
        " VALUES(9, 7, 'me', 'cpu', 'run', 1, 10);"
        "INSERT INTO segment(id, run_id, host_id, number, last, is_gap, is_long, state, begin_ns,"
        " end_ns, bytes, object_key, collector, generation, changed_ns, stored_ns)"
        " VALUES('01J', 9, 7, 1, 1, 0, 0, 1, 5, 6, 10, 'v1/x', '', 0, 100, 100);";
    const uint64_t year_ns = UINT64_C(31536000000000000);
    struct pfl_index_oldest query = {
        .of = PFL_INDEX_OF_KIND, .before_unix_ns = UINT64_MAX, .now_unix_ns = year_ns};
    char text[8192];
    char why[PFL_INDEX_WHY_BYTES];
    const struct pfl_sql_engine engine = {
        .id_type = "INTEGER PRIMARY KEY", .blob_type = "BLOB", .now_ms = "0"};
    struct pfl_index *index = NULL;
    bool is_there = false;
    sqlite3 *db;

    (void)state;
    make_empty();
    assert_int_equal(pfl_sql_translate(&engine, pfl_schema_get_step(0), text, sizeof(text)), 0);
    assert_int_equal(sqlite3_open(where + strlen("sqlite:"), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, rows, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(open_with(false, why, &index), PFL_ESTATE);
    assert_int_equal(open_with(true, why, &index), 0);
    assert_int_equal(pfl_index_list_kinds(index, on_kind, &query.kind), 0);
    assert_int_equal(pfl_index_get_oldest(index, &query, on_oldest, &is_there), 0);
    assert_false(is_there);
    query.now_unix_ns = year_ns + 100;
    assert_int_equal(pfl_index_get_oldest(index, &query, on_oldest, &is_there), 0);
    assert_true(is_there);
    pfl_index_close(index);
}

static enum pfl_index_reserve reserve(struct pfl_index *index, bool is_gap, int expected)
{
    struct pfl_index_place place = {.id = "01K"};
    Perfleet__Segment segment = PERFLEET__SEGMENT__INIT;
    Perfleet__SegmentGap gap = PERFLEET__SEGMENT_GAP__INIT;
    enum pfl_index_reserve result = PFL_INDEX_RESERVE_BUSY;
    uint8_t sha256[32] = {1};

    segment.host = "evil";
    segment.order = "cpu";
    segment.incarnation = is_gap ? "run" : "another";
    segment.has_number = true;
    segment.number = 1;
    segment.has_sha256 = true;
    segment.sha256 = (ProtobufCBinaryData){sizeof(sha256), sha256};
    segment.gap = is_gap ? &gap : NULL;
    assert_int_equal(pfl_index_reserve(index, &segment, 1, &place, &result), expected);
    return result;
}

static void runs_and_gaps_of_a_host_are_bounded(void **state)
{
    static const char full[] =
        "INSERT INTO host(id, name, gaps) VALUES(1, 'evil', 65536);"
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 19999)"
        " INSERT INTO run(host_id, orderer, order_name, incarnation, kind_id)"
        " SELECT 1, '', 'cpu', 'r' || i, 1 FROM n;";
    char why[PFL_INDEX_WHY_BYTES];
    struct pfl_index *index = NULL;
    uint64_t generation;
    sqlite3 *db;

    (void)state;
    make_empty();
    assert_int_equal(open_with(true, why, &index), 0);
    assert_int_equal(pfl_index_join(index, "c1", &generation), 0);
    assert_int_equal(sqlite3_open(where + strlen("sqlite:"), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, full, NULL, NULL, NULL), SQLITE_OK);
    (void)reserve(index, true, PFL_ELIMIT);
    assert_string_equal(pfl_index_get_error(index), "the host has 65536 gaps");
    assert_int_equal(reserve(index, false, 0), PFL_INDEX_RESERVE_NEW); /* the last run */
    (void)reserve(index, true, PFL_ELIMIT);
    assert_string_equal(pfl_index_get_error(index), "the host has 20000 runs of orders");
    assert_int_equal(sqlite3_exec(db, "DELETE FROM run WHERE incarnation = 'r1'", NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "UPDATE host SET gaps = 65535", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "UPDATE segment SET id = 'x'", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(reserve(index, true, 0), PFL_INDEX_RESERVE_NEW);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    pfl_index_close(index);
}

/* Whether the one segment of host `name` counts as long, after it is put. */
static bool put_long(struct pfl_index *index, sqlite3 *db, char *name)
{
    Perfleet__Segment segment = PERFLEET__SEGMENT__INIT;
    struct pfl_index_place place = {.id = "01K"};
    enum pfl_index_reserve result;
    uint8_t sha256[32] = {0};
    sqlite3_stmt *stmt;
    bool is_long;

    segment.host = name;
    segment.orderer = (char *)(uintptr_t) "me";
    segment.order = (char *)(uintptr_t) "cpu";
    segment.incarnation = (char *)(uintptr_t) "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    segment.number = 100000;
    segment.sha256 = (ProtobufCBinaryData){sizeof(sha256), sha256};
    segment.begin_unix_ns = 1;
    segment.end_unix_ns = UINT64_C(2000000000000);
    (void)snprintf(place.id, sizeof(place.id), "%.20s", name);
    (void)snprintf(place.key, sizeof(place.key), "v1/%.20s", name);
    assert_int_equal(pfl_index_reserve(index, &segment, 1, &place, &result), 0);
    assert_int_equal(
        sqlite3_prepare_v2(db, "SELECT is_long FROM segment WHERE id = ?", -1, &stmt, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_bind_text(stmt, 1, place.id, -1, SQLITE_STATIC), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    is_long = sqlite3_column_int(stmt, 0) != 0;
    assert_int_equal(sqlite3_finalize(stmt), SQLITE_OK);
    return is_long;
}

/* Each search for a window looks at all of them. */
static void long_segments_of_a_host_are_bounded(void **state)
{
    static const char full[] =
        "INSERT INTO host(id, name) VALUES(1, 'evil'), (2, 'good');"
        "INSERT INTO run(id, host_id, orderer, order_name, incarnation, kind_id)"
        " VALUES(1, 1, '', 'cpu', 'r', 1), (2, 2, '', 'cpu', 'r', 1);"
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 16384)"
        " INSERT INTO segment(id, run_id, host_id, number, last, is_gap, is_long, state, begin_ns,"
        " end_ns, bytes, object_key, collector, generation, changed_ns, stored_ns)"
        " SELECT 'e' || i, 1, 1, i, i, 0, 1, 1, i, 2000000000000, 0, 'v1/x', '', 0, 1, 1 FROM n"
        " UNION ALL SELECT 'g' || i, 2, 2, i, i, 0, 1, 1, i, 2000000000000, 0, 'v1/x', '', 0, 1, 1"
        " FROM n WHERE i < 16384;";
    char why[PFL_INDEX_WHY_BYTES];
    struct pfl_index *index = NULL;
    char evil[] = "evil";
    char good[] = "good";
    uint64_t generation;
    sqlite3 *db;

    (void)state;
    make_empty();
    assert_int_equal(open_with(true, why, &index), 0);
    assert_int_equal(pfl_index_join(index, "c1", &generation), 0);
    assert_int_equal(sqlite3_open(where + strlen("sqlite:"), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, full, NULL, NULL, NULL), SQLITE_OK);
    assert_false(put_long(index, db, evil));
    assert_true(put_long(index, db, good));
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    pfl_index_close(index);
}

static int open_once(void *arg)
{
    char why[PFL_INDEX_WHY_BYTES];
    struct pfl_index *index = NULL;
    int rc = open_with(true, why, &index);

    (void)arg;
    pfl_index_close(index);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    make_empty();
    pfl_sweep(open_once, NULL, false);
}

/* Puts orders until it is killed; says each generation when it was put. */
static void put_orders(int out)
{
    char why[PFL_INDEX_WHY_BYTES];
    struct pfl_index *index;
    Perfleet__Order order = PERFLEET__ORDER__INIT;
    uint32_t generation;

    order.name = "o";
    if (open_with(true, why, &index) != 0)
        _exit(1);
    while (pfl_index_put_order(index, "me", &order, &generation) == 0 &&
           write(out, &generation, sizeof(generation)) == sizeof(generation))
        continue;
    _exit(1);
}

static bool on_order(void *user, const struct pfl_index_order *order)
{
    *(uint32_t *)user = order->generation;
    return true;
}

static void what_was_put_survives_a_kill(void **state)
{
    char why[PFL_INDEX_WHY_BYTES];
    struct pfl_index *index;
    uint32_t said = 0;
    uint32_t kept = 0;

    (void)state;
    make_empty();
    for (int round = 0; round < 10; round++) {
        int ends[2];
        uint32_t number;
        int left = 1 + round * 3;
        pid_t child;

        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        child = fork();
        if (child == 0)
            put_orders(ends[1]);
        (void)close(ends[1]);
        while (left-- > 0 && read(ends[0], &number, sizeof(number)) == sizeof(number))
            said = number;
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, NULL, 0), child);
        while (read(ends[0], &number, sizeof(number)) == sizeof(number))
            said = number;
        (void)close(ends[0]);
        assert_int_equal(open_with(true, why, &index), 0);
        assert_int_equal(pfl_index_list_orders(index, on_order, &kept), 0);
        pfl_index_close(index);
        assert_in_range(kept, said, said + 1);
    }
}

static void store_many(struct pfl_index *index, unsigned count)
{
    static char source[200];
    char *sources[10];

    memset(source, 's', sizeof(source) - 1);
    for (size_t i = 0; i < 10; i++)
        sources[i] = source;
    for (unsigned n = 1; n <= count; n++) {
        Perfleet__Segment segment = PERFLEET__SEGMENT__INIT;
        enum pfl_index_reserve reserved;
        struct pfl_index_place place;
        uint8_t sha256[32] = {1};

        segment.host = "web1";
        segment.orderer = "me";
        segment.order = "cpu";
        segment.incarnation = "01JD0000000000000000000009";
        segment.has_number = segment.has_sha256 = segment.has_begin_unix_ns = 1;
        segment.number = n;
        segment.sha256 = (ProtobufCBinaryData){sizeof(sha256), sha256};
        segment.begin_unix_ns = n * UINT64_C(1000000000);
        segment.has_end_unix_ns = 1;
        segment.end_unix_ns = segment.begin_unix_ns + 1000000000;
        segment.data_source = sources;
        segment.n_data_source = 10;
        (void)snprintf(place.id, sizeof(place.id), "%026u", n);
        (void)snprintf(place.key, sizeof(place.key), "v1/%u.pftrace", n);
        assert_int_equal(pfl_index_reserve(index, &segment, 1, &place, &reserved), 0);
        assert_int_equal(pfl_index_set_live(index, place.id, 1), 0);
    }
}

static bool count_row(void *user, const struct pfl_index_row *row)
{
    (void)row;
    ++*(unsigned *)user;
    return true;
}

/* The sandbox lets the collector open nothing beside the database: here it may open nothing. */
static void a_search_needs_no_temporary_file(void **state)
{
    char why[PFL_INDEX_WHY_BYTES];
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;
    unsigned found = 0;
    const struct pfl_index_find find = {.query = &query, .on_row = count_row, .user = &found};
    struct pfl_index_cursor cursor = {.len = 0};
    struct pfl_index *index;
    struct rlimit before;
    struct rlimit none;
    uint64_t generation;
    int rc;

    (void)state;
    make_empty();
    assert_int_equal(open_with(true, why, &index), 0);
    assert_int_equal(pfl_index_join(index, "c1", &generation), 0);
    store_many(index, 1200);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    query.has_limit = 1;
    query.limit = PFL_INDEX_LIMIT_MAX;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    rc = pfl_index_find(index, &find, &cursor);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    if (rc != 0)
        print_message("%s\n", pfl_index_get_error(index));
    assert_int_equal(rc, 0);
    assert_int_equal(found, 1200);
    pfl_index_close(index);
}

static bool is_costly(void *user, const struct pfl_index_row *row, uint64_t *work)
{
    (void)row;
    ++*(unsigned *)user;
    *work += PFL_INDEX_SCAN_UNITS / 4;
    return false;
}

static void who_judges_rows_is_a_part_of_the_work(void **state)
{
    char why[PFL_INDEX_WHY_BYTES];
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;
    struct pfl_index_cursor cursor;
    unsigned judged = 0;
    const struct pfl_index_find find = {
        .query = &query, .is_visible = is_costly, .on_row = count_row, .user = &judged};
    struct pfl_index *index;
    uint64_t generation;

    (void)state;
    make_empty();
    assert_int_equal(open_with(true, why, &index), 0);
    assert_int_equal(pfl_index_join(index, "c1", &generation), 0);
    store_many(index, 10);
    assert_int_equal(pfl_index_find(index, &find, &cursor), 0);
    assert_int_equal(judged, 4);
    assert_int_not_equal(cursor.len, 0);
    pfl_index_close(index);
}

static int on_step_of_plan(void *user, int columns, char **values, char **names)
{
    (void)columns;
    (void)names;
    if (strstr(values[3], "TEMP B-TREE") != NULL)
        ++*(unsigned *)user;
    return 0;
}

static void a_search_sorts_no_rows(void **state)
{
    static const enum pfl_statement searches[] = {PFL_SQL_HOST_NEWEST, PFL_SQL_HOST_OLDEST,
                                                  PFL_SQL_FLEET_NEWEST, PFL_SQL_FLEET_OLDEST};
    char why[PFL_INDEX_WHY_BYTES];
    struct pfl_index *index = NULL;
    unsigned sorts = 0;
    sqlite3 *db;

    (void)state;
    make_empty();
    assert_int_equal(open_with(true, why, &index), 0);
    assert_int_equal(sqlite3_open(where + strlen("sqlite:"), &db), SQLITE_OK);
    for (size_t i = 0; i < sizeof(searches) / sizeof(searches[0]); i++) {
        char text[PFL_STATEMENT_MAX_BYTES + 32];

        (void)snprintf(text, sizeof(text), "EXPLAIN QUERY PLAN %s",
                       pfl_statement_get_merged(searches[i]));
        assert_int_equal(sqlite3_exec(db, text, on_step_of_plan, &sorts, NULL), SQLITE_OK);
    }
    assert_int_equal(sorts, 0);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    pfl_index_close(index);
}

/* -- what one statement costs -- */

static int most_steps; /* of SQLite's machine, in one statement */

static bool has_run; /* of a transaction: it has changed the run's row */
static unsigned hosts_before_runs;

static void note_order(const char *text)
{
    if (strncmp(text, "BEGIN", 5) == 0)
        has_run = false;
    else if (strncmp(text, "UPDATE run", 10) == 0)
        has_run = true;
    else if (!has_run && strncmp(text, "UPDATE host", 11) == 0)
        hosts_before_runs++;
}

static int on_statement_end(unsigned kind, void *user, void *statement, void *ns)
{
    int steps = sqlite3_stmt_status(statement, SQLITE_STMTSTATUS_VM_STEP, 1);

    note_order(sqlite3_sql(statement));

    (void)kind;
    (void)user;
    (void)ns;
    most_steps = steps > most_steps ? steps : most_steps;
    return 0;
}

static int on_open(sqlite3 *db, char **ret_why, const struct sqlite3_api_routines *api)
{
    (void)ret_why;
    (void)api;
    return sqlite3_trace_v2(db, SQLITE_TRACE_PROFILE, on_statement_end, NULL);
}

/* Steps of the costliest statement of a search, with all cursors. */
static int search_all(struct pfl_index *index, Perfleet__TraceQuery query, unsigned expected)
{
    unsigned found = 0;
    const struct pfl_index_find find = {.query = &query, .on_row = count_row, .user = &found};
    struct pfl_index_cursor cursor = {.len = 0};
    uint8_t after[PFL_INDEX_CURSOR_BYTES];

    most_steps = 0;
    do {
        memcpy(after, cursor.bytes, sizeof(after));
        query.after = (ProtobufCBinaryData){cursor.len, after};
        assert_int_equal(pfl_index_find(index, &find, &cursor), 0);
    } while (cursor.len != 0);
    assert_int_equal(found, expected);
    return most_steps;
}

static struct pfl_index *open_profiled(void)
{
    char why[PFL_INDEX_WHY_BYTES];
    struct pfl_index *index = NULL;

    make_empty();
    assert_int_equal(sqlite3_auto_extension((void (*)(void))on_open), SQLITE_OK);
    assert_int_equal(open_with(true, why, &index), 0);
    assert_int_equal(sqlite3_cancel_auto_extension((void (*)(void))on_open), 1);
    return index;
}

/* Whatever moments a host chooses: before a window, and one for all. */
static void a_statement_of_a_search_passes_few_rows(void **state)
{
    static const char rows[] =
        "INSERT INTO host(id, name) VALUES(1, 'a');"
        "INSERT INTO run(id, host_id, orderer, order_name, incarnation, kind_id)"
        " VALUES(1, 1, '', 'cpu', 'r', 1);"
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000)"
        " INSERT INTO segment(id, run_id, host_id, number, last, is_gap, is_long, state, begin_ns,"
        " end_ns, bytes, object_key, collector, generation, changed_ns, stored_ns)"
        " SELECT '0' || (100000 + i), 1, 1, i, i, 0, 0, 1, 1000000, 2000000, 0, 'v1/x', '', 0, 1,"
        " 1 FROM n;";
    static const uint64_t begins[] = {3000000, 1500000, 0};
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;
    struct pfl_index *index;
    char host[] = "a";
    char *hosts[] = {host};

    (void)state;
    index = open_profiled();
    script(rows);
    query.host = hosts;
    for (unsigned i = 0; i < 12; i++) {
        query.begin_unix_ns = begins[i / 4];
        query.oldest_first = i % 2;
        query.n_host = i / 2 % 2;
        assert_in_range(search_all(index, query, i / 4 == 0 ? 0 : 30000), 100, 100000);
    }
    pfl_index_close(index);
}

static bool on_victim(void *user, const struct pfl_index_row *row)
{
    *(uint64_t *)user = row->number;
    return true;
}

/* Steps that it takes to find the oldest trace, whose number is this. */
static int ask_oldest(struct pfl_index *index, const struct pfl_index_oldest *query,
                      uint64_t expected)
{
    uint64_t number = 0;

    most_steps = 0;
    assert_int_equal(pfl_index_get_oldest(index, query, on_victim, &number), 0);
    assert_int_equal(number, expected);
    return most_steps;
}

/* The same in parts: 10,000 traces before it are pinned. */
static void look_for(struct pfl_index *index, struct pfl_index_oldest query, uint64_t expected)
{
    struct pfl_index_look look = {.limit = 64};
    unsigned parts = 0;

    query.look = &look;
    do {
        assert_in_range(ask_oldest(index, &query, parts < 156 ? 0 : expected), 1, 20000);
        parts++;
    } while (look.has_more);
    assert_int_equal(parts, 157);
}

static bool count_use(void *user, const struct pfl_index_use *use)
{
    assert_int_equal(use->amount, 1);
    ++*(unsigned *)user;
    return true;
}

/* Which classes and triggers its traces have is the host's word: 10,000 of class a, 10,000 of as
 * many triggers, then one of class b, one of trigger t and one that no trigger made. */
static void a_statement_of_retention_passes_few_rows(void **state)
{
    static const char rows[] =
        "INSERT INTO host(id, name) VALUES(1, 'a');"
        "INSERT INTO kind(id, class, orderer, order_name) VALUES(2, 'a', '', 'cpu'),"
        " (3, 'b', '', 'cpu');"
        "INSERT INTO run(id, host_id, orderer, order_name, incarnation, kind_id)"
        " VALUES(1, 1, '', 'cpu', 'r', 2);"
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20003)"
        " INSERT INTO segment(id, run_id, host_id, number, last, is_gap, is_long, state, begin_ns,"
        " end_ns, bytes, object_key, collector, generation, changed_ns, stored_ns, kind_id,"
        " trigger_name)"
        " SELECT '0' || (100000 + i), 1, 1, i, i, 0, i % 2, 1, i, i, 0, 'v1/x', '', 0, 1, i,"
        " CASE i WHEN 20001 THEN 3 ELSE 2 END, CASE WHEN i <= 10000 OR i = 20001 OR i = 20003"
        " THEN '' WHEN i = 20002 THEN 't' ELSE 's' || i END FROM n;";
    struct pfl_index_oldest query = {
        .of = PFL_INDEX_OF_HOST, .host_id = 1, .class_name = "b", .now_unix_ns = 30000};
    const struct pfl_index_use_query triggers = {
        .kind = 2, .after_host = 1, .after_trigger = "s15", .limit = 100};
    struct pfl_index *index;
    unsigned uses = 0;

    (void)state;
    index = open_profiled();
    script(rows);
    assert_in_range(ask_oldest(index, &query, 20001), 1, 10000);
    query.class_name = "a";
    assert_in_range(ask_oldest(index, &query, 1), 1, 10000);
    query.is_triggered = true;
    assert_in_range(ask_oldest(index, &query, 10001), 1, 10000);
    query = (struct pfl_index_oldest){
        .of = PFL_INDEX_OF_TRIGGER, .kind = 2, .host_id = 1, .trigger = "t", .now_unix_ns = 30000};
    assert_in_range(ask_oldest(index, &query, 20002), 1, 10000);
    most_steps = 0;
    assert_int_equal(pfl_index_list_trigger_use(index, &triggers, count_use, &uses), 0);
    assert_int_equal(uses, 100);
    assert_in_range(most_steps, 1, 10000);
    script("UPDATE segment SET pin_who = 'ann' WHERE number <= 20000;"
           "UPDATE segment SET trigger_name = 't' WHERE number > 10000 AND number <= 20000;");
    look_for(index, query, 20002);
    query.of = PFL_INDEX_OF_KIND;
    query.before_unix_ns = UINT64_MAX;
    look_for(index, query, 20003);
    query.is_triggered = true;
    look_for(index, query, 20002);
    query.class_name = "a";
    query.of = PFL_INDEX_OF_HOST;
    look_for(index, query, 20002);
    query.is_triggered = false;
    look_for(index, query, 20003);
    script("UPDATE segment SET state = 2 WHERE number <= 10000");
    query = (struct pfl_index_oldest){
        .of = PFL_INDEX_OF_HOST, .host_id = 1, .class_name = "a", .now_unix_ns = 30000};
    assert_in_range(ask_oldest(index, &query, 20003), 1, 10000);
    pfl_index_close(index);
}

static bool count_live(void *user, const struct pfl_index_row *row)
{
    assert_int_equal(row->state, PFL_INDEX_LIVE);
    ++*(unsigned *)user;
    return true;
}

/* 20,000 that are gone are before the live ones by their ids: 299 short ones, and 300 long ones. */
static void a_list_of_live_traces_passes_no_others(void **state)
{
    static const char rows[] =
        "INSERT INTO host(id, name) VALUES(1, 'a');"
        "INSERT INTO run(id, host_id, orderer, order_name, incarnation, kind_id)"
        " VALUES(1, 1, '', 'cpu', 'r', 1);"
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20600)"
        " INSERT INTO segment(id, run_id, host_id, number, last, is_gap, is_long, state, begin_ns,"
        " end_ns, bytes, object_key, collector, generation, changed_ns, stored_ns)"
        " SELECT '0' || (100000 + i), 1, 1, i, i, 0, i % 2, CASE WHEN i <= 20000 THEN 3 ELSE 1 END,"
        " 20, 20, 0, 'v1/x', '', 0, 1, i FROM n;"
        "DELETE FROM segment WHERE number = 20600;";
    struct pfl_index *index;

    (void)state;
    index = open_profiled();
    script(rows);
    for (unsigned is_long = 0; is_long < 2; is_long++) {
        struct pfl_index_look look = {.limit = 100};
        unsigned parts = 0;
        unsigned len = 0;

        do {
            most_steps = 0;
            assert_int_equal(pfl_index_list_live(index, is_long, &look, count_live, &len), 0);
            assert_in_range(most_steps, 1, 10000);
            parts++;
        } while (look.has_more);
        assert_int_equal(len, 299 + is_long);
        assert_int_equal(parts, 3 + is_long);
    }
    pfl_index_close(index);
}

/* Of two collectors that lock a run and its host in another order each waits for the other. */
static void each_transaction_locks_a_run_before_its_host(void **state)
{
    const struct pfl_index_deletion why = {.who = "me", .reason = "old", .now_unix_ns = 2};
    struct pfl_index *index;
    uint64_t generation;

    (void)state;
    index = open_profiled();
    assert_int_equal(pfl_index_join(index, "c1", &generation), 0);
    script("INSERT INTO host(id, name) VALUES(1, 'evil');"
           "INSERT INTO run(host_id, orderer, order_name, incarnation, kind_id)"
           " VALUES(1, '', 'cpu', 'run', 1), (1, '', 'cpu', 'another', 1);");
    hosts_before_runs = 0;
    assert_int_equal(reserve(index, true, 0), PFL_INDEX_RESERVE_NEW);
    assert_int_equal(pfl_index_tombstone(index, "01K", &why), 0);
    script("DELETE FROM segment");
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(reserve(index, false, 0), PFL_INDEX_RESERVE_NEW);
        assert_int_equal(pfl_index_set_live(index, "01K", 1), 0);
        if (i == 0)
            assert_int_equal(pfl_index_tombstone(index, "01K", &why), 0);
        else
            assert_int_equal(pfl_index_set_lost(index, "01K", &why), 0);
        script("DELETE FROM segment");
    }
    assert_int_equal(hosts_before_runs, 0);
    pfl_index_close(index);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_newer_schema_is_refused_in_words),
        cmocka_unit_test(an_index_of_version_1_is_brought_up_to_date),
        cmocka_unit_test(runs_and_gaps_of_a_host_are_bounded),
        cmocka_unit_test(long_segments_of_a_host_are_bounded),
        cmocka_unit_test(what_is_no_database_is_refused),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(what_was_put_survives_a_kill),
        cmocka_unit_test(a_search_needs_no_temporary_file),
        cmocka_unit_test(a_search_sorts_no_rows),
        cmocka_unit_test(a_statement_of_a_search_passes_few_rows),
        cmocka_unit_test(a_statement_of_retention_passes_few_rows),
        cmocka_unit_test(who_judges_rows_is_a_part_of_the_work),
        cmocka_unit_test(a_list_of_live_traces_passes_no_others),
        cmocka_unit_test(each_transaction_locks_a_run_before_its_host),
    };
    const struct index_cases_engine engine = {"every engine: SQLite", where, make_empty, count,
                                              script};
    int failed;

    (void)snprintf(folder, sizeof(folder), "/tmp/perfleet-test-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return 1;
    (void)snprintf(where, sizeof(where), "sqlite:%s/index.db", folder);
    failed = index_cases_run(&engine);
    failed += cmocka_run_group_tests_name("SQLite", tests, NULL, NULL);
    make_empty();
    pfl_sweep_assert_no_leak();
    return failed + (rmdir(folder) != 0);
}
