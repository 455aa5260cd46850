/* SPDX-License-Identifier: Apache-2.0 */
/* Files one after the other: names, when the next begins, which stay, one that cannot be written.
 */
#include "consumer/recording/trace_files.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/io/loop.h"
#include "base/mem.h"
#include "tests/support/no_thread.h"
#include "tests/support/sweep.h"

struct world {
    uv_loop_t loop;
    struct pfl_trace_files *files;
    char folder[64];
    char path[96];
    unsigned failed;
    int failed_err;
    char failed_path[128];
    unsigned closed;
    struct pfl_trace_files_end end; /* without `partial` */
    bool has_partial;
};

static void on_writable(void *user)
{
    (void)user;
}

static void on_failed(void *user, const char *path, int err)
{
    struct world *w = user;

    w->failed++;
    w->failed_err = err;
    snprintf(w->failed_path, sizeof(w->failed_path), "%.127s", path);
}

static void on_closed(void *user, const struct pfl_trace_files_end *end)
{
    struct world *w = user;

    w->closed++;
    w->end = *end;
    w->end.partial = NULL;
    w->has_partial = end->partial != NULL;
}

static int open_files(struct world *w, struct pfl_trace_files_rotation rotation)
{
    struct pfl_trace_files_conf conf = {
        .loop = &w->loop,
        .path = w->path,
        .rotation = rotation,
        .on_writable = on_writable,
        .on_failed = on_failed,
        .user = w,
    };

    return pfl_trace_files_open(&conf, &w->files);
}

static void prepare(struct world *w)
{
    *w = (struct world){0};
    memcpy(w->folder, "/tmp/perfleet-test-XXXXXX", 26);
    assert_non_null(mkdtemp(w->folder));
    snprintf(w->path, sizeof(w->path), "%s/f.pftrace", w->folder);
    assert_int_equal(pfl_loop_init(&w->loop), 0);
}

static void init(struct world *w, struct pfl_trace_files_rotation rotation)
{
    prepare(w);
    assert_int_equal(open_files(w, rotation), 0);
}

static void name(const struct world *w, uint32_t number, char out[128])
{
    if (number == 0)
        snprintf(out, 128, "%.95s", w->path);
    else
        snprintf(out, 128, "%.63s/f-%04u.pftrace", w->folder, number);
}

/* Its size; -1: it is not there. */
static long size_of(const struct world *w, uint32_t number)
{
    char path[128];
    struct stat st;

    name(w, number, path);
    return lstat(path, &st) == 0 ? (long)st.st_size : -1;
}

static void fini(struct world *w)
{
    char path[160];

    for (uint32_t i = 0; i < 20; i++) {
        name(w, i, path);
        unlink(path);
        snprintf(path + strlen(path), 16, ".partial");
        unlink(path);
    }
    rmdir(w->folder);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    pfl_sweep_assert_no_leak();
}

static int put(struct world *w, bool is_before, size_t len)
{
    uint8_t *room;
    int rc = pfl_trace_files_reserve(w->files, is_before, 1 + pfl_varint_size(len) + len, &room);

    if (rc != 0)
        return rc;
    room[0] = 0x0a;
    memset(room + 1 + pfl_varint_put(room + 1, len), 'x', len);
    pfl_trace_files_commit(w->files, is_before, 1 + pfl_varint_size(len) + len);
    return 0;
}

/* Until the one before is complete. */
static void settle(struct world *w)
{
    uv_run(&w->loop, UV_RUN_DEFAULT);
}

static void next(struct world *w)
{
    assert_int_equal(pfl_trace_files_begin_next(w->files), 0);
    assert_true(pfl_trace_files_get_changing_ms(w->files) != 0);
    pfl_trace_files_end_before(w->files);
    assert_int_equal(pfl_trace_files_get_changing_ms(w->files), 0);
    settle(w);
}

static void close_files(struct world *w, bool is_wanted)
{
    pfl_trace_files_close(w->files, is_wanted, on_closed);
    settle(w);
    assert_int_equal(w->closed, 1);
}

static void assert_name(const char *path, const char *wanted)
{
    char got[PATH_MAX];

    assert_true(pfl_trace_files_name(path, 7, got));
    assert_string_equal(got, wanted);
}

static void a_number_goes_before_the_suffix(void **state)
{
    char got[PATH_MAX];

    (void)state;
    assert_name("fleet.pftrace", "fleet-0007.pftrace");
    assert_name("a.b/fleet", "a.b/fleet-0007");
    assert_name("/x/fleet.tar.gz", "/x/fleet.tar-0007.gz");
    assert_name(".hidden", ".hidden-0007");
    assert_true(pfl_trace_files_name("f", 123456, got));
    assert_string_equal(got, "f-123456");
    assert_false(pfl_trace_files_name("folder/", 1, got));
    assert_false(pfl_trace_files_name("", 1, got));
}

static void without_a_rotation_it_is_one_file_at_the_path(void **state)
{
    struct world w;

    (void)state;
    init(&w, (struct pfl_trace_files_rotation){0});
    assert_int_equal(put(&w, false, 100), 0);
    assert_false(pfl_trace_files_is_due(w.files));
    close_files(&w, true);
    assert_int_equal(size_of(&w, 0), 102);
    assert_int_equal(w.end.bytes, 102);
    assert_int_equal(w.end.last, 0);
    fini(&w);
}

static void a_file_is_due_when_it_is_large_enough(void **state)
{
    struct world w;

    (void)state;
    init(&w, (struct pfl_trace_files_rotation){.bytes = 1000});
    assert_int_equal(put(&w, false, 900), 0);
    assert_false(pfl_trace_files_is_due(w.files));
    assert_int_equal(put(&w, false, 900), 0);
    assert_true(pfl_trace_files_is_due(w.files));
    assert_int_equal(pfl_trace_files_begin_next(w.files), 0);
    assert_int_equal(put(&w, false, 2000), 0);
    assert_false(pfl_trace_files_is_due(w.files)); /* the one before is still open */
    assert_int_equal(put(&w, true, 100), 0);
    pfl_trace_files_end_before(w.files);
    settle(&w);
    assert_true(pfl_trace_files_is_due(w.files));
    assert_int_equal(size_of(&w, 1), 903 + 903 + 102);
    assert_int_equal(size_of(&w, 2), -1); /* it has another name yet */
    close_files(&w, true);
    assert_int_equal(size_of(&w, 2), 2003);
    assert_int_equal(w.end.first, 1);
    assert_int_equal(w.end.last, 2);
    assert_int_equal(w.end.bytes, 903 + 903 + 102 + 2003);
    fini(&w);
}

/* Else a beginning that is as large as a file makes each one due at once. */
static void what_each_file_begins_with_does_not_make_it_due(void **state)
{
    struct world w;

    (void)state;
    init(&w, (struct pfl_trace_files_rotation){.bytes = 1000});
    assert_int_equal(put(&w, false, 1200), 0);
    assert_int_equal(pfl_trace_files_begin_next(w.files), 0);
    assert_int_equal(put(&w, false, 1200), 0);
    pfl_trace_files_end_beginning(w.files);
    pfl_trace_files_end_before(w.files);
    settle(&w);
    assert_int_equal(put(&w, false, 900), 0);
    assert_false(pfl_trace_files_is_due(w.files));
    assert_int_equal(put(&w, false, 900), 0);
    assert_true(pfl_trace_files_is_due(w.files));
    close_files(&w, true);
    fini(&w);
}

static void a_file_is_due_when_it_is_old_enough(void **state)
{
    struct world w;

    (void)state;
    init(&w, (struct pfl_trace_files_rotation){.time_ms = 30});
    assert_false(pfl_trace_files_is_due(w.files));
    while (!pfl_trace_files_is_due(w.files))
        uv_update_time(&w.loop);
    close_files(&w, true);
    fini(&w);
}

static void the_oldest_are_removed(void **state)
{
    struct world w;

    (void)state;
    init(&w, (struct pfl_trace_files_rotation){.bytes = 1, .keep = 2});
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(put(&w, false, 50), 0);
        next(&w);
    }
    assert_int_equal(put(&w, false, 50), 0);
    close_files(&w, true);
    for (uint32_t i = 1; i <= 6; i++)
        assert_int_equal(size_of(&w, i), i <= 4 ? -1 : 52);
    assert_int_equal(w.end.first, 5);
    assert_int_equal(w.end.last, 6);
    assert_int_equal(w.end.bytes, 6 * 52);
    fini(&w);
}

static void a_last_file_without_packets_is_not_left(void **state)
{
    struct world w;

    (void)state;
    init(&w, (struct pfl_trace_files_rotation){.bytes = 1});
    assert_int_equal(put(&w, false, 50), 0);
    next(&w);
    close_files(&w, false);
    assert_int_equal(size_of(&w, 1), 52);
    assert_int_equal(size_of(&w, 2), -1);
    assert_int_equal(w.end.last, 1);
    assert_false(w.has_partial);
    fini(&w);
}

static void both_are_completed_when_it_ends_between_two(void **state)
{
    struct world w;

    (void)state;
    init(&w, (struct pfl_trace_files_rotation){.bytes = 1});
    assert_int_equal(put(&w, false, 50), 0);
    assert_int_equal(pfl_trace_files_begin_next(w.files), 0);
    assert_int_equal(put(&w, true, 60), 0);
    assert_int_equal(put(&w, false, 70), 0);
    close_files(&w, true);
    assert_int_equal(size_of(&w, 1), 52 + 62);
    assert_int_equal(size_of(&w, 2), 72);
    assert_int_equal(w.end.last, 2);
    fini(&w);
}

static void a_next_one_that_cannot_be_opened_leaves_the_current_one(void **state)
{
    struct world w;
    char path[128];

    (void)state;
    init(&w, (struct pfl_trace_files_rotation){.bytes = 1});
    assert_int_equal(put(&w, false, 50), 0);
    name(&w, 2, path);
    assert_int_equal(mkdir(path, 0755), 0);
    assert_int_equal(pfl_trace_files_begin_next(w.files), PFL_EIO);
    assert_int_equal(pfl_trace_files_get_changing_ms(w.files), 0);
    assert_int_equal(put(&w, false, 50), 0);
    close_files(&w, true);
    assert_int_equal(size_of(&w, 1), 104);
    assert_int_equal(rmdir(path), 0);
    fini(&w);
}

/* Its name is a folder's when it is completed. */
static void one_that_cannot_be_completed_is_reported_and_left(void **state)
{
    struct world w;
    char path[128];

    (void)state;
    init(&w, (struct pfl_trace_files_rotation){.bytes = 1});
    assert_int_equal(put(&w, false, 50), 0);
    name(&w, 1, path);
    assert_int_equal(mkdir(path, 0755), 0);
    next(&w);
    assert_int_equal(w.failed, 1);
    assert_string_equal(w.failed_path, path);
    assert_false(pfl_trace_files_is_due(w.files));
    assert_int_equal(put(&w, false, 50), 0);
    close_files(&w, true);
    assert_true(w.has_partial);
    assert_int_equal(w.end.err, EISDIR);
    assert_int_equal(size_of(&w, 2), 52);
    assert_int_equal(rmdir(path), 0);
    fini(&w);
}

static void without_a_thread_the_loop_writes_and_removes(void **state)
{
    struct world w;

    (void)state;
    init(&w, (struct pfl_trace_files_rotation){.bytes = 1, .keep = 2});
    pfl_has_no_thread = true;
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(put(&w, false, 50), 0);
        next(&w);
    }
    assert_int_equal(put(&w, false, 50), 0);
    close_files(&w, true);
    pfl_has_no_thread = false;
    assert_int_equal(w.end.err, 0);
    assert_int_equal(w.end.first, 5);
    assert_int_equal(w.end.last, 6);
    assert_int_equal(size_of(&w, 4), -1);
    assert_int_equal(size_of(&w, 5), 52);
    assert_int_equal(size_of(&w, 6), 52);
    fini(&w);
}

static int rotate_once(void *arg)
{
    struct world *w = arg;
    int rc = open_files(w, (struct pfl_trace_files_rotation){.bytes = 1, .keep = 1});

    if (rc != 0) {
        settle(w);
        return rc;
    }
    for (unsigned i = 0; rc == 0 && i < 3; i++) {
        rc = put(w, false, 50);
        if (rc == 0)
            rc = pfl_trace_files_begin_next(w->files);
        if (rc == 0)
            rc = put(w, true, 50);
        pfl_trace_files_end_before(w->files);
        settle(w);
    }
    pfl_trace_files_close(w->files, rc == 0, on_closed);
    settle(w);
    return rc;
}

static void every_failed_allocation_is_survived(void **state)
{
    static struct world w;

    (void)state;
    prepare(&w);
    pfl_sweep(rotate_once, &w, true);
    fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_number_goes_before_the_suffix),
        cmocka_unit_test(without_a_rotation_it_is_one_file_at_the_path),
        cmocka_unit_test(a_file_is_due_when_it_is_large_enough),
        cmocka_unit_test(what_each_file_begins_with_does_not_make_it_due),
        cmocka_unit_test(a_file_is_due_when_it_is_old_enough),
        cmocka_unit_test(the_oldest_are_removed),
        cmocka_unit_test(a_last_file_without_packets_is_not_left),
        cmocka_unit_test(both_are_completed_when_it_ends_between_two),
        cmocka_unit_test(a_next_one_that_cannot_be_opened_leaves_the_current_one),
        cmocka_unit_test(one_that_cannot_be_completed_is_reported_and_left),
        cmocka_unit_test(without_a_thread_the_loop_writes_and_removes),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
