/* SPDX-License-Identifier: Apache-2.0 */
/* Names of UNIX sockets: which are one, and how long their address is. */
#include "base/unix_addr.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define HEAD offsetof(struct sockaddr_un, sun_path)

static void a_path_counts_with_its_end_and_an_abstract_name_without(void **state)
{
    struct sockaddr_un addr;
    socklen_t len = 0;

    (void)state;
    assert_int_equal(pfl_unix_addr_parse("/run/x", &addr, &len), 0);
    assert_int_equal(addr.sun_family, AF_UNIX);
    assert_int_equal(len, HEAD + 7);
    assert_string_equal(addr.sun_path, "/run/x");
    assert_int_equal(pfl_unix_addr_parse("@name", &addr, &len), 0);
    assert_int_equal(len, HEAD + 5);
    assert_memory_equal(addr.sun_path, "\0name", 5);
}

static void a_name_has_1_to_107_bytes(void **state)
{
    struct sockaddr_un addr;
    char name[109];
    socklen_t len = 77;

    (void)state;
    memset(name, 'n', sizeof(name) - 1);
    name[108] = '\0';
    assert_int_equal(pfl_unix_addr_parse("", &addr, &len), PFL_EINVAL);
    assert_int_equal(pfl_unix_addr_parse("@", &addr, &len), PFL_EINVAL);
    assert_int_equal(pfl_unix_addr_parse(name, &addr, &len), PFL_EINVAL);
    assert_int_equal(len, 77);
    name[107] = '\0';
    assert_int_equal(pfl_unix_addr_parse(name, &addr, &len), 0);
    assert_int_equal(len, sizeof(addr));
    assert_string_equal(addr.sun_path, name);
    assert_int_equal(pfl_unix_addr_parse("x", &addr, &len), 0);
    assert_int_equal(len, HEAD + 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_counts_with_its_end_and_an_abstract_name_without),
        cmocka_unit_test(a_name_has_1_to_107_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
