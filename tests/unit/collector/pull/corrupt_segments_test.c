/* SPDX-License-Identifier: Apache-2.0 */
/* When a corrupt segment is read again. */
#include "collector/pull/corrupt_segments.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const struct pfl_corrupt_segment_name one = {"web1", "01JD0000000000000000000000", 7};

static void it_waits_longer_each_time_up_to_a_day(void **state)
{
    static struct pfl_corrupt_segments all;
    uint64_t wait_ms = PFL_CORRUPT_SEGMENTS_WAIT_MS;
    uint64_t now_ms = 5;

    (void)state;
    assert_false(pfl_corrupt_segments_waits(&all, &one, now_ms));
    for (unsigned i = 0; i < 20; i++) {
        pfl_corrupt_segments_note(&all, &one, now_ms);
        assert_true(pfl_corrupt_segments_waits(&all, &one, now_ms + wait_ms - 1));
        now_ms += wait_ms;
        assert_false(pfl_corrupt_segments_waits(&all, &one, now_ms));
        wait_ms = wait_ms * 2 < PFL_CORRUPT_SEGMENTS_WAIT_MAX_MS ? wait_ms * 2
                                                                 : PFL_CORRUPT_SEGMENTS_WAIT_MAX_MS;
    }
    assert_int_equal(wait_ms, PFL_CORRUPT_SEGMENTS_WAIT_MAX_MS);
}

static void others_do_not_wait(void **state)
{
    static const struct pfl_corrupt_segment_name others[] = {
        {"web1", "01JD0000000000000000000000", 8},
        {"web1", "01JD0000000000000000000001", 7},
        {"web2", "01JD0000000000000000000000", 7},
    };
    static struct pfl_corrupt_segments all;

    (void)state;
    pfl_corrupt_segments_note(&all, &one, 0);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_false(pfl_corrupt_segments_waits(&all, &others[i], 1));
}

/* More than the table has: each of them still waits, or is read once more; nothing else happens. */
static void the_newest_have_their_entries(void **state)
{
    static struct pfl_corrupt_segments all = {.key = {{1, 2}}};
    struct pfl_corrupt_segment_name name = one;
    unsigned waiting = 0;

    (void)state;
    for (name.number = 1; name.number <= 4 * PFL_CORRUPT_SEGMENTS_MAX; name.number++) {
        pfl_corrupt_segments_note(&all, &name, 0);
        assert_true(pfl_corrupt_segments_waits(&all, &name, 1));
    }
    for (name.number = 1; name.number <= 4 * PFL_CORRUPT_SEGMENTS_MAX; name.number++)
        waiting += pfl_corrupt_segments_waits(&all, &name, 1);
    assert_in_range(waiting, PFL_CORRUPT_SEGMENTS_MAX / 2, PFL_CORRUPT_SEGMENTS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_waits_longer_each_time_up_to_a_day),
        cmocka_unit_test(others_do_not_wait),
        cmocka_unit_test(the_newest_have_their_entries),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
