/* SPDX-License-Identifier: Apache-2.0 */
/* Streamed recordings of two played hosts: read again and again, one file after the other. */
#include "consumer/recording/recording.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/sweep.h"
#include "tests/unit/consumer/recording/recording_world.h"

static void streamed_hosts_are_read_again_and_again(void **state)
{
    struct recording_world w;

    (void)state;
    recording_world_prepare(&w);
    w.passes = 3;
    recording_world_run(&w);
    for (size_t i = 0; i < HOSTS; i++) {
        struct pfl_recording_host h = recording_world_result(&w, i);

        assert_string_equal(h.report->why, "");
        assert_true(h.report->passes >= 3);
        assert_int_equal(h.merged.packets, (h.report->passes + 1) * PACKETS);
        assert_int_equal(h.merged.refused_packets, 0);
    }
    /* And clock points, when an offset has changed. */
    assert_true(recording_world_count_packets(&w) >=
                recording_world_result(&w, 0).merged.packets +
                    recording_world_result(&w, 1).merged.packets + PREAMBLE);
    recording_world_fini(&w);
}

static void streamed_host_that_dies_leaves_what_it_had_sent(void **state)
{
    struct recording_world w;

    (void)state;
    recording_world_prepare(&w);
    w.passes = 2;
    w.fakes[1].trick = FAKE_HALF;
    recording_world_run(&w);
    assert_true(recording_world_result(&w, 0).merged.packets >= 3 * PACKETS);
    assert_int_equal(recording_world_result(&w, 1).state, PFL_HOST_FAILED);
    assert_true(recording_world_result(&w, 1).is_merged);
    assert_int_equal(recording_world_result(&w, 1).merged.packets, PACKETS / 2 + 1);
    recording_world_fini(&w);
}

static void full_disk_ends_a_streamed_recording(void **state)
{
    struct recording_world w;

    (void)state;
    recording_world_prepare(&w);
    unlink(w.path);
    snprintf(w.path, sizeof(w.path), "/dev/full");
    w.passes = 1000000;
    recording_world_run(&w);
    assert_true(pfl_recording_has_file_failed(w.recording));
    assert_non_null(strstr(pfl_recording_get_why(w.recording), "No space"));
    w.path[0] = '\0';
    recording_world_fini(&w);
}

static void name_rotated(const struct recording_world *w, uint32_t number, char out[96])
{
    snprintf(out, 96, "%.60s-%04u", w->path, number);
}

/* What the hosts' values in a file are, by host: each continues where the file before ended. */
static void check_values(const char *path, uint64_t values[HOSTS])
{
    static uint8_t bytes[1u << 20];
    FILE *f = fopen(path, "rb");
    struct pfl_reader r;
    struct pfl_field field;

    assert_non_null(f);
    r = pfl_reader_of(pfl_span_of(bytes, fread(bytes, 1, sizeof(bytes), f)));
    fclose(f);
    while (pfl_reader_field(&r, &field)) {
        struct pfl_reader p = pfl_reader_of(field.bytes);
        struct pfl_field inner;
        uint64_t value = 0;
        size_t host = 0;

        while (pfl_reader_field(&p, &inner)) {
            if (inner.id == FAKE_HOST_VALUE)
                value = inner.value;
            if (inner.id == 98)
                host = 1;
        }
        if (value != 0)
            assert_int_equal(value, ++values[host]);
    }
    assert_false(r.failed);
}

/* Nothing is lost, and nothing is in two of them. */
static void streamed_hosts_go_from_one_file_into_the_next(void **state)
{
    struct recording_world w;
    uint64_t values[HOSTS] = {0};
    uint32_t first;
    uint32_t last;
    char path[96];

    (void)state;
    recording_world_prepare(&w);
    w.passes = 6;
    w.rotation.bytes = 2 * PACKETS * 100;
    w.fakes[1].clears_every = 150; /* the other one's packets refer to nothing */
    recording_world_run(&w);
    assert_true(pfl_recording_get_files(w.recording, &first, &last));
    assert_int_equal(first, 1);
    assert_true(last >= 2);
    for (uint32_t i = first; i <= last; i++) {
        name_rotated(&w, i, path);
        check_values(path, values);
        unlink(path);
    }
    for (size_t i = 0; i < HOSTS; i++) {
        assert_int_equal(values[i], recording_world_result(&w, i).merged.packets);
        assert_int_equal(recording_world_result(&w, i).merged.unreadable.skipped, 0);
    }
    recording_world_fini(&w);
}

static void a_disk_that_is_low_ends_a_streamed_recording_in_good_order(void **state)
{
    struct recording_world w;

    (void)state;
    recording_world_prepare(&w);
    w.passes = 1000000;
    w.keep_free = UINT64_MAX;
    recording_world_run(&w);
    assert_true(pfl_recording_is_disk_low(w.recording));
    assert_false(pfl_recording_has_file_failed(w.recording));
    assert_non_null(strstr(pfl_recording_get_why(w.recording), "--keep-free-mib"));
    for (size_t i = 0; i < HOSTS; i++)
        assert_int_equal(recording_world_result(&w, i).state, PFL_HOST_DONE);
    assert_true(recording_world_count_packets(&w) >= 2 * PACKETS + PREAMBLE);
    recording_world_fini(&w);
}

static int stream_once(void *arg)
{
    struct recording_world *w = arg;
    char path[96];

    recording_world_prepare(w);
    w->passes = 2; /* the second one goes into the second file */
    w->rotation.bytes = 1;
    w->fakes[0].packets = w->fakes[1].packets = 3;
    w->fakes[1].clears_every = 2;
    (void)recording_world_start(w);
    recording_world_finish(w);
    pfl_recording_free(w->recording);
    for (uint32_t i = 1; i < 20; i++) {
        name_rotated(w, i, path);
        unlink(path);
        snprintf(path + strlen(path), 10, ".partial");
        unlink(path);
    }
    unlink(w->path);
    return uv_loop_close(&w->loop) != 0 ? PFL_ESTATE : 0;
}

static void every_failed_allocation_is_survived_while_it_is_streamed(void **state)
{
    static struct recording_world w;

    (void)state;
    pfl_sweep(stream_once, &w, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streamed_hosts_are_read_again_and_again),
        cmocka_unit_test(streamed_host_that_dies_leaves_what_it_had_sent),
        cmocka_unit_test(full_disk_ends_a_streamed_recording),
        cmocka_unit_test(streamed_hosts_go_from_one_file_into_the_next),
        cmocka_unit_test(a_disk_that_is_low_ends_a_streamed_recording_in_good_order),
        cmocka_unit_test(every_failed_allocation_is_survived_while_it_is_streamed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
