/* SPDX-License-Identifier: Apache-2.0 */
/* A session "flight" that was left running on a played host: stopped, discarded, counted; one that
 * is not there, or that a consumer holds; each allocation failing once. */
#include "consumer/host/detached_session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/io/loop.h"
#include "base/log.h"
#include "tests/support/sweep.h"
#include "tests/unit/consumer/fake_host.h"

#define TIMEOUT_MS 60000u

struct world {
    uv_loop_t loop;
    struct fake_host fake;
    struct pfl_host_spec spec;
    struct pfl_fan_out *fan_out;
    const char *why; /* of the host, after run */
};

static void stop(void *user, struct pfl_fan_out_host *host)
{
    (void)user;
    pfl_detached_session_stop(host, "flight");
}

static void discard(void *user, struct pfl_fan_out_host *host)
{
    (void)user;
    pfl_detached_session_discard(host, "flight");
}

static void count(void *user, struct pfl_fan_out_host *host)
{
    (void)user;
    pfl_detached_session_count(host, "flight");
}

static void on_over(void *user)
{
    fake_host_close(&((struct world *)user)->fake);
}

static void prepare(struct world *w)
{
    *w = (struct world){.fake = {.has_flight = true}, .why = ""};
    pfl_log_set_level(PFL_LOG_ERROR);
}

static int run(struct world *w, void (*ready)(void *user, struct pfl_fan_out_host *host))
{
    struct pfl_fan_out_conf conf = {.conn = {.loop = &w->loop},
                                    .specs = &w->spec,
                                    .specs_len = 1,
                                    .timeout_ms = TIMEOUT_MS,
                                    .on_ready = ready,
                                    .on_over = on_over,
                                    .user = w};
    int rc = pfl_loop_init(&w->loop) == 0 ? 0 : PFL_ENOMEM;

    if (rc == 0)
        rc = fake_host_open(&w->fake, &w->loop);
    w->spec = (struct pfl_host_spec){.kind = PFL_HOST_UNIX, .is_named = true, .name = "h"};
    (void)snprintf(w->spec.address, sizeof(w->spec.address), "%s", w->fake.address);
    if (rc == 0)
        rc = pfl_fan_out_open(&conf, &w->fan_out);
    if (rc != 0)
        on_over(w);
    (void)uv_run(&w->loop, UV_RUN_DEFAULT);
    if (w->fan_out != NULL)
        w->why = pfl_fan_out_get_host(w->fan_out, 0)->why;
    return rc;
}

static void fini(struct world *w)
{
    pfl_fan_out_free(w->fan_out);
    assert_int_equal(uv_loop_close(&w->loop), 0);
}

static void session_is_stopped_and_left_to_be_read(void **state)
{
    struct world w;

    (void)state;
    prepare(&w);
    w.fake.looks_until_over = 3;
    assert_int_equal(run(&w, stop), 0);
    assert_string_equal(w.why, "");
    assert_true(w.fake.is_flight_over);
    assert_int_equal(w.fake.looks_until_over, 0);
    assert_false(w.fake.is_flight_held);
    assert_false(w.fake.was_flight_freed);
    fini(&w);
    pfl_sweep_assert_no_leak();
}

static void session_that_has_ended_is_not_stopped_again(void **state)
{
    struct world w;

    (void)state;
    prepare(&w);
    w.fake.is_flight_over = true;
    w.fake.trick = FAKE_FAILS;
    w.fake.method = "Attach";
    assert_int_equal(run(&w, stop), 0);
    assert_string_equal(w.why, "");
    fini(&w);
}

static void session_is_discarded(void **state)
{
    struct world w;

    (void)state;
    prepare(&w);
    assert_int_equal(run(&w, discard), 0);
    assert_string_equal(w.why, "");
    assert_true(w.fake.was_flight_freed);
    fini(&w);
    pfl_sweep_assert_no_leak();
}

static void session_is_counted_and_stays(void **state)
{
    struct world w;

    (void)state;
    prepare(&w);
    assert_int_equal(run(&w, count), 0);
    assert_string_equal(w.why, "");
    assert_true(pfl_buf_get(&pfl_fan_out_get_host(w.fan_out, 0)->answer).len != 0);
    assert_false(w.fake.was_flight_freed);
    assert_false(w.fake.is_flight_held);
    fini(&w);
    pfl_sweep_assert_no_leak();
}

static void session_that_is_held_or_not_there_is_said(void **state)
{
    static void (*const all[])(void *, struct pfl_fan_out_host *) = {stop, discard, count};
    struct world w;

    (void)state;
    for (size_t i = 0; i < 2 * sizeof(all) / sizeof(all[0]); i++) {
        prepare(&w);
        w.fake.has_flight = i % 2 == 0;
        w.fake.is_flight_held = true;
        assert_int_equal(run(&w, all[i / 2]), 0);
        assert_non_null(strstr(w.why, "or another consumer holds it"));
        fini(&w);
    }
}

static void host_that_misbehaves_fails_with_a_reason(void **state)
{
    static const struct {
        void (*ready)(void *, struct pfl_fan_out_host *);
        const char *method;
    } all[] = {{stop, "QueryServiceState"}, {stop, "DisableTracing"}, {stop, "Detach"},
               {discard, "FreeBuffers"},    {count, "GetTraceStats"}, {count, "Detach"}};
    static const enum fake_trick tricks[] = {FAKE_DIES, FAKE_GARBAGE, FAKE_FAILS};
    struct world w;

    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        for (size_t t = 0; t < sizeof(tricks) / sizeof(tricks[0]); t++) {
            prepare(&w);
            w.fake.trick = tricks[t];
            w.fake.method = all[i].method;
            assert_int_equal(run(&w, all[i].ready), 0);
            assert_true(w.why[0] != '\0');
            fini(&w);
            pfl_sweep_assert_no_leak();
        }
    }
}

static int run_once(void *arg)
{
    struct world w;
    int rc;

    prepare(&w);
    rc = run(&w, *(void (**)(void *, struct pfl_fan_out_host *))arg);
    fini(&w);
    return rc;
}

static void every_failed_allocation_is_survived(void **state)
{
    static void (*all[])(void *, struct pfl_fan_out_host *) = {stop, discard, count};

    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        pfl_sweep(run_once, &all[i], true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(session_is_stopped_and_left_to_be_read),
        cmocka_unit_test(session_that_has_ended_is_not_stopped_again),
        cmocka_unit_test(session_is_discarded),
        cmocka_unit_test(session_is_counted_and_stays),
        cmocka_unit_test(session_that_is_held_or_not_there_is_said),
        cmocka_unit_test(host_that_misbehaves_fails_with_a_reason),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
