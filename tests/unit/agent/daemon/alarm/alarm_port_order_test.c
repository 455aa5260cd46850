/* SPDX-License-Identifier: Apache-2.0 */
/* Orders for alarms: which triggers they name, and what a role says of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/daemon/alarm/alarm_port.h"
#include "perfleet/policy.fields.h"
#include "proto/gate/role.h"

static bool reads(const char *text, struct pfl_agent_alarm_order *order)
{
    return pfl_agent_alarm_read_triggers(text, order);
}

static void triggers_are_names_with_commas_between_them(void **state)
{
    struct pfl_agent_alarm_order order = {0};
    char longest[PFL_IDENTITY_NAME_BYTES + 1];

    (void)state;
    assert_true(reads("boom", &order));
    assert_int_equal(order.triggers_len, 1);
    assert_string_equal(order.triggers[0], "boom");
    assert_true(reads("a,b.c-d_E,9,d,e,f,g,h", &order));
    assert_int_equal(order.triggers_len, PFL_AGENT_ALARM_TRIGGERS);
    assert_string_equal(order.triggers[1], "b.c-d_E");
    assert_string_equal(order.triggers[7], "h");
    memset(longest, 'x', sizeof(longest));
    longest[PFL_IDENTITY_NAME_BYTES - 1] = '\0';
    assert_true(reads(longest, &order));

    assert_false(reads("a,b,c,d,e,f,g,h,i", &order));
    assert_false(reads("", &order));
    assert_false(reads(",", &order));
    assert_false(reads("a,", &order));
    assert_false(reads("a,,b", &order));
    assert_false(reads("a b", &order));
    assert_false(reads("../x", &order));
    memset(longest, 'x', sizeof(longest));
    longest[PFL_IDENTITY_NAME_BYTES] = '\0';
    assert_false(reads(longest, &order));
}

static struct pfl_span make_role(uint8_t *dst, size_t room, const char *session)
{
    struct pfl_writer w = pfl_writer_of(dst, room);

    pfl_writer_field_bytes(&w, ROLE__NAME, "r", 1);
    if (session != NULL)
        pfl_writer_field_bytes(&w, ROLE__SESSION, session, strlen(session));
    return pfl_span_of(dst, room - w.left);
}

static void a_role_allows_them_for_its_sessions_alone(void **state)
{
    char why[PFL_JUDGE_WHY_BYTES];
    uint8_t bytes[64];

    (void)state;
    assert_true(pfl_agent_alarm_is_allowed("ring", pfl_span_of(NULL, 0), why));
    assert_true(pfl_agent_alarm_is_allowed("g-ring", make_role(bytes, sizeof(bytes), "g-*"), why));
    assert_false(pfl_agent_alarm_is_allowed("ring", make_role(bytes, sizeof(bytes), "g-*"), why));
    assert_non_null(strstr(why, "a copy of session"));
    assert_false(pfl_agent_alarm_is_allowed("ring", make_role(bytes, sizeof(bytes), NULL), why));
    /* The copy has to be left under a name of its own. */
    assert_false(pfl_agent_alarm_is_allowed("ring", make_role(bytes, sizeof(bytes), "ring"), why));
    assert_non_null(strstr(why, "leaving or taking over"));
    assert_true(pfl_agent_alarm_is_allowed("ring", make_role(bytes, sizeof(bytes), "ring*"), why));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(triggers_are_names_with_commas_between_them),
        cmocka_unit_test(a_role_allows_them_for_its_sessions_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
