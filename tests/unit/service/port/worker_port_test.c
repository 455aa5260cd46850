/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that users share. */
#include "service/port/worker_port.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/io/loop.h"

#define HOG      7u
#define OTHER    8u
#define OF_HOG   12u
#define OWNER_ID 5u

struct long_work {
    struct pfl_work work; /* first: run and done cast */
    bool is_long;
    bool is_done;
};

static uv_loop_t loop;
static struct pfl_wakeup wakeup;
static struct pfl_worker_port workers;
static uv_sem_t may_end;
static atomic_uint running;
static atomic_bool hogs_are_void;

static void run(struct pfl_work *work)
{
    if (!((struct long_work *)(void *)work)->is_long || atomic_load(&hogs_are_void))
        return;
    atomic_fetch_add(&running, 1);
    uv_sem_wait(&may_end);
    atomic_fetch_sub(&running, 1);
}

static void done(struct pfl_work *work)
{
    ((struct long_work *)(void *)work)->is_done = true;
}

static bool is_void(const struct pfl_work *work)
{
    return ((const struct long_work *)(const void *)work)->is_long && atomic_load(&hogs_are_void);
}

static void submit(struct long_work *work, uint64_t who, bool is_long)
{
    *work = (struct long_work){.work = {.run = run, .done = done, .is_void = is_void, .who = who},
                               .is_long = is_long};
    assert_int_equal(pfl_worker_port_submit(&workers, &work->work), 0);
}

static void wait_for(const struct long_work *work)
{
    while (!work->is_done)
        (void)uv_run(&loop, UV_RUN_ONCE);
}

static size_t count_done(const struct long_work *works, size_t len)
{
    size_t count = 0;

    for (size_t i = 0; i < len; i++)
        count += works[i].is_done;
    return count;
}

static int set_up(void **state)
{
    (void)state;
    atomic_store(&running, 0);
    atomic_store(&hogs_are_void, false);
    if (uv_sem_init(&may_end, 0) != 0 || pfl_loop_init(&loop) != 0 ||
        pfl_wakeup_open(&wakeup, &loop) != 0)
        return -1;
    return pfl_worker_port_open(&workers, &wakeup);
}

static int tear_down(void **state)
{
    (void)state;
    pfl_worker_port_close(&workers);
    pfl_wakeup_close(&wakeup);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    uv_sem_destroy(&may_end);
    return uv_loop_close(&loop);
}

static void whose_work_takes_long_holds_up_nobody_else(void **state)
{
    static struct long_work hogs[OF_HOG];
    struct long_work other;
    struct long_work owners;

    (void)state;
    pfl_worker_port_set_owner(&workers, OWNER_ID);
    for (size_t i = 0; i < OF_HOG; i++)
        submit(&hogs[i], HOG, true);
    submit(&other, OTHER, false);
    submit(&owners, OWNER_ID, false);
    wait_for(&other);
    wait_for(&owners);
    assert_in_range(atomic_load(&running), 0, PFL_WORKERS_MAX / 2);
    for (size_t i = 0; i < OF_HOG; i++)
        uv_sem_post(&may_end);
    for (size_t i = 0; i < OF_HOG; i++)
        wait_for(&hogs[i]);
}

static void what_nobody_wants_any_more_does_not_wait_for_a_share(void **state)
{
    static struct long_work hogs[OF_HOG];
    struct long_work other;

    (void)state;
    for (size_t i = 0; i < OF_HOG; i++)
        submit(&hogs[i], HOG, true);
    while (atomic_load(&running) < PFL_WORKERS_MAX / 2)
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    atomic_store(&hogs_are_void, true);
    submit(&other, OTHER, false); /* wakes a thread, which finds them */
    wait_for(&other);
    while (count_done(hogs, OF_HOG) < OF_HOG - PFL_WORKERS_MAX / 2)
        (void)uv_run(&loop, UV_RUN_ONCE);
    for (size_t i = 0; i < OF_HOG; i++)
        uv_sem_post(&may_end);
    for (size_t i = 0; i < OF_HOG; i++)
        wait_for(&hogs[i]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(whose_work_takes_long_holds_up_nobody_else),
        TEST(what_nobody_wants_any_more_does_not_wait_for_a_share),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
