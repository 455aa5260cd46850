/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of packets through the merge: the file is the one that the packets one by one would give. */
#include "consumer/merge/merge_impl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "perfetto/trace_packet.fields.h"
#include "proto/packet_run.h"
#include "tests/support/sweep.h"
#include "tests/unit/consumer/merge/merge_world.h"

#define RUN_BYTES (256u * 1024)

/* A run as a service writes it, and its packets one by one in another merge. */
struct pair {
    struct merge_world as_run;
    struct merge_world one_by_one;
    struct pfl_buf rest;
    struct pfl_buf times;
    struct pfl_buf lengths;
    uint8_t tail[PFL_RUN_TAIL_MAX_BYTES];
    size_t tail_len;
    bool is_padded; /* lengths as 4 bytes */
    uint64_t bytes;
};

static void open_pair(struct pair *p)
{
    *p = (struct pair){0};
    assert_int_equal(merge_world_open(&p->as_run), 0);
    assert_int_equal(merge_world_open(&p->one_by_one), 0);
    pfl_buf_init(&p->rest, RUN_BYTES);
    pfl_buf_init(&p->times, RUN_BYTES);
    pfl_buf_init(&p->lengths, RUN_BYTES);
}

static void close_pair(struct pair *p)
{
    pfl_buf_fini(&p->rest);
    pfl_buf_fini(&p->times);
    pfl_buf_fini(&p->lengths);
    merge_world_close(&p->as_run);
    merge_world_close(&p->one_by_one);
    pfl_sweep_assert_no_leak();
}

/* What a service ends packets with. */
static void set_tail(struct pair *p, uint32_t sequence, uint32_t loss, uint32_t machine)
{
    struct pfl_writer w = pfl_writer_of(p->tail, sizeof(p->tail));

    pfl_writer_field_varint(&w, TRACE_PACKET__TRUSTED_UID, 1000);
    pfl_writer_field_varint(&w, TRACE_PACKET__TRUSTED_PID, 4321);
    if (sequence != 0)
        pfl_writer_field_varint(&w, SEQUENCE, sequence);
    if (machine != 0)
        pfl_writer_field_varint(&w, MACHINE, machine);
    if (loss != 0)
        pfl_writer_field_varint(&w, DROPPED, loss);
    assert_false(w.failed);
    p->tail_len = sizeof(p->tail) - w.left;
}

static void append(struct pfl_buf *column, const void *data, size_t len)
{
    if (len != 0)
        assert_int_equal(pfl_buf_append(column, data, len), 0);
}

static void put_length(struct pair *p, size_t len)
{
    uint8_t bytes[10];
    size_t n = 4;

    if (p->is_padded) {
        for (size_t i = 0; i < n; i++)
            bytes[i] = (uint8_t)(len >> (7 * i) & 0x7f) | (i + 1 < n ? 0x80 : 0);
    } else {
        n = pfl_varint_put(bytes, len);
    }
    append(&p->lengths, bytes, n);
}

/* Of a packet's bytes that begin with a time, those of the first field. */
static size_t time_field_len(const uint8_t *bytes, size_t len)
{
    struct pfl_reader r = pfl_reader_of(pfl_span_of(bytes, len));
    struct pfl_field f;

    if (len == 0 || bytes[0] != PFL_RUN_TIME_TAG || !pfl_reader_field(&r, &f))
        return 0;
    return f.raw.len;
}

static void add(struct pair *p, const void *bytes, size_t len)
{
    size_t time_len = time_field_len(bytes, len);
    uint8_t *whole = pfl_mem_alloc(len + p->tail_len + 1);

    assert_non_null(whole);
    put_length(p, (len - time_len) << 1 | (time_len != 0));
    if (time_len != 0)
        append(&p->times, (const uint8_t *)bytes + 1, time_len - 1);
    append(&p->rest, (const uint8_t *)bytes + time_len, len - time_len);
    memcpy(whole, bytes, len);
    memcpy(whole + len, p->tail, p->tail_len);
    assert_int_equal(merge_world_give(&p->one_by_one, p->one_by_one.b, whole, len + p->tail_len),
                     0);
    p->bytes += len + p->tail_len;
    pfl_mem_free(whole);
}

/* timestamp and a payload of that many bytes */
static void add_plain(struct pair *p, size_t payload)
{
    static const uint8_t zeros[8192];
    uint8_t *bytes = pfl_mem_alloc(sizeof(zeros) + 32);
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(zeros) + 32);

    assert_non_null(bytes);
    pfl_writer_field_varint(&w, TIMESTAMP, 1000000000000u + payload);
    pfl_writer_field_bytes(&w, FOR_TESTING, zeros, payload);
    assert_false(w.failed);
    add(p, bytes, sizeof(zeros) + 32 - w.left);
    pfl_mem_free(bytes);
}

static struct pfl_span lay(uint8_t **at, const void *data, size_t len)
{
    struct pfl_span there = pfl_span_of(*at, len);

    if (data != NULL && len != 0)
        memcpy(*at, data, len);
    *at += len;
    return there;
}

static struct pfl_span lay_column(uint8_t **at, const struct pfl_buf *column)
{
    return lay(at, pfl_buf_get(column).data, column->len);
}

/* In memory of just its size, so that a look past it is seen; *ret_memory is to be freed. */
static struct pfl_packet_run run_of(const struct pair *p, uint8_t **ret_memory)
{
    uint8_t *at = pfl_mem_alloc(p->tail_len + p->rest.len + p->times.len + p->lengths.len);
    struct pfl_packet_run run;

    assert_non_null(at);
    *ret_memory = at;
    run.tail = lay(&at, p->tail, p->tail_len);
    run.rest = lay_column(&at, &p->rest);
    run.times = lay_column(&at, &p->times);
    run.lengths = lay_column(&at, &p->lengths);
    run.readable_end = at;
    return run;
}

static int give_run(struct pair *p, uint64_t *ret_bytes)
{
    uint8_t *memory;
    struct pfl_packet_run run = run_of(p, &memory);
    int rc = pfl_merge_run(p->as_run.merge, p->as_run.b, &run, ret_bytes);

    pfl_mem_free(memory);
    pfl_buf_clear(&p->rest);
    pfl_buf_clear(&p->times);
    pfl_buf_clear(&p->lengths);
    return rc;
}

static void expect_same_file(struct pair *p)
{
    struct pfl_span as_run;
    struct pfl_span one_by_one = pfl_buf_get(&p->one_by_one.sink.file);
    const struct pfl_merge_stats *a;
    const struct pfl_merge_stats *b = pfl_merge_get_stats(p->one_by_one.merge, p->one_by_one.b);
    uint64_t bytes;

    assert_int_equal(give_run(p, &bytes), 0);
    assert_int_equal(bytes, p->bytes);
    p->bytes = 0;
    as_run = pfl_buf_get(&p->as_run.sink.file);
    a = pfl_merge_get_stats(p->as_run.merge, p->as_run.b);
    assert_int_equal(as_run.len, one_by_one.len);
    assert_memory_equal(as_run.data, one_by_one.data, as_run.len);
    assert_memory_equal(a, b, sizeof(*a));
}

static void packets_of_every_length_are_written_as_one_by_one(void **state)
{
    struct pair p;

    (void)state;
    open_pair(&p);
    for (int padded = 0; padded < 2; padded++) {
        p.is_padded = padded == 1;
        set_tail(&p, 7 + (uint32_t)padded, 0, 0);
        for (size_t payload = 0; payload < 300; payload++)
            add_plain(&p, payload);
        add_plain(&p, 8000);
        expect_same_file(&p);
    }
    close_pair(&p);
}

/* Tails that stand for ids alone, and tails that do not. */
static void every_tail_is_written_as_one_by_one(void **state)
{
    static const uint32_t losses[] = {0, 1, 6};
    static const uint32_t machines[] = {0, 5, UINT32_MAX};
    static const uint32_t sequences[] = {0, 9, UINT32_MAX};
    struct pair p;

    (void)state;
    open_pair(&p);
    for (int i = 0; i < 27; i++) {
        set_tail(&p, sequences[i % 3], losses[i / 3 % 3], machines[i / 9]);
        for (size_t payload = 0; payload < 12; payload++)
            add_plain(&p, payload);
        expect_same_file(&p);
    }
    p.tail_len = 0;
    add_plain(&p, 5);
    add_plain(&p, 100);
    expect_same_file(&p);
    p.tail_len = PFL_RUN_TAIL_MAX_BYTES; /* 8: the timestamp, spelled often */
    for (size_t i = 0; i < p.tail_len; i++)
        p.tail[i] = i % 2 == 0 ? TIMESTAMP << 3 : 1;
    add_plain(&p, 5);
    expect_same_file(&p);
    close_pair(&p);
}

/* Ids of their own, what is rewritten, what is refused: between plain ones. */
static void what_is_not_plain_is_written_as_one_by_one(void **state)
{
    static const uint32_t stats[] = {TRACE_STATS, 18, 1, 0};
    static const uint8_t two_kinds[] = {0x9a, 0x02, 0, 0xea, 0x02, 0};
    static const uint8_t compressed[] = {0x92, 0x03, 2, 'x', 'y'};
    static const uint8_t malformed[] = {0x42, 0x7f, 'x'};
    static const uint8_t fixed[] = {0x41, 1, 2, 3, 4, 5, 6, 7, 8, 0x45, 1, 2, 3, 4};
    struct pair p;
    uint8_t bytes[200];

    (void)state;
    open_pair(&p);
    set_tail(&p, 3, 0, 0);
    for (int round = 0; round < 8; round++) {
        add_plain(&p, 20);
        add(&p, bytes, make_packet(bytes, sizeof(bytes), 40 + (uint32_t)round, 0));
        add(&p, bytes, make_packet(bytes, sizeof(bytes), 3, (uint32_t)round));
        add(&p, bytes, make_nested(bytes, sizeof(bytes), stats, 9 + (uint64_t)round));
        add(&p, two_kinds, sizeof(two_kinds));
        add(&p, compressed, sizeof(compressed));
        add(&p, malformed, sizeof(malformed));
        add(&p, fixed, sizeof(fixed));
        add(&p, "", 0);
        add_plain(&p, 60);
        expect_same_file(&p);
    }
    assert_int_equal(pfl_merge_get_stats(p.as_run.merge, p.as_run.b)->refused_packets, 8 * 3);
    close_pair(&p);
}

/* The first packet of a sequence is the first that is merged, not the run's tail. */
static void a_run_of_a_new_sequence_begins_as_one_by_one(void **state)
{
    static const uint8_t loss[] = {0xd0, 0x02, 1}; /* 42, as some services mark a first packet */
    static const uint8_t compressed[] = {0x92, 0x03, 1, 'z'};
    struct pair p;

    (void)state;
    open_pair(&p);
    set_tail(&p, 3, 0, 0);
    add(&p, loss, sizeof(loss));
    add_plain(&p, 20);
    add_plain(&p, 60);
    expect_same_file(&p);
    set_tail(&p, 4, 0, 0);
    add(&p, compressed, sizeof(compressed));
    add(&p, compressed, sizeof(compressed));
    expect_same_file(&p);
    set_tail(&p, 5, 0, 0);
    add(&p, compressed, sizeof(compressed));
    add_plain(&p, 60);
    add(&p, loss, sizeof(loss));
    add_plain(&p, 60);
    expect_same_file(&p);
    assert_int_equal(pfl_merge_get_stats(p.as_run.merge, p.as_run.b)->loss_marks, 1);
    close_pair(&p);
}

/* Spelled in every length, and with more than 64 bits. */
static void times_of_every_length_are_written_as_one_by_one(void **state)
{
    struct pair p;

    (void)state;
    open_pair(&p);
    set_tail(&p, 3, 0, 0);
    for (size_t len = 1; len <= 10; len++) {
        uint8_t bytes[16] = {PFL_RUN_TIME_TAG};

        add_plain(&p, 30);
        for (size_t i = 1; i < len; i++)
            bytes[i] = 0x80 | (uint8_t)i;
        bytes[len] = 0x7f;
        bytes[len + 1] = 0x08 << 1; /* a field more: 2, varint */
        bytes[len + 2] = 5;
        add(&p, bytes, len + 1);
        add(&p, bytes, len + 3);
        add_plain(&p, 60);
        expect_same_file(&p);
    }
    close_pair(&p);
}

/* Each column a little shorter or longer than the others say. */
static void columns_that_do_not_fit_together_are_refused(void **state)
{
    static const size_t wrong[][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {40, 0, 0},
                                      {0, 6, 0}, {0, 0, 2}, {99, 9, 0}};
    struct pair p;

    (void)state;
    open_pair(&p);
    set_tail(&p, 3, 0, 0);
    for (int i = 0; i < 6; i++)
        add_plain(&p, 40);
    for (size_t i = 0; i < 2 * sizeof(wrong) / sizeof(wrong[0]); i++) {
        const size_t *less = wrong[i / 2];
        uint8_t *memory;
        struct pfl_packet_run run = run_of(&p, &memory);
        struct merge_world w;
        uint64_t bytes;
        size_t before;

        assert_int_equal(merge_world_open(&w), 0);
        before = trace_packets(&w.sink);
        run.rest.len -= less[0];
        run.times.len -= less[1];
        run.lengths.len -= less[2];
        if (i % 2 == 1) /* nothing but what is said may be read */
            run.readable_end = run.lengths.data + run.lengths.len;
        assert_int_equal(pfl_merge_run(w.merge, w.b, &run, &bytes), PFL_EPROTO);
        assert_true(trace_packets(&w.sink) - before <= 6);
        merge_world_close(&w);
        pfl_mem_free(memory);
    }
    close_pair(&p);
}

static void lengths_past_the_run_are_refused(void **state)
{
    static const uint8_t huge[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01};
    static const uint8_t endless[] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
                                      0x80, 0x80, 0x80, 0x80, 0x80, 0x00};
    static const uint8_t wants_time[] = {1};
    static const uint8_t tail[PFL_RUN_TAIL_MAX_BYTES + 1] = {0};
    const struct pfl_span lengths[] = {pfl_span_of(huge, sizeof(huge)),
                                       pfl_span_of(endless, sizeof(endless)),
                                       pfl_span_of(wants_time, sizeof(wants_time))};
    struct merge_world w;
    uint64_t bytes;

    (void)state;
    assert_int_equal(merge_world_open(&w), 0);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        struct pfl_packet_run run = {.rest = pfl_span_of(lengths[i].data, 0),
                                     .times = pfl_span_of(lengths[i].data, 0),
                                     .lengths = lengths[i],
                                     .readable_end = lengths[i].data + lengths[i].len};

        assert_int_equal(pfl_merge_run(w.merge, w.a, &run, &bytes), PFL_EPROTO);
        run.lengths = pfl_span_of("", 1);
        run.tail = pfl_span_of(tail, sizeof(tail));
        assert_int_equal(pfl_merge_run(w.merge, w.a, &run, &bytes), PFL_EPROTO);
    }
    merge_world_close(&w);
}

static void sinks_refusal_is_passed_on(void **state)
{
    struct pair p;
    uint64_t bytes;

    (void)state;
    open_pair(&p);
    set_tail(&p, 3, 0, 0);
    for (int i = 0; i < 3; i++)
        add_plain(&p, 40);
    p.as_run.sink.answer = PFL_EIO;
    assert_int_equal(give_run(&p, &bytes), PFL_EIO);
    close_pair(&p);
}

static int merge_once(void *arg)
{
    const struct pfl_packet_run *run = arg;
    struct merge_world w;
    uint64_t bytes;
    int rc = merge_world_open(&w);

    if (rc == 0)
        rc = pfl_merge_run(w.merge, w.b, run, &bytes);
    merge_world_close(&w);
    return rc;
}

static void every_failed_allocation_is_survived(void **state)
{
    static const uint32_t stats[] = {TRACE_STATS, 18, 1, 0};
    uint8_t bytes[64];
    uint8_t *memory;
    struct pfl_packet_run run;
    struct pair p;

    (void)state;
    open_pair(&p);
    set_tail(&p, 3, 0, 7);
    add_plain(&p, 40);
    add(&p, bytes, make_nested(bytes, sizeof(bytes), stats, 9));
    add_plain(&p, 40);
    run = run_of(&p, &memory);
    pfl_sweep(merge_once, &run, false);
    pfl_mem_free(memory);
    close_pair(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packets_of_every_length_are_written_as_one_by_one),
        cmocka_unit_test(every_tail_is_written_as_one_by_one),
        cmocka_unit_test(what_is_not_plain_is_written_as_one_by_one),
        cmocka_unit_test(a_run_of_a_new_sequence_begins_as_one_by_one),
        cmocka_unit_test(times_of_every_length_are_written_as_one_by_one),
        cmocka_unit_test(columns_that_do_not_fit_together_are_refused),
        cmocka_unit_test(lengths_past_the_run_are_refused),
        cmocka_unit_test(sinks_refusal_is_passed_on),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
