/* SPDX-License-Identifier: Apache-2.0 */
#include "service/port/socket_names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/sweep.h"

static int split(const char *list, const char *consumer, struct pfl_socket_names *names)
{
    const char *bad = NULL;

    *names = (struct pfl_socket_names){.producer_list = list, .consumer = consumer};
    return pfl_socket_names_split(names, &bad);
}

static void a_list_of_producer_sockets_is_cut_at_its_commas(void **state)
{
    struct pfl_socket_names names;

    (void)state;
    assert_int_equal(split("/a,@b,/c:d", "/e", &names), 0);
    assert_int_equal(names.producers_len, 3);
    assert_string_equal(names.producers[1].address, "@b");
    assert_string_equal(names.producers[2].address, "/c:d");
    assert_int_equal(names.producers[2].family, PFL_SOCKET_UNIX);
    pfl_socket_names_fini(&names);
    pfl_sweep_assert_no_leak();
}

static void addresses_that_cannot_be_served_are_refused(void **state)
{
    static const struct {
        const char *list;
        const char *consumer;
        int rc;
    } cases[] = {
        {"/a,", "/c", PFL_EINVAL},        {"", "/c", PFL_EINVAL},
        {"/a", "", PFL_EINVAL},           {"/a,1.2.3.4:5", "/c", PFL_EPERM},
        {"[::]:5", "/c", PFL_EPERM},      {":5", "/c", PFL_EPERM},
        {"somewhere:5", "/c", PFL_EPERM}, {"127.0.0.1.example:5", "/c", PFL_EPERM},
        {"/a", "127.0.0.1:9", PFL_EPERM}, {"/a", "vsock://1:2", PFL_EPERM},
        {"/a", "[::1]:9", PFL_EPERM},     {"a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a", "/c", PFL_EINVAL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pfl_socket_names names;

        assert_int_equal(split(cases[i].list, cases[i].consumer, &names), cases[i].rc);
        pfl_socket_names_fini(&names);
    }
}

static void only_this_hosts_own_network_addresses_are_served_unasked(void **state)
{
    struct pfl_socket_names names;
    const char *bad = NULL;

    (void)state;
    assert_int_equal(split("127.9.9.9:1,[::1]:2,localhost:3,vsock://2:4", "/c", &names), 0);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(names.producers[i].family, PFL_SOCKET_TCP);
    assert_int_equal(names.producers[3].family, PFL_SOCKET_VSOCK);
    pfl_socket_names_fini(&names);
    names = (struct pfl_socket_names){
        .producer_list = "0.0.0.0:1,:2,far.example:3", .consumer = "/c", .allows_network = true};
    assert_int_equal(pfl_socket_names_split(&names, &bad), 0);
    pfl_socket_names_fini(&names);
}

static void relays_are_served_where_it_was_asked_for(void **state)
{
    struct pfl_socket_names names = {
        .producer_list = "/a,/b", .consumer = "/c", .relay_on = {"/b"}, .relay_on_len = 1};
    const char *bad = NULL;

    (void)state;
    assert_int_equal(pfl_socket_names_split(&names, &bad), 0);
    assert_false(names.producers[0].has_relay);
    assert_true(names.producers[1].has_relay);
    pfl_socket_names_fini(&names);
    names = (struct pfl_socket_names){
        .producer_list = "/a,/b", .consumer = "/c", .has_relay_all = true};
    assert_int_equal(pfl_socket_names_split(&names, &bad), 0);
    assert_true(names.producers[0].has_relay && names.producers[1].has_relay);
    pfl_socket_names_fini(&names);
    names = (struct pfl_socket_names){
        .producer_list = "/a", .consumer = "/c", .relay_on = {"/x"}, .relay_on_len = 1};
    assert_int_equal(pfl_socket_names_split(&names, &bad), PFL_ENOENT);
    assert_string_equal(bad, "/x");
    pfl_socket_names_fini(&names);
}

static void the_environment_is_asked_when_the_command_line_is_silent(void **state)
{
    struct pfl_socket_names names = {.consumer = "/given"};

    (void)state;
    assert_int_equal(setenv("PERFETTO_PRODUCER_SOCK_NAME", "/env-p", 1), 0);
    assert_int_equal(setenv("PERFETTO_CONSUMER_SOCK_NAME", "/env-c", 1), 0);
    pfl_socket_names_default(&names);
    assert_string_equal(names.producer_list, "/env-p");
    assert_string_equal(names.consumer, "/given");
    assert_int_equal(setenv("PERFETTO_PRODUCER_SOCK_NAME", "", 1), 0); /* as if not set */
    names.producer_list = NULL;
    pfl_socket_names_default(&names);
    assert_non_null(strstr(names.producer_list, "producer"));
}

static void permissions_are_two_groups_with_modes_of_four_digits(void **state)
{
    static const char *const bad[] = {"",
                                      "a",
                                      "a:660:b:0660",
                                      "a:0660",
                                      "a:0660:b:0660:",
                                      "a:0680:b:0660",
                                      ":0660:b:0660",
                                      "a:0660:b:06600"};
    struct pfl_socket_permissions p = {0};

    (void)state;
    assert_int_equal(pfl_socket_permissions_parse(&p, "grp:0660:1000:0600"), 0);
    assert_string_equal(p.producer.group, "grp");
    assert_int_equal(p.producer.mode, 0660);
    assert_string_equal(p.consumer.group, "1000");
    assert_int_equal(p.consumer.mode, 0600);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(pfl_socket_permissions_parse(&p, bad[i]), PFL_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_of_producer_sockets_is_cut_at_its_commas),
        cmocka_unit_test(addresses_that_cannot_be_served_are_refused),
        cmocka_unit_test(only_this_hosts_own_network_addresses_are_served_unasked),
        cmocka_unit_test(relays_are_served_where_it_was_asked_for),
        cmocka_unit_test(the_environment_is_asked_when_the_command_line_is_silent),
        cmocka_unit_test(permissions_are_two_groups_with_modes_of_four_digits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
