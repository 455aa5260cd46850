/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/agent/probes/ftrace_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tests/support/sweep.h"

static const char *const events[KIT_EVENTS] = {
    "sched:sched_switch", "sched:sched_waking",     "sched:sched_process_exec",
    "task:task_newtask",  "task:task_rename",       "sched:sched_stat_runtime",
    "irq:softirq_entry",  "raw_syscalls:sys_enter", "raw_syscalls:sys_exit",
    "ftrace:print",
};

void kit_read(const char *name, struct pfl_buf *ret_bytes)
{
    char path[128];
    uint8_t *room;
    FILE *file;

    (void)snprintf(path, sizeof(path), "tests/fixtures/ftrace/%s", name);
    file = fopen(path, "rb");
    assert_non_null(file);
    if (pfl_buf_reserve(ret_bytes, 65536, &room) == 0)
        pfl_buf_extend(ret_bytes, fread(room, 1, 65536, file));
    (void)fclose(file);
}

bool kit_find(struct pfl_span message, const uint32_t *path, struct pfl_field *ret_field)
{
    struct pfl_reader r = pfl_reader_of(message);

    while (pfl_reader_field(&r, ret_field)) {
        if (ret_field->id == path[0])
            return path[1] == 0 || kit_find(ret_field->bytes, path + 1, ret_field);
    }
    assert_false(r.failed);
    return false;
}

static unsigned count_varints(struct pfl_span packed, uint64_t *ret_sum)
{
    struct pfl_reader r = pfl_reader_of(packed);
    unsigned count = 0;

    *ret_sum = 0;
    while (r.left != 0) {
        *ret_sum += pfl_reader_varint(&r);
        count++;
    }
    assert_false(r.failed);
    return count;
}

static void read_compact(struct kit *kit, struct pfl_span message)
{
    struct pfl_reader r = pfl_reader_of(message);
    struct pfl_field f;
    unsigned rows[16] = {0};
    uint64_t sum = 0;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == 5) {
            kit->names++;
            continue;
        }
        assert_true(f.id < 16 && rows[f.id] == 0);
        rows[f.id] = count_varints(f.bytes, &sum);
        if (f.id == 1)
            kit->last_switch_ns = sum;
    }
    assert_false(r.failed);
    for (unsigned id = 2; id <= 12; id++)
        assert_true(id == 5 || rows[id] == rows[id < 7 ? 1 : 7]);
    kit->switches += rows[1];
    kit->wakings += rows[7];
}

static void read_event(struct kit *kit, struct pfl_span message)
{
    struct pfl_reader r = pfl_reader_of(message);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        assert_true(f.id < 1024);
        if (f.id > 2)
            kit->by_field[f.id]++;
    }
    assert_false(r.failed);
}

static void on_bundle(void *user, const struct pfl_span *parts, size_t count, uint64_t bytes)
{
    struct kit *kit = user;
    struct pfl_reader r;
    struct pfl_field f;

    kit->bundles++;
    pfl_buf_clear(&kit->last);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(pfl_buf_append(&kit->last, parts[i].data, parts[i].len), 0);
    assert_int_equal(kit->last.len, bytes);
    r = pfl_reader_of(pfl_buf_get(&kit->last));
    while (pfl_reader_field(&r, &f)) {
        kit->lost += f.id == 3;
        kit->errors += f.id == 8;
        if (f.id == 2)
            read_event(kit, f.bytes);
        else if (f.id == 4)
            read_compact(kit, f.bytes);
    }
    assert_false(r.failed);
}

static int load_catalog(struct kit *kit)
{
    struct pfl_buf text;
    char list[512] = "";
    int rc;

    pfl_buf_init(&text, 1 << 20);
    kit_read("header_page", &text);
    for (size_t i = 0; i + 1 < KIT_EVENTS; i++)
        (void)snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s\n", events[i]);
    rc = text.len == 0 ? PFL_ENOMEM
                       : pfl_event_catalog_init(&kit->catalog, pfl_span_of(list, strlen(list)),
                                                pfl_buf_get(&text), pfl_span_of(NULL, 0));
    for (size_t i = 0; rc == 0 && i < KIT_EVENTS; i++) {
        char name[80];

        (void)snprintf(name, sizeof(name), "%s.format", strchr(events[i], ':') + 1);
        pfl_buf_clear(&text);
        kit_read(name, &text);
        rc = pfl_event_catalog_load(&kit->catalog, i, pfl_buf_get(&text));
    }
    pfl_buf_fini(&text);
    return rc;
}

int kit_init(struct kit *kit)
{
    int rc;

    memset(kit, 0, sizeof(*kit));
    pfl_buf_init(&kit->pages, 1 << 20);
    pfl_buf_init(&kit->last, 1 << 22);
    kit_read("cpu0.pages", &kit->pages);
    rc = kit->pages.len == 0 ? PFL_ENOMEM : load_catalog(kit);
    if (rc == 0)
        rc = pfl_bundle_init(&kit->bundle, 4096);
    memset(kit->wanted, 0xff, sizeof(kit->wanted));
    kit->reader = (struct pfl_page_reader){
        .plans = (const struct pfl_event_plan *const *)kit->catalog.by_id,
        .wanted = kit->wanted,
        .event_ids = kit->catalog.ids,
        .layout = kit->catalog.layout,
        .is_compact = true,
        .bundle = &kit->bundle,
        .on_bundle = on_bundle,
        .user = kit,
    };
    if (rc != 0)
        kit_fini(kit);
    return rc;
}

void kit_fini(struct kit *kit)
{
    pfl_event_catalog_fini(&kit->catalog);
    pfl_bundle_fini(&kit->bundle);
    pfl_buf_fini(&kit->pages);
    pfl_buf_fini(&kit->last);
}

int kit_setup(void **state)
{
    struct kit *kit = pfl_mem_zalloc(sizeof(*kit));

    *state = kit;
    return kit == NULL ? -1 : kit_init(kit);
}

int kit_teardown(void **state)
{
    kit_fini(*state);
    pfl_mem_free(*state);
    pfl_sweep_assert_no_leak();
    return 0;
}

const struct pfl_event_plan *kit_plan(const struct kit *kit, const char *name)
{
    for (size_t i = 0; i < kit->catalog.count; i++) {
        if (strcmp(kit->catalog.events[i].name, name) == 0)
            return kit->catalog.events[i].plan;
    }
    fail_msg("no event %s", name);
    return NULL;
}

void kit_want(struct kit *kit, const char *name, bool is_wanted)
{
    uint16_t id = kit_plan(kit, name)->event_id;

    if (is_wanted)
        kit->wanted[id / 8] |= (uint8_t)(1u << (id % 8));
    else
        kit->wanted[id / 8] &= (uint8_t) ~(1u << (id % 8));
}

void kit_feed(struct kit *kit, struct pfl_span pages)
{
    if (!kit->is_slow)
        pfl_page_reader_prepare(&kit->reader);
    pfl_page_reader_feed(&kit->reader, &kit->cpu, pages, 4096);
}
