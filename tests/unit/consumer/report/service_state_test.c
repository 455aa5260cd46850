/* SPDX-License-Identifier: Apache-2.0 */
/* A service's state as an operator sees it. */
#include "consumer/report/service_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "perfetto/service_state.fields.h"
#include "tests/support/sweep.h"

#define OUT_MAX 65536u

static size_t make_state(uint8_t *out, size_t room)
{
    uint8_t nested[64];
    struct pfl_writer n = pfl_writer_of(nested, sizeof(nested));
    struct pfl_writer w = pfl_writer_of(out, room);

    pfl_writer_field_varint(&n, 1, 7);
    pfl_writer_field_bytes(&n, 2, "my\x1b[31mapp", 10);
    pfl_writer_field_varint(&n, 3, 1000);
    pfl_writer_field_bytes(&w, 1, nested, sizeof(nested) - n.left);
    pfl_writer_field_bytes(&w, 2,
                           "\x0a\x05\x0a\x03"
                           "dsx\x10\x07",
                           9);
    pfl_writer_field_varint(&w, 3, 2);
    pfl_writer_field_varint(&w, 4, 1);
    pfl_writer_field_bytes(&w, 5, "v1", 2);
    pfl_writer_field_bytes(&w, 6, "\x08\x05\x1a\x07STARTED\x28\x40", 13);
    return room - w.left;
}

static struct pfl_service_state_host host_of(const uint8_t *state, size_t len)
{
    return (struct pfl_service_state_host){
        .name = "web", .address = "unix:/x", .why = "", .state = pfl_span_of(state, len)};
}

static const char *text_of(struct pfl_buf *out)
{
    assert_int_equal(pfl_buf_append(out, "", 1), 0);
    return (const char *)pfl_buf_get(out).data;
}

static void categories_of_track_events_are_named(void **state)
{
    /* data_sources { ds_descriptor { name track_event_descriptor { two categories } } } */
    static const char source[] = "\x0a\x16\x0a\x03"
                                 "dsx\x32\x0f\x0a\x05\x0a\x03"
                                 "app\x0a\x06\x0a\x04"
                                 "n\x1bt!\x10\x07";
    uint8_t bytes[64];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));
    struct pfl_service_state_host host;
    struct pfl_buf out;

    (void)state;
    pfl_writer_field_bytes(&w, 2, source, sizeof(source) - 1);
    host = host_of(bytes, sizeof(bytes) - w.left);
    pfl_buf_init(&out, OUT_MAX);
    assert_int_equal(pfl_service_state_text(&host, PFL_SERVICE_STATE_ALL, &out), 0);
    assert_int_equal(pfl_service_state_json(&host, 1, PFL_SERVICE_STATE_ALL, &out), 0);
    assert_non_null(strstr(text_of(&out), "\"dsx\", categories \"app\", \"n\\x1bt!\"\n"));
    assert_non_null(strstr((const char *)pfl_buf_get(&out).data, "\"categories\": ["));
    pfl_buf_fini(&out);
    pfl_sweep_assert_no_leak();
}

static void tables_name_everything_and_escape_peers_strings(void **state)
{
    uint8_t bytes[256];
    struct pfl_service_state_host host = host_of(bytes, make_state(bytes, sizeof(bytes)));
    struct pfl_buf out;
    const char *text;

    (void)state;
    pfl_buf_init(&out, OUT_MAX);
    assert_int_equal(pfl_service_state_text(&host, PFL_SERVICE_STATE_ALL, &out), 0);
    text = text_of(&out);
    assert_non_null(strstr(text, "web: unix:/x, service \"v1\", 1 producers, 1 data sources, 2"));
    assert_non_null(strstr(text, "my\\x1b[31mapp"));
    assert_null(strchr(text, 0x1b));
    assert_non_null(strstr(text, "\"dsx\""));
    assert_non_null(strstr(text, "\"STARTED\""));
    pfl_buf_fini(&out);
    pfl_sweep_assert_no_leak();
}

static void host_that_failed_is_one_line_with_the_reason(void **state)
{
    struct pfl_service_state_host host = {
        .name = "", .address = "tls://a:1", .why = "refused", .state = {NULL, 0}};
    struct pfl_buf out;

    (void)state;
    pfl_buf_init(&out, OUT_MAX);
    assert_int_equal(pfl_service_state_text(&host, PFL_SERVICE_STATE_ALL, &out), 0);
    assert_string_equal(text_of(&out), "tls://a:1: FAILED: refused\n");
    pfl_buf_fini(&out);
}

static void malformed_state_is_reported_not_trusted(void **state)
{
    struct pfl_service_state_host host = host_of((const uint8_t *)"\x0a\x7f", 2);
    struct pfl_buf out;

    (void)state;
    pfl_buf_init(&out, OUT_MAX);
    assert_int_equal(pfl_service_state_text(&host, PFL_SERVICE_STATE_ALL, &out), 0);
    assert_non_null(strstr(text_of(&out), "malformed"));
    pfl_buf_clear(&out);
    assert_int_equal(pfl_service_state_json(&host, 1, PFL_SERVICE_STATE_BRIEF, &out), 0);
    assert_non_null(strstr(text_of(&out), "malformed"));
    pfl_buf_fini(&out);
    pfl_sweep_assert_no_leak();
}

/* Beside a host whose state is short. */
static void a_long_state_leaves_the_others_their_share(void **state)
{
    static uint8_t many[8192];
    uint8_t bytes[256];
    struct pfl_writer w = pfl_writer_of(many, sizeof(many));
    struct pfl_service_state_host hosts[2];
    struct pfl_buf out;
    json_t *list;

    (void)state;
    while (w.left > 64)
        pfl_writer_field_bytes(&w, 2,
                               "\x0a\x05\x0a\x03"
                               "dsx",
                               7);
    hosts[0] = host_of(many, sizeof(many) - w.left);
    hosts[1] = host_of(bytes, make_state(bytes, sizeof(bytes)));
    hosts[1].name = "db";
    pfl_buf_init(&out, 8192);
    assert_int_equal(pfl_service_state_texts(hosts, 2, PFL_SERVICE_STATE_ALL, &out), 0);
    assert_non_null(
        strstr(text_of(&out), "web: FAILED: its answer is too long to be shown beside"));
    assert_non_null(strstr((const char *)pfl_buf_get(&out).data, "db: unix:/x, service \"v1\""));
    pfl_buf_clear(&out);
    assert_int_equal(pfl_service_state_json(hosts, 2, PFL_SERVICE_STATE_ALL, &out), 0);
    list = json_loads(text_of(&out), 0, NULL);
    assert_int_equal(json_array_size(list), 2);
    assert_non_null(json_object_get(json_array_get(list, 0), "error"));
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, 1), "version")),
                        "v1");
    json_decref(list);
    pfl_buf_fini(&out);
    pfl_sweep_assert_no_leak();
}

static int json_once(void *arg)
{
    uint8_t bytes[256];
    struct pfl_service_state_host host = host_of(bytes, make_state(bytes, sizeof(bytes)));
    struct pfl_buf out;
    int rc;

    (void)arg;
    pfl_buf_init(&out, OUT_MAX);
    rc = pfl_service_state_json(&host, 1, PFL_SERVICE_STATE_ALL, &out);
    pfl_buf_fini(&out);
    return rc;
}

static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    pfl_sweep(json_once, NULL, true);
}

static void json_has_the_same(void **state)
{
    uint8_t bytes[256];
    struct pfl_service_state_host host = host_of(bytes, make_state(bytes, sizeof(bytes)));
    struct pfl_buf out;

    (void)state;
    pfl_buf_init(&out, OUT_MAX);
    assert_int_equal(pfl_service_state_json(&host, 1, PFL_SERVICE_STATE_ALL, &out), 0);
    assert_non_null(strstr(text_of(&out), "\"version\": \"v1\""));
    assert_non_null(strstr((const char *)out.data, "\"dsx\""));
    pfl_buf_fini(&out);
    pfl_sweep_assert_no_leak();
}

static void expect_text(const struct pfl_service_state_host *host,
                        enum pfl_service_state_detail detail, const char *text)
{
    struct pfl_buf out;

    pfl_buf_init(&out, OUT_MAX);
    assert_int_equal(pfl_service_state_text(host, detail, &out), 0);
    assert_string_equal(text_of(&out), text);
    pfl_buf_fini(&out);
    for (size_t max = 1; max < strlen(text); max++) {
        pfl_buf_init(&out, max);
        assert_int_equal(pfl_service_state_text(host, detail, &out), PFL_ELIMIT);
        pfl_buf_fini(&out);
    }
}

static void what_the_relay_knows_of_a_host_is_a_line_below_it(void **state)
{
    uint8_t bytes[256];
    struct pfl_service_state_host host = host_of(bytes, make_state(bytes, sizeof(bytes)));
    struct pfl_inventory_host facts = {.name = "web",
                                       .address = "10.0.0.1",
                                       .version = "1.2",
                                       .tls = "",
                                       .is_connected = true,
                                       .has_clock = true,
                                       .offset_ns = -1500000,
                                       .error_ns = 2000,
                                       .certificate_end_s = 86400};

    (void)state;
    facts.entry = json_pack("{s:{s:s, s:s, s:i}}", "labels", "rack", "r1", "zone", "z", "n", 1);
    assert_non_null(facts.entry);
    host.relay_facts = &facts;
    expect_text(
        &host, PFL_SERVICE_STATE_BRIEF,
        "web: unix:/x, service \"v1\", 1 producers, 1 data sources, 2 sessions (1 started)\n"
        "  connected from 10.0.0.1, agent \"1.2\", clock -0.001500 s +- 0.000002 s, "
        "certificate until 1970-01-02, labels rack=r1 zone=z\n");
    json_decref((json_t *)(uintptr_t)facts.entry);
    facts.entry = NULL;
    facts.is_connected = false;
    facts.last_seen_s = 61;
    facts.has_clock = false;
    facts.certificate_end_s = 0;
    host.why = "it is away";
    expect_text(&host, PFL_SERVICE_STATE_ALL,
                "web: FAILED: it is away\n"
                "  not connected, last seen 61 s ago, agent \"1.2\"\n");
    pfl_sweep_assert_no_leak();
}

/* What a service left out, a long producer of another machine, and a session that was detached. */
static size_t make_large_state(uint8_t *out, size_t room)
{
    static const char name[] = "/opt/a/very/long/path/to/some/program --type=gpu";
    struct pfl_writer w = pfl_writer_of(out, room);
    uint8_t nested[256];
    struct pfl_writer n = pfl_writer_of(nested, sizeof(nested));

    pfl_writer_field_varint(&n, TRACING_SERVICE_STATE__PRODUCER__ID, 7);
    pfl_writer_field_bytes(&n, TRACING_SERVICE_STATE__PRODUCER__NAME, name, sizeof(name) - 1);
    pfl_writer_field_varint(&n, TRACING_SERVICE_STATE__PRODUCER__UID, 8);
    pfl_writer_field_bytes(&n, TRACING_SERVICE_STATE__PRODUCER__SDK_VERSION, "v9", 2);
    pfl_writer_field_varint(&n, TRACING_SERVICE_STATE__PRODUCER__PID, 9);
    pfl_writer_field_varint(&n, TRACING_SERVICE_STATE__PRODUCER__MACHINE_ID, 5);
    pfl_writer_field_bytes(&n, TRACING_SERVICE_STATE__PRODUCER__MACHINE_NAME, "guest", 5);
    pfl_writer_field_bytes(&w, TRACING_SERVICE_STATE__PRODUCERS, nested, sizeof(nested) - n.left);
    n = pfl_writer_of(nested, sizeof(nested));
    pfl_writer_field_varint(&n, TRACING_SERVICE_STATE__TRACING_SESSION__ID, 3);
    pfl_writer_field_varint(&n, TRACING_SERVICE_STATE__TRACING_SESSION__CONSUMER_UID, 4);
    pfl_writer_field_bytes(&n, TRACING_SERVICE_STATE__TRACING_SESSION__STATE, "DISABLED", 8);
    pfl_writer_field_bytes(&n, TRACING_SERVICE_STATE__TRACING_SESSION__UNIQUE_SESSION_NAME, "n", 1);
    pfl_writer_field_varint(&n, TRACING_SERVICE_STATE__TRACING_SESSION__BUFFER_SIZE_KB, 64);
    pfl_writer_field_varint(&n, TRACING_SERVICE_STATE__TRACING_SESSION__BUFFER_SIZE_KB, 32);
    pfl_writer_field_varint(&n, TRACING_SERVICE_STATE__TRACING_SESSION__DURATION_MS, 100);
    pfl_writer_field_varint(&n, TRACING_SERVICE_STATE__TRACING_SESSION__NUM_DATA_SOURCES, 2);
    pfl_writer_field_varint(&n, TRACING_SERVICE_STATE__TRACING_SESSION__START_REALTIME_NS, 77);
    pfl_writer_field_bytes(&n, TRACING_SERVICE_STATE__TRACING_SESSION__PERFLEET_DETACH_KEY, "k\1",
                           2);
    pfl_writer_field_varint(&n, TRACING_SERVICE_STATE__TRACING_SESSION__PERFLEET_IS_OWN, 1);
    pfl_writer_field_bytes(&w, TRACING_SERVICE_STATE__TRACING_SESSIONS, nested,
                           sizeof(nested) - n.left);
    pfl_writer_field_bytes(&w, TRACING_SERVICE_STATE__PERFLEET_LEFT_OUT,
                           "\x08\x01\x10\x02\x18\x03\x20\x04", 8);
    return room - w.left;
}

static void a_sessions_key_a_producers_machine_and_what_was_left_out_are_listed(void **state)
{
    static const char *const parts[] = {"\"left_as\": \"\\\"k\\\\x01\\\"\"",
                                        "\"start_realtime_ns\": 77",
                                        "\"yours\": true",
                                        "\"producers\": 1",
                                        "\"data_sources\": 2",
                                        "\"descriptors\": 3",
                                        "\"sessions\": 4"};
    uint8_t bytes[1024];
    struct pfl_service_state_host host = host_of(bytes, make_large_state(bytes, sizeof(bytes)));
    struct pfl_buf out;
    const char *json;

    (void)state;
    expect_text(&host, PFL_SERVICE_STATE_ALL,
                "web: unix:/x, service \"\", 1 producers, 0 data sources, 0 sessions (0 started)\n"
                "  sessions (1)\n"
                "    3     uid 4      \"DISABLED\", 2 data sources, buffers 64 KiB 32 KiB, 100 ms, "
                "name \"n\", left as \"k\\x01\", yours\n"
                "  producers (1)\n"
                "    7     uid 8      pid 9       \"program\" "
                "(\"/opt/a/very/long/path/to/some/program --type=gpu\") on machine 5 \"guest\", "
                "\"v9\"\n"
                "  data sources (0)\n"
                "  left out, for want of room in the answer: 1 producers, 2 data sources, 4 "
                "sessions; of 3 data sources all but the name\n");
    expect_text(&host, PFL_SERVICE_STATE_SESSIONS,
                "web: 1 sessions\n"
                "    3     uid 4      \"DISABLED\", 2 data sources, buffers 64 KiB 32 KiB, 100 ms, "
                "name \"n\", left as \"k\\x01\", yours\n"
                "  left out, for want of room in the answer: 1 producers, 2 data sources, 4 "
                "sessions; of 3 data sources all but the name\n");
    pfl_buf_init(&out, OUT_MAX);
    assert_int_equal(pfl_service_state_json(&host, 1, PFL_SERVICE_STATE_BRIEF, &out), 0);
    json = text_of(&out);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (strstr(json, parts[i]) == NULL)
            fail_msg("%s is not in %s", parts[i], json);
    pfl_buf_fini(&out);
    pfl_sweep_assert_no_leak();
}

static void json_of_a_host_that_failed_has_the_reason(void **state)
{
    struct pfl_service_state_host host = {.name = "w", .address = "a", .why = "refused"};
    struct pfl_inventory_host facts = {.entry = NULL};
    struct pfl_buf out;

    (void)state;
    facts.entry = json_pack("{s:s}", "version", "1.2");
    host.relay_facts = &facts;
    pfl_buf_init(&out, OUT_MAX);
    assert_int_equal(pfl_service_state_json(&host, 1, PFL_SERVICE_STATE_ALL, &out), 0);
    assert_non_null(strstr(text_of(&out), "\"error\": \"refused\""));
    assert_non_null(strstr((const char *)pfl_buf_get(&out).data, "\"version\": \"1.2\""));
    assert_null(strstr((const char *)pfl_buf_get(&out).data, "\"sessions\""));
    json_decref((json_t *)(uintptr_t)facts.entry);
    pfl_buf_fini(&out);
    pfl_sweep_assert_no_leak();
}

static void a_whole_state_fits_whole_or_not_at_all(void **state)
{
    uint8_t bytes[256];
    struct pfl_service_state_host host = host_of(bytes, make_state(bytes, sizeof(bytes)));

    (void)state;
    expect_text(
        &host, PFL_SERVICE_STATE_ALL,
        "web: unix:/x, service \"v1\", 1 producers, 1 data sources, 2 sessions (1 started)\n"
        "  sessions (1)\n"
        "    5     uid 0      \"STARTED\", 0 data sources, buffers 64 KiB\n"
        "  producers (1)\n"
        "    7     uid 1000   pid 0       \"my\\x1b[31mapp\"\n"
        "  data sources (1)\n"
        "    producer 7     \"dsx\"\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(categories_of_track_events_are_named),
        cmocka_unit_test(tables_name_everything_and_escape_peers_strings),
        cmocka_unit_test(host_that_failed_is_one_line_with_the_reason),
        cmocka_unit_test(malformed_state_is_reported_not_trusted),
        cmocka_unit_test(json_has_the_same),
        cmocka_unit_test(a_long_state_leaves_the_others_their_share),
        cmocka_unit_test(every_failed_allocation_is_survived),
        cmocka_unit_test(what_the_relay_knows_of_a_host_is_a_line_below_it),
        cmocka_unit_test(a_sessions_key_a_producers_machine_and_what_was_left_out_are_listed),
        cmocka_unit_test(json_of_a_host_that_failed_has_the_reason),
        cmocka_unit_test(a_whole_state_fits_whole_or_not_at_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
