/* SPDX-License-Identifier: Apache-2.0 */
/* --host values and certificate names. */
#include "consumer/host/host_spec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void good(const char *arg, enum pfl_host_kind kind, const char *name, const char *address,
                 const char *port)
{
    struct pfl_host_spec s;
    char why[256] = "";

    assert_int_equal(pfl_host_spec_parse(arg, &s, why, sizeof(why)), 0);
    assert_int_equal(s.kind, kind);
    assert_string_equal(s.name, name);
    assert_int_equal(s.is_named, name[0] != '\0');
    assert_string_equal(s.address, address);
    assert_string_equal(s.port, port);
}

static void bad(const char *arg)
{
    struct pfl_host_spec s;
    char why[512] = "";

    assert_int_equal(pfl_host_spec_parse(arg, &s, why, sizeof(why)), PFL_EINVAL);
    assert_true(why[0] != '\0');
}

static void all_forms_are_read(void **state)
{
    (void)state;
    good("tls://a:9910", PFL_HOST_TLS, "", "a", "9910");
    good("web-1=tls://10.0.0.1:1", PFL_HOST_TLS, "web-1", "10.0.0.1", "1");
    good("tls://[fe80::1]:65535", PFL_HOST_TLS, "", "fe80::1", "65535");
    good("tls://a", PFL_HOST_TLS, "", "a", "9910");
    good("b=tls://[fe80::1]", PFL_HOST_TLS, "b", "fe80::1", "9910");
    good("unix:/run/x.sock", PFL_HOST_UNIX, "", "/run/x.sock", "");
    good("unix:///run/x.sock", PFL_HOST_UNIX, "", "/run/x.sock", "");
    good("b=unix:@abstract", PFL_HOST_UNIX, "b", "@abstract", "");
    good("unix:/has=equals", PFL_HOST_UNIX, "", "/has=equals", "");
}

static void addresses_are_no_names(void **state)
{
    (void)state;
    assert_true(pfl_host_is_address("tls://a"));
    assert_true(pfl_host_is_address("b=unix:/x"));
    assert_true(pfl_host_is_address("local"));
    assert_true(pfl_host_is_address("b=local"));
    assert_false(pfl_host_is_address("web-1"));
    assert_false(pfl_host_is_address("locals"));
}

static void everything_else_is_refused_with_a_reason(void **state)
{
    char long_path[200];

    (void)state;
    bad("");
    bad("host");
    bad("tls://");
    bad("tls://[fe80::1");
    bad("tls://[fe80::1]x");
    bad("tls://[]");
    bad("tls://a:");
    bad("tls://a:0");
    bad("tls://a:65536");
    bad("tls://a:1x");
    bad("tls://:1");
    bad("tls://fe80::1:1");
    bad("tls://[fe80::1:1");
    bad("=tls://a:1");
    bad("a b=tls://a:1");
    bad("unix:");
    bad("tcp://a:1");
    bad("ssh://");
    bad("ssh://-oProxyCommand=x");
    bad("ssh://me@-x");
    bad("ssh://me@");
    bad("ssh://host:0");
    bad("ssh://host:22x");
    bad("ssh://ho st");
    bad("ssh://host/a:b");
    bad("ssh://host/a;b");
    memset(long_path, 'x', sizeof(long_path));
    memcpy(long_path, "unix:", 5);
    long_path[sizeof(long_path) - 1] = '\0';
    bad(long_path);
}

static void hosts_by_ssh_have_a_destination_a_port_and_a_socket(void **state)
{
    struct pfl_host_spec spec;
    char why[512];

    (void)state;
    assert_int_equal(pfl_host_spec_parse("ssh://me@web-1", &spec, why, sizeof(why)), 0);
    assert_int_equal(spec.kind, PFL_HOST_SSH);
    assert_string_equal(spec.address, "me@web-1");
    assert_string_equal(spec.name, "web-1");
    assert_string_equal(spec.port, "");
    assert_string_equal(spec.socket, "/run/perfetto/traced-consumer.sock");
    assert_int_equal(pfl_host_spec_parse("a=ssh://web-1:2222/tmp/c.sock", &spec, why, sizeof(why)),
                     0);
    assert_string_equal(spec.address, "web-1");
    assert_string_equal(spec.name, "a");
    assert_string_equal(spec.port, "2222");
    assert_string_equal(spec.socket, "/tmp/c.sock");
}

static void uri_names_split_into_fleet_role_and_name(void **state)
{
    char fleet[PFL_HOST_NAME_MAX];
    char role[PFL_HOST_NAME_MAX];
    char name[PFL_HOST_NAME_MAX];

    (void)state;
    assert_true(pfl_host_uri_parse("perfleet://prod/host/web-1.example", fleet, role, name));
    assert_string_equal(fleet, "prod");
    assert_string_equal(role, "host");
    assert_string_equal(name, "web-1.example");
}

static void uris_of_another_form_are_refused(void **state)
{
    static const char *const bad_uris[] = {
        "",
        "perfleet://",
        "perfleet://prod",
        "perfleet://prod/host",
        "perfleet://prod/host/",
        "perfleet:///host/a",
        "perfleet://prod//a",
        "perfleet://prod/host/a/b",
        "perfleet://prod/host/a b",
        "https://prod/host/a",
        "perfleet://prod/host/"
        "0123456789012345678901234567890123456789012345678901234567890123"
        "0123456789012345678901234567890123456789012345678901234567890123",
    };
    char a[PFL_HOST_NAME_MAX];
    char b[PFL_HOST_NAME_MAX];
    char c[PFL_HOST_NAME_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof(bad_uris) / sizeof(bad_uris[0]); i++)
        assert_false(pfl_host_uri_parse(bad_uris[i], a, b, c));
}

static void the_local_host_is_the_socket_of_the_environment(void **state)
{
    (void)state;
    assert_int_equal(setenv("PERFETTO_CONSUMER_SOCK_NAME", "/x/sock", 1), 0);
    good("local", PFL_HOST_UNIX, "", "/x/sock", "");
    good("b=local", PFL_HOST_UNIX, "b", "/x/sock", "");
    assert_int_equal(setenv("PERFETTO_CONSUMER_SOCK_NAME", "", 1), 0);
    good("local", PFL_HOST_UNIX, "",
         access("/run/perfetto/", X_OK) == 0 ? "/run/perfetto/traced-consumer.sock"
                                             : "/tmp/perfetto-consumer",
         "");
    assert_int_equal(unsetenv("PERFETTO_CONSUMER_SOCK_NAME"), 0);
}

static void a_host_of_a_tunnel_is_its_name(void **state)
{
    struct pfl_host_spec spec;

    (void)state;
    pfl_host_spec_set_tunnel(&spec, "web-1");
    assert_int_equal(spec.kind, PFL_HOST_TUNNEL);
    assert_true(spec.is_named);
    assert_string_equal(spec.name, "web-1");
    assert_string_equal(spec.address, "web-1");
    assert_string_equal(spec.text, "web-1");
    assert_string_equal(spec.port, "");
}

static void names_paths_and_ports_have_a_longest(void **state)
{
    struct pfl_host_spec spec;
    char why[1024];
    char text[600];

    (void)state;
    for (int more = 0; more < 2; more++) {
        int rc = more == 0 ? 0 : PFL_EINVAL;

        (void)snprintf(text, sizeof(text), "%0*d=unix:/x", PFL_HOST_NAME_MAX - 1 + more, 7);
        assert_int_equal(pfl_host_spec_parse(text, &spec, why, sizeof(why)), rc);
        (void)snprintf(text, sizeof(text), "unix:/%0*d", 105 + more, 7);
        assert_int_equal(pfl_host_spec_parse(text, &spec, why, sizeof(why)), rc);
        (void)snprintf(text, sizeof(text), "%0*d", PFL_HOST_NAME_MAX - 1 + more, 7);
        assert_int_equal(pfl_host_is_name(text), more == 0);
        (void)snprintf(text, sizeof(text), "tls://a:%d", 65535 + more);
        assert_int_equal(pfl_host_spec_parse(text, &spec, why, sizeof(why)), rc);
    }
    assert_false(pfl_host_is_name(""));
    assert_false(pfl_host_is_name("a/b"));
    bad("tls://a:/1");
    bad("tls://a:-1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_forms_are_read),
        cmocka_unit_test(addresses_are_no_names),
        cmocka_unit_test(everything_else_is_refused_with_a_reason),
        cmocka_unit_test(hosts_by_ssh_have_a_destination_a_port_and_a_socket),
        cmocka_unit_test(uri_names_split_into_fleet_role_and_name),
        cmocka_unit_test(uris_of_another_form_are_refused),
        cmocka_unit_test(the_local_host_is_the_socket_of_the_environment),
        cmocka_unit_test(a_host_of_a_tunnel_is_its_name),
        cmocka_unit_test(names_paths_and_ports_have_a_longest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
