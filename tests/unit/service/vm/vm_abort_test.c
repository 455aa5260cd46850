/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that miss, make no sense, or want too much; and copies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tests/support/sweep.h"
#include "tests/unit/service/vm/vm_kit.h"

#define SRC  PFL_VM_CURSOR_SRC
#define DST  PFL_VM_CURSOR_DST
#define BOTH PFL_VM_CURSOR_BOTH

/* Merges the packet into field 5. */
static struct kit_bytes keep_packet(void)
{
    return KIT_JOIN(kit_select(DST, true, kit_step(5)), KIT_NESTED(kit_merge(0)));
}

static struct kit_bytes in_src(struct kit_bytes path, struct kit_bytes what)
{
    return KIT_JOIN(kit_select(SRC, false, path), KIT_NESTED(what));
}

static struct kit_bytes in_dst(struct kit_bytes path, struct kit_bytes what)
{
    return KIT_JOIN(kit_select(DST, true, path), KIT_NESTED(what));
}

static void expect_abort(struct kit_bytes program, struct kit_bytes packet, const char *words)
{
    struct pfl_vm *vm = kit_vm(program, KIT_MEMORY);

    assert_int_equal(pfl_vm_apply(vm, kit_span(&packet)), PFL_VM_ABORTED);
    if (strstr(pfl_vm_get_why(vm), words) == NULL)
        fail_msg("\"%s\" says nothing of \"%s\"", pfl_vm_get_why(vm), words);
    pfl_vm_free(vm);
    pfl_sweep_assert_no_leak();
}

static void each_thing_that_makes_no_sense_aborts(void **state)
{
    const struct kit_bytes number = kit_number(1, 1);
    const struct kit_bytes message = KIT_MESSAGE(1, kit_number(1, 1), kit_number(1, 2));
    const struct kit_bytes put = in_dst(kit_step(5), kit_set());

    (void)state;
    expect_abort(KIT_PROGRAM(KIT_NONE), number, "not known");
    expect_abort(KIT_PROGRAM(kit_load(SRC, 0)), number, "packet is no number");
    expect_abort(KIT_PROGRAM(kit_load(DST, 0)), number, "state is no number");
    expect_abort(KIT_PROGRAM(in_src(kit_step(1), kit_load(SRC, 32))), number, "no such register");
    expect_abort(KIT_PROGRAM(kit_select(SRC, true, kit_step(1))), number, "cannot be created");
    expect_abort(KIT_PROGRAM(kit_select(SRC, false, kit_index(1))), number, "without a field");
    expect_abort(KIT_PROGRAM(kit_select(BOTH, false, kit_each(1))), number, "one cursor");
    expect_abort(KIT_PROGRAM(in_src(kit_step(1), kit_select(SRC, false, kit_step(1)))), number,
                 "entered as a message");
    expect_abort(KIT_PROGRAM(in_src(kit_step(1), kit_merge(0))), number, "merged as a message");
    expect_abort(KIT_PROGRAM(kit_select(SRC, false, KIT_PATH(kit_step(1), kit_key(1, 0)))), number,
                 "before it was loaded");
    expect_abort(KIT_PROGRAM(kit_select(DST, true, KIT_PATH(kit_step(1), kit_key(1, 32)))), number,
                 "no such register");
    expect_abort(
        KIT_PROGRAM(kit_select(DST, true, KIT_PATH(kit_step(1), kit_field(2, kit_number(3, 1))))),
        number, "without a register");
    expect_abort(KIT_PROGRAM(in_src(kit_step(1), kit_load(SRC, 0)),
                             kit_select(SRC, false, KIT_PATH(kit_step(1), kit_key(1, 0)))),
                 number, "have no keys");
    expect_abort(KIT_PROGRAM(kit_select(DST, true, KIT_PATH(kit_step(5), kit_index(1)))), number,
                 "past the end");
    expect_abort(KIT_PROGRAM(in_src(kit_step(1), put), put), number, "bytes are set");
    expect_abort(KIT_PROGRAM(put, in_src(kit_step(1), put)), number, "number is set");
    expect_abort(KIT_PROGRAM(in_src(kit_step(1), put), keep_packet()), number, "message is merged");
    expect_abort(KIT_PROGRAM(in_src(kit_step(1), put),
                             kit_select(DST, true, KIT_PATH(kit_step(5), kit_step(1)))),
                 number, "no message");
    expect_abort(KIT_PROGRAM(in_src(kit_step(1), kit_merge(0)), kit_select(DST, true, kit_step(1))),
                 message, "as a single one");
    expect_abort(KIT_PROGRAM(kit_merge(0), in_src(kit_step(1), kit_load(SRC, 0)),
                             kit_select(DST, true, KIT_PATH(kit_step(1), kit_key(1, 0)))),
                 number, "no message");
    expect_abort(KIT_PROGRAM(kit_merge(0),
                             in_src(KIT_PATH(kit_step(1), kit_step(1)), kit_load(SRC, 0)),
                             kit_select(DST, true, KIT_PATH(kit_step(1), kit_key(2, 0)))),
                 message, "no key");
}

static void an_element_by_key_is_neither_an_index_nor_merged(void **state)
{
    const struct kit_bytes packet = KIT_JOIN(kit_number(9, 1), KIT_MESSAGE(1, kit_number(1, 1)));
    const struct kit_bytes load = in_src(kit_step(9), kit_load(SRC, 0));
    const struct kit_bytes keyed = kit_select(DST, true, KIT_PATH(kit_step(1), kit_key(1, 0)));

    (void)state;
    expect_abort(
        KIT_PROGRAM(load, keyed, kit_select(DST, true, KIT_PATH(kit_step(1), kit_index(0)))),
        packet, "by key, not by index");
    expect_abort(KIT_PROGRAM(load, keyed, kit_select(DST, false, kit_each(1))), packet,
                 "by key, not by index");
    expect_abort(KIT_PROGRAM(load, keyed, kit_merge(0)), packet, "cannot be merged");
}

static void what_a_select_holds_is_not_deleted_below_it(void **state)
{
    const struct kit_bytes packet = KIT_MESSAGE(1, kit_number(1, 1));

    (void)state;
    expect_abort(KIT_PROGRAM(in_dst(kit_step(5), in_src(kit_step(1), kit_del()))), packet,
                 "enclosing select");
    expect_abort(KIT_PROGRAM(in_dst(kit_step(5), KIT_JOIN(kit_del(), KIT_NESTED(kit_merge(0))))),
                 packet, "was deleted");
    expect_abort(
        KIT_PROGRAM(in_dst(kit_step(5),
                           KIT_JOIN(kit_del(), KIT_NESTED(kit_select(DST, true, kit_step(1)))))),
        packet, "was deleted");
}

static void a_miss_does_what_its_instruction_says(void **state)
{
    static const struct {
        unsigned level;
        enum pfl_vm_status status;
        bool proceeds;
    } cases[] = {
        {PFL_VM_SKIP, PFL_VM_OK, true},
        {PFL_VM_BREAK, PFL_VM_MISSED, false},
        {PFL_VM_ABORT, PFL_VM_ABORTED, false},
        {77, PFL_VM_OK, true},
    };
    const struct kit_bytes packet = kit_number(1, 1);

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pfl_vm *vm = kit_vm(
            KIT_PROGRAM(KIT_JOIN(kit_select(SRC, false, kit_step(2)), KIT_LEVEL(cases[i].level)),
                        kit_merge(0)),
            KIT_MEMORY);

        assert_int_equal(pfl_vm_apply(vm, kit_span(&packet)), cases[i].status);
        kit_expect_state(vm, cases[i].proceeds ? packet : KIT_NONE);
        pfl_vm_free(vm);
    }
}

static void what_is_not_there_is_a_miss_and_makes_nothing(void **state)
{
    const struct kit_bytes selects[] = {
        kit_select(SRC, false, KIT_PATH(kit_step(1), kit_index(1))),
        kit_select(DST, false, kit_step(2)),
        KIT_JOIN(kit_select(SRC, false, kit_step(1)),
                 KIT_NESTED(kit_load(SRC, 0),
                            kit_select(DST, false, KIT_PATH(kit_step(5), kit_key(1, 0))))),
    };
    const struct kit_bytes packet = kit_number(1, 1);

    (void)state;
    for (size_t i = 0; i < sizeof(selects) / sizeof(selects[0]); i++) {
        struct pfl_vm *vm = kit_vm(KIT_PROGRAM(selects[i]), KIT_MEMORY);

        assert_int_equal(pfl_vm_apply(vm, kit_span(&packet)), PFL_VM_MISSED);
        kit_expect_state(vm, KIT_NONE);
        pfl_vm_free(vm);
    }
}

static void a_miss_in_a_visit_ends_the_visits(void **state)
{
    const struct kit_bytes program =
        KIT_PROGRAM(KIT_JOIN(kit_select(SRC, false, KIT_PATH(kit_each(1), kit_step(2))),
                             KIT_NESTED(in_dst(kit_step(5), kit_set())), KIT_LEVEL(PFL_VM_SKIP)));
    const struct kit_bytes packet =
        KIT_JOIN(KIT_MESSAGE(1, kit_number(2, 1)), KIT_MESSAGE(1, kit_number(3, 2)),
                 KIT_MESSAGE(1, kit_number(2, 3)));

    (void)state;
    KIT_EXPECT(program, kit_number(5, 1), packet);
}

/* 48 and 48 bytes a field, and its text; the root costs nothing. */
static void the_memory_limit_is_met_to_the_byte(void **state)
{
    const struct kit_bytes program = KIT_PROGRAM(kit_merge(0));
    const struct kit_bytes packet = kit_text(1, "0123456789");

    (void)state;
    for (uint64_t limit = 105; limit <= 106; limit++) {
        struct pfl_vm *vm = kit_vm(program, limit);

        assert_int_equal(pfl_vm_apply(vm, kit_span(&packet)),
                         limit == 106 ? PFL_VM_OK : PFL_VM_ABORTED);
        kit_expect_state(vm, limit == 106 ? packet : KIT_NONE);
        assert_int_equal(pfl_vm_get_state_max_bytes(vm), limit == 106 ? 106 : 0);
        pfl_vm_free(vm);
    }
}

static void new_content_is_paid_before_old_content_is_given_back(void **state)
{
    const struct kit_bytes packet = kit_text(1, "0123456789");
    struct pfl_vm *vm = kit_vm(KIT_PROGRAM(kit_merge(0)), 106 + 48 + 9);

    (void)state;
    assert_int_equal(pfl_vm_apply(vm, kit_span(&packet)), PFL_VM_OK);
    assert_int_equal(pfl_vm_apply(vm, kit_span(&packet)), PFL_VM_ABORTED);
    assert_non_null(strstr(pfl_vm_get_why(vm), "memory"));
    kit_expect_state(vm, packet);
    pfl_vm_free(vm);
}

static void what_is_deleted_costs_nothing_any_more(void **state)
{
    const struct kit_bytes packet =
        KIT_JOIN(KIT_MESSAGE(1, kit_number(1, 1), kit_text(2, "x")), kit_text(1, "y"));
    struct pfl_vm *vm =
        kit_vm(KIT_PROGRAM(kit_merge(0),
                           kit_select(DST, false, KIT_PATH(kit_step(1), kit_index(0), kit_step(1))),
                           kit_del()),
               KIT_MEMORY);

    (void)state;
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(pfl_vm_apply(vm, kit_span(&packet)), PFL_VM_OK);
    assert_int_equal(pfl_vm_get_state_max_bytes(vm), 0);
    pfl_vm_free(vm);
}

static void work_past_what_packets_earn_aborts_and_comes_back(void **state)
{
    /* Each packet visits the 1000 elements that the first one brought, 20 times. */
    const struct kit_bytes nothing = kit_select(DST, false, KIT_NONE);
    const struct kit_bytes small = kit_number(2, 1);
    struct kit_bytes visits = KIT_NONE;
    struct kit_bytes many = KIT_NONE;
    struct pfl_vm *vm;
    unsigned rounds = 0;

    (void)state;
    for (unsigned i = 0; i < 20; i++)
        visits = KIT_JOIN(visits, KIT_NESTED(nothing));
    for (unsigned i = 0; i < 1000; i++)
        many = KIT_JOIN(many, kit_number(1, 1));
    vm = kit_vm(KIT_PROGRAM(kit_merge(0), KIT_JOIN(kit_select(DST, false, kit_each(1)), visits)),
                1u << 20);
    assert_int_equal(pfl_vm_apply(vm, kit_span(&many)), PFL_VM_OK);
    while (pfl_vm_apply(vm, kit_span(&small)) == PFL_VM_OK)
        assert_in_range(++rounds, 1, 2000);
    assert_in_range(rounds, 600, 1200); /* 21,000 each, of 16,000,000 and 1,500 a packet */
    assert_non_null(strstr(pfl_vm_get_why(vm), "work"));
    assert_int_equal(pfl_vm_apply(vm, kit_span(&many)), PFL_VM_OK);
    pfl_vm_free(vm);
}

static void fields_that_are_skipped_are_work(void **state)
{
    /* 10 instructions look through 500 fields whose numbers are past what a program can name. */
    const struct kit_bytes look =
        KIT_JOIN(kit_select(SRC, false, kit_step(5)), KIT_LEVEL(PFL_VM_SKIP));
    struct kit_bytes looks = KIT_NONE;
    struct kit_bytes many = KIT_NONE;
    uint64_t credit = 1000000;
    struct pfl_vm *vm;

    (void)state;
    for (unsigned i = 0; i < 10; i++)
        looks = KIT_JOIN(looks, KIT_NESTED(look));
    for (unsigned i = 0; i < 500; i++)
        many = KIT_JOIN(many, kit_number(1u << 25, 1));
    vm = kit_vm(KIT_PROGRAM(KIT_JOIN(kit_select(SRC, false, KIT_NONE), looks)), KIT_MEMORY);
    assert_int_equal(pfl_vm_apply_within(vm, kit_span(&many), &credit), PFL_VM_OK);
    assert_in_range(1000000 - credit, 5000, 5100);
    pfl_vm_free(vm);
}

static void a_copy_has_the_state_of_its_time_and_runs_no_more(void **state)
{
    const struct kit_bytes first = kit_text(1, "first");
    const struct kit_bytes second = kit_text(1, "second");
    struct pfl_vm *vm = kit_vm(KIT_PROGRAM(kit_merge(0)), KIT_MEMORY);
    struct pfl_vm *copy;
    struct pfl_vm *empty;
    struct pfl_vm *again;

    (void)state;
    assert_int_equal(pfl_vm_freeze(vm, &empty), 0);
    assert_int_equal(pfl_vm_apply(vm, kit_span(&first)), PFL_VM_OK);
    assert_int_equal(pfl_vm_freeze(vm, &copy), 0);
    assert_int_equal(pfl_vm_apply(vm, kit_span(&second)), PFL_VM_OK);
    assert_int_equal(pfl_vm_apply(copy, kit_span(&second)), PFL_VM_ABORTED);
    assert_int_equal(pfl_vm_freeze(copy, &again), 0);
    kit_expect_state(empty, KIT_NONE);
    kit_expect_state(copy, first);
    kit_expect_state(again, first);
    kit_expect_state(vm, second);
    assert_int_equal(pfl_vm_get_program(copy).len, pfl_vm_get_program(vm).len);
    pfl_vm_free(empty);
    pfl_vm_free(copy);
    pfl_vm_free(again);
    pfl_vm_free(vm);
    pfl_vm_free(NULL);
    pfl_sweep_assert_no_leak();
}

/* All that allocates: text, messages taken apart, containers, copies. */
static int run_all(void *arg)
{
    const struct kit_bytes *bytes = arg;
    struct pfl_vm *vm;
    struct pfl_vm *copy = NULL;
    struct pfl_buf buf;
    int rc = pfl_vm_new(kit_span(&bytes[0]), KIT_MEMORY, &vm);

    if (rc != 0)
        return rc;
    pfl_buf_init(&buf, KIT_MEMORY);
    if (pfl_vm_apply(vm, kit_span(&bytes[1])) != PFL_VM_OK ||
        pfl_vm_apply(vm, kit_span(&bytes[1])) != PFL_VM_OK)
        rc = PFL_ENOMEM;
    if (rc == 0)
        rc = pfl_vm_freeze(vm, &copy);
    if (rc == 0)
        rc = pfl_vm_encode_state(copy, &buf);
    pfl_buf_fini(&buf);
    pfl_vm_free(copy);
    pfl_vm_free(vm);
    return rc;
}

static void no_memory_aborts_and_leaves_nothing_behind(void **state)
{
    const struct kit_bytes element = KIT_MESSAGE(1, kit_number(1, 4), kit_text(2, "text"));
    struct kit_bytes bytes[2] = {
        KIT_PROGRAM(
            in_src(kit_step(3), kit_load(SRC, 0)), in_dst(kit_step(5), kit_merge(0)),
            in_dst(KIT_PATH(kit_step(5), kit_step(1), kit_index(1), kit_step(3)), kit_merge(0)),
            in_dst(KIT_PATH(kit_step(6), kit_key(3, 0)), kit_set()),
            in_dst(KIT_PATH(kit_step(6), kit_key(3, 0), kit_step(1), kit_key(1, 0)), kit_merge(0))),
        KIT_JOIN(element, element, kit_number(3, 4)),
    };

    (void)state;
    pfl_sweep(run_all, bytes, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_thing_that_makes_no_sense_aborts),
        cmocka_unit_test(an_element_by_key_is_neither_an_index_nor_merged),
        cmocka_unit_test(what_a_select_holds_is_not_deleted_below_it),
        cmocka_unit_test(a_miss_does_what_its_instruction_says),
        cmocka_unit_test(what_is_not_there_is_a_miss_and_makes_nothing),
        cmocka_unit_test(a_miss_in_a_visit_ends_the_visits),
        cmocka_unit_test(the_memory_limit_is_met_to_the_byte),
        cmocka_unit_test(new_content_is_paid_before_old_content_is_given_back),
        cmocka_unit_test(what_is_deleted_costs_nothing_any_more),
        cmocka_unit_test(work_past_what_packets_earn_aborts_and_comes_back),
        cmocka_unit_test(fields_that_are_skipped_are_work),
        cmocka_unit_test(a_copy_has_the_state_of_its_time_and_runs_no_more),
        cmocka_unit_test(no_memory_aborts_and_leaves_nothing_behind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
