/* SPDX-License-Identifier: Apache-2.0 */
/* The list of traces: gaps are counted, what has no ID is left out, each allocation may fail. */
#include "consumer/ask/asked_traces.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/support/sweep.h"

static char id[] = "01JDK8V2R7X0000000000000AB";
static char no_id[] = "../../etc/passwd";
static char host[] = "web-1";

struct world {
    Perfleet__Segment segment;
    Perfleet__Segment nowhere;
    Perfleet__Segment gap;
    Perfleet__SegmentGap no_data;
    Perfleet__StoredTrace traces[5];
    Perfleet__StoredTrace *list[5];
    Perfleet__CollectorReply reply;
};

static void init_world(struct world *w)
{
    *w = (struct world){.segment = PERFLEET__SEGMENT__INIT,
                        .nowhere = PERFLEET__SEGMENT__INIT,
                        .gap = PERFLEET__SEGMENT__INIT,
                        .no_data = PERFLEET__SEGMENT_GAP__INIT,
                        .reply = PERFLEET__COLLECTOR_REPLY__INIT};
    for (size_t i = 0; i < 5; i++) {
        perfleet__stored_trace__init(&w->traces[i]);
        w->traces[i].id = id;
        w->traces[i].segment = &w->segment;
        w->list[i] = &w->traces[i];
    }
    w->segment.host = host;
    w->segment.begin_unix_ns = 7;
    w->segment.bytes = 9;
    w->gap.gap = &w->no_data;
    w->traces[1].segment = &w->gap;
    w->traces[2].segment = NULL;
    w->traces[3].id = no_id;
    w->nowhere.host = NULL;
    w->traces[4].segment = &w->nowhere;
    w->reply.trace = w->list;
    w->reply.n_trace = 5;
}

static void a_reply_gives_its_traces_and_counts_its_gaps(void **state)
{
    struct pfl_asked_traces traces = {.len = 0};
    struct world w;

    (void)state;
    init_world(&w);
    assert_int_equal(pfl_asked_traces_take(&traces, &w.reply), 0);
    assert_int_equal(traces.len, 2);
    assert_int_equal(traces.missing, 1);
    assert_string_equal(traces.all[0].name, id);
    assert_string_equal(traces.all[0].host, "web-1");
    assert_int_equal(traces.all[0].begin_unix_ns, 7);
    assert_int_equal(traces.all[0].bytes, 9);
    assert_string_equal(traces.all[1].host, "");
    pfl_asked_traces_fini(&traces);
}

static int fill(void *user)
{
    struct pfl_asked_traces traces = {.len = 0};
    struct world w;
    int rc = 0;

    (void)user;
    init_world(&w);
    for (unsigned i = 0; rc == 0 && i < 40; i++)
        rc = pfl_asked_traces_take(&traces, &w.reply);
    if (rc == 0)
        rc = pfl_asked_traces_add_file(&traces, "a.pftrace");
    if (rc == 0) {
        assert_int_equal(traces.len, 81);
        assert_string_equal(traces.all[80].name, "a.pftrace");
    }
    pfl_asked_traces_fini(&traces);
    assert_null(traces.all);
    return rc;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    pfl_sweep(fill, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reply_gives_its_traces_and_counts_its_gaps),
        cmocka_unit_test(each_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
