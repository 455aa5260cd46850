/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A collector's orders as rows, in parts, with limits; the section of the Running page, the page of
 * one order and the question as whole texts; harmless strings; each allocation failing once.
 */
#include "consumer/web/running/order_page.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/sweep.h"
#include "tests/unit/consumer/web/page_text.h"

#define EVIL "<script>alert(1)</script>\"'&"

typedef Perfleet__OrderStatus status_t;
typedef Perfleet__OrderStatus__Host host_t;
typedef Perfleet__HostOrderState state_t;

static struct pfl_order_rows rows;
static struct pfl_order_host_row hosts[PFL_ORDER_ROWS_HOSTS_MAX];

static Perfleet__Order make_order(const char *name)
{
    Perfleet__Order order = PERFLEET__ORDER__INIT;

    order.name = (char *)(uintptr_t)name;
    return order;
}

static void take(status_t *one, bool has_more)
{
    status_t *all[] = {one};
    Perfleet__CollectorReply reply = PERFLEET__COLLECTOR_REPLY__INIT;

    reply.order = all;
    reply.n_order = 1;
    reply.has_more = has_more;
    pfl_order_rows_take(&rows, &reply);
}

/* An order of `orderer` with two hosts: one runs, one refuses and is away; a further part has one
 * that nothing is known of. */
static void take_order(const char *name, const char *orderer, const char *why, bool is_paused)
{
    static Perfleet__Order__Continuous continuous = PERFLEET__ORDER__CONTINUOUS__INIT;
    Perfleet__Order order = make_order(name);
    status_t status = PERFLEET__ORDER_STATUS__INIT;
    state_t states[2] = {PERFLEET__HOST_ORDER_STATE__INIT, PERFLEET__HOST_ORDER_STATE__INIT};
    host_t all[3] = {PERFLEET__ORDER_STATUS__HOST__INIT, PERFLEET__ORDER_STATUS__HOST__INIT,
                     PERFLEET__ORDER_STATUS__HOST__INIT};
    host_t *first[] = {&all[0], &all[1]};
    host_t *second[] = {&all[2]};

    order.continuous = &continuous;
    order.has_paused = 1;
    order.paused = is_paused;
    status.order = &order;
    status.orderer = (char *)(uintptr_t)orderer;
    status.generation = 3;
    states[0].state = PERFLEET__HOST_ORDER_STATE__STATE__RUNNING;
    states[0].behind_segments = 2;
    states[0].behind_bytes = 3u << 20;
    states[0].behind_ms = 61000;
    states[0].has_copies = 1;
    states[0].copies = 4;
    states[1].state = PERFLEET__HOST_ORDER_STATE__STATE__REFUSED;
    states[1].why = (char *)(uintptr_t)why;
    all[0].name = (char *)(uintptr_t) "db1";
    all[0].state = &states[0];
    all[0].is_connected = 1;
    all[1].name = (char *)(uintptr_t) "web<1>";
    all[1].state = &states[1];
    all[2].name = (char *)(uintptr_t) "web2";
    all[2].is_connected = 1;
    status.host = first;
    status.n_host = 2;
    take(&status, true);
    status.host = second;
    status.n_host = 1;
    take(&status, false);
}

static void clear(void)
{
    memset(&rows, 0, sizeof(rows));
}

static void order_in_parts_is_one_row(void **state)
{
    (void)state;
    clear();
    take_order("cpu", "me", "no room", false);
    take_order("cpu", "you", "", true);
    assert_int_equal(rows.len, 2);
    assert_string_equal(rows.rows[0].name, "cpu");
    assert_string_equal(rows.rows[0].orderer, "me");
    assert_string_equal(rows.rows[0].when, "continuous");
    assert_int_equal(rows.rows[0].hosts, 3);
    assert_int_equal(rows.rows[0].running, 1);
    assert_int_equal(rows.rows[0].refused, 1);
    assert_int_equal(rows.rows[0].away, 1);
    assert_int_equal(rows.rows[0].behind_bytes, 3u << 20);
    assert_string_equal(rows.rows[0].why_host, "web<1>");
    assert_string_equal(rows.rows[0].why, "no room");
    assert_false(rows.rows[0].is_paused);
    assert_true(rows.rows[1].is_paused);
}

static void order_that_says_nothing_is_a_row(void **state)
{
    status_t status = PERFLEET__ORDER_STATUS__INIT;

    (void)state;
    clear();
    take(&status, false);
    assert_int_equal(rows.len, 1);
    assert_string_equal(rows.rows[0].name, "");
    assert_string_equal(rows.rows[0].when, "?");
}

static void rows_hosts_and_texts_have_limits(void **state)
{
    static host_t many[PFL_ORDER_ROWS_HOSTS_MAX + 2];
    static host_t *pointers[PFL_ORDER_ROWS_HOSTS_MAX + 2];
    static char longest[1000];
    char name[16];
    status_t status = PERFLEET__ORDER_STATUS__INIT;
    Perfleet__Order order = make_order(longest);

    (void)state;
    clear();
    for (unsigned i = 0; i < PFL_ORDER_ROWS_MAX + 3; i++) {
        (void)snprintf(name, sizeof(name), "o%u", i);
        take_order(name, "me", "", false);
    }
    assert_int_equal(rows.len, PFL_ORDER_ROWS_MAX);
    assert_true(rows.has_more);
    assert_int_equal(rows.rows[PFL_ORDER_ROWS_MAX - 1].hosts, 3);
    clear();
    memset(longest, 'a', sizeof(longest) - 1);
    pfl_order_rows_keep_hosts(&rows, hosts);
    for (size_t i = 0; i < PFL_ORDER_ROWS_HOSTS_MAX + 2; i++) {
        many[i] = (host_t)PERFLEET__ORDER_STATUS__HOST__INIT;
        many[i].name = longest;
        pointers[i] = &many[i];
    }
    status.order = &order;
    status.orderer = longest;
    status.host = pointers;
    status.n_host = PFL_ORDER_ROWS_HOSTS_MAX + 2;
    take(&status, true);
    take(&status, false);
    assert_int_equal(rows.len, 1);
    assert_int_equal(strlen(rows.rows[0].name), PFL_ORDER_ROWS_NAME_BYTES - 1);
    assert_int_equal(rows.rows[0].hosts, 2 * (PFL_ORDER_ROWS_HOSTS_MAX + 2));
    assert_int_equal(rows.hosts_len, PFL_ORDER_ROWS_HOSTS_MAX);
    assert_int_equal(rows.hosts_left_out, PFL_ORDER_ROWS_HOSTS_MAX + 4);
    assert_int_equal(strlen(rows.hosts[0].name), sizeof(rows.hosts[0].name) - 1);
}

static void write_section(const char *why, struct pfl_html *h)
{
    struct pfl_command_line command;
    const struct pfl_order_page page = {.rows = &rows,
                                        .own_name = "me",
                                        .has_collector = why != NULL,
                                        .command = rows.len != 0 ? &command : NULL,
                                        .why = why};
    struct pfl_layout layout = page_text_layout("Running");

    pfl_command_line_begin(&command, "order list");
    pfl_html_init(h, PAGE_TEXT_MAX);
    pfl_order_page_write_section(&page, &layout, h);
}

static void section_has_a_row_each_and_buttons_for_ones_own(void **state)
{
    struct pfl_html h;

    (void)state;
    clear();
    take_order("cpu", "me", EVIL, false);
    take_order(EVIL, EVIL, "", false);
    take_order("paused", "me", "", true);
    write_section("", &h);
    page_text_check(page_text_take(&h), "section");
    rows.has_more = true;
    rows.len = 1;
    write_section("the collector " EVIL, &h);
    page_text_check(page_text_take(&h), "not whole");
    clear();
    write_section("", &h);
    page_text_check(page_text_take(&h), "none");
    write_section(NULL, &h);
    page_text_check(page_text_take(&h), "no collector");
}

static void write_page(const char *why, struct pfl_html *h)
{
    const struct pfl_order_page page = {
        .rows = &rows, .name = "cpu", .own_name = "me", .has_collector = true, .why = why};
    struct pfl_layout layout = page_text_layout("Order");

    pfl_html_init(h, PAGE_TEXT_MAX);
    pfl_order_page_write(&page, &layout, h);
}

static void order_has_a_page_with_its_hosts(void **state)
{
    struct pfl_html h;

    (void)state;
    clear();
    pfl_order_rows_keep_hosts(&rows, hosts);
    take_order("cpu", "me", EVIL, false);
    rows.hosts_left_out = 7;
    write_page("", &h);
    page_text_check(page_text_take_main(&h), "order");
    clear();
    pfl_order_rows_keep_hosts(&rows, hosts);
    write_page("", &h);
    page_text_check(page_text_take_main(&h), "no order");
    write_page("no collector is connected to the relay", &h);
    page_text_check(page_text_take_main(&h), "order without collector");
}

static void change_asks_first(void **state)
{
    struct pfl_layout layout = page_text_layout("Order");
    struct pfl_html h;

    (void)state;
    assert_int_equal(pfl_order_page_parse_action("rm"), PFL_ORDER_REMOVE);
    assert_int_equal(pfl_order_page_parse_action("resume"), PFL_ORDER_RESUME);
    assert_int_equal(pfl_order_page_parse_action(""), PFL_ORDER_NONE);
    assert_int_equal(pfl_order_page_parse_action("put"), PFL_ORDER_NONE);
    assert_string_equal(pfl_order_page_name_action(PFL_ORDER_PAUSE), "pause");
    assert_string_equal(pfl_order_page_name_done(PFL_ORDER_REMOVE), "removed");
    pfl_html_init(&h, PAGE_TEXT_MAX);
    pfl_order_page_write_confirm(PFL_ORDER_REMOVE, "cpu", &layout, &h);
    page_text_check(page_text_take_main(&h), "remove");
}

static int write_all(void *arg)
{
    struct pfl_html h;
    int rc;

    (void)arg;
    clear();
    pfl_order_rows_keep_hosts(&rows, hosts);
    take_order("cpu", "me", EVIL, false);
    write_section("", &h);
    rc = h.rc;
    pfl_html_fini(&h);
    if (rc != 0)
        return rc;
    write_page("", &h);
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
        cmocka_unit_test(order_in_parts_is_one_row),
        cmocka_unit_test(order_that_says_nothing_is_a_row),
        cmocka_unit_test(rows_hosts_and_texts_have_limits),
        cmocka_unit_test(section_has_a_row_each_and_buttons_for_ones_own),
        cmocka_unit_test(order_has_a_page_with_its_hosts),
        cmocka_unit_test(change_asks_first),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return page_text_run("order_page", tests, sizeof(tests) / sizeof(tests[0]));
}
