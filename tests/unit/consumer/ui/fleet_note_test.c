/* SPDX-License-Identifier: Apache-2.0 */
/* The event that names hosts which a trace lacks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "consumer/ui/fleet_note.h"

static uint64_t number_in(struct pfl_span message, uint32_t id)
{
    struct pfl_reader r = pfl_reader_of(message);
    struct pfl_field f;
    uint64_t value = 0;

    while (pfl_reader_field(&r, &f))
        if (f.id == id && f.type == PFL_WIRE_VARINT)
            value = f.value;
    assert_false(r.failed);
    return value;
}

static struct pfl_span bytes_in(struct pfl_span message, uint32_t id)
{
    struct pfl_reader r = pfl_reader_of(message);
    struct pfl_span value = {NULL, 0};
    struct pfl_field f;

    while (pfl_reader_field(&r, &f))
        if (f.id == id && f.type == PFL_WIRE_BYTES)
            value = f.bytes;
    assert_false(r.failed);
    return value;
}

static void the_event_has_its_track_its_time_and_the_text(void **state)
{
    static const char text[] = "missing: web2 (no answer)";
    struct pfl_span packets[2];
    struct pfl_span track;
    struct pfl_span event;
    struct pfl_reader r;
    struct pfl_field f;
    struct pfl_buf out;
    size_t len = 0;

    (void)state;
    pfl_buf_init(&out, 8192);
    assert_int_equal(pfl_fleet_note_append(123456789, text, &out), 0);
    r = pfl_reader_of(pfl_buf_get(&out));
    while (pfl_reader_field(&r, &f)) {
        assert_int_equal(f.id, 1);
        assert_true(len < 2);
        packets[len++] = f.bytes;
    }
    assert_false(r.failed);
    assert_int_equal(len, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(number_in(packets[i], 8), 123456789);
        assert_int_equal(number_in(packets[i], 10), 1);
        assert_int_equal(number_in(packets[i], 13), 1);
    }
    track = bytes_in(packets[0], 60);
    event = bytes_in(packets[1], 11);
    assert_int_equal(number_in(track, 1), number_in(event, 11));
    assert_int_equal(number_in(event, 9), 3);
    assert_int_equal(number_in(event, 1), 0); /* nothing of the track's descriptor */
    assert_null(bytes_in(event, 2).data);
    assert_int_equal(bytes_in(event, 23).len, strlen(text));
    assert_memory_equal(bytes_in(event, 23).data, text, strlen(text));
    pfl_buf_fini(&out);
}

static void a_text_that_is_too_long_is_refused(void **state)
{
    static char text[4096];
    struct pfl_buf out;

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    pfl_buf_init(&out, 16384);
    assert_int_equal(pfl_fleet_note_append(1, text, &out), PFL_ELIMIT);
    text[3072] = '\0';
    assert_int_equal(pfl_fleet_note_append(1, text, &out), 0);
    pfl_buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_event_has_its_track_its_time_and_the_text),
        cmocka_unit_test(a_text_that_is_too_long_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
