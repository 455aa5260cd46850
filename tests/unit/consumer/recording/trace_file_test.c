/* SPDX-License-Identifier: Apache-2.0 */
/* The trace file: order, bounds, a full disk, a path that cannot be written. */
#include "consumer/recording/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
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
    struct pfl_worker *worker;
    struct pfl_trace_file *file;
    char path[64];
    unsigned writable;
    unsigned failed;
    int failed_err;
    unsigned closed;
    int closed_err;
    uint64_t written;
    bool has_partial;
    char partial[96];
    bool no_clobber;
};

static void on_writable(void *user)
{
    ((struct world *)user)->writable++;
}

static void on_failed(void *user, int err)
{
    struct world *w = user;

    w->failed++;
    w->failed_err = err;
}

static void on_closed(void *user, const struct pfl_trace_file_end *end)
{
    struct world *w = user;

    w->closed++;
    w->closed_err = end->err;
    w->written = end->written_bytes;
    w->has_partial = end->partial != NULL;
    if (end->partial != NULL)
        snprintf(w->partial, sizeof(w->partial), "%s", end->partial);
}

static int open_file(struct world *w, const char *path, size_t chunk_bytes)
{
    struct pfl_trace_file_conf conf = {
        .worker = w->worker,
        .path = path,
        .no_clobber = w->no_clobber,
        .chunk_bytes = chunk_bytes,
        .on_writable = on_writable,
        .on_failed = on_failed,
        .user = w,
    };

    return pfl_trace_file_open(&conf, &w->file);
}

static int open_loop(struct world *w)
{
    assert_int_equal(pfl_loop_init(&w->loop), 0);
    return pfl_worker_open(&(struct pfl_worker_conf){.loop = &w->loop, .threads_max = 1},
                           &w->worker);
}

static void init(struct world *w, const char *path, size_t chunk_bytes)
{
    *w = (struct world){0};
    assert_int_equal(open_loop(w), 0);
    if (path == NULL) {
        int fd;

        memcpy(w->path, "/tmp/perfleet-test-XXXXXX", 26);
        fd = mkstemp(w->path);
        assert_true(fd >= 0);
        close(fd);
        path = w->path;
    }
    assert_int_equal(open_file(w, path, chunk_bytes), 0);
}

static void close_file(struct world *w)
{
    pfl_trace_file_close(w->file, PFL_TRACE_FILE_WHOLE, on_closed);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(w->closed, 1);
}

static void close_loop(struct world *w)
{
    pfl_worker_close(w->worker);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->loop), 0);
}

static void fini(struct world *w)
{
    close_loop(w);
    if (w->path[0] != '\0')
        unlink(w->path);
    pfl_sweep_assert_no_leak();
}

/* A packet whose payload is `len` bytes of `fill`; len < 16384. Returns its size in the file. */
static size_t put(struct world *w, size_t len, char fill)
{
    uint8_t *room;
    size_t preamble = 1 + pfl_varint_size(len);

    if (pfl_trace_file_reserve(w->file, preamble + len, &room) != 0)
        return 0;
    room[0] = 0x0a;
    pfl_varint_put(room + 1, len);
    memset(room + preamble, fill, len);
    pfl_trace_file_commit(w->file, preamble + len);
    return preamble + len;
}

/* Every packet of the file has one letter, the letters ascend; returns how many packets. */
static size_t check_file(const char *path, uint64_t expected_bytes)
{
    FILE *f = fopen(path, "rb");
    uint8_t *bytes = pfl_mem_alloc(expected_bytes + 1);
    struct pfl_reader r;
    struct pfl_field field;
    size_t n = 0;

    assert_non_null(f);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, expected_bytes + 1, f), expected_bytes);
    fclose(f);
    r = pfl_reader_of(pfl_span_of(bytes, expected_bytes));
    for (; pfl_reader_field(&r, &field); n++)
        for (size_t i = 0; i < field.bytes.len; i++)
            assert_int_equal(field.bytes.data[i], 'a' + n % 26);
    assert_false(r.failed);
    pfl_mem_free(bytes);
    return n;
}

static void packets_reach_the_file_in_order(void **state)
{
    struct world w;
    uint64_t bytes = 0;

    (void)state;
    init(&w, NULL, 1000);
    for (size_t i = 0; i < 500; i++) {
        bytes += put(&w, i * 7 % 3000, (char)('a' + i % 26));
        if (i % 50 == 0)
            uv_run(&w.loop, UV_RUN_NOWAIT);
    }
    close_file(&w);
    assert_int_equal(w.closed_err, 0);
    assert_int_equal(w.written, bytes);
    assert_int_equal(check_file(w.path, bytes), 500);
    fini(&w);
}

static void backlog_past_the_mark_is_reported_and_its_end_too(void **state)
{
    struct world w;

    (void)state;
    init(&w, NULL, 16000);
    while (!pfl_trace_file_is_congested(w.file))
        assert_true(put(&w, 15000, 'x') != 0);
    assert_int_equal(w.writable, 0);
    while (w.writable == 0)
        uv_run(&w.loop, UV_RUN_ONCE);
    assert_false(pfl_trace_file_is_congested(w.file));
    close_file(&w);
    assert_int_equal(w.writable, 1);
    fini(&w);
}

static void full_disk_is_reported_once_and_later_packets_are_dropped(void **state)
{
    struct world w;

    (void)state;
    init(&w, "/dev/full", 100);
    assert_true(put(&w, 150, 'x') != 0);
    assert_true(put(&w, 150, 'x') != 0);
    while (w.failed == 0)
        uv_run(&w.loop, UV_RUN_ONCE);
    assert_int_equal(w.failed_err, ENOSPC);
    assert_int_equal(put(&w, 150, 'x'), 0);
    close_file(&w);
    assert_int_equal(w.failed, 1);
    assert_int_equal(w.closed_err, ENOSPC);
    fini(&w);
}

static void failed_write_leaves_a_file_of_whole_packets(void **state)
{
    struct rlimit old;
    struct rlimit small;
    struct world w;
    uint64_t whole = 0;
    uint64_t bytes;

    (void)state;
    /* A file size limit makes the kernel write short and then refuse, as a full disk does. */
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_IGN);
    init(&w, NULL, 4096);
    small = (struct rlimit){10000, old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (size_t i = 0; i < 60; i++) {
        bytes = put(&w, 300, (char)('a' + i % 26));
        if (whole + bytes <= 10000)
            whole += bytes;
    }
    close_file(&w);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(w.closed_err, EFBIG);
    assert_int_equal(w.written, whole);
    assert_true(w.has_partial);
    assert_int_equal(check_file(w.partial, whole), whole / 303);
    assert_int_equal(check_file(w.path, 0), 0); /* what was there before */
    unlink(w.partial);
    fini(&w);
}

static size_t size_of(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? (size_t)st.st_size : SIZE_MAX;
}

static void write_old(const char *path)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite("old", 1, 3, f), 3);
    fclose(f);
}

static void old_file_is_there_until_the_new_one_is_complete(void **state)
{
    struct world w;
    char partial[96];

    (void)state;
    init(&w, NULL, 0);
    snprintf(partial, sizeof(partial), "%s.partial", w.path);
    write_old(w.path);
    assert_int_equal(chmod(w.path, 0640), 0);
    assert_int_equal(size_of(partial), 0);
    assert_true(put(&w, 100, 'a') != 0);
    assert_int_equal(size_of(w.path), 3);
    close_file(&w);
    assert_int_equal(w.closed_err, 0);
    assert_false(w.has_partial);
    assert_int_equal(size_of(partial), SIZE_MAX);
    assert_int_equal(check_file(w.path, w.written), 1);
    fini(&w);
}

static void file_that_is_not_wanted_leaves_the_old_one(void **state)
{
    struct world w;

    (void)state;
    init(&w, NULL, 0);
    write_old(w.path);
    assert_true(put(&w, 100, 'a') != 0);
    pfl_trace_file_close(w.file, PFL_TRACE_FILE_REMOVED, on_closed);
    uv_run(&w.loop, UV_RUN_DEFAULT);
    assert_int_equal(w.closed, 1);
    assert_false(w.has_partial);
    assert_int_equal(size_of(w.path), 3);
    fini(&w);
}

static void file_that_is_cut_short_stays_partial_beside_the_old_one(void **state)
{
    struct world w;
    char partial[96];

    (void)state;
    init(&w, NULL, 0);
    snprintf(partial, sizeof(partial), "%s.partial", w.path);
    write_old(w.path);
    assert_true(put(&w, 100, 'a') != 0);
    pfl_trace_file_close(w.file, PFL_TRACE_FILE_PARTIAL, on_closed);
    uv_run(&w.loop, UV_RUN_DEFAULT);
    assert_int_equal(w.closed, 1);
    assert_int_equal(w.closed_err, 0);
    assert_true(w.has_partial);
    assert_int_equal(size_of(partial), w.written);
    assert_int_equal(size_of(w.path), 3);
    unlink(partial);
    fini(&w);
}

static void file_that_was_removed_meanwhile_is_no_success(void **state)
{
    struct world w;
    char partial[96];

    (void)state;
    init(&w, NULL, 0);
    snprintf(partial, sizeof(partial), "%s.partial", w.path);
    assert_false(pfl_trace_file_is_gone(w.file));
    assert_true(put(&w, 100, 'a') != 0);
    unlink(partial);
    assert_true(pfl_trace_file_is_gone(w.file));
    write_old(partial); /* another's */
    assert_true(pfl_trace_file_is_gone(w.file));
    close_file(&w);
    assert_int_equal(w.closed_err, ESTALE);
    assert_false(w.has_partial);
    assert_int_equal(w.written, 0);
    assert_int_equal(size_of(partial), 3);
    unlink(partial);
    fini(&w);
}

static void partial_file_without_a_packet_is_not_left(void **state)
{
    struct rlimit old;
    struct rlimit small;
    struct world w;
    char partial[96];

    (void)state;
    init(&w, NULL, 0);
    snprintf(partial, sizeof(partial), "%s.partial", w.path);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_IGN);
    small = (struct rlimit){0, old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_true(put(&w, 100, 'a') != 0);
    close_file(&w);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(w.closed_err, EFBIG);
    assert_false(w.has_partial);
    assert_int_equal(size_of(partial), SIZE_MAX);
    fini(&w);
}

/* ---- a folder in which everybody makes files ---- */

#define ANOTHER_USER 61991u

struct folder {
    struct world w;
    char dir[32];
    char path[64];
    char partial[80];
    char other[64]; /* a file of ours, "old", elsewhere */
};

static void make_folder(struct folder *d)
{
    *d = (struct folder){.dir = "/tmp/perfleet-test-XXXXXX"};
    if (geteuid() != 0)
        skip();
    assert_non_null(mkdtemp(d->dir));
    assert_int_equal(chmod(d->dir, 01777), 0);
    snprintf(d->path, sizeof(d->path), "%s/x", d->dir);
    snprintf(d->partial, sizeof(d->partial), "%s.partial", d->path);
    snprintf(d->other, sizeof(d->other), "%s/ours", d->dir);
    write_old(d->other);
    assert_int_equal(open_loop(&d->w), 0);
}

static void remove_folder(struct folder *d)
{
    unlink(d->path);
    unlink(d->partial);
    unlink(d->other);
    assert_int_equal(rmdir(d->dir), 0);
    fini(&d->w);
}

static void another_users_link_in_a_sticky_folder_is_not_followed(void **state)
{
    struct folder d;

    (void)state;
    make_folder(&d);
    assert_int_equal(symlink(d.other, d.path), 0);
    assert_int_equal(lchown(d.path, ANOTHER_USER, ANOTHER_USER), 0);
    assert_int_equal(open_file(&d.w, d.path, 0), PFL_EIO);
    assert_int_equal(errno, ELOOP);
    assert_int_equal(size_of(d.other), 3);
    /* Our own is. */
    unlink(d.path);
    assert_int_equal(symlink("ours", d.path), 0);
    assert_int_equal(open_file(&d.w, d.path, 0), 0);
    assert_true(put(&d.w, 100, 'a') != 0);
    close_file(&d.w);
    assert_int_equal(d.w.closed_err, 0);
    assert_int_equal(check_file(d.other, d.w.written), 1);
    remove_folder(&d);
}

static void another_users_pipe_in_a_sticky_folder_is_not_written(void **state)
{
    struct folder d;
    char theirs[80];

    (void)state;
    make_folder(&d);
    snprintf(theirs, sizeof(theirs), "%s/theirs", d.dir);
    for (int is_link = 0; is_link < 2; is_link++) { /* the pipe itself, and a link to it */
        const char *pipe_path = is_link ? theirs : d.path;
        int fd;

        assert_int_equal(mkfifo(pipe_path, 0666), 0);
        assert_int_equal(lchown(pipe_path, ANOTHER_USER, ANOTHER_USER), 0);
        fd = open(pipe_path, O_RDONLY | O_NONBLOCK);
        assert_true(fd >= 0);
        if (is_link) {
            assert_int_equal(symlink(theirs, d.path), 0);
            assert_int_equal(lchown(d.path, ANOTHER_USER, ANOTHER_USER), 0);
        }
        assert_int_equal(open_file(&d.w, d.path, 0), PFL_EIO);
        assert_int_equal(errno, is_link ? ELOOP : EPERM);
        close(fd);
        unlink(d.path);
        unlink(pipe_path);
    }
    remove_folder(&d);
}

/* Ours is, through a link of ours, too. */
static void own_pipe_in_a_sticky_folder_is_written(void **state)
{
    struct folder d;
    char ours[80];
    uint8_t byte;
    int fd;

    (void)state;
    make_folder(&d);
    snprintf(ours, sizeof(ours), "%s/pipe", d.dir);
    assert_int_equal(mkfifo(ours, 0600), 0);
    assert_int_equal(symlink("pipe", d.path), 0);
    fd = open(ours, O_RDONLY | O_NONBLOCK);
    assert_true(fd >= 0);
    assert_int_equal(open_file(&d.w, d.path, 0), 0);
    assert_true(put(&d.w, 100, 'a') != 0);
    close_file(&d.w);
    assert_int_equal(d.w.closed_err, 0);
    assert_int_equal(read(fd, &byte, 1), 1);
    close(fd);
    unlink(ours);
    remove_folder(&d);
}

/* No FILE.partial fits beside it. */
static void with_a_long_name_another_users_file_is_not_written_either(void **state)
{
    struct folder d;
    char path[320];

    (void)state;
    make_folder(&d);
    snprintf(path, sizeof(path), "%s/%0250d", d.dir, 1);
    write_old(path);
    assert_int_equal(chown(path, ANOTHER_USER, ANOTHER_USER), 0);
    assert_int_equal(open_file(&d.w, path, 0), PFL_EIO);
    assert_int_equal(errno, EPERM);
    /* Nor one of ours to which another user gave this name. */
    unlink(path);
    assert_int_equal(link(d.other, path), 0);
    assert_int_equal(open_file(&d.w, path, 0), PFL_EIO);
    assert_int_equal(size_of(d.other), 3);
    unlink(path);
    assert_int_equal(open_file(&d.w, path, 0), 0);
    assert_true(put(&d.w, 100, 'a') != 0);
    close_file(&d.w);
    assert_int_equal(check_file(path, d.w.written), 1);
    unlink(path);
    remove_folder(&d);
}

static void links_in_a_circle_are_refused(void **state)
{
    struct folder d;

    (void)state;
    make_folder(&d);
    assert_int_equal(symlink("x", d.path), 0);
    assert_int_equal(open_file(&d.w, d.path, 0), PFL_EIO);
    assert_int_equal(errno, ELOOP);
    remove_folder(&d);
}

static void another_users_partial_file_is_not_written(void **state)
{
    struct folder d;

    (void)state;
    make_folder(&d);
    write_old(d.partial);
    assert_int_equal(chown(d.partial, ANOTHER_USER, ANOTHER_USER), 0);
    assert_int_equal(open_file(&d.w, d.path, 0), PFL_EIO);
    assert_int_equal(errno, ESTALE);
    assert_int_equal(size_of(d.partial), 3);
    remove_folder(&d);
}

static void partial_file_with_a_second_name_is_not_cut(void **state)
{
    struct folder d;

    (void)state;
    make_folder(&d);
    assert_int_equal(link(d.other, d.partial), 0);
    assert_int_equal(open_file(&d.w, d.path, 0), PFL_EIO);
    assert_int_equal(errno, ESTALE);
    assert_int_equal(size_of(d.other), 3);
    remove_folder(&d);
}

static void partial_file_that_is_a_pipe_is_refused_at_once(void **state)
{
    struct folder d;

    (void)state;
    make_folder(&d);
    assert_int_equal(mkfifo(d.partial, 0666), 0);
    alarm(10);
    assert_int_equal(open_file(&d.w, d.path, 0), PFL_EIO);
    assert_int_equal(errno, ESTALE);
    alarm(0);
    remove_folder(&d);
}

static void another_users_file_does_not_open_the_new_one_to_him(void **state)
{
    struct folder d;
    struct stat st;
    mode_t before = umask(077);

    (void)state;
    make_folder(&d);
    write_old(d.path);
    assert_int_equal(chmod(d.path, 0666), 0);
    assert_int_equal(chown(d.path, ANOTHER_USER, ANOTHER_USER), 0);
    assert_int_equal(open_file(&d.w, d.path, 0), 0);
    assert_int_equal(stat(d.partial, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    close_file(&d.w);
    umask(before);
    remove_folder(&d);
}

static void a_second_writer_of_the_path_is_refused(void **state)
{
    struct world w;
    struct pfl_trace_file *first;

    (void)state;
    init(&w, NULL, 0);
    first = w.file;
    assert_int_equal(open_file(&w, w.path, 0), PFL_EIO);
    assert_int_equal(errno, EBUSY);
    w.file = first;
    close_file(&w);
    fini(&w);
}

static void what_is_there_is_not_replaced_when_that_is_asked(void **state)
{
    struct world w;
    struct pfl_trace_file *first;

    (void)state;
    init(&w, NULL, 0);
    first = w.file;
    w.no_clobber = true;
    assert_int_equal(open_file(&w, w.path, 0), PFL_EIO);
    assert_int_equal(errno, EEXIST);
    w.file = first;
    close_file(&w);
    /* One that comes while it is written. */
    unlink(w.path);
    assert_int_equal(open_file(&w, w.path, 0), 0);
    assert_true(put(&w, 100, 'a') != 0);
    write_old(w.path);
    w.closed = 0;
    close_file(&w);
    assert_int_equal(w.closed_err, EEXIST);
    assert_true(w.has_partial);
    assert_int_equal(size_of(w.path), 3);
    assert_int_equal(check_file(w.partial, w.written), 1);
    unlink(w.partial);
    fini(&w);
}

static void pipes_and_devices_are_written_directly(void **state)
{
    static const char *const direct[] = {"-", "/dev/stdout", "/dev/fd/1", "/dev/null",
                                         "/proc/self/fd/1"};

    (void)state;
    for (size_t i = 0; i < sizeof(direct) / sizeof(direct[0]); i++)
        assert_true(pfl_trace_file_is_direct(direct[i]));
    assert_false(pfl_trace_file_is_direct("/tmp/perfleet-is-not-there"));
}

static void path_that_cannot_be_written_is_refused(void **state)
{
    struct world w = {0};

    (void)state;
    assert_int_equal(open_loop(&w), 0);
    assert_int_equal(open_file(&w, "/does/not/exist", 0), PFL_EIO);
    assert_int_equal(errno, ENOENT);
    fini(&w);
}

static void without_a_thread_the_loop_writes(void **state)
{
    struct world w;
    uint64_t bytes = 0;

    (void)state;
    init(&w, NULL, 1000);
    pfl_has_no_thread = true;
    for (size_t i = 0; i < 100; i++)
        bytes += put(&w, 300, (char)('a' + i % 26));
    close_file(&w);
    pfl_has_no_thread = false;
    assert_int_equal(w.closed_err, 0);
    assert_int_equal(w.written, bytes);
    assert_int_equal(check_file(w.path, bytes), 100);
    fini(&w);
}

static int write_once(void *arg)
{
    struct world w = {0};
    int rc;

    (void)arg;
    rc = open_loop(&w);
    if (rc == 0)
        rc = open_file(&w, "/dev/null", 100);
    for (int i = 0; rc == 0 && i < 3; i++)
        rc = put(&w, 90, 'x') != 0 ? 0 : PFL_ENOMEM;
    if (w.file != NULL)
        pfl_trace_file_close(w.file, PFL_TRACE_FILE_WHOLE, on_closed);
    uv_run(&w.loop, UV_RUN_DEFAULT);
    close_loop(&w);
    return rc;
}

static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    pfl_sweep(write_once, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packets_reach_the_file_in_order),
        cmocka_unit_test(backlog_past_the_mark_is_reported_and_its_end_too),
        cmocka_unit_test(full_disk_is_reported_once_and_later_packets_are_dropped),
        cmocka_unit_test(failed_write_leaves_a_file_of_whole_packets),
        cmocka_unit_test(old_file_is_there_until_the_new_one_is_complete),
        cmocka_unit_test(file_that_is_not_wanted_leaves_the_old_one),
        cmocka_unit_test(file_that_is_cut_short_stays_partial_beside_the_old_one),
        cmocka_unit_test(file_that_was_removed_meanwhile_is_no_success),
        cmocka_unit_test(partial_file_without_a_packet_is_not_left),
        cmocka_unit_test(another_users_link_in_a_sticky_folder_is_not_followed),
        cmocka_unit_test(another_users_pipe_in_a_sticky_folder_is_not_written),
        cmocka_unit_test(own_pipe_in_a_sticky_folder_is_written),
        cmocka_unit_test(with_a_long_name_another_users_file_is_not_written_either),
        cmocka_unit_test(links_in_a_circle_are_refused),
        cmocka_unit_test(another_users_partial_file_is_not_written),
        cmocka_unit_test(partial_file_with_a_second_name_is_not_cut),
        cmocka_unit_test(partial_file_that_is_a_pipe_is_refused_at_once),
        cmocka_unit_test(another_users_file_does_not_open_the_new_one_to_him),
        cmocka_unit_test(a_second_writer_of_the_path_is_refused),
        cmocka_unit_test(what_is_there_is_not_replaced_when_that_is_asked),
        cmocka_unit_test(pipes_and_devices_are_written_directly),
        cmocka_unit_test(path_that_cannot_be_written_is_refused),
        cmocka_unit_test(without_a_thread_the_loop_writes),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
