/* SPDX-License-Identifier: Apache-2.0 */
/* How many clones there may be: of a user, and of all. */
#include "service/session/admission.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "service/core/service.h"
#include "service/session/session_parts.h"

#define CLONER 7u
#define OTHER  8u
#define OWNER  61990u /* the service's user */

static const struct pfl_service_facts facts = {.uid = OWNER};
static struct pfl_service service;
static struct pfl_session sessions[PFL_SERVICE_MAX_CLONES];
static size_t len;

static int setup(void **state)
{
    (void)state;
    service.conf.facts = &facts;
    pfl_list_init(&service.sessions);
    len = 0;
    return 0;
}

static void add(size_t count, uint32_t who, enum pfl_session_state session_state)
{
    for (size_t i = 0; i < count; i++, len++) {
        assert_true(len < PFL_SERVICE_MAX_CLONES);
        sessions[len] = (struct pfl_session){.state = session_state, .who = who};
        pfl_list_append(&service.sessions, &sessions[len].node);
    }
}

static void a_user_has_half_of_the_clones_and_another_one_half_of_the_rest(void **state)
{
    (void)state;
    add(PFL_SERVICE_MAX_CLONES / 2 - 1, CLONER, PFL_SESSION_CLONED);
    assert_true(pfl_admission_may_clone(&service, CLONER));
    add(1, CLONER, PFL_SESSION_CLONED);
    assert_false(pfl_admission_may_clone(&service, CLONER));
    add(PFL_SERVICE_MAX_CLONES / 4 - 1, OTHER, PFL_SESSION_CLONED);
    assert_true(pfl_admission_may_clone(&service, OTHER));
    add(1, OTHER, PFL_SESSION_CLONED);
    assert_false(pfl_admission_may_clone(&service, OTHER));
}

static void root_and_the_services_user_have_all_that_are_left(void **state)
{
    (void)state;
    add(PFL_SERVICE_MAX_CLONES - 1, CLONER, PFL_SESSION_CLONED);
    assert_true(pfl_admission_may_clone(&service, 0));
    assert_true(pfl_admission_may_clone(&service, OWNER));
    assert_false(pfl_admission_may_clone(&service, OTHER));
    add(1, OWNER, PFL_SESSION_CLONED);
    assert_false(pfl_admission_may_clone(&service, 0));
    assert_false(pfl_admission_may_clone(&service, OWNER));
}

static void sessions_that_are_no_clones_do_not_count(void **state)
{
    (void)state;
    add(PFL_SERVICE_MAX_CLONES, CLONER, PFL_SESSION_STARTED);
    assert_true(pfl_admission_may_clone(&service, CLONER));
    assert_true(pfl_admission_may_clone(&service, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_user_has_half_of_the_clones_and_another_one_half_of_the_rest,
                               setup),
        cmocka_unit_test_setup(root_and_the_services_user_have_all_that_are_left, setup),
        cmocka_unit_test_setup(sessions_that_are_no_clones_do_not_count, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
