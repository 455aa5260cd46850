/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spool on a real loop and real files in /tmp: order and completeness against a count of bytes,
 * its bounds, a disk that is full (a limit on file sizes stands for it), a file that lost its
 * bytes.
 */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/daemon/stream/spool_port.h"
#include "base/io/loop.h"
#include "base/log.h"
#include "tests/support/no_thread.h"
#include "tests/support/sweep.h"

#define MIB (1024u * 1024)

struct world {
    uv_loop_t loop;
    struct pfl_spool_pool pool;
    struct pfl_spool *spool;
    char dir[32];
    uint64_t written; /* offset: byte n is get_byte(n) */
    uint64_t used;
    unsigned changes;
    unsigned rings;
    uint64_t who; /* of the next spool */
};

static uint8_t rings[4][PFL_SPOOL_RING_BYTES];

static uint8_t get_byte(uint64_t at)
{
    return (uint8_t)(at * 131 + (at >> 11));
}

static void note(struct world *w)
{
    struct pfl_spool_state unused;

    pfl_spool_note(w->spool, &unused);
}

static void on_change(void *user)
{
    struct world *w = user;

    w->changes++;
    note(w);
}

static int open_spool(struct world *w, struct pfl_spool **ret_spool)
{
    struct pfl_spool_conf conf = {.pool = &w->pool,
                                  .ring = rings[w->rings++ % 4],
                                  .ring_bytes = PFL_SPOOL_RING_BYTES,
                                  .on_change = on_change,
                                  .who = w->who,
                                  .user = w};

    return pfl_spool_new(&conf, ret_spool);
}

static int set_up(void **state)
{
    static struct world w;

    memset(&w, 0, sizeof(w));
    pfl_log_set_level(PFL_LOG_ERROR);
    assert_int_equal(pfl_loop_init(&w.loop), 0);
    (void)snprintf(w.dir, sizeof(w.dir), "/tmp/pfl-spool-XXXXXX");
    assert_non_null(mkdtemp(w.dir));
    w.pool = (struct pfl_spool_pool){
        .dir = w.dir, .disk_max_bytes = 64 * MIB, .disk_max_stream_bytes = 64 * MIB};
    assert_int_equal(pfl_worker_open(&(struct pfl_worker_conf){.loop = &w.loop, .threads_max = 4},
                                     &w.pool.worker),
                     0);
    assert_int_equal(open_spool(&w, &w.spool), 0);
    *state = &w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;

    pfl_has_no_thread = false;
    pfl_spool_close(w->spool, NULL, NULL);
    (void)uv_run(&w->loop, UV_RUN_DEFAULT);
    pfl_worker_close(w->pool.worker);
    (void)uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    assert_int_equal(w->pool.disk_used_bytes, 0);
    assert_int_equal(rmdir(w->dir), 0); /* no file has a name there */
    pfl_sweep_assert_no_leak();
    return 0;
}

static int put(struct world *w, size_t len)
{
    static uint8_t bytes[PFL_SPOOL_WRITE_BYTES];
    int rc;

    for (size_t i = 0; i < len; i++)
        bytes[i] = get_byte(w->written + i);
    rc = pfl_spool_write(w->spool, pfl_span_of(bytes, len));
    if (rc == 0)
        w->written += len;
    note(w);
    return rc;
}

/* Writes until it is full and no thread is at work, or `max` bytes are in. */
static void fill(struct world *w, uint64_t max, size_t piece)
{
    while (w->written < max) {
        if (!pfl_spool_is_full(w->spool))
            assert_int_equal(put(w, piece), 0);
        else if (pfl_spool_is_busy(w->spool))
            (void)uv_run(&w->loop, UV_RUN_ONCE);
        else
            return;
    }
}

static void take(struct world *w, size_t max)
{
    struct pfl_span data = pfl_spool_peek(w->spool, max);

    for (size_t i = 0; i < data.len; i++)
        if (data.data[i] != get_byte(w->used + i))
            fail_msg("byte %llu is wrong", (unsigned long long)(w->used + i));
    if (data.len != 0) {
        pfl_spool_use(w->spool, data.len);
        note(w);
    } else if (pfl_spool_is_busy(w->spool)) {
        (void)uv_run(&w->loop, UV_RUN_ONCE);
    } else {
        fail_msg("nothing is at hand and nothing will come");
    }
    w->used += data.len;
}

static void take_all(struct world *w)
{
    while (w->used < w->written)
        take(w, 70001);
    assert_true(pfl_spool_is_empty(w->spool));
    while (pfl_spool_is_busy(w->spool))
        (void)uv_run(&w->loop, UV_RUN_ONCE);
}

static void a_few_bytes_need_no_file(void **state)
{
    struct world *w = *state;

    assert_int_equal(put(w, 1000), 0);
    assert_int_equal(pfl_spool_memory_bytes(w->spool), 1000);
    assert_false(pfl_spool_is_busy(w->spool));
    take_all(w);
    assert_int_equal(w->changes, 0);
}

static void bytes_come_out_as_they_went_in(void **state)
{
    struct world *w = *state;
    unsigned seed = 7;

    while (w->written < 24 * MIB) {
        seed = seed * 1103515245u + 12345u;
        if ((seed >> 16) % 3 != 0 && !pfl_spool_is_full(w->spool))
            assert_int_equal(put(w, (seed >> 8) % 200000 + 1), 0);
        else if (w->used < w->written)
            take(w, (seed >> 8) % 150000 + 1);
        (void)uv_run(&w->loop, UV_RUN_NOWAIT);
    }
    take_all(w);
    assert_true(w->changes > 0);
    assert_int_equal(w->pool.disk_used_bytes, 0);
}

static void memory_stays_small_while_the_file_grows(void **state)
{
    struct world *w = *state;

    fill(w, 32 * MIB, 60000);
    assert_true(w->written >= 32 * MIB);
    assert_true(pfl_spool_file_bytes(w->spool) > 30 * MIB);
    assert_true(pfl_spool_memory_bytes(w->spool) <= 4 * PFL_SPOOL_JOB_BYTES + 60000);
    assert_int_equal(w->pool.disk_used_bytes >= pfl_spool_file_bytes(w->spool), 1);
    take_all(w);
}

static void what_is_read_gives_room_to_what_comes(void **state)
{
    struct world *w = *state;

    w->pool.disk_max_stream_bytes = 4 * MIB;
    fill(w, 100 * MIB, 60000);
    for (int i = 0; i < 40; i++) {
        uint64_t to = w->used + MIB;

        assert_true(pfl_spool_is_full(w->spool));
        while (w->used < to)
            take(w, 90000);
        fill(w, 100 * MIB, 60000);
        assert_true(w->pool.disk_used_bytes <= 4 * MIB);
    }
    assert_true(w->written > 40 * MIB);
    take_all(w);
}

/* Bytes in files when the operator has written the maximum. */
static uint64_t fill_for(struct world *w, uint64_t who)
{
    w->who = who;
    w->written = 0;
    assert_int_equal(open_spool(w, &w->spool), 0);
    fill(w, 100 * MIB, 60000);
    return pfl_spool_file_bytes(w->spool);
}

static void one_operator_has_half_of_all_files(void **state)
{
    struct world *w = *state;
    struct pfl_spool *spools[3] = {w->spool};
    uint64_t bytes;

    w->pool.disk_max_bytes = 16 * MIB;
    bytes = fill_for(w, 7);
    spools[1] = w->spool;
    assert_true(bytes > 7 * MIB && bytes <= 8 * MIB);
    bytes = fill_for(w, 7); /* the operator's next stream finds nothing */
    spools[2] = w->spool;
    assert_int_equal(bytes, 0);
    bytes = fill_for(w, 8);
    assert_true(bytes > 3 * MIB && bytes <= 5 * MIB);
    for (size_t i = 0; i < 3; i++)
        pfl_spool_close(spools[i], NULL, NULL);
}

static void all_files_together_have_a_bound(void **state)
{
    struct world *w = *state;
    struct pfl_spool *mine = w->spool;

    w->pool.disk_max_bytes = 6 * MIB;
    fill(w, 100 * MIB, 60000);
    assert_true(w->pool.disk_used_bytes > 5 * MIB && w->pool.disk_used_bytes <= 6 * MIB);
    assert_int_equal(open_spool(w, &w->spool), 0);
    w->written = 0;
    fill(w, 100 * MIB, 60000);
    assert_int_equal(pfl_spool_file_bytes(w->spool), 0);
    assert_true(w->written <= PFL_SPOOL_JOB_BYTES * 2 + 60000 * 2);
    pfl_spool_close(mine, NULL, NULL);
    pfl_spool_retry(w->spool);
    fill(w, 2 * MIB, 60000);
    assert_true(pfl_spool_file_bytes(w->spool) > MIB);
    take_all(w);
    assert_int_equal(w->pool.disk_used_bytes, 0);
    w->written = w->used = 0;
    fill(w, 3 * MIB, 60000);
    assert_true(pfl_spool_file_bytes(w->spool) > 2 * MIB);
    take_all(w);
}

static void a_full_disk_loses_nothing(void **state)
{
    struct world *w = *state;
    struct rlimit limit;
    struct rlimit small;

    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = (struct rlimit){.rlim_cur = 2 * MIB + 1234, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    fill(w, 100 * MIB, 60000);
    assert_true(w->written > 2 * MIB && w->written < 4 * MIB);
    assert_true(pfl_spool_is_full(w->spool));
    assert_true(w->pool.disk_used_bytes <= 2 * MIB + 1234);
    take_all(w);
    fill(w, w->written + MIB, 60000); /* and it continues, from the file's beginning */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    fill(w, w->written + 6 * MIB, 60000);
    assert_true(pfl_spool_file_bytes(w->spool) > 4 * MIB);
    take_all(w);
}

static void without_a_folder_memory_is_the_bound(void **state)
{
    struct world *w = *state;

    w->pool.dir = NULL;
    fill(w, 100 * MIB, 60000);
    assert_true(pfl_spool_is_full(w->spool));
    assert_true(w->written <= PFL_SPOOL_JOB_BYTES * 2 + 2 * 60000);
    take_all(w);
}

static void a_folder_that_went_away_loses_nothing(void **state)
{
    struct world *w = *state;

    assert_int_equal(pfl_spool_pool_try(&w->pool), 0);
    w->pool.dir = "/nowhere";
    assert_int_equal(pfl_spool_pool_try(&w->pool), PFL_EIO);
    fill(w, 100 * MIB, 60000);
    assert_true(pfl_spool_is_full(w->spool));
    take_all(w);
}

/* Our descriptor of a file that has no name. */
static int find_file(const char *dir)
{
    DIR *fds = opendir("/proc/self/fd");
    struct dirent *entry;
    char target[256];
    int found = -1;

    assert_non_null(fds);
    while (found < 0 && (entry = readdir(fds)) != NULL) {
        ssize_t len = readlinkat(dirfd(fds), entry->d_name, target, sizeof(target) - 1);

        target[len < 0 ? 0 : len] = '\0';
        if (strncmp(target, dir, strlen(dir)) == 0)
            found = (int)strtol(entry->d_name, NULL, 10);
    }
    (void)closedir(fds);
    return found;
}

static void nobody_else_may_read_the_file(void **state)
{
    struct world *w = *state;
    struct stat is;

    fill(w, 4 * MIB, 60000);
    assert_int_equal(fstat(find_file(w->dir), &is), 0);
    assert_int_equal(is.st_nlink, 0);
    assert_int_equal(is.st_mode & 0777, 0600);
}

static void a_file_that_lost_its_bytes_breaks_the_spool(void **state)
{
    struct world *w = *state;

    fill(w, 4 * MIB, 60000);
    while (pfl_spool_is_busy(w->spool)) /* what is written later would make the file whole again */
        (void)uv_run(&w->loop, UV_RUN_ONCE);
    assert_int_equal(ftruncate(find_file(w->dir), 0), 0);
    while (!pfl_spool_is_broken(w->spool)) {
        struct pfl_span data = pfl_spool_peek(w->spool, MIB);

        if (data.len != 0) {
            pfl_spool_use(w->spool, data.len);
            note(w);
        } else {
            (void)uv_run(&w->loop, UV_RUN_ONCE);
        }
    }
    assert_true(pfl_spool_is_full(w->spool));
}

static void on_idle(void *user)
{
    *(bool *)user = true;
}

static void a_closed_spool_that_is_at_rest_tells_at_once(void **state)
{
    struct world *w = *state;
    bool idle = false;

    fill(w, 4 * MIB, 60000);
    while (pfl_spool_is_busy(w->spool))
        (void)uv_run(&w->loop, UV_RUN_ONCE);
    pfl_spool_close(w->spool, on_idle, &idle);
    w->spool = NULL;
    assert_true(idle);
    idle = false;
    pfl_spool_close(NULL, on_idle, &idle);
    assert_true(idle);
}

static void closing_while_a_thread_is_at_work_is_safe(void **state)
{
    struct world *w = *state;
    uint64_t file;
    bool idle = false;

    fill(w, 8 * MIB, 60000);
    while (!pfl_spool_is_busy(w->spool)) {
        if (!pfl_spool_is_full(w->spool))
            assert_int_equal(put(w, 60000), 0);
    }
    file = pfl_spool_file_bytes(w->spool);
    assert_true(file != 0);
    w->changes = 0;
    pfl_spool_close(w->spool, on_idle, &idle);
    w->spool = NULL;
    assert_false(
        idle); /* the thread reads the ring: nothing was taken, so it does not read the file */
    assert_int_equal(w->pool.disk_used_bytes, 0);
    (void)uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_true(idle);
    assert_int_equal(w->changes, 0);
}

static void a_worker_that_is_closed_closes_the_file(void **state)
{
    struct world *w = *state;
    bool idle = false;

    fill(w, 8 * MIB, 60000);
    while (!pfl_spool_is_busy(w->spool))
        assert_int_equal(put(w, 60000), 0);
    pfl_spool_close(w->spool, on_idle, &idle);
    w->spool = NULL;
    pfl_worker_close(w->pool.worker); /* as the agent does once its last stream is gone */
    w->pool.worker = NULL;
    assert_true(idle);
    assert_int_equal(find_file(w->dir), -1);
}

static void without_a_thread_the_loop_does_the_work(void **state)
{
    struct world *w = *state;

    pfl_has_no_thread = true;
    fill(w, 8 * MIB, 60000);
    assert_true(pfl_spool_file_bytes(w->spool) > 6 * MIB);
    assert_true(w->changes > 0);
    take_all(w);
    assert_int_equal(w->pool.disk_used_bytes, 0);
    fill(w, w->written + 4 * MIB, 60000);
    while (pfl_spool_is_busy(w->spool))
        (void)uv_run(&w->loop, UV_RUN_ONCE);
    pfl_spool_close(w->spool, NULL, NULL);
    w->spool = NULL;
    assert_int_equal(find_file(w->dir), -1);
}

static int write_some(void *arg)
{
    struct world *w = arg;
    struct pfl_spool *before = w->spool;
    int rc = open_spool(w, &w->spool);

    if (rc == 0) {
        w->written = w->used = 0;
        for (int i = 0; rc == 0 && i < 12 && !pfl_spool_is_full(w->spool); i++) {
            rc = put(w, 100000);
            while (pfl_spool_is_busy(w->spool))
                (void)uv_run(&w->loop, UV_RUN_ONCE);
            assert_false(pfl_spool_is_broken(w->spool));
        }
        if (rc == 0)
            take_all(w);
        pfl_spool_close(w->spool, NULL, NULL);
        (void)uv_run(&w->loop, UV_RUN_DEFAULT);
    }
    w->spool = before;
    assert_int_equal(w->pool.disk_used_bytes, 0);
    return rc;
}

static void every_failed_allocation_is_reported(void **state)
{
    struct world *w = *state;

    pfl_spool_close(w->spool, NULL, NULL);
    w->spool = NULL;
    pfl_sweep(write_some, w, true); /* without memory to read it with, no file is written */
}

#define CLAIM(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLAIM(a_few_bytes_need_no_file),
        CLAIM(bytes_come_out_as_they_went_in),
        CLAIM(memory_stays_small_while_the_file_grows),
        CLAIM(what_is_read_gives_room_to_what_comes),
        CLAIM(one_operator_has_half_of_all_files),
        CLAIM(all_files_together_have_a_bound),
        CLAIM(a_full_disk_loses_nothing),
        CLAIM(without_a_folder_memory_is_the_bound),
        CLAIM(a_folder_that_went_away_loses_nothing),
        CLAIM(nobody_else_may_read_the_file),
        CLAIM(a_file_that_lost_its_bytes_breaks_the_spool),
        CLAIM(a_closed_spool_that_is_at_rest_tells_at_once),
        CLAIM(closing_while_a_thread_is_at_work_is_safe),
        CLAIM(a_worker_that_is_closed_closes_the_file),
        CLAIM(without_a_thread_the_loop_does_the_work),
        CLAIM(every_failed_allocation_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
