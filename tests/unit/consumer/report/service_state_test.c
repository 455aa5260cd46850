/* SPDX-License-Identifier: Apache-2.0 */
/* A service's state as an operator sees it. */
#include "consumer/report/service_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(categories_of_track_events_are_named),
        cmocka_unit_test(tables_name_everything_and_escape_peers_strings),
        cmocka_unit_test(host_that_failed_is_one_line_with_the_reason),
        cmocka_unit_test(malformed_state_is_reported_not_trusted),
        cmocka_unit_test(json_has_the_same),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
