/* SPDX-License-Identifier: Apache-2.0 */
/* A session by its name in a service's state, and its counters in words. */
#include "consumer/host/session_find.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "consumer/report/trace_stats.h"
#include "perfetto/service_state.fields.h"
#include "tests/support/sweep.h"

/* TracingServiceState { tracing_sessions { id state unique_session_name } } */
static struct pfl_span add_session(struct pfl_writer *w, const char *state, const char *name)
{
    uint8_t *begin = w->pos;

    pfl_writer_field_header(w, 6, 2 + 2 + strlen(state) + 2 + strlen(name));
    pfl_writer_field_varint(w, 1, 7);
    pfl_writer_field_bytes(w, 3, state, strlen(state));
    pfl_writer_field_bytes(w, 4, name, strlen(name));
    return pfl_span_of(begin, (size_t)(w->pos - begin));
}

static void a_session_is_found_by_its_whole_name(void **state)
{
    uint8_t bytes[256];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));
    struct pfl_span all;

    (void)state;
    add_session(&w, "STARTED", "flight");
    add_session(&w, "DISABLED", "old");
    add_session(&w, "CLONED_READ_ONLY", "copy");
    all = pfl_span_of(bytes, sizeof(bytes) - w.left);
    assert_int_equal(pfl_session_find(all, "flight"), PFL_SESSION_RUNNING);
    assert_int_equal(pfl_session_find(all, "old"), PFL_SESSION_OVER);
    assert_int_equal(pfl_session_find(all, "copy"), PFL_SESSION_NONE);
    assert_int_equal(pfl_session_find(all, "fligh"), PFL_SESSION_NONE);
    assert_int_equal(pfl_session_find(all, "flights"), PFL_SESSION_NONE);
}

static void what_was_left_under_a_key_is_found_by_it(void **state)
{
    /* tracing_sessions { id: 7 state: "DISABLED" perfleet_detach_key: "night" } */
    uint8_t bytes[64];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));
    struct pfl_span all;

    (void)state;
    pfl_writer_field_header(&w, 6, 2 + 10 + 3 + 1 + 5);
    pfl_writer_field_varint(&w, 1, 7);
    pfl_writer_field_bytes(&w, 3, "DISABLED", 8);
    pfl_writer_field_bytes(&w, TRACING_SERVICE_STATE__TRACING_SESSION__PERFLEET_DETACH_KEY, "night",
                           5);
    all = pfl_span_of(bytes, sizeof(bytes) - w.left);
    assert_int_equal(pfl_session_find_left(all, "night"), PFL_SESSION_OVER);
    assert_int_equal(pfl_session_find_left(all, "nigh"), PFL_SESSION_NONE);
    assert_int_equal(pfl_session_find(all, "night"), PFL_SESSION_NONE);
}

static void triggers_are_counted_where_the_service_tells_them(void **state)
{
    uint8_t bytes[64];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));
    struct pfl_span all;

    (void)state;
    pfl_writer_field_header(&w, 6, 9 + 5 + 4);
    pfl_writer_field_bytes(&w, 3, "STARTED", 7);
    pfl_writer_field_bytes(&w, 4, "ask", 3);
    pfl_writer_field_varint(&w, TRACING_SERVICE_STATE__TRACING_SESSION__PERFLEET_CLONE_TRIGGERS, 3);
    add_session(&w, "STARTED", "other");
    all = pfl_span_of(bytes, sizeof(bytes) - w.left);
    assert_int_equal(pfl_session_count_triggers(all, "ask"), 3);
    assert_int_equal(pfl_session_count_triggers(all, "other"), -1);
    assert_int_equal(pfl_session_count_triggers(all, "none"), -1);
}

static void a_cut_state_finds_no_more_than_is_there(void **state)
{
    uint8_t bytes[256];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));
    struct pfl_span one;

    (void)state;
    one = add_session(&w, "STARTED", "flight");
    for (size_t len = 0; len < one.len; len++)
        assert_int_equal(pfl_session_find(pfl_span_of(one.data, len), "flight"), PFL_SESSION_NONE);
}

static void counters_are_reported_with_the_buffers_fill(void **state)
{
    /* trace_stats { buffer_stats { bytes_written 3072, chunks_overwritten 2, buffer_size 4096,
     * bytes_overwritten 1024 } } */
    static const uint8_t response[] = {0x0a, 0x0d, 0x0a, 0x0b, 0x08, 0x80, 0x18, 0x18,
                                       0x02, 0x60, 0x80, 0x20, 0x68, 0x80, 0x08};
    struct pfl_trace_stats_host host = {
        .name = "a", .why = "", .response = pfl_span_of(response, sizeof(response))};
    struct pfl_buf out;
    const char *text;

    (void)state;
    pfl_text_init_json();
    pfl_buf_init(&out, 65536);
    assert_int_equal(pfl_trace_stats_text(&host, &out), 0);
    assert_int_equal(pfl_text_dump_json(pfl_trace_stats_json(&host), &out), 0);
    host.response.len--;
    assert_int_equal(pfl_trace_stats_text(&host, &out), 0);
    host.why = "gone";
    assert_int_equal(pfl_trace_stats_text(&host, &out), 0);
    assert_int_equal(pfl_buf_append(&out, "", 1), 0);
    text = (const char *)pfl_buf_get(&out).data;
    assert_non_null(strstr(text, "host a: losses 2 (2 chunks overwritten"));
    assert_non_null(strstr(text, "buffer 0: 4 KiB, 50% full, 3072 bytes written, 1024 over"));
    assert_non_null(strstr(text, "\"held_bytes\": 2048"));
    assert_non_null(strstr(text, "FAILED: its counters are malformed\n"));
    assert_non_null(strstr(text, "FAILED: gone\n"));
    pfl_buf_fini(&out);
    pfl_sweep_assert_no_leak();
}

/* version "v"; of producer 300 a source with a name and 100 KB besides; one session; junk. */
static void of_descriptors_the_name_is_taken_and_all_else_as_it_came(void **state)
{
    static const uint8_t expected[] = {0x2a, 1,    'v',  0x12, 8,    0x0a, 3, 0x0a, 1,
                                       's',  0x10, 0xac, 2,    0x32, 2,    8, 5,    0xff};
    static uint8_t descriptor[100000];
    static uint8_t bytes[110000];
    uint8_t source[16];
    struct pfl_writer d = pfl_writer_of(descriptor, sizeof(descriptor));
    struct pfl_writer n = pfl_writer_of(source, sizeof(source));
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));
    struct pfl_buf response;
    struct pfl_buf out;
    uint8_t header[8];
    struct pfl_writer h = pfl_writer_of(header, sizeof(header));

    (void)state;
    pfl_writer_field_bytes(&d, 1, "s", 1);
    pfl_writer_field_header(&d, 6, d.left - 4);
    pfl_writer_field_varint(&n, 2, 300);
    pfl_writer_field_bytes(&w, 5, "v", 1);
    pfl_writer_field_header(&w, 2, 4 + sizeof(descriptor) + sizeof(source) - n.left);
    pfl_writer_field_bytes(&w, 1, descriptor, sizeof(descriptor));
    pfl_writer_bytes(&w, source, sizeof(source) - n.left);
    pfl_writer_field_bytes(&w, 6, "\x08\x05", 2);
    pfl_writer_bytes(&w, "\xff", 1);
    assert_false(w.failed);
    pfl_writer_field_header(&h, 1, sizeof(bytes) - w.left);
    pfl_buf_init(&response, 200000);
    pfl_buf_init(&out, 4096);
    assert_int_equal(pfl_buf_append(&response, header, sizeof(header) - h.left), 0);
    assert_int_equal(pfl_buf_append(&response, bytes, sizeof(bytes) - w.left), 0);
    assert_int_equal(pfl_session_take_state(pfl_buf_get(&response), &out), 0);
    assert_int_equal(out.len, sizeof(expected));
    assert_memory_equal(pfl_buf_get(&out).data, expected, sizeof(expected));
    pfl_buf_fini(&out);
    pfl_buf_fini(&response);
    pfl_sweep_assert_no_leak();
}

static void sources_without_a_name_are_left_out(void **state)
{
    /* service_state { 2 {} 2 { 1 {} 2: 1 } 2 { 1 { 1: "" } } 2 { 1 { 1: "s" } } } */
    static const uint8_t response[] = {0x0a, 21, 0x12, 0, 0x12, 4, 0x0a, 0, 0x10, 1, 0x12, 4,
                                       0x0a, 2,  0x0a, 0, 0x12, 5, 0x0a, 3, 0x0a, 1, 's'};
    static const uint8_t expected[] = {0x12, 7, 0x0a, 3, 0x0a, 1, 's', 0x10, 0};
    struct pfl_buf out;

    (void)state;
    assert_int_equal(response[1], sizeof(response) - 2);
    pfl_buf_init(&out, 1024);
    assert_int_equal(pfl_session_take_state(pfl_span_of(response, sizeof(response)), &out), 0);
    assert_int_equal(out.len, sizeof(expected));
    assert_memory_equal(pfl_buf_get(&out).data, expected, sizeof(expected));
    pfl_buf_fini(&out);
    pfl_sweep_assert_no_leak();
}

static void take_ftrace(struct pfl_span ftrace_descriptor, struct pfl_buf *out)
{
    uint8_t descriptor[512];
    uint8_t source[600];
    uint8_t state[700];
    uint8_t response[800];
    struct pfl_writer d = pfl_writer_of(descriptor, sizeof(descriptor));
    struct pfl_writer s = pfl_writer_of(source, sizeof(source));
    struct pfl_writer t = pfl_writer_of(state, sizeof(state));
    struct pfl_writer r = pfl_writer_of(response, sizeof(response));

    pfl_writer_field_bytes(&d, 1, "s", 1);
    pfl_writer_field_bytes(&d, 8, ftrace_descriptor.data, ftrace_descriptor.len);
    pfl_writer_field_bytes(&s, 1, descriptor, sizeof(descriptor) - d.left);
    pfl_writer_field_bytes(&t, 2, source, sizeof(source) - s.left);
    pfl_writer_field_bytes(&r, 1, state, sizeof(state) - t.left);
    pfl_buf_init(out, 1024);
    assert_int_equal(pfl_session_take_state(pfl_span_of(response, sizeof(response) - r.left), out),
                     0);
}

static void of_track_events_the_names_of_categories_are_taken(void **state)
{
    static uint8_t words[5000];
    uint8_t category[6000];
    uint8_t descriptor[8000];
    uint8_t response[9000];
    struct pfl_writer c = pfl_writer_of(category, sizeof(category));
    struct pfl_writer d = pfl_writer_of(descriptor, sizeof(descriptor));
    struct pfl_writer w = pfl_writer_of(response, sizeof(response));
    struct pfl_buf out;
    size_t len;

    (void)state;
    memset(words, 'w', sizeof(words));
    pfl_writer_field_bytes(&c, 1, "app", 3);
    pfl_writer_field_bytes(&c, 2, words, sizeof(words)); /* its description */
    pfl_writer_field_bytes(&d, 1, "track_event", 11);
    len = sizeof(category) - c.left;
    pfl_writer_field_header(&d, 6, 1 + pfl_varint_size(len) + len);
    pfl_writer_field_bytes(&d, 1, category, len);
    len = sizeof(descriptor) - d.left;
    pfl_writer_field_header(&w, 1, 2 + 2 * pfl_varint_size(len) + len);
    pfl_writer_field_header(&w, 2, 1 + pfl_varint_size(len) + len);
    pfl_writer_field_bytes(&w, 1, descriptor, len);
    pfl_buf_init(&out, 1u << 20);
    assert_int_equal(pfl_session_take_state(pfl_span_of(response, sizeof(response) - w.left), &out),
                     0);
    assert_true(pfl_buf_get(&out).len < 100);
    assert_non_null(memmem(pfl_buf_get(&out).data, pfl_buf_get(&out).len, "app", 3));
    pfl_buf_fini(&out);
}

static void why_there_is_no_print_is_taken_and_nothing_else_of_ftrace(void **state)
{
    static const uint8_t without[] = {0x12, 7, 0x0a, 3, 0x0a, 1, 's', 0x10, 0};
    static const uint8_t with[] = {0x12, 15,   0x0a, 11, 0x0a, 1,   's',  0x42, 6,
                                   0x8a, 0xb5, 0x18, 2,  'n',  'o', 0x10, 0};
    uint8_t text[256] = {0x0a, 1, 'a', 0x8a, 0xb5, 0x18, 2, 'n', 'o', 0xff};
    struct pfl_buf out;

    (void)state;
    take_ftrace(pfl_span_of(text, 10), &out); /* malformed behind it */
    assert_int_equal(out.len, sizeof(with));
    assert_memory_equal(pfl_buf_get(&out).data, with, sizeof(with));
    pfl_buf_fini(&out);
    take_ftrace(pfl_span_of(text, 8), &out); /* in it */
    assert_int_equal(out.len, sizeof(without));
    assert_memory_equal(pfl_buf_get(&out).data, without, sizeof(without));
    pfl_buf_fini(&out);
    text[6] = 201;
    text[7] = 1; /* 201 bytes: longer than any of ours */
    take_ftrace(pfl_span_of(text, 8 + 201), &out);
    assert_int_equal(out.len, sizeof(without));
    pfl_buf_fini(&out);
    pfl_sweep_assert_no_leak();
}

static void a_number_in_the_place_of_a_text_is_ignored(void **state)
{
    /* tracing_sessions { state: "DISABLED" state: 1 unique_session_name: "old" 4: 1 } */
    uint8_t bytes[64];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));

    (void)state;
    pfl_writer_field_header(&w, 6, 10 + 2 + 5 + 2);
    pfl_writer_field_bytes(&w, 3, "DISABLED", 8);
    pfl_writer_field_varint(&w, 3, 1);
    pfl_writer_field_bytes(&w, 4, "old", 3);
    pfl_writer_field_varint(&w, 4, 1);
    assert_int_equal(pfl_session_find(pfl_span_of(bytes, sizeof(bytes) - w.left), "old"),
                     PFL_SESSION_OVER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_is_found_by_its_whole_name),
        cmocka_unit_test(a_cut_state_finds_no_more_than_is_there),
        cmocka_unit_test(what_was_left_under_a_key_is_found_by_it),
        cmocka_unit_test(triggers_are_counted_where_the_service_tells_them),
        cmocka_unit_test(of_track_events_the_names_of_categories_are_taken),
        cmocka_unit_test(sources_without_a_name_are_left_out),
        cmocka_unit_test(of_descriptors_the_name_is_taken_and_all_else_as_it_came),
        cmocka_unit_test(why_there_is_no_print_is_taken_and_nothing_else_of_ftrace),
        cmocka_unit_test(counters_are_reported_with_the_buffers_fill),
        cmocka_unit_test(a_number_in_the_place_of_a_text_is_ignored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
