/* SPDX-License-Identifier: Apache-2.0 */
/* Formats into plans, records into events: names meet, text stays within its record. */
#include "tests/unit/probes/ftrace_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/probes/event_table.h"
#include "base/mem.h"
#include "tests/support/sweep.h"

static int setup(void **state)
{
    struct kit *kit = pfl_mem_zalloc(sizeof(*kit));

    *state = kit;
    return kit == NULL ? -1 : kit_init(kit);
}

static int teardown(void **state)
{
    kit_fini(*state);
    pfl_mem_free(*state);
    pfl_sweep_assert_no_leak();
    return 0;
}

static struct pfl_span encode(const struct pfl_event_plan *plan, const void *data, uint32_t len,
                              uint8_t *room)
{
    struct pfl_trace_record record = {.data = data, .len = len, .timestamp_ns = 77};
    size_t max = pfl_event_plan_max_bytes(plan, &record);
    uint8_t *end = pfl_event_plan_encode(plan, &record, room);

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

static void addresses_of_text_are_looked_up(void **state)
{
    static const char file[] = "0xffffffff81000010 : \"second\"\nnonsense\n"
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_is_sorted_and_its_numbers_are_plausible),
        cmocka_unit_test(kinds_are_read_from_the_kernels_formats),
        cmocka_unit_test_setup_teardown(file_name_of_an_exec_is_text, setup, teardown),
        cmocka_unit_test_setup_teardown(text_never_leaves_its_record, setup, teardown),
        cmocka_unit_test_setup_teardown(unknown_event_travels_with_names, setup, teardown),
        cmocka_unit_test(addresses_of_text_are_looked_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
