/* SPDX-License-Identifier: Apache-2.0 */
/* The states of two played hosts: asked for at once, put together, and what is left of one that
 * misbehaves. */
#include "consumer/host/host_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/io/loop.h"
#include "base/log.h"
#include "base/mem.h"
#include "consumer/host/session_find.h"
#include "tests/support/sweep.h"
#include "tests/unit/consumer/fake_host.h"

#define HOSTS      2u
#define TIMEOUT_MS 60000u

struct world {
    uv_loop_t loop;
    struct fake_host fakes[HOSTS];
    struct pfl_host_spec specs[HOSTS];
    struct pfl_fan_out *fan_out;
    unsigned states;
    enum pfl_host_state_scope scope;
    size_t max_bytes; /* of all answers */
};

static void on_state(struct pfl_fan_out_host *host)
{
    ((struct world *)pfl_fan_out_get_user(host))->states++;
    pfl_fan_out_done(host);
}

static void on_ready(void *user, struct pfl_fan_out_host *host)
{
    pfl_host_state_query(host, ((struct world *)user)->scope, on_state);
}

static void on_over(void *user)
{
    struct world *w = user;

    for (size_t i = 0; i < HOSTS; i++)
        fake_host_close(&w->fakes[i]);
}

static void prepare(struct world *w)
{
    *w = (struct world){0};
    pfl_log_set_level(PFL_LOG_ERROR);
    for (size_t i = 0; i < HOSTS; i++)
        w->fakes[i].has_flight = true;
}

static int open_fake(struct world *w, size_t i)
{
    int rc = fake_host_open(&w->fakes[i], &w->loop);

    w->specs[i] = (struct pfl_host_spec){.kind = PFL_HOST_UNIX, .is_named = true};
    (void)snprintf(w->specs[i].name, sizeof(w->specs[i].name), "h%zu", i);
    memcpy(w->specs[i].address, w->fakes[i].address, sizeof(w->fakes[i].address));
    (void)snprintf(w->specs[i].text, sizeof(w->specs[i].text), "text%zu", i);
    return rc;
}

static int run(struct world *w, void (*ready)(void *user, struct pfl_fan_out_host *host))
{
    struct pfl_fan_out_conf conf = {.conn = {.loop = &w->loop},
                                    .specs = w->specs,
                                    .specs_len = HOSTS,
                                    .timeout_ms = TIMEOUT_MS,
                                    .max_bytes = w->max_bytes,
                                    .on_ready = ready,
                                    .on_over = on_over,
                                    .user = w};
    int rc = pfl_loop_init(&w->loop) == 0 ? 0 : PFL_ENOMEM;

    for (size_t i = 0; rc == 0 && i < HOSTS; i++)
        rc = open_fake(w, i);
    if (rc == 0)
        rc = pfl_fan_out_open(&conf, &w->fan_out);
    if (rc != 0)
        on_over(w);
    (void)uv_run(&w->loop, UV_RUN_DEFAULT);
    return rc;
}

static void fini(struct world *w)
{
    pfl_fan_out_free(w->fan_out);
    assert_int_equal(uv_loop_close(&w->loop), 0);
}

static void the_states_of_all_hosts_are_there_when_they_have_ended(void **state)
{
    struct world w;

    (void)state;
    prepare(&w);
    assert_int_equal(run(&w, pfl_host_state_on_ready), 0);
    for (size_t i = 0; i < HOSTS; i++) {
        struct pfl_host_state h = pfl_host_state_get(w.fan_out, i);

        assert_string_equal(h.name, w.specs[i].name);
        assert_string_equal(h.address, w.specs[i].text);
        assert_string_equal(h.why, "");
        assert_int_equal(pfl_session_find(h.state, "flight"), PFL_SESSION_RUNNING);
    }
    fini(&w);
    pfl_sweep_assert_no_leak();
}

static void who_asks_gets_each_state_once_when_it_is_whole(void **state)
{
    struct world w;

    (void)state;
    prepare(&w);
    w.scope = PFL_HOST_STATE_SESSIONS;
    assert_int_equal(run(&w, on_ready), 0);
    assert_int_equal(w.states, HOSTS);
    assert_int_equal(pfl_fan_out_count_failed(w.fan_out), 0);
    fini(&w);
    pfl_sweep_assert_no_leak();
}

static void a_host_that_misbehaves_leaves_the_others_state(void **state)
{
    static const enum fake_trick tricks[] = {FAKE_DIES, FAKE_GARBAGE, FAKE_FAILS};
    struct world w;

    (void)state;
    for (size_t t = 0; t < sizeof(tricks) / sizeof(tricks[0]); t++) {
        prepare(&w);
        w.fakes[1].trick = tricks[t];
        w.fakes[1].method = "QueryServiceState";
        assert_int_equal(run(&w, on_ready), 0);
        assert_int_equal(w.states, 1);
        assert_string_equal(pfl_host_state_get(w.fan_out, 0).why, "");
        assert_true(pfl_host_state_get(w.fan_out, 1).why[0] != '\0');
        fini(&w);
        pfl_sweep_assert_no_leak();
    }
}

static void an_answer_that_is_too_long_fails_its_host_in_words(void **state)
{
    struct world w;

    (void)state;
    prepare(&w);
    w.fakes[1].state_bytes = PFL_FAN_OUT_ANSWER_MAX_BYTES;
    assert_int_equal(run(&w, pfl_host_state_on_ready), 0);
    assert_string_equal(pfl_host_state_get(w.fan_out, 0).why, "");
    assert_string_equal(pfl_host_state_get(w.fan_out, 1).why, "its answer has more than 16 MiB");
    assert_int_equal(pfl_host_state_get(w.fan_out, 1).state.len, 0);
    fini(&w);
    pfl_sweep_assert_no_leak();
}

static void the_answers_of_all_hosts_have_a_maximum_and_the_longest_goes(void **state)
{
    struct world w;

    (void)state;
    prepare(&w);
    w.max_bytes = 1u << 20;
    w.fakes[0].state_bytes = 100u << 10;
    w.fakes[1].state_bytes = 3u << 20;
    assert_int_equal(run(&w, pfl_host_state_on_ready), 0);
    assert_string_equal(pfl_host_state_get(w.fan_out, 0).why, "");
    assert_true(pfl_host_state_get(w.fan_out, 0).state.len > w.fakes[0].state_bytes);
    assert_string_equal(pfl_host_state_get(w.fan_out, 1).why,
                        "its answer is the longest, and the answers of all 2 hosts have more than "
                        "1 MiB: query fewer hosts at once");
    assert_int_equal(pfl_host_state_get(w.fan_out, 1).state.len, 0);
    fini(&w);
    pfl_sweep_assert_no_leak();
}

/* Each has less than the maximum: the one that had ended, or the other, makes room. */
static void an_answer_that_is_whole_makes_room_too(void **state)
{
    struct world w;

    (void)state;
    prepare(&w);
    w.max_bytes = (1u << 20) + (1u << 19);
    w.fakes[0].state_bytes = 600u << 10;
    w.fakes[1].state_bytes = 600u << 10;
    assert_int_equal(run(&w, pfl_host_state_on_ready), 0);
    assert_int_equal(pfl_fan_out_count_failed(w.fan_out), 1);
    for (size_t i = 0; i < HOSTS; i++)
        assert_true((pfl_host_state_get(w.fan_out, i).state.len == 0) ==
                    (pfl_host_state_get(w.fan_out, i).why[0] != '\0'));
    fini(&w);
    pfl_sweep_assert_no_leak();
}

/* ---- connections that are kept for the next fan-out ---- */

struct rounds {
    struct world w;
    struct pfl_fan_out *shown;
    unsigned round;
    unsigned rounds;
    unsigned in_last; /* hosts of the last round */
    bool is_asked;    /* the round is over */
    void (*between)(struct rounds *r);
};

static unsigned count_connections(const struct world *w)
{
    unsigned count = 0;

    for (size_t i = 0; i < HOSTS; i++)
        count += w->fakes[i].conns_len;
    return count;
}

static void on_round_over(void *user)
{
    ((struct rounds *)user)->is_asked = true;
}

static int open_round(struct rounds *r)
{
    struct pfl_fan_out_conf conf = {.conn = {.loop = &r->w.loop},
                                    .specs = r->w.specs,
                                    .specs_len = r->round + 1 < r->rounds ? HOSTS : r->in_last,
                                    .timeout_ms = TIMEOUT_MS,
                                    .on_ready = pfl_host_state_on_ready,
                                    .on_over = on_round_over,
                                    .keeps = true,
                                    .former = r->shown,
                                    .user = r};

    return pfl_fan_out_open(&conf, &r->w.fan_out);
}

static void end_round(struct rounds *r)
{
    pfl_fan_out_free(r->shown);
    r->shown = r->w.fan_out;
    r->w.fan_out = NULL;
    r->is_asked = false;
    r->round++;
    if (r->between != NULL)
        r->between(r);
}

/* As `hosts --watch` does. */
static int run_rounds(struct rounds *r)
{
    int rc = pfl_loop_init(&r->w.loop) == 0 ? 0 : PFL_ENOMEM;

    for (size_t i = 0; rc == 0 && i < HOSTS; i++)
        rc = open_fake(&r->w, i);
    while (rc == 0 && r->round < r->rounds) {
        rc = open_round(r);
        while (rc == 0 && !(r->is_asked && pfl_fan_out_is_closed(r->shown)))
            (void)uv_run(&r->w.loop, UV_RUN_ONCE);
        if (rc == 0)
            end_round(r);
    }
    pfl_fan_out_close_kept(r->shown);
    on_over(&r->w);
    (void)uv_run(&r->w.loop, UV_RUN_DEFAULT);
    return rc;
}

static void end_rounds(struct rounds *r)
{
    assert_true(pfl_fan_out_is_closed(r->shown));
    pfl_fan_out_free(r->shown);
    assert_int_equal(uv_loop_close(&r->w.loop), 0);
    pfl_sweep_assert_no_leak();
}

static void many_rounds_have_one_connection_to_each_host(void **state)
{
    struct rounds r = {.rounds = 5, .in_last = HOSTS};

    (void)state;
    prepare(&r.w);
    assert_int_equal(run_rounds(&r), 0);
    assert_int_equal(r.round, 5);
    assert_int_equal(count_connections(&r.w), HOSTS);
    assert_int_equal(pfl_fan_out_count_failed(r.shown), 0);
    for (size_t i = 0; i < HOSTS; i++)
        assert_int_equal(pfl_session_find(pfl_host_state_get(r.shown, i).state, "flight"),
                         PFL_SESSION_RUNNING);
    end_rounds(&r);
}

static void the_connection_of_a_host_that_is_not_asked_again_is_closed(void **state)
{
    struct rounds r = {.rounds = 2, .in_last = 1};

    (void)state;
    prepare(&r.w);
    assert_int_equal(run_rounds(&r), 0);
    assert_int_equal(pfl_fan_out_get_len(r.shown), 1);
    assert_string_equal(pfl_host_state_get(r.shown, 0).why, "");
    end_rounds(&r);
}

static void kill_first(struct rounds *r)
{
    if (r->round == 1)
        fake_host_drop(&r->w.fakes[0]);
}

/* A host that was restarted fails in the round that finds it out, at the latest. */
static void a_kept_connection_that_broke_is_opened_again(void **state)
{
    struct rounds r = {.rounds = 3, .in_last = HOSTS, .between = kill_first};

    (void)state;
    prepare(&r.w);
    assert_int_equal(run_rounds(&r), 0);
    assert_int_equal(r.round, 3);
    assert_int_equal(pfl_fan_out_count_failed(r.shown), 0);
    assert_int_equal(count_connections(&r.w), HOSTS + 1);
    end_rounds(&r);
}

static int run_two_rounds(void *arg)
{
    struct rounds r = {.rounds = 2, .in_last = HOSTS};
    int rc;

    (void)arg;
    prepare(&r.w);
    rc = run_rounds(&r);
    end_rounds(&r);
    return rc;
}

static int run_once(void *arg)
{
    struct world w;
    int rc;

    (void)arg;
    prepare(&w);
    rc = run(&w, pfl_host_state_on_ready);
    fini(&w);
    return rc;
}

static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    pfl_sweep(run_once, NULL, true);
    pfl_sweep(run_two_rounds, NULL, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_states_of_all_hosts_are_there_when_they_have_ended),
        cmocka_unit_test(who_asks_gets_each_state_once_when_it_is_whole),
        cmocka_unit_test(a_host_that_misbehaves_leaves_the_others_state),
        cmocka_unit_test(an_answer_that_is_too_long_fails_its_host_in_words),
        cmocka_unit_test(the_answers_of_all_hosts_have_a_maximum_and_the_longest_goes),
        cmocka_unit_test(an_answer_that_is_whole_makes_room_too),
        cmocka_unit_test(many_rounds_have_one_connection_to_each_host),
        cmocka_unit_test(the_connection_of_a_host_that_is_not_asked_again_is_closed),
        cmocka_unit_test(a_kept_connection_that_broke_is_opened_again),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
