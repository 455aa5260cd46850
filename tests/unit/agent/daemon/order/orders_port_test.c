/* SPDX-License-Identifier: Apache-2.0 */
/* Orders at work, with a folder of segments and a service that starts sessions. */
#include "agent/daemon/order/orders_port.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/io/sha256.h"
#include "base/io/worker.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "proto/order/order_set.h"
#include "tests/support/sweep.h"
#include "tests/unit/agent/daemon/segment/segments_kit.h"
#include "tests/unit/tunnel/service_kit.h"

#define TURNS 1000000
#define TURN_US                                                                                    \
    20 /* so that all of them are at least 20 s: workers and disks have their own time */
#define CONFIG "config { buffers { size_kb: 64 } data_sources { config { name: \"x\" } } } "
#define CPU    "name: \"cpu\" select {} continuous {} " CONFIG

struct fixture {
    struct service_kit kit; /* first: a peer's kit is its fixture */
    struct kit segments;
    struct pfl_orders *orders;
    unsigned enabled; /* sessions */
    bool is_gone;
    uint64_t expire_ms;
    unsigned answers;
    int rc; /* of the last one */
    char why[PFL_ORDER_REASON_BYTES];
};

static const struct pfl_segment_quota no_quota = {.max_bytes = 0};

/* ---- the service ---- */

/* The answer would come at the session's end. */
static int enable(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    (void)request;
    (void)args;
    ((struct fixture *)((struct service_peer *)user)->kit)->enabled++;
    return 0;
}

static int get_stats(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    (void)args;
    return service_peer_reply(user, request, PFL_RPC_SUCCESS, pfl_span_of(NULL, 0));
}

static const struct pfl_rpc_method methods[] = {{"EnableTracing", enable},
                                                {"GetTraceStats", get_stats}};
static const struct pfl_rpc_service consumer_port = {"ConsumerPort", methods, 2};

/* ---- the orders ---- */

static void on_closed(void *user)
{
    ((struct fixture *)user)->is_gone = true;
}

static void open_orders(struct fixture *f)
{
    struct pfl_orders_conf conf = {.loop = &f->kit.loop,
                                   .dir = f->segments.dir,
                                   .socket = f->kit.path,
                                   .segments = f->segments.segments,
                                   .host = "one",
                                   .tick_ms = 1,
                                   .expire_ms = f->expire_ms,
                                   .on_closed = on_closed,
                                   .user = f};

    f->is_gone = false;
    assert_int_equal(pfl_orders_open(&conf, &f->orders), 0);
}

static void turn(struct fixture *f)
{
    (void)uv_run(&f->kit.loop, UV_RUN_NOWAIT);
    (void)uv_run(&f->segments.loop, UV_RUN_NOWAIT);
    (void)usleep(TURN_US);
}

static void close_orders(struct fixture *f)
{
    pfl_orders_close(f->orders);
    for (int i = 0; i < TURNS && (!f->is_gone || !pfl_list_is_empty(&f->kit.peers)); i++)
        turn(f);
    assert_true(f->is_gone);
}

static Perfleet__HostOrder *make(const char *orderer, const char *text, uint32_t generation)
{
    Perfleet__HostOrder *order = pfl_mem_zalloc(sizeof(*order));
    char why[PFL_ORDER_WHY_BYTES];

    assert_non_null(order);
    perfleet__host_order__init(order);
    assert_int_equal(
        pfl_order_parse(pfl_span_of(text, strlen(text)), PFL_ORDER_PLAIN, &order->order, why), 0);
    order->orderer = pfl_mem_strdup(orderer);
    order->collector = pfl_mem_strdup(KIT_COLLECTOR);
    order->has_generation = 1;
    order->generation = generation;
    return order;
}

static void on_answer(void *user, int rc, const char *why)
{
    struct fixture *f = user;

    f->answers++;
    f->rc = rc;
    (void)snprintf(f->why, sizeof(f->why), "%s", why);
}

/* The answer follows. */
static struct pfl_order_keep *submit(struct fixture *f, const char *orderer, uint32_t generation)
{
    struct pfl_order_answer answer = {.done = on_answer, .user = f};
    struct pfl_order_keep *keep;

    assert_int_equal(
        pfl_orders_put(f->orders, make(orderer, CPU, generation), &answer, f->why, &keep), 0);
    return keep;
}

static void wait_for_answers(struct fixture *f, unsigned count)
{
    for (int i = 0; i < TURNS && f->answers != count; i++)
        turn(f);
    assert_int_equal(f->answers, count);
}

static int put(struct fixture *f, const char *orderer, uint32_t generation)
{
    unsigned before = f->answers;

    (void)submit(f, orderer, generation);
    wait_for_answers(f, before + 1);
    return f->rc;
}

static unsigned count_orders(const struct fixture *f)
{
    struct pfl_orders_figures figures;

    pfl_orders_get_figures(f->orders, &figures);
    return figures.all;
}

static void wait_for_sessions(struct fixture *f, unsigned count)
{
    struct pfl_orders_figures figures = {.running = 0};

    for (int i = 0; i < TURNS && figures.running != count; i++) {
        turn(f);
        pfl_orders_get_figures(f->orders, &figures);
    }
    assert_int_equal(figures.running, count);
}

/* The name of the first file that ends so. */
static void find_file(const struct fixture *f, const char *end, char *dst, size_t room)
{
    DIR *dir = opendir(f->segments.dir);
    const struct dirent *entry;

    assert_non_null(dir);
    dst[0] = '\0';
    while ((entry = readdir(dir)) != NULL) {
        size_t len = strlen(entry->d_name);

        if (entry->d_name[0] != '.' && len > strlen(end) &&
            strcmp(entry->d_name + len - strlen(end), end) == 0)
            (void)snprintf(dst, room, "%s", entry->d_name);
    }
    (void)closedir(dir);
}

static int set_up(void **state)
{
    struct fixture *f = pfl_mem_zalloc(sizeof(*f));

    pfl_log_set_level(PFL_LOG_ERROR);
    service_kit_open(&f->kit);
    f->kit.service = &consumer_port;
    kit_make_dir(&f->segments);
    kit_open(&f->segments, &no_quota);
    open_orders(f);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    close_orders(f);
    kit_close(&f->segments);
    service_kit_close(&f->kit);
    kit_remove_dir(&f->segments);
    pfl_mem_free(f);
    pfl_sweep_assert_no_leak();
    return 0;
}

/* ---- sessions ---- */

struct hold {
    struct pfl_work work;
    uv_sem_t sem;
};

static void run_hold(struct pfl_work *work)
{
    uv_sem_wait(&PFL_CONTAINER_OF(work, struct hold, work)->sem);
}

static void on_held(struct pfl_work *work)
{
    (void)work;
}

/* What the service writes before would belong to no run after a kill. */
static void a_session_starts_when_its_run_is_on_the_disk(void **state)
{
    struct hold hold = {.work = {.run = run_hold, .on_done = on_held}};
    struct fixture *f = *state;

    assert_int_equal(uv_sem_init(&hold.sem, 0), 0);
    assert_int_equal(pfl_worker_submit(f->segments.worker, &hold.work), 0);
    (void)submit(f, "ann", 1);
    for (int i = 0; i < 100; i++)
        turn(f);
    assert_int_equal(f->kit.connections, 0);
    assert_int_equal(kit_count_files(&f->segments, ".run"), 0);
    uv_sem_post(&hold.sem);
    wait_for_sessions(f, 1);
    assert_int_equal(f->enabled, 1);
    assert_int_equal(kit_count_files(&f->segments, ".run"), 1);
    uv_sem_destroy(&hold.sem);
}

static void what_ends_while_its_run_is_written_starts_no_session(void **state)
{
    struct hold hold = {.work = {.run = run_hold, .on_done = on_held}};
    struct fixture *f = *state;

    assert_int_equal(uv_sem_init(&hold.sem, 0), 0);
    assert_int_equal(pfl_worker_submit(f->segments.worker, &hold.work), 0);
    (void)submit(f, "ann", 1);
    (void)submit(f, "bob", 1);
    turn(f);
    assert_int_equal(pfl_orders_remove(f->orders, KIT_COLLECTOR, "ann", "cpu"), 0);
    pfl_orders_close(f->orders);
    for (int i = 0; i < 100; i++)
        turn(f);
    assert_false(f->is_gone);
    uv_sem_post(&hold.sem);
    close_orders(f);
    assert_int_equal(f->kit.connections, 0);
    uv_sem_destroy(&hold.sem);
    open_orders(f);
}

/* ---- on the disk ---- */

static void wait_for_files(struct fixture *f, unsigned count)
{
    for (int i = 0; i < TURNS && kit_count_files(&f->segments, ".order") != count; i++)
        turn(f);
    assert_int_equal(kit_count_files(&f->segments, ".order"), count);
}

/* A disk that takes seconds for each of them. */
static void orders_are_written_while_the_loop_goes_on(void **state)
{
    struct hold hold = {.work = {.run = run_hold, .on_done = on_held}};
    struct fixture *f = *state;

    assert_int_equal(uv_sem_init(&hold.sem, 0), 0);
    assert_int_equal(pfl_worker_submit(f->segments.worker, &hold.work), 0);
    (void)submit(f, "ann", 1);
    pfl_order_keep_cancel(submit(f, "bob", 1));
    (void)submit(f, "cat", 1);
    assert_int_equal(pfl_orders_remove(f->orders, KIT_COLLECTOR, "cat", "cpu"), 0);
    for (int i = 0; i < 100; i++)
        turn(f);
    assert_int_equal(f->answers, 0);
    assert_int_equal(kit_count_files(&f->segments, ".order"), 0);
    uv_sem_post(&hold.sem);
    wait_for_answers(f, 2);
    assert_int_equal(f->rc, PFL_ENOENT);
    assert_non_null(strstr(f->why, "removed meanwhile"));
    assert_int_equal(count_orders(f), 2);
    wait_for_files(f, 2);
    uv_sem_destroy(&hold.sem);
}

static void an_order_that_cannot_be_kept_is_not_there_after_a_restart(void **state)
{
    struct fixture *f = *state;
    char name[128];
    char half[300];

    assert_int_equal(put(f, "ann", 1), 0);
    find_file(f, ".order", name, sizeof(name));
    (void)snprintf(half, sizeof(half), "%s/.%s", f->segments.dir, name);
    assert_int_equal(mkdir(half, 0700), 0); /* in the way of the file */
    assert_int_equal(put(f, "ann", 2), PFL_EIO);
    assert_non_null(strstr(f->why, "cannot keep"));
    assert_int_equal(rmdir(half), 0);
    assert_int_equal(count_orders(f), 0);
    wait_for_files(f, 0);
    close_orders(f);
    open_orders(f);
    assert_int_equal(count_orders(f), 0);
}

/* An orderer could find another name with the same FNV-1a, and replace that order's file. */
static void a_file_is_named_by_a_strong_hash_and_that_of_an_earlier_agent_is_read(void **state)
{
    struct pfl_order_key key = {.orderer = "ann", .name = "cpu", .generation = 0};
    struct fixture *f = *state;
    char hash[PFL_ORDER_SET_TEXT_BYTES];
    char name[128];
    char again[128];
    char now[300];
    char before[300];

    assert_int_equal(put(f, "ann", 1), 0);
    find_file(f, ".order", name, sizeof(name));
    assert_int_equal(strlen(name), 2 * PFL_SHA256_BYTES + strlen(".order"));
    close_orders(f);
    pfl_order_set_write(pfl_order_set_hash(&key, 1), hash);
    (void)snprintf(now, sizeof(now), "%s/%s", f->segments.dir, name);
    (void)snprintf(before, sizeof(before), "%s/%s.order", f->segments.dir, hash);
    assert_int_equal(rename(now, before), 0);
    open_orders(f);
    assert_int_equal(count_orders(f), 1);
    find_file(f, ".order", again, sizeof(again));
    assert_string_equal(again, name);
    assert_int_equal(kit_count_files(&f->segments, ".order"), 1);
}

static void a_file_with_the_name_of_another_order_is_removed(void **state)
{
    struct fixture *f = *state;
    char name[128];
    char now[300];
    char other[300];

    assert_int_equal(put(f, "ann", 1), 0);
    find_file(f, ".order", name, sizeof(name));
    close_orders(f);
    (void)snprintf(now, sizeof(now), "%s/%s", f->segments.dir, name);
    name[0] = name[0] == '0' ? '1' : '0';
    (void)snprintf(other, sizeof(other), "%s/%s", f->segments.dir, name);
    assert_int_equal(rename(now, other), 0);
    open_orders(f);
    assert_int_equal(count_orders(f), 0);
    assert_int_equal(kit_count_files(&f->segments, ".order"), 0);
}

/* ---- a collector that does not come again ---- */

static uint64_t get_unput_ms(const struct fixture *f)
{
    struct pfl_orders_figures figures;

    pfl_orders_get_figures(f->orders, &figures);
    return figures.unput_ms;
}

static void wait_ms(struct fixture *f, uint64_t ms)
{
    uint64_t begin_ms = uv_now(&f->kit.loop);

    while (uv_now(&f->kit.loop) < begin_ms + ms)
        turn(f);
}

static void an_order_that_is_not_put_again_expires(void **state)
{
    struct fixture *f = *state;
    struct pfl_orders_figures figures;
    uint64_t put_ms;

    assert_int_equal(put(f, "ann", 1), 0);
    wait_for_sessions(f, 1);
    wait_ms(f, 50);
    assert_true(get_unput_ms(f) >= 50);
    put_ms = uv_now(&f->kit.loop); /* as a collector does every ten minutes */
    assert_int_equal(put(f, "ann", 1), 0);
    assert_true(get_unput_ms(f) <= uv_now(&f->kit.loop) - put_ms);
    assert_int_equal(f->enabled, 1);
    close_orders(f);
    f->expire_ms = 50;
    open_orders(f);
    /* The worker removes its file a little later. */
    for (int i = 0; i < TURNS && kit_count_files(&f->segments, ".order") != 0; i++)
        turn(f);
    pfl_orders_get_figures(f->orders, &figures);
    assert_int_equal(figures.all, 0);
    assert_int_equal(figures.expired, 1);
    assert_int_equal(figures.unput_ms, 0);
    /* The next process does not find it; its segments stay. */
    close_orders(f);
    assert_int_equal(kit_count_files(&f->segments, ".order"), 0);
    assert_true(kit_count_files(&f->segments, ".run") >= 1);
    f->expire_ms = 0;
    open_orders(f);
    assert_int_equal(count_orders(f), 0);
    /* If the collector does come again, it puts it. */
    assert_int_equal(put(f, "ann", 1), 0);
    wait_for_sessions(f, 1);
}

static void another_collector_takes_an_order_over_and_may_remove_it(void **state)
{
    struct fixture *f = *state;
    struct pfl_order_answer answer = {.done = on_answer, .user = f};
    Perfleet__HostOrder *order = make("ann", CPU, 9);
    struct pfl_order_keep *keep;

    assert_int_equal(put(f, "ann", 1), 0);
    assert_int_equal(pfl_orders_remove(f->orders, "other", "ann", "cpu"), PFL_EPERM);
    pfl_mem_free(order->collector);
    order->collector = pfl_mem_strdup("other");
    assert_int_equal(pfl_orders_put(f->orders, order, &answer, f->why, &keep), 0);
    wait_for_answers(f, f->answers + 1);
    assert_int_equal(pfl_orders_remove(f->orders, KIT_COLLECTOR, "ann", "cpu"), PFL_EPERM);
    assert_int_equal(pfl_orders_remove(f->orders, "other", "ann", "cpu"), 0);
    assert_int_equal(count_orders(f), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_session_starts_when_its_run_is_on_the_disk),
        TEST(what_ends_while_its_run_is_written_starts_no_session),
        TEST(orders_are_written_while_the_loop_goes_on),
        TEST(an_order_that_cannot_be_kept_is_not_there_after_a_restart),
        TEST(a_file_is_named_by_a_strong_hash_and_that_of_an_earlier_agent_is_read),
        TEST(a_file_with_the_name_of_another_order_is_removed),
        TEST(an_order_that_is_not_put_again_expires),
        TEST(another_collector_takes_an_order_over_and_may_remove_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
