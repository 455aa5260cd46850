/* SPDX-License-Identifier: Apache-2.0 */
#include "service/vm/vm_program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tests/support/sweep.h"
#include "tests/unit/service/vm/vm_kit.h"

static void each_field_of_an_instruction_is_read(void **state)
{
    const struct kit_bytes bytes = KIT_PROGRAM(
        KIT_JOIN(kit_select(PFL_VM_CURSOR_DST, true,
                            KIT_PATH(kit_step(900), kit_index(7), kit_each(3), kit_key(4, 31))),
                 KIT_LEVEL(PFL_VM_SKIP), KIT_NESTED(kit_load(PFL_VM_CURSOR_DST, 5), kit_del())),
        kit_merge(PFL_VM_MERGE_DEL_IF_EMPTY), kit_set());
    struct pfl_vm_program p;
    const struct pfl_vm_instruction *in;

    (void)state;
    assert_int_equal(pfl_vm_program_init(&p, kit_span(&bytes)), 0);
    assert_int_equal(p.instructions_len, 5);
    in = &p.instructions[p.first - 1];
    assert_int_equal(in->op, PFL_VM_OP_SELECT);
    assert_int_equal(in->cursor, PFL_VM_CURSOR_DST);
    assert_true(in->creates);
    assert_int_equal(in->on_miss, PFL_VM_SKIP);
    assert_int_equal(in->steps_len, 4);
    assert_int_equal(p.steps[0].field_id, 900);
    assert_false(p.steps[0].is_repeated);
    assert_true(p.steps[1].has_array_index && p.steps[1].array_index == 7);
    assert_true(p.steps[2].is_repeated && p.steps[2].field_id == 3);
    assert_true(p.steps[3].has_key_id && p.steps[3].key_id == 4 && p.steps[3].key_register == 31);
    assert_int_equal(p.instructions[in->first_child - 1].register_id, 5);
    in = &p.instructions[in->first_child - 1];
    assert_int_equal(p.instructions[in->next - 1].op, PFL_VM_OP_DELETE);
    in = &p.instructions[p.instructions[p.first - 1].next - 1];
    assert_int_equal(in->merge_flags, PFL_VM_MERGE_DEL_IF_EMPTY);
    assert_int_equal(in->on_miss, PFL_VM_BREAK);
    assert_int_equal(p.instructions[in->next - 1].op, PFL_VM_OP_SET);
    pfl_vm_program_fini(&p);
    pfl_sweep_assert_no_leak();
}

static void of_several_operations_the_first_by_rank_counts(void **state)
{
    static const enum pfl_vm_op ranks[] = {PFL_VM_OP_SELECT, PFL_VM_OP_LOAD, PFL_VM_OP_DELETE,
                                           PFL_VM_OP_MERGE,  PFL_VM_OP_SET,  PFL_VM_OP_UNKNOWN};
    const struct kit_bytes parts[] = {kit_select(1, false, KIT_NONE), kit_load(1, 0), kit_del(),
                                      kit_merge(0), kit_set()};

    (void)state;
    for (size_t from = 0; from <= 5; from++) {
        struct kit_bytes instruction = KIT_NONE;
        struct kit_bytes bytes;
        struct pfl_vm_program p;

        for (size_t i = 5; i-- > from;)
            instruction = KIT_JOIN(instruction, parts[i]);
        bytes = KIT_PROGRAM(instruction);
        assert_int_equal(pfl_vm_program_init(&p, kit_span(&bytes)), 0);
        assert_int_equal(p.instructions[p.first - 1].op, ranks[from]);
        pfl_vm_program_fini(&p);
    }
}

static void expect_code(const uint8_t *data, size_t len, int code)
{
    struct pfl_vm_program p;
    int rc = pfl_vm_program_init(&p, pfl_span_of(data, len));

    assert_int_equal(rc, code);
    pfl_vm_program_fini(&p);
    pfl_sweep_assert_no_leak();
}

static void field_ids_that_protobuf_has_not_are_refused(void **state)
{
    static const uint32_t bad[] = {0, PFL_VM_FIELD_ID_MAX + 1, UINT32_MAX};
    struct kit_bytes bytes = KIT_PROGRAM(kit_select(2, true, kit_step(PFL_VM_FIELD_ID_MAX)));

    (void)state;
    expect_code(bytes.data, bytes.len, 0);
    for (size_t i = 0; i < 3; i++) {
        bytes = KIT_PROGRAM(kit_select(2, true, kit_step(bad[i])));
        expect_code(bytes.data, bytes.len, PFL_EINVAL);
    }
}

static void depth_is_that_of_instructions_and_their_steps(void **state)
{
    struct kit_bytes instruction = kit_set(); /* 1 */
    struct kit_bytes bytes;

    (void)state;
    for (unsigned i = 0; i < 33; i++) /* 3 each: 100 */
        instruction = KIT_JOIN(kit_select(2, true, KIT_PATH(kit_step(1), kit_step(2))),
                               KIT_NESTED(instruction));
    bytes = KIT_PROGRAM(instruction);
    expect_code(bytes.data, bytes.len, 0);
    instruction = KIT_JOIN(kit_set(), KIT_NESTED(instruction));
    bytes = KIT_PROGRAM(instruction);
    expect_code(bytes.data, bytes.len, PFL_ELIMIT);
}

static void programs_past_a_limit_are_refused(void **state)
{
    static uint8_t data[PFL_VM_PROGRAM_MAX_BYTES + 1];
    static const uint8_t steps[] = {0x12, 0x04, 0x0a, 0x02, 0x12, 0x00};
    size_t len = 0;

    (void)state;
    memset(data, 0, sizeof(data));
    expect_code(data, sizeof(data), PFL_ELIMIT);
    while (len < 2 * (size_t)PFL_VM_MAX_INSTRUCTIONS) { /* instructions of nothing */
        data[len++] = 0x12;
        data[len++] = 0x00;
    }
    expect_code(data, len, 0);
    data[len++] = 0x12;
    data[len++] = 0x00;
    expect_code(data, len, PFL_ELIMIT);
    len = 0;
    for (unsigned i = 0; i <= PFL_VM_MAX_STEPS; i++) { /* a step each, of nothing */
        memcpy(data + len, steps, sizeof(steps));
        len += sizeof(steps);
        if (i + 1 == PFL_VM_MAX_STEPS)
            expect_code(data, len, 0);
    }
    expect_code(data, len, PFL_ELIMIT);
}

static void a_cut_program_is_what_came_before_the_cut(void **state)
{
    const struct kit_bytes bytes =
        KIT_PROGRAM(kit_set(), KIT_JOIN(kit_select(1, false, kit_step(1)), KIT_NESTED(kit_set())));

    (void)state;
    for (size_t len = 0; len <= bytes.len; len++) {
        struct pfl_vm_program p;

        assert_int_equal(pfl_vm_program_init(&p, pfl_span_of(bytes.data, len)), 0);
        assert_true(p.instructions_len == (len < 4 ? 0u : len < bytes.len ? 1u : 3u));
        pfl_vm_program_fini(&p);
    }
}

static int make_and_drop(void *arg)
{
    struct pfl_vm_program p;
    int rc = pfl_vm_program_init(&p, kit_span(arg));

    pfl_vm_program_fini(&p);
    return rc;
}

static void no_memory_is_an_error(void **state)
{
    struct kit_bytes bytes = KIT_PROGRAM(kit_select(1, false, kit_step(1)), kit_set());

    (void)state;
    pfl_sweep(make_and_drop, &bytes, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_field_of_an_instruction_is_read),
        cmocka_unit_test(of_several_operations_the_first_by_rank_counts),
        cmocka_unit_test(field_ids_that_protobuf_has_not_are_refused),
        cmocka_unit_test(depth_is_that_of_instructions_and_their_steps),
        cmocka_unit_test(programs_past_a_limit_are_refused),
        cmocka_unit_test(a_cut_program_is_what_came_before_the_cut),
        cmocka_unit_test(no_memory_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
