/* SPDX-License-Identifier: Apache-2.0 */
/* A collector's list as the BigTrace page sees it: settings, pages, rows, limits. */
#include "consumer/web/bigtrace/bigtrace_traces.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "consumer/text.h"
#include "tests/support/sweep.h"

#define NOW_S 1800000000

static char id[] = "01JDK8V2R7X0000000000000AB";
static char host[] = "web-1";
static char role[] = "role=web";
static char zone[] = "zone=b";
static uint8_t cursor[] = {1, 2, 3};

struct world {
    Perfleet__Segment segment;
    Perfleet__Segment gap;
    Perfleet__SegmentGap no_data;
    Perfleet__SegmentLoss loss;
    Perfleet__SegmentLoss *losses[1];
    char *labels[2];
    Perfleet__StoredTrace traces[3];
    Perfleet__StoredTrace *list[3];
    Perfleet__CollectorReply reply;
};

static void init_world(struct world *w)
{
    *w = (struct world){.segment = PERFLEET__SEGMENT__INIT,
                        .gap = PERFLEET__SEGMENT__INIT,
                        .no_data = PERFLEET__SEGMENT_GAP__INIT,
                        .loss = PERFLEET__SEGMENT_LOSS__INIT,
                        .labels = {role, zone},
                        .reply = PERFLEET__COLLECTOR_REPLY__INIT};
    for (size_t i = 0; i < 3; i++) {
        perfleet__stored_trace__init(&w->traces[i]);
        w->traces[i].id = id;
        w->traces[i].segment = &w->segment;
        w->list[i] = &w->traces[i];
    }
    w->gap.gap = &w->no_data;
    w->traces[1].segment = &w->gap;
    w->loss.count = 7;
    w->losses[0] = &w->loss;
    w->segment.host = host;
    w->segment.begin_unix_ns = UINT64_C(1795442581500000000);
    w->segment.end_unix_ns = w->segment.begin_unix_ns + 2500000000;
    w->segment.bytes = 4096;
    w->segment.label = w->labels;
    w->segment.n_label = 2;
    w->segment.loss = w->losses;
    w->segment.n_loss = 1;
    w->reply.trace = w->list;
    w->reply.n_trace = 3;
    w->reply.has_cursor = 1;
    w->reply.cursor = (ProtobufCBinaryData){sizeof(cursor), cursor};
}

static int open_traces(struct pfl_bigtrace_traces *t, const char *settings)
{
    struct pfl_bigtrace_request request;
    char body[512];
    const char *why;
    int rc;

    (void)snprintf(body, sizeof(body), "{\"settings\":[%s]}", settings);
    rc = pfl_bigtrace_request_parse(PFL_BIGTRACE_TRACES, pfl_span_of(body, strlen(body)), &request,
                                    &why);
    memset(t, 0, sizeof(*t));
    if (rc != 0)
        return PFL_ENOMEM; /* see bigtrace_request.c */
    rc = pfl_bigtrace_traces_init(t, &request, NOW_S);
    pfl_bigtrace_request_fini(&request);
    return rc;
}

static void assert_cell(const struct pfl_bigtrace_traces *t, const char *column, const char *want)
{
    struct pfl_cell cell =
        pfl_bigtrace_table_get_cell(t->table, 1, pfl_bigtrace_table_find(t->table, column));
    char number[32];

    if (cell.type == PFL_CELL_INTEGER) {
        (void)snprintf(number, sizeof(number), "%lld", (long long)cell.integer);
        assert_string_equal(number, want);
        return;
    }
    assert_int_equal(cell.type, want != NULL ? PFL_CELL_TEXT : PFL_CELL_NULL);
    if (want != NULL) {
        assert_int_equal(cell.bytes.len, strlen(want));
        assert_memory_equal(cell.bytes.data, want, strlen(want));
    }
}

static void a_reply_becomes_rows(void **state)
{
    struct pfl_bigtrace_traces t;
    struct world w;
    bool has_more;

    (void)state;
    init_world(&w);
    assert_int_equal(open_traces(&t, ""), 0);
    assert_int_equal(pfl_bigtrace_traces_take(&t, &w.reply, &has_more), 0);
    assert_true(has_more);
    assert_int_equal(pfl_bigtrace_table_get_rows(t.table), 2);
    assert_int_equal(t.asked.len, 2);
    assert_int_equal(t.asked.missing, 1);
    assert_cell(&t, "host", "web-1");
    assert_cell(&t, "start", "2026-11-23T14:03:01.500Z");
    assert_cell(&t, "end", "2026-11-23T14:03:04.000Z");
    assert_cell(&t, "trace", id);
    assert_cell(&t, "duration_ms", "2500");
    assert_cell(&t, "bytes", "4096");
    assert_cell(&t, "order", NULL);
    assert_cell(&t, "trigger", NULL);
    assert_cell(&t, "labels", "role=web,zone=b");
    assert_cell(&t, "losses", "7");
    pfl_bigtrace_traces_fini(&t);
}

static void settings_become_the_query(void **state)
{
    struct pfl_trace_selection_query q;
    struct pfl_bigtrace_traces t;
    struct world w;
    bool has_more;

    (void)state;
    init_world(&w);
    assert_int_equal(open_traces(&t, "{\"setting_id\":\"since\",\"values\":[\"2h\"]},"
                                     "{\"setting_id\":\"host\",\"values\":[\"web*\"]},"
                                     "{\"setting_id\":\"select\",\"values\":[\"role=web\"]},"
                                     "{\"setting_id\":\"lossy\",\"values\":[\"true\"]},"
                                     "{\"setting_id\":\"new\",\"values\":[\"x\"]}"),
                     0);
    assert_int_equal(pfl_bigtrace_traces_take(&t, &w.reply, &has_more), 0);
    pfl_bigtrace_traces_fill(&t, &q);
    assert_true(q.query.begin_unix_ns == (uint64_t)(NOW_S - 7200) * 1000000000);
    assert_int_equal(q.query.n_host, 1);
    assert_string_equal(q.query.host[0], "web*");
    assert_int_equal(q.query.n_label, 1);
    assert_true(q.query.lossy);
    assert_int_equal(q.query.after.len, 3);
    assert_int_equal(q.query.limit, 1000);
    pfl_bigtrace_traces_fini(&t);
    assert_int_equal(open_traces(&t, "{\"setting_id\":\"lossy\",\"values\":[\"false\"]}"), 0);
    pfl_bigtrace_traces_fill(&t, &q);
    assert_false(q.query.lossy);
    pfl_bigtrace_traces_fini(&t);
    assert_int_equal(open_traces(&t, "{\"setting_id\":\"since\",\"values\":[\"soon\"]}"),
                     PFL_EINVAL);
    assert_string_not_equal(t.selection.why, "");
    pfl_bigtrace_traces_fini(&t);
}

static void more_than_the_limit_is_cut_and_said(void **state)
{
    struct pfl_bigtrace_traces t;
    struct world w;
    bool has_more = true;

    (void)state;
    init_world(&w);
    assert_int_equal(open_traces(&t, ""), 0);
    for (unsigned i = 0; has_more; i++) {
        assert_in_range(i, 0, PFL_BIGTRACE_TRACES_MAX);
        assert_int_equal(pfl_bigtrace_traces_take(&t, &w.reply, &has_more), 0);
    }
    assert_true(t.is_cut);
    assert_int_equal(pfl_bigtrace_table_get_rows(t.table), PFL_BIGTRACE_TRACES_MAX);
    pfl_bigtrace_traces_fini(&t);
}

static void a_list_of_labels_that_is_too_long_is_cut(void **state)
{
    static char long_label[3000];
    struct pfl_bigtrace_traces t;
    struct pfl_cell cell;
    struct world w;
    bool has_more;

    (void)state;
    init_world(&w);
    memset(long_label, 'x', sizeof(long_label) - 1);
    w.labels[1] = long_label;
    assert_int_equal(open_traces(&t, ""), 0);
    assert_int_equal(pfl_bigtrace_traces_take(&t, &w.reply, &has_more), 0);
    cell = pfl_bigtrace_table_get_cell(t.table, 0, pfl_bigtrace_table_find(t.table, "labels"));
    assert_int_equal(cell.bytes.len, 1023);
    assert_memory_equal(cell.bytes.data + 1020, "...", 3);
    pfl_bigtrace_traces_fini(&t);
}

static int list(void *arg)
{
    struct pfl_bigtrace_traces t;
    struct world w;
    bool has_more;
    int rc;

    (void)arg;
    init_world(&w);
    rc = open_traces(&t, "");
    for (unsigned i = 0; rc == 0 && i < 40; i++)
        rc = pfl_bigtrace_traces_take(&t, &w.reply, &has_more);
    pfl_bigtrace_traces_fini(&t);
    return rc;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    pfl_sweep(list, NULL, false);
}

static int set_up(void **state)
{
    (void)state;
    pfl_text_init_json();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reply_becomes_rows),
        cmocka_unit_test(settings_become_the_query),
        cmocka_unit_test(more_than_the_limit_is_cut_and_said),
        cmocka_unit_test(a_list_of_labels_that_is_too_long_is_cut),
        cmocka_unit_test(each_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
