/* SPDX-License-Identifier: Apache-2.0 */
/* Formats into plans, records into events: names meet, text stays within its record. */
#include "tests/unit/agent/probes/ftrace_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/probes/kernel_events/event_table.h"
#include "base/mem.h"
#include "tests/support/recorded.h"

static struct pfl_span encode(const struct pfl_event_plan *plan, const void *data, uint32_t len,
                              uint8_t *room)
{
    struct pfl_trace_record record = {.data = data, .len = len, .timestamp_ns = 77};
    size_t max = pfl_event_plan_max_bytes(plan, &record);
    uint8_t *end = pfl_event_plan_encode(plan, &record, false, room);

    assert_true((size_t)(end - room) <= max);
    return pfl_span_of(room, (size_t)(end - room));
}

static void table_is_sorted_and_its_numbers_are_plausible(void **state)
{
    const struct pfl_event_entry *before = NULL;
    const struct pfl_event_entry *e;

    (void)state;
    for (size_t i = 0; (e = pfl_event_table_get(i)) != NULL; i++) {
        assert_ptr_equal(pfl_event_table_find(e->group, e->name), e);
        assert_true(e->field > 2 && e->field < 2048 && e->field != 5);
        if (before != NULL)
            assert_true(
                strcmp(before->group, e->group) < 0 ||
                (strcmp(before->group, e->group) == 0 && strcmp(before->name, e->name) < 0));
        before = e;
    }
    assert_null(pfl_event_table_find("sched", "no_such_event"));
}

static void kinds_are_read_from_the_kernels_formats(void **state)
{
    static struct pfl_trace_format f;
    struct pfl_buf text;

    (void)state;
    pfl_buf_init(&text, 1 << 20);
    kit_read("sched_process_exec.format", &text);
    assert_int_equal(pfl_trace_format_parse(pfl_buf_get(&text), &f), 0);
    assert_string_equal(f.name, "sched_process_exec");
    assert_int_equal(f.id, 365);
    assert_int_equal(f.fixed_bytes, 20);
    assert_int_equal(pfl_trace_format_find(&f, "filename")->kind, PFL_TRACE_DATA_LOC);
    assert_true(pfl_trace_format_find(&f, "pid")->is_signed);
    pfl_buf_clear(&text);
    kit_read("sys_enter.format", &text);
    assert_int_equal(pfl_trace_format_parse(pfl_buf_get(&text), &f), 0);
    assert_int_equal(pfl_trace_format_find(&f, "args")->kind, PFL_TRACE_INTS);
    assert_int_equal(pfl_trace_format_find(&f, "args")->element_bytes, 8);
    for (size_t len = 0; len < text.len; len++)
        assert_true(pfl_trace_format_parse(pfl_span_of(text.data, len), &f) <= 0);
    assert_int_equal(pfl_trace_format_parse(pfl_span_of("name: x\n", 8), &f), PFL_EPARSE);
    pfl_buf_fini(&text);
}

static void file_name_of_an_exec_is_text(void **state)
{
    static const uint32_t path[] = {2, 237, 1, 0};
    static const uint32_t pid_path[] = {2, 237, 2, 0};
    uint8_t record[32] = {0};
    uint8_t room[4096];
    struct pfl_field f;
    uint32_t loc = 8u << 16 | 20u;
    int32_t pid = -5;

    memcpy(record + 8, &loc, 4);
    memcpy(record + 12, &pid, 4);
    memcpy(record + 20, "/bin/ls", 8);
    struct pfl_span out = encode(kit_plan(*state, "sched_process_exec"), record, 28, room);
    assert_true(kit_find(out, path, &f));
    assert_int_equal(f.bytes.len, 7);
    assert_memory_equal(f.bytes.data, "/bin/ls", 7);
    assert_true(kit_find(out, pid_path, &f));
    assert_int_equal((int64_t)f.value, -5);
}

static void text_never_leaves_its_record(void **state)
{
    static const uint32_t path[] = {2, 237, 1, 0};
    uint8_t room[4096];
    struct pfl_field f;

    for (uint32_t start = 0; start < 64; start++) {
        for (uint32_t len = 0; len < 64; len++) {
            uint8_t *record = pfl_mem_alloc(28); /* a block of its own: reads past it are seen */
            uint32_t loc = len << 16 | start;

            assert_non_null(record);
            memset(record, 'x', 28);
            memcpy(record + 8, &loc, 4);
            assert_true(kit_find(encode(kit_plan(*state, "sched_process_exec"), record, 28, room),
                                 path, &f));
            assert_true(f.bytes.len <= (start < 28 ? 28 - start : 0));
            pfl_mem_free(record);
        }
    }
}

static void unknown_event_travels_with_names(void **state)
{
    static const uint32_t name_path[] = {2, 327, 1, 0};
    static const uint32_t field_path[] = {2, 327, 2, 1, 0};
    const struct pfl_event_plan *plan = kit_plan(*state, "sched_stat_runtime");
    uint8_t record[64] = {0};
    uint8_t room[4096];
    struct pfl_field f;
    struct pfl_span out = encode(plan, record, plan->fixed_bytes, room);

    assert_true(pfl_event_plan_is_generic(plan));
    assert_true(kit_find(out, name_path, &f));
    assert_memory_equal(f.bytes.data, "sched_stat_runtime", f.bytes.len);
    assert_true(kit_find(out, field_path, &f));
    assert_memory_equal(f.bytes.data, "comm", f.bytes.len);
}

/* Every number as long as it gets, every text without an end. */
static void the_longest_record_of_each_event_fits_the_room_of_its_plan(void **state)
{
    const struct kit *kit = *state;
    uint8_t *data = pfl_mem_alloc(4096);
    uint8_t *room = pfl_mem_alloc(1u << 20);

    assert_true(data != NULL && room != NULL);
    memset(data, 0xff, 4096);
    for (size_t id = 0; id < kit->catalog.ids; id++) {
        const struct pfl_event_plan *plan = kit->catalog.by_id[id];

        if (plan != NULL)
            (void)encode(plan, data, plan->fixed_bytes, room);
    }
    pfl_mem_free(data);
    pfl_mem_free(room);
}

/* Of a generic event, all of them numbers: whose names begin so and that have this value. */
static unsigned count_fields(struct pfl_span out, const char *prefix, uint64_t value)
{
    static const uint32_t path[] = {2, 327, 0};
    struct pfl_field generic;
    struct pfl_field f;
    struct pfl_reader r;
    unsigned count = 0;

    assert_true(kit_find(out, path, &generic));
    r = pfl_reader_of(generic.bytes);
    while (pfl_reader_field(&r, &f)) {
        struct pfl_reader field = pfl_reader_of(f.bytes);
        struct pfl_field part;
        unsigned fits = 0;

        if (f.id != 2)
            continue;
        while (pfl_reader_field(&field, &part))
            fits += part.id == 1 ? memcmp(part.bytes.data, prefix, strlen(prefix)) == 0
                                 : part.value == value;
        assert_false(field.failed);
        count += fits == 2;
    }
    assert_false(r.failed);
    return count;
}

static void the_longest_numbers_of_an_unknown_event_fit_the_room_of_its_plan(void **state)
{
    enum { NUMBERS = 20 };
    static struct pfl_trace_format format;
    struct pfl_printk_formats printk = {0};
    struct pfl_event_plan *plan;
    struct pfl_span out;
    uint8_t data[8 + 8 * NUMBERS];
    uint8_t room[4096];
    char text[4096];
    int len = snprintf(text, sizeof(text),
                       "name: thing\nID: 9\nformat:\n"
                       "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
                       "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
                       "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n");

    (void)state;
    for (int i = 0; i < NUMBERS; i++)
        len += snprintf(text + len, sizeof(text) - (size_t)len,
                        "\tfield:long n%d;\toffset:%d;\tsize:8;\tsigned:1;\n", i, 8 + 8 * i);
    memset(data, 0xff, sizeof(data));
    assert_int_equal(pfl_trace_format_parse(pfl_span_of(text, (size_t)len), &format), 0);
    assert_int_equal(pfl_event_plan_new("mine", &format, &printk, &plan), 0);
    out = encode(plan, data, sizeof(data), room);
    assert_int_equal(count_fields(out, "n", UINT64_MAX), NUMBERS);
    pfl_event_plan_free(plan);
}

static void dense_form_has_the_fields_by_number_and_a_descriptor(void **state)
{
    static const uint32_t pid_path[] = {2, 0, 2, 0};
    static const uint32_t id_path[] = {11, 1, 0};
    static const uint32_t field_name_path[] = {11, 2, 2, 1, 0};
    static const uint32_t group_path[] = {11, 3, 0};
    const struct pfl_event_plan *plan = kit_plan(*state, "sched_stat_runtime");
    uint32_t path[4];
    uint8_t data[64] = {0};
    uint8_t room[4096];
    struct pfl_trace_record record = {.data = data, .len = plan->fixed_bytes, .timestamp_ns = 77};
    struct pfl_span descriptor = pfl_span_of(plan->descriptor, plan->descriptor_bytes);
    uint8_t *end;
    struct pfl_field f;

    data[12] = 7;
    end = pfl_event_plan_encode(plan, &record, true, room);
    memcpy(path, pid_path, sizeof(path));
    path[1] = plan->dense_field;
    assert_true(plan->dense_field >= PFL_FTRACE_DENSE_MIN);
    assert_true(kit_find(pfl_span_of(room, (size_t)(end - room)), path, &f));
    assert_int_equal(f.value, 7);
    assert_true(kit_find(descriptor, id_path, &f));
    assert_int_equal(f.value, plan->dense_field);
    assert_true(kit_find(descriptor, field_name_path, &f));
    assert_memory_equal(f.bytes.data, "comm", 4);
    assert_true(kit_find(descriptor, group_path, &f));
    assert_memory_equal(f.bytes.data, "sched", 5);
}

/* Two records with one address and one with another, as a kernel's work queue event. */
static void addresses_become_numbers_that_tell_equal_from_different(void **state)
{
    static const char text[] =
        "name: thing\nID: 9\nformat:\n"
        "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
        "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
        "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
        "\tfield:void * work;\toffset:8;\tsize:8;\tsigned:0;\n";
    static const uint64_t addresses[] = {UINT64_C(0xffffffff81000010), UINT64_C(0xffffffff81000010),
                                         UINT64_C(0xffffffff81000020), 0};
    static const uint32_t number_path[] = {2, PFL_FTRACE_DENSE_MIN + 9, 1, 0};
    static struct pfl_trace_format format;
    struct pfl_printk_formats printk = {0};
    struct pfl_event_plan *plan;
    uint64_t numbers[4];

    (void)state;
    assert_int_equal(pfl_trace_format_parse(pfl_span_of(text, sizeof(text) - 1), &format), 0);
    assert_int_equal(pfl_event_plan_new("mine", &format, &printk, &plan), 0);
    plan->address_key[0] = 1;
    for (size_t i = 0; i < 4; i++) {
        uint8_t data[16] = {9};
        uint8_t room[512];
        struct pfl_trace_record record = {.data = data, .len = sizeof(data)};
        struct pfl_field f;
        uint8_t *end;

        memcpy(data + 8, &addresses[i], sizeof(addresses[i]));
        end = pfl_event_plan_encode(plan, &record, true, room);
        assert_true(kit_find(pfl_span_of(room, (size_t)(end - room)), number_path, &f));
        numbers[i] = f.value;
    }
    assert_true(numbers[0] == numbers[1] && numbers[0] != numbers[2] && numbers[3] == 0);
    assert_true(numbers[0] != 0 && numbers[0] < UINT64_C(1) << 40);
    assert_true((numbers[0] & 0xffff) != 0x0010);
    pfl_event_plan_free(plan);
}

static void addresses_of_text_are_looked_up(void **state)
{
    static const char file[] = "0xffffffff81000010 : \"second\"\nnonsense\n \n\t\n"
                               "0xffffffff81000000 : \"first \\\"one\\\"\"\n";
    struct pfl_printk_formats printk;
    struct pfl_span text;

    (void)state;
    for (size_t len = 0; len < sizeof(file); len++) {
        assert_int_equal(pfl_printk_formats_init(&printk, pfl_span_of(file, len)), 0);
        pfl_printk_formats_fini(&printk);
    }
    assert_int_equal(pfl_printk_formats_init(&printk, pfl_span_of(file, sizeof(file) - 1)), 0);
    assert_int_equal(printk.count, 2);
    text = pfl_printk_formats_find(&printk, UINT64_C(0xffffffff81000010));
    assert_int_equal(text.len, 6);
    assert_memory_equal(text.data, "second", 6);
    assert_int_equal(pfl_printk_formats_find(&printk, 1).len, 0);
    pfl_printk_formats_fini(&printk);
}

/* The table's words are whole names: "pid" is neither in "parent_pid=2" nor in "pid_ns=". */
static void a_field_whose_name_is_part_of_a_known_one_is_left_out(void **state)
{
    static const char text[] =
        "name: sched_process_fork\nID: 300\nformat:\n"
        "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
        "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
        "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n"
        "\tfield:int pid;\toffset:8;\tsize:4;\tsigned:1;\n"
        "\tfield:int child;\toffset:12;\tsize:4;\tsigned:1;\n"
        "\tfield:int child_pid;\toffset:16;\tsize:4;\tsigned:1;\n";
    static const uint32_t parent_path[] = {2, 239, 2, 0};
    static const uint32_t child_path[] = {2, 239, 4, 0};
    static struct pfl_trace_format format;
    struct pfl_event_plan *plan;
    uint8_t record[20] = {[8] = 5, [12] = 6, [16] = 7};
    uint8_t room[4096];
    struct pfl_field f;
    struct pfl_span out;

    (void)state;
    assert_int_equal(pfl_trace_format_parse(pfl_span_of(text, sizeof(text) - 1), &format), 0);
    assert_int_equal(pfl_event_plan_new("sched", &format, NULL, &plan), 0);
    out = encode(plan, record, sizeof(record), room);
    assert_false(kit_find(out, parent_path, &f));
    assert_true(kit_find(out, child_path, &f));
    assert_int_equal(f.value, 7);
    pfl_event_plan_free(plan);
}

static void a_format_without_its_common_fields_has_no_plan(void **state)
{
    static const char head[] = "name: x\nID: 300\nformat:\n"
                               "\tfield:int value;\toffset:8;\tsize:4;\tsigned:1;\n";
    static const struct {
        const char *fields;
        int rc;
    } cases[] = {
        {"\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n", PFL_EINVAL},
        {"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n", PFL_EINVAL},
        {"\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
         "\tfield:long common_pid;\toffset:4;\tsize:8;\tsigned:1;\n",
         PFL_EINVAL},
        {"\tfield:unsigned short common_flags;\toffset:2;\tsize:2;\tsigned:0;\n"
         "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n",
         PFL_EINVAL},
        {"\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
         "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n",
         0},
    };
    static struct pfl_trace_format format;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pfl_event_plan *plan = NULL;
        char text[400];
        int len = snprintf(text, sizeof(text), "%s%s", head, cases[i].fields);

        assert_int_equal(pfl_trace_format_parse(pfl_span_of(text, (size_t)len), &format), 0);
        assert_int_equal(pfl_event_plan_new("group", &format, NULL, &plan), cases[i].rc);
        pfl_event_plan_free(plan);
    }
}

static void hidden_addresses_are_those_that_were_recorded(void **state)
{
    static const uint64_t keys[][2] = {{1, 0}, {0, 1}, {UINT64_C(0x0706050403020100), 99}};

    (void)state;
    pfl_record_begin();
    for (size_t i = 0; i < 3; i++)
        for (uint64_t n = 0; n < 64; n++)
            pfl_record("%llx", (unsigned long long)pfl_event_hide_address(
                                   keys[i], UINT64_MAX - (UINT64_C(1) << n)));
    pfl_assert_recorded(0xdd5462c4a27fa272);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_is_sorted_and_its_numbers_are_plausible),
        cmocka_unit_test(kinds_are_read_from_the_kernels_formats),
        cmocka_unit_test_setup_teardown(file_name_of_an_exec_is_text, kit_setup, kit_teardown),
        cmocka_unit_test_setup_teardown(text_never_leaves_its_record, kit_setup, kit_teardown),
        cmocka_unit_test_setup_teardown(unknown_event_travels_with_names, kit_setup, kit_teardown),
        cmocka_unit_test_setup_teardown(the_longest_record_of_each_event_fits_the_room_of_its_plan,
                                        kit_setup, kit_teardown),
        cmocka_unit_test(the_longest_numbers_of_an_unknown_event_fit_the_room_of_its_plan),
        cmocka_unit_test_setup_teardown(dense_form_has_the_fields_by_number_and_a_descriptor,
                                        kit_setup, kit_teardown),
        cmocka_unit_test(addresses_become_numbers_that_tell_equal_from_different),
        cmocka_unit_test(addresses_of_text_are_looked_up),
        cmocka_unit_test(a_field_whose_name_is_part_of_a_known_one_is_left_out),
        cmocka_unit_test(a_format_without_its_common_fields_has_no_plan),
        cmocka_unit_test(hidden_addresses_are_those_that_were_recorded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
