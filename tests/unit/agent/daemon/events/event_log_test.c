/* SPDX-License-Identifier: Apache-2.0 */
/* The event log: numbered lines in order, never more than it may keep, and what is lost is
 * reported. */
#include "agent/daemon/events/event_log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/sweep.h"

static void assert_line(const struct pfl_event_log *log, uint64_t number, const char *text)
{
    struct pfl_span line = pfl_event_log_get(log, number);

    assert_int_equal(line.len, strlen(text));
    assert_memory_equal(line.data, text, line.len);
}

static void lines_are_numbered_and_go_when_they_are_released(void **state)
{
    struct pfl_event_log log;

    (void)state;
    pfl_event_log_init(&log);
    assert_line(&log, 0, "");
    pfl_event_log_add(&log, "a", false);
    pfl_event_log_add(&log, "b", false);
    assert_line(&log, 0, "a\n");
    assert_line(&log, 1, "b\n");
    assert_line(&log, 2, "");
    pfl_event_log_release(&log, 1);
    assert_line(&log, 0, "");
    assert_line(&log, 1, "b\n");
    pfl_event_log_release(&log, 99);
    assert_line(&log, 1, "");
    pfl_event_log_add(&log, "c", false);
    assert_line(&log, 2, "c\n");
    pfl_event_log_fini(&log);
    pfl_sweep_assert_no_leak();
}

static void what_does_not_fit_is_counted_and_reported_when_there_is_room(void **state)
{
    const unsigned room = PFL_EVENT_LOG_LINES - PFL_EVENT_LOG_URGENT;
    char large[PFL_EVENT_LOG_LINE_BYTES + 2];
    struct pfl_event_log log;

    (void)state;
    memset(large, 'x', sizeof(large));
    large[sizeof(large) - 1] = '\0';
    pfl_event_log_init(&log);
    for (unsigned i = 0; i < room + 3; i++)
        pfl_event_log_add(&log, "x", false);
    assert_true(pfl_event_log_is_full(&log, false));
    assert_line(&log, room, "");
    pfl_event_log_release(&log, 1); /* room for the count alone, which is reported at once */
    assert_line(&log, room, "{\"kind\":\"lost\",\"count\":3}\n");
    pfl_event_log_add(&log, "y", false);
    assert_line(&log, room + 1, "");
    pfl_event_log_release(&log, room);
    assert_line(&log, room + 1, "{\"kind\":\"lost\",\"count\":1}\n");
    pfl_event_log_add(&log, large, false);
    pfl_event_log_add(&log, "z", false);
    assert_line(&log, room + 2, "{\"kind\":\"lost\",\"count\":1}\n");
    assert_line(&log, room + 3, "z\n");
    pfl_event_log_count_lost(&log, 7);
    assert_line(&log, room + 4, "{\"kind\":\"lost\",\"count\":7}\n");
    pfl_event_log_fini(&log);
    pfl_sweep_assert_no_leak();
}

static void what_is_urgent_has_room_when_others_have_none(void **state)
{
    struct pfl_event_log log;

    (void)state;
    pfl_event_log_init(&log);
    for (unsigned i = 0; i < 2 * PFL_EVENT_LOG_LINES; i++)
        pfl_event_log_add(&log, "x", false);
    for (unsigned i = 0; i < PFL_EVENT_LOG_URGENT; i++)
        pfl_event_log_add(&log, "u", true);
    assert_line(&log, PFL_EVENT_LOG_LINES - PFL_EVENT_LOG_URGENT - 1, "x\n");
    assert_line(&log, PFL_EVENT_LOG_LINES - PFL_EVENT_LOG_URGENT, "u\n");
    assert_line(&log, PFL_EVENT_LOG_LINES - 1, "u\n");
    assert_true(pfl_event_log_is_full(&log, true));
    pfl_event_log_add(&log, "u", true);
    assert_line(&log, PFL_EVENT_LOG_LINES, "");
    pfl_event_log_fini(&log);
    pfl_sweep_assert_no_leak();
}

/* Without memory a line is lost, and the next that has some says so. */
static int add_lines(void *user)
{
    struct pfl_event_log log;
    struct pfl_span line;
    int rc = 0;

    (void)user;
    pfl_event_log_init(&log);
    pfl_event_log_add(&log, "a", false);
    pfl_event_log_add(&log, "b", false);
    line = pfl_event_log_get(&log, 0);
    if (line.len != 2 || line.data[0] != 'a' || log.lost != 0)
        rc = PFL_ENOMEM;
    pfl_event_log_fini(&log);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    pfl_sweep(add_lines, NULL, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_numbered_and_go_when_they_are_released),
        cmocka_unit_test(what_does_not_fit_is_counted_and_reported_when_there_is_room),
        cmocka_unit_test(what_is_urgent_has_room_when_others_have_none),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
