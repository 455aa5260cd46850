/* SPDX-License-Identifier: Apache-2.0 */
/* The trace file: order, bounds, a full disk, a path that cannot be written. */
#include "consumer/recording/trace_file.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/io/loop.h"
#include "base/mem.h"
#include "tests/support/sweep.h"

struct world {
    uv_loop_t loop;
    struct pfl_trace_file *file;
    char path[64];
    unsigned writable;
    unsigned failed;
    int failed_err;
    unsigned closed;
    int closed_err;
    uint64_t written;
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

static void on_closed(void *user, int err, uint64_t written_bytes)
{
    struct world *w = user;

    w->closed++;
    w->closed_err = err;
    w->written = written_bytes;
}

static int open_file(struct world *w, const char *path, size_t chunk_bytes)
{
    struct pfl_trace_file_conf conf = {
        .loop = &w->loop,
        .path = path,
        .chunk_bytes = chunk_bytes,
        .on_writable = on_writable,
        .on_failed = on_failed,
        .user = w,
    };

    return pfl_trace_file_open(&conf, &w->file);
}

static void init(struct world *w, const char *path, size_t chunk_bytes)
{
    *w = (struct world){0};
    assert_int_equal(pfl_loop_init(&w->loop), 0);
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
    pfl_trace_file_close(w->file, on_closed);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(w->closed, 1);
}

static void fini(struct world *w)
{
    assert_int_equal(uv_loop_close(&w->loop), 0);
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

static void backlog_past_the_mark_is_told_and_its_end_too(void **state)
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

static void full_disk_is_told_once_and_later_packets_are_dropped(void **state)
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
    assert_int_equal(check_file(w.path, whole), whole / 303);
    fini(&w);
}

static void path_that_cannot_be_written_is_refused(void **state)
{
    struct world w = {0};

    (void)state;
    assert_int_equal(pfl_loop_init(&w.loop), 0);
    assert_int_equal(open_file(&w, "/does/not/exist", 0), PFL_EIO);
    assert_int_equal(errno, ENOENT);
    fini(&w);
}

static int write_once(void *arg)
{
    struct world w = {0};
    int rc;

    (void)arg;
    assert_int_equal(pfl_loop_init(&w.loop), 0);
    rc = open_file(&w, "/dev/null", 100);
    for (int i = 0; rc == 0 && i < 3; i++)
        rc = put(&w, 90, 'x') != 0 ? 0 : PFL_ENOMEM;
    if (w.file != NULL)
        pfl_trace_file_close(w.file, on_closed);
    uv_run(&w.loop, UV_RUN_DEFAULT);
    uv_loop_close(&w.loop);
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
        cmocka_unit_test(backlog_past_the_mark_is_told_and_its_end_too),
        cmocka_unit_test(full_disk_is_told_once_and_later_packets_are_dropped),
        cmocka_unit_test(failed_write_leaves_a_file_of_whole_packets),
        cmocka_unit_test(path_that_cannot_be_written_is_refused),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
