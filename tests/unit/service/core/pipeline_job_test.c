/* SPDX-License-Identifier: Apache-2.0 */
/* What a session's pipeline keeps from one batch to the next is its user's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/mem.h"
#include "service/core/pipeline_job.h"
#include "tests/support/sweep.h"

#define PACKET_BYTES (3u << 20)
#define USER         7u

static struct pfl_shares shares;

static uint64_t read_clock(void *user, enum pfl_clock_id id)
{
    (void)user;
    (void)id;
    return 1;
}

static void run_batch(struct pfl_pipeline_job *job)
{
    static uint8_t text[PACKET_BYTES];
    const struct iovec slice = {.iov_base = text, .iov_len = sizeof(text)};
    struct pfl_span packet;
    unsigned count = 0;

    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = (uint8_t)(i * i >> 7);
    assert_int_equal(pfl_pipeline_add(job->pipeline, &slice, 1, (struct pfl_span){0}, 0), 0);
    assert_int_equal(pfl_pipeline_job_start(job), 0);
    while (pfl_pipeline_next(job->pipeline, &packet)) {
        assert_in_range(packet.len, 1, PACKET_BYTES - 1); /* it is compressed */
        count++;
    }
    assert_int_equal(count, 1);
}

static struct pfl_pipeline_job *make_job(struct pfl_session_plan **ret_plan)
{
    /* buffers { size_kb: 4 } */
    static const uint8_t config[] = {0x0a, 0x02, 0x08, 0x04};
    const struct pfl_pipeline_job_conf conf = {
        .now_ns = read_clock, .who = USER, .charged = &shares};
    struct pfl_pipeline_job *job;

    assert_int_equal(pfl_session_plan_new(pfl_span_of(config, sizeof(config)), ret_plan), 0);
    (*ret_plan)->codec = PFL_CODEC_ZSTD;
    (*ret_plan)->zstd_level = 22;
    assert_int_equal(pfl_pipeline_job_new(*ret_plan, &conf, &job), 0);
    return job;
}

static void what_is_kept_after_a_batch_is_charged_to_the_user(void **state)
{
    struct pfl_session_plan *plan;
    struct pfl_pipeline_job *job;

    (void)state;
    shares = (struct pfl_shares){.max = 512u << 20};
    job = make_job(&plan);
    run_batch(job);
    assert_in_range(pfl_shares_get(&shares, USER), 20u << 20, 60u << 20);
    run_batch(job);
    assert_in_range(shares.used, 20u << 20, 60u << 20);
    pfl_pipeline_job_free(job);
    pfl_session_plan_free(plan);
    assert_int_equal(shares.used, 0);
    pfl_sweep_assert_no_leak();
}

static void past_the_share_nothing_is_kept_and_batches_go_on(void **state)
{
    struct pfl_session_plan *plan;
    struct pfl_pipeline_job *job;

    (void)state;
    shares = (struct pfl_shares){.max = 1u << 20};
    job = make_job(&plan);
    for (unsigned i = 0; i < 2; i++) {
        run_batch(job);
        assert_int_equal(shares.used, 0);
        assert_true(pfl_pipeline_get_kept_bytes(job->pipeline) < 65536);
    }
    pfl_pipeline_job_free(job);
    pfl_session_plan_free(plan);
    pfl_sweep_assert_no_leak();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_kept_after_a_batch_is_charged_to_the_user),
        cmocka_unit_test(past_the_share_nothing_is_kept_and_batches_go_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
