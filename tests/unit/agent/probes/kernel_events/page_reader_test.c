/* SPDX-License-Identifier: Apache-2.0 */
/* Recorded pages into bundles: nothing is lost, nothing is invented, nothing crashes. */
#include "tests/unit/agent/probes/ftrace_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/syscall.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tests/support/sweep.h"

/* Counted in the recording by a decoder of its own (fixtures/ftrace/README.md). */
#define SWITCHES 34u
#define WAKINGS  31u
#define RECORDS  336u
#define LAST_NS  UINT64_C(7562320959421)

static void every_record_arrives_once(void **state)
{
    struct kit *kit = *state;

    kit_feed(kit, pfl_buf_get(&kit->pages));
    assert_int_equal(kit->reader.events, RECORDS);
    assert_int_equal(kit->switches, SWITCHES);
    assert_int_equal(kit->wakings, WAKINGS);
    assert_int_equal(kit->by_field[329], 171); /* sys_enter */
    assert_int_equal(kit->by_field[327], 64);  /* generic: sched_stat_runtime */
    assert_int_equal(kit->by_field[24], 17);   /* softirq_entry */
    assert_int_equal(kit->by_field[236], 7);   /* task_rename */
    assert_int_equal(kit->by_field[235], 4);   /* task_newtask */
    assert_int_equal(kit->by_field[237], 7);   /* sched_process_exec */
    assert_int_equal(kit->by_field[3], 1);     /* print */
    assert_int_equal(kit->errors, 0);
    assert_int_equal(kit->cpu.previous_end_ns, LAST_NS);
}

static void filters_take_texts_and_system_calls_out(void **state)
{
    /* rules { prefix: "" }: nothing */
    static const char none[] = "\x0a\x02\x0a\x00";
    struct kit *kit = *state;
    struct pfl_print_filter filter;
    struct pfl_syscall_filter calls = {.is_on = true};

    assert_int_equal(pfl_print_filter_parse(pfl_span_of(none, 4), &filter), 0);
    kit->reader.print_filter = &filter;
    kit->reader.syscalls = &calls;
    kit_feed(kit, pfl_buf_get(&kit->pages));
    assert_int_equal(kit->by_field[3], 0);
    assert_int_equal(kit->by_field[329], 0);
    assert_int_equal(kit->by_field[24], 17); /* the others stay */
    pfl_print_filter_fini(&filter);
}

static void addresses_of_the_kernel_are_met(void **state)
{
    struct kit *kit = *state;
    struct pfl_ksym_set set;

    assert_int_equal(pfl_ksym_set_init(&set), 0);
    kit->reader.symbols = &set;
    kit_feed(kit, pfl_buf_get(&kit->pages));
    assert_int_equal(set.fresh_count, 0); /* the one text's `ip` is left out of its message */
    pfl_ksym_set_fini(&set);
}

/* The whole output, of all bundles, by a recording callback. */
static void keep_bundle(void *user, const struct pfl_span *parts, size_t count, uint64_t bytes)
{
    (void)bytes;
    for (size_t i = 0; i < count; i++)
        assert_int_equal(pfl_buf_append(user, parts[i].data, parts[i].len), 0);
}

static void feed_into(struct kit *kit, bool is_slow, struct pfl_buf *ret_bytes)
{
    struct pfl_page_cpu fresh = {0};

    pfl_buf_init(ret_bytes, 1 << 22);
    kit->cpu = fresh;
    kit->is_slow = is_slow;
    kit->reader.switch_plan = NULL;
    kit->reader.waking_plan = NULL;
    kit->reader.on_bundle = keep_bundle;
    kit->reader.user = ret_bytes;
    kit_feed(kit, pfl_buf_get(&kit->pages));
}

static void fast_path_and_slow_path_write_the_same_bytes(void **state)
{
    struct kit *kit = *state;
    struct pfl_buf fast;
    struct pfl_buf slow;

    /* Both events, then each alone. */
    for (unsigned i = 0; i < 3; i++) {
        kit_want(kit, "sched_switch", i != 1);
        kit_want(kit, "sched_waking", i != 2);
        feed_into(kit, false, &fast);
        feed_into(kit, true, &slow);
        assert_true(fast.len > 1000);
        assert_int_equal(fast.len, slow.len);
        assert_memory_equal(pfl_buf_get(&fast).data, pfl_buf_get(&slow).data, fast.len);
        pfl_buf_fini(&fast);
        pfl_buf_fini(&slow);
    }
}

static void compact_and_plain_tell_the_same_number_of_switches(void **state)
{
    struct kit *kit = *state;

    kit->reader.is_compact = false;
    kit_feed(kit, pfl_buf_get(&kit->pages));
    assert_int_equal(kit->switches, 0);
    assert_int_equal(kit->by_field[4], SWITCHES);
    assert_int_equal(kit->by_field[20], WAKINGS);
}

/* In the last bundle: CompactSched {intern_table = 5}. */
static void each_name_stands_once_in_the_table_of_a_bundle(void **state)
{
    static const uint32_t path[] = {4, 0};
    struct kit *kit = *state;
    struct pfl_span names[PFL_BUNDLE_NAMES_MAX];
    struct pfl_field f;
    struct pfl_reader r;
    size_t count = 0;

    kit_feed(kit, pfl_buf_get(&kit->pages));
    assert_true(kit_find(pfl_buf_get(&kit->last), path, &f));
    r = pfl_reader_of(f.bytes);
    while (pfl_reader_field(&r, &f)) {
        if (f.id != 5)
            continue;
        for (size_t i = 0; i < count; i++)
            assert_false(names[i].len == f.bytes.len &&
                         memcmp(names[i].data, f.bytes.data, f.bytes.len) == 0);
        names[count++] = f.bytes;
    }
    assert_true(count > 4);
}

static void unwanted_events_are_left_out(void **state)
{
    struct kit *kit = *state;

    memset(kit->wanted, 0, sizeof(kit->wanted));
    kit_feed(kit, pfl_buf_get(&kit->pages));
    assert_int_equal(kit->bundles, 0);
    kit_want(kit, "sched_switch", true);
    kit_feed(kit, pfl_buf_get(&kit->pages));
    assert_int_equal(kit->reader.events, SWITCHES);
    assert_int_equal(kit->bundles, 1);
}

static void page_cut_at_every_length_is_read_as_far_as_it_goes(void **state)
{
    struct kit *kit = *state;
    uint64_t before = 0;
    uint8_t *copy;

    for (size_t len = 0; len <= 4096; len++) {
        copy = pfl_mem_memdup(kit->pages.data, len);
        assert_non_null(copy);
        /* The header is made to claim what is there, so that records are cut and not the page. */
        if (len >= 16) {
            uint32_t commit = (uint32_t)(len - 16);

            memcpy(copy + 8, &commit, sizeof(commit));
        }
        kit->reader.events = 0;
        kit->reader.status_seen = 0;
        kit_feed(kit, pfl_span_of(copy, len));
        assert_true(kit->reader.events >= before);
        assert_true(len == 0 || len >= 16 || kit->reader.status_seen == 1u << PFL_PAGE_BAD_HEADER);
        before = kit->reader.events;
        pfl_mem_free(copy);
    }
    assert_true(before > 20);
}

static void lost_events_begin_a_bundle_that_says_so(void **state)
{
    struct kit *kit = *state;

    kit->pages.data[kit->pages.start + 4096 + 8 + 3] |= 0x80;
    kit_feed(kit, pfl_buf_get(&kit->pages));
    assert_int_equal(kit->bundles, 2);
    assert_int_equal(kit->lost, 1);
    assert_int_equal(kit->reader.events, RECORDS);
}

static void bad_page_is_reported_and_the_next_one_is_read(void **state)
{
    static const uint32_t status_path[] = {8, 2, 0};
    struct kit *kit = *state;
    uint8_t *page = kit->pages.data + kit->pages.start;
    struct pfl_field f;

    memset(page + 16, 0, 4); /* length word follows: a long record */
    memset(page + 20, 0, 4); /* ... of length 0 */
    kit_feed(kit, pfl_buf_get(&kit->pages));
    assert_int_equal(kit->errors, 1);
    assert_true(kit->reader.events > RECORDS / 2);
    assert_true(kit_find(pfl_buf_get(&kit->last), status_path, &f));
    assert_int_equal(f.value, PFL_PAGE_ZERO_LENGTH);
    assert_int_equal(kit->reader.status_seen, 1u << PFL_PAGE_ZERO_LENGTH);
}

static void every_byte_flipped_does_no_harm(void **state)
{
    struct kit *kit = *state;
    uint8_t *page = kit->pages.data + kit->pages.start;

    for (size_t i = 0; i < 4096; i++) {
        page[i] ^= 0xff;
        kit_feed(kit, pfl_span_of(page, 4096));
        page[i] ^= 0xff;
    }
    kit->reader.events = 0;
    kit_feed(kit, pfl_buf_get(&kit->pages));
    assert_int_equal(kit->reader.events, RECORDS);
}

static void long_input_makes_several_bundles_with_nothing_lost(void **state)
{
    struct kit *kit = *state;

    uint8_t *recorded = pfl_mem_memdup(kit->pages.data + kit->pages.start, kit->pages.len);
    size_t len = kit->pages.len;

    assert_non_null(recorded);
    for (int i = 0; i < 40; i++)
        assert_int_equal(pfl_buf_append(&kit->pages, recorded, len), 0);
    pfl_mem_free(recorded);
    kit_feed(kit, pfl_buf_get(&kit->pages));
    assert_int_equal(kit->reader.events, 41 * RECORDS);
    assert_int_equal(kit->switches, 41 * SWITCHES);
    assert_true(kit->bundles > 1);
}

static void threads_of_events_are_met(void **state)
{
    struct kit *kit = *state;
    struct pfl_pid_set pids;
    size_t met;

    memset(&pids, 0, sizeof(pids));
    kit->reader.pids = &pids;
    kit_feed(kit, pfl_buf_get(&kit->pages));
    met = pids.fresh_count;
    assert_true(met > 5);
    assert_false(pfl_pid_set_has(&pids, 0));
    pfl_pid_set_clear_fresh(&pids);
    kit_feed(kit, pfl_buf_get(&kit->pages));
    /* Only renamed threads are of interest again. */
    assert_true(pids.fresh_count > 0 && pids.fresh_count <= 7);
    pfl_pid_set_fini(&pids);
}

static int make_kit(void *arg)
{
    int rc = kit_init(arg);

    if (rc == 0)
        kit_fini(arg);
    return rc;
}

static void construction_survives_every_failed_allocation(void **state)
{
    static struct kit kit;

    (void)state;
    pfl_sweep(make_kit, &kit, false);
}

/* A page with one raw_syscalls/sys_exit of the thread 77. */
static void feed_exit(struct kit *kit, int64_t number, int64_t result)
{
    static uint8_t page[4096];
    const struct {
        uint64_t time_ns;
        uint64_t commit;
        uint32_t header; /* no time since the page's, six words */
        uint16_t event;
        uint16_t flags;
        int32_t pid;
    } head = {1000, 4 + 24, 6, kit_plan(kit, "sys_exit")->event_id, 0, 77};

    memcpy(page, &head, 28);
    memcpy(page + 28, &number, sizeof(number));
    memcpy(page + 36, &result, sizeof(result));
    kit_feed(kit, pfl_span_of(page, sizeof(page)));
}

static void files_that_system_calls_open_are_met(void **state)
{
    struct kit *kit = *state;
    struct pfl_open_files files = {0};

    kit->reader.files = &files;
    feed_exit(kit, SYS_openat, 5);
    feed_exit(kit, SYS_socket, 6);
    feed_exit(kit, SYS_dup3, 0);
    feed_exit(kit, SYS_openat, -2); /* ENOENT */
    feed_exit(kit, SYS_read, 7);
    feed_exit(kit, SYS_dup, INT64_C(1) << 33);
    assert_int_equal(kit->by_field[330], 6);
    assert_int_equal(files.fresh_count, 3);
    for (int32_t i = 0; i < 3; i++) {
        assert_int_equal(files.fresh[i].id, 77);
        assert_int_equal(files.fresh[i].fd, i == 2 ? 0 : 5 + i);
    }
    pfl_open_files_fini(&files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_record_arrives_once, kit_setup, kit_teardown),
        cmocka_unit_test_setup_teardown(filters_take_texts_and_system_calls_out, kit_setup,
                                        kit_teardown),
        cmocka_unit_test_setup_teardown(addresses_of_the_kernel_are_met, kit_setup, kit_teardown),
        cmocka_unit_test_setup_teardown(fast_path_and_slow_path_write_the_same_bytes, kit_setup,
                                        kit_teardown),
        cmocka_unit_test_setup_teardown(compact_and_plain_tell_the_same_number_of_switches,
                                        kit_setup, kit_teardown),
        cmocka_unit_test_setup_teardown(each_name_stands_once_in_the_table_of_a_bundle, kit_setup,
                                        kit_teardown),
        cmocka_unit_test_setup_teardown(unwanted_events_are_left_out, kit_setup, kit_teardown),
        cmocka_unit_test_setup_teardown(page_cut_at_every_length_is_read_as_far_as_it_goes,
                                        kit_setup, kit_teardown),
        cmocka_unit_test_setup_teardown(lost_events_begin_a_bundle_that_says_so, kit_setup,
                                        kit_teardown),
        cmocka_unit_test_setup_teardown(bad_page_is_reported_and_the_next_one_is_read, kit_setup,
                                        kit_teardown),
        cmocka_unit_test_setup_teardown(every_byte_flipped_does_no_harm, kit_setup, kit_teardown),
        cmocka_unit_test_setup_teardown(long_input_makes_several_bundles_with_nothing_lost,
                                        kit_setup, kit_teardown),
        cmocka_unit_test_setup_teardown(threads_of_events_are_met, kit_setup, kit_teardown),
        cmocka_unit_test_setup_teardown(files_that_system_calls_open_are_met, kit_setup,
                                        kit_teardown),
        cmocka_unit_test(construction_survives_every_failed_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
