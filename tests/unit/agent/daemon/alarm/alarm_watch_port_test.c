/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's wait for triggers and an alarm's copy, before a service that refuses, goes away and
 * forgets. */
#include "agent/daemon/alarm/alarm_watch_port.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/daemon/alarm/alarm_port.h"
#include "base/log.h"
#include "base/mem.h"
#include "tests/support/sweep.h"
#include "tests/unit/tunnel/service_kit.h"

#define TURNS 2000

struct fixture {
    struct service_kit kit; /* first: a peer's kit is its fixture */
    unsigned max_sessions;
    unsigned sessions;
    unsigned begun;   /* sessions so far */
    unsigned copies;  /* that were left */
    bool is_refusing; /* to copy */
    struct pfl_alarm_watch *watch;
    char hits[64];
    bool is_closed;
    struct pfl_agent_alarm *alarm;
    struct pfl_list alarms;
    bool is_alarm_gone;
};

/* ---- the service ---- */

static struct fixture *fixture_of(struct service_peer *peer)
{
    return (struct fixture *)peer->kit;
}

static int enable(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    static const uint8_t disabled[] = {0x08, 0x01};
    struct service_peer *p = user;
    struct fixture *f = fixture_of(p);

    (void)args;
    if (f->sessions >= f->max_sessions)
        return service_peer_reply(p, request, PFL_RPC_SUCCESS,
                                  pfl_span_of(disabled, sizeof(disabled)));
    f->sessions++;
    f->begun++;
    p->has_session = true;
    return 0;
}

static int observe(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    struct service_peer *p = user;

    (void)args;
    p->observed = request;
    p->has_observer = true;
    return 0;
}

static int get_stats(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    struct service_peer *p = user;

    (void)args;
    return service_peer_reply(p, request, p->has_session ? PFL_RPC_SUCCESS : 0,
                              pfl_span_of(NULL, 0));
}

static int clone_session(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    static const uint8_t made[] = {0x08, 0x01};
    static const uint8_t refused[] = {0x12, 0x03, 'n', 0x1b, 'o'};
    bool is_refusing = fixture_of(user)->is_refusing;

    (void)args;
    return service_peer_reply(user, request, PFL_RPC_SUCCESS,
                              is_refusing ? pfl_span_of(refused, sizeof(refused))
                                          : pfl_span_of(made, sizeof(made)));
}

static int detach(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    static const uint8_t key[] = "\x0a\x0ering.triggered";

    assert_int_equal(args.len, sizeof(key) - 1);
    assert_memory_equal(args.data, key, args.len);
    fixture_of(user)->copies++;
    return service_peer_reply(user, request, PFL_RPC_SUCCESS, pfl_span_of(NULL, 0));
}

static const struct pfl_rpc_method methods[] = {
    {"EnableTracing", enable},       {"ObserveEvents", observe}, {"GetTraceStats", get_stats},
    {"CloneSession", clone_session}, {"Detach", detach},
};
static const struct pfl_rpc_service consumer_port = {"ConsumerPort", methods,
                                                     sizeof(methods) / sizeof(methods[0])};

static void on_gone(struct service_peer *p)
{
    fixture_of(p)->sessions -= p->has_session;
}

/* Of every session; those without this trigger are reported to, too. */
static void hit(struct fixture *f, const char *trigger)
{
    uint8_t name[32];
    uint8_t event[48];
    uint8_t body[64];
    struct pfl_writer n = pfl_writer_of(name, sizeof(name));
    struct pfl_writer e = pfl_writer_of(event, sizeof(event));
    struct pfl_writer b = pfl_writer_of(body, sizeof(body));
    struct pfl_list *it;

    pfl_writer_field_bytes(&n, 2, trigger, strlen(trigger));
    pfl_writer_field_bytes(&e, 3, name, sizeof(name) - n.left);
    pfl_writer_field_bytes(&b, 1, event, sizeof(event) - e.left);
    PFL_LIST_EACH (it, &f->kit.peers) {
        struct service_peer *p = PFL_CONTAINER_OF(it, struct service_peer, node);

        if (p->has_observer && p->has_session)
            assert_int_equal(service_peer_reply(p, p->observed, PFL_RPC_SUCCESS | PFL_RPC_HAS_MORE,
                                                pfl_span_of(body, sizeof(body) - b.left)),
                             0);
    }
}

/* ---- the watch ---- */

static void on_hit(void *user, const char *trigger)
{
    struct fixture *f = user;
    size_t len = strlen(f->hits);

    (void)snprintf(f->hits + len, sizeof(f->hits) - len, "%s ", trigger);
}

static void on_changed(void *user)
{
    (void)user;
}

static void on_watch_closed(void *user)
{
    ((struct fixture *)user)->is_closed = true;
}

static int open_watch(struct fixture *f)
{
    struct pfl_alarm_watch_conf conf = {.loop = &f->kit.loop,
                                        .socket = f->kit.path,
                                        .retry_ms = 1,
                                        .on_hit = on_hit,
                                        .on_changed = on_changed,
                                        .on_closed = on_watch_closed,
                                        .user = f};

    f->is_closed = false;
    f->hits[0] = '\0';
    return pfl_alarm_watch_open(&conf, &f->watch);
}

static void turn(struct fixture *f, bool (*is_done)(struct fixture *f))
{
    for (int i = 0; i < TURNS && !is_done(f); i++)
        (void)uv_run(&f->kit.loop, UV_RUN_ONCE);
    assert_true(is_done(f));
}

static bool is_closed(struct fixture *f)
{
    return f->is_closed && f->sessions == 0 && pfl_list_is_empty(&f->kit.peers);
}

static void close_watch(struct fixture *f)
{
    pfl_alarm_watch_close(f->watch);
    turn(f, is_closed);
}

static void want(struct fixture *f, const char *first, const char *second)
{
    struct pfl_alarm_watch_set set = {.len = 0};

    if (first != NULL)
        pfl_alarm_watch_set_add(&set, first);
    if (second != NULL)
        pfl_alarm_watch_set_add(&set, second);
    pfl_alarm_watch_want(f->watch, &set);
}

static bool has_boom(struct fixture *f)
{
    return pfl_alarm_watch_covers(f->watch, "boom");
}

static bool has_both(struct fixture *f)
{
    return has_boom(f) && pfl_alarm_watch_covers(f->watch, "bang");
}

static bool has_one_session(struct fixture *f)
{
    return f->sessions == 1;
}

static bool has_none(struct fixture *f)
{
    return f->sessions == 0 && !has_boom(f);
}

static bool was_hit(struct fixture *f)
{
    return f->hits[0] != '\0';
}

static bool is_refused(struct fixture *f)
{
    return pfl_alarm_watch_get_why(f->watch)[0] != '\0';
}

static int set_up(void **state)
{
    struct fixture *f = pfl_mem_zalloc(sizeof(*f));

    pfl_log_set_level(PFL_LOG_ERROR);
    service_kit_open(&f->kit);
    f->kit.service = &consumer_port;
    f->kit.on_gone = on_gone;
    pfl_list_init(&f->alarms);
    f->max_sessions = 99;
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    service_kit_close(&f->kit);
    pfl_mem_free(f);
    pfl_sweep_assert_no_leak();
    return 0;
}

static void all_triggers_are_waited_for_with_one_session(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(open_watch(f), 0);
    want(f, "boom", NULL);
    assert_false(has_boom(f));
    turn(f, has_boom);
    want(f, "boom", "bang");
    assert_true(has_boom(f)); /* the one before waits on */
    turn(f, has_both);
    turn(f, has_one_session);
    want(f, "bang", NULL); /* fewer need no other session */
    assert_true(has_both(f));
    hit(f, "nobody's");
    hit(f, "bang");
    turn(f, was_hit);
    assert_string_equal(f->hits, "bang ");
    assert_int_equal(f->begun, 2);
    want(f, NULL, NULL);
    turn(f, has_none);
    close_watch(f);
}

static void where_sessions_are_few_the_one_before_gives_way(void **state)
{
    struct fixture *f = *state;

    f->max_sessions = 1;
    assert_int_equal(open_watch(f), 0);
    want(f, "boom", NULL);
    turn(f, has_boom);
    want(f, "boom", "bang");
    turn(f, has_both);
    assert_int_equal(f->sessions, 1);
    close_watch(f);
}

static void a_service_that_refuses_is_asked_until_it_does_not(void **state)
{
    struct fixture *f = *state;

    f->max_sessions = 0;
    assert_int_equal(open_watch(f), 0);
    want(f, "boom", NULL);
    turn(f, is_refused);
    assert_non_null(strstr(pfl_alarm_watch_get_why(f->watch), "ended the session"));
    f->max_sessions = 1;
    turn(f, has_boom);
    assert_false(is_refused(f));
    close_watch(f);
}

static void a_service_that_goes_is_found_again(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(open_watch(f), 0);
    want(f, "boom", NULL);
    turn(f, has_boom);
    service_kit_hang_up(&f->kit);
    turn(f, has_none);
    turn(f, has_boom);
    assert_int_equal(f->begun, 2);
    close_watch(f);
}

static void a_close_at_any_moment_leaves_no_session(void **state)
{
    struct fixture *f = *state;

    for (int turns = 0; turns < 12; turns++) {
        assert_int_equal(open_watch(f), 0);
        want(f, "boom", NULL);
        for (int i = 0; i < turns; i++)
            (void)uv_run(&f->kit.loop, UV_RUN_NOWAIT);
        want(f, "boom", "bang");
        for (int i = 0; i < turns; i++)
            (void)uv_run(&f->kit.loop, UV_RUN_NOWAIT);
        close_watch(f);
    }
}

static int watch_once(void *arg)
{
    struct fixture *f = arg;
    int rc = open_watch(f);

    if (rc != 0)
        return rc;
    want(f, "boom", NULL);
    turn(f, has_boom);
    close_watch(f);
    return 0;
}

/* What fails is tried again. */
static void every_allocation_may_fail(void **state)
{
    pfl_sweep(watch_once, *state, true);
}

/* ---- a copy ---- */

static void on_alarm_gone(void *user)
{
    ((struct fixture *)user)->is_alarm_gone = true;
}

static int open_alarm(struct fixture *f)
{
    struct pfl_agent_alarm_order order = {
        .operator_name = "me", .session = "ring", .triggers = {"boom"}, .triggers_len = 1};
    struct pfl_agent_alarm_conf conf = {.loop = &f->kit.loop,
                                        .socket = f->kit.path,
                                        .order = &order,
                                        .on_gone = on_alarm_gone,
                                        .user = f};
    int rc = pfl_agent_alarm_open(&conf, &f->alarm);

    f->is_alarm_gone = false;
    f->copies = 0;
    if (rc == 0)
        pfl_list_append(&f->alarms, pfl_agent_alarm_get_node(f->alarm));
    return rc;
}

static const char *state_of(struct fixture *f, const char **ret_why)
{
    static struct pfl_agent_alarm_info info;

    pfl_agent_alarm_get_info(f->alarm, &info);
    if (ret_why != NULL)
        *ret_why = info.why;
    return info.state;
}

static bool has_copied_or_failed(struct fixture *f)
{
    return strcmp(state_of(f, NULL), "copied") == 0 || strcmp(state_of(f, NULL), "failed") == 0;
}

static bool is_alarm_gone(struct fixture *f)
{
    return f->is_alarm_gone && pfl_list_is_empty(&f->kit.peers);
}

static void close_alarm(struct fixture *f)
{
    pfl_agent_alarm_close(f->alarm);
    turn(f, is_alarm_gone);
}

static void an_alarm_copies_once_and_for_its_own_triggers(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(open_alarm(f), 0);
    assert_string_equal(state_of(f, NULL), "arming");
    pfl_agent_alarm_set_watched(f->alarm, true, "");
    assert_string_equal(state_of(f, NULL), "armed");
    assert_false(pfl_agent_alarm_raise(f->alarm, "bang", "two"));
    assert_true(pfl_agent_alarm_raise(f->alarm, "boom", "two"));
    assert_false(pfl_agent_alarm_raise(f->alarm, "boom", ""));
    turn(f, has_copied_or_failed);
    assert_string_equal(state_of(f, NULL), "copied");
    assert_false(pfl_agent_alarm_raise(f->alarm, "boom", ""));
    pfl_agent_alarm_set_watched(f->alarm, false, "the service is away");
    assert_string_equal(state_of(f, NULL), "copied");
    assert_int_equal(f->copies, 1);
    close_alarm(f);
}

static void a_copy_that_is_refused_says_why(void **state)
{
    struct fixture *f = *state;
    const char *why;

    f->is_refusing = true;
    assert_int_equal(open_alarm(f), 0);
    assert_true(pfl_agent_alarm_raise(f->alarm, "boom", ""));
    turn(f, has_copied_or_failed);
    assert_string_equal(state_of(f, &why), "failed");
    assert_non_null(strstr(why, "n\\x1bo"));
    close_alarm(f);
}

static void a_close_while_it_copies_leaves_nothing_open(void **state)
{
    struct fixture *f = *state;

    for (int turns = 0; turns < 10; turns++) {
        assert_int_equal(open_alarm(f), 0);
        assert_true(pfl_agent_alarm_raise(f->alarm, "boom", ""));
        for (int i = 0; i < turns; i++)
            (void)uv_run(&f->kit.loop, UV_RUN_NOWAIT);
        close_alarm(f);
    }
}

static int copy_once(void *arg)
{
    struct fixture *f = arg;
    int rc = open_alarm(f);

    if (rc != 0)
        return rc;
    assert_true(pfl_agent_alarm_raise(f->alarm, "boom", ""));
    turn(f, has_copied_or_failed);
    rc = strcmp(state_of(f, NULL), "copied") == 0 ? 0 : PFL_ENOMEM;
    close_alarm(f);
    return rc;
}

static void every_allocation_of_a_copy_may_fail(void **state)
{
    pfl_sweep(copy_once, *state, true);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(all_triggers_are_waited_for_with_one_session),
        TEST(where_sessions_are_few_the_one_before_gives_way),
        TEST(a_service_that_refuses_is_asked_until_it_does_not),
        TEST(a_service_that_goes_is_found_again),
        TEST(a_close_at_any_moment_leaves_no_session),
        TEST(every_allocation_may_fail),
        TEST(an_alarm_copies_once_and_for_its_own_triggers),
        TEST(a_copy_that_is_refused_says_why),
        TEST(a_close_while_it_copies_leaves_nothing_open),
        TEST(every_allocation_of_a_copy_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
