/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that do not end hold nobody up for long: the open of a FIFO that nobody writes is one. */
#include "agent/probes/procfs/slow_work.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"

#define LIMIT_MS 30000u

struct room {
    struct pfl_slow_step steps[8];
    size_t len;
    size_t stuck;     /* the step that opens the FIFO */
    uint64_t spin_ms; /* the steps work so long */
    struct pfl_span results[8];
    char bytes[8];
};

static char dir[] = "/tmp/perfleet-test-XXXXXX";
static char fifo[64];

static uint64_t now_ms(void)
{
    return pfl_clock_now_ns(PFL_CLOCK_MONOTONIC) / 1000000;
}

static uint64_t worked_ms(void)
{
    struct timespec ts = {.tv_sec = 0};

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void run_steps(void *argument)
{
    struct room *room = argument;

    for (size_t i = 0; i < room->len; i++) {
        uint64_t end_ms = worked_ms() + room->spin_ms;

        if (!pfl_slow_work_begin(&room->steps[i]))
            continue;
        while (room->spin_ms != 0 && worked_ms() < end_ms)
            continue;
        room->bytes[i] = 'a';
        if (i == room->stuck)
            (void)close(open(fifo, O_RDONLY | O_CLOEXEC));
        pfl_slow_work_publish(&room->results[i], pfl_span_of(&room->bytes[i], 1));
    }
}

/* `len` steps of the user, each of a process of its own from `pid` on; the one of `stuck` stays. */
static struct room *prepare(uint32_t uid, int32_t pid, size_t len, size_t stuck)
{
    struct room *room = pfl_slow_work_get_room(sizeof(*room));

    assert_non_null(room);
    memset(room, 0, sizeof(*room));
    for (size_t i = 0; i < len; i++)
        room->steps[i] = (struct pfl_slow_step){
            .uid = uid, .pid = pid + (int32_t)i, .tag = (uint32_t)i, .path = "/proc/1/test"};
    room->len = len;
    room->stuck = stuck;
    return room;
}

static bool run(uint32_t *ret_tag)
{
    uint64_t begin_ms = now_ms();
    bool is_done = pfl_slow_work_run(run_steps, ret_tag);

    assert_true(now_ms() - begin_ms < LIMIT_MS);
    return is_done;
}

/* All that is stuck comes back. */
static void let_go(void)
{
    uint64_t begin_ms = now_ms();

    while (pfl_slow_work_count_stuck() != 0) {
        int fd = open(fifo, O_RDWR | O_CLOEXEC);

        assert_true(fd >= 0);
        assert_true(now_ms() - begin_ms < LIMIT_MS);
        usleep(1000);
        close(fd);
        pfl_slow_work_reap();
    }
}

static int make_fifo(void **state)
{
    (void)state;
    if (mkdtemp(dir) == NULL)
        return -1;
    snprintf(fifo, sizeof(fifo), "%s/fifo", dir);
    return mkfifo(fifo, 0600);
}

static int remove_fifo(void **state)
{
    (void)state;
    return unlink(fifo) == 0 && rmdir(dir) == 0 ? 0 : -1;
}

static void steps_that_end_are_published(void **state)
{
    uint32_t tag = 99;

    (void)state;
    for (int turn = 0; turn < 1000; turn++) {
        struct room *room = prepare(100, 1, 8, 8);

        assert_true(run(&tag));
        for (size_t i = 0; i < 8; i++)
            assert_int_equal(room->results[i].len, 1);
    }
    assert_int_equal(tag, 99);
    assert_int_equal(pfl_slow_work_count_stuck(), 0);
}

static void a_step_that_does_not_end_is_left_and_what_was_before_it_counts(void **state)
{
    struct room *room = prepare(200, 1, 4, 2);
    uint32_t tag = 99;

    (void)state;
    assert_false(run(&tag));
    assert_int_equal(tag, 2);
    assert_int_equal(room->results[1].len, 1);
    assert_int_equal(room->results[2].len, 0);
    assert_int_equal(room->results[3].len, 0);
    assert_int_equal(pfl_slow_work_count_stuck(), 1);
    /* Another thread continues; nothing else of that process is read. */
    room = prepare(200, 3, 2, 2);
    assert_true(run(&tag));
    assert_int_equal(room->results[0].len, 0);
    assert_int_equal(room->results[1].len, 1);
    let_go();
}

static void a_user_is_stuck_twice_and_no_other_user_notices(void **state)
{
    uint64_t begin_ms = now_ms();
    struct room *room;
    uint32_t tag;

    (void)state;
    for (int32_t i = 0; i < 2; i++) {
        (void)prepare(300, 10 + i, 1, 0);
        assert_false(run(&tag));
    }
    for (int32_t i = 0; i < 200; i++) {
        room = prepare(300, 20 + i, 1, 0);
        assert_true(run(&tag));
        assert_int_equal(room->results[0].len, 0);
    }
    assert_true(now_ms() - begin_ms < LIMIT_MS / 2);
    assert_int_equal(pfl_slow_work_count_stuck(), 2);
    room = prepare(301, 1000, 1, 1);
    assert_true(run(&tag));
    assert_int_equal(room->results[0].len, 1);
    let_go();
}

static void who_sleeps_much_has_no_time_left_though_nothing_is_stuck(void **state)
{
    bool is_stuck = true;
    struct room *room;
    uint32_t tag;

    (void)state;
    /* Twice, or once more where some time has come back meanwhile. */
    for (int i = 0; i < 3 && is_stuck; i++) {
        (void)prepare(400, 30, 1, 0);
        is_stuck = !run(&tag);
        let_go();
        assert_true(i > 1 || is_stuck);
    }
    room = prepare(400, 31, 1, 1);
    assert_true(run(&tag));
    assert_int_equal(room->results[0].len, 0);
}

static void look_for_descriptor(void *argument)
{
    struct room *room = argument;

    if (pfl_slow_work_begin(&room->steps[0]) && fcntl((int)room->stuck, F_GETFD) < 0)
        pfl_slow_work_publish(&room->results[0], pfl_span_of(room->bytes, 1));
}

/* Else a thread that no kill ends would keep them open. */
static void the_thread_has_no_descriptors_of_the_programs(void **state)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct room *room;
    uint32_t tag;

    (void)state;
#ifdef PFL_SANITIZED_THREADS
    skip();
#endif
    assert_true(fd >= 0);
    room = prepare(800, 80, 1, (size_t)fd);
    assert_true(pfl_slow_work_run(look_for_descriptor, &tag));
    assert_int_equal(room->results[0].len, 1);
    assert_true(fcntl(fd, F_GETFD) >= 0);
    close(fd);
}

/* Long work counts as sleep does. */
static void a_step_that_works_is_not_stuck(void **state)
{
    struct room *room = prepare(500, 40, 3, 3);
    uint32_t tag;

    (void)state;
    room->spin_ms = 4 * PFL_SLOW_SLEEP_MS;
    room->steps[2].uid = 501;
    assert_true(run(&tag));
    assert_int_equal(room->results[0].len, 1);
    assert_int_equal(room->results[1].len, 0);
    assert_int_equal(room->results[2].len, 1);
}

/* Processes of one user that share a large memory, each of which takes less than a stuck one. */
static void a_users_short_work_has_a_share(void **state)
{
    const size_t len = 8;
    struct room *room;
    uint64_t done_ms = 0;
    uint64_t begin_ms = now_ms();
    uint32_t tag;

    (void)state;
    for (int32_t i = 0; i < 4; i++) {
        room = prepare(900, 90 + i * (int32_t)len, len, len);
        room->spin_ms = PFL_SLOW_SLEEP_MS / 4;
        assert_true(run(&tag));
        for (size_t at = 0; at < len; at++)
            done_ms += room->results[at].len * room->spin_ms;
    }
    assert_true(done_ms <= PFL_SLOW_USER_WORK_MS + PFL_SLOW_SLEEP_MS +
                               (now_ms() - begin_ms) * PFL_SLOW_USER_WORK_PER_S / 1000);
    room = prepare(901, 90, 1, 1);
    assert_true(run(&tag));
    assert_int_equal(room->results[0].len, 1);
}

static void nor_for_ever(void **state)
{
    struct room *room = prepare(600, 50, 1, 1);
    uint64_t begin_ms = now_ms();
    uint32_t tag;

    (void)state;
    room->spin_ms = 2 * PFL_SLOW_STEP_MS;
    assert_false(run(&tag));
    assert_true(now_ms() - begin_ms >= PFL_SLOW_STEP_MS);
    let_go();
}

static void what_anybody_can_lock_has_a_share_too(void **state)
{
    struct room *room;
    size_t stuck = 0;
    uint32_t tag;

    (void)state;
    for (int32_t i = 0; i < 100; i++) {
        (void)prepare(PFL_SLOW_PROCESSES, 60 + i, 1, 0);
        stuck += !run(&tag);
    }
    assert_in_range(stuck, PFL_SLOW_NOBODY_MS / PFL_SLOW_SLEEP_MS, PFL_SLOW_NOBODY_THREADS);
    /* Of processes: the rest of the system is read. */
    room = prepare(PFL_SLOW_SYSTEM, 0, 1, 1);
    assert_true(run(&tag));
    assert_int_equal(room->results[0].len, 1);
    let_go();
}

/* Whatever makes it long: those who watch the file. */
static void work_that_anybody_can_cause_has_a_share_too(void **state)
{
    const size_t len = 8;
    struct room *room;
    uint64_t done_ms = 0;
    uint64_t begin_ms = now_ms();
    uint32_t tag;

    (void)state;
    for (int32_t i = 0; i < 4; i++) {
        room = prepare(PFL_SLOW_SYSTEM, 0, len, len);
        room->spin_ms = PFL_SLOW_SLEEP_MS / 4;
        assert_true(run(&tag));
        for (size_t at = 0; at < len; at++)
            done_ms += room->results[at].len * room->spin_ms;
    }
    assert_true(done_ms <= PFL_SLOW_NOBODY_WORK_MS + PFL_SLOW_SLEEP_MS +
                               (now_ms() - begin_ms) * PFL_SLOW_NOBODY_WORK_PER_S / 1000);
    room = prepare(902, 1000, 1, 1); /* the others are read */
    assert_true(run(&tag));
    assert_int_equal(room->results[0].len, 1);
}

static void a_list_that_is_stuck_leaves_the_process_to_be_read(void **state)
{
    struct room *room = prepare(700, 70, 1, 0);
    uint32_t tag;

    (void)state;
    room->steps[0].is_list = true;
    room->steps[0].path = "/proc/70/task";
    assert_false(run(&tag));
    room = prepare(700, 70, 2, 2);
    room->steps[0].path = "/proc/70/task";
    room->steps[1].pid = 70;
    assert_true(run(&tag));
    assert_int_equal(room->results[0].len, 0);
    assert_int_equal(room->results[1].len, 1);
    let_go();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_that_end_are_published),
        cmocka_unit_test(a_step_that_does_not_end_is_left_and_what_was_before_it_counts),
        cmocka_unit_test(a_user_is_stuck_twice_and_no_other_user_notices),
        cmocka_unit_test(who_sleeps_much_has_no_time_left_though_nothing_is_stuck),
        cmocka_unit_test(the_thread_has_no_descriptors_of_the_programs),
        cmocka_unit_test(a_step_that_works_is_not_stuck),
        cmocka_unit_test(a_users_short_work_has_a_share),
        cmocka_unit_test(a_list_that_is_stuck_leaves_the_process_to_be_read),
        cmocka_unit_test(what_anybody_can_lock_has_a_share_too),
        cmocka_unit_test(work_that_anybody_can_cause_has_a_share_too),
        cmocka_unit_test(nor_for_ever), /* then no user has time for a while */
    };

    return cmocka_run_group_tests(tests, make_fifo, remove_fifo);
}
