/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions of many hosts by their names, and the Running page as a whole text: what can be copied,
 * limits, harmless strings, each allocation failing once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "consumer/web/running/running_page.h"
#include "perfetto/service_state.pb-c.h"
#include "tests/support/sweep.h"
#include "tests/unit/consumer/web/page_text.h"

#define EVIL  "<script>alert(1)</script>\"'&"
#define NOW_S 1800000000

typedef Perfetto__Protos__TracingServiceState state_t;
typedef Perfetto__Protos__TracingServiceState__TracingSession session_t;

static uint8_t bytes[65536];
static struct pfl_running_rows rows;

/* A state with these sessions, `NAME STATE` each. */
static struct pfl_span make_state(const char *const (*sessions)[2], size_t len)
{
    static session_t all[300];
    static session_t *pointers[300];
    static uint32_t sizes[] = {1024, 8};
    state_t state = PERFETTO__PROTOS__TRACING_SERVICE_STATE__INIT;

    for (size_t i = 0; i < len; i++) {
        all[i] = (session_t)PERFETTO__PROTOS__TRACING_SERVICE_STATE__TRACING_SESSION__INIT;
        all[i].unique_session_name = (char *)(uintptr_t)sessions[i][0];
        all[i].state = (char *)(uintptr_t)sessions[i][1];
        all[i].has_consumer_uid = 1;
        all[i].consumer_uid = 1000;
        all[i].has_perfleet_is_own = all[i].perfleet_is_own = i == 0;
        all[i].has_start_realtime_ns = 1;
        all[i].start_realtime_ns = (NOW_S - 60 - (int64_t)i) * 1000000000;
        all[i].n_buffer_size_kb = 2;
        all[i].buffer_size_kb = sizes;
        pointers[i] = &all[i];
    }
    state.n_tracing_sessions = len;
    state.tracing_sessions = pointers;
    assert_true(protobuf_c_message_get_packed_size(&state.base) <= sizeof(bytes));
    return pfl_span_of(bytes, protobuf_c_message_pack(&state.base, bytes));
}

/* A session without a name that was left under a key. */
static struct pfl_span make_named_copy(const char *name, const char *key, size_t len)
{
    session_t one = PERFETTO__PROTOS__TRACING_SERVICE_STATE__TRACING_SESSION__INIT;
    session_t *pointers[] = {&one};
    state_t state = PERFETTO__PROTOS__TRACING_SERVICE_STATE__INIT;

    one.state = (char *)(uintptr_t) "CLONED_READ_ONLY";
    one.unique_session_name = (char *)(uintptr_t)name;
    one.has_perfleet_detach_key = 1;
    one.perfleet_detach_key.data = (uint8_t *)(uintptr_t)key;
    one.perfleet_detach_key.len = len;
    state.n_tracing_sessions = 1;
    state.tracing_sessions = pointers;
    return pfl_span_of(bytes, protobuf_c_message_pack(&state.base, bytes));
}

static struct pfl_span make_keyed(const char *key, size_t len)
{
    return make_named_copy(NULL, key, len);
}

static const char *const of_web1[][2] = {
    {"flight", "STARTED"}, {NULL, "STARTED"}, {EVIL, "STARTED"}};
static const char *const of_web2[][2] = {{"flight", "STARTED"}, {"over", "DISABLED"}};

static int fill(void)
{
    int rc;

    pfl_running_rows_init(&rows, 1);
    rc = pfl_running_rows_add(&rows, "web1", make_state(of_web1, 3));
    return rc == 0 ? pfl_running_rows_add(&rows, "web2", make_state(of_web2, 2)) : rc;
}

static void sessions_of_one_name_are_one_row(void **state)
{
    (void)state;
    assert_int_equal(fill(), 0);
    assert_int_equal(rows.len, 4);
    assert_string_equal(rows.rows[0].name, "flight");
    assert_string_equal(rows.rows[0].hosts, "web1, web2");
    assert_int_equal(rows.rows[0].hosts_len, 2);
    assert_int_equal(rows.rows[0].ring_bytes, 2 * 1032 * 1024);
    assert_int_equal(rows.rows[0].since_s, NOW_S - 60);
    assert_true(rows.rows[0].is_running);
    assert_string_equal(rows.rows[0].key, "flight");
    assert_string_equal(rows.rows[1].key, ""); /* it has no name */
    assert_string_equal(rows.rows[3].key, "over");
    assert_false(rows.rows[3].is_running);
    assert_int_equal(pfl_running_rows_add(&rows, "bad", pfl_span_of("\x0a\xff", 2)), PFL_EPARSE);
}

static void session_is_found_by_the_key_under_which_it_was_left(void **state)
{
    struct pfl_span all = make_state(of_web2, 2);

    (void)state;
    assert_true(pfl_running_rows_has_key(all, "flight"));
    assert_true(pfl_running_rows_has_key(all, "over"));
    assert_false(pfl_running_rows_has_key(all, "fligh"));
    assert_false(pfl_running_rows_has_key(all, ""));
    assert_false(pfl_running_rows_has_key(pfl_span_of("\x0a\xff", 2), "flight"));
    all = make_keyed("a.copied", 8);
    assert_true(pfl_running_rows_has_key(all, "a.copied"));
    assert_false(pfl_running_rows_has_key(all, ""));
    pfl_running_rows_init(&rows, 1);
    assert_int_equal(pfl_running_rows_add(&rows, "h", all), 0);
    assert_int_equal(pfl_running_rows_add(&rows, "i", all), 0);
    assert_int_equal(rows.len, 1);
    assert_string_equal(rows.rows[0].name, "");
    assert_string_equal(rows.rows[0].key, "a.copied");
}

/* A command could not name it either. */
static void key_that_is_no_word_has_no_actions(void **state)
{
    static const char *const bad[] = {"", "a b", "a\0b", "\x80", "\x7f"};
    static const size_t lens[] = {0, 3, 3, 1, 1};
    static char longest[PFL_RUNNING_ROWS_NAME_BYTES];

    (void)state;
    memset(longest, 'a', sizeof(longest));
    for (size_t i = 0; i < 6; i++) {
        pfl_running_rows_init(&rows, 1);
        assert_int_equal(pfl_running_rows_add(&rows, "h",
                                              i < 5 ? make_keyed(bad[i], lens[i])
                                                    : make_keyed(longest, sizeof(longest))),
                         0);
        assert_int_equal(rows.len, 1);
        assert_string_equal(rows.rows[0].key, "");
    }
}

static void rows_and_names_have_limits(void **state)
{
    static const char *many[201][2];
    static char long_name[PFL_RUNNING_ROWS_NAME_BYTES + 1];
    const char *const one[][2] = {{long_name, "STARTED"}};

    (void)state;
    pfl_running_rows_init(&rows, 1);
    memset(long_name, 'a', PFL_RUNNING_ROWS_NAME_BYTES);
    assert_int_equal(pfl_running_rows_add(&rows, "h", make_state(one, 1)), 0);
    assert_int_equal(rows.len, 0);
    assert_int_equal(rows.left_out, 1);
    for (size_t i = 0; i < 201; i++)
        many[i][0] = "", many[i][1] = "STARTED";
    assert_int_equal(
        pfl_running_rows_add(&rows, "h", make_state((const char *const(*)[2])many, 201)), 0);
    assert_int_equal(rows.len, PFL_RUNNING_ROWS_MAX);
    assert_int_equal(rows.left_out, 2);
    for (unsigned i = 0; i < 300; i++)
        assert_int_equal(pfl_running_rows_add(&rows, "host-of-some-length", make_state(of_web2, 0)),
                         0);
    pfl_running_rows_init(&rows, 1);
    for (unsigned i = 0; i < 300; i++)
        assert_int_equal(pfl_running_rows_add(&rows, "host-of-some-length", make_state(of_web2, 1)),
                         0);
    assert_int_equal(rows.rows[0].hosts_len, 300);
    assert_true(strlen(rows.rows[0].hosts) < sizeof(rows.rows[0].hosts));
}

static void a_host_with_many_sessions_leaves_rows_to_the_others(void **state)
{
    static const char *many[250][2];

    (void)state;
    for (size_t i = 0; i < 250; i++)
        many[i][1] = "STARTED";
    pfl_running_rows_init(&rows, 4);
    assert_int_equal(
        pfl_running_rows_add(&rows, "hog", make_state((const char *const(*)[2])many, 250)), 0);
    assert_int_equal(rows.len, 50);
    assert_int_equal(rows.left_out, 200);
    assert_int_equal(pfl_running_rows_add(&rows, "web1", make_state(of_web1, 3)), 0);
    assert_int_equal(rows.len, 53);
    pfl_running_rows_init(&rows, 256);
    assert_int_equal(
        pfl_running_rows_add(&rows, "hog", make_state((const char *const(*)[2])many, 250)), 0);
    assert_int_equal(rows.len, PFL_RUNNING_ROWS_OF_HOST);
}

static void a_host_is_named_once_in_a_row(void **state)
{
    static const char *const twice[][2] = {{"flight", "STARTED"}, {"flight", "STARTED"}};

    (void)state;
    pfl_running_rows_init(&rows, 2);
    assert_int_equal(pfl_running_rows_add(&rows, "web1", make_state(twice, 2)), 0);
    assert_int_equal(pfl_running_rows_add(&rows, "web2", make_state(twice, 2)), 0);
    assert_int_equal(rows.len, 1);
    assert_string_equal(rows.rows[0].hosts, "web1, web2");
    assert_int_equal(rows.rows[0].hosts_len, 2);
}

static int write_page(const struct pfl_running_page *page, struct pfl_html *h)
{
    struct pfl_layout layout = page_text_layout("Running");

    pfl_html_init(h, PAGE_TEXT_MAX);
    pfl_running_page_write(page, &layout, h);
    return h->rc;
}

static void page_has_a_row_each_and_buttons_for_what_can_be_done(void **state)
{
    static const struct pfl_order_rows no_rows;
    const struct pfl_order_page orders = {.rows = &no_rows, .has_collector = true, .why = ""};
    struct pfl_running_page page = {
        .rows = &rows, .asked = 3, .answered = 2, .all = 4, .now_s = NOW_S};
    struct pfl_html h;

    (void)state;
    assert_int_equal(fill(), 0);
    rows.left_out = 1;
    assert_int_equal(write_page(&page, &h), 0);
    page_text_check(page_text_take_main(&h), "sessions");
    assert_int_equal(pfl_running_rows_add(&rows, "web1", make_keyed("kept", 4)), 0);
    assert_int_equal(
        pfl_running_rows_add(&rows, "web1", make_named_copy(EVIL, "flight.triggered", 16)), 0);
    assert_int_equal(write_page(&page, &h), 0);
    page_text_check(page_text_take_main(&h), "with a copy");
    pfl_running_rows_init(&rows, 1);
    page.asked = page.answered = page.all = 2;
    page.orders = &orders;
    page.why = "Too many questions to hosts are under way: try again in a moment.";
    assert_int_equal(write_page(&page, &h), 0);
    page_text_check(page_text_take_main(&h), "none");
}

static void what_takes_data_away_asks_first(void **state)
{
    struct pfl_layout layout = page_text_layout("Running");
    struct pfl_html h;

    (void)state;
    pfl_html_init(&h, PAGE_TEXT_MAX);
    pfl_running_page_write_confirm(PFL_RUNNING_STOP, EVIL, 2, &layout, &h);
    page_text_check(page_text_take_main(&h), "stop");
    pfl_html_init(&h, PAGE_TEXT_MAX);
    pfl_running_page_write_confirm(PFL_RUNNING_DISCARD, "flight", 1, &layout, &h);
    page_text_check(page_text_take_main(&h), "discard");
    assert_int_equal(pfl_running_page_parse_action("kill"), PFL_RUNNING_DISCARD);
    assert_int_equal(pfl_running_page_parse_action(""), PFL_RUNNING_NONE);
    assert_int_equal(pfl_running_page_parse_action("rm"), PFL_RUNNING_NONE);
}

static int fill_and_write(void *arg)
{
    struct pfl_running_page page = {.rows = &rows, .now_s = NOW_S};
    struct pfl_html h;
    int rc = fill();

    (void)arg;
    if (rc != 0)
        return rc;
    rc = write_page(&page, &h);
    pfl_html_fini(&h);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    pfl_sweep(fill_and_write, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sessions_of_one_name_are_one_row),
        cmocka_unit_test(session_is_found_by_the_key_under_which_it_was_left),
        cmocka_unit_test(key_that_is_no_word_has_no_actions),
        cmocka_unit_test(rows_and_names_have_limits),
        cmocka_unit_test(a_host_with_many_sessions_leaves_rows_to_the_others),
        cmocka_unit_test(a_host_is_named_once_in_a_row),
        cmocka_unit_test(page_has_a_row_each_and_buttons_for_what_can_be_done),
        cmocka_unit_test(what_takes_data_away_asks_first),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return page_text_run("running_page", tests, sizeof(tests) / sizeof(tests[0]));
}
