/* SPDX-License-Identifier: Apache-2.0 */
/* per_cpu/cpuN/stats into FtraceCpuStats, of one buffer and of two. */
#include "agent/probes/tracefs/cpu_stats.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/err.h"
#include "tests/support/sweep.h"

static const char text[] = "entries: 12\noverrun: 3\ncommit overrun: 1\nbytes: 640\n"
                           "oldest event ts:  1344.500000\nnow ts:  1345.250000\n"
                           "dropped events: 2\nread events: 7\n";

static struct pfl_cpu_stats parse(const char *s, size_t len)
{
    struct pfl_cpu_stats stats;

    pfl_cpu_stats_parse(pfl_span_of((const uint8_t *)s, len), &stats);
    return stats;
}

static void all_of_a_file_is_read(void **state)
{
    struct pfl_cpu_stats stats = parse(text, sizeof(text) - 1);
    static const double expected[PFL_CPU_STATS] = {12, 3, 1, 640, 1344.5, 1345.25, 2, 7};

    (void)state;
    assert_int_equal(stats.has, (1 << PFL_CPU_STATS) - 1);
    for (size_t i = 0; i < PFL_CPU_STATS; i++)
        assert_true(stats.values[i] == expected[i]);
}

static void what_makes_no_sense_is_left_out(void **state)
{
    char large[PFL_CPU_STATS_BYTES + 8];

    (void)state;
    assert_int_equal(parse("", 0).has, 0);
    assert_int_equal(parse("entries: x\n", 11).has, 0);
    assert_int_equal(parse("entries: -1\n", 12).has, 0);
    assert_int_equal(parse("entries: nan\n", 13).has, 0);
    assert_int_equal(parse("entries: 1e99\n", 14).has, 0);
    memset(large, '1', sizeof(large));
    assert_int_equal(parse(large, sizeof(large)).has, 0);
    for (size_t cut = 0; cut < sizeof(text); cut++)
        (void)parse(text, cut);
}

static void two_buffers_of_a_cpu_are_one(void **state)
{
    struct pfl_cpu_stats sum = parse(text, sizeof(text) - 1);
    struct pfl_cpu_stats other = parse("entries: 1\noverrun: 10\noldest event ts: 1000.5\n"
                                       "now ts: 2000.5\nread events: 5\n",
                                       76);
    struct pfl_cpu_stats empty = parse("oldest event ts: 0.0\n", 21);

    (void)state;
    pfl_cpu_stats_add(&sum, &other);
    assert_true(sum.values[PFL_CPU_ENTRIES] == 13);
    assert_true(sum.values[PFL_CPU_OVERRUN] == 13);
    assert_true(sum.values[PFL_CPU_DROPPED] == 2);
    assert_true(sum.values[PFL_CPU_READ] == 12);
    assert_true(sum.values[PFL_CPU_OLDEST_TS] == 1000.5);
    assert_true(sum.values[PFL_CPU_NOW_TS] == 1345.25);
    pfl_cpu_stats_add(&sum, &empty);
    assert_true(sum.values[PFL_CPU_OLDEST_TS] == 1000.5);
    pfl_cpu_stats_add(&empty, &sum);
    assert_true(empty.values[PFL_CPU_OLDEST_TS] == 1000.5);
}

static int encode(void *arg)
{
    struct pfl_cpu_stats stats = parse(text, sizeof(text) - 1);
    struct pfl_probe_message message;
    struct pfl_reader r;
    struct pfl_field f;
    int rc;

    (void)arg;
    pfl_probe_message_init(&message, 4096);
    pfl_cpu_stats_encode(&stats, 5, &message);
    rc = message.failed ? PFL_ENOMEM : 0;
    if (rc == 0) {
        r = pfl_reader_of(pfl_buf_get(&message.buf));
        assert_true(pfl_reader_field(&r, &f));
        assert_int_equal(f.id, 2);
        r = pfl_reader_of(f.bytes);
        for (uint32_t id = 1; id <= 9; id++) {
            assert_true(pfl_reader_field(&r, &f));
            assert_int_equal(f.id, id);
        }
        assert_int_equal(f.value, 7);
    }
    pfl_probe_message_fini(&message);
    return rc;
}

static void it_is_written_as_perfetto_has_it_or_fails(void **state)
{
    (void)state;
    pfl_sweep(encode, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_a_file_is_read),
        cmocka_unit_test(what_makes_no_sense_is_left_out),
        cmocka_unit_test(two_buffers_of_a_cpu_are_one),
        cmocka_unit_test(it_is_written_as_perfetto_has_it_or_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
