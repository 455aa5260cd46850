/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recording's page, as whole texts: hosts with trouble first, bars, what is said of hosts that
 * are away, the forms; strings of hosts are harmless; each allocation may fail.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "consumer/web/record/recording_page.h"
#include "tests/support/sweep.h"
#include "tests/unit/consumer/web/page_text.h"

#define EVIL "<script>alert(1)</script>\"'&"

static const struct pfl_recording_host_view three[] = {
    {.name = "db1",
     .state = "reading",
     .why = "",
     .share = 0.504,
     .bytes = 2048,
     .has_losses = true,
     .has_clock = true,
     .clock_error_ns = 123456},
    {.name = "web1",
     .state = "recording",
     .why = "",
     .share = PFL_RECORDING_NO_BAR,
     .away_ms = 61000},
    {.name = EVIL, .state = "failed", .why = EVIL, .share = 1, .has_losses = true, .losses = 7},
};

static struct pfl_recording_view make_view(void)
{
    return (struct pfl_recording_view){
        .id = 3,
        .state = PFL_RECORDING_VIEW_RUNS,
        .what = "default",
        .where = "role=web",
        .command = "perfleet record",
        .hosts = three,
        .hosts_len = 3,
        .failed = 1,
        .longest_away = "",
        .elapsed_ms = 2500,
        .duration_ms = 10000,
        .read_bytes = 2048,
        .losses = 7,
        .warnings = "",
        .why = "",
        .summary = "",
        .file_name = "perfleet-1.pftrace",
    };
}

static const char *write_progress(const struct pfl_recording_view *view)
{
    struct pfl_html h;

    pfl_html_init(&h, PAGE_TEXT_MAX);
    pfl_recording_page_write_progress(view, &h);
    return page_text_take(&h);
}

static const char *write_page(const struct pfl_recording_view *view)
{
    struct pfl_layout layout = page_text_layout("Recording");
    struct pfl_html h;

    pfl_html_init(&h, PAGE_TEXT_MAX);
    pfl_recording_page_write(view, &layout, &h);
    return page_text_take_main(&h);
}

static void progress_has_hosts_with_trouble_first(void **state)
{
    struct pfl_recording_view v = make_view();

    (void)state;
    page_text_check(write_progress(&v), "progress_has_hosts_with_trouble_first");
}

static void who_is_away_is_said(void **state)
{
    struct pfl_recording_view v = make_view();

    (void)state;
    v.hosts_len = 0;
    v.away = 1;
    v.longest_away = EVIL;
    v.longest_away_ms = 3000;
    page_text_check(write_progress(&v), "one_is_away");
    v.away = 3;
    v.is_waited_for = true;
    v.state = PFL_RECORDING_VIEW_STOPS;
    v.warnings = "first\nsecond <b>";
    v.why = EVIL;
    page_text_check(write_progress(&v), "three_are_waited_for");
}

static void each_state_has_its_words_and_its_bar(void **state)
{
    struct pfl_recording_view v = make_view();

    (void)state;
    v.hosts_len = 1;
    v.expected_bytes = 4096;
    for (v.state = PFL_RECORDING_VIEW_BEGINS; v.state <= PFL_RECORDING_VIEW_OVER; v.state++) {
        char name[32];

        (void)snprintf(name, sizeof(name), "state_%d", (int)v.state);
        page_text_check(write_progress(&v), name);
    }
    v.state = PFL_RECORDING_VIEW_RUNS;
    v.duration_ms = 0;
    page_text_check(write_progress(&v), "until_it_is_stopped");
    v.duration_ms = 1000; /* it is late */
    page_text_check(write_progress(&v), "no_bar_is_more_than_full");
}

static void page_that_runs_can_be_stopped(void **state)
{
    struct pfl_recording_view v = make_view();

    (void)state;
    v.hosts_len = 0;
    page_text_check(write_page(&v), "page_that_runs");
    v.is_stopping = true;
    page_text_check(write_page(&v), "page_that_stops");
}

static void page_that_is_over_has_the_trace(void **state)
{
    struct pfl_recording_view v = make_view();

    (void)state;
    v.hosts_len = 0;
    v.state = PFL_RECORDING_VIEW_OVER;
    v.kept_s = 3599;
    v.why = "no host offers " EVIL;
    page_text_check(write_page(&v), "page_without_trace");
    v.has_trace = true;
    v.why = "";
    v.file_bytes = 3 << 20;
    v.summary = "host " EVIL ": 3 packets\n";
    page_text_check(write_page(&v), "page_with_trace");
    v.has_lost = true;
    page_text_check(write_progress(&v), "not_complete");
}

static void list_has_a_row_each(void **state)
{
    struct pfl_recording_view views[2] = {make_view(), make_view()};
    struct pfl_html h;

    (void)state;
    views[0].where = EVIL;
    views[1].id = 2;
    views[1].has_trace = true;
    views[1].file_bytes = 1024;
    views[1].state = PFL_RECORDING_VIEW_OVER;
    pfl_html_init(&h, PAGE_TEXT_MAX);
    pfl_recording_page_write_list(views, 2, &h);
    page_text_check(page_text_take(&h), "list");
    pfl_html_init(&h, PAGE_TEXT_MAX);
    pfl_recording_page_write_list(views, 0, &h);
    assert_string_equal(page_text_take(&h), "");
}

/* ---- limits ---- */

static struct pfl_recording_host_view thousand[1000];

static size_t count(const char *text, const char *what)
{
    size_t n = 0;

    for (; (text = strstr(text, what)) != NULL; text++)
        n++;
    return n;
}

static void rows_have_a_limit_and_trouble_is_among_them(void **state)
{
    struct pfl_recording_view v = make_view();
    const char *text;

    (void)state;
    for (size_t i = 0; i < 1000; i++)
        thousand[i] = (struct pfl_recording_host_view){
            .name = i == 999 ? "last" : "h", .state = "recording", .why = i == 999 ? "dead" : ""};
    v.hosts = thousand;
    v.hosts_len = 1000;
    text = write_progress(&v);
    assert_int_equal(count(text, "<th scope=\"row\">"), PFL_RECORDING_PAGE_MAX_ROWS);
    assert_int_equal(count(text, ">last<"), 1);
    assert_int_equal(count(text, "and 800 more hosts"), 1);
    v.hosts_len = PFL_RECORDING_PAGE_MAX_ROWS;
    assert_int_equal(count(write_progress(&v), "more hosts"), 0);
}

static int write_all(void *arg)
{
    struct pfl_recording_view v = make_view();
    struct pfl_layout layout = page_text_layout("Recording");
    struct pfl_html h;
    int rc;

    (void)arg;
    v.state = PFL_RECORDING_VIEW_OVER;
    v.has_trace = true;
    v.summary = "summary";
    pfl_html_init(&h, PAGE_TEXT_MAX);
    pfl_recording_page_write(&v, &layout, &h);
    rc = h.rc;
    pfl_html_fini(&h);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    pfl_sweep(write_all, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(progress_has_hosts_with_trouble_first),
        cmocka_unit_test(who_is_away_is_said),
        cmocka_unit_test(each_state_has_its_words_and_its_bar),
        cmocka_unit_test(page_that_runs_can_be_stopped),
        cmocka_unit_test(page_that_is_over_has_the_trace),
        cmocka_unit_test(list_has_a_row_each),
        cmocka_unit_test(rows_have_a_limit_and_trouble_is_among_them),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return page_text_run("recording_page", tests, sizeof(tests) / sizeof(tests[0]));
}
