/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of difftest that need no service: what it generates, compares and makes small. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "perfetto/trace_packet.fields.h"
#include "proto/packet.h"
#include "tests/differential/compare.h"
#include "tests/differential/outcome.h"
#include "tests/differential/payload.h"
#include "tests/differential/shrink.h"
#include "tests/support/sweep.h"

static int teardown(void **state)
{
    (void)state;
    pfl_sweep_assert_no_leak();
    return 0;
}

static void print_seed(struct diff_text *out, uint64_t seed)
{
    struct diff_schedule schedule;

    diff_text_init(out);
    diff_generate(&schedule, seed, 60);
    diff_schedule_print(&schedule, out);
    diff_schedule_fini(&schedule);
}

static void a_seed_is_a_schedule(void **state)
{
    struct diff_text first, again, other;

    (void)state;
    for (uint64_t seed = 1; seed < 200; seed++) {
        print_seed(&first, seed);
        print_seed(&again, seed);
        print_seed(&other, seed + 1000);
        assert_string_equal(diff_text_get(&first), diff_text_get(&again));
        assert_string_not_equal(diff_text_get(&first), diff_text_get(&other));
        diff_text_fini(&first);
        diff_text_fini(&again);
        diff_text_fini(&other);
    }
}

static bool has_word(const struct diff_schedule *schedule, const char *word)
{
    for (size_t i = 0; i < schedule->len; i++) {
        if (strstr(schedule->lines[i], word) != NULL)
            return true;
    }
    return false;
}

static bool shows_needles(void *user, const struct diff_schedule *schedule)
{
    ++*(unsigned *)user;
    return has_word(schedule, "needle") && has_word(schedule, "thread");
}

static void shrinking_leaves_the_lines_and_words_that_matter(void **state)
{
    struct diff_schedule schedule;
    struct diff_text text;
    unsigned tries = 0;

    (void)state;
    diff_schedule_init(&schedule);
    for (unsigned i = 0; i < 300; i++) {
        const char *line = i == 70    ? "fill 0 hay needle straw hay"
                           : i == 222 ? "more 1 thread"
                                      : "fill 1 hay";

        diff_schedule_add(&schedule, line, strlen(line));
    }
    diff_shrink(&schedule, shows_needles, &tries);
    diff_text_init(&text);
    diff_schedule_print(&schedule, &text);
    assert_string_equal(diff_text_get(&text), "fill 0 needle \nmore 1 thread\n");
    assert_true(tries < 300);
    diff_text_fini(&text);
    diff_schedule_fini(&schedule);
}

#define PACKET " 1 40 7 0badcafe"

static void outcomes_are_the_same_line_by_line(void **state)
{
    (void)state;
    assert_int_equal(diff_judge("", "", true), DIFF_SAME);
    assert_int_equal(diff_judge(PACKET "\n", PACKET "\n", true), DIFF_SAME);
    assert_int_equal(diff_judge(PACKET "\n", "", false), DIFF_DIFFERENT);
    assert_int_equal(diff_judge("", PACKET "\n", false), DIFF_DIFFERENT);
    assert_int_equal(diff_judge(PACKET "\n", " 1 41 7 0badcafe\n", false), DIFF_DIFFERENT);
    assert_int_equal(diff_judge("a\nb\n", "b\na\n", false), DIFF_DIFFERENT);
}

static void only_gaps_are_forgiven_and_only_of_untidy_schedules(void **state)
{
    (void)state;
    assert_int_equal(diff_judge(PACKET " loss=3\n", PACKET "\n", false), DIFF_SAME);
    assert_int_equal(diff_judge(PACKET "\n", PACKET " loss=3\n", false), DIFF_SAME);
    assert_int_equal(diff_judge(PACKET " loss=35\n", PACKET " loss=17\n", false), DIFF_DIFFERENT);
    assert_int_equal(diff_judge(PACKET " loss=3\n", PACKET "\n", true), DIFF_DIFFERENT);
    assert_int_equal(diff_judge(PACKET " loss=65\n", PACKET " loss=67\n", true), DIFF_SAME);
    assert_int_equal(diff_judge(PACKET "\n", PACKET " loss=3\n", true), DIFF_SAME);
    assert_int_equal(diff_judge(PACKET "\n", PACKET " loss=65\n", true), DIFF_DIFFERENT);
    assert_int_equal(diff_judge(PACKET " loss=65\n", PACKET "\n", true), DIFF_DIFFERENT);
    assert_int_equal(diff_judge(PACKET " loss=65\n", PACKET " loss=73\n", true), DIFF_DIFFERENT);
    assert_int_equal(diff_judge("a\n" PACKET " loss=65\nb\n", "a\n" PACKET "\nc\n", false),
                     DIFF_DIFFERENT);
}

static void packets_that_nobody_can_read_are_excused_and_nothing_else(void **state)
{
    static const char whole[] = " 1 80 7+8 0badcafe\n 1 4 9 00000001\n  buffer 0: 1=2 7=1\n";
    static const char broken[] = " 1 4 9 00000001 loss=25\n  buffer 0: 1=2 8=1\n";
    static const char counted[] = PACKET "\n  session: 9=1 10=4 12=1\n";

    (void)state;
    assert_int_equal(diff_judge(PACKET "\n", " unreadable\n" PACKET "\n", false), DIFF_EXCUSED);
    assert_int_equal(diff_judge(" unreadable\n" PACKET "\n", PACKET "\n", false), DIFF_DIFFERENT);
    assert_int_equal(
        diff_judge(counted, " unreadable\n" PACKET "\n  session: 9=1 10=3 12=1\n", false),
        DIFF_EXCUSED);
    assert_int_equal(
        diff_judge(counted, " unreadable\n" PACKET "\n  session: 9=1 10=3 12=2\n", false),
        DIFF_DIFFERENT);
    assert_int_equal(diff_judge(whole, broken, false), DIFF_DIFFERENT);
    assert_int_equal(diff_judge(broken, whole, false), DIFF_DIFFERENT);
    assert_int_equal(diff_judge("  buffer 0: 10=2\n", "  buffer 0: 10=3\n", false), DIFF_DIFFERENT);
}

static void fragments_of_any_length_make_valid_packets(void **state)
{
    uint8_t room[600];

    (void)state;
    for (unsigned len = 2; len < 500; len++) {
        struct pfl_writer w = pfl_writer_of(room, sizeof(room));
        struct iovec packet = {.iov_base = room + 4, .iov_len = len};
        char word[32];

        (void)snprintf(word, sizeof(word), "77/%u", len);
        assert_true(diff_payload_put(&w, word));
        assert_int_equal(w.pos - room, 4 + len);
        assert_true(pfl_packet_is_valid(&packet, 1));
    }
}

static void a_fragment_that_does_not_fit_is_not_begun(void **state)
{
    uint8_t room[20];
    struct pfl_writer w = pfl_writer_of(room, sizeof(room));

    (void)state;
    assert_false(diff_payload_put(&w, "1/17"));
    assert_false(diff_payload_put(&w, "nonsense"));
    assert_int_equal(w.left, sizeof(room));
    assert_true(diff_payload_put(&w, "1/16"));
    assert_int_equal(w.left, 0);
    assert_false(diff_payload_put(&w, "0"));
    assert_false(diff_payload_put(&w, "!"));
}

static void a_packet_is_reported_by_its_fragments_and_what_the_service_said_of_it(void **state)
{
    static struct diff_baseline baseline;
    uint8_t room[100];
    struct pfl_writer w = pfl_writer_of(room, sizeof(room));
    struct diff_text out;

    (void)state;
    diff_text_init(&out);
    assert_true(diff_payload_put(&w, "5/3s"));
    pfl_writer_field_varint(&w, TRACE_PACKET__TRUSTED_UID, 1u << 30); /* nobody's */
    pfl_writer_field_varint(&w, TRACE_PACKET__TRUSTED_PACKET_SEQUENCE_ID, 400);
    pfl_writer_field_varint(&w, TRACE_PACKET__PREVIOUS_PACKET_DROPPED, 65);
    diff_outcome_packet(&out, pfl_span_of(room + 1, (size_t)(w.pos - room) - 1), &baseline);
    assert_string_equal(diff_text_get(&out), " 1 3 5 d434f56a trusted=odd loss=65\n");
    diff_text_fini(&out);
}

#define ROW(name) cmocka_unit_test_teardown(name, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(a_seed_is_a_schedule),
        ROW(shrinking_leaves_the_lines_and_words_that_matter),
        ROW(outcomes_are_the_same_line_by_line),
        ROW(only_gaps_are_forgiven_and_only_of_untidy_schedules),
        ROW(packets_that_nobody_can_read_are_excused_and_nothing_else),
        ROW(fragments_of_any_length_make_valid_packets),
        ROW(a_fragment_that_does_not_fit_is_not_begun),
        ROW(a_packet_is_reported_by_its_fragments_and_what_the_service_said_of_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
