/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/collector/index/index_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "proto/unpack.h"
#include "tests/unit/collector/index/index_cases_impl.h"

#define S  UINT64_C(1000000000)
#define T0 (UINT64_C(1795432296) * S)

static struct index_cases_engine engine;
static struct pfl_index *ix;

static int open_index(struct pfl_index **ret_index, unsigned void_ms)
{
    const struct pfl_index_conf conf = {
        .where = engine.where, .may_create = true, .void_ms = void_ms};
    char why[PFL_INDEX_WHY_BYTES];
    int rc = pfl_index_open(&conf, why, ret_index);

    if (rc != 0)
        fprintf(stderr, "%s\n", why);
    return rc;
}

struct pfl_index *index_cases_get(void)
{
    return ix;
}

unsigned index_cases_count(const char *table)
{
    return engine.count(table);
}

void index_cases_script(const char *text)
{
    engine.script(text);
}

static int begin_case(void **state)
{
    uint64_t generation;

    (void)state;
    if (engine.make_empty() != 0 || open_index(&ix, 0) != 0)
        return -1;
    return pfl_index_join(ix, "c1", &generation);
}

static int end_case(void **state)
{
    (void)state;
    pfl_index_close(ix);
    ix = NULL;
    return 0;
}

/* -- segments -- */

struct made {
    Perfleet__Segment segment;
    Perfleet__SegmentGap gap;
    Perfleet__SegmentTrigger trigger;
    Perfleet__SegmentLoss loss;
    Perfleet__SegmentLoss *losses[1];
    char *labels[2];
    char *sources[1];
    uint8_t sha256[32];
};

/* Segment `number` of one second, of the order "cpu" of "me" on that host. */
static Perfleet__Segment *make(struct made *m, const char *host, uint32_t number)
{
    memset(m, 0, sizeof(*m));
    perfleet__segment__init(&m->segment);
    m->segment.host = (char *)(uintptr_t)host;
    m->segment.orderer = "me";
    m->segment.order = "cpu";
    m->segment.incarnation = "01JD0000000000000000000009";
    m->segment.has_number = 1;
    m->segment.number = number;
    m->segment.has_bytes = 1;
    m->segment.bytes = 1000;
    memset(m->sha256, (int)number, sizeof(m->sha256));
    m->segment.has_sha256 = 1;
    m->segment.sha256 = (ProtobufCBinaryData){sizeof(m->sha256), m->sha256};
    m->segment.has_begin_unix_ns = 1;
    m->segment.begin_unix_ns = T0 + number * S;
    m->segment.has_end_unix_ns = 1;
    m->segment.end_unix_ns = T0 + (number + 1) * S;
    m->labels[0] = "role=web";
    m->labels[1] = "zone=b";
    m->segment.label = m->labels;
    m->segment.n_label = 2;
    m->sources[0] = "linux.ftrace";
    m->segment.data_source = m->sources;
    m->segment.n_data_source = 1;
    return &m->segment;
}

static Perfleet__Segment *make_gap(struct made *m, const char *host, uint32_t number, uint32_t last)
{
    (void)make(m, host, number);
    perfleet__segment_gap__init(&m->gap);
    m->gap.has_last = 1;
    m->gap.last = last;
    m->segment.gap = &m->gap;
    m->segment.has_bytes = 0;
    m->segment.has_sha256 = 0;
    m->segment.sha256 = (ProtobufCBinaryData){0, NULL};
    return &m->segment;
}

static unsigned ids;

static enum pfl_index_reserve reserve_by(struct pfl_index *index, const Perfleet__Segment *segment,
                                         struct pfl_index_place *place)
{
    enum pfl_index_reserve result;

    (void)snprintf(place->id, sizeof(place->id), "01JD%022u", ++ids);
    (void)snprintf(place->key, sizeof(place->key), "v1/lab/%s.pftrace", place->id);
    assert_int_equal(pfl_index_reserve(index, segment, T0, place, &result), 0);
    return result;
}

static enum pfl_index_reserve reserve(const Perfleet__Segment *segment,
                                      struct pfl_index_place *place)
{
    return reserve_by(ix, segment, place);
}

static struct pfl_index_place store(const Perfleet__Segment *segment)
{
    struct pfl_index_place place;

    assert_int_equal(reserve(segment, &place), PFL_INDEX_RESERVE_NEW);
    if (segment->gap == NULL)
        assert_int_equal(pfl_index_set_live(ix, place.id, T0 + 5), 0);
    return place;
}

static struct pfl_index_place store_number(const char *host, uint32_t number)
{
    struct made m;

    return store(make(&m, host, number));
}

/* -- what was found -- */

struct rows {
    char ids[64][PFL_INDEX_ID_BYTES];
    uint64_t numbers[64];
    size_t len;
    size_t at_most;
    struct pfl_index_cursor cursor;
};

static bool on_row(void *user, const struct pfl_index_row *row)
{
    struct rows *rows = user;

    assert_true(rows->len < 64);
    memcpy(rows->ids[rows->len], row->id, PFL_INDEX_ID_BYTES);
    rows->numbers[rows->len++] = row->number;
    return rows->at_most == 0 || rows->len < rows->at_most;
}

static struct rows find(const Perfleet__TraceQuery *query)
{
    struct rows rows = {.len = 0};
    const struct pfl_index_find how = {.query = query, .on_row = on_row, .user = &rows};

    assert_int_equal(pfl_index_find(ix, &how, &rows.cursor), 0);
    return rows;
}

static Perfleet__TraceQuery query_of(uint64_t begin, uint64_t end)
{
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;

    query.begin_unix_ns = T0 + begin * S;
    query.end_unix_ns = T0 + end * S;
    query.oldest_first = 1;
    return query;
}

static const struct pfl_index_run_query all_runs = {.after_host = "",
                                                    .after_incarnation = "",
                                                    .after_orderer = "",
                                                    .after_order = "",
                                                    .limit = 1000};

static bool on_run(void *user, const struct pfl_index_run *run)
{
    struct pfl_index_run *copy = user;

    assert_string_equal(run->order, "cpu");
    *copy = *run;
    return true;
}

/* Of the one run. */
static struct pfl_index_run get_run(void)
{
    struct pfl_index_run run = {.last = 0};

    assert_int_equal(pfl_index_list_runs(ix, &all_runs, on_run, &run), 0);
    return run;
}

#define assert_run(l, st, g, rm, h)                                                                \
    do {                                                                                           \
        struct pfl_index_run run_ = get_run();                                                     \
        assert_int_equal(run_.last, l);                                                            \
        assert_int_equal(run_.stored, st);                                                         \
        assert_int_equal(run_.in_gaps, g);                                                         \
        assert_int_equal(run_.removed, rm);                                                        \
        assert_int_equal(run_.holes, h);                                                           \
    } while (0)

static void a_segment_is_reserved_once_and_then_live(void **state)
{
    struct made m;
    struct pfl_index_place first;
    struct pfl_index_place again;

    (void)state;
    assert_int_equal(reserve(make(&m, "a", 1), &first), PFL_INDEX_RESERVE_NEW);
    assert_run(0 + 1, 0, 0, 0, 1);
    assert_int_equal(reserve(&m.segment, &again), PFL_INDEX_RESERVE_AGAIN);
    assert_string_equal(again.id, first.id);
    assert_string_equal(again.key, first.key);
    assert_int_equal(find(&(Perfleet__TraceQuery)PERFLEET__TRACE_QUERY__INIT).len, 0);
    assert_int_equal(pfl_index_set_live(ix, first.id, T0), 0);
    assert_int_equal(pfl_index_set_live(ix, first.id, T0), PFL_ENOENT);
    assert_int_equal(reserve(&m.segment, &again), PFL_INDEX_RESERVE_STORED);
    assert_string_equal(again.id, first.id);
    assert_int_equal(find(&(Perfleet__TraceQuery)PERFLEET__TRACE_QUERY__INIT).len, 1);
    assert_run(1, 1, 0, 0, 0);
    assert_int_equal(get_run().bytes, PFL_INDEX_TRACE_BYTES + 1000 +
                                          8 * protobuf_c_message_get_packed_size(&m.segment.base));
}

static void other_bytes_under_a_number_are_a_conflict(void **state)
{
    struct made m;
    struct pfl_index_place place;

    (void)state;
    assert_int_equal(reserve(make(&m, "a", 1), &place), PFL_INDEX_RESERVE_NEW);
    m.sha256[5] ^= 1;
    assert_int_equal(reserve(&m.segment, &place), PFL_INDEX_RESERVE_CONFLICT);
    store_number("a", 2);
    (void)make(&m, "a", 2);
    m.sha256[0] ^= 1;
    assert_int_equal(reserve(&m.segment, &place), PFL_INDEX_RESERVE_CONFLICT);
    assert_int_equal(reserve(make_gap(&m, "a", 2, 3), &place), PFL_INDEX_RESERVE_CONFLICT);
    m.segment.orderer = "other";
    assert_int_equal(reserve(&m.segment, &place), PFL_INDEX_RESERVE_NEW);
}

static void a_dropped_reservation_is_a_hole(void **state)
{
    struct made m;
    struct pfl_index_place place;

    (void)state;
    assert_int_equal(reserve(make(&m, "a", 3), &place), PFL_INDEX_RESERVE_NEW);
    assert_int_equal(pfl_index_drop(ix, place.id), 0);
    assert_int_equal(pfl_index_drop(ix, place.id), 0);
    assert_run(3, 0, 0, 0, 3);
    assert_int_equal(reserve(&m.segment, &place), PFL_INDEX_RESERVE_NEW);
}

static void malformed_segments_are_refused(void **state)
{
    struct made m;
    struct pfl_index_place place = {.id = "x", .key = "x"};
    enum pfl_index_reserve result;
    char longer[PFL_INDEX_NAME_BYTES + 1];

    (void)state;
    make(&m, "a", 0);
    assert_int_equal(pfl_index_reserve(ix, &m.segment, T0, &place, &result), PFL_EINVAL);
    make(&m, NULL, 1);
    assert_int_equal(pfl_index_reserve(ix, &m.segment, T0, &place, &result), PFL_EINVAL);
    make(&m, "a\x80", 1);
    assert_int_equal(pfl_index_reserve(ix, &m.segment, T0, &place, &result), PFL_EINVAL);
    make(&m, "a", 1);
    m.segment.sha256.len = 31;
    assert_int_equal(pfl_index_reserve(ix, &m.segment, T0, &place, &result), PFL_EINVAL);
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    make(&m, longer, 1);
    assert_int_equal(pfl_index_reserve(ix, &m.segment, T0, &place, &result), PFL_ELIMIT);
    make(&m, "a'; DROP TABLE segment; --", 1);
    assert_int_equal(reserve(&m.segment, &place), PFL_INDEX_RESERVE_NEW);
    make(&m, "\xc3\xa4 \xf0\x9f\x98\x80", 1);
    assert_int_equal(reserve(&m.segment, &place), PFL_INDEX_RESERVE_NEW);
}

static void gaps_and_holes_are_counted(void **state)
{
    struct made m;
    struct pfl_index_place place;

    (void)state;
    store_number("a", 1);
    store_number("a", 5);
    assert_run(5, 2, 0, 0, 3);
    store(make_gap(&m, "a", 2, 3));
    assert_run(5, 2, 2, 0, 1);
    assert_int_equal(reserve(make_gap(&m, "a", 2, 4), &place), PFL_INDEX_RESERVE_NOTED);
    assert_run(5, 2, 3, 0, 0);
    assert_int_equal(reserve(make_gap(&m, "a", 2, 4), &place), PFL_INDEX_RESERVE_NOTED);
    assert_run(5, 2, 3, 0, 0);
    /* A longer note than is counted is not written, nor one over what is stored as bytes. */
    m.segment.retention = "a-class-with-a-longer-name";
    assert_int_equal(reserve(&m.segment, &place), PFL_INDEX_RESERVE_STORED);
    assert_int_equal(reserve(make_gap(&m, "a", 5, 5), &place), PFL_INDEX_RESERVE_STORED);
    assert_run(5, 2, 3, 0, 0);
    store(make_gap(&m, "a", 7, 7));
    assert_run(7, 2, 4, 0, 1);
    /* One that spans what is stored, and other gaps. */
    store(make_gap(&m, "a", 6, 9));
    assert_run(9, 2, 7, 0, 0);
}

static void a_number_in_a_gap_that_arrives_counts_once(void **state)
{
    struct made m;
    struct pfl_index_place place;

    (void)state;
    store(make_gap(&m, "a", 1, 3));
    assert_run(3, 0, 3, 0, 0);
    store_number("a", 2);
    assert_run(3, 1, 2, 0, 0);
    /* Reserved before the gap is known, live after. */
    assert_int_equal(reserve(make(&m, "a", 5), &place), PFL_INDEX_RESERVE_NEW);
    {
        struct made gap;

        store(make_gap(&gap, "a", 4, 6));
    }
    assert_run(6, 1, 5, 0, 0);
    assert_int_equal(pfl_index_set_live(ix, place.id, T0), 0);
    assert_run(6, 2, 4, 0, 0);
    /* Stored, then lost at the host before its release: what is stored holds. */
    assert_int_equal(reserve(make_gap(&m, "a", 5, 5), &place), PFL_INDEX_RESERVE_STORED);
    assert_run(6, 2, 4, 0, 0);
}

static void a_window_finds_what_overlaps(void **state)
{
    struct made m;
    Perfleet__TraceQuery query;
    struct rows rows;
    char *hosts[] = {"a"};

    (void)state;
    for (uint32_t i = 1; i <= 20; i++)
        store_number(i % 2 != 0 ? "a" : "b", i);
    make(&m, "a", 30);
    m.segment.begin_unix_ns = T0;
    m.segment.end_unix_ns = T0 + 4000 * S; /* longer than 15 min */
    store(&m.segment);
    query = query_of(5, 8);
    rows = find(&query);
    assert_int_equal(rows.len, 4); /* 30, 5, 6, 7: 4 ends where the window begins */
    assert_int_equal(rows.numbers[0], 30);
    assert_int_equal(rows.numbers[3], 7);
    assert_int_equal(rows.cursor.len, 0);
    query.host = hosts;
    query.n_host = 1;
    rows = find(&query);
    assert_int_equal(rows.len, 3);
    assert_int_equal(rows.numbers[1], 5);
    hosts[0] = "*";
    assert_int_equal(find(&query).len, 4);
    query.oldest_first = 0;
    rows = find(&query);
    assert_int_equal(rows.numbers[0], 7);
    assert_int_equal(rows.numbers[3], 30);
    query = query_of(3900, 3901);
    assert_int_equal(find(&query).len, 1);
    query = query_of(4000, 5000);
    assert_int_equal(find(&query).len, 0);
}

/* Descriptions and patterns that a host and an operator made for it. */
static void a_costly_search_continues_by_its_cursor(void **state)
{
    static char text[60001];
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;
    struct pfl_index_cursor cursor = {.len = 0};
    char *patterns[60];
    unsigned finds = 0;
    size_t found = 0;

    (void)state;
    memset(text, 'a', sizeof(text) - 1);
    for (uint32_t i = 1; i <= 8; i++) {
        struct made m;

        make(&m, "a", i);
        m.sources[0] = text;
        store(&m.segment);
    }
    for (unsigned i = 0; i < 60; i++)
        patterns[i] = i != 59 ? "*a*a*a*b" : "a*";
    query.data_source = patterns;
    query.n_data_source = 60;
    do {
        struct rows rows;

        query.after = (ProtobufCBinaryData){cursor.len, cursor.bytes};
        rows = find(&query);
        cursor = rows.cursor;
        found += rows.len;
        finds++;
    } while (cursor.len != 0);
    assert_int_equal(found, 8);
    assert_true(finds >= 3); /* of three each */
}

static void a_cursor_continues(void **state)
{
    Perfleet__TraceQuery query = query_of(0, 1000);
    struct pfl_index_cursor cursor = {.len = 0};
    char *hosts[] = {"a"};

    (void)state;
    for (uint32_t i = 1; i <= 20; i++)
        store_number("a", i);
    query.has_limit = 1;
    query.limit = 3;
    for (int is_host = 0; is_host < 2; is_host++) {
        size_t seen = 0;

        query.host = hosts;
        query.n_host = (size_t)is_host;
        query.oldest_first = is_host;
        cursor.len = 0;
        do {
            struct rows rows;

            query.after = (ProtobufCBinaryData){cursor.len, cursor.bytes};
            rows = find(&query);
            for (size_t i = 0; i < rows.len; i++, seen++)
                assert_int_equal(rows.numbers[i], is_host ? seen + 1 : 20 - seen);
            cursor = rows.cursor;
        } while (cursor.len != 0);
        assert_int_equal(seen, 20);
    }
}

static void a_foreign_cursor_is_refused(void **state)
{
    Perfleet__TraceQuery query = query_of(0, 1000);
    uint8_t bytes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0};
    struct rows rows = {.len = 0};
    const struct pfl_index_find how = {.query = &query, .on_row = on_row, .user = &rows};

    (void)state;
    for (size_t len = 1; len <= sizeof(bytes); len++) {
        query.after = (ProtobufCBinaryData){len, bytes};
        assert_int_equal(pfl_index_find(ix, &how, &rows.cursor), PFL_EINVAL);
    }
    bytes[0] = 2;
    for (size_t len = 1; len < 10; len++) {
        query.after = (ProtobufCBinaryData){len, bytes};
        assert_int_equal(pfl_index_find(ix, &how, &rows.cursor), PFL_EINVAL);
    }
}

static void each_term_of_a_query_is_judged(void **state)
{
    struct made m;
    char *one[1];
    char *two[2] = {"role=w*", "zone=b"};
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;

    (void)state;
    store_number("a", 1);
    make(&m, "b", 2);
    m.segment.order = "mem";
    m.labels[0] = "role=db";
    m.sources[0] = "track_event";
    perfleet__segment_trigger__init(&m.trigger);
    m.trigger.name = "slow";
    m.segment.trigger = &m.trigger;
    perfleet__segment_loss__init(&m.loss);
    m.losses[0] = &m.loss;
    m.segment.loss = m.losses;
    m.segment.n_loss = 1;
    store(&m.segment);
#define FINDS(field, value, count)                                                                 \
    do {                                                                                           \
        one[0] = value;                                                                            \
        query.field = one;                                                                         \
        query.n_##field = 1;                                                                       \
        assert_int_equal(find(&query).len, count);                                                 \
        query.n_##field = 0;                                                                       \
    } while (0)
    assert_int_equal(find(&query).len, 2);
    FINDS(host, "a", 1);
    FINDS(host, "nobody", 0);
    FINDS(order, "m*", 1);
    FINDS(trigger, "sl*", 1);
    FINDS(trigger, "fast", 0);
    FINDS(data_source, "linux.*", 1);
    FINDS(label, "role=*", 2);
    FINDS(label, "role=db", 1);
    FINDS(label, "none=x", 0);
    query.label = two;
    query.n_label = 2;
    assert_int_equal(find(&query).len, 1);
    query.n_label = 0;
    query.lossy = 1;
    assert_int_equal(find(&query).len, 1);
    query.lossy = 0;
    query.orderer = "me";
    assert_int_equal(find(&query).len, 2);
    query.orderer = "you";
    assert_int_equal(find(&query).len, 0);
}

static bool is_of_a(void *user, const struct pfl_index_row *row, uint64_t *work)
{
    (void)user;
    (void)work;
    return strcmp(row->host, "a") == 0;
}

static void invisible_rows_are_not_found(void **state)
{
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;
    struct rows rows = {.len = 0};
    const struct pfl_index_find how = {
        .query = &query, .is_visible = is_of_a, .on_row = on_row, .user = &rows};
    char *listed[1];
    struct pfl_index_place place;

    (void)state;
    store_number("a", 1);
    place = store_number("b", 2);
    assert_int_equal(pfl_index_find(ix, &how, &rows.cursor), 0);
    assert_int_equal(rows.len, 1);
    listed[0] = place.id;
    query.id = listed;
    query.n_id = 1;
    rows.len = 0;
    assert_int_equal(pfl_index_find(ix, &how, &rows.cursor), 0);
    assert_int_equal(rows.len, 0);
    assert_int_equal(find(&query).len, 1);
}

/* Each row that is looked at is compared with each of them. */
static void a_search_has_few_and_short_patterns(void **state)
{
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;
    const struct pfl_index_find how = {.query = &query, .on_row = on_row, .user = NULL};
    char *patterns[PFL_INDEX_PATTERNS_MAX];
    char longer[PFL_INDEX_NAME_BYTES + 1];
    struct pfl_index_cursor cursor;

    (void)state;
    for (size_t i = 0; i < PFL_INDEX_PATTERNS_MAX; i++)
        patterns[i] = "*";
    query.label = query.data_source = patterns;
    query.n_label = PFL_INDEX_PATTERNS_MAX;
    assert_int_equal(pfl_index_find(ix, &how, &cursor), 0);
    query.n_data_source = 1;
    assert_int_equal(pfl_index_find(ix, &how, &cursor), PFL_ELIMIT);
    memset(longer, '*', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    patterns[0] = longer;
    query.n_label = 0;
    assert_int_equal(pfl_index_find(ix, &how, &cursor), PFL_ELIMIT);
}

static void a_reader_may_stop_and_go_on_after_that_row(void **state)
{
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;
    struct rows rows = {.at_most = 2};
    const struct pfl_index_find how = {.query = &query, .on_row = on_row, .user = &rows};
    uint8_t after[PFL_INDEX_CURSOR_BYTES];

    (void)state;
    for (uint32_t i = 1; i <= 5; i++)
        store_number("a", i);
    assert_int_equal(pfl_index_find(ix, &how, &rows.cursor), PFL_ECLOSED);
    assert_int_equal(rows.len, 2);
    assert_int_equal(rows.numbers[1], 4);
    query.has_after = 1;
    query.after = (ProtobufCBinaryData){rows.cursor.len, after};
    memcpy(after, rows.cursor.bytes, sizeof(after));
    rows.len = 0;
    assert_int_equal(pfl_index_find(ix, &how, &rows.cursor), PFL_ECLOSED);
    assert_int_equal(rows.numbers[0], 3);
    assert_int_equal(rows.numbers[1], 2);
}

static bool on_trace(void *user, const struct pfl_index_row *row)
{
    uint8_t bytes[4096];
    size_t len;

    assert_int_equal(pfl_index_row_encode(row, bytes, 3, &len), PFL_ELIMIT);
    assert_int_equal(pfl_index_row_encode(row, bytes, sizeof(bytes), &len), 0);
    assert_int_equal(pfl_proto_unpack(&perfleet__stored_trace__descriptor, pfl_span_of(bytes, len),
                                      (ProtobufCMessage **)user),
                     0);
    return true;
}

static void a_row_is_a_stored_trace(void **state)
{
    struct pfl_index_place place = store_number("a", 7);
    Perfleet__StoredTrace__Pin pin = PERFLEET__STORED_TRACE__PIN__INIT;
    Perfleet__StoredTrace *trace = NULL;

    (void)state;
    pin.who = "ada";
    pin.reason = "a case";
    pin.end_unix_ns = T0 + 99;
    assert_int_equal(pfl_index_pin(ix, place.id, &pin), 0);
    assert_int_equal(pfl_index_get(ix, place.id, on_trace, &trace), 0);
    assert_string_equal(trace->id, place.id);
    assert_string_equal(trace->segment->host, "a");
    assert_int_equal(trace->segment->number, 7);
    assert_int_equal(trace->stored_unix_ns, T0 + 5);
    assert_string_equal(trace->pin->who, "ada");
    assert_string_equal(trace->pin->reason, "a case");
    assert_int_equal(trace->pin->end_unix_ns, T0 + 99);
    pfl_proto_free(&trace->base);
    assert_int_equal(pfl_index_get(ix, "nothing", on_trace, &trace), PFL_ENOENT);
}

static const struct pfl_index_deletion by_me = {"me", "an old one", T0 + 100, false, NULL};

static bool on_deleted(void *user, const struct pfl_index_deleted *deleted)
{
    assert_string_equal(deleted->who, "me");
    assert_string_equal(deleted->reason, "an old one");
    assert_string_equal(deleted->host, "a");
    assert_int_equal(deleted->bytes, 1000);
    (*(unsigned *)user)++;
    return true;
}

static void a_deletion_is_by_index_first_and_audited(void **state)
{
    struct made m;
    struct pfl_index_place place = store_number("a", 1);
    struct rows rows = {.len = 0};
    unsigned lines = 0;
    uint64_t count;

    (void)state;
    assert_int_equal(pfl_index_tombstone(ix, place.id, &by_me), 0);
    assert_int_equal(pfl_index_tombstone(ix, place.id, &by_me), PFL_ENOENT);
    assert_int_equal(find(&(Perfleet__TraceQuery)PERFLEET__TRACE_QUERY__INIT).len, 0);
    assert_run(1, 0, 0, 1, 0);
    assert_int_equal(get_run().bytes, 0);
    assert_int_equal(pfl_index_find_state(ix, PFL_INDEX_TOMBSTONE, UINT64_MAX, on_row, &rows), 0);
    assert_int_equal(rows.len, 1);
    assert_int_equal(pfl_index_set_gone(ix, place.id, T0 + 200), 0);
    assert_int_equal(pfl_index_set_gone(ix, place.id, T0 + 300), 0);
    assert_int_equal(reserve(make(&m, "a", 1), &place), PFL_INDEX_RESERVE_STORED);
    assert_int_equal(pfl_index_list_deleted(ix, T0, on_deleted, &lines), 0);
    assert_int_equal(lines, 1);
    assert_int_equal(pfl_index_forget(ix, T0 + 150, &count), 0);
    assert_int_equal(count, 1); /* the audit's line */
    assert_int_equal(pfl_index_forget(ix, T0 + 250, &count), 0);
    assert_int_equal(count, 1); /* the number */
    assert_run(1, 0, 0, 1, 0);
}

static void a_pin_holds_until_its_end(void **state)
{
    struct pfl_index_place place = store_number("a", 1);
    Perfleet__StoredTrace__Pin pin = PERFLEET__STORED_TRACE__PIN__INIT;
    struct pfl_index_deletion deletion = by_me;
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;

    (void)state;
    pin.who = "ada";
    assert_int_equal(pfl_index_pin(ix, "nothing", &pin), PFL_ENOENT);
    assert_int_equal(pfl_index_pin(ix, place.id, &pin), 0);
    query.pinned = 1;
    assert_int_equal(find(&query).len, 1);
    assert_int_equal(pfl_index_tombstone(ix, place.id, &deletion), PFL_EPERM);
    assert_int_equal(pfl_index_unpin(ix, place.id), 0);
    assert_int_equal(find(&query).len, 0);
    pin.end_unix_ns = T0 + 500;
    assert_int_equal(pfl_index_pin(ix, place.id, &pin), 0);
    deletion.now_unix_ns = T0 + 499;
    assert_int_equal(pfl_index_tombstone(ix, place.id, &deletion), PFL_EPERM);
    assert_int_equal(pfl_index_keep(ix, place.id, T0 + 1000), 0);
    assert_int_equal(pfl_index_keep(ix, place.id, T0 + 900), 0);
    deletion.now_unix_ns = T0 + 500;
    assert_int_equal(pfl_index_tombstone(ix, place.id, &deletion), 0);
    assert_int_equal(pfl_index_keep(ix, place.id, T0), PFL_ENOENT);
}

static void an_index_is_rebuilt_from_descriptions(void **state)
{
    Perfleet__StoredTrace trace = PERFLEET__STORED_TRACE__INIT;
    Perfleet__StoredTrace__Pin pin = PERFLEET__STORED_TRACE__PIN__INIT;
    struct made m;
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;

    (void)state;
    trace.id = "01JD0000000000000000000777";
    trace.segment = make(&m, "a", 3);
    trace.stored_unix_ns = T0;
    pin.who = "ada";
    trace.pin = &pin;
    assert_int_equal(pfl_index_restore(ix, &trace, "v1/x.pftrace"), 0);
    assert_int_equal(pfl_index_restore(ix, &trace, "v1/x.pftrace"), PFL_EEXIST);
    assert_run(3, 1, 0, 0, 2);
    query.pinned = 1;
    assert_string_equal(find(&query).ids[0], "01JD0000000000000000000777");
}

/* -- collectors -- */

static bool leases(struct pfl_index *index, const char *what)
{
    bool is_held;

    assert_int_equal(pfl_index_lease(index, what, &is_held), 0);
    return is_held;
}

static void two_collectors_share_hosts(void **state)
{
    struct pfl_index *other;
    struct pfl_index_leases count;
    struct pfl_index_place place;
    struct made m;
    uint64_t generation;

    (void)state;
    assert_int_equal(open_index(&other, 0), 0);
    assert_int_equal(pfl_index_join(other, "c2", &generation), 0);
    assert_true(leases(ix, "a"));
    assert_true(leases(ix, "a"));
    assert_false(leases(other, "a"));
    assert_true(leases(other, "b"));
    assert_int_equal(pfl_index_count_leases(ix, &count), 0);
    assert_int_equal(count.collectors, 2);
    assert_int_equal(count.own, 1);
    assert_int_equal(count.all, 2);
    assert_int_equal(reserve(make(&m, "a", 1), &place), PFL_INDEX_RESERVE_NEW);
    assert_int_equal(reserve_by(other, &m.segment, &place), PFL_INDEX_RESERVE_BUSY);
    assert_int_equal(pfl_index_give_lease(ix, "a"), 0);
    assert_true(leases(other, "a"));
    assert_int_equal(pfl_index_leave(ix), 0);
    assert_int_equal(reserve_by(other, &m.segment, &place), PFL_INDEX_RESERVE_AGAIN);
    pfl_index_close(other);
}

static void a_collector_that_stopped_has_no_leases(void **state)
{
    struct pfl_index *other;
    uint64_t generation;

    (void)state;
    assert_true(leases(ix, "a"));
    assert_int_equal(open_index(&other, 1), 0); /* void after 1 ms */
    assert_int_equal(pfl_index_join(other, "c2", &generation), 0);
    while (!leases(other, "a"))
        continue;
    assert_int_equal(pfl_index_beat(ix), 0);
    pfl_index_close(other);
}

static void the_second_of_one_name_replaces_the_first(void **state)
{
    struct pfl_index *other;
    uint64_t generation;

    (void)state;
    assert_true(leases(ix, "a"));
    assert_int_equal(pfl_index_beat(ix), 0);
    assert_int_equal(open_index(&other, 0), 0);
    assert_int_equal(pfl_index_join(other, "c1", &generation), 0);
    assert_int_equal(generation, 2);
    assert_int_equal(pfl_index_beat(ix), PFL_ESTATE);
    assert_int_equal(pfl_index_beat(other), 0);
    assert_true(leases(other, "a"));
    pfl_index_close(other);
}

static int open_once(void *arg)
{
    struct pfl_index *other = NULL;
    int rc;

    (void)arg;
    rc = open_index(&other, 0);
    pfl_index_close(other);
    return rc;
}

static void an_index_can_be_opened_again(void **state)
{
    const struct pfl_index_conf conf = {.where = engine.where};
    char why[PFL_INDEX_WHY_BYTES];
    struct pfl_index *other;

    (void)state;
    store_number("a", 1);
    assert_int_equal(open_once(NULL), 0);
    assert_int_equal(pfl_index_open(&conf, why, &other), 0);
    pfl_index_close(other);
    assert_run(1, 1, 0, 0, 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, begin_case, end_case)

int index_cases_run(const struct index_cases_engine *of)
{
    const struct CMUnitTest tests[] = {
        CASE(a_segment_is_reserved_once_and_then_live),
        CASE(other_bytes_under_a_number_are_a_conflict),
        CASE(a_dropped_reservation_is_a_hole),
        CASE(malformed_segments_are_refused),
        CASE(gaps_and_holes_are_counted),
        CASE(a_number_in_a_gap_that_arrives_counts_once),
        CASE(a_window_finds_what_overlaps),
        CASE(a_cursor_continues),
        CASE(a_costly_search_continues_by_its_cursor),
        CASE(a_foreign_cursor_is_refused),
        CASE(each_term_of_a_query_is_judged),
        CASE(invisible_rows_are_not_found),
        CASE(a_search_has_few_and_short_patterns),
        CASE(a_reader_may_stop_and_go_on_after_that_row),
        CASE(a_row_is_a_stored_trace),
        CASE(a_deletion_is_by_index_first_and_audited),
        CASE(a_pin_holds_until_its_end),
        CASE(an_index_is_rebuilt_from_descriptions),
        CASE(kinds_are_summed_and_their_oldest_found),
        CASE(what_is_pinned_or_kept_is_not_the_oldest),
        CASE(hosts_and_triggers_above_a_bound_are_listed),
        CASE(runs_come_in_pages_while_others_come_and_go),
        CASE(a_lost_trace_is_a_hole_until_it_is_found),
        CASE(a_host_has_bounds_in_the_index),
        CASE(an_orderer_has_a_share_of_a_hosts_classes),
        CASE(who_has_lost_its_lease_deletes_nothing),
        CASE(descriptions_count_as_bytes),
        CASE(a_gap_over_many_known_numbers_is_refused),
        CASE(the_oldest_deletions_are_forgotten_above_a_number),
        CASE(runs_of_which_nothing_is_left_are_forgotten),
        CASE(a_transaction_forgets_a_bounded_number),
        CASE(leases_that_nobody_holds_are_forgotten),
        CASE(collectors_that_do_not_come_back_are_forgotten),
        CASE(the_clock_is_the_noted_one_or_that_of_the_newest_trace),
        CASE(an_order_has_a_generation),
        CASE(removed_orders_leave_a_generation_and_no_rows),
        CASE(what_hosts_say_of_orders_is_kept),
        CASE(orders_and_their_hosts_come_in_pages),
        CASE(one_collector_saves_a_schedule_at_a_time),
        CASE(two_collectors_share_hosts),
        CASE(a_collector_that_stopped_has_no_leases),
        CASE(the_second_of_one_name_replaces_the_first),
        CASE(an_index_can_be_opened_again),
    };

    engine = *of;
    return cmocka_run_group_tests_name(engine.name, tests, NULL, NULL) +
           index_window_cases_run(engine.name, begin_case, end_case);
}
