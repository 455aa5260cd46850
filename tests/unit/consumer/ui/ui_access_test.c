/* SPDX-License-Identifier: Apache-2.0 */
/* Who comes in from a browser, and whose connection a line of the kernel's table is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "consumer/ui/ui_access.h"

static const char *const origins[] = {"https://traces.example.org"};
static const char *const hosts[] = {"web-1", "web-2"};
static const struct pfl_ui_access rules = {origins, 1, hosts, 2};
static const char ui[] = "https://ui.perfetto.dev";

static unsigned judge(const char *host, const char *origin, const char *path)
{
    const char *why = NULL;
    size_t number = 99;
    struct pfl_ui_visit visit = {host, origin, path};
    unsigned status = pfl_ui_access_judge(&rules, &visit, &number, &why);

    assert_true((status == 101) == (why == NULL));
    assert_true((status == 101) == (number < 3));
    return status;
}

static void origins_come_in_whole_or_not_at_all(void **state)
{
    (void)state;
    assert_int_equal(judge("127.0.0.1:8037", ui, "/traced"), 101);
    assert_int_equal(judge("127.0.0.1:8037", "https://traces.example.org", "/traced"), 101);
    assert_int_equal(judge("127.0.0.1:8037", "https://ui.perfetto.dev.evil", "/traced"), 403);
    assert_int_equal(judge("127.0.0.1:8037", "https://ui.perfetto.de", "/traced"), 403);
    assert_int_equal(judge("127.0.0.1:8037", "null", "/traced"), 403);
    assert_int_equal(judge("127.0.0.1:8037", "", "/traced"), 403);
    assert_int_equal(judge("127.0.0.1:8037", NULL, "/traced"), 403);
}

/* Another user of the machine may serve them. */
static void pages_of_loopback_are_not_let_in_unasked(void **state)
{
    (void)state;
    assert_int_equal(judge("127.0.0.1:8037", "http://localhost:10000", "/traced"), 403);
    assert_int_equal(judge("127.0.0.1:8037", "http://127.0.0.1:10000", "/traced"), 403);
    assert_int_equal(judge("127.0.0.1:8037", "http://127.0.0.1:8037", "/traced"), 403);
}

static void names_that_point_here_do_not_come_in(void **state)
{
    (void)state;
    assert_int_equal(judge("localhost", ui, "/traced"), 101);
    assert_int_equal(judge("localhost:9000", ui, "/traced"), 101);
    assert_int_equal(judge("[::1]:8037", ui, "/traced"), 101);
    assert_int_equal(judge("localhost.evil.example:8037", ui, "/traced"), 403);
    assert_int_equal(judge("127.0.0.1.nip.io", ui, "/traced"), 403);
    assert_int_equal(judge("127.0.0.1:8037@evil", ui, "/traced"), 403);
    assert_int_equal(judge("evil.example:8037", ui, "/traced"), 403);
    assert_int_equal(judge(NULL, ui, "/traced"), 400);
    assert_int_equal(judge("localhost", ui, NULL), 400);
}

static void a_path_means_one_host(void **state)
{
    struct pfl_ui_visit second = {"localhost", ui, "/traced/web-2"};
    const char *why = NULL;
    size_t number = 99;

    (void)state;
    assert_int_equal(judge("localhost", ui, "/traced/web-1"), 101);
    assert_int_equal(pfl_ui_access_judge(&rules, &second, &number, &why), 101);
    assert_int_equal(number, 1);
    assert_int_equal(judge("localhost", ui, "/traced/"), 404);
    assert_int_equal(judge("localhost", ui, "/traced/web-22"), 404);
    assert_int_equal(judge("localhost", ui, "/traced/../web-1"), 404);
    assert_int_equal(judge("localhost", ui, "/tracedx"), 404);
    assert_int_equal(judge("localhost", ui, "/"), 404);
    assert_int_equal(judge("localhost", ui, ""), 404);
}

static void the_fleet_has_a_path_that_no_host_can_have(void **state)
{
    static const char *const names[] = {"fleet", "web"};
    static const struct pfl_ui_access own = {origins, 1, names, 2};
    struct pfl_ui_visit all = {"localhost", ui, "/fleet"};
    struct pfl_ui_visit one = {"localhost", ui, "/traced/fleet"};
    const char *why = NULL;
    size_t number = 99;

    (void)state;
    assert_int_equal(pfl_ui_access_judge(&own, &all, &number, &why), 101);
    assert_int_equal(number, 2);
    assert_int_equal(pfl_ui_access_judge(&own, &one, &number, &why), 101);
    assert_int_equal(number, 0);
    assert_int_equal(judge("localhost", ui, "/fleet/"), 404);
    assert_int_equal(judge("localhost", "https://evil.example", "/fleet"), 403);
}

static void origins_have_a_form(void **state)
{
    (void)state;
    assert_true(pfl_ui_is_origin("https://a.example"));
    assert_true(pfl_ui_is_origin("http://[::1]:8080"));
    assert_false(pfl_ui_is_origin("https://a.example/"));
    assert_false(pfl_ui_is_origin("https://"));
    assert_false(pfl_ui_is_origin("a.example"));
    assert_false(pfl_ui_is_origin("https://A.example"));
    assert_false(pfl_ui_is_origin("*"));
}

static void the_owner_is_that_of_the_other_end(void **state)
{
    static const char line[] = "   3: 0100007F:9C40 0100007F:1F65 01 00000000:00000000 00:00000000 "
                               "00000000  1000        0 12345 1 0000000000000000 20 4 30 10 -1\n";
    static const char far[] = "   3: 0100007F:9C40 0200007F:1F65 01 00000000:00000000 00:00000000 "
                              "00000000  1000        0 12345 1 0000000000000000 20 4 30 10 -1\n";
    uint32_t uid = 7;

    (void)state;
    assert_true(pfl_ui_read_owner(line, 40000, 8037, &uid));
    assert_int_equal(uid, 1000);
    assert_false(pfl_ui_read_owner(line, 8037, 40000, &uid)); /* our own end */
    assert_false(pfl_ui_read_owner(far, 40000, 8037, &uid));
    assert_false(pfl_ui_read_owner("  sl  local_address rem_address\n", 40000, 8037, &uid));
    assert_false(pfl_ui_read_owner("", 40000, 8037, &uid));
}

/* A program that sends and closes at once: the kernel calls its end root's. */
static void an_end_that_was_closed_is_nobodys(void **state)
{
    static const char left[] = "   3: 0100007F:9C40 0100007F:1F65 05 00000000:00000000 00:00000000 "
                               "00000000     0        0 0 1 0000000000000000 20 4 30 10 -1\n";
    static const char waits[] = "   3: 0100007F:9C40 0100007F:1F65 06 00000000:00000000 "
                                "03:00001000 00000000     0        0 0 3 0000000000000000\n";
    uint32_t uid = 7;

    (void)state;
    assert_false(pfl_ui_read_owner(left, 40000, 8037, &uid));
    assert_false(pfl_ui_read_owner(waits, 40000, 8037, &uid));
    assert_int_equal(uid, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(origins_come_in_whole_or_not_at_all),
        cmocka_unit_test(pages_of_loopback_are_not_let_in_unasked),
        cmocka_unit_test(names_that_point_here_do_not_come_in),
        cmocka_unit_test(a_path_means_one_host),
        cmocka_unit_test(the_fleet_has_a_path_that_no_host_can_have),
        cmocka_unit_test(origins_have_a_form),
        cmocka_unit_test(the_owner_is_that_of_the_other_end),
        cmocka_unit_test(an_end_that_was_closed_is_nobodys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
