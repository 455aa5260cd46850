/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of traces: which cells, which rows, and what is written of them, as a whole text. */
#include "collector/serve/trace_sum.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "perfleet/collector.fields.h"
#include "proto/unpack.h"
#include "tests/support/sweep.h"

#define BEGIN    1000u
#define CELL     100u
#define CELLS    4u
#define TEXT_MAX 65536u

static char text[TEXT_MAX];
static struct pfl_trace_sum *sum;

struct trace {
    const char *host;
    const char *label; /* NULL: none */
    uint64_t begin;
    uint64_t end;
    uint64_t bytes; /* 0: a gap */
    uint64_t losses;
};

static void begin(const char *label, uint32_t cells)
{
    const struct pfl_trace_sum_conf conf = {BEGIN, CELL, cells, label};

    assert_int_equal(pfl_trace_sum_new(&conf, &sum), 0);
}

static void add(const struct trace *t)
{
    Perfleet__Segment s = PERFLEET__SEGMENT__INIT;
    Perfleet__SegmentLoss loss = PERFLEET__SEGMENT_LOSS__INIT;
    Perfleet__SegmentLoss *losses[] = {&loss, &loss};
    char *labels[] = {(char *)(uintptr_t) "other=x", (char *)(uintptr_t)t->label};
    uint8_t bytes[512];
    struct pfl_index_row row = {.host = t->host,
                                .key = t->bytes != 0 ? "k" : "",
                                .begin_unix_ns = t->begin,
                                .end_unix_ns = t->end,
                                .bytes = t->bytes};

    s.label = labels;
    s.n_label = t->label != NULL ? 2 : 1;
    loss.has_count = 1;
    loss.count = t->losses;
    s.loss = losses;
    s.n_loss = t->losses != 0 ? 2 : 0;
    assert_true(protobuf_c_message_get_packed_size(&s.base) <= sizeof(bytes));
    row.segment = pfl_span_of(bytes, protobuf_c_message_pack(&s.base, bytes));
    pfl_trace_sum_add(sum, &row);
}

static void describe(const Perfleet__TraceSum *row)
{
    size_t at = strlen(text);

    at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s:", row->name,
                           row->is_rest ? " (rest)" : "");
    for (size_t i = 0; i < row->n_cell; i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, " %u=%u/%u/%u/%u", row->cell[i]->index,
                               (unsigned)row->cell[i]->traces, (unsigned)row->cell[i]->bytes,
                               (unsigned)row->cell[i]->gaps, (unsigned)row->cell[i]->losses);
    (void)snprintf(text + at, sizeof(text) - at, "\n");
}

/* Each row with its cells: index=traces/bytes/gaps/losses. */
static const char *end(void)
{
    ProtobufCMessage *message;
    struct pfl_message m;
    struct pfl_buf out;
    size_t rows;

    pfl_buf_init(&out, 1u << 20);
    m = pfl_message_of(&out);
    pfl_trace_sum_write(sum, COLLECTOR_REPLY__SUM, &m);
    assert_int_equal(m.rc, 0);
    assert_int_equal(
        pfl_proto_unpack(&perfleet__collector_reply__descriptor, pfl_buf_get(&out), &message), 0);
    text[0] = '\0';
    rows = ((Perfleet__CollectorReply *)message)->n_sum;
    for (size_t i = 0; i < rows; i++)
        describe(((Perfleet__CollectorReply *)message)->sum[i]);
    pfl_proto_free(message);
    pfl_buf_fini(&out);
    pfl_trace_sum_free(sum);
    pfl_sweep_assert_no_leak();
    return text;
}

static void trace_counts_in_each_cell_that_it_overlaps(void **state)
{
    (void)state;
    begin("", CELLS);
    add(&(struct trace){"web1", NULL, 1000, 1100, 7, 0}); /* ends where the next cell begins */
    add(&(struct trace){"web1", NULL, 1099, 1101, 9, 3}); /* in two */
    add(&(struct trace){"web1", NULL, 1200, 1200, 1, 0}); /* of no length */
    add(&(struct trace){"web1", NULL, 900, 1001, 20, 0}); /* began before */
    add(&(struct trace){"db1", NULL, 1399, 5000, 30, 0}); /* ends behind */
    add(&(struct trace){"db1", NULL, 1100, 1300, 0, 0});  /* a gap in two */
    add(&(struct trace){"db1", NULL, 1150, 1100, 5, 0});  /* ends before it begins */
    assert_string_equal(end(), "db1: 1=1/5/1/0 2=0/0/1/0 3=1/30/0/0\n"
                               "web1: 0=3/36/0/6 1=1/0/0/0 2=1/1/0/0\n");
}

static void rows_are_values_of_a_label(void **state)
{
    (void)state;
    begin("role", CELLS);
    add(&(struct trace){"web1", "role=web", 1000, 1001, 1, 0});
    add(&(struct trace){"web2", "role=web", 1000, 1001, 1, 0});
    add(&(struct trace){"db1", "role=", 1000, 1001, 1, 0});
    add(&(struct trace){"db2", NULL, 1000, 1001, 1, 0});
    add(&(struct trace){"x", "rolex=web", 1000, 1001, 1, 0});
    add(&(struct trace){"x", "rol=web", 1000, 1001, 1, 0});
    add(&(struct trace){"x", "role", 1000, 1001, 1, 0});
    add(&(struct trace){"w", "role=we", 1000, 1001, 1, 0});
    assert_string_equal(end(), ": 0=5/5/0/0\n"
                               "we: 0=1/1/0/0\n"
                               "web: 0=2/2/0/0\n");
}

static void names_that_have_no_room_share_a_row(void **state)
{
    char name[16];
    char expected[TEXT_MAX] = "";
    size_t at = 0;

    (void)state;
    begin("", 1);
    for (unsigned i = 0; i < PFL_TRACE_SUM_ROWS_MAX + 2; i++) {
        (void)snprintf(name, sizeof(name), "h%03u", i);
        add(&(struct trace){name, NULL, 1000, 1001, 1, 0});
        if (i < PFL_TRACE_SUM_ROWS_MAX - 1)
            at += (size_t)snprintf(expected + at, sizeof(expected) - at, "%s: 0=%u/%u/0/0\n", name,
                                   i == 0 ? 2 : 1, i == 0 ? 2 : 1);
    }
    add(&(struct trace){"h000", NULL, 1000, 1001, 1, 0});
    (void)snprintf(expected + at, sizeof(expected) - at, " (rest): 0=3/3/0/0\n");
    assert_string_equal(end(), expected);
}

/* A host chooses its labels' values: the longest are cut, and none ends a text early. */
static void odd_names_are_cut(void **state)
{
    static char longest[400] = "role=";
    struct pfl_index_row row = {.host = "h", .key = "k", .begin_unix_ns = 1000, .bytes = 1};
    const uint8_t with_nul[] = {0x7a, 8, 'r', 'o', 'l', 'e', '=', 'a', 0, 'b'};

    (void)state;
    memset(longest + 5, 'x', sizeof(longest) - 6);
    begin("role", 1);
    add(&(struct trace){"h", longest, 1000, 1001, 1, 0});
    add(&(struct trace){"h", longest, 1000, 1001, 1, 0});
    row.segment = pfl_span_of(with_nul, sizeof(with_nul));
    pfl_trace_sum_add(sum, &row);
    pfl_trace_sum_add(sum, &row);
    assert_true(strncmp(end(), "a: 0=2/2/0/0\nxxxx", 17) == 0);
    assert_string_equal(strchr(text, 'x') + PFL_INDEX_NAME_BYTES - 1, ": 0=2/2/0/0\n");
}

static void without_memory_there_is_none(void **state)
{
    const struct pfl_trace_sum_conf conf = {BEGIN, CELL, CELLS, ""};

    (void)state;
    pfl_mem_fail_at(1);
    assert_int_equal(pfl_trace_sum_new(&conf, &sum), PFL_ENOMEM);
    pfl_mem_fail_at(0);
    pfl_trace_sum_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trace_counts_in_each_cell_that_it_overlaps),
        cmocka_unit_test(rows_are_values_of_a_label),
        cmocka_unit_test(names_that_have_no_room_share_a_row),
        cmocka_unit_test(odd_names_are_cut),
        cmocka_unit_test(without_memory_there_is_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
