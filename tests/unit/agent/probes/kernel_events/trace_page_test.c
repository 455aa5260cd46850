/* SPDX-License-Identifier: Apache-2.0 */
/* The rare records of a page of the kernel's ring buffer, and each way in which a page is wrong. */
#include "agent/probes/kernel_events/trace_page.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define DATA_OFFSET 16u
#define PAGE_NS     1000u
#define LOST        0x80000000u

static uint8_t bytes[256];
static struct pfl_trace_page page;
static struct pfl_trace_record record;

/* A page with these words as records. */
static bool begin(const uint32_t *words, size_t count, uint32_t commit)
{
    const struct pfl_trace_page_layout layout = {.data_offset = DATA_OFFSET};
    uint64_t ns = PAGE_NS;

    memset(bytes, 0, sizeof(bytes));
    memcpy(bytes, &ns, sizeof(ns));
    memcpy(bytes + 8, &commit, sizeof(commit));
    memcpy(bytes + DATA_OFFSET, words, count * 4);
    return pfl_trace_page_init(&page, pfl_span_of(bytes, DATA_OFFSET + count * 4), layout);
}

#define BEGIN(...)                                                                                 \
    do {                                                                                           \
        const uint32_t words[] = {__VA_ARGS__};                                                    \
        assert_true(begin(words, sizeof(words) / 4, sizeof(words)));                               \
    } while (0)

#define HEADER(type, delta) ((uint32_t)(delta) << 5 | (type))

static void a_page_is_as_long_as_its_header_says(void **state)
{
    const uint32_t words[] = {HEADER(1, 5), 77};

    (void)state;
    assert_true(begin(words, 2, 8));
    assert_false(page.has_lost);
    assert_true(pfl_trace_page_next(&page, &record));
    assert_int_equal(record.event_id, 77);
    assert_int_equal(record.len, 4);
    assert_int_equal(record.timestamp_ns, PAGE_NS + 5);
    assert_false(pfl_trace_page_next(&page, &record));
    assert_int_equal(page.status, PFL_PAGE_OK);
    assert_true(begin(words, 2, LOST));
    assert_true(page.has_lost);
    assert_false(pfl_trace_page_next(&page, &record));
    assert_int_equal(page.status, PFL_PAGE_OK);
    assert_false(begin(words, 2, 9)); /* more than there is */
    assert_int_equal(page.status, PFL_PAGE_BAD_HEADER);
}

static void a_page_without_its_whole_header_is_refused(void **state)
{
    const struct pfl_trace_page_layout layout = {.data_offset = DATA_OFFSET};

    (void)state;
    memset(bytes, 0, sizeof(bytes));
    for (size_t len = 0; len < DATA_OFFSET; len++) {
        assert_false(pfl_trace_page_init(&page, pfl_span_of(bytes, len), layout));
        assert_int_equal(page.status, PFL_PAGE_BAD_HEADER);
    }
    assert_true(pfl_trace_page_init(&page, pfl_span_of(bytes, DATA_OFFSET), layout));
    assert_false(pfl_trace_page_next(&page, &record));
    assert_int_equal(page.status, PFL_PAGE_OK);
}

static void time_records_move_the_clock_of_those_behind_them(void **state)
{
    (void)state;
    BEGIN(HEADER(30, 7), 2, HEADER(1, 1), 9);
    assert_true(pfl_trace_page_next(&page, &record));
    assert_int_equal(record.timestamp_ns, PAGE_NS + 7 + (UINT64_C(2) << 27) + 1);
    BEGIN(HEADER(31, 7), 2, HEADER(1, 1), 9);
    assert_true(pfl_trace_page_next(&page, &record));
    assert_int_equal(record.timestamp_ns, (UINT64_C(2) << 27) + 8);
}

static void a_record_of_time_or_padding_may_end_the_page(void **state)
{
    static const unsigned types[] = {29, 30, 31};

    (void)state;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        BEGIN(HEADER(types[i], 7), 4);
        assert_false(pfl_trace_page_next(&page, &record));
        assert_int_equal(page.status, PFL_PAGE_OK);
    }
}

static void an_absolute_time_keeps_the_five_top_bits_of_the_pages(void **state)
{
    const uint32_t words[] = {HEADER(31, 3), 1, HEADER(1, 0), 9};
    const struct pfl_trace_page_layout layout = {.data_offset = DATA_OFFSET};
    static const uint64_t pages[] = {UINT64_C(0xf7ffffffffffffff), UINT64_C(0x0fffffffffffffff)};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        assert_true(begin(words, 4, 16));
        memcpy(bytes, &pages[i], sizeof(pages[i]));
        assert_true(pfl_trace_page_init(&page, pfl_span_of(bytes, DATA_OFFSET + 16), layout));
        assert_true(pfl_trace_page_next(&page, &record));
        assert_true(record.timestamp_ns ==
                    ((i == 0 ? UINT64_C(0xf0) : 8) << 56 | UINT64_C(1) << 27 | 3));
    }
}

static void a_long_record_has_its_length_in_a_word_that_counts_itself(void **state)
{
    (void)state;
    BEGIN(HEADER(0, 4), 12, 300, 1, HEADER(1, 1), 9);
    assert_true(pfl_trace_page_next(&page, &record));
    assert_int_equal(record.event_id, 300);
    assert_int_equal(record.len, 8);
    assert_ptr_equal(record.data, bytes + DATA_OFFSET + 8);
    assert_int_equal(record.timestamp_ns, PAGE_NS + 4);
    assert_true(pfl_trace_page_next(&page, &record));
    assert_int_equal(record.event_id, 9);
    assert_int_equal(record.timestamp_ns, PAGE_NS + 5);
    BEGIN(HEADER(0, 0), 6, 5); /* the shortest: an event id */
    assert_true(pfl_trace_page_next(&page, &record));
    assert_int_equal(record.len, 2);
}

static void padding_is_passed_over_and_may_reach_past_the_records(void **state)
{
    (void)state;
    BEGIN(HEADER(29, 2), 8, 0, HEADER(1, 1), 9);
    assert_true(pfl_trace_page_next(&page, &record));
    assert_int_equal(record.event_id, 9);
    assert_int_equal(record.timestamp_ns, PAGE_NS + 3);
    assert_false(pfl_trace_page_next(&page, &record));
    assert_int_equal(page.status, PFL_PAGE_OK);
    BEGIN(HEADER(29, 2), 4000, 0, 0);
    assert_false(pfl_trace_page_next(&page, &record));
    assert_int_equal(page.status, PFL_PAGE_OK);
    BEGIN(HEADER(29, 2), 4, HEADER(1, 1), 9); /* the least: its own length */
    assert_true(pfl_trace_page_next(&page, &record));
    assert_int_equal(record.event_id, 9);
}

static void what_makes_no_sense_ends_the_page_with_its_status(void **state)
{
    static const struct {
        uint32_t words[3];
        size_t count;
        enum pfl_page_status status;
    } wrong[] = {
        {{HEADER(29, 0), 8, 0}, 3, PFL_PAGE_NULL_PADDING},
        {{HEADER(29, 1)}, 1, PFL_PAGE_SHORT_PADDING},
        {{HEADER(29, 1), 3, 0}, 3, PFL_PAGE_BAD_PADDING},
        {{HEADER(30, 1)}, 1, PFL_PAGE_SHORT_TIME_EXTEND},
        {{HEADER(31, 1)}, 1, PFL_PAGE_SHORT_TIME_STAMP},
        {{HEADER(0, 1)}, 1, PFL_PAGE_SHORT_LENGTH},
        {{HEADER(0, 1), 0, 0}, 3, PFL_PAGE_ZERO_LENGTH},
        {{HEADER(0, 1), 1, 0}, 3, PFL_PAGE_BAD_LENGTH},
        {{HEADER(0, 1), 3, 0}, 3, PFL_PAGE_BAD_LENGTH},
        {{HEADER(0, 1), 4, 0}, 3, PFL_PAGE_SHORT_EVENT_ID},
        {{HEADER(0, 1), 5, 0}, 3, PFL_PAGE_SHORT_EVENT_ID},
        {{HEADER(0, 1), 9, 0}, 3, PFL_PAGE_OVERFLOW},
        {{HEADER(3, 1), 5, 0}, 3, PFL_PAGE_OVERFLOW},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_true(begin(wrong[i].words, wrong[i].count, (uint32_t)wrong[i].count * 4));
        assert_false(pfl_trace_page_next(&page, &record));
        if (page.status != wrong[i].status)
            fail_msg("case %zu: %d", i, (int)page.status);
    }
}

static void bytes_that_are_no_whole_header_are_reported(void **state)
{
    const uint32_t words[] = {HEADER(1, 1), 9, 1};

    (void)state;
    for (uint32_t more = 1; more < 4; more++) {
        assert_true(begin(words, 3, 8 + more));
        assert_true(pfl_trace_page_next(&page, &record));
        assert_false(pfl_trace_page_next(&page, &record));
        assert_int_equal(page.status, PFL_PAGE_SHORT_HEADER);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_is_as_long_as_its_header_says),
        cmocka_unit_test(a_page_without_its_whole_header_is_refused),
        cmocka_unit_test(time_records_move_the_clock_of_those_behind_them),
        cmocka_unit_test(a_record_of_time_or_padding_may_end_the_page),
        cmocka_unit_test(an_absolute_time_keeps_the_five_top_bits_of_the_pages),
        cmocka_unit_test(a_long_record_has_its_length_in_a_word_that_counts_itself),
        cmocka_unit_test(padding_is_passed_over_and_may_reach_past_the_records),
        cmocka_unit_test(what_makes_no_sense_ends_the_page_with_its_status),
        cmocka_unit_test(bytes_that_are_no_whole_header_are_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
