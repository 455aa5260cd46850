/* SPDX-License-Identifier: Apache-2.0 */
/* What the doctor finds before a recording: of the config, of the relay's facts, of hosts that do
 * not answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "consumer/config/config.h"
#include "consumer/web/record/record_findings.h"
#include "tests/support/sweep.h"

#define NOW_S 1800000000

static const char inventory_text[] =
    "{\"hosts\": [{\"name\": \"web-1\", \"is_connected\": true, \"version\": \"9.9\", \"tls\": "
    "\"1.3\","
    "\"certificate_end_s\": 1800000100, \"clock\": {\"offset_ns\": -5, \"error_ns\": 1000}}]}";
static const char config_text[] = "data_sources { config { name: \"gone.source\" } }";

static int find(struct pfl_buf *out, const struct pfl_record_asked *asked, size_t len)
{
    struct pfl_record_findings findings = {
        .asked = asked, .asked_len = len, .now_s = NOW_S, .version = "1.0"};
    struct pfl_span text = pfl_span_of(inventory_text, strlen(inventory_text));
    struct pfl_inventory *inventory = NULL;
    struct pfl_host_rows *rows = NULL;
    struct pfl_config_why why;
    struct pfl_buf config;
    int rc = pfl_host_rows_new(&(struct pfl_host_rows_conf){.selection = NULL}, &rows);

    pfl_buf_init(&config, PFL_CONFIG_MAX_BYTES);
    if (rc == 0)
        rc = pfl_inventory_parse(text, &inventory) != 0 ? PFL_ENOMEM : 0;
    if (rc == 0)
        rc = pfl_host_rows_give_inventory(rows, inventory);
    if (rc != 0)
        pfl_inventory_free(inventory);
    if (rc == 0)
        rc = pfl_config_read(pfl_span_of(config_text, strlen(config_text)), "c", &config, &why);
    findings.rows = rows;
    findings.config = pfl_buf_get(&config);
    if (rc == 0)
        rc = pfl_record_findings_write(&findings, out);
    pfl_buf_fini(&config);
    pfl_host_rows_free(rows);
    return rc;
}

static void findings_are_of_config_relay_and_host(void **state)
{
    /* TracingServiceState { tracing_service_version: "v" }: no data sources */
    const struct pfl_record_asked asked[] = {{"web-1", "", pfl_span_of("\x2a\x01v", 3)},
                                             {"direct", "no answer", pfl_span_of(NULL, 0)}};
    struct pfl_buf out;

    (void)state;
    pfl_buf_init(&out, PFL_RECORD_FINDINGS_MAX_BYTES);
    assert_int_equal(find(&out, asked, 2), 0);
    assert_string_equal(
        (const char *)pfl_buf_get(&out).data,
        "warning web-1: certificate: expires in 0 days; issue a new one (perfleet pki renew)\n"
        "warning web-1: version: its agent is \"9.9\", this program 1.0\n"
        "warning web-1: data source: no producer there offers \"gone.source\": is its program "
        "(perfleet-probes, the app) running?\n"
        "BAD     direct: reachable: no answer\n");
    pfl_buf_fini(&out);
}

static int find_all(void *arg)
{
    const struct pfl_record_asked asked[] = {{"web-1", "", pfl_span_of("\x2a\x01v", 3)}};
    struct pfl_buf out;
    int rc;

    (void)arg;
    pfl_buf_init(&out, PFL_RECORD_FINDINGS_MAX_BYTES);
    rc = find(&out, asked, 1);
    pfl_buf_fini(&out);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    pfl_sweep(find_all, NULL, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(findings_are_of_config_relay_and_host),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
