/* SPDX-License-Identifier: Apache-2.0 */
/* The role of a relay by its own certificate, the fleet that it was given, and its socket. */
#include "relay/accept/relay_role.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct pfl_relay_role decide(const char *uri, const char *fleet, bool is_socket_given)
{
    struct pfl_relay_role_conf conf = {
        .own_uri = uri, .fleet = fleet, .is_socket_given = is_socket_given};
    struct pfl_relay_role role;

    assert_int_equal(pfl_relay_role_decide(&conf, &role), 0);
    return role;
}

static void a_hosts_certificate_makes_direct_mode_and_no_hub(void **state)
{
    struct pfl_relay_role role = decide("perfleet://f/host/a", NULL, false);

    (void)state;
    assert_false(role.has_hub);
    assert_true(role.has_direct);
    assert_string_equal(role.fleet, "f");
    assert_string_equal(role.name, "a");
}

static void a_relays_certificate_makes_a_hub(void **state)
{
    struct pfl_relay_role role = decide("perfleet://f/relay/r", NULL, false);

    (void)state;
    assert_true(role.has_hub);
    assert_false(role.has_direct);
    assert_string_equal(role.fleet, "f");
    assert_string_equal(role.name, "r");
}

static void a_fleet_relay_with_a_consumer_socket_has_both(void **state)
{
    struct pfl_relay_role role = decide("perfleet://f/relay/r", NULL, true);

    (void)state;
    assert_true(role.has_hub);
    assert_true(role.has_direct);
}

static void the_fleet_that_was_given_is_used_instead_of_the_certificates(void **state)
{
    struct pfl_relay_role role = decide("perfleet://f/host/a", "g", false);

    (void)state;
    assert_string_equal(role.fleet, "g");
    assert_string_equal(role.name, "a");
}

static void a_certificate_without_a_name_needs_a_fleet(void **state)
{
    struct pfl_relay_role_conf conf = {.own_uri = ""};
    struct pfl_relay_role role = {.name = "unchanged"};

    (void)state;
    assert_int_equal(pfl_relay_role_decide(&conf, &role), PFL_EINVAL);
    assert_string_equal(role.name, "unchanged");
    role = decide("", "g", false);
    assert_string_equal(role.fleet, "g");
    assert_string_equal(role.name, "");
    assert_false(role.has_hub);
    assert_true(role.has_direct);
}

static void a_long_fleet_is_cut(void **state)
{
    char text[2 * PFL_IDENTITY_NAME_BYTES];

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(strlen(decide("", text, false).fleet), PFL_IDENTITY_NAME_BYTES - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hosts_certificate_makes_direct_mode_and_no_hub),
        cmocka_unit_test(a_relays_certificate_makes_a_hub),
        cmocka_unit_test(a_fleet_relay_with_a_consumer_socket_has_both),
        cmocka_unit_test(the_fleet_that_was_given_is_used_instead_of_the_certificates),
        cmocka_unit_test(a_certificate_without_a_name_needs_a_fleet),
        cmocka_unit_test(a_long_fleet_is_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
