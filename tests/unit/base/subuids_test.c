/* SPDX-License-Identifier: Apache-2.0 */
/* Whose a user id is, by the texts of subuid(5) and passwd(5). */
#include "base/subuids.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"

#define SELF 300u

static const char users[] = "root:x:0:0::/root:/bin/sh\n"
                            "alice:x:1000:1000::/:/bin/sh\n"
                            "al:x:999:1::/:/bin/sh\n"
                            "serves:x:300:300::/:/bin/sh\n"
                            "odd:x:::\n"
                            "bob:x:1001:1001::/:/bin/sh";

static struct pfl_subuids parse(const char *ranges)
{
    struct pfl_subuids s = {0};

    assert_int_equal(pfl_subuids_parse(&s, pfl_span_of(ranges, strlen(ranges)),
                                       pfl_span_of(users, sizeof(users) - 1)),
                     0);
    return s;
}

static void an_id_of_a_range_is_its_owners(void **state)
{
    struct pfl_subuids s = parse("alice:100000:65536\nbob:165536:65536\nalice:500000:10\n"
                                 "1001:600000:1000");

    (void)state;
    assert_int_equal(pfl_subuids_owner(&s, 99999, SELF), 99999);
    assert_int_equal(pfl_subuids_owner(&s, 100000, SELF), 1000);
    assert_int_equal(pfl_subuids_owner(&s, 165535, SELF), 1000);
    assert_int_equal(pfl_subuids_owner(&s, 165536, SELF), 1001);
    assert_int_equal(pfl_subuids_owner(&s, 231072, SELF), 231072);
    assert_int_equal(pfl_subuids_owner(&s, 500009, SELF), 1000);
    assert_int_equal(pfl_subuids_owner(&s, 600999, SELF), 1001);
    assert_int_equal(pfl_subuids_owner(&s, 1000, SELF), 1000);
    assert_int_equal(s.ignored, 0);
    pfl_subuids_fini(&s);
    assert_int_equal(pfl_subuids_owner(&s, 100000, SELF), 100000);
}

static void a_range_of_nobody_known_is_a_user_of_its_own(void **state)
{
    struct pfl_subuids s = parse("containers:2147483647:2147483648\nkubelet:700000:65536\n"
                                 "kubelet:800000:65536\n");

    (void)state;
    assert_int_equal(pfl_subuids_owner(&s, 2147483999u, SELF), 2147483647);
    assert_int_equal(pfl_subuids_owner(&s, 4294967294u, SELF), 2147483647);
    assert_int_equal(pfl_subuids_owner(&s, UINT32_MAX, SELF), UINT32_MAX);
    assert_int_equal(pfl_subuids_owner(&s, 765535, SELF), 700000);
    assert_int_equal(pfl_subuids_owner(&s, 800001, SELF), 800000);
    pfl_subuids_fini(&s);
}

/* They are not bound by a share: who runs in a container of root's is. */
static void ranges_of_root_and_the_services_user_make_nobody_root(void **state)
{
    struct pfl_subuids s = parse("root:1000000:1000000\n0:3000000:10\nserves:4000000:10\n"
                                 "root:300:2\nroot:0:200\nalice:302:9\n");

    (void)state;
    assert_int_equal(pfl_subuids_owner(&s, 1500000, SELF), 1000000);
    assert_int_equal(pfl_subuids_owner(&s, 3000009, SELF), 3000000);
    assert_int_equal(pfl_subuids_owner(&s, 4000009, SELF), 4000000);
    assert_int_equal(pfl_subuids_owner(&s, SELF, SELF), SELF);
    assert_int_equal(pfl_subuids_owner(&s, SELF + 1, SELF), SELF + 1);
    assert_int_equal(pfl_subuids_owner(&s, 0, SELF), 0);
    assert_int_equal(pfl_subuids_owner(&s, 7, SELF), 199);
    pfl_subuids_fini(&s);
}

static void lines_that_are_no_range_are_passed_over(void **state)
{
    struct pfl_subuids s = parse("\n# alice:1:2\nalice\nalice:\nalice:1:\n:1:2\nalice:x:2\n"
                                 "alice:100000:0\nalice:100000:-1\nalice:4294967295:2\n"
                                 "alice:99999999999:2\nalice:100000:65536:9\nroot:1001:1\n"
                                 "alice:100000:65536\n");

    (void)state;
    assert_int_equal(s.len, 1);
    assert_int_equal(s.ignored, 10);
    assert_int_equal(pfl_subuids_owner(&s, 1001, SELF), 1001);
    assert_int_equal(pfl_subuids_owner(&s, 100001, SELF), 1000);
    pfl_subuids_fini(&s);
}

static void texts_cut_anywhere_are_read(void **state)
{
    static const char ranges[] = "alice:100000:65536\nbob:165536:65536\n";

    (void)state;
    for (size_t a = 0; a < sizeof(ranges); a++) {
        for (size_t b = 0; b < sizeof(users); b++) {
            struct pfl_subuids s;

            assert_int_equal(pfl_subuids_parse(&s, pfl_span_of(ranges, a), pfl_span_of(users, b)),
                             0);
            assert_in_range(s.len, 0, 2);
            pfl_subuids_fini(&s);
        }
    }
}

static void there_are_so_many_ranges_and_no_more(void **state)
{
    static const char line[] = "alice:100000:9\n";
    size_t len = (PFL_SUBUIDS_MAX + 3) * (sizeof(line) - 1);
    char *text = pfl_mem_alloc(len + 1);
    struct pfl_subuids s;

    (void)state;
    assert_non_null(text);
    for (size_t at = 0; at < len; at += sizeof(line) - 1)
        memcpy(text + at, line, sizeof(line));
    s = parse(text);
    assert_int_equal(s.len, PFL_SUBUIDS_MAX);
    assert_int_equal(s.ignored, 3);
    pfl_subuids_fini(&s);
    pfl_mem_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_id_of_a_range_is_its_owners),
        cmocka_unit_test(a_range_of_nobody_known_is_a_user_of_its_own),
        cmocka_unit_test(ranges_of_root_and_the_services_user_make_nobody_root),
        cmocka_unit_test(lines_that_are_no_range_are_passed_over),
        cmocka_unit_test(texts_cut_anywhere_are_read),
        cmocka_unit_test(there_are_so_many_ranges_and_no_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
