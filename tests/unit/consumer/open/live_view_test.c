/* SPDX-License-Identifier: Apache-2.0 */
/* When a live view copies, when it ends, and what its page is answered. */
#include "consumer/open/live_view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "consumer/text.h"
#include "tests/support/sweep.h"

#define BEGIN 1000u

static const uint8_t key[PFL_HAND_OVER_KEY_BYTES] = {0xab};

static const struct pfl_live_view_ask first = {0, PFL_LIVE_VIEW_TAB_OPEN, false};

static struct pfl_live_view make(void)
{
    struct pfl_live_view v;

    pfl_live_view_init(
        &v,
        &(struct pfl_live_view_conf){
            .host = "web<1>", .every_ms = 5000, .max_time_ms = 60000, .wait_ms = 30000},
        BEGIN);
    return v;
}

/* A view is in the tab; it was copied from BEGIN on, in a second. */
static struct pfl_live_view make_shown(void)
{
    struct pfl_live_view v = make();
    struct pfl_live_view_ask again = {1, PFL_LIVE_VIEW_TAB_OPEN, false};

    pfl_live_view_begin(&v, BEGIN);
    pfl_live_view_end(&v, 3000, NULL, BEGIN + 1000);
    assert_true(pfl_live_view_ask(&v, &first, false, BEGIN + 1100));
    assert_false(pfl_live_view_ask(&v, &again, true, BEGIN + 1200));
    return v;
}

/* ---- what the page says ---- */

static int parse(const char *query, struct pfl_live_view_ask *ret_ask)
{
    return pfl_live_view_parse(query, ret_ask);
}

static void a_question_is_read(void **state)
{
    struct pfl_live_view_ask ask;

    (void)state;
    assert_int_equal(parse("have=0&tab=none&hold=0", &ask), 0);
    assert_int_equal(ask.have, 0);
    assert_int_equal(ask.tab, PFL_LIVE_VIEW_TAB_NONE);
    assert_false(ask.is_held);
    assert_int_equal(parse("have=0&tab=new&hold=0", &ask), 0);
    assert_int_equal(ask.tab, PFL_LIVE_VIEW_TAB_NEW);
    assert_int_equal(parse("have=4294967295&tab=open&hold=1", &ask), 0);
    assert_int_equal(ask.have, UINT32_MAX);
    assert_int_equal(ask.tab, PFL_LIVE_VIEW_TAB_OPEN);
    assert_true(ask.is_held);
    assert_int_equal(parse("have=7&tab=closed&hold=0", &ask), 0);
    assert_int_equal(ask.have, 7);
    assert_int_equal(ask.tab, PFL_LIVE_VIEW_TAB_OVER);
}

static void a_question_that_is_none_is_refused(void **state)
{
    static const char *const queries[] = {
        "",
        "have=1&tab=open",
        "have=1&hold=0",
        "tab=open&hold=0",
        "have=&tab=open&hold=0",
        "have=-1&tab=open&hold=0",
        "have=1x&tab=open&hold=0",
        "have=/&tab=open&hold=0",
        "have=:&tab=open&hold=0",
        "have=4294967296&tab=open&hold=0",
        "have=00000000001&tab=open&hold=0",
        "have=1&tab=opened&hold=0",
        "have=1&tab=open&hold=2",
        "have=1&tab=open&hold=%zz",
    };
    struct pfl_live_view_ask ask = {77, PFL_LIVE_VIEW_TAB_OVER, true};

    (void)state;
    for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++)
        assert_int_equal(parse(queries[i], &ask), PFL_EPARSE);
    assert_int_equal(ask.have, 77);
    assert_int_equal(parse("have=0000000001&tab=open&hold=0", &ask), 0);
}

/* ---- when it copies ---- */

static void nothing_is_copied_that_nobody_asks_for(void **state)
{
    struct pfl_live_view v = make();
    const struct pfl_live_view_ask fresh = {0, PFL_LIVE_VIEW_TAB_NEW, false};
    const struct pfl_live_view_ask none = {0, PFL_LIVE_VIEW_TAB_NONE, false};
    const struct pfl_live_view_ask held = {0, PFL_LIVE_VIEW_TAB_OPEN, true};

    (void)state;
    assert_false(pfl_live_view_is_due(&v, BEGIN));
    assert_true(pfl_live_view_ask(&v, &fresh, true, BEGIN)); /* it is shown what it costs */
    assert_false(pfl_live_view_is_due(&v, BEGIN));
    assert_false(pfl_live_view_ask(&v, &none, true, BEGIN)); /* the page, without a tab */
    assert_false(pfl_live_view_is_due(&v, BEGIN));
    assert_false(pfl_live_view_ask(&v, &first, true, BEGIN));
    assert_true(pfl_live_view_is_due(&v, BEGIN));
    assert_false(pfl_live_view_ask(&v, &held, true, BEGIN)); /* a person looks */
    assert_false(pfl_live_view_is_due(&v, BEGIN));
    assert_false(pfl_live_view_ask(&v, &first, true, BEGIN));
    assert_true(pfl_live_view_is_due(&v, BEGIN + PFL_LIVE_VIEW_GONE_MS - 1));
    assert_false(pfl_live_view_is_due(&v, BEGIN + PFL_LIVE_VIEW_GONE_MS)); /* it is gone */
}

static void a_view_that_is_there_is_given_at_once(void **state)
{
    struct pfl_live_view v = make();
    const struct pfl_live_view_ask again = {1, PFL_LIVE_VIEW_TAB_OPEN, false};

    (void)state;
    pfl_live_view_begin(&v, BEGIN);
    pfl_live_view_end(&v, 3000, NULL, BEGIN + 1000);
    assert_int_equal(v.number, 1);
    assert_true(pfl_live_view_ask(&v, &first, false, BEGIN + 9000));
    assert_false(pfl_live_view_is_due(&v, BEGIN + 9000));
    assert_false(pfl_live_view_ask(&v, &again, true, BEGIN + 9000));
    assert_true(pfl_live_view_is_due(&v, BEGIN + 9000));
    assert_false(pfl_live_view_ask(&v, &first, true, BEGIN + 9000)); /* a page that was reloaded */
    assert_true(pfl_live_view_is_due(&v, BEGIN + 9000));
}

static void a_copy_is_made_at_most_so_often(void **state)
{
    struct pfl_live_view v = make_shown();

    (void)state;
    assert_false(pfl_live_view_is_due(&v, BEGIN + 4999));
    assert_true(pfl_live_view_is_due(&v, BEGIN + 5000));
    pfl_live_view_begin(&v, BEGIN + 5000);
    assert_false(pfl_live_view_is_due(&v, BEGIN + 11000)); /* one at a time */
    pfl_live_view_end(&v, 4000, NULL, BEGIN + 5100);
    assert_int_equal(v.number, 2);
    assert_int_equal(v.bytes, 4000);
    assert_int_equal(v.took_ms, 100);
    assert_int_equal(v.total_bytes, 7000);
    assert_false(pfl_live_view_is_due(&v, BEGIN + 11000)); /* it was not asked for another one */
}

static void a_slow_copy_is_followed_by_a_long_rest(void **state)
{
    struct pfl_live_view v = make_shown();
    const struct pfl_live_view_ask again = {2, PFL_LIVE_VIEW_TAB_OPEN, false};

    (void)state;
    pfl_live_view_begin(&v, BEGIN + 5000);
    pfl_live_view_end(&v, 1, NULL, BEGIN + 8000); /* 3 s: three times that follow */
    assert_false(pfl_live_view_ask(&v, &again, true, BEGIN + 8000));
    assert_false(pfl_live_view_is_due(&v, BEGIN + 16999));
    assert_true(pfl_live_view_is_due(&v, BEGIN + 17000));
}

static void a_failed_copy_is_tried_again_later_each_time(void **state)
{
    struct pfl_live_view v = make_shown();
    static const uint64_t waits_ms[] = {5000, 10000, 20000, 40000, 60000, 60000};
    const struct pfl_live_view_ask again = {1, PFL_LIVE_VIEW_TAB_OPEN, false};
    uint64_t now_ms = BEGIN + 5000;

    (void)state;
    for (size_t i = 0; i < sizeof(waits_ms) / sizeof(waits_ms[0]); i++) {
        pfl_live_view_begin(&v, now_ms);
        pfl_live_view_end(&v, 10, "it is away", now_ms + 10);
        assert_string_equal(v.why, "it is away");
        assert_int_equal(v.failures, i + 1);
        assert_int_equal(v.number, 1);
        assert_int_equal(v.bytes, 3000);
        now_ms += 10 + waits_ms[i];
        assert_false(pfl_live_view_ask(&v, &again, true, now_ms - 1));
        assert_false(pfl_live_view_is_due(&v, now_ms - 1));
        assert_true(pfl_live_view_is_due(&v, now_ms));
    }
    assert_int_equal(v.total_bytes, 3060);
    pfl_live_view_begin(&v, now_ms);
    pfl_live_view_end(&v, 10, NULL, now_ms + 10);
    assert_string_equal(v.why, "");
    pfl_live_view_begin(&v, now_ms);
    pfl_live_view_end(&v, 10, "again", now_ms + 10);
    assert_int_equal(v.due_ms, now_ms + 10 + 5000);
}

static void a_long_period_is_the_shortest_wait(void **state)
{
    struct pfl_live_view v = make();

    (void)state;
    v.conf.every_ms = 90000;
    for (unsigned i = 0; i < 3; i++) {
        pfl_live_view_begin(&v, BEGIN);
        pfl_live_view_end(&v, 0, "x", BEGIN);
        assert_int_equal(v.due_ms, BEGIN + 90000);
    }
}

/* ---- when it ends ---- */

static void it_ends_with_the_tab(void **state)
{
    struct pfl_live_view v = make_shown();
    const struct pfl_live_view_ask closed = {1, PFL_LIVE_VIEW_TAB_OVER, false};

    (void)state;
    assert_int_equal(pfl_live_view_check(&v, BEGIN + 2000), PFL_LIVE_VIEW_RUNS);
    assert_true(pfl_live_view_ask(&v, &closed, true, BEGIN + 2000));
    assert_int_equal(pfl_live_view_check(&v, BEGIN + 2000), PFL_LIVE_VIEW_TAB_CLOSED);
    assert_true(pfl_live_view_ask(&v, &first, true, BEGIN + 6000));
    assert_false(pfl_live_view_is_due(&v, BEGIN + 6000));
    assert_int_equal(pfl_live_view_check(&v, BEGIN + 90000), PFL_LIVE_VIEW_TAB_CLOSED);
}

static void it_ends_when_the_page_asks_no_more(void **state)
{
    struct pfl_live_view v = make_shown();
    uint64_t gone_ms = BEGIN + 1200 + PFL_LIVE_VIEW_GONE_MS;

    (void)state;
    assert_int_equal(pfl_live_view_check(&v, gone_ms - 1), PFL_LIVE_VIEW_RUNS);
    assert_int_equal(pfl_live_view_check(&v, gone_ms), PFL_LIVE_VIEW_PAGE_GONE);
}

static void it_ends_when_time_is_over(void **state)
{
    struct pfl_live_view v = make_shown();
    const struct pfl_live_view_ask held = {1, PFL_LIVE_VIEW_TAB_OPEN, true};

    (void)state;
    assert_false(pfl_live_view_ask(&v, &held, true, BEGIN + 61000));
    assert_int_equal(pfl_live_view_check(&v, BEGIN + 61099), PFL_LIVE_VIEW_RUNS);
    assert_int_equal(pfl_live_view_check(&v, BEGIN + 61100), PFL_LIVE_VIEW_TIME_OVER);
}

static void it_ends_when_no_tab_comes(void **state)
{
    struct pfl_live_view v = make();
    const struct pfl_live_view_ask none = {0, PFL_LIVE_VIEW_TAB_NONE, false};

    (void)state;
    assert_false(pfl_live_view_ask(&v, &none, true, BEGIN + 29999));
    assert_int_equal(pfl_live_view_check(&v, BEGIN + 29999), PFL_LIVE_VIEW_RUNS);
    assert_int_equal(pfl_live_view_check(&v, BEGIN + 30000), PFL_LIVE_VIEW_NEVER_SEEN);
}

static void ends_have_words(void **state)
{
    static const char *const words[] = {
        "", "the UI's tab was closed", "the page of perfleet open was closed",
        "the time is over (--max-time)", "no browser opened it in time (--serve-for)"};

    (void)state;
    for (unsigned i = 0; i <= PFL_LIVE_VIEW_NEVER_SEEN; i++)
        assert_string_equal(pfl_live_view_end_str((enum pfl_live_view_end)i), words[i]);
}

/* ---- the answer ---- */

static void expect_json(const struct pfl_live_view *v, const struct pfl_hand_over *h,
                        const char *expected)
{
    struct pfl_buf out;

    pfl_buf_init(&out, 4096);
    assert_int_equal(pfl_live_view_add_json(v, h, &out), 0);
    assert_int_equal(pfl_buf_append(&out, "", 1), 0);
    assert_string_equal((const char *)pfl_buf_get(&out).data, expected);
    pfl_buf_fini(&out);
}

static void make_hand_over(struct pfl_hand_over *h)
{
    pfl_hand_over_init(h, PFL_HAND_OVER_PAGE, "https://ui.example.com/x", key);
    pfl_hand_over_set_live(h);
    assert_int_equal(pfl_hand_over_add(h, "live.pftrace", 3210, key), 0);
}

static void the_answer_has_the_view_and_its_cost(void **state)
{
    struct pfl_live_view v = make_shown();
    struct pfl_hand_over h;

    (void)state;
    make_hand_over(&h);
    expect_json(&v, &h,
                "{\"url\": \"https://ui.example.com/x\", \"origin\": \"https://ui.example.com\", "
                "\"host\": \"web<1>\", \"view\": {\"number\": 1, \"bytes\": 3210, \"took_ms\": "
                "1000, \"path\": \"../ab000000000000000000000000000000/live.pftrace\"}, "
                "\"read_bytes\": 3000, \"total_bytes\": 3000, \"every_ms\": 5000, \"failures\": 0, "
                "\"why\": \"\", \"end\": \"\"}\n");
}

static void the_answer_says_what_is_wrong(void **state)
{
    struct pfl_live_view v = make_shown();
    struct pfl_hand_over h;

    (void)state;
    make_hand_over(&h);
    pfl_hand_over_end(&h, 0, true); /* fetched */
    pfl_live_view_begin(&v, BEGIN + 5000);
    pfl_live_view_end(&v, 40, "it is \"away\"", BEGIN + 5000);
    v.end = PFL_LIVE_VIEW_TIME_OVER;
    expect_json(&v, &h,
                "{\"url\": \"https://ui.example.com/x\", \"origin\": \"https://ui.example.com\", "
                "\"host\": \"web<1>\", \"view\": {\"number\": 1, \"bytes\": 3210, \"took_ms\": "
                "1000, \"path\": null}, \"read_bytes\": 3000, \"total_bytes\": 3040, \"every_ms\": "
                "5000, \"failures\": 1, \"why\": \"it is \\\"away\\\"\", \"end\": \"the time is "
                "over (--max-time)\"}\n");
}

static void without_a_view_the_answer_has_none(void **state)
{
    struct pfl_live_view v = make();
    struct pfl_hand_over h;

    (void)state;
    pfl_hand_over_init(&h, PFL_HAND_OVER_OWN, NULL, key);
    pfl_hand_over_set_live(&h);
    expect_json(&v, &h,
                "{\"url\": \"\", \"origin\": \"\", \"host\": \"web<1>\", \"view\": null, "
                "\"read_bytes\": 0, \"total_bytes\": 0, \"every_ms\": 5000, \"failures\": 0, "
                "\"why\": \"\", \"end\": \"\"}\n");
}

static int run_all(void *arg)
{
    struct pfl_live_view v = make_shown();
    struct pfl_live_view_ask ask;
    struct pfl_hand_over h;
    struct pfl_buf out;
    int rc;

    (void)arg;
    rc = pfl_live_view_parse("have=1&tab=open&hold=0", &ask);
    if (rc != 0)
        return rc;
    make_hand_over(&h);
    pfl_buf_init(&out, 4096);
    rc = pfl_live_view_add_json(&v, &h, &out);
    pfl_buf_fini(&out);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    pfl_text_init_json();
    pfl_sweep(run_all, NULL, true); /* a string that has no memory is tried as a quoted one */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_question_is_read),
        cmocka_unit_test(a_question_that_is_none_is_refused),
        cmocka_unit_test(nothing_is_copied_that_nobody_asks_for),
        cmocka_unit_test(a_view_that_is_there_is_given_at_once),
        cmocka_unit_test(a_copy_is_made_at_most_so_often),
        cmocka_unit_test(a_slow_copy_is_followed_by_a_long_rest),
        cmocka_unit_test(a_failed_copy_is_tried_again_later_each_time),
        cmocka_unit_test(a_long_period_is_the_shortest_wait),
        cmocka_unit_test(it_ends_with_the_tab),
        cmocka_unit_test(it_ends_when_the_page_asks_no_more),
        cmocka_unit_test(it_ends_when_time_is_over),
        cmocka_unit_test(it_ends_when_no_tab_comes),
        cmocka_unit_test(ends_have_words),
        cmocka_unit_test(the_answer_has_the_view_and_its_cost),
        cmocka_unit_test(the_answer_says_what_is_wrong),
        cmocka_unit_test(without_a_view_the_answer_has_none),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
