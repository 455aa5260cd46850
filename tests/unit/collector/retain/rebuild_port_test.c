/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/retain/rebuild_port.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/collector/retain/store_world.h"

#define TRACES 300u /* more than a page of the store */

static struct store_world w;

static int rebuild(struct pfl_rebuild_figures *ret_figures)
{
    const struct pfl_store_conf store = {.where = w.folder};

    return pfl_rebuild_run(&store, w.where, ret_figures);
}

/* The index is lost. */
static void lose_index(void)
{
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    char path[160];

    store_world_close(&w);
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof(path), "%s%s", w.where + strlen("sqlite:"), suffixes[i]);
        (void)unlink(path);
    }
}

static const struct pfl_index_run_query all_runs = {.after_host = "",
                                                    .after_incarnation = "",
                                                    .after_orderer = "",
                                                    .after_order = "",
                                                    .limit = 1000};

static bool on_run(void *user, const struct pfl_index_run *run)
{
    struct pfl_index_run *sum = user;

    *sum = *run;
    return true;
}

static void an_index_is_made_from_the_store_alone(void **state)
{
    struct pfl_rebuild_figures f;
    struct pfl_index_run run = {.last = 0};

    (void)state;
    for (uint32_t n = 1; n <= TRACES; n++) {
        struct store_world_trace t = {
            .number = n, .bytes = n % 50, .stored_ns = T0 + n, .is_gap = n % 10 == 0};

        store_world_put(&w, &t, STORE_WORLD_WHOLE, 1);
    }
    lose_index();
    assert_int_equal(rebuild(&f), 0);
    assert_int_equal(f.added, TRACES);
    assert_int_equal(f.conflicts + f.broken + f.known, 0);
    assert_int_equal(rebuild(&f), 0); /* again: nothing more */
    assert_int_equal(f.added, 0);
    assert_int_equal(f.known, TRACES);
    store_world_open(&w, "keeper");
    assert_int_equal(pfl_index_list_runs(w.index, &all_runs, on_run, &run), 0);
    assert_int_equal(run.last, TRACES);
    assert_int_equal(run.stored, TRACES - TRACES / 10);
    assert_int_equal(run.in_gaps, TRACES / 10);
    assert_int_equal(run.holes, 0);
}

static void what_is_not_whole_is_told(void **state)
{
    struct store_world_trace whole = {.number = 1, .bytes = 10, .stored_ns = T0};
    struct store_world_trace same = {.number = 1, .bytes = 11, .stored_ns = T0};
    struct store_world_trace half = {.number = 2, .bytes = 10, .stored_ns = T0};
    struct store_world_trace cut = {.number = 3, .bytes = 10, .stored_ns = T0};
    struct store_world_trace bad = {.number = 4, .bytes = 10, .stored_ns = T0};
    struct pfl_rebuild_figures f;
    char path[sizeof(w.folder) + PFL_STORE_KEY_BYTES];

    (void)state;
    store_world_put(&w, &whole, STORE_WORLD_WHOLE, 1);
    store_world_put(&w, &same, STORE_WORLD_OBJECT | STORE_WORLD_DESCRIPTION, 2);
    store_world_put(&w, &half, STORE_WORLD_DESCRIPTION, 1);
    store_world_put(&w, &cut, STORE_WORLD_WHOLE, 1);
    store_world_put(&w, &bad, STORE_WORLD_WHOLE, 1);
    (void)snprintf(path, sizeof(path), "%s/%s", w.folder, cut.key);
    assert_int_equal(truncate(path, 4), 0);
    (void)snprintf(path, sizeof(path), "%s/%s", w.folder, bad.description);
    assert_int_equal(truncate(path, 4), 0);
    lose_index();
    assert_int_equal(rebuild(&f), 0);
    assert_int_equal(f.added, 1);
    assert_int_equal(f.conflicts, 1);
    assert_int_equal(f.broken, 3);
    store_world_open(&w, "keeper");
    assert_int_equal(store_world_state(&w, whole.id), PFL_INDEX_LIVE);
}

static void what_was_lost_or_reserved_is_live_again(void **state)
{
    struct store_world_trace lost = {.number = 1, .bytes = 10, .stored_ns = T0};
    const struct pfl_index_deletion why = {.who = "sweep", .reason = "r", .now_unix_ns = T0};
    struct pfl_rebuild_figures f;

    (void)state;
    store_world_put(&w, &lost, STORE_WORLD_WHOLE, 1);
    assert_int_equal(pfl_index_set_lost(w.index, lost.id, &why), 0);
    store_world_close(&w);
    assert_int_equal(rebuild(&f), 0);
    assert_int_equal(f.added, 1);
    store_world_open(&w, "keeper");
    assert_int_equal(store_world_state(&w, lost.id), PFL_INDEX_LIVE);
}

static void an_index_in_use_is_refused(void **state)
{
    struct pfl_rebuild_figures f;

    (void)state;
    assert_int_equal(rebuild(&f), PFL_ESTATE);
    store_world_close(&w);
    assert_int_equal(rebuild(&f), 0); /* it left */
    store_world_open(&w, "keeper");
}

static int set_up(void **state)
{
    (void)state;
    store_world_make(&w);
    store_world_open(&w, "keeper");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    store_world_close(&w);
    store_world_remove(&w);
    return 0;
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(an_index_is_made_from_the_store_alone),
        CASE(what_is_not_whole_is_told),
        CASE(what_was_lost_or_reserved_is_live_again),
        CASE(an_index_in_use_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
