/* SPDX-License-Identifier: Apache-2.0 */
/* Work runs on other threads and comes back once, also at the end; one thread keeps the order,
 * several are shared by users. */
#include "base/io/worker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/io/loop.h"
#include "base/list.h"
#include "base/mem.h"
#include "tests/support/no_thread.h"
#include "tests/support/sweep.h"

#define WORKS    500u
#define HOG      7u
#define OTHER    8u
#define OF_HOG   12u
#define HOGS     10u
#define OWNER_ID 5u

struct numbered {
    struct pfl_work work;
    uv_thread_t ran_on;
    unsigned number;
    unsigned ran;  /* as the how-manieth */
    unsigned done; /* times */
    unsigned again;
};

static uv_loop_t loop;
static struct pfl_worker *worker;
static struct numbered works[WORKS];
static unsigned runs; /* the thread's */
static unsigned back; /* the loop's */

static void run(struct pfl_work *work)
{
    struct numbered *w = PFL_CONTAINER_OF(work, struct numbered, work);

    w->ran_on = uv_thread_self();
    w->ran = runs++;
}

static void on_done(struct pfl_work *work)
{
    struct numbered *w = PFL_CONTAINER_OF(work, struct numbered, work);

    assert_int_equal(w->ran, back);
    back++;
    w->done++;
    if (w->again != 0) {
        w->again--;
        assert_int_equal(pfl_worker_submit(worker, work), 0);
    }
}

static int open_worker(unsigned threads_max, struct pfl_worker **ret_worker)
{
    const struct pfl_worker_conf conf = {.loop = &loop, .threads_max = threads_max};

    return pfl_worker_open(&conf, ret_worker);
}

static int setup(void **state)
{
    (void)state;
    runs = back = 0;
    for (unsigned i = 0; i < WORKS; i++)
        works[i] = (struct numbered){.work = {.run = run, .on_done = on_done}, .number = i};
    return pfl_loop_init(&loop) != 0 || open_worker(1, &worker) != 0;
}

static int teardown(void **state)
{
    (void)state;
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    pfl_sweep_assert_no_leak();
    return 0;
}

static void submit_all(unsigned again)
{
    for (unsigned i = 0; i < WORKS; i++) {
        works[i].again = again;
        assert_int_equal(pfl_worker_submit(worker, &works[i].work), 0);
    }
}

static void one_thread_runs_work_in_order_and_it_comes_back(void **state)
{
    uv_thread_t self = uv_thread_self();

    (void)state;
    submit_all(3);
    (void)uv_run(&loop, UV_RUN_DEFAULT); /* which does not end before they are back */
    assert_int_equal(back, WORKS * 4);
    for (unsigned i = 0; i < WORKS; i++) {
        assert_int_equal(works[i].done, 4);
        assert_int_equal(uv_thread_equal(&self, &works[i].ran_on), 0);
        assert_int_equal(uv_thread_equal(&works[0].ran_on, &works[i].ran_on), 1);
    }
    pfl_worker_close(worker);
}

static void closing_waits_for_the_work_and_hands_it_back(void **state)
{
    (void)state;
    submit_all(0);
    pfl_worker_close(worker);
    assert_int_equal(back, WORKS);
}

static void a_worker_without_work_has_no_thread_and_does_not_hold_the_loop(void **state)
{
    (void)state;
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    pfl_worker_close(worker);
    pfl_worker_close(NULL);
}

static void work_without_a_thread_is_not_taken(void **state)
{
    (void)state;
    pfl_has_no_thread = true;
    assert_int_equal(pfl_worker_submit(worker, &works[0].work), PFL_EIO);
    pfl_has_no_thread = false;
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0); /* it does not hold the loop */
    assert_int_equal(back, 0);
    assert_int_equal(pfl_worker_submit(worker, &works[0].work), 0);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(works[0].done, 1);
    pfl_worker_close(worker);
}

static void work_that_is_not_refused_runs_here_and_comes_back_later(void **state)
{
    uv_thread_t self = uv_thread_self();

    (void)state;
    pfl_has_no_thread = true;
    pfl_worker_run(worker, &works[0].work);
    pfl_worker_run(worker, &works[1].work);
    pfl_has_no_thread = false;
    assert_int_equal(runs, 2);
    assert_int_equal(back, 0);
    (void)uv_run(&loop, UV_RUN_DEFAULT); /* which does not end before they are back */
    assert_int_equal(back, 2);
    assert_int_equal(uv_thread_equal(&self, &works[1].ran_on), 1);
    pfl_worker_run(worker, &works[2].work);
    pfl_worker_close(worker);
    assert_int_equal(back, 3);
    assert_int_equal(uv_thread_equal(&self, &works[2].ran_on), 0);
}

static void on_done_while_closing(struct pfl_work *work)
{
    back++;
    assert_int_equal(pfl_worker_submit(worker, work), PFL_ESTATE);
}

static void a_worker_that_is_closed_takes_no_more(void **state)
{
    (void)state;
    works[0].work.on_done = on_done_while_closing;
    assert_int_equal(pfl_worker_submit(worker, &works[0].work), 0);
    pfl_worker_close(worker);
    assert_int_equal(back, 1);
}

static int open_and_close(void *arg)
{
    struct pfl_worker *w;
    int rc = open_worker(1, &w);

    (void)arg;
    if (rc == 0)
        pfl_worker_close(w);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    return rc;
}

static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    pfl_worker_close(worker);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    pfl_sweep(open_and_close, NULL, false);
}

/* ---- several threads ---- */

struct long_work {
    struct pfl_work work; /* first: run_long, on_long_done and is_void cast */
    bool is_long;
    bool is_done;
};

static uv_sem_t may_end;
static atomic_uint running;
static atomic_bool hogs_are_void;

static void run_long(struct pfl_work *work)
{
    if (!((struct long_work *)(void *)work)->is_long || atomic_load(&hogs_are_void))
        return;
    atomic_fetch_add(&running, 1);
    uv_sem_wait(&may_end);
    atomic_fetch_sub(&running, 1);
}

static void on_long_done(struct pfl_work *work)
{
    ((struct long_work *)(void *)work)->is_done = true;
}

static bool is_void(const struct pfl_work *work)
{
    return ((const struct long_work *)(const void *)work)->is_long && atomic_load(&hogs_are_void);
}

static void submit(struct long_work *work, uint64_t who, bool is_long)
{
    *work = (struct long_work){
        .work = {.run = run_long, .on_done = on_long_done, .is_void = is_void, .who = who},
        .is_long = is_long};
    assert_int_equal(pfl_worker_submit(worker, &work->work), 0);
}

static void wait_for(const struct long_work *work)
{
    while (!work->is_done)
        (void)uv_run(&loop, UV_RUN_ONCE);
}

static size_t count_done(const struct long_work *list, size_t len)
{
    size_t count = 0;

    for (size_t i = 0; i < len; i++)
        count += list[i].is_done;
    return count;
}

static int setup_shared(void **state)
{
    (void)state;
    atomic_store(&running, 0);
    atomic_store(&hogs_are_void, false);
    return uv_sem_init(&may_end, 0) != 0 || pfl_loop_init(&loop) != 0 ||
           open_worker(PFL_WORKER_THREADS_MAX, &worker) != 0;
}

static int teardown_shared(void **state)
{
    pfl_worker_close(worker);
    uv_sem_destroy(&may_end);
    return teardown(state);
}

static void whose_work_takes_long_holds_up_nobody_else(void **state)
{
    static struct long_work hogs[OF_HOG];
    struct long_work other;
    struct long_work owners;

    (void)state;
    pfl_worker_set_owner(worker, OWNER_ID);
    for (size_t i = 0; i < OF_HOG; i++)
        submit(&hogs[i], HOG, true);
    submit(&other, OTHER, false);
    submit(&owners, OWNER_ID, false);
    wait_for(&other);
    wait_for(&owners);
    assert_in_range(atomic_load(&running), 0, PFL_WORKER_THREADS_MAX / 2);
    for (size_t i = 0; i < OF_HOG; i++)
        uv_sem_post(&may_end);
    for (size_t i = 0; i < OF_HOG; i++)
        wait_for(&hogs[i]);
}

/* Of the shared threads they leave one, which is for root and the owner. */
static void long_work_of_many_users_holds_up_nobody_else(void **state)
{
    static struct long_work hogs[HOGS][OF_HOG];
    struct long_work other;
    struct long_work owners;

    (void)state;
    pfl_worker_set_owner(worker, OWNER_ID);
    for (unsigned user = 0; user < HOGS; user++) {
        for (size_t i = 0; i < OF_HOG; i++)
            submit(&hogs[user][i], 100 + user, true);
    }
    while (atomic_load(&running) < PFL_WORKER_THREADS_MAX - 1 + HOGS - 3)
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    submit(&other, OTHER, false);
    submit(&owners, OWNER_ID, false);
    wait_for(&other);
    wait_for(&owners);
    assert_int_equal(atomic_load(&running), PFL_WORKER_THREADS_MAX - 1 + HOGS - 3);
    for (size_t i = 0; i < HOGS * OF_HOG; i++)
        uv_sem_post(&may_end);
    for (size_t i = 0; i < HOGS * OF_HOG; i++)
        wait_for(&hogs[i / OF_HOG][i % OF_HOG]);
}

static void what_nobody_wants_any_more_does_not_wait_for_a_share(void **state)
{
    static struct long_work hogs[OF_HOG];
    struct long_work other;

    (void)state;
    for (size_t i = 0; i < OF_HOG; i++)
        submit(&hogs[i], HOG, true);
    while (atomic_load(&running) < PFL_WORKER_THREADS_MAX / 2)
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    atomic_store(&hogs_are_void, true);
    submit(&other, OTHER, false); /* wakes a thread, which finds them */
    wait_for(&other);
    while (count_done(hogs, OF_HOG) < OF_HOG - PFL_WORKER_THREADS_MAX / 2)
        (void)uv_run(&loop, UV_RUN_ONCE);
    for (size_t i = 0; i < OF_HOG; i++)
        uv_sem_post(&may_end);
    for (size_t i = 0; i < OF_HOG; i++)
        wait_for(&hogs[i]);
}

static void close_from_on_done(struct pfl_work *work)
{
    unsigned done = 0;

    works[0].done += work == &works[0].work;
    pfl_worker_close(worker);
    for (unsigned i = 0; i < 3; i++)
        done += works[i].done;
    assert_int_equal(done, 3);
    assert_int_equal(back, 2);
}

static void count_back(struct pfl_work *work)
{
    PFL_CONTAINER_OF(work, struct numbered, work)->done++;
    back++;
}

static atomic_uint begun;

static void count_begun(struct pfl_work *work)
{
    (void)work;
    (void)atomic_fetch_add(&begun, 1);
}

static void an_on_done_may_close_the_worker(void **state)
{
    (void)state;
    atomic_store(&begun, 0);
    works[0].work.on_done = close_from_on_done;
    for (unsigned i = 0; i < 3; i++) {
        if (i != 0)
            works[i].work.on_done = count_back;
        works[i].work.run = count_begun;
        assert_int_equal(pfl_worker_submit(worker, &works[i].work), 0);
    }
    while (atomic_load(&begun) != 3) /* the first two wait for the loop together */
        uv_sleep(1);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(back, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_thread_runs_work_in_order_and_it_comes_back, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(closing_waits_for_the_work_and_hands_it_back, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            a_worker_without_work_has_no_thread_and_does_not_hold_the_loop, setup, teardown),
        cmocka_unit_test_setup_teardown(an_on_done_may_close_the_worker, setup, teardown),
        cmocka_unit_test_setup_teardown(work_without_a_thread_is_not_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(work_that_is_not_refused_runs_here_and_comes_back_later,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_worker_that_is_closed_takes_no_more, setup, teardown),
        cmocka_unit_test_setup_teardown(every_failed_allocation_is_survived, setup, teardown),
        cmocka_unit_test_setup_teardown(whose_work_takes_long_holds_up_nobody_else, setup_shared,
                                        teardown_shared),
        cmocka_unit_test_setup_teardown(long_work_of_many_users_holds_up_nobody_else, setup_shared,
                                        teardown_shared),
        cmocka_unit_test_setup_teardown(what_nobody_wants_any_more_does_not_wait_for_a_share,
                                        setup_shared, teardown_shared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
