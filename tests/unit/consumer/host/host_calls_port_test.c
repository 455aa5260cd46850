/* SPDX-License-Identifier: Apache-2.0 */
/* Requests about many hosts, with a played relay: how many are open, who is left out, what comes
 * too late, and each allocation failing once. */
#include "consumer/host/host_calls_port.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/io/loop.h"
#include "base/mem.h"
#include "tests/support/sweep.h"

#define HOSTS 100u

struct open_call {
    struct pfl_tunnel_call call;
    char path[160];
};

static struct world {
    uv_loop_t loop;
    struct pfl_host_calls *calls;
    struct open_call open[HOSTS];
    size_t open_len;
    size_t most_open;
    size_t asked;
    char path[160]; /* of the last one */
    size_t answered;
    size_t failed; /* of them */
    int err;       /* the last one */
    unsigned over;
    size_t left_out; /* hosts from this one on */
    bool is_silent;
    bool is_away;
} w;

/* The relay: takes a request. */
int pfl_tunnel_client_call(struct pfl_tunnel_client *self, const struct pfl_tunnel_call *call)
{
    (void)self;
    if (w.is_away)
        return PFL_ESTATE;
    w.asked++;
    (void)snprintf(w.path, sizeof(w.path), "%s %s", call->method, call->path);
    w.open[w.open_len++].call = *call;
    if (w.open_len > w.most_open)
        w.most_open = w.open_len;
    return 0;
}

/* Answers the oldest request. */
static void answer(int err, unsigned status, const char *body)
{
    struct pfl_tunnel_call call = w.open[0].call;

    w.open_len--;
    memmove(&w.open[0], &w.open[1], w.open_len * sizeof(w.open[0]));
    call.on_done(call.user, err, status, pfl_span_of(body, strlen(body)));
}

static const char *get_host(void *user, size_t host)
{
    (void)user;
    return host < w.left_out ? "web1" : NULL;
}

static void on_answer(void *user, size_t host, int err, unsigned status, struct pfl_span body)
{
    char why[64];

    (void)user;
    assert_true(host < w.left_out);
    pfl_host_calls_explain(err, status, body, why, sizeof(why));
    w.answered++;
    w.failed += why[0] != '\0';
    w.err = err;
}

static void on_over(void *user)
{
    (void)user;
    w.over++;
}

static int open_calls(uint64_t timeout_ms)
{
    const struct pfl_host_calls_conf conf = {.loop = &w.loop,
                                             .method = "DELETE",
                                             .leaf = "alarms",
                                             .name = "flight",
                                             .hosts_len = HOSTS,
                                             .timeout_ms = timeout_ms,
                                             .get_host = get_host,
                                             .on_answer = on_answer,
                                             .on_over = on_over};

    return pfl_host_calls_open(&conf, &w.calls);
}

static void prepare(void)
{
    w = (struct world){.left_out = HOSTS};
    json_set_alloc_funcs(pfl_mem_alloc, pfl_mem_free);
    assert_int_equal(pfl_loop_init(&w.loop), 0);
}

static void fini(void)
{
    while (w.open_len != 0)
        answer(PFL_ECLOSED, 0, ""); /* the connection ends */
    pfl_host_calls_free(w.calls);
    assert_int_equal(uv_loop_close(&w.loop), 0);
    pfl_sweep_assert_no_leak();
}

/* Turns of the loop, and an answer in each, until the calls are over. */
static void run(void)
{
    while (w.over == 0) {
        (void)uv_run(&w.loop, UV_RUN_NOWAIT);
        if (w.open_len != 0 && !w.is_silent)
            answer(0, 204, "");
    }
    (void)uv_run(&w.loop, UV_RUN_DEFAULT);
}

static void each_host_is_asked_once_and_not_all_at_a_time(void **state)
{
    (void)state;
    prepare();
    w.left_out = HOSTS - 1;
    assert_int_equal(open_calls(60000), 0);
    assert_int_equal(w.asked, 0);
    run();
    assert_int_equal(w.asked, HOSTS - 1);
    assert_int_equal(w.answered, HOSTS - 1);
    assert_int_equal(w.failed, 0);
    assert_int_equal(w.most_open, PFL_HOST_CALLS_OPEN);
    assert_int_equal(w.over, 1);
    assert_string_equal(w.path, "DELETE /v1/hosts/web1/alarms/flight");
    fini();
}

static void without_hosts_it_is_over_at_once(void **state)
{
    (void)state;
    prepare();
    w.left_out = 0;
    assert_int_equal(open_calls(60000), 0);
    run();
    assert_int_equal(w.answered, 0);
    fini();
}

static void hosts_that_are_silent_fail_and_their_answers_come_too_late(void **state)
{
    (void)state;
    prepare();
    w.is_silent = true;
    assert_int_equal(open_calls(1), 0);
    run();
    assert_int_equal(w.answered, HOSTS);
    assert_int_equal(w.failed, HOSTS);
    assert_int_equal(w.err, PFL_ETIMEOUT);
    assert_int_equal(w.open_len, PFL_HOST_CALLS_OPEN);
    answer(0, 204, "");
    assert_int_equal(w.answered, HOSTS);
    fini();
}

static void relay_that_is_away_fails_all(void **state)
{
    (void)state;
    prepare();
    w.is_away = true;
    assert_int_equal(open_calls(60000), 0);
    run();
    assert_int_equal(w.answered, HOSTS);
    assert_int_equal(w.err, PFL_ESTATE);
    fini();
}

static void owner_may_end_it(void **state)
{
    (void)state;
    prepare();
    w.is_silent = true;
    assert_int_equal(open_calls(60000), 0);
    while (w.open_len == 0)
        (void)uv_run(&w.loop, UV_RUN_NOWAIT);
    pfl_host_calls_end(w.calls);
    assert_int_equal(w.answered, HOSTS);
    assert_int_equal(w.err, PFL_ECLOSED);
    pfl_host_calls_end(w.calls);
    assert_int_equal(w.over, 0);
    run();
    assert_int_equal(w.answered, HOSTS);
    fini();
}

static void reasons_are_words(void **state)
{
    static const struct {
        int err;
        unsigned status;
        const char *body;
        const char *why;
    } all[] = {
        {0, 200, "{}", ""},
        {0, 204, "", ""},
        {0, 403, "{\"detail\": \"not <you>\"}", "\"not <you>\""},
        {0, 503, "no JSON", "it answers with status 503"},
        {0, 302, "{\"detail\": 7}", "it answers with status 302"},
        {PFL_ETIMEOUT, 0, "", "no answer in time"},
        {PFL_ESTATE, 0, "", "the connection to the relay was lost"},
        {PFL_ECLOSED, 0, "", "connection closed"},
    };
    char why[64];

    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        pfl_host_calls_explain(all[i].err, all[i].status,
                               pfl_span_of(all[i].body, strlen(all[i].body)), why, sizeof(why));
        assert_string_equal(why, all[i].why);
    }
}

static int run_once(void *arg)
{
    int rc;

    (void)arg;
    prepare();
    rc = open_calls(60000);
    if (rc == 0)
        run();
    rc = rc == 0 && w.failed != 0 ? PFL_ENOMEM : rc;
    fini();
    return rc;
}

static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    pfl_sweep(run_once, NULL, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_host_is_asked_once_and_not_all_at_a_time),
        cmocka_unit_test(without_hosts_it_is_over_at_once),
        cmocka_unit_test(hosts_that_are_silent_fail_and_their_answers_come_too_late),
        cmocka_unit_test(relay_that_is_away_fails_all),
        cmocka_unit_test(owner_may_end_it),
        cmocka_unit_test(reasons_are_words),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
