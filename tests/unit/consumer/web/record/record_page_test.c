/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Record page, as whole texts: the form with what was typed, errors at their fields once it was
 * sent, the count and the findings; strings of hosts and of the form are harmless; each allocation
 * may fail.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "consumer/web/record/record_page.h"
#include "tests/support/sweep.h"
#include "tests/unit/consumer/web/page_text.h"

#define EVIL "<script>alert(1)</script>\"'&"

static const char inventory_text[] =
    "{\"hosts\": [{\"name\": \"db-1\", \"is_connected\": true},"
    "{\"name\": \"web-1\", \"is_connected\": true}, {\"name\": \"web-2\", \"is_connected\": false,"
    "\"last_seen_s\": 5}]}";

struct world {
    struct pfl_host_rows *rows;
    struct pfl_record_form form;
    struct pfl_record_hosts hosts;
    struct pfl_record_plan plan;
    struct pfl_record_page page;
};

static int open_world(struct world *w, const char *select, const char *preset, const char *config)
{
    struct pfl_inventory *inventory = NULL;
    struct pfl_span text = pfl_span_of(inventory_text, strlen(inventory_text));
    int rc;

    *w = (struct world){
        .form = {.select = select, .preset = preset, .config = config, .duration = ""}};
    rc = pfl_host_rows_new(&(struct pfl_host_rows_conf){.selection = NULL}, &w->rows);
    if (rc == 0)
        rc = pfl_inventory_parse(text, &inventory) != 0 ? PFL_ENOMEM : 0;
    if (rc == 0)
        rc = pfl_host_rows_give_inventory(w->rows, inventory);
    if (rc == 0)
        inventory = NULL;
    pfl_inventory_free(inventory);
    if (rc == 0)
        rc = pfl_record_hosts_choose(w->rows, select, &w->hosts, NULL);
    if (rc == 0)
        rc = pfl_record_plan_make(&w->plan, &w->form);
    w->page = (struct pfl_record_page){
        .form = &w->form, .hosts = &w->hosts, .plan = &w->plan, .rows = w->rows, .why = ""};
    return rc;
}

static void close_world(struct world *w)
{
    pfl_record_plan_fini(&w->plan);
    pfl_host_rows_free(w->rows);
    pfl_sweep_assert_no_leak();
}

static void check_page(const struct world *w, const char *name)
{
    struct pfl_layout layout = page_text_layout("Record");
    struct pfl_html h;

    pfl_html_init(&h, PAGE_TEXT_MAX);
    pfl_record_page_write(&w->page, &layout, &h);
    page_text_check(page_text_take_main(&h), name);
}

static void check_part(const struct world *w, const char *name)
{
    struct pfl_html h;

    pfl_html_init(&h, PAGE_TEXT_MAX);
    pfl_record_page_write_check(&w->page, &h);
    page_text_check(page_text_take(&h), name);
}

static void form_has_what_was_typed(void **state)
{
    struct world w;

    (void)state;
    assert_int_equal(open_world(&w, "*", "default", ""), 0);
    check_page(&w, "form");
    close_world(&w);
    assert_int_equal(open_world(&w, EVIL, "", EVIL), 0);
    w.form.duration = EVIL;
    check_page(&w, "form_of_markup");
    close_world(&w);
}

static void errors_stand_at_their_fields(void **state)
{
    struct world w;

    (void)state;
    assert_int_equal(open_world(&w, "role=", "default", "text"), 0);
    (void)snprintf(w.plan.duration_why, sizeof(w.plan.duration_why), "no duration");
    w.page.is_checked = true;
    w.page.why = "what is wrong is said below.";
    check_page(&w, "errors");
    close_world(&w);
}

static void count_names_the_first_hosts(void **state)
{
    struct world w;

    (void)state;
    assert_int_equal(open_world(&w, "*", "default", ""), 0);
    check_part(&w, "three_of_three");
    w.hosts.found = 10;
    w.hosts.all = 12;
    w.hosts.away = 2;
    w.hosts.left = 2;
    for (size_t i = 0; i < PFL_RECORD_PLAN_NAMED; i++)
        w.hosts.named[i] = i % 3;
    check_part(&w, "ten_of_twelve");
    w.hosts.found = w.hosts.all = w.hosts.away = 1;
    w.hosts.left = 0;
    w.plan.info.buffers = w.plan.info.data_sources = 1;
    w.plan.info.duration_ms = 0;
    check_part(&w, "one_of_one");
    close_world(&w);
}

static void findings_are_those_of_the_doctor(void **state)
{
    struct world w;

    (void)state;
    assert_int_equal(open_world(&w, "*", "default", ""), 0);
    w.page.is_checked = true;
    w.page.findings =
        "BAD     db-1: reachable: " EVIL "\nwarning web-1: clock: off\nwell    web-2: "
        "clock\n";
    w.page.asked = 2;
    check_page(&w, "findings");
    w.page.findings = "well    db-1: clock\n";
    w.page.asked = 1;
    check_page(&w, "nothing_found_at_one");
    w.page.asked = 3;
    check_page(&w, "nothing_found");
    close_world(&w);
}

static char lines[65536];

static void findings_have_a_limit(void **state)
{
    struct pfl_layout layout = page_text_layout("Record");
    struct pfl_html h;
    struct world w;
    const char *text;
    size_t shown = 0;

    (void)state;
    assert_int_equal(open_world(&w, "*", "default", ""), 0);
    for (unsigned i = 0; i < 101; i++)
        (void)snprintf(lines + strlen(lines), sizeof(lines) - strlen(lines), "warning h%u: x\n", i);
    w.page.findings = lines;
    w.page.asked = 3;
    pfl_html_init(&h, PAGE_TEXT_MAX);
    pfl_record_page_write(&w.page, &layout, &h);
    text = page_text_take_main(&h);
    assert_non_null(strstr(text, "3 of 3 hosts were asked, 101 findings"));
    for (; (text = strstr(text, "<li>")) != NULL; text++)
        shown++;
    assert_int_equal(shown, 100);
    close_world(&w);
}

static int write_all(void *arg)
{
    struct pfl_layout layout = page_text_layout("Record");
    struct pfl_html h;
    struct world w;
    int rc = open_world(&w, "*", "default", "");

    (void)arg;
    if (rc == 0) {
        pfl_html_init(&h, PAGE_TEXT_MAX);
        pfl_record_page_write(&w.page, &layout, &h);
        rc = h.rc;
        pfl_html_fini(&h);
    }
    pfl_record_plan_fini(&w.plan);
    pfl_host_rows_free(w.rows);
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
        cmocka_unit_test(form_has_what_was_typed),
        cmocka_unit_test(errors_stand_at_their_fields),
        cmocka_unit_test(count_names_the_first_hosts),
        cmocka_unit_test(findings_are_those_of_the_doctor),
        cmocka_unit_test(findings_have_a_limit),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return page_text_run("record_page", tests, sizeof(tests) / sizeof(tests[0]));
}
