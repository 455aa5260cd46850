/* SPDX-License-Identifier: Apache-2.0 */
/* Accounts: what a role gives an operator at a relay is not exceeded, and not lost by closing. */
#include "perfleet/policy.fields.h"
#include "relay/policy/quota.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tests/support/sweep.h"

static struct pfl_span make_role(uint8_t *dst, size_t room, uint64_t streams, uint64_t per_min)
{
    struct pfl_writer w = pfl_writer_of(dst, room);

    pfl_writer_field_bytes(&w, ROLE__NAME, "r", 1);
    pfl_writer_field_varint(&w, ROLE__MAX_BYTES_PER_S, 1000000);
    pfl_writer_field_varint(&w, ROLE__MAX_STREAMS, streams);
    pfl_writer_field_varint(&w, ROLE__MAX_NEW_STREAMS_PER_MIN, per_min);
    return pfl_span_of(dst, room - w.left);
}

static void streams_are_counted_at_a_time_and_per_minute(void **state)
{
    uint8_t bytes[64];
    struct pfl_span role = make_role(bytes, sizeof(bytes), 2, 3);
    struct pfl_quotas all;
    struct pfl_quota *a;

    (void)state;
    pfl_quotas_init(&all);
    a = pfl_quotas_get(&all, "ann", role, 0);
    assert_non_null(a);
    assert_true(pfl_quota_try_open(a, PFL_QUOTA_NEW, 0));
    assert_true(pfl_quota_try_open(a, PFL_QUOTA_NEW, 0));
    assert_false(pfl_quota_try_open(a, PFL_QUOTA_NEW, 0));
    assert_false(pfl_quota_try_open(a, 0, 0));
    pfl_quota_close(a);
    assert_true(pfl_quota_try_open(a, PFL_QUOTA_NEW, 0));
    pfl_quota_close(a);
    assert_ptr_equal(pfl_quotas_get(&all, "ann", role, 0), a);
    assert_false(pfl_quota_try_open(a, PFL_QUOTA_NEW, 19999));
    assert_true(pfl_quota_try_open(a, PFL_QUOTA_NEW, 20000));
    pfl_quota_close(a);
    assert_true(pfl_quota_try_open(a, 0, 20000));
    assert_ptr_not_equal(pfl_quotas_get(&all, "bob", role, 0), a);
    pfl_quotas_fini(&all);
    pfl_sweep_assert_no_leak();
}

/* An operator of many hosts opens one for each of them; hosts that come give their part at once,
 * and do not give it again. */
static void the_rate_without_a_role_grows_with_the_hosts(void **state)
{
    const unsigned hosts = 500;
    const unsigned more = hosts * PFL_QUOTA_STREAMS_OF_HOST;
    struct pfl_quotas all;
    struct pfl_quota *a;
    uint64_t at_once;
    uint64_t per_min;

    (void)state;
    pfl_quotas_init(&all);
    a = pfl_quotas_get(&all, "ann", pfl_span_of(NULL, 0), 0);
    while (pfl_quota_try_open(a, PFL_QUOTA_NEW, 0))
        ;
    for (unsigned round = 0; round < 3; round++) {
        all.hosts = hosts;
        assert_ptr_equal(pfl_quotas_get(&all, "ann", pfl_span_of(NULL, 0), 0), a);
        for (unsigned i = 0; i < (round == 0 ? more : 0); i++)
            assert_true(pfl_quota_try_open(a, PFL_QUOTA_NEW, 0));
        assert_false(pfl_quota_try_open(a, PFL_QUOTA_NEW, 0));
    }
    pfl_quota_get_rate(a, &at_once, &per_min);
    assert_int_equal(at_once, PFL_QUOTA_STREAMS_AT_ONCE + more);
    assert_int_equal(per_min,
                     PFL_QUOTA_STREAMS_PER_MIN + hosts * PFL_QUOTA_STREAMS_OF_HOST_PER_MIN);
    assert_ptr_equal(pfl_quotas_get(&all, "ann", pfl_span_of(NULL, 0), 60000), a);
    for (unsigned i = 0; i < per_min; i++)
        assert_true(pfl_quota_try_open(a, PFL_QUOTA_NEW, 60000));
    assert_false(pfl_quota_try_open(a, PFL_QUOTA_NEW, 60000));
    pfl_quotas_fini(&all);
    pfl_sweep_assert_no_leak();
}

/* What a role says holds with any number of hosts. */
static void the_rate_of_a_role_does_not_grow_with_the_hosts(void **state)
{
    uint8_t bytes[64];
    struct pfl_span role = make_role(bytes, sizeof(bytes), 0, 3);
    struct pfl_quotas all;
    struct pfl_quota *a;

    (void)state;
    pfl_quotas_init(&all);
    all.hosts = 10000;
    a = pfl_quotas_get(&all, "ann", role, 0);
    for (unsigned i = 0; i < 3; i++)
        assert_true(pfl_quota_try_open(a, PFL_QUOTA_NEW, 0));
    assert_false(pfl_quota_try_open(a, PFL_QUOTA_NEW, 0));
    pfl_quotas_fini(&all);
    pfl_sweep_assert_no_leak();
}

static void without_a_role_there_is_a_rate_too(void **state)
{
    struct pfl_quotas all;
    struct pfl_quota *a;

    (void)state;
    pfl_quotas_init(&all);
    a = pfl_quotas_get(&all, "ann", pfl_span_of(NULL, 0), 0);
    assert_non_null(a);
    assert_string_equal(a->role, "");
    for (unsigned i = 0; i < PFL_QUOTA_STREAMS_AT_ONCE; i++)
        assert_true(pfl_quota_try_open(a, PFL_QUOTA_NEW, 0));
    assert_false(pfl_quota_try_open(a, PFL_QUOTA_NEW, 0));
    assert_false(pfl_quota_try_open(a, PFL_QUOTA_NEW | PFL_QUOTA_TAKE_OVER, 0));
    assert_true(pfl_quota_try_open(a, 0, 0)); /* a resume is not a new one */
    assert_ptr_equal(pfl_quotas_get(&all, "ann", pfl_span_of(NULL, 0), 1000), a);
    for (unsigned i = 0; i < PFL_QUOTA_STREAMS_PER_MIN / 60; i++)
        assert_true(pfl_quota_try_open(a, PFL_QUOTA_NEW, 1000));
    assert_false(pfl_quota_try_open(a, PFL_QUOTA_NEW, 1000));
    pfl_quotas_fini(&all);
    pfl_sweep_assert_no_leak();
}

static void a_rate_that_is_given_or_removed_begins_afresh(void **state)
{
    uint8_t one_bytes[64];
    uint8_t no_bytes[64];
    struct pfl_span one = make_role(one_bytes, sizeof(one_bytes), 0, 1);
    struct pfl_span none = make_role(no_bytes, sizeof(no_bytes), 0, 0);
    struct pfl_quotas all;
    struct pfl_quota *a;

    (void)state;
    pfl_quotas_init(&all);
    a = pfl_quotas_get(&all, "ann", one, 0);
    assert_true(pfl_quota_try_open(a, PFL_QUOTA_NEW, 0));
    assert_false(pfl_quota_try_open(a, PFL_QUOTA_NEW, 0));
    assert_ptr_equal(pfl_quotas_get(&all, "ann", none, 0), a);
    for (unsigned i = 0; i < PFL_QUOTA_STREAMS_AT_ONCE; i++)
        assert_true(pfl_quota_try_open(a, PFL_QUOTA_NEW, 0));
    assert_false(pfl_quota_try_open(a, PFL_QUOTA_NEW, 0));
    assert_ptr_equal(pfl_quotas_get(&all, "ann", one, 0), a);
    assert_true(pfl_quota_try_open(a, PFL_QUOTA_NEW, 0));
    assert_false(pfl_quota_try_open(a, PFL_QUOTA_NEW, 0));
    pfl_quotas_fini(&all);
    pfl_sweep_assert_no_leak();
}

static void resumes_and_changes_have_a_rate_whatever_the_role(void **state)
{
    uint8_t bytes[64];
    struct pfl_span role = make_role(bytes, sizeof(bytes), 1, 1000000);
    struct pfl_quotas all;
    struct pfl_quota *a;

    (void)state;
    pfl_quotas_init(&all);
    a = pfl_quotas_get(&all, "ann", role, 0);
    assert_non_null(a);
    for (unsigned i = 0; i < PFL_QUOTA_CHANGES_AT_ONCE; i++) {
        if (i % 2 == 0)
            assert_true(pfl_quota_try_change(a, 0));
        else
            assert_true(pfl_quota_try_open(a, PFL_QUOTA_TAKE_OVER, 0));
    }
    assert_false(pfl_quota_try_change(a, 0));
    assert_false(pfl_quota_try_open(a, PFL_QUOTA_TAKE_OVER, 0));
    a->streams = 0;
    assert_false(pfl_quota_try_open(a, 0, 0));
    assert_true(pfl_quota_try_open(a, PFL_QUOTA_NEW, 0));
    assert_true(pfl_quota_try_change(a, 60000 / PFL_QUOTA_CHANGES_PER_MIN + 1));
    pfl_quotas_fini(&all);
    pfl_sweep_assert_no_leak();
}

static void resumes_of_streams_that_nobody_has_count_as_new_ones(void **state)
{
    uint8_t bytes[64];
    struct pfl_span role = make_role(bytes, sizeof(bytes), 0, 2);
    struct pfl_quotas all;
    struct pfl_quota *a;

    (void)state;
    pfl_quotas_init(&all);
    a = pfl_quotas_get(&all, "ann", role, 0);
    assert_non_null(a);
    assert_true(pfl_quota_try_open(a, PFL_QUOTA_NEW, 0));
    assert_true(pfl_quota_try_open(a, PFL_QUOTA_NEW, 0));
    /* Without a stray, using up the minute's streams does not hold up their resumes. */
    for (unsigned i = 0; i < 10; i++)
        assert_true(pfl_quota_try_open(a, 0, 0));
    pfl_quota_note_stray(a, 60000);
    assert_true(pfl_quota_try_open(a, PFL_QUOTA_NEW, 60000));
    assert_false(pfl_quota_try_open(a, PFL_QUOTA_NEW, 60000));
    assert_true(pfl_quota_try_open(a, 0, 60000));
    pfl_quota_note_stray(a, 60000);
    assert_false(pfl_quota_try_open(a, 0, 60000));
    /* The second stray was one stream more than the minute had: that is paid first. */
    assert_false(pfl_quota_try_open(a, PFL_QUOTA_NEW, 90000));
    assert_true(pfl_quota_try_open(a, 0, 90000));
    assert_true(pfl_quota_try_open(a, PFL_QUOTA_NEW, 120000));
    pfl_quotas_fini(&all);
    pfl_sweep_assert_no_leak();
}

static void the_idle_make_room_and_nobody_else(void **state)
{
    uint8_t bytes[64];
    struct pfl_span role = make_role(bytes, sizeof(bytes), 0, 0);
    struct pfl_quotas all;
    char name[16];

    (void)state;
    pfl_quotas_init(&all);
    for (unsigned i = 0; i < PFL_QUOTAS_MAX; i++) {
        struct pfl_quota *a;

        (void)snprintf(name, sizeof(name), "o%u", i);
        a = pfl_quotas_get(&all, name, role, 0);
        assert_non_null(a);
        assert_true(i == 7 || pfl_quota_try_open(a, PFL_QUOTA_NEW, 0));
    }
    assert_non_null(pfl_quotas_get(&all, "new", role, 0));
    assert_int_equal(all.count, PFL_QUOTAS_MAX);
    assert_true(pfl_quota_try_open(pfl_quotas_get(&all, "new", role, 0), PFL_QUOTA_NEW, 0));
    assert_null(pfl_quotas_get(&all, "o7", role, 0));
    pfl_quotas_fini(&all);
    pfl_sweep_assert_no_leak();
}

static void a_stream_moves_to_the_quota_of_another_role(void **state)
{
    uint8_t bytes[64];
    uint8_t other_bytes[64];
    struct pfl_span role = make_role(bytes, sizeof(bytes), 2, 3);
    struct pfl_span other = make_role(other_bytes, sizeof(other_bytes), 9, 3);
    struct pfl_quotas all;
    struct pfl_quota *a;
    struct pfl_quota *b;

    (void)state;
    other_bytes[2] = 'q'; /* its name */
    pfl_quotas_init(&all);
    a = pfl_quotas_get(&all, "ann", role, 0);
    assert_true(pfl_quota_try_open(a, PFL_QUOTA_NEW, 0));
    assert_ptr_equal(pfl_quotas_move(&all, a, role, 0), a);
    assert_int_equal(a->streams, 1);
    b = pfl_quotas_move(&all, a, other, 0);
    assert_string_equal(b->role, "q");
    assert_int_equal(b->max_streams, 9);
    assert_int_equal(a->streams, 0);
    assert_int_equal(b->streams, 1);
    pfl_mem_fail_at(1); /* without a quota it stays where it is */
    other_bytes[2] = 'p';
    assert_ptr_equal(pfl_quotas_move(&all, b, other, 0), b);
    pfl_mem_fail_at(0);
    assert_int_equal(b->streams, 1);
    pfl_quotas_fini(&all);
    pfl_sweep_assert_no_leak();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_are_counted_at_a_time_and_per_minute),
        cmocka_unit_test(without_a_role_there_is_a_rate_too),
        cmocka_unit_test(the_rate_without_a_role_grows_with_the_hosts),
        cmocka_unit_test(the_rate_of_a_role_does_not_grow_with_the_hosts),
        cmocka_unit_test(a_rate_that_is_given_or_removed_begins_afresh),
        cmocka_unit_test(resumes_and_changes_have_a_rate_whatever_the_role),
        cmocka_unit_test(resumes_of_streams_that_nobody_has_count_as_new_ones),
        cmocka_unit_test(the_idle_make_room_and_nobody_else),
        cmocka_unit_test(a_stream_moves_to_the_quota_of_another_role),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
