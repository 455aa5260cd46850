/* SPDX-License-Identifier: Apache-2.0 */
/* What of a clone's packets goes behind those of its source, and what a clone's answer says. */
#include "consumer/proxy/clone_response.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support/sweep.h"
#include "tests/unit/consumer/trace_bytes.h"

#define OUT_MAX 4096u

/* A packet of `id` with `content`, on sequence `sequence`. */
static struct pfl_span packet_of(uint8_t bytes[64], uint32_t id, const char *content,
                                 uint32_t sequence)
{
    struct pfl_writer w = pfl_writer_of(bytes, 64);

    pfl_writer_field_varint(&w, 8, 4711);
    pfl_writer_field_bytes(&w, id, content, strlen(content));
    pfl_writer_field_varint(&w, 10, sequence);
    return pfl_span_of(bytes, 64 - w.left);
}

static size_t taken(uint32_t id, uint32_t sequence)
{
    uint8_t bytes[64];
    struct pfl_buf out;
    size_t len;

    pfl_buf_init(&out, OUT_MAX);
    assert_int_equal(pfl_clone_response_take_packet(packet_of(bytes, id, "x", sequence), &out), 0);
    len = out.len;
    pfl_buf_fini(&out);
    return len;
}

static void what_the_service_tells_of_the_clone_is_taken_and_nothing_else(void **state)
{
    static const uint32_t wanted[] = {89, 69, 46, 113};
    static const uint32_t other[] = {6, 33, 36, 45, 124, 900};

    (void)state;
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        assert_int_not_equal(taken(wanted[i], 1), 0);
        assert_int_equal(taken(wanted[i], 2), 0);
    }
    for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++)
        assert_int_equal(taken(other[i], 1), 0);
}

static void statistics_come_without_those_of_writers(void **state)
{
    uint8_t bytes[64];
    struct pfl_span packet = packet_of(bytes, 35, "\x08\x07\x92\x01\x02\x08\x05\x10\x01", 1);
    struct pfl_buf out;
    struct pfl_span stats;

    (void)state;
    pfl_buf_init(&out, OUT_MAX);
    assert_int_equal(pfl_clone_response_take_packet(packet, &out), 0);
    packet = field_bytes(pfl_buf_get(&out), 1);
    stats = field_bytes(packet, 35);
    assert_int_equal(field_value(packet, 8), 4711);
    assert_int_equal(stats.len, 4);
    assert_int_equal(field_value(stats, 1), 7);
    assert_int_equal(field_value(stats, 2), 1);
    pfl_buf_fini(&out);
}

static void a_packet_that_is_cut_is_refused(void **state)
{
    uint8_t bytes[64];
    struct pfl_span packet = packet_of(bytes, 69, "content", 1);
    struct pfl_buf out;

    (void)state;
    pfl_buf_init(&out, OUT_MAX);
    for (size_t len = 1; len < packet.len; len++) {
        int rc = pfl_clone_response_take_packet(pfl_span_of(bytes, len), &out);

        assert_true(rc == PFL_EPARSE || rc == 0);
        assert_int_equal(out.len, 0);
    }
    pfl_buf_fini(&out);
}

static void an_answer_is_read_marked_and_made(void **state)
{
    struct pfl_clone_response answer;
    struct pfl_buf body;

    (void)state;
    assert_int_equal(pfl_clone_response_parse(pfl_span_of("\x08\x01\x20\x2a\x28\x00", 6), &answer),
                     0);
    assert_true(answer.is_ok);
    assert_int_equal(answer.uuid_lsb, 42);
    assert_int_equal(pfl_clone_response_parse(pfl_span_of("\x08", 1), &answer), PFL_EPARSE);
    pfl_buf_init(&body, OUT_MAX);
    assert_int_equal(pfl_buf_append(&body, "\x08\x01\x28\x00", 4), 0);
    assert_int_equal(pfl_clone_response_mark(&body), 0);
    assert_int_equal(field_value(pfl_buf_get(&body), 5), 1);
    pfl_buf_clear(&body);
    assert_int_equal(pfl_clone_response_refuse("why", &body), 0);
    assert_int_equal(pfl_clone_response_parse(pfl_buf_get(&body), &answer), 0);
    assert_false(answer.is_ok);
    assert_memory_equal(field_bytes(pfl_buf_get(&body), 2).data, "why", 3);
    assert_false(answer.is_for_descriptor);
    pfl_buf_clear(&body);
    assert_int_equal(pfl_clone_response_refuse("a descriptor is needed", &body), 0);
    assert_int_equal(pfl_clone_response_parse(pfl_buf_get(&body), &answer), 0);
    assert_true(answer.is_for_descriptor);
    pfl_buf_fini(&body);
}

static int take_once(void *arg)
{
    uint8_t bytes[64];
    struct pfl_buf out;
    int rc;

    (void)arg;
    pfl_buf_init(&out, OUT_MAX);
    rc = pfl_clone_response_take_packet(packet_of(bytes, 35, "\x08\x07", 1), &out);
    if (rc == 0)
        rc = pfl_clone_response_refuse("why", &out);
    pfl_buf_fini(&out);
    return rc;
}

static void lack_of_memory_is_reported(void **state)
{
    (void)state;
    pfl_sweep(take_once, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_service_tells_of_the_clone_is_taken_and_nothing_else),
        cmocka_unit_test(statistics_come_without_those_of_writers),
        cmocka_unit_test(a_packet_that_is_cut_is_refused),
        cmocka_unit_test(an_answer_is_read_marked_and_made),
        cmocka_unit_test(lack_of_memory_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
