/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events: each line of the data has its field, and an empty line ends the event. */
#include "consumer/http/event_stream.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/sweep.h"

static void check_event(const char *text, const char *event)
{
    struct pfl_buf out;

    pfl_buf_init(&out, 256);
    assert_int_equal(pfl_event_stream_add(&out, pfl_span_of(text, strlen(text))), 0);
    assert_int_equal(out.len, strlen(event));
    assert_memory_equal(pfl_buf_get(&out).data, event, out.len);
    pfl_buf_fini(&out);
}

static void each_line_has_its_field(void **state)
{
    (void)state;
    check_event("one", "data: one\n\n");
    check_event("one\ntwo", "data: one\ndata: two\n\n");
    check_event("one\n\nid: 7\n", "data: one\ndata: \ndata: id: 7\n\n");
    check_event("", "data: \n\n");
}

static void what_does_not_fit_is_said(void **state)
{
    struct pfl_buf out;

    (void)state;
    pfl_buf_init(&out, 8);
    assert_int_equal(pfl_event_stream_add(&out, pfl_span_of("abc", 3)), PFL_ELIMIT);
    pfl_buf_fini(&out);
}

static int add(void *arg)
{
    struct pfl_buf out;
    int rc;

    (void)arg;
    pfl_buf_init(&out, 65536);
    rc = pfl_event_stream_add(&out, pfl_span_of("one\ntwo\nthree", 13));
    pfl_buf_fini(&out);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    pfl_sweep(add, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_line_has_its_field),
        cmocka_unit_test(what_does_not_fit_is_said),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
