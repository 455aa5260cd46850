/* SPDX-License-Identifier: Apache-2.0 */
/* Where a relay is: forms of an address, and the port that is meant when none is given. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tunnel/dialer.h"

static void an_address_without_port_means_9910(void **state)
{
    static const struct {
        const char *text;
        const char *host;
        const char *port;
    } rows[] = {
        {"meet1.example.com", "meet1.example.com", "9910"},
        {"10.0.0.1", "10.0.0.1", "9910"},
        {"[fe80::1]", "fe80::1", "9910"},
        {"meet1:1", "meet1", "1"},
        {"[fe80::1]:443", "fe80::1", "443"},
        {"meet1:https", "meet1", "https"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct pfl_dialer_address address;

        assert_true(pfl_dialer_parse_address(rows[i].text, &address));
        assert_string_equal(address.host, rows[i].host);
        assert_string_equal(address.port, rows[i].port);
    }
}

static void what_is_no_address_is_refused(void **state)
{
    static const char *const rows[] = {"",   ":1",   "meet1:",   "meet1:123456789", "[fe80::1",
                                       "[]", "[]:1", "[::1]x:1", "[::1]x"};
    struct pfl_dialer_address address;
    char long_host[400];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_false(pfl_dialer_parse_address(rows[i], &address));
    memset(long_host, 'a', sizeof(long_host) - 1);
    long_host[sizeof(long_host) - 1] = '\0';
    assert_false(pfl_dialer_parse_address(long_host, &address));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_without_port_means_9910),
        cmocka_unit_test(what_is_no_address_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
