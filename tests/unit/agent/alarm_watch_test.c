/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's wait for triggers and an alarm's copy, before a service that refuses, goes away and
 * forgets. */
#include "agent/alarm_watch_port.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h> /* mkdtemp */
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/alarm_port.h"
#include "base/io/fdsock.h"
#include "base/io/listener.h"
#include "base/log.h"
#include "base/mem.h"
#include "proto/rpc_host.h"
#include "tests/support/sweep.h"

#define TURNS 2000

struct fixture {
    uv_loop_t loop;
    char folder[64];
    char path[96];
    struct pfl_listener *listener;
    struct pfl_list servers;
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

struct server {
    struct pfl_list node;
    struct fixture *f;
    struct pfl_stream *stream;
    struct pfl_rpc_host rpc;
    struct pfl_rpc_request enabled;
    struct pfl_rpc_request observed;
    bool has_session;
    bool has_observer;
};

/* ---- the service ---- */

static int send_frame(void *user, const struct iovec *iov, int iov_len, int fd)
{
    struct server *s = user;

    return pfl_stream_writev(s->stream, iov, iov_len, fd);
}

static int reply(struct server *s, struct pfl_rpc_request request, unsigned flags,
                 struct pfl_span body)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)body.data, .iov_len = body.len};

    return pfl_rpc_host_reply(&s->rpc, request, flags, &iov, body.len != 0, -1);
}

static int enable(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    static const uint8_t disabled[] = {0x08, 0x01};
    struct server *s = user;

    (void)args;
    if (s->f->sessions >= s->f->max_sessions)
        return reply(s, request, PFL_RPC_SUCCESS, pfl_span_of(disabled, sizeof(disabled)));
    s->f->sessions++;
    s->f->begun++;
    s->has_session = true;
    s->enabled = request;
    return 0;
}

static int observe(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    struct server *s = user;

    (void)args;
    s->observed = request;
    s->has_observer = true;
    return 0;
}

static int get_stats(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    struct server *s = user;

    (void)args;
    return reply(s, request, s->has_session ? PFL_RPC_SUCCESS : 0, pfl_span_of(NULL, 0));
}

static int clone_session(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    static const uint8_t made[] = {0x08, 0x01};
    static const uint8_t refused[] = {0x12, 0x03, 'n', 0x1b, 'o'};
    struct server *s = user;

    (void)args;
    return reply(s, request, PFL_RPC_SUCCESS,
                 s->f->is_refusing ? pfl_span_of(refused, sizeof(refused))
                                   : pfl_span_of(made, sizeof(made)));
}

static int detach(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    static const uint8_t key[] = "\x0a\x0ering.triggered";
    struct server *s = user;

    assert_int_equal(args.len, sizeof(key) - 1);
    assert_memory_equal(args.data, key, args.len);
    s->f->copies++;
    return reply(s, request, PFL_RPC_SUCCESS, pfl_span_of(NULL, 0));
}

static const struct pfl_rpc_method methods[] = {
    {"EnableTracing", enable},       {"ObserveEvents", observe}, {"GetTraceStats", get_stats},
    {"CloneSession", clone_session}, {"Detach", detach},
};
static const struct pfl_rpc_service consumer_port = {"ConsumerPort", methods,
                                                     sizeof(methods) / sizeof(methods[0])};

static void on_data(void *user, struct pfl_span data)
{
    struct server *s = user;

    if (pfl_rpc_host_feed(&s->rpc, data) != 0)
        pfl_stream_close(s->stream);
}

static void on_eof(void *user)
{
    pfl_stream_close(((struct server *)user)->stream);
}

static void on_closed(void *user, int err)
{
    struct server *s = user;

    (void)err;
    s->f->sessions -= s->has_session;
    pfl_list_remove(&s->node);
    pfl_rpc_host_fini(&s->rpc);
    pfl_listener_release(s->f->listener);
    pfl_mem_free(s);
}

static const struct pfl_stream_ops ops = {
    .on_data = on_data, .on_eof = on_eof, .on_closed = on_closed};

static void on_accept(void *user, int fd)
{
    struct fixture *f = user;
    struct server *s = pfl_mem_zalloc(sizeof(*s));
    struct pfl_stream_conf stream = {
        .loop = &f->loop, .ops = &ops, .user = s, .queue_max_bytes = 1 << 20};
    struct pfl_rpc_host_conf rpc = {
        .services = &consumer_port, .services_len = 1, .user = s, .send = send_frame};

    if (s == NULL || pfl_fdsock_open(&stream, fd, &s->stream) != 0) {
        pfl_mem_free(s);
        (void)close(fd);
        pfl_listener_release(f->listener);
        return;
    }
    s->f = f;
    pfl_list_append(&f->servers, &s->node);
    pfl_rpc_host_init(&s->rpc, &rpc);
}

static struct server *server_of(struct pfl_list *node)
{
    return PFL_CONTAINER_OF(node, struct server, node);
}

/* Of every session; those that have not this trigger are told, too. */
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
    PFL_LIST_EACH (it, &f->servers) {
        if (server_of(it)->has_observer && server_of(it)->has_session)
            assert_int_equal(reply(server_of(it), server_of(it)->observed,
                                   PFL_RPC_SUCCESS | PFL_RPC_HAS_MORE,
                                   pfl_span_of(body, sizeof(body) - b.left)),
                             0);
    }
}

static void hang_up(struct fixture *f)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &f->servers)
        pfl_stream_close(server_of(it)->stream);
}

static bool is_listening(struct fixture *f)
{
    struct pfl_listener_conf conf = {.loop = &f->loop,
                                     .address = f->path,
                                     .max_connections = 64,
                                     .mode = -1,
                                     .on_accept = on_accept,
                                     .user = f};

    return pfl_listener_open(&conf, &f->listener) == 0;
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
    struct pfl_alarm_watch_conf conf = {.loop = &f->loop,
                                        .socket = f->path,
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
        (void)uv_run(&f->loop, UV_RUN_ONCE);
    assert_true(is_done(f));
}

static bool is_closed(struct fixture *f)
{
    return f->is_closed && f->sessions == 0 && pfl_list_is_empty(&f->servers);
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
    (void)snprintf(f->folder, sizeof(f->folder), "/tmp/pfl-alarm-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    (void)snprintf(f->path, sizeof(f->path), "%s/s", f->folder);
    assert_int_equal(uv_loop_init(&f->loop), 0);
    pfl_list_init(&f->servers);
    pfl_list_init(&f->alarms);
    f->max_sessions = 99;
    assert_true(is_listening(f));
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    pfl_listener_close(f->listener);
    for (int i = 0; i < TURNS && uv_run(&f->loop, UV_RUN_NOWAIT) != 0; i++)
        continue; /* a claim that failed may have left something open */
    assert_int_equal(uv_loop_close(&f->loop), 0);
    (void)unlink(f->path);
    (void)rmdir(f->folder);
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
    hang_up(f);
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
            (void)uv_run(&f->loop, UV_RUN_NOWAIT);
        want(f, "boom", "bang");
        for (int i = 0; i < turns; i++)
            (void)uv_run(&f->loop, UV_RUN_NOWAIT);
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
    struct pfl_agent_alarm_conf conf = {
        .loop = &f->loop, .socket = f->path, .order = &order, .on_gone = on_alarm_gone, .user = f};
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
    return f->is_alarm_gone && pfl_list_is_empty(&f->servers);
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
            (void)uv_run(&f->loop, UV_RUN_NOWAIT);
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
