/* SPDX-License-Identifier: Apache-2.0 */
/* /proc files into ProcessTree and ProcessStats. */
#include "agent/probes/procfs/proc_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "agent/probes/procfs/pid_set.h"
#include "agent/probes/procfs/proc_text.h"
#include "perfetto/os_configs.fields.h"
#include "perfetto/process_stats.fields.h"
#include "tests/support/sweep.h"
#include "tests/unit/agent/probes/ftrace_kit.h"

#define TEXT(s) pfl_span_of((s), sizeof(s) - 1)

static const char status[] = "Name:\tmy prog\nTgid:\t41\nPid:\t41\nPPid:\t7\nUid:\t1000\t0\t0\t0\n"
                             "NSpid:\t41\t3\nKthread:\t0\nVmSize:\t   5992 kB\nVmRSS:\t 92 kB\n";
static const char stat[] = "41 (a) b) c) S 7 1 1 0 -1 1 2 3 4 5 600 700 0 0 20 0 1 0 12345 9 9\n";

static void process_is_described(void **state)
{
    static const uint32_t paths[][3] = {{1, 1, 0}, {1, 2, 0}, {1, 5, 0}, {1, 6, 0}, {1, 7, 0}};
    static const uint64_t values[] = {41, 7, 1000, 3, UINT64_C(123450000000)};
    static const uint32_t cmdline[] = {1, 3, 0};
    static const uint32_t is_comm[] = {1, 9, 0};
    struct pfl_probe_message m;
    struct pfl_field f;

    (void)state;
    pfl_probe_message_init(&m, 65536);
    pfl_proc_tree_add_process(&m, TEXT(status), TEXT("/bin/prog\0-v\0"), TEXT(stat));
    assert_false(m.failed);
    for (size_t i = 0; i < 5; i++) {
        assert_true(kit_find(pfl_buf_get(&m.buf), paths[i], &f));
        assert_int_equal(f.value, values[i]);
    }
    assert_true(kit_find(pfl_buf_get(&m.buf), cmdline, &f));
    assert_memory_equal(f.bytes.data, "/bin/prog", f.bytes.len);
    assert_false(kit_find(pfl_buf_get(&m.buf), is_comm, &f));
    pfl_probe_message_clear(&m);
    pfl_proc_tree_add_process(&m, TEXT(status), TEXT(""), TEXT(""));
    assert_true(kit_find(pfl_buf_get(&m.buf), is_comm, &f));
    pfl_probe_message_fini(&m);
    pfl_sweep_assert_no_leak();
}

static void counters_are_written_when_they_change(void **state)
{
    static const uint32_t rss[] = {1, 3, 0};
    static const uint32_t user[] = {1, 21, 0};
    struct pfl_proc_texts texts = {
        .status = TEXT(status), .oom_score_adj = TEXT("-17\n"), .stat = TEXT(stat)};
    struct pfl_proc_counters last;
    struct pfl_probe_message m;
    struct pfl_field f;

    (void)state;
    pfl_proc_counters_reset(&last);
    pfl_probe_message_init(&m, 65536);
    assert_true(pfl_proc_counters_add(&m, 41, &texts, &last));
    assert_true(kit_find(pfl_buf_get(&m.buf), rss, &f));
    assert_int_equal(f.value, 92);
    assert_true(kit_find(pfl_buf_get(&m.buf), user, &f));
    assert_int_equal(f.value, UINT64_C(6000000000));
    pfl_probe_message_clear(&m);
    assert_true(pfl_proc_counters_add(&m, 41, &texts, &last));
    assert_int_equal(m.buf.len, 0);
    texts.status = TEXT("Name:\tkthreadd\n");
    assert_false(pfl_proc_counters_add(&m, 41, &texts, &last));
    pfl_probe_message_fini(&m);
    pfl_sweep_assert_no_leak();
}

static void dmabuf_memory_is_reported_in_kib(void **state)
{
    static const uint32_t dmabuf[] = {1, 24, 0};
    struct pfl_proc_texts texts = {.status = TEXT(status), .dmabuf_rss = TEXT("8192\n")};
    struct pfl_proc_counters last;
    struct pfl_probe_message m;
    struct pfl_field f;

    (void)state;
    pfl_proc_counters_reset(&last);
    pfl_probe_message_init(&m, 65536);
    assert_true(pfl_proc_counters_add(&m, 41, &texts, &last));
    assert_true(kit_find(pfl_buf_get(&m.buf), dmabuf, &f));
    assert_int_equal(f.value, 8);
    pfl_probe_message_fini(&m);
    pfl_sweep_assert_no_leak();
}

static void open_files_are_reported_with_their_process(void **state)
{
    static const uint32_t pid[] = {1, 1, 0};
    static const uint32_t fd[] = {1, 15, 1, 0};
    static const uint32_t path[] = {1, 15, 2, 0};
    struct pfl_probe_message m;
    struct pfl_field f;

    (void)state;
    pfl_probe_message_init(&m, 65536);
    pfl_proc_stats_begin_process(&m, 41);
    pfl_proc_stats_add_fd(&m, 0, TEXT("/dev/null"));
    pfl_probe_message_end(&m);
    assert_true(kit_find(pfl_buf_get(&m.buf), pid, &f));
    assert_int_equal(f.value, 41);
    assert_true(kit_find(pfl_buf_get(&m.buf), fd, &f));
    assert_int_equal(f.value, 0);
    assert_true(kit_find(pfl_buf_get(&m.buf), path, &f));
    assert_memory_equal(f.bytes.data, "/dev/null", f.bytes.len);
    pfl_probe_message_fini(&m);
    pfl_sweep_assert_no_leak();
}

static void texts_cut_at_every_length_do_no_harm(void **state)
{
    struct pfl_probe_message m;

    (void)state;
    pfl_probe_message_init(&m, 1 << 20);
    for (size_t len = 0; len < sizeof(status); len++) {
        pfl_proc_tree_add_process(&m, pfl_span_of(status, len), pfl_span_of(NULL, 0),
                                  pfl_span_of(stat, len < sizeof(stat) ? len : sizeof(stat)));
        pfl_proc_tree_add_thread(&m, 1, 1, pfl_span_of(status, len), true);
    }
    assert_false(m.failed);
    pfl_probe_message_fini(&m);
}

static void config_is_read_and_bounded(void **state)
{
    static const uint8_t config[] = {0x08, 2, 0x10, 1, 0x18, 1, 0x20, 50, 0x30, 0xe8, 0x07};
    struct pfl_process_conf conf;

    (void)state;
    pfl_process_conf_parse(pfl_span_of(config, sizeof(config)), &conf);
    assert_true(conf.no_on_demand && conf.scan_all_on_start && conf.record_thread_names);
    assert_int_equal(conf.poll_ms, 100);
    assert_int_equal(conf.cache_ticks, 10);
}

static void pid_set_tells_each_pid_once(void **state)
{
    static struct pfl_pid_set set;
    int32_t added = 0;

    (void)state;
    assert_true(pfl_pid_set_add(&set, 1));
    assert_false(pfl_pid_set_add(&set, 1));
    assert_true(pfl_pid_set_add(&set, PFL_PID_MAX - 1));
    assert_false(pfl_pid_set_add(&set, PFL_PID_MAX));
    assert_false(pfl_pid_set_add(&set, 0));
    assert_false(pfl_pid_set_add(&set, -3));
    pfl_pid_set_remove(&set, PFL_PID_MAX - 1);
    assert_false(pfl_pid_set_has(&set, PFL_PID_MAX - 1));
    assert_true(pfl_pid_set_has(&set, 1));
    for (int32_t pid = 2; pid < 20000; pid++)
        added += pfl_pid_set_add(&set, pid);
    assert_int_equal(set.fresh_count, PFL_PID_FRESH_MAX);
    pfl_pid_set_clear_fresh(&set);
    assert_true(pfl_pid_set_add(&set, 19999)); /* left out before, not forgotten */
    assert_int_equal(added, PFL_PID_FRESH_MAX - 2);
    pfl_pid_set_fini(&set);
    pfl_sweep_assert_no_leak();
}

static void without_a_start_in_stat_no_start_is_written(void **state)
{
    static const uint32_t start[] = {1, 7, 0};
    static const char *const cut[] = {"", "41 (a", "41 (a) S 7",
                                      "41 (a) S 7 1 1 0 -1 1 2 3 4 5 600 700 0 0 20 0 1 0",
                                      "41 (a) S 7 1 1 0 -1 1 2 3 4 5 600 700 0 0 20 0 1 0 0 9"};
    struct pfl_probe_message m;
    struct pfl_field f;

    (void)state;
    pfl_probe_message_init(&m, 65536);
    for (size_t i = 0; i < sizeof(cut) / sizeof(cut[0]); i++) {
        pfl_proc_tree_add_process(&m, TEXT(status), TEXT("x"), pfl_span_of(cut[i], strlen(cut[i])));
        assert_false(m.failed);
        assert_false(kit_find(pfl_buf_get(&m.buf), start, &f));
        pfl_probe_message_clear(&m);
    }
    pfl_probe_message_fini(&m);
}

static void each_flag_of_a_config_is_its_own(void **state)
{
    static const struct {
        uint8_t field;
        size_t at;
    } flags[] = {
        {PROCESS_STATS_CONFIG__SCAN_ALL_PROCESSES_ON_START,
         offsetof(struct pfl_process_conf, scan_all_on_start)},
        {PROCESS_STATS_CONFIG__RECORD_THREAD_NAMES,
         offsetof(struct pfl_process_conf, record_thread_names)},
        {PROCESS_STATS_CONFIG__SCAN_SMAPS_ROLLUP,
         offsetof(struct pfl_process_conf, scan_smaps_rollup)},
        {PROCESS_STATS_CONFIG__RECORD_PROCESS_AGE, offsetof(struct pfl_process_conf, record_age)},
        {PROCESS_STATS_CONFIG__RECORD_PROCESS_RUNTIME,
         offsetof(struct pfl_process_conf, record_runtime)},
        {PROCESS_STATS_CONFIG__SKIP_MAIN_THREAD_MESSAGE,
         offsetof(struct pfl_process_conf, skip_main_thread)},
        {PROCESS_STATS_CONFIG__RESOLVE_PROCESS_FDS, offsetof(struct pfl_process_conf, resolve_fds)},
        {PROCESS_STATS_CONFIG__RECORD_PROCESS_DMABUF_RSS,
         offsetof(struct pfl_process_conf, record_dmabuf)},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        struct pfl_process_conf expected;
        struct pfl_process_conf conf;
        uint8_t config[2] = {(uint8_t)(flags[i].field << 3), 1};

        memset(&expected, 0, sizeof(expected));
        *((bool *)(void *)((uint8_t *)&expected + flags[i].at)) = true;
        pfl_process_conf_parse(pfl_span_of(config, sizeof(config)), &conf);
        assert_memory_equal(&conf, &expected, sizeof(conf));
        config[1] = 0;
        pfl_process_conf_parse(pfl_span_of(config, sizeof(config)), &conf);
        *((bool *)(void *)((uint8_t *)&expected + flags[i].at)) = false;
        assert_memory_equal(&conf, &expected, sizeof(conf));
    }
}

static struct pfl_process_conf conf_of(uint64_t poll_ms, uint64_t ttl_ms)
{
    uint8_t config[32];
    struct pfl_writer w = pfl_writer_of(config, sizeof(config));
    struct pfl_process_conf conf;

    pfl_writer_field_varint(&w, PROCESS_STATS_CONFIG__PROC_STATS_POLL_MS, poll_ms);
    pfl_writer_field_varint(&w, PROCESS_STATS_CONFIG__PROC_STATS_CACHE_TTL_MS, ttl_ms);
    pfl_process_conf_parse(pfl_span_of(config, sizeof(config) - w.left), &conf);
    return conf;
}

static void a_period_is_bounded_and_counters_are_written_again_after_whole_periods(void **state)
{
    (void)state;
    assert_int_equal(conf_of(0, 1000).poll_ms, 0);
    assert_int_equal(conf_of(0, 1000).cache_ticks, 0);
    assert_int_equal(conf_of(1, 0).poll_ms, 100);
    assert_int_equal(conf_of(99, 0).poll_ms, 100);
    assert_int_equal(conf_of(101, 0).poll_ms, 101);
    assert_int_equal(conf_of(3600000, 0).poll_ms, 3600000);
    assert_int_equal(conf_of(3600001, 0).poll_ms, 3600000);
    assert_int_equal(conf_of(200, 0).cache_ticks, 1);
    assert_int_equal(conf_of(200, 399).cache_ticks, 1);
    assert_int_equal(conf_of(200, 400).cache_ticks, 2);
    assert_int_equal(conf_of(200, UINT64_MAX).cache_ticks, UINT32_MAX);
}

static void each_counter_of_status_is_read(void **state)
{
    static const char text[] = "VmSize:\t1 kB\nVmRSS:\t2 kB\nRssAnon:\t3 kB\nRssFile:\t4 kB\n"
                               "RssShmem:\t5 kB\nVmSwap:\t6 kB\nVmLck:\t7 kB\nVmHWM:\t8 kB\n";
    static const uint32_t fields[] = {
        PROCESS_STATS__PROCESS__VM_SIZE_KB,   PROCESS_STATS__PROCESS__VM_RSS_KB,
        PROCESS_STATS__PROCESS__RSS_ANON_KB,  PROCESS_STATS__PROCESS__RSS_FILE_KB,
        PROCESS_STATS__PROCESS__RSS_SHMEM_KB, PROCESS_STATS__PROCESS__VM_SWAP_KB,
        PROCESS_STATS__PROCESS__VM_LOCKED_KB, PROCESS_STATS__PROCESS__VM_HWM_KB};
    struct pfl_proc_texts texts = {.status = TEXT(text)};
    struct pfl_proc_counters last;
    struct pfl_probe_message m;
    struct pfl_field f;

    (void)state;
    pfl_proc_counters_reset(&last);
    pfl_probe_message_init(&m, 65536);
    assert_true(pfl_proc_counters_add(&m, 41, &texts, &last));
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        const uint32_t path[] = {1, fields[i], 0};

        assert_true(kit_find(pfl_buf_get(&m.buf), path, &f));
        assert_int_equal(f.value, i + 1);
    }
    pfl_probe_message_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(process_is_described),
        cmocka_unit_test(counters_are_written_when_they_change),
        cmocka_unit_test(dmabuf_memory_is_reported_in_kib),
        cmocka_unit_test(open_files_are_reported_with_their_process),
        cmocka_unit_test(texts_cut_at_every_length_do_no_harm),
        cmocka_unit_test(config_is_read_and_bounded),
        cmocka_unit_test(pid_set_tells_each_pid_once),
        cmocka_unit_test(without_a_start_in_stat_no_start_is_written),
        cmocka_unit_test(each_flag_of_a_config_is_its_own),
        cmocka_unit_test(a_period_is_bounded_and_counters_are_written_again_after_whole_periods),
        cmocka_unit_test(each_counter_of_status_is_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
