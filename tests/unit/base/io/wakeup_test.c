/* SPDX-License-Identifier: Apache-2.0 */
/* Notes of threads reach the loop: all, once, each thread's in order; and the loop waits for none.
 */
#include "base/io/wakeup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/io/loop.h"
#include "base/list.h"

#define THREADS 4u
#define NOTES   2000u

struct numbered {
    struct pfl_wakeup_note note;
    struct poster *poster;
    unsigned number;
};

struct poster {
    uv_thread_t thread;
    unsigned seen; /* the loop's */
    struct numbered notes[NOTES];
};

static uv_loop_t loop;
static struct pfl_wakeup wakeup;
static struct poster posters[THREADS];

static int open_wakeup(void **state)
{
    (void)state;
    return pfl_loop_init(&loop) != 0 || pfl_wakeup_open(&wakeup, &loop) != 0;
}

static int close_wakeup(void **state)
{
    (void)state;
    pfl_wakeup_close(&wakeup);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop);
}

static void on_note(struct pfl_wakeup_note *note)
{
    struct numbered *numbered = PFL_CONTAINER_OF(note, struct numbered, note);

    assert_int_equal(numbered->number, numbered->poster->seen);
    numbered->poster->seen++;
    pfl_wakeup_release(&wakeup);
}

static void post_all(void *user)
{
    struct poster *poster = user;

    for (unsigned i = 0; i < NOTES; i++)
        pfl_wakeup_post(&wakeup, &poster->notes[i].note);
}

static void notes_of_many_threads_come_once_and_in_the_order_of_each(void **state)
{
    (void)state;
    for (unsigned t = 0; t < THREADS; t++) {
        posters[t].seen = 0;
        for (unsigned i = 0; i < NOTES; i++) {
            posters[t].notes[i] =
                (struct numbered){.note.on_note = on_note, .poster = &posters[t], .number = i};
            pfl_wakeup_hold(&wakeup);
        }
        assert_int_equal(uv_thread_create(&posters[t].thread, post_all, &posters[t]), 0);
    }
    (void)uv_run(&loop, UV_RUN_DEFAULT); /* ends when nothing is held */
    for (unsigned t = 0; t < THREADS; t++) {
        assert_int_equal(uv_thread_join(&posters[t].thread), 0);
        assert_int_equal(posters[t].seen, NOTES);
    }
}

static void a_loop_that_nobody_holds_ends(void **state)
{
    (void)state;
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    pfl_wakeup_hold(&wakeup);
    pfl_wakeup_release(&wakeup);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(notes_of_many_threads_come_once_and_in_the_order_of_each,
                                        open_wakeup, close_wakeup),
        cmocka_unit_test_setup_teardown(a_loop_that_nobody_holds_ends, open_wakeup, close_wakeup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
