/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of spools, as relays send them and as nobody should. */
#include "collector/relay/spool_list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/sweep.h"

struct seen {
    unsigned hosts;
    struct pfl_spool_host last;
    char name[64];
    char label[64];
    char orders[PFL_ORDER_SET_TEXT_BYTES];
};

static void on_host(void *user, const struct pfl_spool_host *host)
{
    struct seen *seen = user;

    seen->hosts++;
    seen->last = *host;
    (void)strncpy(seen->name, host->name, sizeof(seen->name) - 1);
    (void)strncpy(seen->label, host->labels_len != 0 ? host->labels[0] : "",
                  sizeof(seen->label) - 1);
    (void)strncpy(seen->orders, host->orders, sizeof(seen->orders) - 1);
}

static int parse(const char *text, struct seen *seen, struct pfl_spool_list *list)
{
    *seen = (struct seen){0};
    return pfl_spool_list_parse(pfl_span_of(text, strlen(text)), on_host, seen, list);
}

static const char whole[] =
    "{\"relay\":\"r1\",\"fleet\":\"demo\",\"version\":\"17-4\",\"hosts\":[{\"name\":\"web1\","
    "\"is_connected\":true,\"labels\":{\"role\":\"web\"},\"boot_id\":\"x\",\"spool\":{"
    "\"segments\":3,\"bytes\":4096,\"oldest_ms\":5,\"orders\":\"00000000000000ff\"}}]}";

static void a_host_has_its_labels_and_its_figures(void **state)
{
    struct pfl_spool_list list;
    struct seen seen;

    (void)state;
    assert_int_equal(parse(whole, &seen, &list), 0);
    assert_int_equal(list.hosts, 1);
    assert_string_equal(list.version, "17-4");
    assert_string_equal(seen.name, "web1");
    assert_string_equal(seen.label, "role=web");
    assert_string_equal(seen.orders, "00000000000000ff");
    assert_true(seen.last.is_connected && seen.last.segments == 3 && seen.last.bytes == 4096);
}

/* Each byte or two would be a value. */
static void what_no_relay_sends_is_not_parsed(void **state)
{
    static char text[2 * PFL_SPOOL_LIST_VALUES_MAX + 100];
    struct pfl_spool_list list;
    struct seen seen;
    size_t len = (size_t)snprintf(text, sizeof(text), "{\"version\":5,\"hosts\":[1");

    (void)state;
    for (unsigned i = 0; i < PFL_SPOOL_LIST_VALUES_MAX - 4; i++, len += 2)
        memcpy(text + len, ",1", 2);
    memcpy(text + len, "]}", 2);
    assert_int_equal(parse(text, &seen, &list), 0);
    assert_int_equal(list.ignored, PFL_SPOOL_LIST_VALUES_MAX - 3);
    memcpy(text + len, ",1,1]}", 6);
    assert_int_equal(parse(text, &seen, &list), PFL_ELIMIT);
}

static void a_host_without_a_spool_has_zeros(void **state)
{
    struct pfl_spool_list list;
    struct seen seen;

    (void)state;
    assert_int_equal(
        parse("{\"version\":5,\"hosts\":[{\"name\":\"a\",\"is_connected\":false}]}", &seen, &list),
        0);
    assert_string_equal(list.version, "5");
    assert_true(!seen.last.is_connected && seen.last.segments == 0 && seen.orders[0] == '\0');
}

static void a_list_from_the_start_says_so_of_each_host_and_that_there_are_more(void **state)
{
    struct pfl_spool_list list;
    struct seen seen;

    (void)state;
    assert_int_equal(parse("{\"version\":5,\"is_from_start\":true,\"has_more\":true,\"hosts\":["
                           "{\"name\":\"a\"}]}",
                           &seen, &list),
                     0);
    assert_true(list.is_from_start && list.has_more && seen.last.is_from_start);
    assert_int_equal(parse(whole, &seen, &list), 0);
    assert_false(list.is_from_start || list.has_more || seen.last.is_from_start);
}

static void entries_that_are_malformed_are_counted(void **state)
{
    struct pfl_spool_list list;
    struct seen seen;

    (void)state;
    assert_int_equal(parse("{\"version\":5,\"hosts\":[{\"name\":\"../a\"},7,{},{\"name\":\"b\","
                           "\"spool\":{\"segments\":-1,\"orders\":\"0123456789abcdef0\"}}]}",
                           &seen, &list),
                     0);
    assert_int_equal(list.hosts, 1);
    assert_int_equal(list.ignored, 3);
    assert_true(seen.last.segments == 0 && seen.orders[0] == '\0');
}

static void anything_else_is_refused_at_every_length(void **state)
{
    struct pfl_spool_list list;
    struct seen seen;

    (void)state;
    for (size_t len = 0; len < sizeof(whole) - 1; len++) {
        seen = (struct seen){0};
        assert_int_equal(pfl_spool_list_parse(pfl_span_of(whole, len), on_host, &seen, &list),
                         PFL_EPARSE);
        assert_int_equal(seen.hosts, 0);
    }
    assert_int_equal(parse("[]", &seen, &list), PFL_EPARSE);
    assert_int_equal(parse("{\"hosts\":[]}", &seen, &list), PFL_EPARSE);
}

static int sweep_body(void *arg)
{
    struct pfl_spool_list list;
    struct seen seen;

    (void)arg;
    return parse(whole, &seen, &list);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    pfl_sweep(sweep_body, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_has_its_labels_and_its_figures),
        cmocka_unit_test(what_no_relay_sends_is_not_parsed),
        cmocka_unit_test(a_host_without_a_spool_has_zeros),
        cmocka_unit_test(a_list_from_the_start_says_so_of_each_host_and_that_there_are_more),
        cmocka_unit_test(entries_that_are_malformed_are_counted),
        cmocka_unit_test(anything_else_is_refused_at_every_length),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
