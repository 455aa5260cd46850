/* SPDX-License-Identifier: Apache-2.0 */
/* Answers in a file of SQLite: each type of cell, partial files, and files that are in the way. */
#include "consumer/ask/answer_store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base/mem.h"

static char folder[] = "/tmp/answer-store-XXXXXX";
static char path[64];
static char partial[80];
static char journal[96];

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    (void)snprintf(path, sizeof(path), "%s/a.sqlite", folder);
    (void)snprintf(partial, sizeof(partial), "%s.partial", path);
    (void)snprintf(journal, sizeof(journal), "%s-journal", partial);
    return 0;
}

static int remove_files(void **state)
{
    (void)state;
    (void)unlink(path);
    (void)unlink(partial);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static bool is_there(const char *name)
{
    struct stat st;

    return stat(name, &st) == 0;
}

static void put(const char *name, const char *text)
{
    FILE *file = fopen(name, "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static struct pfl_answer_store *open_store(void)
{
    struct pfl_answer_store *store = NULL;

    assert_int_equal(pfl_answer_store_open(path, false, pfl_span_of("SELECT 1", 8), &store), 0);
    return store;
}

static void add_row(struct pfl_answer_store *store)
{
    const struct pfl_span names[] = {pfl_span_of("n\"; DROP", 8), pfl_span_of("r", 1),
                                     pfl_span_of("t", 1), pfl_span_of("b", 1), pfl_span_of("z", 1)};
    const struct pfl_cell cells[] = {
        {.type = PFL_CELL_INTEGER, .integer = -7},
        {.type = PFL_CELL_REAL, .real = 0.5},
        {.type = PFL_CELL_TEXT, .bytes = pfl_span_of("te'xt", 5)},
        {.type = PFL_CELL_BLOB, .bytes = pfl_span_of("\0\1", 2)},
        {.type = PFL_CELL_NULL},
    };
    const struct pfl_answer_row row = {.host = "web1", .start = "", .trace = "T", .cells = cells};
    const struct pfl_answer_store_trace trace = {
        .trace = "T", .host = "web1", .start = "", .rows = 1, .problem = "it is gone"};
    struct pfl_answer_columns *columns = NULL;

    assert_int_equal(pfl_answer_columns_new(names, 5, &columns), 0);
    assert_int_equal(pfl_answer_store_set_columns(store, columns), 0);
    assert_int_equal(pfl_answer_store_add_row(store, &row, 5), 0);
    assert_int_equal(pfl_answer_store_add_trace(store, &trace), 0);
    pfl_answer_columns_free(columns);
}

static void expect(const char *name, const char *sql, const char *want)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *query = NULL;

    assert_int_equal(sqlite3_open_v2(name, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &query, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(query), SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(query, 0), want);
    assert_int_equal(sqlite3_finalize(query), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void rows_are_there_with_their_types(void **state)
{
    struct pfl_answer_store *store = open_store();

    (void)state;
    add_row(store);
    assert_false(is_there(path));
    assert_int_equal(pfl_answer_store_close(store, true, true), 0);
    assert_false(is_there(partial));
    expect(path, "SELECT host || ifnull(start, '-') || trace FROM answers", "web1-T");
    expect(path,
           "SELECT \"n\"\"; DROP\" || ' ' || typeof(r) || ' ' || t || ' ' || hex(b) || typeof(z)"
           " FROM answers",
           "-7 real te'xt 0001null");
    expect(path, "SELECT trace || rows || problem FROM traces", "T1it is gone");
    expect(path, "SELECT text FROM question", "SELECT 1");
}

static void what_is_not_whole_stays_partial_and_the_old_file_stays(void **state)
{
    struct pfl_answer_store *store;

    (void)state;
    put(path, "old");
    put(partial, "left by an earlier run");
    store = open_store();
    add_row(store);
    assert_int_equal(pfl_answer_store_close(store, true, false), 0);
    expect(partial, "SELECT count(*) FROM answers", "1");
    store = open_store();
    assert_int_equal(pfl_answer_store_close(store, false, false), 0);
    assert_false(is_there(partial));
    assert_true(is_there(path));
}

static void a_folder_may_be_a_link(void **state)
{
    struct pfl_answer_store *store = NULL;
    char link[64];
    char name[80];

    (void)state;
    (void)snprintf(link, sizeof(link), "%s/link", folder);
    (void)snprintf(name, sizeof(name), "%s/a.sqlite", link);
    assert_int_equal(symlink(".", link), 0);
    assert_int_equal(pfl_answer_store_open(name, false, pfl_span_of("q", 1), &store), 0);
    add_row(store);
    assert_int_equal(pfl_answer_store_close(store, true, true), 0);
    assert_int_equal(unlink(link), 0);
    expect(path, "SELECT count(*) FROM answers", "1");
}

/* Of a database of one page, with nothing to restore: SQLite would cut ours. */
static void put_journal(void)
{
    static const uint8_t head[512] = {0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7, 0, 0,
                                      0,    0,    0,    0,    0,    1,    0,    0,    0, 1,
                                      0,    0,    2,    0,    0,    0,    0x10, 0};
    FILE *file = fopen(journal, "w");

    assert_non_null(file);
    assert_int_equal(fwrite(head, sizeof(head), 1, file), 1);
    assert_int_equal(fclose(file), 0);
}

static void a_journal_that_another_user_puts_there_is_not_read(void **state)
{
    struct pfl_answer_store *store = open_store();
    const struct pfl_answer_store_trace trace = {.trace = "T", .host = "", .start = ""};

    (void)state;
    add_row(store);
    for (unsigned i = 0; i < 10000;
         i++) { /* two rows are there: the last two are of the next commit */
        if (i == 9998)
            put_journal();
        assert_int_equal(pfl_answer_store_add_trace(store, &trace), 0);
    }
    assert_int_equal(pfl_answer_store_close(store, true, true), 0);
    assert_int_equal(unlink(journal), 0);
    expect(path, "SELECT count(*) FROM answers", "1");
    expect(path, "SELECT count(*) FROM traces", "10001");
}

static void what_is_in_the_way_is_said(void **state)
{
    struct pfl_answer_store *store = NULL;

    (void)state;
    put(path, "old");
    assert_int_equal(pfl_answer_store_open(path, true, pfl_span_of("q", 1), &store), PFL_EEXIST);
    assert_int_equal(symlink("elsewhere", partial), 0);
    assert_int_equal(pfl_answer_store_open(path, false, pfl_span_of("q", 1), &store), PFL_EIO);
    assert_int_equal(pfl_answer_store_open("/nowhere/a.sqlite", false, pfl_span_of("q", 1), &store),
                     PFL_EIO);
    for (uint64_t n = 1; n <= 3; n++) {
        pfl_mem_fail_at(n);
        assert_int_equal(
            pfl_answer_store_open("/nowhere/a.sqlite", false, pfl_span_of("q", 1), &store),
            PFL_ENOMEM);
    }
    pfl_mem_fail_at(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(rows_are_there_with_their_types, remove_files),
        cmocka_unit_test_teardown(what_is_not_whole_stays_partial_and_the_old_file_stays,
                                  remove_files),
        cmocka_unit_test_teardown(a_folder_may_be_a_link, remove_files),
        cmocka_unit_test_teardown(a_journal_that_another_user_puts_there_is_not_read, remove_files),
        cmocka_unit_test_teardown(what_is_in_the_way_is_said, remove_files),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
