/* SPDX-License-Identifier: Apache-2.0 */
/* The hosts of the pages: search, pages of rows, and what stays known when the relay lists again.
 */
#include "consumer/web/frame/host_rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tests/support/emulator.h"
#include "tests/support/recorded.h"
#include "tests/support/sweep.h"

#define MANY 10000u

static char text[4u << 20];

/* Hosts web-0 ...; every third is away; labels zone=a or zone=b. */
static struct pfl_inventory *make_inventory(size_t first, size_t count)
{
    struct pfl_inventory *inventory = NULL;
    size_t len = (size_t)snprintf(text, sizeof(text), "{\"hosts\": [");

    for (size_t i = first; i < first + count; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len,
                                "%s{\"name\": \"web-%zu\", \"is_connected\": %s, \"last_seen_s\": "
                                "3, \"version\": \"0.%zu\", \"labels\": {\"role\": \"web\", "
                                "\"zone\": \"%c\"}}",
                                i != first ? "," : "", i, i % 3 == 0 ? "false" : "true", i % 2,
                                i % 2 == 0 ? 'a' : 'b');
    len += (size_t)snprintf(text + len, sizeof(text) - len, "]}");
    if (pfl_inventory_parse(pfl_span_of(text, len), &inventory) != 0)
        return NULL;
    return inventory;
}

static struct pfl_host_rows *make_list(size_t count)
{
    struct pfl_host_rows *list = NULL;

    assert_int_equal(pfl_host_rows_new(&(struct pfl_host_rows_conf){.selection = NULL}, &list), 0);
    assert_int_equal(pfl_host_rows_give_inventory(list, make_inventory(0, count)), 0);
    return list;
}

static void look_for(const struct pfl_host_rows *list, const char *search,
                     enum pfl_host_rows_state in, size_t page, struct pfl_host_rows_view *ret_view)
{
    pfl_host_rows_search(list,
                         &(struct pfl_host_rows_query){
                             .search = search, .state = in, .page = page, .now_s = 1800000000},
                         ret_view);
    pfl_record("%s %d %zu: from %zu of %zu of %zu, %zu up", search, (int)in, page, ret_view->first,
               ret_view->found, ret_view->all, ret_view->up);
    for (size_t i = 0; i < ret_view->rows_len; i++) {
        struct pfl_host_row row;

        pfl_host_rows_get_row(list, ret_view->rows[i], &row);
        pfl_record("%s %s, relay %d %s, why %s, named %s", row.name, row.title, row.has_relay,
                   row.has_relay ? row.relay.version : "", row.facts != NULL ? row.facts->why : "-",
                   row.spec != NULL ? row.spec->text : "-");
    }
}

static size_t found(const struct pfl_host_rows *list, const char *search,
                    enum pfl_host_rows_state in)
{
    struct pfl_host_rows_view view;

    look_for(list, search, in, 0, &view);
    return view.found;
}

static void words_are_searched_in_name_labels_and_version(void **state)
{
    struct pfl_host_rows *list = make_list(30);

    (void)state;
    assert_int_equal(found(list, "", PFL_HOST_ROWS_ALL), 30);
    assert_int_equal(found(list, "  ", PFL_HOST_ROWS_ALL), 30);
    assert_int_equal(found(list, "WEB-1", PFL_HOST_ROWS_ALL), 11);
    assert_int_equal(found(list, "zone=b", PFL_HOST_ROWS_ALL), 15);
    assert_int_equal(found(list, "zone=b web-1", PFL_HOST_ROWS_ALL), 6);
    assert_int_equal(found(list, "0.1", PFL_HOST_ROWS_ALL), 15);
    assert_int_equal(found(list, "<script>", PFL_HOST_ROWS_ALL), 0);
    assert_int_equal(found(list, "", PFL_HOST_ROWS_UP), 20);
    assert_int_equal(found(list, "", PFL_HOST_ROWS_AWAY), 10);
    pfl_host_rows_free(list);
    pfl_sweep_assert_no_leak();
}

static void page_past_the_end_is_the_last(void **state)
{
    struct pfl_host_rows *list = make_list(250);
    struct pfl_host_rows_view view;

    (void)state;
    look_for(list, "", PFL_HOST_ROWS_ALL, 1, &view);
    assert_int_equal(view.first, 100);
    assert_int_equal(view.rows_len, 100);
    assert_int_equal(view.found, 250);
    assert_int_equal(view.up, 166);
    look_for(list, "", PFL_HOST_ROWS_ALL, SIZE_MAX, &view);
    assert_int_equal(view.first, 200);
    assert_int_equal(view.rows_len, 50);
    look_for(list, "zone=a", PFL_HOST_ROWS_ALL, 2, &view);
    assert_int_equal(view.first, 100);
    assert_int_equal(view.rows_len, 25);
    look_for(list, "nothing", PFL_HOST_ROWS_ALL, 2, &view);
    assert_int_equal(view.rows_len, 0);
    pfl_host_rows_free(list);
}

static void what_is_known_of_a_host_stays_when_others_come_and_leave(void **state)
{
    struct pfl_host_rows *list = make_list(12);
    struct pfl_host_facts facts = {.why = "", .service = "perfleetd v1"};
    struct pfl_host_row row;

    (void)state;
    pfl_host_rows_note(list, "web-11", &facts);
    facts.service[0] = 'P';
    pfl_host_rows_note(list, "web-2", &facts);
    pfl_host_rows_note(list, "nobody", &facts);
    assert_int_equal(found(list, "perfleetd", PFL_HOST_ROWS_ALL), 2);
    assert_int_equal(pfl_host_rows_give_inventory(list, make_inventory(5, 20)), 0);
    assert_true(pfl_host_rows_find(list, "web-2") == SIZE_MAX);
    pfl_host_rows_get_row(list, pfl_host_rows_find(list, "web-11"), &row);
    assert_string_equal(row.facts->service, "perfleetd v1");
    assert_true(pfl_host_rows_is_up(&row));
    assert_int_equal(found(list, "perfleetd", PFL_HOST_ROWS_ALL), 1);
    pfl_host_rows_free(list);
    pfl_sweep_assert_no_leak();
}

static void selection_and_names_limit_the_hosts(void **state)
{
    static const char *const names[] = {"web-1", "web-3"};
    struct pfl_host_rows_conf conf = {.names = names, .names_len = 2};
    struct pfl_host_rows *list = NULL;

    (void)state;
    assert_int_equal(pfl_host_rows_new(&conf, &list), 0);
    assert_int_equal(pfl_host_rows_give_inventory(list, make_inventory(0, 10)), 0);
    assert_int_equal(found(list, "", PFL_HOST_ROWS_ALL), 2);
    pfl_host_rows_free(list);
    conf.selection = "zone=a";
    assert_int_equal(pfl_host_rows_new(&conf, &list), 0);
    assert_int_equal(pfl_host_rows_give_inventory(list, make_inventory(0, 10)), 0);
    assert_int_equal(found(list, "", PFL_HOST_ROWS_ALL), 7);
    pfl_host_rows_free(list);
}

static void named_hosts_are_up_when_they_answered(void **state)
{
    struct pfl_host_spec specs[2] = {{.kind = PFL_HOST_UNIX, .text = "unix:/a"},
                                     {.kind = PFL_HOST_TLS, .name = "b", .text = "b=tls://b"}};
    struct pfl_host_facts facts = {.why = ""};
    struct pfl_host_rows *list = NULL;
    struct pfl_host_row row;

    (void)state;
    assert_int_equal(pfl_host_rows_new(&(struct pfl_host_rows_conf){.selection = NULL}, &list), 0);
    assert_int_equal(pfl_host_rows_set_specs(list, specs, 2), 0);
    assert_int_equal(found(list, "", PFL_HOST_ROWS_UP), 0);
    pfl_host_rows_note(list, "unix:/a", &facts);
    (void)snprintf(facts.why, sizeof(facts.why), "no answer");
    pfl_host_rows_note(list, "b", &facts);
    assert_int_equal(found(list, "", PFL_HOST_ROWS_UP), 1);
    assert_int_equal(found(list, "tls:", PFL_HOST_ROWS_ALL), 1);
    pfl_host_rows_get_row(list, 1, &row);
    assert_string_equal(row.name, "b");
    assert_false(row.has_relay);
    pfl_host_rows_free(list);
    pfl_sweep_assert_no_leak();
}

static void host_with_which_something_is_wrong_is_a_problem(void **state)
{
    static const char body[] =
        "{\"hosts\": [{\"name\": \"away\", \"is_connected\": false},"
        "{\"name\": \"clock\", \"is_connected\": true, \"clock\": {\"offset_ns\": 0, \"error_ns\": "
        "1000001}},"
        "{\"name\": \"ends\", \"is_connected\": true, \"certificate_end_s\": 1801209599},"
        "{\"name\": \"failed\", \"is_connected\": true}, {\"name\": \"lossy\", \"is_connected\": "
        "true},"
        "{\"name\": \"well\", \"is_connected\": true, \"certificate_end_s\": 1801209600, "
        "\"clock\": "
        "{\"offset_ns\": 0, \"error_ns\": 1000000}}]}";
    struct pfl_host_facts facts = {.why = ""};
    struct pfl_inventory *inventory = NULL;
    struct pfl_host_rows *list = NULL;

    (void)state;
    assert_int_equal(pfl_inventory_parse(pfl_span_of(body, strlen(body)), &inventory), 0);
    assert_int_equal(pfl_host_rows_new(&(struct pfl_host_rows_conf){.selection = NULL}, &list), 0);
    assert_int_equal(pfl_host_rows_give_inventory(list, inventory), 0);
    assert_int_equal(found(list, "", PFL_HOST_ROWS_PROBLEM), 3);
    pfl_host_rows_note(list, "well", &facts);
    facts.lost = 1;
    pfl_host_rows_note(list, "lossy", &facts);
    (void)snprintf(facts.why, sizeof(facts.why), "no answer");
    pfl_host_rows_note(list, "failed", &facts);
    assert_int_equal(found(list, "", PFL_HOST_ROWS_PROBLEM), 5);
    assert_int_equal(found(list, "well", PFL_HOST_ROWS_PROBLEM), 0);
    pfl_host_rows_free(list);
    pfl_sweep_assert_no_leak();
}

static double seconds(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* A tenth of a second is what a person notices; ten times that fails, where no emulator runs it. */
static void ten_thousand_hosts_are_searched_at_once(void **state)
{
    struct pfl_host_rows *list = make_list(MANY);
    struct pfl_mem_stats stats;
    double began = seconds();

    (void)state;
    assert_int_equal(found(list, "zone=b web-99", PFL_HOST_ROWS_ALL), 56);
    print_message("search in %u hosts: %.1f ms\n", MANY, (seconds() - began) * 1000);
    assert_true(pfl_is_emulated() || seconds() - began < 1);
    pfl_mem_stats_get(&stats);
    print_message("memory: %.1f MB\n", (double)stats.live_bytes / 1e6);
    assert_true(stats.live_bytes < (64u << 20));
    pfl_host_rows_free(list);
    pfl_sweep_assert_no_leak();
}

static int list_twice(void *arg)
{
    struct pfl_host_rows *list = NULL;
    struct pfl_host_facts facts = {.why = ""};
    struct pfl_inventory *inventory = make_inventory(0, 3);
    int rc = inventory != NULL ? 0 : PFL_ENOMEM;

    (void)arg;
    if (rc == 0)
        rc = pfl_host_rows_new(&(struct pfl_host_rows_conf){.selection = NULL}, &list);
    if (rc == 0)
        rc = pfl_host_rows_give_inventory(list, inventory);
    if (rc == 0) {
        pfl_host_rows_note(list, "web-1", &facts);
        inventory = make_inventory(1, 3);
        rc = inventory != NULL ? pfl_host_rows_give_inventory(list, inventory) : PFL_ENOMEM;
    }
    if (rc != 0)
        pfl_inventory_free(inventory);
    pfl_host_rows_free(list);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    pfl_sweep(list_twice, NULL, true);
}

static void all_of_this_is_as_recorded(void **state)
{
    (void)state;
    pfl_assert_recorded(0xfde8ebf4d107ba3a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_searched_in_name_labels_and_version),
        cmocka_unit_test(page_past_the_end_is_the_last),
        cmocka_unit_test(what_is_known_of_a_host_stays_when_others_come_and_leave),
        cmocka_unit_test(selection_and_names_limit_the_hosts),
        cmocka_unit_test(named_hosts_are_up_when_they_answered),
        cmocka_unit_test(host_with_which_something_is_wrong_is_a_problem),
        cmocka_unit_test(ten_thousand_hosts_are_searched_at_once),
        cmocka_unit_test(all_of_this_is_as_recorded),
        cmocka_unit_test(every_allocation_may_fail),
    };

    pfl_record_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
