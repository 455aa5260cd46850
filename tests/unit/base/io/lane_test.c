/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs of a lane run on another thread, in order, and each comes back once; also at the end. */
#include "base/io/lane.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/io/loop.h"
#include "base/list.h"
#include "base/mem.h"
#include "tests/support/no_thread.h"
#include "tests/support/sweep.h"

#define JOBS 500u

struct work {
    struct pfl_lane_job job;
    uv_thread_t ran_on;
    unsigned number;
    unsigned ran;  /* as the how-manieth */
    unsigned done; /* times */
    unsigned again;
};

static uv_loop_t loop;
static struct pfl_lane *lane;
static struct work works[JOBS];
static unsigned runs; /* the thread's */
static unsigned back; /* the loop's */

static void run(struct pfl_lane_job *job)
{
    struct work *w = PFL_CONTAINER_OF(job, struct work, job);

    w->ran_on = uv_thread_self();
    w->ran = runs++;
}

static void on_done(struct pfl_lane_job *job)
{
    struct work *w = PFL_CONTAINER_OF(job, struct work, job);

    assert_int_equal(w->ran, back);
    back++;
    w->done++;
    if (w->again != 0) {
        w->again--;
        assert_int_equal(pfl_lane_submit(lane, job), 0);
    }
}

static int setup(void **state)
{
    (void)state;
    runs = back = 0;
    for (unsigned i = 0; i < JOBS; i++)
        works[i] = (struct work){.job = {.run = run, .on_done = on_done}, .number = i};
    return pfl_loop_init(&loop) != 0 || pfl_lane_open(&loop, &lane) != 0;
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
    for (unsigned i = 0; i < JOBS; i++) {
        works[i].again = again;
        assert_int_equal(pfl_lane_submit(lane, &works[i].job), 0);
    }
}

static void jobs_run_elsewhere_in_order_and_come_back(void **state)
{
    uv_thread_t self = uv_thread_self();

    (void)state;
    submit_all(3);
    (void)uv_run(&loop, UV_RUN_DEFAULT); /* which does not end before they are back */
    assert_int_equal(back, JOBS * 4);
    for (unsigned i = 0; i < JOBS; i++) {
        assert_int_equal(works[i].done, 4);
        assert_int_equal(uv_thread_equal(&self, &works[i].ran_on), 0);
        assert_int_equal(uv_thread_equal(&works[0].ran_on, &works[i].ran_on), 1);
    }
    pfl_lane_close(lane);
}

static void closing_waits_for_the_jobs_and_tells_them(void **state)
{
    (void)state;
    submit_all(0);
    pfl_lane_close(lane);
    assert_int_equal(back, JOBS);
}

static void a_lane_without_jobs_has_no_thread_and_does_not_hold_the_loop(void **state)
{
    (void)state;
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    pfl_lane_close(lane);
    pfl_lane_close(NULL);
}

static void a_job_that_no_thread_is_to_be_had_for_is_not_taken(void **state)
{
    (void)state;
    pfl_has_no_thread = true;
    assert_int_equal(pfl_lane_submit(lane, &works[0].job), PFL_EIO);
    pfl_has_no_thread = false;
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0); /* it does not hold the loop */
    assert_int_equal(back, 0);
    assert_int_equal(pfl_lane_submit(lane, &works[0].job), 0);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(works[0].done, 1);
    pfl_lane_close(lane);
}

static void on_done_while_closing(struct pfl_lane_job *job)
{
    back++;
    assert_int_equal(pfl_lane_submit(lane, job), PFL_ESTATE);
}

static void a_lane_that_is_closed_takes_no_more(void **state)
{
    (void)state;
    works[0].job.on_done = on_done_while_closing;
    assert_int_equal(pfl_lane_submit(lane, &works[0].job), 0);
    pfl_lane_close(lane);
    assert_int_equal(back, 1);
}

static int open_and_close(void *arg)
{
    struct pfl_lane *l;
    int rc = pfl_lane_open(&loop, &l);

    (void)arg;
    if (rc == 0)
        pfl_lane_close(l);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    return rc;
}

static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    pfl_lane_close(lane);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    pfl_sweep(open_and_close, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(jobs_run_elsewhere_in_order_and_come_back, setup, teardown),
        cmocka_unit_test_setup_teardown(closing_waits_for_the_jobs_and_tells_them, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_lane_without_jobs_has_no_thread_and_does_not_hold_the_loop, setup, teardown),
        cmocka_unit_test_setup_teardown(a_job_that_no_thread_is_to_be_had_for_is_not_taken, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_lane_that_is_closed_takes_no_more, setup, teardown),
        cmocka_unit_test_setup_teardown(every_failed_allocation_is_survived, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
