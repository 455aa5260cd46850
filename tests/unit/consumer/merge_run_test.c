/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of packets through the merge: the file is the one that the packets one by one would give. */
#include "consumer/merge/merge_impl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "proto/packet_run.h"
#include "tests/support/sweep.h"
#include "tests/unit/consumer/merge_world.h"

#define RUN_BYTES (256u * 1024)

/* A run as a service writes it, and its packets one by one in another merge. */
struct pair {
    struct merge_world as_run;
    struct merge_world one_by_one;
    struct pfl_buf packets;
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
    pfl_buf_init(&p->packets, RUN_BYTES);
}

static void close_pair(struct pair *p)
{
    pfl_buf_fini(&p->packets);
    merge_world_close(&p->as_run);
    merge_world_close(&p->one_by_one);
    pfl_sweep_assert_no_leak();
}

/* What a service ends packets with. */
static void set_tail(struct pair *p, uint32_t sequence, uint32_t loss, uint32_t machine)
{
    struct pfl_writer w = pfl_writer_of(p->tail, sizeof(p->tail));

    pfl_writer_field_varint(&w, PFL_PACKET_TRUSTED_UID, 1000);
    pfl_writer_field_varint(&w, PFL_PACKET_TRUSTED_PID, 4321);
    if (sequence != 0)
        pfl_writer_field_varint(&w, SEQUENCE, sequence);
    if (machine != 0)
        pfl_writer_field_varint(&w, MACHINE, machine);
    if (loss != 0)
        pfl_writer_field_varint(&w, DROPPED, loss);
    assert_false(w.failed);
    p->tail_len = sizeof(p->tail) - w.left;
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
    assert_int_equal(pfl_buf_append(&p->packets, bytes, n), 0);
}

static void add(struct pair *p, const void *bytes, size_t len)
{
    uint8_t *whole = pfl_mem_alloc(len + p->tail_len + 1);

    assert_non_null(whole);
    put_length(p, len);
    assert_int_equal(len == 0 ? 0 : pfl_buf_append(&p->packets, bytes, len), 0);
    memcpy(whole, len == 0 ? "" : bytes, len);
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

/* From memory of just its size, so that a look past it is seen. */
static int give_run(struct pair *p, uint64_t *ret_bytes)
{
    struct pfl_span packets = pfl_buf_get(&p->packets);
    uint8_t *tail = pfl_mem_memdup(p->tail, p->tail_len);
    uint8_t *copy = pfl_mem_memdup(packets.data, packets.len);
    int rc;

    assert_non_null(copy);
    rc = pfl_merge_run(p->as_run.merge, p->as_run.b, pfl_span_of(tail, p->tail_len),
                       pfl_span_of(copy, packets.len), ret_bytes);
    pfl_mem_free(copy);
    pfl_mem_free(tail);
    pfl_buf_clear(&p->packets);
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
        add(&p, NULL, 0);
        add_plain(&p, 60);
        expect_same_file(&p);
    }
    assert_int_equal(pfl_merge_get_stats(p.as_run.merge, p.as_run.b)->refused_packets, 8 * 3);
    close_pair(&p);
}

static void a_run_that_is_cut_gives_its_whole_packets_and_is_refused(void **state)
{
    struct pair p;
    size_t whole;

    (void)state;
    open_pair(&p);
    set_tail(&p, 3, 0, 0);
    for (int i = 0; i < 6; i++)
        add_plain(&p, 40);
    whole = p.packets.len / 6;
    for (size_t cut = 1; cut < 6 * whole; cut++) {
        struct merge_world w;
        size_t before;
        uint64_t bytes;
        int rc;

        assert_int_equal(merge_world_open(&w), 0);
        before = trace_packets(&w.sink);
        rc = pfl_merge_run(w.merge, w.b, pfl_span_of(p.tail, p.tail_len),
                           pfl_span_of(pfl_buf_get(&p.packets).data, cut), &bytes);
        assert_int_equal(rc, cut % whole == 0 ? 0 : PFL_EPROTO);
        assert_int_equal(trace_packets(&w.sink) - before, cut / whole);
        merge_world_close(&w);
    }
    close_pair(&p);
}

static void lengths_past_the_run_are_refused(void **state)
{
    static const uint8_t huge[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                   0xff, 0xff, 0xff, 0x01, 0x08};
    static const uint8_t endless[] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
                                      0x80, 0x80, 0x80, 0x80, 0x80, 0x00};
    static const uint8_t tail[PFL_RUN_TAIL_MAX_BYTES + 1] = {0};
    struct merge_world w;
    uint64_t bytes;

    (void)state;
    assert_int_equal(merge_world_open(&w), 0);
    assert_int_equal(
        pfl_merge_run(w.merge, w.a, pfl_span_of(tail, 0), pfl_span_of(huge, sizeof(huge)), &bytes),
        PFL_EPROTO);
    assert_int_equal(pfl_merge_run(w.merge, w.a, pfl_span_of(tail, 0),
                                   pfl_span_of(endless, sizeof(endless)), &bytes),
                     PFL_EPROTO);
    assert_int_equal(
        pfl_merge_run(w.merge, w.a, pfl_span_of(tail, sizeof(tail)), pfl_span_of("", 1), &bytes),
        PFL_EPROTO);
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
    const struct pair *p = arg;
    struct merge_world w;
    uint64_t bytes;
    int rc = merge_world_open(&w);

    if (rc == 0)
        rc = pfl_merge_run(w.merge, w.b, pfl_span_of(p->tail, p->tail_len),
                           pfl_buf_get(&p->packets), &bytes);
    merge_world_close(&w);
    return rc;
}

static void every_failed_allocation_is_survived(void **state)
{
    static const uint32_t stats[] = {TRACE_STATS, 18, 1, 0};
    uint8_t bytes[64];
    struct pair p;

    (void)state;
    open_pair(&p);
    set_tail(&p, 3, 0, 7);
    add_plain(&p, 40);
    add(&p, bytes, make_nested(bytes, sizeof(bytes), stats, 9));
    add_plain(&p, 40);
    pfl_sweep(merge_once, &p, false);
    close_pair(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packets_of_every_length_are_written_as_one_by_one),
        cmocka_unit_test(every_tail_is_written_as_one_by_one),
        cmocka_unit_test(what_is_not_plain_is_written_as_one_by_one),
        cmocka_unit_test(a_run_that_is_cut_gives_its_whole_packets_and_is_refused),
        cmocka_unit_test(lengths_past_the_run_are_refused),
        cmocka_unit_test(sinks_refusal_is_passed_on),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
