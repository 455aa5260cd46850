/* SPDX-License-Identifier: Apache-2.0 */
/* What the doctor says of hosts, and how bad it is. */
#include "consumer/report/health.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/recorded.h"
#include "tests/support/sweep.h"

#define OUT_MAX 65536u
#define NOW_S   1000000000
#define DAY_S   86400

/* TracingServiceState { data_sources { ds_descriptor { name: "x" } } tracing_service_version } */
static const uint8_t state_a[] = {0x12, 0x05, 0x0a, 0x03, 0x0a, 0x01, 'x', 0x2a, 0x01, 'A'};
static const uint8_t state_b[] = {0x12, 0x05, 0x0a, 0x03, 0x0a, 0x01, 'y', 0x2a, 0x01, 'B'};
/* TraceConfig { data_sources { config { name: "x" } } } */
static const uint8_t config[] = {0x12, 0x05, 0x0a, 0x03, 0x0a, 0x01, 'x'};

static const struct pfl_health_host well = {
    .name = "a",
    .why = "",
    .agent = "",
    .state = {state_a, sizeof(state_a)},
    .has_clock = true,
    .offset_ns = 5000000000,
    .error_ns = 20000,
};

static struct pfl_health_conf conf_of(const struct pfl_health_host *hosts, size_t len)
{
    return (struct pfl_health_conf){.hosts = hosts,
                                    .hosts_len = len,
                                    .trace_config = pfl_span_of(config, sizeof(config)),
                                    .now_s = NOW_S,
                                    .own_version = "0.2",
                                    .our_cert_end_s = NOW_S + 90 * DAY_S};
}

/* The judgement holds these words, and is so bad. */
static void says(const struct pfl_health_conf *conf, const char *words, enum pfl_health worst)
{
    enum pfl_health got;
    struct pfl_buf out;

    pfl_buf_init(&out, OUT_MAX);
    assert_int_equal(pfl_health_text(conf, &out, &got), 0);
    assert_int_equal(pfl_buf_append(&out, "", 1), 0);
    assert_non_null(strstr((const char *)pfl_buf_get(&out).data, words));
    assert_int_equal(got, worst);
    pfl_buf_fini(&out);
    pfl_sweep_assert_no_leak();
}

static void a_host_without_findings_is_well(void **state)
{
    struct pfl_health_conf conf = conf_of(&well, 1);

    (void)state;
    says(&conf, "well    a: clock +5.000000 s +- 0.000020 s\n", PFL_HEALTH_GOOD);
}

static void each_trouble_is_reported_with_its_remedy(void **state)
{
    struct pfl_health_host hosts[2] = {well, well};
    struct pfl_health_conf conf = conf_of(hosts, 2);

    (void)state;
    hosts[1].name = "b";
    hosts[1].why = "nothing answers";
    says(&conf, "BAD     b: reachable: nothing answers\n", PFL_HEALTH_BAD);
    hosts[1].why = "";
    hosts[1].error_ns = 2500000;
    says(&conf, "warning b: clock: known to +- 2.500 ms", PFL_HEALTH_WARNING);
    hosts[1].has_clock = false;
    says(&conf, "warning b: clock: cannot be measured", PFL_HEALTH_WARNING);
    hosts[1] = well;
    hosts[1].name = "b";
    hosts[1].state = pfl_span_of(state_b, sizeof(state_b));
    says(&conf, "warning b: version: the service is \"B\", elsewhere \"A\"\n", PFL_HEALTH_WARNING);
    says(&conf, "warning b: data source: no producer there offers \"x\"", PFL_HEALTH_WARNING);
    hosts[1].state.len--;
    says(&conf, "BAD     b: reachable: its service state is malformed", PFL_HEALTH_BAD);
}

/* data_sources { ds_descriptor { name: "x" ftrace_descriptor { perfleet_no_print: "its" } } } */
static const uint8_t state_busy[] = {0x12, 0x0e, 0x0a, 0x0c, 0x0a, 0x01, 'x',  0x42, 0x07, 0x8a,
                                     0xb5, 0x18, 0x03, 'i',  't',  's',  0x2a, 0x01, 'A'};

static void a_host_that_cannot_record_ftrace_print_says_why(void **state)
{
    /* TraceConfig { data_sources { config { name: "x" } } builtin: "ftrace/print" } as good as */
    static const uint8_t wanting[] = {0x12, 0x15, 0x0a, 0x13, 0x0a, 0x01, 'x', 0x12,
                                      0x0e, 0x0a, 0x0c, 'f',  't',  'r',  'a', 'c',
                                      'e',  '/',  'p',  'r',  'i',  'n',  't'};
    struct pfl_health_host host = well;
    struct pfl_health_conf conf = conf_of(&host, 1);

    (void)state;
    host.state = pfl_span_of(state_busy, sizeof(state_busy));
    says(&conf, "well    a", PFL_HEALTH_GOOD);
    conf.trace_config = pfl_span_of(wanting, sizeof(wanting));
    says(&conf,
         "warning a: ftrace/print: the kernel's top-level buffer, where it comes from before Linux "
         "6.16, is in use: \"its\";",
         PFL_HEALTH_WARNING);
    conf.trace_config.len = 0;
    says(&conf, "warning a: ftrace/print:", PFL_HEALTH_WARNING);
}

static void findings_of_a_host_have_a_bound_and_the_rest_is_counted(void **state)
{
    static uint8_t many[1000 * (sizeof(state_busy) - 3)];
    struct pfl_health_host hosts[2] = {well, well};
    struct pfl_health_conf conf = conf_of(hosts, 2);
    struct pfl_buf out;
    enum pfl_health worst;
    size_t lines = 0;

    (void)state;
    for (size_t i = 0; i < 1000; i++)
        memcpy(many + i * (sizeof(state_busy) - 3), state_busy, sizeof(state_busy) - 3);
    hosts[0].state = pfl_span_of(many, sizeof(many));
    conf.trace_config.len = 0;
    hosts[1].name = "b";
    says(&conf, "warning a: findings: 984 more are left out\n", PFL_HEALTH_WARNING);
    says(&conf, "well    b", PFL_HEALTH_WARNING);
    pfl_buf_init(&out, 16384);
    conf.hosts_len = 1;
    assert_int_equal(pfl_health_text(&conf, &out, &worst), 0);
    for (size_t i = 0; i < out.len; i++)
        lines += out.data[out.start + i] == '\n';
    assert_int_equal(lines, 17);
    pfl_buf_fini(&out);
}

static void an_agent_of_another_version_is_reported(void **state)
{
    struct pfl_health_host host = well;
    struct pfl_health_conf conf = conf_of(&host, 1);

    (void)state;
    host.agent = "0.1";
    says(&conf, "warning a: version: its agent is \"0.1\", this program 0.2", PFL_HEALTH_WARNING);
    host.agent = "0.2";
    says(&conf, "well    a", PFL_HEALTH_GOOD);
}

static void a_host_that_cannot_be_asked_may_have_an_old_certificate(void **state)
{
    struct pfl_health_host host = well;
    struct pfl_health_conf conf = conf_of(&host, 1);

    (void)state;
    host.why = "not connected";
    host.cert_end_s = NOW_S - DAY_S;
    says(&conf, "BAD     a: certificate: expired since 1 days", PFL_HEALTH_BAD);
    says(&conf, "BAD     a: reachable: not connected", PFL_HEALTH_BAD);
}

static void certificates_are_watched_for_two_weeks(void **state)
{
    struct pfl_health_host host = well;
    struct pfl_health_conf conf = conf_of(&host, 1);

    (void)state;
    host.cert_end_s = NOW_S + 15 * DAY_S;
    says(&conf, "well", PFL_HEALTH_GOOD);
    host.cert_end_s = NOW_S + 13 * DAY_S;
    says(&conf, "warning a: certificate: expires in 13 days", PFL_HEALTH_WARNING);
    host.cert_end_s = NOW_S - 3 * DAY_S;
    says(&conf, "BAD     a: certificate: expired since 3 days", PFL_HEALTH_BAD);
    host.cert_end_s = 0;
    conf.relay_cert_end_s = NOW_S + DAY_S;
    says(&conf, "warning the relay: certificate: expires in 1 days", PFL_HEALTH_WARNING);
}

static int judge_once(void *arg)
{
    struct pfl_health_host hosts[2] = {well, well};
    struct pfl_health_conf conf = conf_of(hosts, 2);
    enum pfl_health worst;
    struct pfl_buf out;
    int rc;

    (void)arg;
    hosts[1].has_clock = false;
    pfl_buf_init(&out, OUT_MAX);
    rc = pfl_health_json(&conf, &out, &worst);
    if (rc == 0)
        rc = pfl_health_text(&conf, &out, &worst);
    pfl_buf_fini(&out);
    return rc;
}

static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    pfl_sweep(judge_once, NULL, true);
}

static void judgements_of_random_hosts_are_recorded(void **state)
{
    static const int64_t ends[] = {0, NOW_S - DAY_S, NOW_S + 1, NOW_S + 14 * DAY_S,
                                   NOW_S + 90 * DAY_S};
    static const int64_t errors[] = {0, 20000, 1000000, 1000001, 2500000};
    struct pfl_health_host hosts[4];
    enum pfl_health worst;
    struct pfl_buf out;

    (void)state;
    for (unsigned i = 0; i < 1500; i++) {
        struct pfl_health_conf conf = conf_of(hosts, pfl_pick(5));

        for (size_t k = 0; k < conf.hosts_len; k++) {
            struct pfl_health_host *h = &hosts[k];

            *h = well;
            h->name = k == 0 ? "a" : k == 1 ? "b" : "host-c";
            h->why = pfl_pick(4) == 0 ? "refused" : "";
            h->state.data = pfl_pick(4) == 0 ? state_b : state_a;
            h->state.len -= pfl_pick(12) == 0;
            h->tls = pfl_pick(2) == 0 ? "1.3" : pfl_pick(2) == 0 ? "1.2" : NULL;
            h->cert_end_s = ends[pfl_pick(5)];
            h->agent = pfl_pick(3) == 0 ? "0.1" : "0.2";
            h->has_clock = pfl_pick(4) != 0;
            h->offset_ns = (int64_t)pfl_pick(4000000) - 2000000;
            h->error_ns = errors[pfl_pick(5)];
        }
        conf.our_cert_end_s = ends[pfl_pick(5)];
        conf.relay_cert_end_s = ends[pfl_pick(5)];
        conf.trace_config.len = pfl_pick(3) == 0 ? 0 : conf.trace_config.len;
        pfl_buf_init(&out, OUT_MAX);
        assert_int_equal(pfl_health_text(&conf, &out, &worst), 0);
        pfl_record("worst %d", (int)worst);
        assert_int_equal(pfl_health_json(&conf, &out, &worst), 0);
        pfl_record_bytes("health", pfl_buf_get(&out));
        pfl_buf_fini(&out);
    }
}

static void a_host_is_well_whatever_was_said_of_the_one_before(void **state)
{
    struct pfl_health_host hosts[] = {well, well, well};
    struct pfl_health_conf conf = conf_of(hosts, 3);
    struct pfl_buf out;
    enum pfl_health worst;
    const char *text;

    (void)state;
    hosts[0].why = "refused";
    hosts[1].name = "b";
    hosts[2].name = "c";
    pfl_buf_init(&out, OUT_MAX);
    assert_int_equal(pfl_health_text(&conf, &out, &worst), 0);
    assert_int_equal(pfl_buf_append(&out, "", 1), 0);
    text = (const char *)pfl_buf_get(&out).data;
    assert_null(strstr(text, "well    a:"));
    assert_non_null(strstr(text, "well    b: clock +5.000000 s +- 0.000020 s\n"));
    assert_non_null(strstr(text, "well    c: clock +5.000000 s +- 0.000020 s\n"));
    pfl_buf_fini(&out);
    pfl_sweep_assert_no_leak();
}

static void all_of_this_is_as_recorded(void **state)
{
    (void)state;
    pfl_assert_recorded(0x611c00579046207f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_without_findings_is_well),
        cmocka_unit_test(each_trouble_is_reported_with_its_remedy),
        cmocka_unit_test(a_host_that_cannot_record_ftrace_print_says_why),
        cmocka_unit_test(findings_of_a_host_have_a_bound_and_the_rest_is_counted),
        cmocka_unit_test(certificates_are_watched_for_two_weeks),
        cmocka_unit_test(an_agent_of_another_version_is_reported),
        cmocka_unit_test(a_host_that_cannot_be_asked_may_have_an_old_certificate),
        cmocka_unit_test(judgements_of_random_hosts_are_recorded),
        cmocka_unit_test(all_of_this_is_as_recorded),
        cmocka_unit_test(every_failed_allocation_is_survived),
        cmocka_unit_test(a_host_is_well_whatever_was_said_of_the_one_before),
    };

    pfl_record_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
