/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a spool's owner noted last, with the ring's memory and the file as they are at any later
 * moment, gives what was written and not used at that note: between all calls, and while threads
 * are at work. States that cannot be are refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/daemon/stream/encode_port.h"
#include "agent/daemon/stream/spool_port.h"
#include "agent/daemon/stream/stream_port.h"
#include "base/io/loop.h"
#include "base/log.h"
#include "tests/support/pattern.h"
#include "tests/support/sweep.h"

#define MIB   (1024u * 1024)
#define STEPS 6000u

/* What an owner publishes: the spool's state and its own. */
struct record {
    struct pfl_spool_state state;
    uint64_t written;
    uint64_t used;
};

struct life {
    uv_loop_t loop;
    struct pfl_spool_pool pool;
    struct pfl_spool *spool;
    uint8_t *ring;
    struct record kept; /* the last that was published */
    uint64_t written;
    uint64_t used;
    int fd; /* the spool's */
    unsigned files;
    unsigned deaths;
    unsigned deaths_at_work;
    bool is_mortal; /* looked at between the steps, as if it had died */
    uint32_t seed;
};

static uint8_t rings[2][PFL_SPOOL_RING_BYTES];
static char dir[32];
static bool has_no_holes;

/* libc's, in a file system that may not have it. */
int fallocate(int fd, int mode, off_t offset, off_t len)
{
    if (has_no_holes) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return (int)syscall(SYS_fallocate, fd, mode, offset, len);
}

static uint32_t roll(struct life *l, uint32_t below)
{
    l->seed = l->seed * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)l->seed * below) >> 32);
}

static void look_at_death(struct life *l);

static void publish(struct life *l)
{
    struct record next = {.written = l->written, .used = l->used};

    look_at_death(l);
    pfl_spool_note(l->spool, &next.state);
    look_at_death(l);
    l->kept = next;
    if (next.state.ring_begin == next.state.ring_end && roll(l, 4) == 0)
        memset(l->ring, 0xaa, PFL_SPOOL_RING_BYTES);
    look_at_death(l);
}

static void on_change(void *user)
{
    publish(user);
}

static void on_file(void *user, int fd)
{
    struct life *l = user;
    struct stat is;

    assert_int_equal(fstat(fd, &is), 0);
    assert_int_equal(is.st_size, 0);
    l->fd = fd;
    l->files++;
}

static struct pfl_spool_conf get_conf(struct life *l)
{
    return (struct pfl_spool_conf){.pool = &l->pool,
                                   .ring = l->ring,
                                   .ring_bytes = PFL_SPOOL_RING_BYTES,
                                   .on_change = on_change,
                                   .on_file = on_file,
                                   .user = l};
}

static int try_begin(struct life *l, uint8_t *ring)
{
    *l = (struct life){.ring = ring, .fd = -1, .seed = 1};
    l->pool = (struct pfl_spool_pool){
        .dir = dir, .disk_max_bytes = 3 * MIB, .disk_max_stream_bytes = 3 * MIB};
    assert_int_equal(pfl_loop_init(&l->loop), 0);
    return pfl_worker_open(&(struct pfl_worker_conf){.loop = &l->loop, .threads_max = 4},
                           &l->pool.worker);
}

static void begin(struct life *l, uint8_t *ring)
{
    assert_int_equal(try_begin(l, ring), 0);
}

static void end(struct life *l)
{
    pfl_spool_close(l->spool, NULL, NULL);
    pfl_worker_close(l->pool.worker);
    (void)uv_run(&l->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&l->loop), 0);
    assert_int_equal(l->pool.disk_used_bytes, 0);
}

static void open_new(struct life *l)
{
    struct pfl_spool_conf conf;

    begin(l, rings[0]);
    conf = get_conf(l);
    assert_int_equal(pfl_spool_new(&conf, &l->spool), 0);
}

static void rest(struct life *l)
{
    while (pfl_spool_is_busy(l->spool))
        (void)uv_run(&l->loop, UV_RUN_ONCE);
}

static void put(struct life *l, size_t len)
{
    assert_int_equal(pfl_spool_write(l->spool, pfl_span_of(pfl_pattern_get(l->written), len)), 0);
    l->written += len;
    publish(l);
}

static void fill(struct life *l, uint64_t to)
{
    while (l->written < to) {
        if (!pfl_spool_is_full(l->spool))
            put(l, 60000);
        else if (pfl_spool_is_busy(l->spool))
            (void)uv_run(&l->loop, UV_RUN_ONCE);
        else
            return;
    }
}

/* False: nothing is at hand. */
static bool take(struct life *l, size_t max)
{
    struct pfl_span data = pfl_spool_peek(l->spool, max);

    if (data.len == 0)
        return false;
    if (!pfl_pattern_is(l->used, data.data, data.len))
        fail_msg("other bytes at %llu", (unsigned long long)l->used);
    pfl_spool_use(l->spool, data.len);
    l->used += data.len;
    publish(l);
    return true;
}

static void take_all(struct life *l)
{
    while (!pfl_spool_is_empty(l->spool)) {
        if (take(l, 200001))
            continue;
        assert_true(pfl_spool_is_busy(l->spool));
        (void)uv_run(&l->loop, UV_RUN_ONCE);
    }
    rest(l);
    assert_int_equal(l->used, l->written);
    assert_int_equal(l->pool.disk_used_bytes, 0);
}

/* A file of the same bytes; -1 for none. */
static int copy_file(int fd, uint64_t from)
{
    static uint8_t bytes[256 * 1024];
    int copy = fd >= 0 ? memfd_create("copy", MFD_CLOEXEC) : -1;
    struct stat is;
    ssize_t n;

    if (fd < 0)
        return -1;
    assert_true(copy >= 0);
    assert_int_equal(fstat(fd, &is), 0);
    assert_int_equal(ftruncate(copy, is.st_size), 0);
    while ((n = pread(fd, bytes, sizeof(bytes), (off_t)from)) > 0) {
        assert_int_equal(pwrite(copy, bytes, (size_t)n, (off_t)from), n);
        from += (uint64_t)n;
    }
    assert_int_equal(n, 0);
    return copy;
}

/* The next process: its ring has what `l`'s has now, and its file, too. */
static void restore(struct life *l, struct life *next)
{
    struct pfl_spool_conf conf;

    begin(next, rings[1]);
    memcpy(next->ring, l->ring, PFL_SPOOL_RING_BYTES);
    next->fd = copy_file(l->fd, l->kept.state.file_begin);
    next->kept = l->kept;
    next->written = l->kept.written;
    next->used = l->kept.used;
    conf = get_conf(next);
    assert_int_equal(pfl_spool_restore(&conf, next->fd, &next->kept.state, &next->spool), 0);
}

static void look_at_death(struct life *l)
{
    struct life next;

    if (!l->is_mortal || roll(l, 60) != 0)
        return;
    l->deaths++;
    l->deaths_at_work += pfl_spool_is_busy(l->spool);
    restore(l, &next);
    pfl_spool_retry(next.spool);
    take_all(&next);
    end(&next);
}

static void step(struct life *l, bool is_filling)
{
    if (roll(l, 200) == 0)
        l->pool.disk_max_bytes = 3 * MIB - l->pool.disk_max_bytes; /* a full disk, and not */
    if (roll(l, 50) == 0) {
        pfl_spool_retry(l->spool);
        publish(l);
    }
    if (roll(l, 4) < (is_filling ? 3u : 1u)) {
        if (!pfl_spool_is_full(l->spool))
            put(l, 1 + roll(l, roll(l, 20) == 0 ? PFL_SPOOL_WRITE_BYTES : 100000));
    } else {
        (void)take(l, 1 + roll(l, roll(l, 10) == 0 ? MIB : 100000));
    }
    look_at_death(l);
    if (pfl_spool_is_busy(l->spool) && roll(l, 3) == 0)
        (void)uv_run(&l->loop, roll(l, 2) == 0 ? UV_RUN_ONCE : UV_RUN_NOWAIT);
}

static void live(uint32_t seed)
{
    struct life l;
    bool is_filling = true;

    open_new(&l);
    l.seed = seed;
    l.is_mortal = true;
    for (unsigned i = 0; i < STEPS / 2; i++) {
        if (roll(&l, 60) == 0)
            is_filling = !is_filling;
        step(&l, is_filling);
    }
    l.pool.disk_max_bytes = 3 * MIB;
    take_all(&l);
    assert_true(l.deaths > STEPS / 100);
    assert_true(l.deaths_at_work > 0);
    assert_int_equal(l.files, 1);
    end(&l);
}

static int set_up(void **state)
{
    (void)state;
    pfl_log_set_level(PFL_LOG_ERROR);
    (void)snprintf(dir, sizeof(dir), "/tmp/pfl-spool-XXXXXX");
    assert_non_null(mkdtemp(dir));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    has_no_holes = false;
    assert_int_equal(rmdir(dir), 0); /* no file has a name there */
    pfl_sweep_assert_no_leak();
    return 0;
}

static void a_death_between_any_two_steps_loses_and_doubles_nothing(void **state)
{
    (void)state;
    live(7);
    live(11);
}

static void nor_does_it_where_files_cannot_have_holes(void **state)
{
    (void)state;
    has_no_holes = true;
    live(13);
}

static void what_a_restored_file_takes_of_the_disk_is_counted(void **state)
{
    struct life l;
    struct life next;
    uint64_t there;

    (void)state;
    open_new(&l);
    fill(&l, 100 * MIB);
    for (unsigned i = 0; i < 20; i++) {
        if (!take(&l, 100000))
            rest(&l);
    }
    rest(&l);
    there = l.kept.state.file_end - l.kept.state.file_begin;
    assert_true(l.kept.state.file_begin > MIB && there > MIB);
    restore(&l, &next);
    assert_int_equal(next.pool.disk_used_bytes, there);
    assert_false(pfl_spool_is_busy(next.spool)); /* it waits for its owner */
    assert_int_equal(pfl_spool_file_bytes(next.spool), there);
    end(&next);
    has_no_holes = true;
    restore(&l, &next);
    assert_int_equal(next.pool.disk_used_bytes, l.kept.state.file_end);
    pfl_spool_retry(next.spool);
    take_all(&next);
    end(&next);
    take_all(&l);
    end(&l);
}

static void what_a_dead_thread_wrote_behind_the_end_is_given_back(void **state)
{
    struct life l;
    struct life next;
    struct stat is;

    (void)state;
    open_new(&l);
    fill(&l, 2 * MIB);
    rest(&l);
    assert_int_equal(ftruncate(l.fd, 9 * MIB), 0);
    restore(&l, &next);
    assert_int_equal(fstat(next.fd, &is), 0);
    assert_int_equal(is.st_size, l.kept.state.file_end);
    end(&next);
    end(&l);
}

static void what_was_used_up_begins_anew(void **state)
{
    struct life l;
    struct stat is;

    (void)state;
    open_new(&l);
    fill(&l, 2 * MIB);
    take_all(&l);
    assert_int_equal(fstat(l.fd, &is), 0);
    assert_int_equal(is.st_size, 0);
    assert_int_equal(l.kept.state.file_end, 0);
    assert_int_equal(l.kept.state.ring_begin, l.kept.state.ring_end);
    put(&l, 1000);
    assert_int_equal(l.kept.state.ring_begin, 0);
    assert_int_equal(l.kept.state.ring_end, 1000);
    end(&l);
}

static void what_was_used_gives_room_once_it_is_noted(void **state)
{
    struct life l;
    struct pfl_spool_state kept;
    struct pfl_span data;

    (void)state;
    open_new(&l);
    l.pool.dir = NULL;
    for (int i = 0; i < 3; i++)
        put(&l, PFL_SPOOL_WRITE_BYTES);
    assert_int_equal(pfl_spool_peek(l.spool, SIZE_MAX).len, 3 * PFL_SPOOL_WRITE_BYTES);
    pfl_spool_use(l.spool, 3 * PFL_SPOOL_WRITE_BYTES);
    l.used = l.written;
    data =
        pfl_span_of(pfl_pattern_get(l.written), PFL_SPOOL_RING_BYTES - 3 * PFL_SPOOL_WRITE_BYTES);
    assert_int_equal(pfl_spool_write(l.spool, data), 0);
    assert_true(pfl_spool_is_full(l.spool));
    assert_int_equal(pfl_spool_write(l.spool, pfl_span_of(data.data, 1)), PFL_ELIMIT);
    l.written += data.len;
    pfl_spool_note(l.spool, &kept);
    assert_int_equal(kept.ring_end - kept.ring_begin, data.len);
    put(&l, 100000);
    take_all(&l);
    end(&l);
}

/* However much of it the next process writes at once: what the pipe may hold comes behind it. */
static void a_ring_that_was_left_takes_what_a_pipe_has(void **state)
{
    const size_t in_pipe = PFL_ENCODE_BEHIND_BYTES + PFL_AGENT_READ_BYTES;
    unsigned taken = 0;

    (void)state;
    for (size_t left = 0; left <= PFL_SPOOL_RING_BYTES; left += 32u * 1024) {
        struct life l;
        struct pfl_spool_conf conf;

        begin(&l, rings[0]);
        l.kept.state.ring_end = l.written = left;
        for (size_t at = 0; at < left; at += 32u * 1024)
            memcpy(l.ring + at, pfl_pattern_get(at), 32u * 1024);
        conf = get_conf(&l);
        assert_int_equal(pfl_spool_restore(&conf, -1, &l.kept.state, &l.spool), 0);
        pfl_spool_retry(l.spool);
        if (!pfl_spool_is_full(l.spool)) { /* the service is read from */
            put(&l, PFL_ENCODE_JOB_BYTES);
            put(&l, in_pipe - PFL_ENCODE_JOB_BYTES);
            taken++;
        }
        rest(&l);
        take_all(&l);
        end(&l);
    }
    assert_in_range(taken, 10, PFL_SPOOL_RING_BYTES / (32u * 1024));
}

static void a_state_that_cannot_be_is_refused(void **state)
{
    static const struct {
        struct pfl_spool_state state;
        bool has_file; /* of 1000 bytes */
        int rc;
    } cases[] = {
        {{0, 0, 0, 0}, false, 0},
        {{7, 7, 0, 0}, true, 0},
        {{0, 0, 5000, 5000}, true, 0}, /* emptied a moment before the death */
        {{0, 0, 5000, 5000}, false, 0},
        {{0, 0, 0, 1000}, true, 0},
        {{UINT64_MAX - 9, UINT64_MAX, 0, 0}, false, 0},
        {{5, 5 + PFL_SPOOL_RING_BYTES, 0, 0}, false, 0},
        {{5, 6 + PFL_SPOOL_RING_BYTES, 0, 0}, false, PFL_EPARSE},
        {{1, 0, 0, 0}, false, PFL_EPARSE},
        {{0, 0, 1, 0}, true, PFL_EPARSE},
        {{0, 0, 0, 1}, false, PFL_EPARSE},
        {{0, 0, 0, 1001}, true, PFL_EPARSE},
        {{0, 0, 0, UINT64_MAX}, true, PFL_EPARSE},
        {{0, 0, UINT64_MAX, UINT64_MAX}, true, PFL_EPARSE},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct life l;
        struct pfl_spool_conf conf;
        int fd = cases[i].has_file ? memfd_create("file", MFD_CLOEXEC) : -1;

        begin(&l, rings[0]);
        conf = get_conf(&l);
        if (fd >= 0)
            assert_int_equal(ftruncate(fd, 1000), 0);
        assert_int_equal(pfl_spool_restore(&conf, fd, &cases[i].state, &l.spool), cases[i].rc);
        if (fd >= 0 && cases[i].rc != 0)
            assert_int_equal(close(fd), 0); /* it is still ours */
        end(&l);
    }
}

static void a_descriptor_that_is_no_file_is_refused(void **state)
{
    struct pfl_spool_state empty = {0, 0, 0, 0};
    struct pfl_spool_conf conf;
    struct life l;
    int fds[2];

    (void)state;
    begin(&l, rings[0]);
    conf = get_conf(&l);
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    assert_int_equal(pfl_spool_restore(&conf, fds[1], &empty, &l.spool), PFL_EPARSE);
    (void)close(fds[0]);
    (void)close(fds[1]);
    assert_int_equal(pfl_spool_restore(&conf, fds[1], &empty, &l.spool), PFL_EPARSE);
    fds[0] = memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(fds[0], 10), 0);
    assert_int_equal(fcntl(fds[0], F_ADD_SEALS, F_SEAL_SHRINK), 0);
    assert_int_equal(pfl_spool_restore(&conf, fds[0], &empty, &l.spool), PFL_EIO);
    assert_int_equal(close(fds[0]), 0);
    end(&l);
}

static int restore_some(void *arg)
{
    static const struct pfl_spool_state some = {0, 1000, 0, 100000};
    struct pfl_spool_conf conf;
    struct life l;
    int fd = memfd_create("file", MFD_CLOEXEC);
    int rc;

    (void)arg;
    rc = try_begin(&l, rings[0]);
    conf = get_conf(&l);
    assert_int_equal(pwrite(fd, pfl_pattern_get(0), 100000, 0), 100000);
    memcpy(l.ring, pfl_pattern_get(100000), 1000);
    l.written = 101000;
    if (rc == 0)
        rc = pfl_spool_restore(&conf, fd, &some, &l.spool);
    if (rc == 0) {
        pfl_spool_retry(l.spool);
        take_all(&l);
    } else {
        assert_int_equal(close(fd), 0);
    }
    end(&l);
    return rc;
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    pfl_sweep(restore_some, NULL, false);
}

#define CLAIM(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLAIM(a_death_between_any_two_steps_loses_and_doubles_nothing),
        CLAIM(nor_does_it_where_files_cannot_have_holes),
        CLAIM(what_a_restored_file_takes_of_the_disk_is_counted),
        CLAIM(what_a_dead_thread_wrote_behind_the_end_is_given_back),
        CLAIM(what_was_used_up_begins_anew),
        CLAIM(what_was_used_gives_room_once_it_is_noted),
        CLAIM(a_ring_that_was_left_takes_what_a_pipe_has),
        CLAIM(a_state_that_cannot_be_is_refused),
        CLAIM(a_descriptor_that_is_no_file_is_refused),
        CLAIM(every_failed_allocation_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
