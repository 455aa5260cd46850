/* SPDX-License-Identifier: Apache-2.0 */
/* Asking a service for its figures: one that has them, one that has not, nobody, and nonsense. */
#include "tunnel/service_watch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h> /* mkdtemp */
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/io/fdsock.h"
#include "base/io/listener.h"
#include "base/log.h"
#include "base/mem.h"
#include "proto/rpc_host.h"
#include "tests/support/sweep.h"

enum kind {
    WITH_FIGURES,
    WITHOUT, /* as Perfetto's */
    NONSENSE,
    HANGS_UP,
    ANOTHER_PORT, /* it does not know ConsumerPort */
};

struct fixture {
    uv_loop_t loop;
    struct pfl_service_watch *watch;
    char folder[64];
    char path[96];
    struct pfl_listener *listener;
    enum kind kind;
    unsigned done;
    unsigned connections;
    unsigned questions;
};

struct server {
    struct fixture *f;
    struct pfl_stream *stream;
    struct pfl_rpc_host rpc;
};

/* ---- the service ---- */

static int send_frame(void *user, const struct iovec *iov, int iov_len, int fd)
{
    struct server *s = user;

    return pfl_stream_writev(s->stream, iov, iov_len, fd);
}

static int answer(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    static const uint8_t plain[] = {0x0a, 0x04, 0x18, 0x03, 0x0a, 0x00};
    static const uint8_t figures[] = {0x0a, 0x08, 0x18, 0x03, 0x8a,
                                      0xb5, 0x18, 0x02, 0x08, 0x09}; /* producers: 9 */
    struct server *s = user;
    bool has_figures = s->f->kind == WITH_FIGURES && args.len != 0;
    struct iovec body = {.iov_base = (void *)(uintptr_t)(has_figures ? figures : plain),
                         .iov_len = has_figures ? sizeof(figures) : sizeof(plain)};

    s->f->questions++;
    if (s->f->kind == WITHOUT && s->f->questions % 2 == 0) { /* the second comes in two parts */
        int rc =
            pfl_rpc_host_reply(&s->rpc, request, PFL_RPC_SUCCESS | PFL_RPC_HAS_MORE, &body, 1, -1);

        if (rc != 0)
            return rc;
    }
    return pfl_rpc_host_reply(&s->rpc, request, PFL_RPC_SUCCESS, &body, 1, -1);
}

static const struct pfl_rpc_method methods[] = {{"QueryServiceState", answer}};
static const struct pfl_rpc_service consumer_port = {"ConsumerPort", methods, 1};
static const struct pfl_rpc_service another_port = {"ProducerPort", methods, 1};

static void on_data(void *user, struct pfl_span data)
{
    static const uint8_t nonsense[] = {3, 0, 0, 0, 0xff, 0xff, 0xff};
    struct server *s = user;
    struct iovec iov = {.iov_base = (void *)(uintptr_t)nonsense, .iov_len = sizeof(nonsense)};

    if (s->f->kind == HANGS_UP ||
        (s->f->kind == NONSENSE && pfl_stream_writev(s->stream, &iov, 1, -1) != 0) ||
        (s->f->kind != NONSENSE && pfl_rpc_host_feed(&s->rpc, data) != 0))
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
    struct pfl_rpc_host_conf rpc = {.services =
                                        f->kind == ANOTHER_PORT ? &another_port : &consumer_port,
                                    .services_len = 1,
                                    .user = s,
                                    .send = send_frame};

    f->connections++;
    if (s == NULL || pfl_fdsock_open(&stream, fd, &s->stream) != 0) {
        pfl_mem_free(s);
        (void)close(fd);
        pfl_listener_release(f->listener);
        return;
    }
    s->f = f;
    pfl_rpc_host_init(&s->rpc, &rpc);
}

/* ---- the one who asks ---- */

static void on_done(void *user)
{
    ((struct fixture *)user)->done++;
}

static int open_watch(struct fixture *f)
{
    const struct pfl_service_watch_conf conf = {
        .loop = &f->loop, .socket = f->path, .on_done = on_done, .user = f};

    f->done = f->connections = f->questions = 0;
    return pfl_service_watch_open(&conf, &f->watch);
}

static void close_watch(struct fixture *f)
{
    pfl_service_watch_close(f->watch);
    for (int i = 0; i < 20; i++) /* the listener keeps the loop alive */
        (void)uv_run(&f->loop, UV_RUN_NOWAIT);
}

static void ask(struct fixture *f)
{
    if (pfl_service_watch_ask(f->watch))
        return;
    while (f->done == 0)
        (void)uv_run(&f->loop, UV_RUN_ONCE);
}

static int set_up(void **state)
{
    struct fixture *f = pfl_mem_zalloc(sizeof(*f));
    struct pfl_listener_conf listener = {.loop = &f->loop,
                                         .address = f->path,
                                         .max_connections = 64,
                                         .mode = -1,
                                         .on_accept = on_accept,
                                         .user = f};

    pfl_log_set_level(PFL_LOG_ERROR);
    (void)snprintf(f->folder, sizeof(f->folder), "/tmp/pfl-watch-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    (void)snprintf(f->path, sizeof(f->path), "%s/s", f->folder);
    assert_int_equal(uv_loop_init(&f->loop), 0);
    assert_int_equal(pfl_listener_open(&listener, &f->listener), 0);
    *state = f;
    return 0;
}

static void stop_listening(struct fixture *f)
{
    if (f->listener != NULL)
        pfl_listener_close(f->listener);
    f->listener = NULL;
    (void)uv_run(&f->loop, UV_RUN_DEFAULT);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    stop_listening(f);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    (void)rmdir(f->folder);
    pfl_mem_free(f);
    pfl_sweep_assert_no_leak();
    return 0;
}

static void figures_come_with_one_question_and_are_kept_for_a_while(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(open_watch(f), 0);
    ask(f);
    assert_true(pfl_service_watch_get(f->watch)->is_known);
    assert_true(pfl_service_watch_get(f->watch)->has_figures);
    assert_int_equal(pfl_service_watch_get(f->watch)->figures[PFL_FIGURE_PRODUCERS], 9);
    assert_int_equal(f->done, 1);
    assert_int_equal(f->questions, 1);
    assert_true(pfl_service_watch_ask(f->watch));
    assert_int_equal(f->connections, 1);
    close_watch(f);
}

static void who_asks_while_it_is_asked_waits_for_the_same_answer(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(open_watch(f), 0);
    assert_false(pfl_service_watch_ask(f->watch));
    assert_false(pfl_service_watch_ask(f->watch));
    ask(f);
    assert_int_equal(f->done, 1);
    assert_int_equal(f->connections, 1);
    close_watch(f);
}

static void another_service_is_asked_twice_and_counted(void **state)
{
    struct fixture *f = *state;

    f->kind = WITHOUT;
    assert_int_equal(open_watch(f), 0);
    ask(f);
    assert_true(pfl_service_watch_get(f->watch)->is_known);
    assert_false(pfl_service_watch_get(f->watch)->has_figures);
    assert_int_equal(f->questions, 2);
    assert_int_equal(pfl_service_watch_get(f->watch)->producers, 2); /* of the second's parts */
    assert_int_equal(pfl_service_watch_get(f->watch)->sessions, 3);
    close_watch(f);
}

static void who_makes_no_sense_or_hangs_up_is_not_known(void **state)
{
    static const enum kind kinds[] = {NONSENSE, HANGS_UP, ANOTHER_PORT};
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        f->kind = kinds[i];
        assert_int_equal(open_watch(f), 0);
        ask(f);
        assert_int_equal(f->done, 1);
        assert_false(pfl_service_watch_get(f->watch)->is_known);
        close_watch(f);
    }
}

static void nobody_is_not_known_at_once(void **state)
{
    struct fixture *f = *state;

    stop_listening(f);
    assert_int_equal(open_watch(f), 0);
    assert_true(pfl_service_watch_ask(f->watch));
    assert_false(pfl_service_watch_get(f->watch)->is_known);
    pfl_service_watch_close(f->watch);
    (void)uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(f->done, 0);
}

static void a_close_in_the_middle_calls_nobody(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(open_watch(f), 0);
    assert_false(pfl_service_watch_ask(f->watch));
    close_watch(f);
    assert_int_equal(f->done, 0);
}

static int ask_once(void *arg)
{
    struct fixture *f = arg;
    int rc = open_watch(f);

    if (rc != 0)
        return rc;
    ask(f);
    rc = pfl_service_watch_get(f->watch)->is_known ? 0 : PFL_ENOMEM;
    close_watch(f);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    pfl_sweep(ask_once, *state, false);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(figures_come_with_one_question_and_are_kept_for_a_while),
        TEST(who_asks_while_it_is_asked_waits_for_the_same_answer),
        TEST(another_service_is_asked_twice_and_counted),
        TEST(who_makes_no_sense_or_hangs_up_is_not_known),
        TEST(nobody_is_not_known_at_once),
        TEST(a_close_in_the_middle_calls_nobody),
        TEST(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
