/* SPDX-License-Identifier: Apache-2.0 */
/* A relay's inventory, and which of its hosts a selection means. */
#include "consumer/host/inventory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tests/support/sweep.h"

static const char listed[] =
    "{\"relay\": \"r\", \"hosts\": ["
    "{\"name\": \"web-1\", \"is_connected\": true, \"streams\": 2, \"version\": \"0.1.0\","
    " \"clock\": {\"offset_ns\": -5, \"error_ns\": 7}, \"labels\": {\"role\": \"web\", \"zone\": "
    "\"a\"}},"
    "{\"name\": \"web-2\", \"is_connected\": false, \"last_seen_s\": 41.5,"
    " \"labels\": {\"role\": \"web\", \"zone\": \"b\"}},"
    "{\"name\": \"db-1\", \"labels\": {\"role\": \"db\"}},"
    "{\"name\": \"../evil\"}, {\"name\": 7}, 3, {}]}";

static struct pfl_inventory *parse(void)
{
    struct pfl_inventory *v = NULL;

    assert_int_equal(pfl_inventory_parse(pfl_span_of(listed, strlen(listed)), &v), 0);
    return v;
}

/* The selected hosts' names, with spaces behind them. */
static const char *selected(const struct pfl_inventory *v, const char *selection)
{
    static char names[256];
    struct pfl_inventory_host host;

    names[0] = '\0';
    for (size_t i = 0; i < pfl_inventory_get_len(v); i++) {
        pfl_inventory_get_host(v, i, &host);
        if (!pfl_inventory_is_selected(&host, selection))
            continue;
        strncat(names, host.name, sizeof(names) - strlen(names) - 2);
        strncat(names, " ", sizeof(names) - strlen(names) - 1);
    }
    return names;
}

/* They would take 0.5 GB of memory. */
static void a_list_of_nothing_but_numbers_is_refused(void **state)
{
    static const char begin[] = "{\"hosts\": [], \"text\": \",[{\\\",\", \"x\": [0";
    enum { NUMBERS = 1 << 21 };
    size_t len = strlen(begin);
    char *text = pfl_mem_alloc(len + 2 * NUMBERS + 2);
    struct pfl_inventory *v;

    (void)state;
    assert_non_null(text);
    memcpy(text, begin, len);
    for (unsigned i = 0; i < NUMBERS; i++, len += 2)
        memcpy(text + len, ",0", 2);
    memcpy(text + len, "]}", 2);
    len += 2;
    assert_int_equal(pfl_inventory_parse(pfl_span_of(text, len), &v), PFL_EPARSE);
    len = strlen(begin) + 2;
    memcpy(text + len - 2, "]}", 2);
    assert_int_equal(pfl_inventory_parse(pfl_span_of(text, len), &v), 0);
    pfl_inventory_free(v);
    pfl_mem_free(text);
}

/* As many as a relay remembers, with 20 labels each. */
static void a_long_list_of_hosts_is_read(void **state)
{
    enum { HOSTS = 16384, LABELS = 20, ROOM = 16 << 20 };
    char *text = pfl_mem_alloc(ROOM);
    struct pfl_inventory *v;
    size_t len;

    (void)state;
    assert_non_null(text);
    len = (size_t)snprintf(text, ROOM, "{\"hosts\": [");
    for (unsigned i = 0; i < HOSTS; i++) {
        len += (size_t)snprintf(text + len, ROOM - len, "%s{\"name\": \"h%u\", \"labels\": {",
                                i == 0 ? "" : ",", i);
        for (unsigned k = 0; k < LABELS; k++)
            len += (size_t)snprintf(text + len, ROOM - len, "%s\"label-%u\":\"a value of %u\"",
                                    k == 0 ? "" : ",", k, i);
        len += (size_t)snprintf(text + len, ROOM - len, "}}");
    }
    len += (size_t)snprintf(text + len, ROOM - len, "]}");
    assert_true(len < ROOM);
    assert_int_equal(pfl_inventory_parse(pfl_span_of(text, len), &v), 0);
    assert_int_equal(pfl_inventory_get_len(v), HOSTS);
    pfl_inventory_free(v);
    pfl_mem_free(text);
}

static void entries_without_a_usable_name_are_left_out(void **state)
{
    struct pfl_inventory *v = parse();
    struct pfl_inventory_host host;

    (void)state;
    assert_int_equal(pfl_inventory_get_len(v), 3);
    assert_int_equal(pfl_inventory_find(v, "db-1"), 0);
    assert_true(pfl_inventory_find(v, "db") == SIZE_MAX);
    pfl_inventory_get_host(v, 1, &host);
    assert_true(host.is_connected && host.has_clock);
    assert_int_equal(host.offset_ns, -5);
    assert_int_equal(host.error_ns, 7);
    assert_int_equal(host.streams, 2);
    assert_string_equal(host.version, "0.1.0");
    pfl_inventory_get_host(v, 2, &host);
    assert_false(host.is_connected || host.has_clock);
    assert_true(host.last_seen_s > 41);
    assert_string_equal(host.address, "");
    pfl_inventory_free(v);
    pfl_sweep_assert_no_leak();
}

/* They would change the operator's terminal. */
static void labels_and_addresses_that_are_no_plain_text_are_left_out(void **state)
{
    static const char odd[] =
        "{\"hosts\": [{\"name\": \"a\", \"address\": \"1.2.3.4\\u001b[2J\", \"labels\": "
        "{\"x\\u001b\": \"y\", \"y\": \"\\u202ez\", \"z\": \"a b\", \"role\": \"web/1\"}},"
        "{\"name\": \"b\", \"address\": \"[::1]:80\", \"labels\": [7]}]}";
    struct pfl_inventory *v = NULL;
    struct pfl_inventory_host host;

    (void)state;
    assert_int_equal(pfl_inventory_parse(pfl_span_of(odd, strlen(odd)), &v), 0);
    pfl_inventory_get_host(v, 0, &host);
    assert_string_equal(host.address, "");
    assert_int_equal(json_object_size(json_object_get(host.entry, "labels")), 1);
    assert_string_equal(selected(v, "role=web/1"), "a ");
    pfl_inventory_get_host(v, 1, &host);
    assert_string_equal(host.address, "[::1]:80");
    pfl_inventory_free(v);
    pfl_sweep_assert_no_leak();
}

static void certificate_that_ended_before_1970_is_not_known(void **state)
{
    static const char text[] = "{\"hosts\": ["
                               "{\"name\": \"a\", \"certificate_end_s\": -9223372036854775808},"
                               "{\"name\": \"b\", \"certificate_end_s\": 1800000000}]}";
    struct pfl_inventory *v = NULL;
    struct pfl_inventory_host host;

    (void)state;
    assert_int_equal(pfl_inventory_parse(pfl_span_of(text, strlen(text)), &v), 0);
    pfl_inventory_get_host(v, 0, &host);
    assert_int_equal(host.certificate_end_s, 0);
    pfl_inventory_get_host(v, 1, &host);
    assert_int_equal(host.certificate_end_s, 1800000000);
    pfl_inventory_free(v);
}

static void hosts_stand_in_the_order_of_their_names(void **state)
{
    static const char any_order[] = "{\"hosts\": [{\"name\": \"web-10\"}, {\"name\": \"db\"}, "
                                    "{\"name\": \"web-9\"}, {\"name\": \"web-1\"}]}";
    struct pfl_inventory *v = NULL;

    (void)state;
    assert_int_equal(pfl_inventory_parse(pfl_span_of(any_order, strlen(any_order)), &v), 0);
    assert_string_equal(selected(v, "*"), "db web-1 web-9 web-10 ");
    pfl_inventory_free(v);
}

static void selections_mean_what_they_say(void **state)
{
    struct pfl_inventory *v = parse();

    (void)state;
    assert_string_equal(selected(v, "*"), "db-1 web-1 web-2 ");
    assert_string_equal(selected(v, ""), "db-1 web-1 web-2 ");
    assert_string_equal(selected(v, "role=web"), "web-1 web-2 ");
    assert_string_equal(selected(v, "role=web,zone!=b"), "web-1 ");
    assert_string_equal(selected(v, "zone!=b"), "db-1 web-1 ");
    assert_string_equal(selected(v, "zone"), "web-1 web-2 ");
    assert_string_equal(selected(v, "!zone"), "db-1 ");
    assert_string_equal(selected(v, "name=web-*"), "web-1 web-2 ");
    assert_string_equal(selected(v, "name!=web-?,role=db"), "db-1 ");
    assert_string_equal(selected(v, "role="), "");
    pfl_inventory_free(v);
}

static void bad_selections_are_refused_with_the_form_that_is_right(void **state)
{
    static const char *const bad[] = {"=x", ",", "role=web,,zone", "!role=web", "ro!le", "!"};
    char why[512];

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(pfl_selection_check(bad[i], why, sizeof(why)), PFL_EINVAL);
        assert_non_null(strstr(why, "label!=value"));
    }
    assert_int_equal(pfl_selection_check("a=b,c!=d,e,!f,g=*", why, sizeof(why)), 0);
    assert_int_equal(pfl_selection_check("*", why, sizeof(why)), 0);
}

static void what_is_no_inventory_is_refused(void **state)
{
    static const char *const bad[] = {"", "{", "[]", "{\"hosts\": {}}", "null", "\xff"};
    struct pfl_inventory *v = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(pfl_inventory_parse(pfl_span_of(bad[i], strlen(bad[i])), &v), PFL_EPARSE);
    for (size_t len = 0; len < strlen(listed); len++)
        assert_int_not_equal(pfl_inventory_parse(pfl_span_of(listed, len), &v), 0);
    pfl_sweep_assert_no_leak();
}

static void a_host_has_left_when_it_is_away_for_longer_than_a_restart(void **state)
{
    (void)state;
    assert_false(pfl_inventory_has_left(
        &(struct pfl_inventory_host){.is_connected = true, .last_seen_s = 1000}));
    assert_false(pfl_inventory_has_left(&(struct pfl_inventory_host){.last_seen_s = 59}));
    assert_true(pfl_inventory_has_left(&(struct pfl_inventory_host){.last_seen_s = 61}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_has_left_when_it_is_away_for_longer_than_a_restart),
        cmocka_unit_test(a_list_of_nothing_but_numbers_is_refused),
        cmocka_unit_test(a_long_list_of_hosts_is_read),
        cmocka_unit_test(entries_without_a_usable_name_are_left_out),
        cmocka_unit_test(labels_and_addresses_that_are_no_plain_text_are_left_out),
        cmocka_unit_test(certificate_that_ended_before_1970_is_not_known),
        cmocka_unit_test(hosts_stand_in_the_order_of_their_names),
        cmocka_unit_test(selections_mean_what_they_say),
        cmocka_unit_test(bad_selections_are_refused_with_the_form_that_is_right),
        cmocka_unit_test(what_is_no_inventory_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
