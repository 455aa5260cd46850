/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kprobes and the function graph: events that come late, of which the ids are used again, with
 * types that are the session's and functions that have names. The formats are a kernel's own, the
 * page is made by hand.
 */
#include "tests/unit/agent/probes/ftrace_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/support/sweep.h"

#define KPROBE_ID   1800
#define FUNCTION    UINT64_C(0xffffffff81234560)
#define FUNCTION_AT UINT64_C(0xffffffff81234500)

static struct pfl_span make_format(char *room, size_t size, const char *name, unsigned id)
{
    int len =
        snprintf(room, size,
                 "name: %s\nID: %u\nformat:\n"
                 "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
                 "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
                 "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
                 "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
                 "\tfield:unsigned long __probe_ip;\toffset:8;\tsize:8;\tsigned:0;\n\n"
                 "print fmt: \"(%%lx)\", REC->__probe_ip\n",
                 name, id);

    return pfl_span_of(room, (size_t)len);
}

static size_t add_kprobe(struct kit *kit, const char *group, const char *name, unsigned id)
{
    char room[1024];
    size_t index = 0;

    assert_int_equal(pfl_event_catalog_add(&kit->catalog, group, name,
                                           make_format(room, sizeof(room), name, id), &index),
                     0);
    return index;
}

/* --- pages ------------------------------------------------------------------------------- */

struct page {
    uint8_t bytes[4096];
    size_t used;
};

static void begin_page(struct page *page)
{
    uint64_t now = 1000;

    memset(page, 0, sizeof(*page));
    memcpy(page->bytes, &now, sizeof(now));
    page->used = 16;
}

/* A record of `len` bytes (a multiple of 4, at most 112), 5 ns after the last one. */
static void add_record(struct page *page, const void *data, uint32_t len)
{
    uint32_t header = 5u << 5 | len / 4;
    uint64_t commit;

    memcpy(page->bytes + page->used, &header, sizeof(header));
    memcpy(page->bytes + page->used + 4, data, len);
    page->used += 4 + len;
    commit = page->used - 16;
    memcpy(page->bytes + 8, &commit, sizeof(commit));
}

static void add_kprobe_hit(struct page *page, uint16_t id, int32_t pid)
{
    uint8_t record[16] = {0};
    uint64_t ip = FUNCTION;

    memcpy(record, &id, sizeof(id));
    memcpy(record + 4, &pid, sizeof(pid));
    memcpy(record + 8, &ip, sizeof(ip));
    add_record(page, record, sizeof(record));
}

static void feed(struct kit *kit, const struct page *page)
{
    kit->reader.plans = (const struct pfl_event_plan *const *)kit->catalog.by_id;
    kit_feed(kit, pfl_span_of(page->bytes, sizeof(page->bytes)));
}

/* --- claims ------------------------------------------------------------------------------ */

static void kprobe_has_its_name_and_the_sessions_type(void **state)
{
    static const uint32_t name[] = {2, 542, 1, 0};
    static const uint32_t type[] = {2, 542, 2, 0};
    struct kit *kit = *state;
    uint8_t wanted[512];
    uint8_t types[2048] = {0};
    struct pfl_field f;
    struct page page;

    (void)add_kprobe(kit, "perfetto_kprobes", "vfs_read", KPROBE_ID);
    (void)add_kprobe(kit, "perfetto_kretprobes", "vfs_read", KPROBE_ID + 1);
    memset(wanted, 0xff, sizeof(wanted));
    kit->reader.wanted = wanted;
    kit->reader.event_ids = kit->catalog.ids;
    kit->reader.kprobe_types = types;
    types[KPROBE_ID] = PFL_KPROBE_BEGIN;
    types[KPROBE_ID + 1] = PFL_KPROBE_END;
    begin_page(&page);
    add_kprobe_hit(&page, KPROBE_ID, 42);
    feed(kit, &page);
    assert_true(kit_find(pfl_buf_get(&kit->last), name, &f));
    assert_int_equal(f.bytes.len, 8);
    assert_memory_equal(f.bytes.data, "vfs_read", 8);
    assert_true(kit_find(pfl_buf_get(&kit->last), type, &f));
    assert_int_equal(f.value, PFL_KPROBE_BEGIN);

    begin_page(&page);
    add_kprobe_hit(&page, KPROBE_ID + 1, 42);
    feed(kit, &page);
    assert_true(kit_find(pfl_buf_get(&kit->last), type, &f));
    assert_int_equal(f.value, PFL_KPROBE_END);

    kit->reader.kprobe_types = NULL;
    feed(kit, &page);
    assert_false(kit_find(pfl_buf_get(&kit->last), type, &f));
    assert_int_equal(kit->by_field[542], 3);
    assert_int_equal(kit->errors, 0);
}

static void id_that_is_used_again_means_the_new_event(void **state)
{
    struct kit *kit = *state;
    size_t first = add_kprobe(kit, "perfetto_kprobes", "one", KPROBE_ID);
    size_t second = add_kprobe(kit, "perfetto_kprobes", "two", KPROBE_ID);

    assert_null(kit->catalog.events[first].plan);
    assert_string_equal(kit->catalog.by_id[KPROBE_ID]->names, "two");
    assert_int_equal(add_kprobe(kit, "perfetto_kprobes", "one", KPROBE_ID + 1), first);
    assert_int_equal(add_kprobe(kit, "perfetto_kprobes", "two", KPROBE_ID + 2), second);
    assert_null(kit->catalog.by_id[KPROBE_ID]);
    assert_non_null(kit->catalog.events[first].plan);
}

static void known_events_keep_their_ids(void **state)
{
    struct kit *kit = *state;
    uint16_t id = kit_plan(kit, "sched_switch")->event_id;
    char room[1024];
    size_t index;

    assert_int_equal(pfl_event_catalog_add(&kit->catalog, "perfetto_kprobes", "thief",
                                           make_format(room, sizeof(room), "thief", id), &index),
                     PFL_EPARSE);
    assert_string_equal(kit->catalog.by_id[id]->names, "sched_switch");
    assert_int_equal(pfl_event_catalog_add(&kit->catalog, "sched", "sched_switch",
                                           make_format(room, sizeof(room), "sched_switch", id),
                                           &index),
                     0);
    assert_int_equal(kit_plan(kit, "sched_switch")->special, PFL_EVENT_SCHED_SWITCH);
    assert_int_equal(pfl_event_catalog_add(&kit->catalog, "a", "b", pfl_span_of("x", 1), &index),
                     PFL_EPARSE);
}

static const struct pfl_event_plan *load_graph(struct kit *kit, const char *name)
{
    struct pfl_buf text;
    char path[80];
    size_t index = 0;

    (void)snprintf(path, sizeof(path), "replay/ftrace.%s.format", name);
    pfl_buf_init(&text, 1 << 20);
    kit_read(path, &text);
    assert_true(pfl_event_catalog_find(&kit->catalog, "ftrace", name, &index));
    assert_int_equal(pfl_event_catalog_load(&kit->catalog, index, pfl_buf_get(&text)), 0);
    pfl_buf_fini(&text);
    return kit->catalog.events[index].plan;
}

static void add_call(struct page *page, uint16_t id, uint32_t depth)
{
    uint8_t record[24] = {0};
    uint64_t func = FUNCTION_AT;
    int32_t pid = 7;

    memcpy(record, &id, sizeof(id));
    memcpy(record + 4, &pid, sizeof(pid));
    memcpy(record + 8, &func, sizeof(func));
    memcpy(record + 16, &depth, sizeof(depth));
    add_record(page, record, sizeof(record));
}

static void add_return(struct page *page, uint16_t id, uint32_t depth)
{
    const uint64_t times[2] = {123456789, 123456999};
    uint8_t record[40] = {0};
    uint64_t func = FUNCTION_AT;
    uint32_t overrun = 3;

    memcpy(record, &id, sizeof(id));
    memcpy(record + 8, &func, sizeof(func));
    memcpy(record + 16, &depth, sizeof(depth));
    memcpy(record + 20, &overrun, sizeof(overrun));
    memcpy(record + 24, times, sizeof(times));
    add_record(page, record, sizeof(record));
}

static void calls_and_returns_have_functions_with_names(void **state)
{
    static const uint64_t key[2] = {1, 2};
    static const struct {
        uint32_t path[4];
        uint64_t value;
    } exits[] = {
        {{2, 438, 1, 0}, 123456789}, {{2, 438, 2, 0}, 5},         {{2, 438, 3, 0}, 0},
        {{2, 438, 4, 0}, 3},         {{2, 438, 5, 0}, 123456999},
    };
    static const uint32_t depth[] = {2, 437, 1, 0};
    static const uint32_t func[] = {2, 437, 2, 0};
    struct kit *kit = *state;
    const struct pfl_event_plan *entry;
    struct pfl_ksym_set set;
    struct pfl_field f;
    struct page page;

    memcpy(kit->catalog.address_key, key, sizeof(key));
    entry = load_graph(kit, "funcgraph_entry");
    assert_int_equal(pfl_ksym_set_init(&set), 0);
    kit->reader.symbols = &set;
    begin_page(&page);
    add_call(&page, entry->event_id, 5);
    feed(kit, &page);
    assert_true(kit_find(pfl_buf_get(&kit->last), depth, &f));
    assert_int_equal(f.value, 5);
    assert_true(kit_find(pfl_buf_get(&kit->last), func, &f));
    assert_int_equal(f.value, pfl_event_hide_address(key, FUNCTION_AT));
    assert_int_equal(set.fresh_count, 1);
    assert_int_equal(set.fresh[0], FUNCTION_AT);

    begin_page(&page);
    add_return(&page, load_graph(kit, "funcgraph_exit")->event_id, 5);
    feed(kit, &page);
    for (size_t i = 0; i < sizeof(exits) / sizeof(exits[0]); i++) {
        assert_true(kit_find(pfl_buf_get(&kit->last), exits[i].path, &f));
        assert_int_equal(f.value,
                         i != 2 ? exits[i].value : pfl_event_hide_address(key, FUNCTION_AT));
    }
    assert_int_equal(set.fresh_count, 1); /* the same function */
    assert_int_equal(kit->errors, 0);
    pfl_ksym_set_fini(&set);
}

static int add_late(void *arg)
{
    struct kit kit;
    int rc = kit_init(&kit);
    char room[1024];
    size_t index;

    (void)arg;
    if (rc != 0)
        return rc;
    for (unsigned i = 0; i < 3 && rc == 0; i++)
        rc = pfl_event_catalog_add(&kit.catalog, "perfetto_kprobes", i == 1 ? "b" : "a",
                                   make_format(room, sizeof(room), "a", KPROBE_ID), &index);
    kit_fini(&kit);
    return rc;
}

static void late_events_survive_every_failed_allocation(void **state)
{
    (void)state;
    pfl_sweep(add_late, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(kprobe_has_its_name_and_the_sessions_type, kit_setup,
                                        kit_teardown),
        cmocka_unit_test_setup_teardown(id_that_is_used_again_means_the_new_event, kit_setup,
                                        kit_teardown),
        cmocka_unit_test_setup_teardown(known_events_keep_their_ids, kit_setup, kit_teardown),
        cmocka_unit_test_setup_teardown(calls_and_returns_have_functions_with_names, kit_setup,
                                        kit_teardown),
        cmocka_unit_test(late_events_survive_every_failed_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
