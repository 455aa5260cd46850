/* SPDX-License-Identifier: Apache-2.0 */
/* The cases of every engine on a folder; then what only a folder has: links, a full disk, files
 * that a killed process left. */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "collector/store/disk_room.h"
#include "collector/store/store.h"
#include "tests/support/sweep.h"
#include "tests/unit/collector/store/store_cases.h"

static char root[64];
static struct pfl_store *store;
static struct pfl_store_put *put;
static const struct pfl_store_listing all = {"", ""};

static int open_store(void)
{
    char why[PFL_STORE_WHY_BYTES];

    (void)snprintf(root, sizeof(root), "/tmp/perfleet-test-XXXXXX");
    if (mkdtemp(root) == NULL)
        return -1;
    return pfl_store_open(&(struct pfl_store_conf){.where = root}, why, &store);
}

/* Fails if anything is left in the folder. */
static int close_store(void)
{
    char incoming[96];

    pfl_store_close(store);
    (void)snprintf(incoming, sizeof(incoming), "%s/.incoming", root);
    return rmdir(incoming) == 0 ? rmdir(root) : -1;
}

static int begin(void **state)
{
    (void)state;
    return open_store() == 0 ? pfl_store_put_new(store, &put) : -1;
}

static int end(void **state)
{
    (void)state;
    pfl_store_put_free(put);
    return close_store();
}

static char *path_of(const char *name)
{
    static char path[256];

    (void)snprintf(path, sizeof(path), "%s/%s", root, name);
    return path;
}

static void a_link_is_never_followed(void **state)
{
    struct pfl_store_object objects[4];
    char outside[] = "/tmp/perfleet-test-XXXXXX";
    size_t len;

    (void)state;
    assert_non_null(mkdtemp(outside));
    assert_int_equal(symlink(outside, path_of("v1")), 0);
    assert_true(pfl_store_put_all(put, "v1/x", pfl_span_of("x", 1)) != 0);
    assert_int_equal(symlink("/etc/passwd", path_of("p")), 0);
    assert_true(pfl_store_head(store, "p", &objects[0]) != 0);
    assert_int_equal(pfl_store_list(store, &all, objects, 4, &len), 0);
    assert_int_equal(len, 0);
    assert_int_equal(unlink(path_of("p")), 0);
    assert_int_equal(unlink(path_of("v1")), 0);
    assert_int_equal(rmdir(outside), 0);
}

static void files_of_others_are_not_listed(void **state)
{
    struct pfl_store_object objects[4];
    size_t len;

    (void)state;
    assert_int_equal(close(open(path_of("a b"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600)), 0);
    assert_int_equal(mkfifo(path_of("fifo"), 0600), 0);
    assert_int_equal(pfl_store_put_all(put, "ours", pfl_span_of("x", 1)), 0);
    assert_int_equal(pfl_store_list(store, &all, objects, 4, &len), 0);
    assert_int_equal(len, 1);
    assert_string_equal(objects[0].key, "ours");
    assert_int_equal(pfl_store_head(store, "fifo", &objects[0]), PFL_ENOENT);
    assert_int_equal(unlink(path_of("a b")), 0);
    assert_int_equal(unlink(path_of("fifo")), 0);
    assert_int_equal(pfl_store_delete(store, "ours"), 0);
}

static void an_abandoned_put_is_swept(void **state)
{
    const uint8_t hash[PFL_STORE_SHA_BYTES] = {0};
    unsigned count;

    (void)state;
    assert_int_equal(pfl_store_put_begin(put, "v1/a", 10, hash), 0);
    assert_int_equal(pfl_store_put_write(put, pfl_span_of("12345", 5)), 0);
    assert_int_equal(pfl_store_sweep(store, 3600, &count), 0);
    assert_int_equal(count, 0);
    assert_int_equal(pfl_store_sweep(store, 0, &count), 0);
    assert_int_equal(count, 1);
    pfl_store_put_abort(put);
}

/* No file of this process may be larger, as on a disk without room. */
static void a_write_that_fails_leaves_nothing(void **state)
{
    struct rlimit before;
    struct rlimit small;
    const uint8_t bytes[4096] = {0};
    int rc;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 1024;
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    rc = pfl_store_put_all(put, "v1/a", pfl_span_of(bytes, sizeof(bytes)));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(rc, PFL_EFULL);
    assert_int_equal(pfl_store_put_all(put, "v1/a", pfl_span_of(bytes, sizeof(bytes))), 0);
    assert_int_equal(pfl_store_delete(store, "v1/a"), 0);
}

/* More than any disk has. */
static void a_full_disk_is_found_when_a_put_begins(void **state)
{
    const uint8_t hash[PFL_STORE_SHA_BYTES] = {0};
    int rc;

    (void)state;
    rc = pfl_store_put_begin(put, "v1/a", PFL_STORE_BYTES_MAX, hash);
    if (rc == 0) { /* a file system without fallocate, or a very large one */
        pfl_store_put_abort(put);
        skip();
    }
    assert_int_equal(rc, PFL_EFULL);
    assert_non_null(strstr(pfl_store_get_error(), "reserve room for v1/a: "));
}

/* Of the only file in .incoming. */
static uint64_t count_taken(void)
{
    const struct dirent *entry;
    DIR *dir = opendir(path_of(".incoming"));
    struct stat st = {.st_blocks = 0};

    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL)
        if (entry->d_name[0] != '.')
            assert_int_equal(fstatat(dirfd(dir), entry->d_name, &st, 0), 0);
    (void)closedir(dir);
    return (uint64_t)st.st_blocks * 512;
}

/* How long an object will be is a host's word. */
static void a_put_takes_room_as_it_grows(void **state)
{
    static const uint8_t bytes[1u << 20];
    const uint8_t hash[PFL_STORE_SHA_BYTES] = {0};
    uint64_t most = PFL_DISK_ROOM_PIECE_BYTES + (64u << 10);

    (void)state;
    assert_int_equal(pfl_store_put_begin(put, "v1/a", 8 * PFL_DISK_ROOM_PIECE_BYTES, hash), 0);
    if (count_taken() == 0) { /* a file system that takes none ahead */
        pfl_store_put_abort(put);
        skip();
    }
    assert_true(count_taken() <= most);
    for (unsigned i = 0; i < 12; i++)
        assert_int_equal(pfl_store_put_write(put, pfl_span_of(bytes, sizeof(bytes))), 0);
    assert_true(count_taken() >= 12 * sizeof(bytes));
    assert_true(count_taken() <= PFL_DISK_ROOM_PIECE_BYTES + most);
    pfl_store_put_abort(put);
}

static void a_folder_that_is_not_there_is_an_error(void **state)
{
    struct pfl_store *none = NULL;
    char why[PFL_STORE_WHY_BYTES];

    (void)state;
    assert_int_equal(pfl_store_open(&(struct pfl_store_conf){.where = "/nowhere/x"}, why, &none),
                     PFL_ENOENT);
    assert_string_equal(why, "open /nowhere/x: No such file or directory");
    assert_null(none);
}

static void a_folder_has_no_links_to_give(void **state)
{
    char url[PFL_STORE_URL_BYTES];

    (void)state;
    assert_int_equal(pfl_store_presign(store, "v1/a", 60, url, sizeof(url)), PFL_ENOTSUP);
    assert_int_equal(pfl_store_presign(store, "v1/a", 604801, url, sizeof(url)), PFL_ELIMIT);
    assert_string_equal(pfl_store_get_kind(store), "folder");
}

static int open_once(void *arg)
{
    struct pfl_store *other = NULL;
    struct pfl_store_put *its = NULL;
    char why[PFL_STORE_WHY_BYTES];
    int rc = pfl_store_open(arg, why, &other);

    if (rc == 0)
        rc = pfl_store_put_new(other, &its);
    pfl_store_put_free(its);
    pfl_store_close(other);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    struct pfl_store_conf conf = {.where = root};

    (void)state;
    pfl_sweep(open_once, &conf, false);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_link_is_never_followed),
        CASE(files_of_others_are_not_listed),
        CASE(an_abandoned_put_is_swept),
        CASE(a_write_that_fails_leaves_nothing),
        CASE(a_full_disk_is_found_when_a_put_begins),
        CASE(a_put_takes_room_as_it_grows),
        CASE(a_folder_has_no_links_to_give),
        cmocka_unit_test(a_folder_that_is_not_there_is_an_error),
    };
    const struct CMUnitTest sweeps[] = {cmocka_unit_test(every_allocation_may_fail)};
    int failed;

    if (open_store() != 0)
        return 1;
    failed = cmocka_run_group_tests_name("allocations", sweeps, NULL, NULL);
    failed += store_cases_run("every engine: a folder", store, true);
    failed += close_store() != 0;
    failed += cmocka_run_group_tests_name("a folder", tests, NULL, NULL);
    pfl_sweep_assert_no_leak();
    return failed;
}
