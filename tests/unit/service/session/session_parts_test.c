/* SPDX-License-Identifier: Apache-2.0 */
/* How many sessions a user may have, and how many of which a file is still written. */
#include "service/session/session_parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define USER  7u
#define OTHER 8u
#define OWNER 61990u /* the service's user */

static struct pfl_service service;
static struct pfl_session closing[10];

static int setup(void **state)
{
    (void)state;
    service = (struct pfl_service){.conf = {.sessions_max = 15, .sessions_per_uid_max = 5}};
    service.shares.consumers.owner = OWNER;
    pfl_list_init(&service.closing);
    return 0;
}

static void add_closing(unsigned count, uint32_t who)
{
    for (unsigned i = 0; i < count; i++) {
        struct pfl_session *s = &closing[service.closing_len++];

        *s = (struct pfl_session){.who = who};
        pfl_list_append(&service.closing, &s->node);
    }
}

static void the_last_sessions_are_for_users_who_have_none_and_the_very_last_for_root(void **state)
{
    static const struct {
        uint32_t who;
        unsigned of_who;
        size_t all;
        bool may;
    } cases[] = {
        {USER, 0, 0, true},    {USER, 4, 11, true},   {USER, 5, 5, false}, {USER, 4, 12, false},
        {USER, 1, 12, false},  {USER, 0, 12, true},   {USER, 0, 13, true}, {USER, 0, 14, false},
        {0, 4, 14, true},      {0, 5, 14, false},     {0, 0, 15, false},   {OWNER, 4, 14, true},
        {OWNER, 5, 14, false}, {OWNER, 0, 15, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(
            pfl_session_may_have(&service, cases[i].who, cases[i].of_who, cases[i].all),
            cases[i].may);
    service.conf.sessions_per_uid_max = 15;
    assert_true(pfl_session_may_have(&service, USER, 14, 14));
    assert_false(pfl_session_may_have(&service, USER, 15, 15));
    service.conf = (struct pfl_service_conf){.sessions_max = 5, .sessions_per_uid_max = 4};
    assert_true(pfl_session_may_have(&service, USER, 3, 3)); /* a fifth is one */
    assert_false(pfl_session_may_have(&service, USER, 3, 4));
}

static void files_of_ended_sessions_count_like_sessions(void **state)
{
    (void)state;
    assert_true(pfl_session_may_close_later(&service, USER));
    add_closing(3, OTHER);
    add_closing(4, USER);
    assert_true(pfl_session_may_close_later(&service, USER));
    add_closing(1, USER);
    assert_false(pfl_session_may_close_later(&service, USER));
    assert_true(pfl_session_may_close_later(&service, OTHER));
    assert_true(pfl_session_may_close_later(&service, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(
            the_last_sessions_are_for_users_who_have_none_and_the_very_last_for_root, setup),
        cmocka_unit_test_setup(files_of_ended_sessions_count_like_sessions, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
