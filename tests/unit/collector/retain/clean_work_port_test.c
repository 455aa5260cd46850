/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cleaning with the real store and index: retention, tombstones and both sweeps; and a collector
 * that is killed at any moment, many times: what is pinned stays, no more goes than has to, each
 * deletion is in the audit once, and store and index agree at the end.
 */
#include "collector/retain/clean_work_port.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "collector/index/index_impl.h"
#include "tests/support/sweep.h"
#include "tests/unit/collector/retain/store_world.h"

#define ROUNDS   120u
#define BOUND    200000u
#define PIN_EACH 7u
#define DAY      (UINT64_C(86400) * S)

static struct store_world w;

static struct pfl_clean *make_clean(const struct pfl_keep_rules *rules)
{
    const struct pfl_clean_conf conf = {
        .store = w.store, .index = w.index, .rules = rules, .fleet = "demo"};
    struct pfl_clean *clean = NULL;

    assert_int_equal(pfl_clean_new(&conf, &clean), 0);
    return clean;
}

/* A cycle by these clocks; how many events of that name it has. */
static unsigned cycle_by(struct pfl_clean *clean, uint64_t wall, uint64_t boot, const char *event)
{
    unsigned count = 0;

    pfl_clean_begin(clean, wall, boot);
    while (pfl_clean_get_thread(clean) != PFL_CLEAN_IDLE) {
        pfl_clean_run(clean);
        if (pfl_clean_get_report(clean) != NULL && event != NULL)
            count += strcmp(pfl_clean_get_report(clean)->event, event) == 0;
    }
    return count;
}

/* At that time, which is no jump. */
static unsigned cycle(struct pfl_clean *clean, uint64_t now, const char *event)
{
    assert_int_equal(pfl_index_note_clock(w.index, now), 0);
    return cycle_by(clean, now, now, event);
}

static unsigned clean_once(const struct pfl_keep_rules *rules, uint64_t now, const char *event)
{
    struct pfl_clean *clean = make_clean(rules);
    unsigned count = cycle(clean, now, event);

    pfl_clean_free(clean);
    return count;
}

static struct pfl_keep_rules no_rules(void)
{
    struct pfl_keep_rules rules;

    pfl_keep_rules_init(&rules);
    rules.list[0].age_ns = rules.list[0].triggered_ns = 0;
    return rules;
}

static bool on_deleted(void *user, const struct pfl_index_deleted *deleted)
{
    unsigned *count = user;

    assert_string_equal(deleted->who, "retention");
    assert_non_null(strstr(deleted->reason, "bytes"));
    count[deleted->number]++;
    return true;
}

/* ---- one thing at a time ---- */

static void the_oldest_go_and_the_store_with_them(void **state)
{
    struct store_world_trace traces[6];
    struct pfl_keep_rules rules = no_rules();
    Perfleet__StoredTrace__Pin pin = PERFLEET__STORED_TRACE__PIN__INIT;
    struct pfl_clean *clean;

    (void)state;
    for (uint32_t i = 0; i < 6; i++) {
        traces[i] = (struct store_world_trace){.number = i + 1, .bytes = 4000, .stored_ns = T0 + i};
        traces[i].trigger = i == 1 ? "oom" : NULL;
        store_world_put(&w, &traces[i], STORE_WORLD_WHOLE, 1);
    }
    pin.who = "ann";
    assert_int_equal(pfl_index_pin(w.index, traces[0].id, &pin), 0);
    rules.bytes = 16000 + 3 * PFL_INDEX_TRACE_BYTES; /* three, with their descriptions */
    clean = make_clean(&rules);
    assert_int_equal(cycle(clean, T0 + S, "trace-deleted"), 3);
    for (uint32_t i = 0; i < 6; i++) {
        bool stays = i == 0 || i == 1 || i == 5; /* pinned, of a trigger, the newest */

        assert_int_equal(store_world_has(&w, traces[i].key), stays);
        assert_int_equal(store_world_has(&w, traces[i].description), stays);
        assert_int_equal(store_world_state(&w, traces[i].id),
                         stays ? PFL_INDEX_LIVE : PFL_INDEX_GONE);
    }
    assert_in_range(pfl_clean_get_retention(clean)->live_bytes, 12001 + 3 * PFL_INDEX_TRACE_BYTES,
                    rules.bytes);
    assert_int_equal(pfl_clean_get_figures(clean)->deleted_objects, 3);
    pfl_clean_free(clean);
}

static void tombstones_of_operators_and_of_gaps_are_deleted(void **state)
{
    struct store_world_trace trace = {.number = 1, .bytes = 10, .stored_ns = T0};
    struct store_world_trace gap = {.number = 2, .stored_ns = T0, .is_gap = true};
    const struct pfl_index_deletion by_ann = {.who = "ann", .reason = "r", .now_unix_ns = T0};
    struct pfl_keep_rules rules = no_rules();

    (void)state;
    store_world_put(&w, &trace, STORE_WORLD_WHOLE, 1);
    store_world_put(&w, &gap, STORE_WORLD_WHOLE, 1);
    assert_int_equal(pfl_index_tombstone(w.index, trace.id, &by_ann), 0);
    assert_int_equal(pfl_index_tombstone(w.index, gap.id, &by_ann), 0);
    (void)clean_once(&rules, T0 + S, NULL);
    assert_false(store_world_has(&w, trace.key));
    assert_false(store_world_has(&w, trace.description));
    assert_false(store_world_has(&w, gap.description));
    assert_int_equal(store_world_state(&w, trace.id), PFL_INDEX_GONE);
    assert_int_equal(store_world_state(&w, gap.id), PFL_INDEX_GONE);
}

/* The clock was ahead when it was removed, and is right again. */
static void a_tombstone_of_the_future_is_deleted(void **state)
{
    struct store_world_trace trace = {.number = 1, .bytes = 10, .stored_ns = T0};
    const struct pfl_index_deletion why = {
        .who = "ann", .reason = "r", .now_unix_ns = T0 + 365 * DAY};
    struct pfl_keep_rules rules = no_rules();

    (void)state;
    store_world_put(&w, &trace, STORE_WORLD_WHOLE, 1);
    assert_int_equal(pfl_index_tombstone(w.index, trace.id, &why), 0);
    (void)clean_once(&rules, T0 + S, NULL);
    assert_false(store_world_has(&w, trace.key));
}

static void make_path(const char *key, char *dst, size_t room)
{
    (void)snprintf(dst, room, "%s/%s", w.folder, key);
}

/* Others do not wait for it, and it is tried again. */
static void what_cannot_be_deleted_is_put_off(void **state)
{
    struct store_world_trace bad = {.number = 1, .bytes = 10, .stored_ns = T0};
    struct store_world_trace good = {.number = 2, .bytes = 10, .stored_ns = T0};
    const struct pfl_index_deletion why = {.who = "ann", .reason = "r", .now_unix_ns = T0};
    struct pfl_keep_rules rules = no_rules();
    char path[sizeof(w.folder) + PFL_STORE_KEY_BYTES];

    (void)state;
    store_world_put(&w, &bad, STORE_WORLD_WHOLE, 1);
    store_world_put(&w, &good, STORE_WORLD_WHOLE, 1);
    make_path(bad.key, path, sizeof(path));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0); /* no file */
    assert_int_equal(pfl_index_tombstone(w.index, bad.id, &why), 0);
    assert_int_equal(pfl_index_tombstone(w.index, good.id, &why), 0);
    assert_int_equal(clean_once(&rules, T0 + S, "deletion-failed"), 1);
    assert_int_equal(store_world_state(&w, bad.id), PFL_INDEX_TOMBSTONE);
    assert_int_equal(store_world_state(&w, good.id), PFL_INDEX_GONE);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(clean_once(&rules, T0 + 3 * S, "deletion-failed"), 0);
    assert_int_equal(store_world_state(&w, bad.id), PFL_INDEX_GONE);
}

struct part {
    struct pfl_clean *clean;
    unsigned number;
};

static void *run_part(void *arg)
{
    const struct part *part = arg;

    pfl_clean_run_part(part->clean, part->number);
    return NULL;
}

/* The parts from `first` on, at the same time. */
static void run_parts(struct pfl_clean *clean, unsigned first)
{
    pthread_t threads[PFL_CLEAN_PARTS];
    struct part parts[PFL_CLEAN_PARTS];

    for (unsigned i = first; i < PFL_CLEAN_PARTS; i++) {
        parts[i] = (struct part){clean, i};
        assert_int_equal(pthread_create(&threads[i], NULL, run_part, &parts[i]), 0);
    }
    for (unsigned i = first; i < PFL_CLEAN_PARTS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    pfl_clean_end_parts(clean);
}

static void run_to_parts(struct pfl_clean *clean)
{
    while (pfl_clean_get_parts(clean) == 1) {
        assert_int_not_equal(pfl_clean_get_thread(clean), PFL_CLEAN_IDLE);
        pfl_clean_run(clean);
    }
    assert_int_equal(pfl_clean_get_thread(clean), PFL_CLEAN_ON_STORE);
}

static void tombstones_are_deleted_at_the_same_time_and_those_that_wait_are_counted(void **state)
{
    const struct pfl_index_deletion why = {.who = "ann", .reason = "r", .now_unix_ns = T0};
    struct store_world_trace traces[45];
    struct pfl_keep_rules rules = no_rules();
    struct pfl_clean *clean = make_clean(&rules);
    const struct pfl_clean_figures *figures = pfl_clean_get_figures(clean);
    uint64_t waiting;

    (void)state;
    for (uint32_t i = 0; i < 45; i++) {
        traces[i] = (struct store_world_trace){.number = i + 1, .bytes = 10, .stored_ns = T0};
        store_world_put(&w, &traces[i], STORE_WORLD_WHOLE, 1);
        assert_int_equal(pfl_index_tombstone(w.index, traces[i].id, &why), 0);
    }
    pfl_clean_begin(clean, T0 + S, S);
    run_to_parts(clean);
    assert_int_equal(figures->tombstones, 45);
    run_parts(clean, 1); /* the first did not run */
    assert_string_equal(pfl_clean_get_report(clean)->event, "deletion-failed");
    pfl_clean_run(clean);
    waiting = figures->tombstones;
    assert_int_equal(figures->deleted_objects, 45 - waiting);
    assert_true(figures->failed != 0 && figures->failed < waiting);
    while (pfl_clean_get_thread(clean) != PFL_CLEAN_IDLE) {
        if (pfl_clean_get_parts(clean) == 1)
            pfl_clean_run(clean);
        else
            run_parts(clean, 0);
    }
    assert_int_equal(figures->deleted_objects, 45);
    assert_int_equal(figures->tombstones, 0);
    for (uint32_t i = 0; i < 45; i++) {
        assert_false(store_world_has(&w, traces[i].key));
        assert_int_equal(store_world_state(&w, traces[i].id), PFL_INDEX_GONE);
    }
    pfl_clean_free(clean);
}

static void a_missing_object_is_reported_and_found_again(void **state)
{
    struct store_world_trace trace = {.number = 1, .bytes = 10, .stored_ns = T0};
    struct pfl_keep_rules rules = no_rules();
    char path[sizeof(w.folder) + PFL_STORE_KEY_BYTES];
    char aside[sizeof(path) + 8];

    (void)state;
    store_world_put(&w, &trace, STORE_WORLD_WHOLE, 1);
    make_path(trace.key, path, sizeof(path));
    (void)snprintf(aside, sizeof(aside), "%s.aside", path);
    assert_int_equal(rename(path, aside), 0);
    assert_int_equal(clean_once(&rules, T0 + S, "trace-lost"), 1);
    assert_int_equal(store_world_state(&w, trace.id), PFL_INDEX_LOST);
    assert_int_equal(clean_once(&rules, T0 + S, "trace-lost"), 0);
    assert_int_equal(rename(aside, path), 0);
    assert_int_equal(clean_once(&rules, T0 + S, "trace-found"), 1);
    assert_int_equal(store_world_state(&w, trace.id), PFL_INDEX_LIVE);
    assert_int_equal(truncate(path, 3), 0);
    assert_int_equal(clean_once(&rules, T0 + S, "trace-damaged"), 1);
    assert_true(store_world_has(&w, trace.key)); /* reported, and left */
}

/* Each cycle ends, whatever the store takes for an object, and the next one continues. */
static void a_sweep_that_takes_long_continues_in_the_next_cycle(void **state)
{
    struct store_world_trace traces[3];
    struct store_world_trace orphans[3];
    struct pfl_keep_rules rules = no_rules();
    const struct pfl_clean_conf conf = {.store = w.store,
                                        .index = w.index,
                                        .rules = &rules,
                                        .fleet = "demo",
                                        .grace_s = 1,
                                        .sweep_ns = 1};
    struct pfl_clean *clean = NULL;
    unsigned lost = 0;

    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        traces[i] = (struct store_world_trace){.number = i + 1, .bytes = 10, .stored_ns = T0};
        store_world_put(&w, &traces[i], STORE_WORLD_DESCRIPTION | STORE_WORLD_ROW, 1);
        orphans[i] = (struct store_world_trace){.number = i + 4, .bytes = 10, .stored_ns = T0};
        store_world_put(&w, &orphans[i], STORE_WORLD_OBJECT, 1);
    }
    assert_int_equal(pfl_clean_new(&conf, &clean), 0);
    for (unsigned i = 1; i <= 3; i++) {
        lost += cycle(clean, pfl_clock_now_ns(PFL_CLOCK_REALTIME) + DAY, "trace-lost");
        assert_int_equal(lost, i);
    }
    for (unsigned i = 0; i < 10; i++)
        (void)cycle(clean, pfl_clock_now_ns(PFL_CLOCK_REALTIME) + DAY, NULL);
    for (uint32_t i = 0; i < 3; i++)
        assert_false(store_world_has(&w, orphans[i].key));
    assert_int_equal(pfl_clean_get_figures(clean)->orphans, 3);
    pfl_clean_free(clean);
}

/* While there is more to delete than a cycle deletes, a sweep runs once in a while. */
static void sweeps_wait_while_retention_is_behind(void **state)
{
    enum { DUE = 3 * PFL_RETENTION_PASS_MAX };
    struct store_world_trace trace = {.number = DUE + 1, .bytes = 10, .stored_ns = T0 + DAY};
    const uint64_t now = T0 + DAY + S;
    struct pfl_keep_rules rules = no_rules();
    struct pfl_clean *clean;
    char path[sizeof(w.folder) + PFL_STORE_KEY_BYTES];

    (void)state;
    for (uint32_t i = 0; i < DUE; i++) {
        struct store_world_trace gap = {.number = i + 1, .stored_ns = T0, .is_gap = true};

        store_world_put(&w, &gap, STORE_WORLD_ROW, 1);
    }
    store_world_put(&w, &trace, STORE_WORLD_WHOLE, 1);
    rules.list[0].age_ns = rules.list[0].triggered_ns = DAY / 2;
    clean = make_clean(&rules);
    assert_int_equal(cycle(clean, now, "trace-lost"), 0);
    make_path(trace.key, path, sizeof(path));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(cycle(clean, now + S, "trace-lost"), 0);
    assert_int_equal(pfl_clean_get_retention(clean)->traces[PFL_RETENTION_AGE],
                     2 * PFL_RETENTION_PASS_MAX);
    assert_true(pfl_clean_is_cut(clean));
    assert_int_equal(cycle(clean, now + PFL_CLEAN_BEHIND_S * S, "trace-lost"), 1);
    assert_true(pfl_clean_is_cut(clean));
    pfl_clean_free(clean);
}

static void orphans_go_after_the_grace_and_whole_traces_stay(void **state)
{
    struct store_world_trace unfinished = {.number = 1, .bytes = 10, .stored_ns = T0};
    struct store_world_trace half = {.number = 2, .bytes = 10, .stored_ns = T0};
    struct store_world_trace replaced = {.number = 3, .bytes = 10, .stored_ns = T0};
    struct store_world_trace unknown = {.number = 4, .bytes = 10, .stored_ns = T0};
    struct store_world_trace live = {.number = 3, .bytes = 10, .stored_ns = T0};
    struct pfl_keep_rules rules = no_rules();
    uint64_t now = pfl_clock_now_ns(PFL_CLOCK_REALTIME);
    struct pfl_clean *clean;

    (void)state;
    store_world_put(&w, &unfinished, STORE_WORLD_OBJECT, 1);
    store_world_put(&w, &replaced, STORE_WORLD_OBJECT | STORE_WORLD_DESCRIPTION, 1);
    store_world_put(&w, &unknown, STORE_WORLD_OBJECT | STORE_WORLD_DESCRIPTION, 1);
    store_world_put(&w, &live, STORE_WORLD_WHOLE, 2);
    store_world_put(&w, &half, STORE_WORLD_DESCRIPTION, 1);
    clean = make_clean(&rules);
    assert_int_equal(cycle(clean, now, "orphan-deleted"), 0); /* they are young */
    assert_int_equal(cycle(clean, now + 2 * DAY, "orphan-deleted"), 2);
    assert_int_equal(pfl_clean_get_figures(clean)->orphans, 2);
    assert_int_equal(pfl_clean_get_figures(clean)->unknown, 2);
    assert_int_equal(pfl_clean_get_figures(clean)->rounds, 2);
    pfl_clean_free(clean);
    assert_false(store_world_has(&w, unfinished.key));
    assert_false(store_world_has(&w, replaced.key));
    assert_false(store_world_has(&w, replaced.description));
    assert_true(store_world_has(&w, unknown.key));
    assert_true(store_world_has(&w, unknown.description));
    assert_true(store_world_has(&w, half.description)); /* nothing else has its number */
    assert_true(store_world_has(&w, live.key));
    assert_true(store_world_has(&w, live.description));
}

static void what_puts_left_is_removed(void **state)
{
    struct pfl_keep_rules rules = no_rules();
    const struct timeval old[2] = {{1000, 0}, {1000, 0}};
    char path[sizeof(w.folder) + 32];
    int fd;

    (void)state;
    (void)snprintf(path, sizeof(path), "%s/.incoming/left", w.folder);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
    assert_int_equal(clean_once(&rules, T0, "leftovers-deleted"), 0);
    assert_int_equal(utimes(path, old), 0);
    assert_int_equal(clean_once(&rules, T0, "leftovers-deleted"), 1);
    assert_int_not_equal(access(path, F_OK), 0);
}

static bool on_any_deleted(void *user, const struct pfl_index_deleted *deleted)
{
    (void)deleted;
    ++*(unsigned *)user;
    return true;
}

/* In several transactions, but in one cycle. */
static void all_that_is_due_is_forgotten(void **state)
{
    static const char many[] =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10001) INSERT"
        " INTO deletion(at_ns, segment_id, host, orderer, order_name, number, bytes, who, reason)"
        " SELECT i, 'x', 'h', 'me', 'cpu', i, 1, 'me', '' FROM n";
    struct pfl_keep_rules rules = no_rules();
    struct pfl_sql *sql = w.index->sql;
    unsigned left = 0;

    (void)state;
    assert_int_equal(sql->engine->script(sql, many), 0);
    (void)clean_once(&rules, T0, NULL);
    assert_int_equal(pfl_index_list_deleted(w.index, 0, on_any_deleted, &left), 0);
    assert_int_equal(left, 0);
}

static void one_of_those_that_share_an_index_cleans(void **state)
{
    struct store_world other = w;
    struct pfl_keep_rules rules = no_rules();
    struct pfl_clean *first = make_clean(&rules);
    struct pfl_clean *second = NULL;

    (void)state;
    (void)cycle(first, T0, NULL);
    assert_true(pfl_clean_get_figures(first)->is_held);
    store_world_open(&other, "second");
    {
        const struct pfl_clean_conf conf = {
            .store = other.store, .index = other.index, .rules = &rules, .fleet = "demo"};

        assert_int_equal(pfl_clean_new(&conf, &second), 0);
    }
    (void)cycle(second, T0, NULL);
    assert_false(pfl_clean_get_figures(second)->is_held);
    pfl_clean_free(second);
    pfl_clean_free(first);
    store_world_close(&other);
}

/* ---- a clock that jumps while no collector looks ---- */

static struct pfl_keep_rules old_after_30_days(void)
{
    struct pfl_keep_rules rules = no_rules();

    rules.list[0].age_ns = 30 * DAY;
    return rules;
}

static void a_jump_before_a_restart_deletes_nothing_for_a_day(void **state)
{
    struct store_world_trace trace = {.number = 1, .bytes = 10, .stored_ns = T0};
    struct store_world_trace later = {.number = 2, .bytes = 10, .stored_ns = T0 + 365 * DAY};
    struct pfl_keep_rules rules = old_after_30_days();
    struct pfl_clean *clean = make_clean(&rules);

    (void)state;
    store_world_put(&w, &trace, STORE_WORLD_WHOLE, 1);
    assert_int_equal(cycle_by(clean, T0 + S, 5 * S, "clock-jumped-ahead"), 0);
    assert_int_equal(cycle_by(clean, T0 + 365 * DAY, 35 * S, "clock-jumped-ahead"), 1);
    pfl_clean_free(clean);
    store_world_put(&w, &later, STORE_WORLD_WHOLE, 1); /* it has the time of the wrong clock */
    clean = make_clean(&rules);
    assert_int_equal(cycle_by(clean, T0 + 365 * DAY + S, 36 * S, "clock-jumped-ahead"), 1);
    assert_int_equal(store_world_state(&w, trace.id), PFL_INDEX_LIVE);
    assert_int_equal(cycle_by(clean, T0 + 366 * DAY, 35 * S + DAY, "clock-jumped-ahead"), 0);
    assert_int_equal(store_world_state(&w, trace.id), PFL_INDEX_LIVE);
    assert_int_equal(cycle_by(clean, T0 + 366 * DAY + S, 36 * S + DAY, "trace-deleted"), 1);
    assert_int_equal(store_world_state(&w, trace.id), PFL_INDEX_GONE);
    assert_int_equal(store_world_state(&w, later.id), PFL_INDEX_LIVE);
    pfl_clean_free(clean);
}

static void a_clock_that_is_right_again_holds_at_once(void **state)
{
    struct store_world_trace trace = {.number = 1, .bytes = 10, .stored_ns = T0};
    struct pfl_keep_rules rules = old_after_30_days();
    struct pfl_clean *clean = make_clean(&rules);

    (void)state;
    store_world_put(&w, &trace, STORE_WORLD_WHOLE, 1);
    assert_int_equal(cycle_by(clean, T0 + 365 * DAY, 5 * S, "clock-jumped-ahead"), 1);
    pfl_clean_free(clean);
    clean = make_clean(&rules);
    assert_int_equal(cycle_by(clean, T0 + 29 * DAY, 6 * S, "clock-jumped-ahead"), 1);
    assert_int_equal(cycle_by(clean, T0 + 60 * S, 60 * S, "clock-jumped-ahead"), 0);
    assert_int_equal(store_world_state(&w, trace.id), PFL_INDEX_LIVE);
    pfl_clean_free(clean);
}

/* It was off for a week: its traces wait for another day, and then go. */
static void a_collector_that_was_off_goes_on(void **state)
{
    struct store_world_trace trace = {.number = 1, .bytes = 10, .stored_ns = T0};
    struct pfl_keep_rules rules = old_after_30_days();
    struct pfl_clean *clean = make_clean(&rules);

    (void)state;
    store_world_put(&w, &trace, STORE_WORLD_WHOLE, 1);
    assert_int_equal(pfl_index_note_clock(w.index, T0 + 24 * DAY), 0);
    assert_int_equal(cycle_by(clean, T0 + 31 * DAY, 5 * S, "clock-jumped-ahead"), 1);
    assert_int_equal(store_world_state(&w, trace.id), PFL_INDEX_LIVE);
    assert_int_equal(cycle_by(clean, T0 + 32 * DAY, 5 * S + DAY, "trace-deleted"), 1);
    pfl_clean_free(clean);
}

static void a_collector_with_a_wrong_clock_that_takes_over_deletes_nothing(void **state)
{
    struct store_world_trace trace = {.number = 1, .bytes = 10, .stored_ns = T0};
    struct pfl_keep_rules rules = old_after_30_days();
    struct store_world other = w;
    struct pfl_clean_conf conf = {.rules = &rules, .fleet = "demo"};
    struct pfl_clean *first = make_clean(&rules);
    struct pfl_clean *second = NULL;

    (void)state;
    store_world_put(&w, &trace, STORE_WORLD_WHOLE, 1);
    store_world_open(&other, "second");
    conf.store = other.store;
    conf.index = other.index;
    assert_int_equal(pfl_clean_new(&conf, &second), 0);
    assert_int_equal(cycle_by(first, T0 + S, 5 * S, NULL), 0);
    assert_int_equal(cycle_by(second, T0 + 365 * DAY, 9 * S, "clock-jumped-ahead"), 0);
    assert_int_equal(pfl_index_leave(w.index), 0); /* it has the lease no more */
    assert_int_equal(cycle_by(second, T0 + 365 * DAY, 10 * S, "clock-jumped-ahead"), 1);
    assert_true(pfl_clean_get_figures(second)->is_held);
    assert_int_equal(store_world_state(&w, trace.id), PFL_INDEX_LIVE);
    pfl_clean_free(second);
    pfl_clean_free(first);
    store_world_close(&other);
}

/* ---- memory ---- */

static int make_one(void *arg)
{
    struct pfl_keep_rules rules = no_rules();
    const struct pfl_clean_conf conf = {.rules = &rules, .fleet = "demo"};
    struct pfl_clean *clean = NULL;
    int rc = pfl_clean_new(&conf, &clean);

    (void)arg;
    pfl_clean_free(clean);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    pfl_sweep(make_one, NULL, false);
}

/* ---- killed at any moment ---- */

static bool is_pinned(uint32_t number)
{
    return number % PIN_EACH == 0;
}

/* The life of a collector: some traces come, then it cleans, until it is killed. */
static void live(uint32_t first, uint32_t count, long kill_us)
{
    const struct itimerval timer = {.it_value = {kill_us / 1000000, kill_us % 1000000}};
    struct pfl_keep_rules rules = no_rules();
    struct pfl_clean *clean;

    rules.bytes = BOUND;
    store_world_open(&w, "keeper");
    for (uint32_t n = first; n < first + count; n++) {
        struct store_world_trace t = {.number = n, .bytes = 900, .stored_ns = T0 + n};
        Perfleet__StoredTrace__Pin pin = PERFLEET__STORED_TRACE__PIN__INIT;

        store_world_put(&w, &t, STORE_WORLD_WHOLE, 1);
        pin.who = "ann";
        if (is_pinned(n))
            assert_int_equal(pfl_index_pin(w.index, t.id, &pin), 0);
    }
    if (kill_us != 0)
        assert_int_equal(setitimer(ITIMER_REAL, &timer, NULL), 0);
    clean = make_clean(&rules);
    for (unsigned i = 0; i < (kill_us != 0 ? 1000000u : 3u); i++)
        (void)cycle(clean, T0 + DAY + i * S, NULL);
    pfl_clean_free(clean);
    store_world_close(&w);
}

struct seen {
    unsigned live[4096];
    uint64_t bytes;
    uint64_t largest;
    uint64_t unpinned;
    uint32_t oldest_unpinned;
};

static bool on_live(void *user, const struct pfl_index_row *row)
{
    struct seen *seen = user;
    char description[PFL_STORE_KEY_BYTES];
    struct pfl_store_object object;

    seen->live[row->number]++;
    seen->bytes += pfl_index_row_count_bytes(row);
    if (seen->largest < pfl_index_row_count_bytes(row))
        seen->largest = pfl_index_row_count_bytes(row);
    if (!is_pinned((uint32_t)row->number)) {
        seen->unpinned++;
        if (row->number < seen->oldest_unpinned)
            seen->oldest_unpinned = (uint32_t)row->number;
    }
    assert_int_equal(pfl_store_head(w.store, row->key, &object), 0);
    assert_int_equal(object.bytes, row->bytes);
    (void)snprintf(description, sizeof(description), "%.*s.json",
                   (int)(strlen(row->key) - strlen(".pftrace")), row->key);
    assert_int_equal(pfl_store_head(w.store, description, &object), 0);
    return true;
}

static bool on_tombstone(void *user, const struct pfl_index_row *row)
{
    (void)user;
    fail_msg("%s was not deleted", row->id);
    return true;
}

static void check_end(uint32_t len)
{
    static struct pfl_store_object objects[4096];
    static unsigned deleted[4096];
    static struct seen seen;
    const struct pfl_store_listing all = {"v1/", ""};
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;
    struct pfl_index_find find = {.query = &query, .on_row = on_live, .user = &seen};
    struct pfl_index_cursor cursor = {.len = 0};
    unsigned lives = 0;
    size_t count = 0;

    seen.oldest_unpinned = UINT32_MAX;
    query.has_limit = true;
    query.limit = PFL_INDEX_LIMIT_MAX;
    store_world_open(&w, "keeper");
    assert_int_equal(pfl_index_find(w.index, &find, &cursor), 0);
    assert_int_equal(
        pfl_index_find_state(w.index, PFL_INDEX_TOMBSTONE, UINT64_MAX, on_tombstone, NULL), 0);
    assert_int_equal(pfl_index_list_deleted(w.index, 0, on_deleted, deleted), 0);
    for (uint32_t n = 1; n <= len; n++) {
        assert_int_equal(seen.live[n] + deleted[n], 1);
        if (is_pinned(n))
            assert_int_equal(seen.live[n], 1);
        /* The oldest went: what stays is pinned, or newer than all that went. */
        if (!is_pinned(n))
            assert_int_equal(seen.live[n], n >= seen.oldest_unpinned);
        lives += seen.live[n];
    }
    assert_true(seen.bytes <= BOUND || seen.unpinned == 0);
    /* No more than had to, with the room for the notes of what went. */
    assert_true(seen.bytes + seen.largest > BOUND - BOUND / PFL_RETENTION_NOTES);
    assert_int_equal(pfl_store_list(w.store, &all, objects, 4096, &count), 0);
    assert_int_equal(count, 2 * lives);
    store_world_close(&w);
}

static void a_collector_that_is_killed_deletes_what_has_to_go_once(void **state)
{
    uint32_t len = 0;

    (void)state;
    store_world_close(&w);
    srand(21);
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint32_t count = (uint32_t)rand() % 4;
        long kill_us = 1 + rand() % 20000;
        int status = 0;
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0) {
            live(len + 1, count, kill_us);
            _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM);
        len += count;
    }
    live(len + 1, 0, 0);
    check_end(len);
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
        CASE(the_oldest_go_and_the_store_with_them),
        CASE(tombstones_of_operators_and_of_gaps_are_deleted),
        CASE(a_tombstone_of_the_future_is_deleted),
        CASE(what_cannot_be_deleted_is_put_off),
        CASE(tombstones_are_deleted_at_the_same_time_and_those_that_wait_are_counted),
        CASE(a_missing_object_is_reported_and_found_again),
        CASE(a_sweep_that_takes_long_continues_in_the_next_cycle),
        CASE(sweeps_wait_while_retention_is_behind),
        CASE(orphans_go_after_the_grace_and_whole_traces_stay),
        CASE(what_puts_left_is_removed),
        CASE(all_that_is_due_is_forgotten),
        CASE(one_of_those_that_share_an_index_cleans),
        CASE(a_jump_before_a_restart_deletes_nothing_for_a_day),
        CASE(a_clock_that_is_right_again_holds_at_once),
        CASE(a_collector_that_was_off_goes_on),
        CASE(a_collector_with_a_wrong_clock_that_takes_over_deletes_nothing),
        CASE(every_allocation_may_fail),
        CASE(a_collector_that_is_killed_deletes_what_has_to_go_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
