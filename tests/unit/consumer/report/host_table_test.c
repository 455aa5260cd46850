/* SPDX-License-Identifier: Apache-2.0 */
/* Many hosts as a table. */
#include "consumer/report/host_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define ALL_COLUMNS                                                                                \
    "name,state,address,service,agent,producers,sources,sessions,streams,clock,certificate,labels"

#include "consumer/report/paint.h"
#include "tests/support/recorded.h"
#include "tests/support/sweep.h"

#define HOSTS 500u
#define NOW_S 1000000

struct fleet {
    struct pfl_service_state_host hosts[HOSTS];
    struct pfl_inventory_host relay_facts[HOSTS];
    char names[HOSTS][16];
    uint8_t state[64];
    struct pfl_buf out;
};

static struct fleet *new_fleet(void)
{
    static struct fleet fleet;

    memset(&fleet, 0, sizeof(fleet));
    return &fleet;
}

/* Two producers, one session, version v1. */
static size_t make_state(uint8_t *out, size_t room)
{
    struct pfl_writer w = pfl_writer_of(out, room);

    pfl_writer_field_bytes(&w, 1, "\x08\x01", 2);
    pfl_writer_field_bytes(&w, 1, "\x08\x02", 2);
    pfl_writer_field_varint(&w, 3, 1);
    pfl_writer_field_bytes(&w, 5, "v\x1b", 2);
    return room - w.left;
}

static void begin(struct fleet *f, size_t len)
{
    size_t state = make_state(f->state, sizeof(f->state));

    for (size_t i = 0; i < len; i++) {
        snprintf(f->names[i], sizeof(f->names[i]), "web%zu", i + 1);
        f->relay_facts[i] = (struct pfl_inventory_host){.name = f->names[i],
                                                        .address = "10.0.0.1:5",
                                                        .version = "v1",
                                                        .tls = "1.3",
                                                        .is_connected = true,
                                                        .certificate_end_s = NOW_S + 90 * 86400};
        f->hosts[i] = (struct pfl_service_state_host){.name = f->names[i],
                                                      .address = f->names[i],
                                                      .why = "",
                                                      .relay_facts = &f->relay_facts[i],
                                                      .state = pfl_span_of(f->state, state)};
    }
    pfl_buf_init(&f->out, 1u << 20);
}

static void fail_host(struct fleet *f, size_t i, double seen_s)
{
    f->hosts[i].why = "host not connected";
    f->hosts[i].state = pfl_span_of(NULL, 0);
    f->relay_facts[i].is_connected = false;
    f->relay_facts[i].last_seen_s = seen_s;
}

static const char *print(struct fleet *f, struct pfl_host_table_conf conf, size_t len)
{
    conf.hosts = f->hosts;
    conf.hosts_len = len;
    conf.now_s = NOW_S;
    assert_int_equal(pfl_host_table_text(&conf, &f->out), 0);
    assert_int_equal(pfl_buf_append(&f->out, "", 1), 0);
    return (const char *)pfl_buf_get(&f->out).data;
}

static void end(struct fleet *f)
{
    pfl_buf_fini(&f->out);
    pfl_sweep_assert_no_leak();
}

static void five_hundred_hosts_are_five_hundred_rows_and_a_sum(void **state)
{
    struct fleet *f = new_fleet();
    size_t lines = 0;
    const char *text;

    (void)state;
    begin(f, HOSTS);
    fail_host(f, 6, 12);
    fail_host(f, 8, 3 * 86400);
    text = print(f, (struct pfl_host_table_conf){0}, HOSTS);
    for (const char *c = text; *c != '\0'; c++)
        lines += *c == '\n';
    assert_int_equal(lines, 1 + HOSTS + 2 + 1);
    assert_memory_equal(text, "NAME    STATE     SERVICE  PRODUCERS", 36);
    assert_non_null(strstr(text, "\nweb1    up        v?       2 "));
    assert_non_null(strstr(text, "\nweb7    away:12s "));
    assert_non_null(strstr(text, "\nweb9    away:3d "));
    assert_non_null(strstr(text, "\nweb7: FAILED: host not connected\n"));
    assert_non_null(strstr(text, "\nweb9: FAILED: host not connected; if it does not come back, "
                                 "perfleet forget takes it off the list\n"));
    assert_non_null(
        strstr(text, "\n498 of 500 hosts up, 2 to look at; 996 producers, 498 sessions, 1 versions"
                     "\n"));
    end(f);
}

static void with_problems_only_these_are_shown(void **state)
{
    struct fleet *f = new_fleet();
    const char *text;

    (void)state;
    begin(f, 3);
    fail_host(f, 0, 12);
    f->relay_facts[1].certificate_end_s = NOW_S + 86400;
    text = print(f, (struct pfl_host_table_conf){.is_problems = true}, 3);
    assert_non_null(strstr(text, "\nweb1 "));
    assert_non_null(
        strstr(text, "\nweb2: note: its certificate expires on 1970-01-13: renew it\n"));
    assert_null(strstr(text, "web3"));
    assert_non_null(strstr(text, "\n2 of 3 hosts up, 2 to look at;"));
    end(f);
}

static void columns_are_chosen(void **state)
{
    struct fleet *f = new_fleet();
    char why[256];

    (void)state;
    begin(f, 1);
    assert_int_equal(pfl_host_table_check("name,agent", why, sizeof(why)), 0);
    assert_string_equal(print(f, (struct pfl_host_table_conf){.columns = "agent,name"}, 1),
                        "AGENT  NAME\nv1     web1\n");
    assert_int_equal(pfl_host_table_check("name,sesions", why, sizeof(why)), PFL_EINVAL);
    assert_string_equal(why, "there is no column sesions; did you mean sessions?");
    assert_int_equal(pfl_host_table_check("", why, sizeof(why)), PFL_EINVAL);
    end(f);
}

static void labels_are_listed_with_commas_between_them(void **state)
{
    struct fleet *f = new_fleet();
    json_t *two = json_pack("{s{ssss}}", "labels", "rack", "r1", "site", "b");
    json_t *one = json_pack("{s{sssi}}", "labels", "rack", "r2", "site", 7);
    const char *text;

    (void)state;
    begin(f, 2);
    f->relay_facts[0].entry = two;
    f->relay_facts[1].entry = one; /* a label that is no text is left out */
    text = print(f, (struct pfl_host_table_conf){.columns = "name,labels"}, 2);
    assert_non_null(strstr(text, "\nweb1  rack=r1,site=b\nweb2  rack=r2\n"));
    json_decref(two);
    json_decref(one);
    end(f);
}

static void usual_columns_are_chosen_to_fit(void **state)
{
    (void)state;
    for (unsigned width = 40; width <= 120; width++) {
        struct fleet *f = new_fleet();
        const char *text;

        begin(f, 2);
        f->relay_facts[1].has_clock = true;
        text = print(f, (struct pfl_host_table_conf){.width = width}, 2);
        assert_true(strcspn(text, "\n") <= width);
        assert_true(strncmp(text, "NAME  STATE", 11) == 0);
        assert_true((strstr(text, "CLOCK") == NULL) ==
                    (strstr(text, "no room for: clock") != NULL));
        assert_true((strstr(text, "SERVICE") == NULL) ==
                    (strstr(text, "no room for: clock,service") != NULL));
        end(f);
    }
}

static void columns_that_are_named_are_shown_at_any_width(void **state)
{
    struct fleet *f = new_fleet();
    const char *text;

    (void)state;
    begin(f, 1);
    text = print(
        f, (struct pfl_host_table_conf){.columns = "name,service,agent,address", .width = 10}, 1);
    assert_non_null(strstr(text, "ADDRESS"));
    assert_null(strstr(text, "no room"));
    end(f);
}

static void without_any_answer_there_is_no_table(void **state)
{
    struct fleet *f = new_fleet();

    (void)state;
    begin(f, 1);
    fail_host(f, 0, 12);
    assert_string_equal(print(f, (struct pfl_host_table_conf){0}, 1),
                        "web1: FAILED: host not connected\n");
    end(f);
}

static void colour_marks_what_is_bad_and_nothing_else(void **state)
{
    struct fleet *f = new_fleet();
    const char *text;

    (void)state;
    begin(f, 2);
    fail_host(f, 0, 12);
    text = print(f, (struct pfl_host_table_conf){.is_color = true}, 2);
    assert_non_null(strstr(text, "\033[31maway:12s"));
    assert_non_null(strstr(text, "web1: \033[31mFAILED: \033[0mhost not"));
    assert_null(strstr(text, "\033[31mup"));
    end(f);
}

static void a_malformed_state_is_a_failed_host(void **state)
{
    struct fleet *f = new_fleet();

    (void)state;
    begin(f, 1);
    f->hosts[0].state = pfl_span_of("\xff\xff", 2);
    assert_string_equal(print(f, (struct pfl_host_table_conf){0}, 1),
                        "web1: FAILED: its service state is malformed\n");
    end(f);
}

static size_t count_rows(const char *text, const char *begin)
{
    size_t rows = 0;

    for (const char *at = text; (at = strstr(at, begin)) != NULL; at++)
        rows += at == text || at[-1] == '\n';
    return rows;
}

/* Every line but the last ends with a newline, too; none is longer than `width`. */
static size_t count_lines(const char *text, size_t width)
{
    size_t lines = 0;

    for (size_t len; *text != '\0'; lines++, text += len + (text[len] == '\n')) {
        len = strcspn(text, "\n");
        assert_true(len <= width);
    }
    return lines;
}

static void a_screen_has_the_problems_first_and_counts_what_does_not_fit(void **state)
{
    (void)state;
    for (unsigned height = 1; height <= 60; height++) {
        struct fleet *f = new_fleet();
        size_t rows;
        size_t problems;
        char rest[64];
        const char *text;

        begin(f, HOSTS);
        fail_host(f, 300, 12);
        fail_host(f, 400, 12);
        text = print(f, (struct pfl_host_table_conf){.width = 60, .height = height}, HOSTS);
        assert_true(count_lines(text, 60) <= height);
        rows = count_rows(text, "web") - count_rows(text, "web301:") - count_rows(text, "web401:");
        problems = count_rows(text, "web301:") + count_rows(text, "web401:");
        if (height > 10) {
            assert_int_equal(count_lines(text, 60), height);
            assert_int_equal(problems, 2);
            assert_ptr_equal(strstr(text, "\nweb"), strstr(text, "\nweb301 "));
            assert_non_null(strstr(text, "\nweb401 "));
        }
        if (problems == 2)
            snprintf(rest, sizeof(rest), "%zu rows not shown; 498 of 500", HOSTS - rows);
        else
            snprintf(rest, sizeof(rest), "%zu rows, %zu problems not shown; 498 of 500",
                     HOSTS - rows, 2 - problems);
        assert_non_null(strstr(text, rest));
        end(f);
    }
}

static void many_problems_leave_room_for_rows(void **state)
{
    struct fleet *f = new_fleet();
    const char *text;

    (void)state;
    begin(f, 40);
    for (size_t i = 1; i < 40; i++)
        fail_host(f, i, 12);
    text = print(f, (struct pfl_host_table_conf){.width = 200, .height = 24}, 40);
    assert_int_equal(count_lines(text, 200), 24);
    assert_int_equal(count_rows(text, "web2 "), 1);
    assert_int_equal(count_rows(text, "web2:"), 1);
    assert_non_null(strstr(text, "\n25 rows, 32 problems not shown; 1 of 40 hosts up"));
    end(f);
}

static void a_screen_that_is_high_enough_is_the_table(void **state)
{
    struct fleet *f = new_fleet();
    char whole[8192];

    (void)state;
    begin(f, 20);
    fail_host(f, 7, 12);
    snprintf(whole, sizeof(whole), "%s", print(f, (struct pfl_host_table_conf){.width = 200}, 20));
    end(f);
    begin(f, 20);
    fail_host(f, 7, 12);
    assert_string_equal(print(f, (struct pfl_host_table_conf){.width = 200, .height = 23}, 20),
                        whole);
    end(f);
}

static void colours_take_no_room_of_a_line(void **state)
{
    struct pfl_buf out;
    const char *text = "ab\033[31mcd\033[0m\nabc\xc3\xa4"
                       "e\n\033[3";

    (void)state;
    pfl_buf_init(&out, 1u << 10);
    assert_int_equal(pfl_paint_cut_lines(pfl_span_of(text, strlen(text)), 4, &out), 0);
    assert_int_equal(pfl_buf_append(&out, "", 1), 0);
    assert_string_equal((const char *)pfl_buf_get(&out).data,
                        "ab\033[31mcd\033[0m\nabc\xc3\xa4\n\033[3");
    pfl_buf_fini(&out);
    pfl_sweep_assert_no_leak();
}

static int print_once(void *arg)
{
    struct fleet *f = arg;
    struct pfl_host_table_conf conf = {.hosts = f->hosts, .hosts_len = 2};
    struct pfl_buf out;
    int rc;

    pfl_buf_init(&out, 1u << 16);
    rc = pfl_host_table_text(&conf, &out);
    conf.width = 60;
    conf.height = 24;
    if (rc == 0)
        rc = pfl_host_table_text(&conf, &out);
    pfl_buf_fini(&out);
    return rc;
}

static void every_failed_allocation_is_reported_and_leaves_nothing(void **state)
{
    struct fleet *f = new_fleet();

    (void)state;
    begin(f, 2);
    pfl_sweep(print_once, f, false);
    end(f);
}

static void how_long_a_host_is_away_has_two_digits_or_more_of_its_unit(void **state)
{
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {{0, "away:0s"},      {119, "away:119s"},  {120, "away:2m"},
                 {7199, "away:120m"}, {7200, "away:2h"},   {172799, "away:48h"},
                 {172800, "away:2d"}, {864000, "away:10d"}};
    const size_t len = sizeof(cases) / sizeof(cases[0]);
    struct fleet *f = new_fleet();
    const char *text;

    (void)state;
    begin(f, len + 1);
    for (size_t i = 0; i < len; i++)
        fail_host(f, i, cases[i].seconds);
    text = print(f, (struct pfl_host_table_conf){.columns = "state"}, len + 1);
    assert_memory_equal(text, "STATE\n", 6);
    text += 6;
    for (size_t i = 0; i < len; i++) {
        assert_memory_equal(text, cases[i].text, strlen(cases[i].text));
        text += strlen(cases[i].text);
        assert_int_equal(*text++, '\n');
    }
    assert_memory_equal(text, "up\n", 3);
    end(f);
}

static void columns_have_names_up_to_the_last(void **state)
{
    size_t n = 0;

    (void)state;
    assert_string_equal(pfl_host_table_get_column(0), "name");
    while (pfl_host_table_get_column(n) != NULL)
        n++;
    assert_int_equal(n, 12);
    assert_string_equal(pfl_host_table_get_column(n - 1), "labels");
}

static void a_table_fits_whole_or_not_at_all(void **state)
{
    struct fleet *f = new_fleet();
    struct pfl_host_table_conf conf = {.hosts_len = 3, .now_s = NOW_S, .width = 30};
    static char whole[4096];
    struct pfl_buf out;
    size_t len;

    (void)state;
    begin(f, 3);
    fail_host(f, 0, 86400);
    f->relay_facts[1].certificate_end_s = NOW_S + 14 * 86400;
    f->relay_facts[2].certificate_end_s = NOW_S + 14 * 86400 + 1;
    conf.hosts = f->hosts;
    pfl_buf_init(&out, sizeof(whole));
    assert_int_equal(pfl_host_table_text(&conf, &out), 0);
    len = out.len;
    memcpy(whole, pfl_buf_get(&out).data, len);
    pfl_buf_fini(&out);
    assert_string_equal(whole,
                        "NAME  STATE     PRODUCERS\n"
                        "web1  away:24h  -\n"
                        "web2  up        2\n"
                        "web3  up        2\n"
                        "no room for: clock,service,sources,sessions,labels (--columns)\n"
                        "web1: FAILED: host not connected; if it does not come back, "
                        "perfleet forget takes it off the list\n"
                        "web2: note: its certificate expires on 1970-01-26: renew it\n"
                        "2 of 3 hosts up, 2 to look at; 4 producers, 2 sessions, 1 versions\n");
    for (size_t max = 1; max < len; max++) {
        pfl_buf_init(&out, max);
        assert_int_equal(pfl_host_table_text(&conf, &out), PFL_ELIMIT);
        pfl_buf_fini(&out);
    }
    end(f);
}

static size_t make_random_state(uint8_t *out, size_t room)
{
    static const char *const versions[] = {"", "v1", "v2 (a build)", "v\x1f\x7f"};
    struct pfl_writer w = pfl_writer_of(out, room);
    const char *version = versions[pfl_pick(4)];
    uint64_t producers = pfl_pick(4);
    uint64_t sources = pfl_pick(12);

    while (producers-- > 0)
        pfl_writer_field_bytes(&w, 1, "\x08\x01", 2);
    while (sources-- > 0)
        pfl_writer_field_bytes(&w, 2, "", 0);
    pfl_writer_field_varint(&w, 3, pfl_pick(30) - 1);
    if (version[0] != '\0')
        pfl_writer_field_bytes(&w, 5, version, strlen(version));
    return room - w.left;
}

static void pick_relay_facts(struct pfl_inventory_host *r, const json_t *labels)
{
    static const int64_t certificates[] = {0, NOW_S - 5, NOW_S + 14 * 86400, NOW_S + 14 * 86400 + 1,
                                           NOW_S + 400 * 86400};
    static const double ages[] = {0, 12, 119.4, 120, 86399, 86400, 172800, 9e6};

    r->address = pfl_pick(4) != 0 ? "10.0.0.1:5" : "";
    r->version = pfl_pick(4) != 0 ? "v1" : "v\x7e\x20";
    r->certificate_end_s = certificates[pfl_pick(5)];
    r->streams = pfl_pick(100000);
    r->has_clock = pfl_pick(2) == 0;
    r->offset_ns = (int64_t)pfl_pick(4000000) - 2000000;
    r->error_ns = (int64_t)pfl_pick(2000000);
    r->entry = pfl_pick(2) == 0 ? labels : NULL;
    if (pfl_pick(3) == 0) {
        r->is_connected = false;
        r->last_seen_s = ages[pfl_pick(8)];
    }
}

static void pick_fleet(struct fleet *f, size_t len, const json_t *labels)
{
    static uint8_t states[12][256];
    bool has_relay = pfl_pick(4) != 0;

    begin(f, len);
    for (size_t i = 0; i < len; i++) {
        struct pfl_service_state_host *h = &f->hosts[i];

        pick_relay_facts(&f->relay_facts[i], labels);
        h->state = pfl_span_of(states[i], make_random_state(states[i], sizeof(states[i])));
        h->why = pfl_pick(3) == 0 ? "not there" : "";
        h->name = pfl_pick(8) == 0 ? "" : h->name;
        h->address = pfl_pick(2) == 0 ? "unix:/run/x" : h->address;
        if (!has_relay)
            h->relay_facts = NULL;
        if (pfl_pick(20) == 0)
            h->state = pfl_span_of("\x0a", 1);
    }
}

static void tables_of_random_hosts_are_those_that_were_recorded(void **state)
{
    static const char *const columns[] = {
        "name",         "labels,name",  "state,streams,certificate,address",
        "agent,agent,", "clock,labels", ALL_COLUMNS};
    json_t *labels = json_pack("{s{ssssss}}", "labels", "rack", "r1", "a-rather-long-name",
                               "and a value of some length \xc3\xa4", "more", "than fits there");
    struct fleet *f = new_fleet();
    char why[256];

    (void)state;
    pfl_record_begin();
    for (unsigned i = 0; i < 3000; i++) {
        struct pfl_host_table_conf conf = {.is_problems = pfl_pick(4) == 0};
        size_t len = pfl_pick(12);
        const char *table;

        conf.is_color = pfl_pick(4) == 0;
        conf.columns = pfl_pick(3) == 0 ? columns[pfl_pick(6)] : NULL;
        conf.width = pfl_pick(3) != 0 ? 20 + (unsigned)pfl_pick(120) : 0;
        conf.height = pfl_pick(2) == 0 && conf.width != 0 ? 1 + (unsigned)pfl_pick(24) : 0;
        pick_fleet(f, len, labels);
        table = print(f, conf, len);
        pfl_record("%s", table != NULL ? table : "no table");
        end(f);
    }
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
        pfl_record("%d", pfl_host_table_check(columns[i], why, sizeof(why)));
    pfl_record("%d %s", pfl_host_table_check("name,zzzzzzzz", why, sizeof(why)), why);
    pfl_record("%d %s", pfl_host_table_check("state,,name", why, sizeof(why)), why);
    json_decref(labels);
    pfl_assert_recorded(0x81b299fd9c53b9cd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(five_hundred_hosts_are_five_hundred_rows_and_a_sum),
        cmocka_unit_test(with_problems_only_these_are_shown),
        cmocka_unit_test(columns_are_chosen),
        cmocka_unit_test(labels_are_listed_with_commas_between_them),
        cmocka_unit_test(usual_columns_are_chosen_to_fit),
        cmocka_unit_test(columns_that_are_named_are_shown_at_any_width),
        cmocka_unit_test(without_any_answer_there_is_no_table),
        cmocka_unit_test(colour_marks_what_is_bad_and_nothing_else),
        cmocka_unit_test(a_malformed_state_is_a_failed_host),
        cmocka_unit_test(a_screen_has_the_problems_first_and_counts_what_does_not_fit),
        cmocka_unit_test(many_problems_leave_room_for_rows),
        cmocka_unit_test(a_screen_that_is_high_enough_is_the_table),
        cmocka_unit_test(colours_take_no_room_of_a_line),
        cmocka_unit_test(every_failed_allocation_is_reported_and_leaves_nothing),
        cmocka_unit_test(how_long_a_host_is_away_has_two_digits_or_more_of_its_unit),
        cmocka_unit_test(columns_have_names_up_to_the_last),
        cmocka_unit_test(a_table_fits_whole_or_not_at_all),
        cmocka_unit_test(tables_of_random_hosts_are_those_that_were_recorded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
