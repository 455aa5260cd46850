/* SPDX-License-Identifier: Apache-2.0 */
/* Time stamps: the line over the CPU's counter with made clocks, then the real ones by threads. */
#include "producer/platform/clock.h"

#include <pthread.h>
#include <time.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "producer/perfleet_packet.h"
#include "producer/platform/tick_clock.h"

#define US 1000u
#define MS 1000000u
#define S  1000000000u

/* Two clocks as one might find them. */
struct world {
    struct pfl_tick_clock clock;
    double ns;
    double ticks;
    double ticks_per_ns;
    double rate; /* of boot time, of true time */
    uint64_t took;
};

static struct world make_world(void)
{
    struct world w = {.ns = 5e13, .ticks = 1e15, .ticks_per_ns = 2.6, .rate = 1.0, .took = 110};

    return w;
}

static void pass(struct world *w, double ns)
{
    w->ns += ns * w->rate;
    w->ticks += ns * w->ticks_per_ns;
}

static bool renew(struct world *w)
{
    struct pfl_tick_reading reading = {
        .ticks = (uint64_t)w->ticks - w->took / 2,
        .ns = (uint64_t)w->ns,
        .ticks_after = (uint64_t)w->ticks - w->took / 2 + w->took,
        .took_max = 512,
    };
    bool is_done;

    assert_true(pfl_tick_clock_try_take(&w->clock));
    is_done = pfl_tick_clock_renew(&w->clock, &reading);
    pfl_tick_clock_give_back(&w->clock);
    return is_done;
}

static bool is_resting(const struct world *w)
{
    return pfl_tick_clock_is_resting(&w->clock, (uint64_t)w->ns);
}

/* As the shell does; false: it had to ask the kernel. */
static bool tell(struct world *w, uint64_t *ret_ns)
{
    if (pfl_tick_clock_read(&w->clock, (uint64_t)w->ticks, ret_ns))
        return true;
    *ret_ns = (uint64_t)w->ns;
    if (!is_resting(w))
        assert_true(renew(w));
    return false;
}

static void assert_near(uint64_t ns, const struct world *w, uint64_t most)
{
    uint64_t is = (uint64_t)w->ns;

    assert_in_range(ns > is ? ns - is : is - ns, 0, most);
}

/* Until lines are used, asking every 50 us; ms that it took. */
static double learn(struct world *w)
{
    double begin_ns = w->ns;
    uint64_t ns;

    for (uint32_t i = 0; i < 2000000; i++) {
        if (tell(w, &ns))
            return (w->ns - begin_ns) / MS;
        pass(w, 50 * US);
    }
    fail();
    return 0;
}

static void two_measured_rates_make_a_line_that_is_boot_time(void **state)
{
    struct world w = make_world();
    uint64_t ns;

    (void)state;
    assert_true(learn(&w) >= 4.0);
    for (uint32_t i = 0; i < 100000; i++) {
        (void)tell(&w, &ns);
        assert_near(ns, &w, 10);
        pass(&w, 333);
    }
}

static void a_line_ends_with_its_window(void **state)
{
    struct world w = make_world();
    uint64_t ns;

    (void)state;
    (void)learn(&w);
    assert_true(renew(&w));
    pass(&w, PFL_TICK_CLOCK_WINDOW_NS - 10);
    assert_true(pfl_tick_clock_read(&w.clock, (uint64_t)w.ticks, &ns));
    assert_near(ns, &w, 10);
    pass(&w, 20);
    assert_false(pfl_tick_clock_read(&w.clock, (uint64_t)w.ticks, &ns));
}

static void nothing_is_read_from_a_line_while_it_is_renewed(void **state)
{
    struct world w = make_world();
    uint64_t ns;

    (void)state;
    (void)learn(&w);
    assert_true(pfl_tick_clock_try_take(&w.clock));
    assert_false(pfl_tick_clock_try_take(&w.clock));
    assert_false(pfl_tick_clock_read(&w.clock, (uint64_t)w.ticks, &ns));
    pfl_tick_clock_give_back(&w.clock);
    assert_true(pfl_tick_clock_read(&w.clock, (uint64_t)w.ticks, &ns));
}

static void a_reading_that_took_long_is_not_used(void **state)
{
    struct world w = make_world();
    uint64_t ns;

    (void)state;
    (void)learn(&w);
    pass(&w, 10 * US);
    w.took = 5000;
    assert_false(renew(&w));
    assert_true(tell(&w, &ns));
    assert_near(ns, &w, 10);
}

/* Boot time continues while the counter stops, restarts, or ran ahead. */
static void after_a_suspend_the_line_is_given_up(void **state)
{
    static const double ticks_after[] = {0, -1e14, 3600e9 * 2.6};

    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        struct world w = make_world();
        uint64_t ns;

        (void)learn(&w);
        pass(&w, 150 * US); /* stopping and starting a machine takes longer than a window */
        w.ns += 3600e9;
        w.ticks += ticks_after[i];
        assert_false(tell(&w, &ns));
        assert_near(ns, &w, 0);
        pass(&w, 10 * US);
        assert_false(tell(&w, &ns));
        (void)learn(&w);
        (void)tell(&w, &ns);
        assert_near(ns, &w, 10);
    }
}

static void a_jump_of_either_clock_is_noticed_with_the_next_reading(void **state)
{
    static const double jumps_ns[] = {20 * US, -20.0 * US, 300.0 * MS, -300.0 * MS};

    (void)state;
    for (uint32_t i = 0; i < 8; i++) {
        struct world w = make_world();
        uint64_t ns;

        (void)learn(&w);
        pass(&w, 150 * US);
        if (i < 4)
            w.ns += jumps_ns[i];
        else
            w.ticks += jumps_ns[i - 4] * w.ticks_per_ns;
        assert_false(tell(&w, &ns));
        assert_near(ns, &w, 0);
        pass(&w, 10 * US);
        assert_false(pfl_tick_clock_read(&w.clock, (uint64_t)w.ticks, &ns));
    }
}

static void a_clock_that_is_slewed_is_followed(void **state)
{
    struct world w = make_world();
    uint64_t ns;

    (void)state;
    (void)learn(&w);
    for (uint32_t i = 0; i < 200000; i++) {
        w.rate = 1.0 + (i / 10000 % 2 == 0 ? 500e-6 : -500e-6);
        (void)tell(&w, &ns);
        assert_near(ns, &w, 110); /* a thousandth of a window, and rounding */
        pass(&w, 2 * US);
    }
    assert_false(is_resting(&w));
}

static void a_rate_that_changes_by_much_is_wrong_for_one_window(void **state)
{
    struct world w = make_world();
    double wrong_ns = 0;
    uint64_t ns;

    (void)state;
    (void)learn(&w);
    w.rate = 1.08;
    for (uint32_t i = 0; i < 200000; i++) {
        (void)tell(&w, &ns);
        assert_near(ns, &w, 8 * US + 10);
        wrong_ns += ns + 100 < (uint64_t)w.ns ? 1000 : 0;
        pass(&w, 1000);
    }
    assert_true(wrong_ns <= 100 * US);
    assert_false(is_resting(&w));
}

static void what_fails_again_and_again_rests_longer_up_to_a_minute(void **state)
{
    struct world w = make_world();
    double rest_ms = 0;

    (void)state;
    for (uint32_t i = 0; i < 20; i++) {
        double was_ms = rest_ms;

        (void)learn(&w);
        pass(&w, 150 * US);
        w.ns += MS;
        assert_true(renew(&w));
        rest_ms = learn(&w);
        assert_true(rest_ms >= was_ms);
    }
    assert_true(rest_ms > 60e3 && rest_ms < 70e3);
    for (uint32_t i = 0; i < 100; i++) {
        pass(&w, 0.9 * S);
        assert_true(renew(&w));
    }
    pass(&w, 150 * US);
    w.ns += MS;
    assert_true(renew(&w));
    assert_true(learn(&w) < 20);
}

static void a_pause_begins_anew(void **state)
{
    struct world w = make_world();
    uint64_t ns;

    (void)state;
    (void)learn(&w);
    pass(&w, 30.0 * S);
    assert_false(tell(&w, &ns));
    pass(&w, 10 * US);
    assert_false(tell(&w, &ns));
    assert_false(is_resting(&w));
    assert_true(learn(&w) < 10);
}

static void counters_of_no_use_are_not_used(void **state)
{
    static const double rates[] = {0, 0.005, 20, -2.6};

    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        struct world w = make_world();
        uint64_t ns;

        w.ticks_per_ns = rates[i];
        for (uint32_t k = 0; k < 10000; k++) {
            assert_false(tell(&w, &ns));
            pass(&w, 50 * US);
        }
    }
}

/* As many arm64 machines have it: a tick is 40 ns. */
static void a_counter_of_25_mhz_is_boot_time_to_a_few_ticks(void **state)
{
    struct world w = make_world();
    uint64_t ns;

    (void)state;
    w.ticks = 1e12; /* so that a double has fractions of a tick */
    w.ticks_per_ns = 0.025;
    w.took = 4;
    assert_true(learn(&w) < 10);
    for (uint32_t i = 0; i < 100000; i++) {
        (void)tell(&w, &ns);
        assert_near(ns, &w, 90); /* two ticks, and the rate */
        pass(&w, 333);
    }
    assert_false(is_resting(&w));
}

static void a_child_learns_anew_even_if_the_turn_was_taken(void **state)
{
    struct world w = make_world();
    uint64_t ns;

    (void)state;
    (void)learn(&w);
    assert_true(pfl_tick_clock_try_take(&w.clock));
    pfl_tick_clock_forget(&w.clock);
    assert_false(pfl_tick_clock_read(&w.clock, (uint64_t)w.ticks, &ns));
    assert_true(learn(&w) >= 4.0);
}

static uint64_t random_next(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* Rates that wander, readings that are early or late, pauses of all lengths. */
static void in_a_wandering_world_times_stay_within_a_microsecond(void **state)
{
    uint64_t seed = 88172645463325252u;
    uint32_t used = 0;

    (void)state;
    for (uint32_t round = 0; round < 20; round++) {
        struct world w = make_world();
        uint64_t ns;

        w.ticks_per_ns = 0.5 + (double)(random_next(&seed) % 5000) / 1000;
        for (uint32_t i = 0; i < 20000; i++) {
            uint32_t longest = 1u << (random_next(&seed) % 18);

            used += tell(&w, &ns);
            assert_near(ns, &w, 1000);
            w.took = random_next(&seed) % 512;
            w.rate = 1.0 + ((double)(random_next(&seed) % 1000) - 500) * 1e-6;
            pass(&w, (double)(random_next(&seed) % longest));
        }
    }
    assert_true(used > 100000);
}

/* --- the real clocks --------------------------------------------------------------------- */

#define THREADS 4
#define READS   100000
#define NEAR_NS 10000 /* ten times what is promised */

static uint64_t kernel_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_BOOTTIME, &ts);
    return (uint64_t)ts.tv_sec * S + (uint64_t)ts.tv_nsec;
}

struct result {
    uint32_t went_back;
    uint32_t early;
    uint32_t late;
};

static void *compare(void *arg)
{
    struct result *result = arg;
    uint64_t last_ns = 0;

    for (uint32_t i = 0; i < READS; i++) {
        uint64_t before_ns = kernel_ns();
        uint64_t ns = perfleet_time_ns();
        uint64_t after_ns = kernel_ns();

        result->went_back += ns < last_ns;
        result->early += ns + NEAR_NS < before_ns;
        result->late += ns > after_ns + NEAR_NS;
        last_ns = ns;
    }
    return NULL;
}

static void threads_get_boot_time_that_never_goes_back(void **state)
{
    struct result results[THREADS] = {{0}};
    pthread_t ids[THREADS];

    (void)state;
    pfl_clock_init();
    for (uint32_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&ids[i], NULL, compare, &results[i]), 0);
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(ids[i], NULL), 0);
        assert_int_equal(results[i].went_back, 0);
        assert_int_equal(results[i].early, 0);
        assert_int_equal(results[i].late, 0);
    }
}

/* A counter of 1 GHz. */
static bool renew_at(struct pfl_tick_clock *clock, uint64_t ns, uint64_t took)
{
    const struct pfl_tick_reading reading = {
        .ticks = ns, .ns = ns, .ticks_after = ns + took, .took_max = 10};

    return pfl_tick_clock_renew(clock, &reading);
}

static void a_line_is_measured_unless_its_readings_are_too_slow_or_too_far_apart(void **state)
{
    const uint64_t pause_ns = 1000000000u;

    (void)state;
    for (uint64_t more = 0; more < 2; more++) {
        struct pfl_tick_clock clock = {0};

        assert_false(renew_at(&clock, 1000, 11));
        assert_int_equal(clock.ref_ns, 0);
        assert_true(renew_at(&clock, 1000, 10));
        assert_int_equal(clock.ref_ns, 1000);
        assert_true(renew_at(&clock, 1000 + pause_ns + more, 0));
        assert_int_equal(clock.rates, 1 - more); /* else it has begun again */
        assert_int_equal(clock.ref_ns, 1000 + pause_ns + more);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_measured_rates_make_a_line_that_is_boot_time),
        cmocka_unit_test(a_line_ends_with_its_window),
        cmocka_unit_test(nothing_is_read_from_a_line_while_it_is_renewed),
        cmocka_unit_test(a_reading_that_took_long_is_not_used),
        cmocka_unit_test(after_a_suspend_the_line_is_given_up),
        cmocka_unit_test(a_jump_of_either_clock_is_noticed_with_the_next_reading),
        cmocka_unit_test(a_clock_that_is_slewed_is_followed),
        cmocka_unit_test(a_rate_that_changes_by_much_is_wrong_for_one_window),
        cmocka_unit_test(what_fails_again_and_again_rests_longer_up_to_a_minute),
        cmocka_unit_test(a_pause_begins_anew),
        cmocka_unit_test(counters_of_no_use_are_not_used),
        cmocka_unit_test(a_counter_of_25_mhz_is_boot_time_to_a_few_ticks),
        cmocka_unit_test(a_child_learns_anew_even_if_the_turn_was_taken),
        cmocka_unit_test(in_a_wandering_world_times_stay_within_a_microsecond),
        cmocka_unit_test(threads_get_boot_time_that_never_goes_back),
        cmocka_unit_test(a_line_is_measured_unless_its_readings_are_too_slow_or_too_far_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
