/* SPDX-License-Identifier: Apache-2.0 */
/* Asking a service for its figures: one that has them, one that has not, nobody, and nonsense. */
#include "tunnel/service_watch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/mem.h"
#include "tests/support/sweep.h"
#include "tests/unit/tunnel/service_kit.h"

enum kind {
    WITH_FIGURES,
    WITHOUT, /* as Perfetto's */
    NONSENSE,
    HANGS_UP,
    ANOTHER_PORT, /* it does not know ConsumerPort */
};

struct fixture {
    struct service_kit kit; /* first: a peer's kit is its fixture */
    struct pfl_service_watch *watch;
    enum kind kind;
    unsigned done;
    unsigned questions;
};

/* ---- the service ---- */

static int answer(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    static const uint8_t plain[] = {0x0a, 0x04, 0x18, 0x03, 0x0a, 0x00};
    static const uint8_t figures[] = {0x0a, 0x08, 0x18, 0x03, 0x8a,
                                      0xb5, 0x18, 0x02, 0x08, 0x09}; /* producers: 9 */
    struct service_peer *p = user;
    struct fixture *f = (struct fixture *)p->kit;
    bool has_figures = f->kind == WITH_FIGURES && args.len != 0;
    struct pfl_span body =
        has_figures ? pfl_span_of(figures, sizeof(figures)) : pfl_span_of(plain, sizeof(plain));

    f->questions++;
    if (f->kind == WITHOUT && f->questions % 2 == 0) { /* the second comes in two parts */
        int rc = service_peer_reply(p, request, PFL_RPC_SUCCESS | PFL_RPC_HAS_MORE, body);

        if (rc != 0)
            return rc;
    }
    return service_peer_reply(p, request, PFL_RPC_SUCCESS, body);
}

static const struct pfl_rpc_method methods[] = {{"QueryServiceState", answer}};
static const struct pfl_rpc_service consumer_port = {"ConsumerPort", methods, 1};
static const struct pfl_rpc_service another_port = {"ProducerPort", methods, 1};

static void on_nonsense(struct service_peer *p, struct pfl_span data)
{
    static const uint8_t nonsense[] = {3, 0, 0, 0, 0xff, 0xff, 0xff};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)nonsense, .iov_len = sizeof(nonsense)};

    (void)data;
    if (pfl_stream_writev(p->stream, &iov, 1, -1) != 0)
        pfl_stream_close(p->stream);
}

static void on_hang_up(struct service_peer *p, struct pfl_span data)
{
    (void)data;
    pfl_stream_close(p->stream);
}

static void be(struct fixture *f, enum kind kind)
{
    f->kind = kind;
    f->kit.service = kind == ANOTHER_PORT ? &another_port : &consumer_port;
    f->kit.on_data = kind == NONSENSE ? on_nonsense : kind == HANGS_UP ? on_hang_up : NULL;
}

/* ---- the one who asks ---- */

static void on_done(void *user)
{
    ((struct fixture *)user)->done++;
}

static int open_watch(struct fixture *f)
{
    const struct pfl_service_watch_conf conf = {
        .loop = &f->kit.loop, .socket = f->kit.path, .on_done = on_done, .user = f};

    f->done = f->kit.connections = f->questions = 0;
    return pfl_service_watch_open(&conf, &f->watch);
}

static void close_watch(struct fixture *f)
{
    pfl_service_watch_close(f->watch);
    for (int i = 0; i < 20; i++) /* the listener keeps the loop alive */
        (void)uv_run(&f->kit.loop, UV_RUN_NOWAIT);
}

static void ask(struct fixture *f)
{
    if (pfl_service_watch_ask(f->watch))
        return;
    while (f->done == 0)
        (void)uv_run(&f->kit.loop, UV_RUN_ONCE);
}

static int set_up(void **state)
{
    struct fixture *f = pfl_mem_zalloc(sizeof(*f));

    pfl_log_set_level(PFL_LOG_ERROR);
    service_kit_open(&f->kit);
    be(f, WITH_FIGURES);
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
    assert_int_equal(f->kit.connections, 1);
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
    assert_int_equal(f->kit.connections, 1);
    close_watch(f);
}

static void another_service_is_asked_twice_and_counted(void **state)
{
    struct fixture *f = *state;

    be(f, WITHOUT);
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
        be(f, kinds[i]);
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

    service_kit_stop_listening(&f->kit);
    assert_int_equal(open_watch(f), 0);
    assert_true(pfl_service_watch_ask(f->watch));
    assert_false(pfl_service_watch_get(f->watch)->is_known);
    pfl_service_watch_close(f->watch);
    (void)uv_run(&f->kit.loop, UV_RUN_DEFAULT);
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
