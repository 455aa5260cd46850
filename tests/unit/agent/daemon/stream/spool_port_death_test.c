/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that are killed while they work with one spool, one after the other: each continues
 * where the last that was noted says, in memory and a file that outlive them. Every byte comes
 * once, in order, whenever death came.
 *
 * The parent has no loop and no thread: its children begin as it is.
 */
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/daemon/stream/spool_port.h"
#include "base/io/loop.h"
#include "base/log.h"
#include "tests/support/pattern.h"

#define MIB             (1024u * 1024)
#define LIVES           60u
#define STEPS_OF_A_LIFE 150u

/* Why a life ended by itself. */
enum end {
    END_WELL,
    END_NOT_RESTORED,
    END_OTHER_BYTES,
    END_NOT_WRITTEN,
    END_NOTHING_AT_HAND,
    END_NOT_ALL,
};

struct record {
    struct pfl_spool_state state;
    uint64_t written;
    uint64_t used;
};

/* What outlives a process: two records, of which one counts. */
struct shared {
    _Atomic unsigned which;
    struct record records[2];
    _Atomic uint32_t steps; /* of all lives */
    uint8_t ring[PFL_SPOOL_RING_BYTES];
};

struct life {
    uv_loop_t loop;
    struct pfl_spool_pool pool;
    struct pfl_spool *spool;
    struct shared *shared;
    uint64_t written;
    uint64_t used;
    uint32_t seed;
};

static uint32_t roll(uint32_t *seed, uint32_t below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)*seed * below) >> 32);
}

static void publish(void *user)
{
    struct life *l = user;
    unsigned next = 1 - atomic_load(&l->shared->which);
    struct record *record = &l->shared->records[next];

    pfl_spool_note(l->spool, &record->state);
    record->written = l->written;
    record->used = l->used;
    atomic_store(&l->shared->which, next);
}

static void put(struct life *l, size_t len)
{
    if (pfl_spool_write(l->spool, pfl_span_of(pfl_pattern_get(l->written), len)) != 0)
        _exit(END_NOT_WRITTEN);
    l->written += len;
    publish(l);
}

static bool take(struct life *l, size_t max)
{
    struct pfl_span data = pfl_spool_peek(l->spool, max);

    if (data.len == 0)
        return false;
    if (!pfl_pattern_is(l->used, data.data, data.len))
        _exit(END_OTHER_BYTES);
    pfl_spool_use(l->spool, data.len);
    l->used += data.len;
    publish(l);
    return true;
}

static void step(struct life *l, bool is_filling)
{
    if (roll(&l->seed, 4) < (is_filling ? 3u : 1u)) {
        if (!pfl_spool_is_full(l->spool))
            put(l, 1 + roll(&l->seed, 150000));
    } else {
        (void)take(l, 1 + roll(&l->seed, 150000));
    }
    if (pfl_spool_is_busy(l->spool) && roll(&l->seed, 3) == 0)
        (void)uv_run(&l->loop, UV_RUN_ONCE);
    atomic_fetch_add(&l->shared->steps, 1);
}

static void drain(struct life *l)
{
    while (!pfl_spool_is_empty(l->spool)) {
        if (take(l, MIB))
            continue;
        if (!pfl_spool_is_busy(l->spool))
            _exit(END_NOTHING_AT_HAND);
        (void)uv_run(&l->loop, UV_RUN_ONCE);
    }
    if (l->used != l->written)
        _exit(END_NOT_ALL);
}

/* The child's: works until it is killed, or, the last one, until all is taken. */
static _Noreturn void live(struct shared *shared, int fd, uint32_t seed, bool is_last)
{
    const struct record *kept = &shared->records[atomic_load(&shared->which)];
    struct life l = {.shared = shared, .written = kept->written, .used = kept->used, .seed = seed};
    struct pfl_spool_state state = kept->state;
    struct pfl_spool_conf conf = {.pool = &l.pool,
                                  .ring = shared->ring,
                                  .ring_bytes = PFL_SPOOL_RING_BYTES,
                                  .on_change = publish,
                                  .user = &l};
    bool is_filling = roll(&l.seed, 2) != 0;

    l.pool = (struct pfl_spool_pool){
        .dir = "/nowhere", .disk_max_bytes = 3 * MIB, .disk_max_stream_bytes = 3 * MIB};
    if (pfl_loop_init(&l.loop) != 0 ||
        pfl_worker_open(&(struct pfl_worker_conf){.loop = &l.loop, .threads_max = 4},
                        &l.pool.worker) != 0 ||
        pfl_spool_restore(&conf, fd, &state, &l.spool) != 0)
        _exit(END_NOT_RESTORED);
    publish(&l);
    pfl_spool_retry(l.spool);
    if (is_last) {
        drain(&l);
        _exit(END_WELL);
    }
    for (;;) {
        if (roll(&l.seed, 60) == 0)
            is_filling = !is_filling;
        step(&l, is_filling);
    }
}

/* After so many steps, and anywhere in the next. */
static void kill_after(struct shared *shared, pid_t child, uint32_t steps, uint32_t turns)
{
    uint32_t begin = atomic_load(&shared->steps);
    int status = 0;

    while (atomic_load(&shared->steps) - begin < steps && waitpid(child, &status, WNOHANG) == 0)
        (void)sched_yield();
    while (turns-- != 0)
        (void)atomic_load(&shared->steps);
    if (status == 0) {
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
    }
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
}

static void lives_that_are_killed_give_every_byte_once(void **state)
{
    struct shared *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int fd = memfd_create("spool", MFD_CLOEXEC);
    uint32_t seed = 5;
    int status;
    pid_t child;

    (void)state;
    assert_true(shared != MAP_FAILED && fd >= 0);
    pfl_log_set_level(PFL_LOG_ERROR);
    (void)pfl_pattern_get(0);
    for (unsigned i = 0; i < LIVES; i++) {
        uint32_t seed_of_life = roll(&seed, UINT32_MAX);

        child = fork();
        assert_true(child >= 0);
        if (child == 0)
            live(shared, fd, seed_of_life, false);
        kill_after(shared, child, roll(&seed, STEPS_OF_A_LIFE), roll(&seed, 100000));
    }
    child = fork();
    assert_true(child >= 0);
    if (child == 0)
        live(shared, fd, seed, true);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), END_WELL);
    assert_true(shared->records[shared->which].used > MIB);
    (void)close(fd);
    assert_int_equal(munmap(shared, sizeof(*shared)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lives_that_are_killed_give_every_byte_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
