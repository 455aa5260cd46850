/* SPDX-License-Identifier: Apache-2.0 */
/* What programs make of packets; what they cannot do is in vm_abort_test.c. In the packets field 1
 * is what a test is about. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/sweep.h"
#include "tests/unit/service/vm/vm_kit.h"

#define SRC  PFL_VM_CURSOR_SRC
#define DST  PFL_VM_CURSOR_DST
#define BOTH PFL_VM_CURSOR_BOTH

/* Field 1 of the packet goes to the place, made if need be. */
static struct kit_bytes put(struct kit_bytes place, struct kit_bytes what)
{
    return KIT_JOIN(kit_select(SRC, false, kit_step(1)),
                    KIT_NESTED(KIT_JOIN(kit_select(DST, true, place), KIT_NESTED(what))));
}

static void a_value_of_each_type_is_set(void **state)
{
    const struct kit_bytes values[] = {kit_number(1, UINT64_MAX), kit_fixed32(1, 7),
                                       kit_fixed64(1, 1ull << 60), kit_text(1, "text"),
                                       kit_text(1, "")};

    (void)state;
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        KIT_EXPECT(KIT_PROGRAM(put(kit_step(1), kit_set())), values[i], values[i]);
    KIT_EXPECT(KIT_PROGRAM(put(KIT_PATH(kit_step(900), kit_step(7)), kit_set())),
               KIT_MESSAGE(900, kit_number(7, 2)), kit_number(1, 1), kit_number(1, 2));
}

static void fields_are_encoded_by_id_whatever_the_order_of_their_coming(void **state)
{
    const struct kit_bytes program = KIT_PROGRAM(
        put(kit_step(300), kit_set()), put(kit_step(2), kit_set()), put(kit_step(20), kit_set()));

    (void)state;
    KIT_EXPECT(program, KIT_JOIN(kit_number(2, 5), kit_number(20, 5), kit_number(300, 5)),
               kit_number(1, 5));
}

static void the_first_occurrence_in_the_packet_is_entered(void **state)
{
    (void)state;
    KIT_EXPECT(KIT_PROGRAM(put(kit_step(2), kit_set())), kit_text(2, "a"), kit_text(1, "a"),
               KIT_JOIN(kit_number(3, 1), kit_text(1, "a"), kit_text(1, "b")));
}

static void an_index_enters_that_occurrence_and_sees_numbers_as_empty(void **state)
{
    const struct kit_bytes program = KIT_PROGRAM(
        KIT_JOIN(kit_select(SRC, false, KIT_PATH(kit_step(1), kit_index(1))),
                 KIT_NESTED(KIT_JOIN(kit_select(DST, true, kit_step(2)), KIT_NESTED(kit_set())))));

    (void)state;
    KIT_EXPECT(program, kit_text(2, "b"), KIT_JOIN(kit_text(1, "a"), kit_text(1, "b")));
    KIT_EXPECT(program, kit_text(2, ""), KIT_JOIN(kit_number(1, 8), kit_number(1, 9)));
}

static void merge_replaces_fields_one_level_deep(void **state)
{
    const struct kit_bytes first = KIT_MESSAGE(1, kit_number(1, 1), kit_text(2, "kept"),
                                               KIT_MESSAGE(3, kit_number(1, 1), kit_number(2, 2)));
    const struct kit_bytes second =
        KIT_MESSAGE(1, kit_number(1, 9), kit_field(3, kit_number(1, 8)), kit_fixed32(4, 4));

    (void)state;
    KIT_EXPECT(KIT_PROGRAM(put(kit_step(5), kit_merge(0))),
               KIT_MESSAGE(5, kit_number(1, 9), kit_text(2, "kept"), kit_field(3, kit_number(1, 8)),
                           kit_fixed32(4, 4)),
               first, second);
}

static void merge_replaces_all_elements_of_a_repeated_field(void **state)
{
    const struct kit_bytes three =
        KIT_MESSAGE(1, kit_number(2, 1), kit_number(2, 2), kit_number(3, 3), kit_number(2, 3));
    const struct kit_bytes two = KIT_MESSAGE(1, kit_number(2, 8), kit_number(2, 9));
    const struct kit_bytes program = KIT_PROGRAM(put(kit_step(5), kit_merge(0)));

    (void)state;
    KIT_EXPECT(
        program,
        KIT_MESSAGE(5, kit_number(2, 1), kit_number(2, 2), kit_number(2, 3), kit_number(3, 3)),
        three);
    KIT_EXPECT(program, KIT_MESSAGE(5, kit_number(2, 8), kit_number(2, 9), kit_number(3, 3)), three,
               two);
    KIT_EXPECT(program, KIT_MESSAGE(5, kit_number(2, 7)), KIT_MESSAGE(1, kit_number(2, 1)),
               KIT_MESSAGE(1, kit_number(2, 7)));
    KIT_EXPECT(program, KIT_MESSAGE(5, kit_number(2, 7)), KIT_MESSAGE(1, kit_number(2, 7)),
               kit_text(1, ""));
}

static void an_empty_field_takes_one_out_where_that_is_wanted(void **state)
{
    const struct kit_bytes full = KIT_MESSAGE(1, kit_number(1, 1), kit_field(2, kit_number(1, 2)));
    const struct kit_bytes empty = KIT_MESSAGE(1, kit_text(2, ""), kit_text(3, ""));

    (void)state;
    KIT_EXPECT(KIT_PROGRAM(put(kit_step(5), kit_merge(PFL_VM_MERGE_DEL_IF_EMPTY))),
               KIT_MESSAGE(5, kit_number(1, 1), kit_text(3, "")), full, empty);
    KIT_EXPECT(KIT_PROGRAM(put(kit_step(5), kit_merge(0))),
               KIT_MESSAGE(5, kit_number(1, 1), kit_text(2, ""), kit_text(3, "")), full, empty);
}

static void messages_taken_apart_are_skipped_where_that_is_wanted(void **state)
{
    const struct kit_bytes deep =
        KIT_PROGRAM(put(KIT_PATH(kit_step(5), kit_step(2), kit_step(1)), kit_set()));
    const struct kit_bytes program = KIT_PROGRAM(
        KIT_JOIN(kit_select(SRC, false, kit_step(2)),
                 KIT_NESTED(KIT_JOIN(
                     kit_select(DST, true, KIT_PATH(kit_step(5), kit_step(2), kit_step(1))),
                     KIT_NESTED(kit_set())))),
        put(kit_step(5), kit_merge(PFL_VM_MERGE_SKIP_SUBMESSAGES)));
    const struct kit_bytes packet =
        KIT_JOIN(KIT_MESSAGE(1, kit_field(2, kit_number(1, 1)), kit_field(3, kit_number(1, 1))),
                 kit_number(2, 7));

    (void)state;
    KIT_EXPECT(deep, KIT_MESSAGE(5, KIT_MESSAGE(2, kit_number(1, 3))), kit_number(1, 3));
    KIT_EXPECT(program,
               KIT_MESSAGE(5, KIT_MESSAGE(2, kit_number(1, 7)), KIT_MESSAGE(3, kit_number(1, 1))),
               packet);
}

static void only_messages_are_skipped_and_only_where_that_is_wanted(void **state)
{
    const struct kit_bytes first = KIT_MESSAGE(1, kit_number(1, 1), kit_text(2, "a"));
    const struct kit_bytes second = KIT_MESSAGE(1, kit_number(1, 7), kit_text(2, "b"));

    (void)state;
    KIT_EXPECT(KIT_PROGRAM(put(kit_step(5), kit_merge(PFL_VM_MERGE_SKIP_SUBMESSAGES))),
               KIT_MESSAGE(5, kit_number(1, 7), kit_text(2, "b")), first, second);
    KIT_EXPECT(KIT_PROGRAM(KIT_JOIN(kit_select(SRC, false, kit_step(2)),
                                    KIT_NESTED(KIT_JOIN(
                                        kit_select(DST, true,
                                                   KIT_PATH(kit_step(5), kit_step(2), kit_step(1))),
                                        KIT_NESTED(kit_set())))),
                           put(kit_step(5), kit_merge(0))),
               KIT_MESSAGE(5, KIT_MESSAGE(2, kit_number(1, 1))),
               KIT_JOIN(KIT_MESSAGE(1, kit_field(2, kit_number(1, 1))), kit_number(2, 7)));
}

/* For each element of field 1: its field 1 is the key in field 5. */
static struct kit_bytes by_key(struct kit_bytes what)
{
    return KIT_JOIN(
        kit_select(SRC, false, kit_each(1)),
        KIT_NESTED(KIT_JOIN(kit_select(SRC, false, kit_step(1)), KIT_NESTED(kit_load(SRC, 3))),
                   KIT_JOIN(kit_select(DST, true, KIT_PATH(kit_step(5), kit_key(1, 3))),
                            KIT_NESTED(what))));
}

static void elements_are_found_and_made_by_their_keys(void **state)
{
    const struct kit_bytes packet = KIT_JOIN(KIT_MESSAGE(1, kit_number(1, 9), kit_number(2, 90)),
                                             KIT_MESSAGE(1, kit_number(1, 4), kit_number(2, 40)),
                                             KIT_MESSAGE(1, kit_number(1, 9), kit_number(3, 91)));

    (void)state;
    KIT_EXPECT(KIT_PROGRAM(by_key(kit_merge(0))),
               KIT_JOIN(KIT_MESSAGE(5, kit_number(1, 4), kit_number(2, 40)),
                        KIT_MESSAGE(5, kit_number(1, 9), kit_number(2, 90), kit_number(3, 91))),
               packet);
    KIT_EXPECT(KIT_PROGRAM(by_key(kit_set())),
               KIT_JOIN(KIT_MESSAGE(5, kit_number(1, 4), kit_number(2, 40)),
                        KIT_MESSAGE(5, kit_number(1, 9), kit_number(3, 91))),
               packet);
    KIT_EXPECT(KIT_PROGRAM(by_key(kit_merge(0)), by_key(kit_del())), KIT_NONE, packet);
}

static void elements_of_a_message_that_came_whole_get_keys(void **state)
{
    const struct kit_bytes whole = KIT_MESSAGE(
        2, KIT_MESSAGE(5, kit_number(1, 7), kit_number(2, 1)), KIT_MESSAGE(5, kit_number(1, 3)),
        KIT_MESSAGE(5, kit_number(1, 7), kit_number(2, 2)));
    const struct kit_bytes program = KIT_PROGRAM(
        KIT_JOIN(kit_select(SRC, false, kit_step(2)), KIT_NESTED(kit_set())), by_key(kit_merge(0)));

    (void)state;
    KIT_EXPECT(program,
               KIT_JOIN(KIT_MESSAGE(5, kit_number(1, 3), kit_number(9, 9)),
                        KIT_MESSAGE(5, kit_number(1, 7), kit_number(2, 1))),
               KIT_JOIN(whole, KIT_MESSAGE(1, kit_number(1, 3), kit_number(9, 9))));
    /* A single element is one, too. */
    KIT_EXPECT(program, KIT_MESSAGE(5, kit_number(1, 3), kit_number(9, 9)),
               KIT_JOIN(KIT_MESSAGE(2, KIT_MESSAGE(5, kit_number(1, 3))),
                        KIT_MESSAGE(1, kit_number(1, 3), kit_number(9, 9))));
}

static void a_key_is_the_lower_half_of_its_register(void **state)
{
    (void)state;
    KIT_EXPECT(KIT_PROGRAM(by_key(kit_set())), KIT_MESSAGE(5, kit_number(1, 1ull << 32)),
               KIT_MESSAGE(1, kit_number(1, 0)), KIT_MESSAGE(1, kit_number(1, 1ull << 32)));
}

static void the_next_index_is_made_without_being_asked(void **state)
{
    const struct kit_bytes at[] = {kit_index(0), kit_index(1), kit_index(2)};
    struct kit_bytes program = KIT_NONE;

    (void)state;
    for (size_t i = 0; i < 3; i++)
        program = KIT_JOIN(
            program, KIT_PROGRAM(KIT_JOIN(
                         kit_select(SRC, false, kit_step(1)),
                         KIT_NESTED(KIT_JOIN(kit_select(DST, false, KIT_PATH(kit_step(5), at[i])),
                                             KIT_NESTED(kit_set()))))));
    KIT_EXPECT(program, KIT_JOIN(kit_number(5, 7), kit_number(5, 7), kit_number(5, 7)),
               kit_number(1, 7));
}

static void each_element_of_the_state_is_visited_and_emptied_not_taken_out(void **state)
{
    const struct kit_bytes whole =
        KIT_MESSAGE(1, KIT_MESSAGE(5, kit_number(1, 1), kit_number(2, 2)),
                    KIT_MESSAGE(5, kit_number(1, 3), kit_number(2, 4)));
    const struct kit_bytes set =
        KIT_JOIN(kit_select(SRC, false, kit_step(1)), KIT_NESTED(kit_set()));
    const struct kit_bytes each_field =
        KIT_JOIN(kit_select(DST, false, KIT_PATH(kit_each(5), kit_step(2))), KIT_NESTED(kit_del()));
    const struct kit_bytes each_element =
        KIT_JOIN(kit_select(DST, false, kit_each(5)), KIT_NESTED(kit_del()));
    const struct kit_bytes third =
        KIT_JOIN(kit_select(SRC, false, kit_step(2)),
                 KIT_NESTED(KIT_JOIN(kit_select(DST, false, KIT_PATH(kit_step(5), kit_index(2))),
                                     KIT_NESTED(kit_set()))));

    (void)state;
    KIT_EXPECT(KIT_PROGRAM(set, each_field),
               KIT_JOIN(KIT_MESSAGE(5, kit_number(1, 1)), KIT_MESSAGE(5, kit_number(1, 3))), whole);
    KIT_EXPECT(KIT_PROGRAM(set, each_element, third), kit_text(5, "third"),
               KIT_JOIN(whole, kit_text(2, "third")));
    KIT_EXPECT(
        KIT_PROGRAM(set, KIT_JOIN(kit_select(DST, false, kit_each(6)), KIT_NESTED(kit_del()))),
        KIT_JOIN(KIT_MESSAGE(5, kit_number(1, 1), kit_number(2, 2)),
                 KIT_MESSAGE(5, kit_number(1, 3), kit_number(2, 4))),
        whole);
}

static void the_root_can_be_emptied(void **state)
{
    (void)state;
    KIT_EXPECT(KIT_PROGRAM(put(kit_step(2), kit_set()), kit_del()), KIT_NONE, kit_text(1, "a"));
}

static void both_moves_the_destination_alone(void **state)
{
    const struct kit_bytes program =
        KIT_PROGRAM(KIT_JOIN(kit_select(BOTH, true, kit_step(5)), KIT_NESTED(kit_merge(0))));

    (void)state;
    KIT_EXPECT(program, KIT_MESSAGE(5, kit_number(1, 1)), kit_number(1, 1));
}

static void registers_keep_their_numbers_from_packet_to_packet(void **state)
{
    const struct kit_bytes program = KIT_PROGRAM(
        KIT_JOIN(kit_select(SRC, false, kit_step(2)), KIT_NESTED(kit_load(SRC, 31)),
                 KIT_LEVEL(PFL_VM_SKIP)),
        KIT_JOIN(kit_select(SRC, false, kit_step(1)),
                 KIT_NESTED(KIT_JOIN(kit_select(DST, true, KIT_PATH(kit_step(5), kit_key(1, 31))),
                                     KIT_NESTED(kit_merge(0)))),
                 KIT_LEVEL(PFL_VM_SKIP)));

    (void)state;
    KIT_EXPECT(program,
               KIT_JOIN(KIT_MESSAGE(5, kit_number(2, 1)), KIT_MESSAGE(5, kit_number(2, 2))),
               kit_number(2, 6), KIT_MESSAGE(1, kit_number(2, 1)),
               KIT_JOIN(kit_number(2, 7), KIT_MESSAGE(1, kit_number(2, 2))));
}

static void a_number_of_the_state_can_be_a_key(void **state)
{
    const struct kit_bytes program =
        KIT_PROGRAM(put(kit_step(2), kit_set()),
                    KIT_JOIN(kit_select(DST, false, kit_step(2)), KIT_NESTED(kit_load(DST, 0))),
                    KIT_JOIN(kit_select(DST, true, KIT_PATH(kit_step(5), kit_key(1, 0))),
                             KIT_NESTED(kit_merge(0))));

    (void)state;
    KIT_EXPECT(program, KIT_JOIN(kit_number(2, 6), KIT_MESSAGE(5, kit_number(1, 6))),
               kit_number(1, 6));
}

static void a_long_message_has_a_length_of_four_bytes(void **state)
{
    char text[201] = "";
    struct kit_bytes content;
    uint8_t head[5] = {5 << 3 | PFL_WIRE_BYTES, 0, 0x80, 0x80, 0};
    struct kit_bytes expected = {.len = 0};

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    content = kit_text(1, text);
    head[1] = (uint8_t)(0x80 | (content.len & 0x7f));
    head[2] = (uint8_t)(0x80 | content.len >> 7);
    memcpy(expected.data, head, sizeof(head));
    memcpy(expected.data + sizeof(head), content.data, content.len);
    expected.len = sizeof(head) + content.len;
    KIT_EXPECT(KIT_PROGRAM(put(KIT_PATH(kit_step(5), kit_step(1)), kit_set())), expected, content);
}

static void ids_that_no_reader_sees_and_broken_ends_are_passed_over(void **state)
{
    struct kit_bytes packet =
        KIT_JOIN(kit_number(1u << 24, 1), kit_number((1u << 24) - 1, 2), kit_number(1, 3));

    (void)state;
    packet.data[packet.len++] = 0x0f;
    KIT_EXPECT(KIT_PROGRAM(kit_merge(0)), KIT_JOIN(kit_number(1, 3), kit_number((1u << 24) - 1, 2)),
               packet);
}

static void a_program_of_a_byte_or_none_is_cut_and_does_nothing(void **state)
{
    static const uint8_t byte[] = {0x0a};
    struct pfl_vm *vm = NULL;

    (void)state;
    for (size_t len = 0; len <= 1; len++) {
        assert_int_equal(pfl_vm_new(pfl_span_of(byte, len), 1000, &vm), 0);
        assert_int_equal(pfl_vm_get_program(vm).len, len);
        pfl_vm_free(vm);
    }
    pfl_sweep_assert_no_leak();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_of_each_type_is_set),
        cmocka_unit_test(fields_are_encoded_by_id_whatever_the_order_of_their_coming),
        cmocka_unit_test(the_first_occurrence_in_the_packet_is_entered),
        cmocka_unit_test(an_index_enters_that_occurrence_and_sees_numbers_as_empty),
        cmocka_unit_test(merge_replaces_fields_one_level_deep),
        cmocka_unit_test(merge_replaces_all_elements_of_a_repeated_field),
        cmocka_unit_test(an_empty_field_takes_one_out_where_that_is_wanted),
        cmocka_unit_test(messages_taken_apart_are_skipped_where_that_is_wanted),
        cmocka_unit_test(only_messages_are_skipped_and_only_where_that_is_wanted),
        cmocka_unit_test(elements_are_found_and_made_by_their_keys),
        cmocka_unit_test(elements_of_a_message_that_came_whole_get_keys),
        cmocka_unit_test(a_key_is_the_lower_half_of_its_register),
        cmocka_unit_test(the_next_index_is_made_without_being_asked),
        cmocka_unit_test(each_element_of_the_state_is_visited_and_emptied_not_taken_out),
        cmocka_unit_test(the_root_can_be_emptied),
        cmocka_unit_test(both_moves_the_destination_alone),
        cmocka_unit_test(registers_keep_their_numbers_from_packet_to_packet),
        cmocka_unit_test(a_number_of_the_state_can_be_a_key),
        cmocka_unit_test(a_long_message_has_a_length_of_four_bytes),
        cmocka_unit_test(ids_that_no_reader_sees_and_broken_ends_are_passed_over),
        cmocka_unit_test(a_program_of_a_byte_or_none_is_cut_and_does_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
