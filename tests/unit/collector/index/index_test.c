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
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

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
    assert_int_equal(sqlite3_exec(db, "UPDATE perfleet_schema SET version = 7", NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    index = NULL;
    assert_int_equal(open_with(true, why, &index), PFL_ENEWER);
    assert_string_equal(why,
                        "the index has version 7, and this program knows versions up to 1: use "
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_newer_schema_is_refused_in_words),
        cmocka_unit_test(what_is_no_database_is_refused),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(what_was_put_survives_a_kill),
    };
    int failed;

    (void)snprintf(folder, sizeof(folder), "/tmp/perfleet-test-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return 1;
    (void)snprintf(where, sizeof(where), "sqlite:%s/index.db", folder);
    failed = index_cases_run("every engine: SQLite", where, make_empty);
    failed += cmocka_run_group_tests_name("SQLite", tests, NULL, NULL);
    make_empty();
    pfl_sweep_assert_no_leak();
    return failed + (rmdir(folder) != 0);
}
