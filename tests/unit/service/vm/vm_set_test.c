/* SPDX-License-Identifier: Apache-2.0 */
#include "service/vm/vm_set.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/sweep.h"
#include "tests/unit/service/vm/vm_kit.h"

static struct pfl_vm_set *make_set(void)
{
    struct pfl_vm_set *set;

    assert_int_equal(pfl_vm_set_new(&set), 0);
    return set;
}

static int add(struct pfl_vm_set *set, const char *source, const struct kit_bytes *program,
               uint16_t producer_id)
{
    const struct pfl_vm_set_conf conf = {
        .source = pfl_span_of(source, strlen(source)),
        .program = kit_span(program),
        .memory_limit_kb = 4,
        .producer_id = producer_id,
    };

    return pfl_vm_set_add(set, &conf);
}

static void apply(struct pfl_vm_set *set, uint16_t producer_id, struct kit_bytes packet)
{
    const struct iovec slice = {.iov_base = packet.data, .iov_len = packet.len};

    pfl_vm_set_apply(set, producer_id, &slice, packet.len != 0);
}

static void expect_counts(const struct pfl_vm_set *set, size_t at, struct pfl_vm_counts expected)
{
    const struct pfl_vm_counts *counts = &pfl_vm_set_get(set, at)->counts;

    assert_int_equal(counts->applied, expected.applied);
    assert_int_equal(counts->missed, expected.missed);
    assert_int_equal(counts->aborted, expected.aborted);
}

static void producers_of_one_source_and_program_share_a_vm(void **state)
{
    const struct kit_bytes one = KIT_PROGRAM(kit_merge(0));
    const struct kit_bytes other = KIT_PROGRAM(kit_set());
    static const uint16_t ids[] = {7, 3, 9, 7, 1, 8, 2, 65535, 0};
    static const uint16_t sorted[] = {0, 1, 2, 3, 7, 8, 9, 65535};
    struct pfl_vm_set *set = make_set();

    (void)state;
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
        assert_int_equal(add(set, "a", &one, ids[i]), 0);
    assert_int_equal(add(set, "a", &other, 7), 0);
    assert_int_equal(add(set, "b", &one, 7), 0);
    assert_int_equal(pfl_vm_set_len(set), 3);
    assert_int_equal(pfl_vm_set_get(set, 0)->producers_len, 8);
    for (size_t i = 0; i < sizeof(sorted) / sizeof(sorted[0]); i++)
        assert_int_equal(pfl_vm_set_get(set, 0)->producers[i].id, sorted[i]);
    assert_string_equal(pfl_vm_set_get(set, 2)->source, "b");
    pfl_vm_set_free(set);
    pfl_sweep_assert_no_leak();
}

static void the_first_vm_of_its_producer_that_takes_a_packet_has_it(void **state)
{
    const struct kit_bytes aborts = KIT_PROGRAM(KIT_NONE);
    const struct kit_bytes misses = KIT_PROGRAM(kit_select(PFL_VM_CURSOR_SRC, false, kit_step(9)));
    const struct kit_bytes takes = KIT_PROGRAM(kit_merge(0));
    struct pfl_vm_set *set = make_set();

    (void)state;
    assert_int_equal(add(set, "a", &aborts, 1), 0);
    assert_int_equal(add(set, "a", &misses, 1), 0);
    assert_int_equal(add(set, "a", &takes, 1), 0);
    assert_int_equal(add(set, "b", &takes, 1), 0);
    assert_int_equal(add(set, "c", &takes, 2), 0);
    apply(set, 1, kit_number(1, 1));
    apply(set, 3, kit_number(1, 3));
    expect_counts(set, 0, (struct pfl_vm_counts){.aborted = 1});
    expect_counts(set, 1, (struct pfl_vm_counts){.missed = 1});
    expect_counts(set, 2, (struct pfl_vm_counts){.applied = 1});
    expect_counts(set, 3, (struct pfl_vm_counts){0});
    expect_counts(set, 4, (struct pfl_vm_counts){0});
    kit_expect_state(pfl_vm_set_get(set, 2)->vm, kit_number(1, 1));
    pfl_vm_set_free(set);
}

static void a_packet_in_pieces_is_put_together(void **state)
{
    const struct kit_bytes takes = KIT_PROGRAM(kit_merge(0));
    struct kit_bytes packet = kit_text(1, "in several pieces");
    const struct iovec slices[] = {
        {packet.data, 1}, {packet.data + 1, 4}, {packet.data + 5, packet.len - 5}};
    struct pfl_vm_set *set = make_set();

    (void)state;
    assert_int_equal(add(set, "a", &takes, 1), 0);
    pfl_vm_set_apply(set, 1, slices, 3);
    kit_expect_state(pfl_vm_set_get(set, 0)->vm, packet);
    pfl_vm_set_apply(set, 1, NULL, 0); /* of no bytes: a program runs over these too */
    expect_counts(set, 0, (struct pfl_vm_counts){.applied = 2});
    pfl_vm_set_free(set);
}

static void a_packet_that_is_too_long_counts_as_aborted(void **state)
{
    static uint8_t half[PFL_VM_PACKET_MAX_BYTES / 2 + 1];
    const struct kit_bytes takes = KIT_PROGRAM(kit_merge(0));
    const struct iovec slices[] = {{half, sizeof(half)}, {half, sizeof(half)}};
    struct pfl_vm_set *set = make_set();

    (void)state;
    assert_int_equal(add(set, "a", &takes, 1), 0);
    pfl_vm_set_apply(set, 1, slices, 2);
    expect_counts(set, 0, (struct pfl_vm_counts){.aborted = 1});
    pfl_vm_set_free(set);
    pfl_sweep_assert_no_leak();
}

static void the_seventeenth_vm_is_refused(void **state)
{
    struct pfl_vm_set *set = make_set();
    struct kit_bytes program;

    (void)state;
    for (unsigned i = 0; i < PFL_VM_SET_MAX; i++) {
        program = KIT_JOIN(kit_number(1, i), KIT_PROGRAM(kit_merge(0)));
        assert_int_equal(add(set, "a", &program, 1), 0);
    }
    assert_int_equal(add(set, "a", &program, 2), 0);
    program = KIT_PROGRAM(kit_merge(0));
    assert_int_equal(add(set, "a", &program, 1), PFL_ELIMIT);
    program = KIT_PROGRAM(kit_select(1, false, kit_step(0)));
    pfl_vm_set_free(set);
    set = make_set();
    assert_int_equal(add(set, "a", &program, 1), PFL_EINVAL);
    assert_int_equal(pfl_vm_set_len(set), 0);
    pfl_vm_set_free(set);
    assert_int_equal(pfl_vm_set_len(NULL), 0);
    pfl_vm_set_free(NULL);
}

static void a_clone_tells_the_same_and_stays(void **state)
{
    const struct kit_bytes takes = KIT_PROGRAM(kit_merge(0));
    struct pfl_vm_set *set = make_set();
    struct pfl_vm_set *clone;

    (void)state;
    assert_int_equal(add(set, "a", &takes, 1), 0);
    apply(set, 1, kit_number(1, 1));
    assert_int_equal(pfl_vm_set_clone(set, &clone), 0);
    apply(set, 1, kit_number(1, 2));
    kit_expect_state(pfl_vm_set_get(clone, 0)->vm, kit_number(1, 1));
    assert_int_equal(pfl_vm_set_get(clone, 0)->memory_limit_kb, 4);
    assert_int_equal(pfl_vm_set_get(clone, 0)->producers_len, 1);
    assert_string_equal(pfl_vm_set_get(clone, 0)->source, "a");
    pfl_vm_set_free(set);
    pfl_vm_set_free(clone);
    pfl_sweep_assert_no_leak();
}

/* What each of two users may still do. */
static uint64_t left[2];

static uint64_t get_left(void *user, uint64_t who)
{
    assert_ptr_equal(user, left);
    return left[who];
}

static void spend(void *user, uint64_t who, uint64_t units)
{
    assert_ptr_equal(user, left);
    assert_true(units <= left[who]);
    left[who] -= units;
}

static int add_of(struct pfl_vm_set *set, const struct kit_bytes *program, uint16_t producer_id,
                  uint64_t who)
{
    const struct pfl_vm_set_conf conf = {
        .source = pfl_span_of("a", 1),
        .program = kit_span(program),
        .memory_limit_kb = 4,
        .producer_id = producer_id,
        .who = who,
        .budget = {.get = get_left, .spend = spend, .user = left},
    };

    return pfl_vm_set_add(set, &conf);
}

static void work_is_borne_by_the_producers_user(void **state)
{
    const struct kit_bytes takes = KIT_PROGRAM(kit_merge(0));
    struct pfl_vm_set *set = make_set();
    uint64_t applied;

    (void)state;
    left[0] = left[1] = 100;
    assert_int_equal(add_of(set, &takes, 1, 0), 0);
    assert_int_equal(add_of(set, &takes, 2, 1), 0);
    for (unsigned i = 0; i < 100; i++)
        apply(set, 1, kit_number(1, i));
    assert_int_equal(left[0], 0);
    assert_int_equal(left[1], 100);
    assert_in_range(pfl_vm_set_get(set, 0)->counts.aborted, 1, 99);
    assert_non_null(strstr(pfl_vm_get_why(pfl_vm_set_get(set, 0)->vm), "share"));
    applied = pfl_vm_set_get(set, 0)->counts.applied;
    apply(set, 2, kit_number(1, 200));
    assert_in_range(left[1], 1, 99);
    assert_int_equal(pfl_vm_set_get(set, 0)->counts.applied, applied + 1);
    pfl_vm_set_free(set);
}

static void a_number_that_another_user_has_now_is_borne_by_him(void **state)
{
    const struct kit_bytes takes = KIT_PROGRAM(kit_merge(0));
    struct pfl_vm_set *set = make_set();

    (void)state;
    left[0] = left[1] = 100;
    assert_int_equal(add_of(set, &takes, 1, 0), 0);
    assert_int_equal(add_of(set, &takes, 1, 1), 0);
    apply(set, 1, kit_number(1, 1));
    assert_int_equal(left[0], 100);
    assert_in_range(left[1], 1, 99);
    pfl_vm_set_free(set);
}

static void of_what_a_share_leaves_undone_the_vm_keeps_its_own(void **state)
{
    const struct kit_bytes takes = KIT_PROGRAM(kit_merge(0));
    const struct kit_bytes packet = kit_number(1, 1);
    struct pfl_vm *vm = kit_vm(takes, 1u << 20);
    uint64_t credit = 0;

    (void)state;
    for (unsigned i = 0; i < 100000; i++) /* of its own it would have lost all by then */
        assert_int_equal(pfl_vm_apply_within(vm, kit_span(&packet), &credit), PFL_VM_ABORTED);
    credit = 1000;
    assert_int_equal(pfl_vm_apply_within(vm, kit_span(&packet), &credit), PFL_VM_OK);
    assert_in_range(credit, 900, 999);
    pfl_vm_free(vm);
}

static int add_and_clone(void *arg)
{
    struct pfl_vm_set *set;
    struct pfl_vm_set *clone = NULL;
    int rc = pfl_vm_set_new(&set);

    if (rc != 0)
        return rc;
    for (uint16_t id = 1; rc == 0 && id < 7; id++)
        rc = add(set, id % 2 != 0 ? "a" : "b", arg, id);
    if (rc == 0)
        rc = pfl_vm_set_clone(set, &clone);
    pfl_vm_set_free(clone);
    pfl_vm_set_free(set);
    return rc;
}

static void no_memory_is_an_error_and_leaves_nothing_behind(void **state)
{
    struct kit_bytes program = KIT_PROGRAM(kit_merge(0));

    (void)state;
    pfl_sweep(add_and_clone, &program, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(producers_of_one_source_and_program_share_a_vm),
        cmocka_unit_test(the_first_vm_of_its_producer_that_takes_a_packet_has_it),
        cmocka_unit_test(a_packet_in_pieces_is_put_together),
        cmocka_unit_test(a_packet_that_is_too_long_counts_as_aborted),
        cmocka_unit_test(the_seventeenth_vm_is_refused),
        cmocka_unit_test(a_clone_tells_the_same_and_stays),
        cmocka_unit_test(work_is_borne_by_the_producers_user),
        cmocka_unit_test(a_number_that_another_user_has_now_is_borne_by_him),
        cmocka_unit_test(of_what_a_share_leaves_undone_the_vm_keeps_its_own),
        cmocka_unit_test(no_memory_is_an_error_and_leaves_nothing_behind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
