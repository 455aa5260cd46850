/* SPDX-License-Identifier: Apache-2.0 */
/* Exit codes and words of a recording's end. */
#include "consumer/report/summary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support/sweep.h"

#define OUT_MAX 65536u

static const struct pfl_summary_host good_host = {
    .name = "a",
    .address = "unix:/a",
    .why = "",
    .is_merged = true,
    .is_reference = true,
    .packets = 10,
    .bytes = 1000,
    .has_losses = true,
};

static struct pfl_summary summary_of(const struct pfl_summary_host *hosts, size_t len)
{
    return (struct pfl_summary){.hosts = hosts,
                                .hosts_len = len,
                                .path = "x.pftrace",
                                .file_bytes = 2000,
                                .why = "",
                                .seconds = 1.5};
}

static enum pfl_exit exit_of(struct pfl_summary_host a, struct pfl_summary_host b)
{
    const struct pfl_summary_host hosts[] = {a, b};
    struct pfl_summary s = summary_of(hosts, 2);

    return pfl_summary_exit(&s);
}

static void exit_code_is_the_worst_that_happened(void **state)
{
    struct pfl_summary_host lossy = good_host;
    struct pfl_summary_host marked = good_host;
    struct pfl_summary_host failed = {.name = "", .address = "x", .why = "refused"};
    struct pfl_summary_host cut = good_host;
    struct pfl_summary s = summary_of(&good_host, 1);

    (void)state;
    lossy.losses.writer_losses = 1;
    marked.loss_marks = 1;
    cut.why = "reading: gone";
    assert_int_equal(exit_of(good_host, good_host), PFL_EXIT_OK);
    assert_int_equal(exit_of(good_host, lossy), PFL_EXIT_LOSS);
    assert_int_equal(exit_of(marked, good_host), PFL_EXIT_LOSS);
    assert_int_equal(exit_of(lossy, failed), PFL_EXIT_PARTIAL);
    assert_int_equal(exit_of(good_host, cut), PFL_EXIT_PARTIAL);
    assert_int_equal(exit_of(failed, failed), PFL_EXIT_NOTHING);
    s.is_aborted = true;
    assert_int_equal(pfl_summary_exit(&s), PFL_EXIT_ABORT);
    s.has_file_failed = true;
    assert_int_equal(pfl_summary_exit(&s), PFL_EXIT_FILE);
}

static void text_tells_hosts_losses_and_clocks(void **state)
{
    struct pfl_summary_host hosts[3] = {
        good_host, good_host, {.name = "", .address = "tls://c:1", .why = "connecting: no"}};
    struct pfl_summary s = summary_of(hosts, 3);
    struct pfl_buf out;
    const char *text;

    (void)state;
    hosts[1].name = "b";
    hosts[1].is_reference = false;
    hosts[1].has_offset = true;
    hosts[1].offset_ns = 1500000000;
    hosts[1].error_ns = 20000;
    hosts[1].losses.chunks_discarded = 3;
    hosts[1].loss_marks = 2;
    s.has_skew = true;
    s.skew_ns = 250000;
    pfl_buf_init(&out, OUT_MAX);
    assert_int_equal(pfl_summary_text(&s, &out), 0);
    assert_int_equal(pfl_buf_append(&out, "", 1), 0);
    text = (const char *)pfl_buf_get(&out).data;
    assert_non_null(strstr(text, "host a: 10 packets, 1000 bytes, losses 0, clock reference\n"));
    assert_non_null(strstr(text, "losses 3, clock +1.500000 s +- 0.000020 s\n"));
    assert_non_null(strstr(text, "  lost: 3 chunks discarded"));
    assert_non_null(strstr(text, "  lost: 2 gaps"));
    assert_non_null(strstr(text, "host tls://c:1: FAILED: connecting: no\n"));
    assert_non_null(strstr(text, "start skew: 0.250 ms\n"));
    assert_non_null(strstr(text, "trace x.pftrace: 2000 bytes, 2 of 3 hosts, 1.5 s\n"));
    pfl_buf_fini(&out);
    pfl_sweep_assert_no_leak();
}

static void a_full_ring_is_no_loss_of_a_session_left_running(void **state)
{
    struct pfl_summary_host host = good_host;
    struct pfl_summary s = summary_of(&host, 1);

    (void)state;
    host.losses.chunks_overwritten = 70;
    host.loss_marks = 2;
    assert_int_equal(pfl_summary_losses(&s, &host), 70);
    s.session = "flight";
    s.is_ring = true;
    assert_int_equal(pfl_summary_losses(&s, &host), 0);
    assert_int_equal(pfl_summary_exit(&s), PFL_EXIT_OK);
    host.losses.writer_losses = 1;
    assert_int_equal(pfl_summary_exit(&s), PFL_EXIT_LOSS);
}

static void sessions_left_running_are_told_without_a_trace(void **state)
{
    struct pfl_summary_host hosts[2] = {good_host,
                                        {.name = "b", .address = "b", .why = "connecting: no"}};
    struct pfl_summary s = summary_of(hosts, 2);
    struct pfl_buf out;
    const char *text;

    (void)state;
    s.path = NULL;
    s.session = "flight";
    pfl_buf_init(&out, OUT_MAX);
    assert_int_equal(pfl_summary_text(&s, &out), 0);
    assert_int_equal(pfl_summary_json(&s, &out), 0);
    assert_int_equal(pfl_buf_append(&out, "", 1), 0);
    text = (const char *)pfl_buf_get(&out).data;
    assert_non_null(strstr(text, "host a: started\nhost b: FAILED: connecting: no\n"));
    assert_non_null(strstr(text, "session flight runs on 1 of 2 hosts\n"));
    assert_non_null(strstr(text, "\"running\": true"));
    assert_null(strstr(text, "packets"));
    pfl_buf_fini(&out);
    pfl_sweep_assert_no_leak();
}

static void json_carries_exit_code_and_hosts(void **state)
{
    struct pfl_summary s = summary_of(&good_host, 1);
    struct pfl_buf out;

    (void)state;
    pfl_buf_init(&out, OUT_MAX);
    assert_int_equal(pfl_summary_json(&s, &out), 0);
    assert_int_equal(pfl_buf_append(&out, "", 1), 0);
    assert_non_null(strstr((const char *)out.data, "\"exit_code\": 0"));
    assert_non_null(strstr((const char *)out.data, "\"packets\": 10"));
    pfl_buf_fini(&out);
    pfl_sweep_assert_no_leak();
}

static int json_once(void *arg)
{
    struct pfl_summary s = summary_of(&good_host, 1);
    struct pfl_buf out;
    int rc;

    (void)arg;
    pfl_buf_init(&out, OUT_MAX);
    rc = pfl_summary_json(&s, &out);
    if (rc == 0)
        rc = pfl_summary_text(&s, &out);
    pfl_buf_fini(&out);
    return rc;
}

static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    pfl_sweep(json_once, NULL, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exit_code_is_the_worst_that_happened),
        cmocka_unit_test(text_tells_hosts_losses_and_clocks),
        cmocka_unit_test(a_full_ring_is_no_loss_of_a_session_left_running),
        cmocka_unit_test(sessions_left_running_are_told_without_a_trace),
        cmocka_unit_test(json_carries_exit_code_and_hosts),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
