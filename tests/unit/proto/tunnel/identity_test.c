/* SPDX-License-Identifier: Apache-2.0 */
/* URI names: which are identities, and who may come in. */
#include "proto/tunnel/identity.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void proper_names_are_parsed(void **state)
{
    struct pfl_identity id;

    (void)state;
    assert_int_equal(pfl_identity_parse("perfleet://lab/operator/eve", &id), 0);
    assert_int_equal(id.role, PFL_IDENTITY_OPERATOR);
    assert_string_equal(id.fleet, "lab");
    assert_string_equal(id.name, "eve");
    assert_int_equal(pfl_identity_parse("perfleet://a.b-c_D/host/h0.example.org", &id), 0);
    assert_int_equal(id.role, PFL_IDENTITY_HOST);
    assert_string_equal(id.fleet, "a.b-c_D");
    assert_string_equal(id.name, "h0.example.org");
}

static void anything_unusual_is_no_identity(void **state)
{
    static const char *const uris[] = {
        "",
        "perfleet:",
        "perfleet://",
        "perfleet://lab",
        "perfleet://lab/",
        "perfleet://lab/operator",
        "perfleet://lab/operator/",
        "perfleet:///operator/eve",
        "perfleet://lab//eve",
        "perfleet://lab/admin/eve",
        "perfleet://lab/Operator/eve",
        "perfleet://lab/operators/eve",
        "perfleet://lab/operator/eve/",
        "perfleet://lab/operator/eve/x",
        "perfleet://lab/operator/e ve",
        "perfleet://lab/operator/eve?x=1",
        "perfleet://lab/operator/%65ve",
        "perfleet://lab/operator/..",
        "perfleet://lab/operator/-eve",
        "perfleet://lab/operator/\xc3\xa9ve",
        "Perfleet://lab/operator/eve",
        " perfleet://lab/operator/eve",
        "https://lab/operator/eve",
        "spiffe://lab/operator/eve",
    };
    struct pfl_identity id = {.name = "untouched"};

    (void)state;
    for (size_t i = 0; i < sizeof(uris) / sizeof(uris[0]); i++) {
        if (pfl_identity_parse(uris[i], &id) != PFL_EPARSE)
            fail_msg("\"%s\" was accepted", uris[i]);
    }
    assert_string_equal(id.name, "untouched");
}

static void names_have_at_most_63_characters(void **state)
{
    struct pfl_identity id;
    char uri[256];
    char name[65];

    (void)state;
    memset(name, 'n', sizeof(name));
    name[63] = '\0';
    (void)snprintf(uri, sizeof(uri), "perfleet://%s/host/%s", name, name);
    assert_int_equal(pfl_identity_parse(uri, &id), 0);
    assert_string_equal(id.name, name);
    name[63] = 'n';
    name[64] = '\0';
    (void)snprintf(uri, sizeof(uri), "perfleet://lab/host/%s", name);
    assert_int_equal(pfl_identity_parse(uri, &id), PFL_EPARSE);
    (void)snprintf(uri, sizeof(uri), "perfleet://%s/host/h", name);
    assert_int_equal(pfl_identity_parse(uri, &id), PFL_EPARSE);
}

static void every_cut_of_a_name_is_no_identity_until_the_name_begins(void **state)
{
    static const char uri[] = "perfleet://lab/operator/e";
    struct pfl_identity id;
    char cut[sizeof(uri)];

    (void)state;
    for (size_t len = 0; len < sizeof(uri) - 1; len++) {
        memcpy(cut, uri, len);
        cut[len] = '\0';
        assert_int_equal(pfl_identity_parse(cut, &id), PFL_EPARSE);
    }
    assert_int_equal(pfl_identity_parse(uri, &id), 0);
}

static void only_operators_of_the_fleet_may_come_in(void **state)
{
    struct pfl_identity_refusal why = {NULL, NULL};

    (void)state;
    assert_int_equal(
        pfl_identity_authorize("perfleet://lab/operator/eve", "lab", PFL_IDENTITY_OPERATOR, &why),
        0);
    assert_null(why.reason);
    assert_int_equal(
        pfl_identity_authorize("perfleet://lab/host/a", "lab", PFL_IDENTITY_OPERATOR, &why),
        PFL_EPERM);
    assert_non_null(strstr(why.reason, "host's certificate"));
    assert_non_null(strstr(why.remedy, "operator"));
    assert_int_equal(
        pfl_identity_authorize("perfleet://lab2/operator/eve", "lab", PFL_IDENTITY_OPERATOR, &why),
        PFL_EPERM);
    assert_non_null(strstr(why.reason, "another fleet"));
    assert_int_equal(pfl_identity_authorize("", "lab", PFL_IDENTITY_OPERATOR, &why), PFL_EPERM);
    assert_non_null(strstr(why.reason, "no URI name"));
    assert_int_equal(pfl_identity_authorize("https://lab", "lab", PFL_IDENTITY_OPERATOR, &why),
                     PFL_EPERM);
    assert_non_null(strstr(why.reason, "not perfleet://"));
}

static void each_role_is_good_for_itself_alone(void **state)
{
    static const char *const uris[] = {"perfleet://lab/host/a", "perfleet://lab/operator/a",
                                       "perfleet://lab/relay/a"};
    struct pfl_identity_refusal why;

    (void)state;
    for (int has = PFL_IDENTITY_HOST; has <= PFL_IDENTITY_RELAY; has++) {
        for (int wants = PFL_IDENTITY_HOST; wants <= PFL_IDENTITY_RELAY; wants++) {
            why = (struct pfl_identity_refusal){NULL, NULL};
            assert_int_equal(
                pfl_identity_authorize(uris[has - 1], "lab", (enum pfl_identity_role)wants, &why),
                has == wants ? 0 : PFL_EPERM);
            if (has != wants)
                assert_non_null(why.reason);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(proper_names_are_parsed),
        cmocka_unit_test(anything_unusual_is_no_identity),
        cmocka_unit_test(names_have_at_most_63_characters),
        cmocka_unit_test(every_cut_of_a_name_is_no_identity_until_the_name_begins),
        cmocka_unit_test(each_role_is_good_for_itself_alone),
        cmocka_unit_test(only_operators_of_the_fleet_may_come_in),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
