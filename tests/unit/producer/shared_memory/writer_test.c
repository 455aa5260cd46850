/* SPDX-License-Identifier: Apache-2.0 */
/* Packets of every size and nesting through private shared memory, read back byte for byte. */
#include "producer/shared_memory/writer.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "abi/fragment.h"
#include "base/bytes.h"
#include "producer/platform/heap.h"
#include "tests/unit/producer/smb_reader.h"

#define PAGE    4096u
#define PAYLOAD (PAGE - 16u) /* of a page's one chunk */

static const uint8_t first_packet[] = {0xb8, 0x05, 0x01};     /* field 87: 1 */
static const uint8_t after_loss[] = {0xd0, 0x02, 0x81, 0x02}; /* field 42: 257 */
static _Atomic(uint32_t) clears;
static uint8_t noise[1u << 20];

static struct pfl_trace_writer *open_writer(struct smb_reader *r, enum perfleet_policy policy)
{
    struct pfl_trace_writer_conf conf = {
        .arbiter = r->arbiter, .buffer = 5, .policy = policy, .clears = &clears};
    struct pfl_trace_writer *w = NULL;

    assert_int_equal(pfl_trace_writer_new(&conf, &w), 0);
    return w;
}

static void write_raw(struct perfleet_writer *w, size_t size)
{
    perfleet_packet_begin(w);
    perfleet_raw(w, noise, size);
    perfleet_packet_end(w);
}

static void assert_packet(const struct smb_packet *p, const uint8_t *want, size_t len)
{
    assert_int_equal(p->len, len);
    if (len > 0)
        assert_memory_equal(p->data, want, len);
}

static void packets_of_every_size_arrive_byte_for_byte(void **state)
{
    struct smb_reader r;
    struct pfl_trace_writer *tw;
    struct perfleet_writer *w;

    (void)state;
    smb_reader_init(&r, PAGE, 16);
    tw = open_writer(&r, PERFLEET_DROP);
    w = pfl_trace_writer_get_public(tw);
    for (size_t size = 1; size < 3 * PAGE + 200; size++) {
        write_raw(w, size);
        smb_reader_take(&r);
    }
    pfl_trace_writer_free(tw);
    smb_reader_assemble(&r);
    assert_int_equal(r.packets_len, 3 * PAGE + 199);
    assert_int_equal(r.packets[0].len, 1 + sizeof(first_packet));
    assert_memory_equal(r.packets[0].data, first_packet, sizeof(first_packet));
    for (size_t size = 2; size < 3 * PAGE + 200; size++)
        assert_packet(&r.packets[size - 1], noise, size);
    assert_int_equal(r.opened, 1);
    assert_int_equal(r.closed, 1);
    smb_reader_fini(&r);
}

/* An encoder of the test's own: nested messages with sizes of four bytes. */
struct plain {
    uint8_t bytes[32768];
    size_t len;
    size_t open[40];
    size_t depth;
};

static void plain_put(struct plain *p, const void *data, size_t len)
{
    memcpy(p->bytes + p->len, data, len);
    p->len += len;
}

static void plain_begin(struct plain *p, uint8_t field)
{
    uint8_t tag = (uint8_t)(field << 3 | 2);

    plain_put(p, &tag, 1);
    p->open[p->depth++] = p->len;
    p->len += 4;
}

static void plain_end(struct plain *p)
{
    size_t at = p->open[--p->depth];
    size_t size = p->len - at - 4;

    for (int i = 0; i < 4; i++)
        p->bytes[at + (size_t)i] = (uint8_t)((size >> (7 * i)) & 0x7f) | (i < 3 ? 0x80 : 0);
}

/* pad, five messages deep, each with some bytes before and after its child, then pad. */
static void write_nested(struct perfleet_writer *w, size_t pad, size_t inner)
{
    perfleet_packet_begin(w);
    perfleet_raw(w, noise, pad);
    for (uint32_t d = 0; d < 5; d++) {
        perfleet_begin(w, d + 1);
        perfleet_raw(w, noise + d, 3);
    }
    perfleet_raw(w, noise, inner);
    for (uint32_t d = 0; d < 5; d++) {
        perfleet_end(w);
        perfleet_raw(w, noise + d, d);
    }
    perfleet_begin(w, 15);
    perfleet_end(w);
    perfleet_packet_end(w);
}

static void plain_nested(struct plain *p, size_t pad, size_t inner)
{
    p->len = 0;
    p->depth = 0;
    plain_put(p, noise, pad);
    for (uint8_t d = 0; d < 5; d++) {
        plain_begin(p, (uint8_t)(d + 1));
        plain_put(p, noise + d, 3);
    }
    plain_put(p, noise, inner);
    for (uint8_t d = 0; d < 5; d++) {
        plain_end(p);
        plain_put(p, noise + d, d);
    }
    plain_begin(p, 15);
    plain_end(p);
}

static void check_nested_splits(uint32_t page_bytes, size_t inner)
{
    static struct plain want;
    struct smb_reader r;
    struct pfl_trace_writer *tw;

    smb_reader_init(&r, page_bytes, 16);
    tw = open_writer(&r, PERFLEET_DROP);
    write_raw(pfl_trace_writer_get_public(tw), 9);
    for (size_t pad = page_bytes - 200; pad < page_bytes + 20; pad++) {
        perfleet_writer_flush(pfl_trace_writer_get_public(tw));
        write_nested(pfl_trace_writer_get_public(tw), pad, inner);
        smb_reader_take(&r);
    }
    pfl_trace_writer_free(tw);
    smb_reader_assemble(&r);
    assert_int_equal(r.packets_len, 221);
    for (size_t i = 1; i < r.packets_len; i++) {
        plain_nested(&want, page_bytes - 200 + i - 1, inner);
        assert_packet(&r.packets[i], want.bytes, want.len);
    }
    smb_reader_fini(&r);
}

static void nested_messages_split_at_every_point_are_patched_right(void **state)
{
    (void)state;
    check_nested_splits(PAGE, 0);
    check_nested_splits(PAGE, 100);
    check_nested_splits(PAGE, 3 * PAGE);
    check_nested_splits(8192, 17);
}

/* The typed encoders at the end of a chunk take the slow way: the same bytes must come out. */
static void fields_split_at_every_point_are_the_same_bytes(void **state)
{
    uint8_t want[256];
    struct smb_reader r;
    struct pfl_trace_writer *tw;
    struct perfleet_writer *w;
    size_t len = 0;

    (void)state;
    smb_reader_init(&r, PAGE, 16);
    tw = open_writer(&r, PERFLEET_DROP);
    w = pfl_trace_writer_get_public(tw);
    write_raw(w, 9);
    for (size_t pad = 0; pad < PAYLOAD + 100; pad++) {
        perfleet_writer_flush(w);
        perfleet_packet_begin(w);
        perfleet_raw(w, noise, pad);
        perfleet_uint(w, 1, 0);
        perfleet_int(w, 2, -1);
        perfleet_sint(w, 900, -3);
        perfleet_bool(w, 536870911, true);
        perfleet_fixed64(w, 3, 0x0102030405060708u);
        perfleet_fixed32(w, 4, 0x01020304u);
        perfleet_double(w, 5, 1.0);
        perfleet_float(w, 6, 1.0f);
        perfleet_string(w, 7, "hello");
        perfleet_bytes(w, 8, NULL, 0);
        perfleet_packet_end(w);
        smb_reader_take(&r);
    }
    pfl_trace_writer_free(tw);
    smb_reader_assemble(&r);
    assert_int_equal(r.packets_len, PAYLOAD + 101);
    len = r.packets[1].len;
    assert_int_equal(len, 2 + 11 + 3 + 6 + 9 + 5 + 9 + 5 + 7 + 2);
    memcpy(want, r.packets[1].data, len);
    assert_memory_equal(want,
                        "\x08\x00\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\xa0\x38\x05"
                        "\xf8\xff\xff\xff\x0f\x01\x19\x08\x07\x06\x05\x04\x03\x02\x01"
                        "\x25\x04\x03\x02\x01\x29\x00\x00\x00\x00\x00\x00\xf0\x3f"
                        "\x35\x00\x00\x80\x3f\x3a\x05hello\x42\x00",
                        len);
    for (size_t pad = 0; pad < PAYLOAD + 100; pad++) {
        const struct smb_packet *p = &r.packets[pad + 1];

        assert_int_equal(p->len, pad + len);
        assert_memory_equal(p->data + pad, want, len);
    }
    smb_reader_fini(&r);
}

static void a_chunk_holds_at_most_1022_packets(void **state)
{
    struct smb_reader r;
    struct pfl_trace_writer *tw;

    (void)state;
    smb_reader_init(&r, 32768, 2);
    tw = open_writer(&r, PERFLEET_DROP);
    for (uint32_t i = 0; i < 1500; i++)
        write_raw(pfl_trace_writer_get_public(tw), 2);
    pfl_trace_writer_free(tw);
    smb_reader_assemble(&r);
    assert_int_equal(r.packets_len, 1500);
    assert_int_equal(r.chunks_len, 2);
    assert_int_equal(r.chunks[0].count, 1023); /* and the slot that nobody used */
    assert_int_equal(r.chunks[1].count, 1500 - 1022 + 1);
    smb_reader_fini(&r);
}

static void a_finished_packet_is_counted_once_more_for_scrapers(void **state)
{
    struct smb_reader r;
    struct pfl_trace_writer *tw;
    struct perfleet_writer *w;
    struct pfl_chunk_header *chunk;

    (void)state;
    smb_reader_init(&r, PAGE, 1);
    tw = open_writer(&r, PERFLEET_DROP);
    w = pfl_trace_writer_get_public(tw);
    perfleet_packet_begin(w);
    chunk = pfl_smb_chunk(&r.arbiter->smb, 0, pfl_page_bitmap(pfl_smb_page(&r.arbiter->smb, 0)), 0);
    assert_int_equal(pfl_chunk_look(chunk).count, 1);
    perfleet_uint(w, 1, 1);
    perfleet_packet_end(w);
    assert_int_equal(pfl_chunk_look(chunk).count, 2);
    perfleet_packet_begin(w);
    assert_int_equal(pfl_chunk_look(chunk).count, 2);
    perfleet_uint(w, 1, 1);
    perfleet_packet_end(w);
    assert_int_equal(pfl_chunk_look(chunk).count, 3);
    pfl_trace_writer_free(tw);
    smb_reader_assemble(&r);
    smb_reader_fini(&r);
}

static void memory_that_ends_in_a_packet_drops_it_and_says_so(void **state)
{
    struct perfleet_writer_stats stats;
    struct smb_reader r;
    struct pfl_trace_writer *tw;
    struct perfleet_writer *w;

    (void)state;
    smb_reader_init(&r, PAGE, 2);
    tw = open_writer(&r, PERFLEET_DROP);
    w = pfl_trace_writer_get_public(tw);
    write_raw(w, 100);
    perfleet_packet_begin(w);
    perfleet_begin(w, 1); /* its size is patched: it must be, even if the packet is lost */
    perfleet_raw(w, noise, 3 * PAGE);
    perfleet_begin(w, 2);
    perfleet_end(w);
    perfleet_end(w);
    perfleet_packet_end(w);
    for (int i = 0; i < 3; i++)
        write_raw(w, 300); /* nothing is looked for before the scratch area was filled once */
    smb_reader_take(&r);
    assert_int_equal(r.chunks_len, 2);
    for (int i = 0; i < 8; i++)
        write_raw(w, 300);
    perfleet_writer_stats_get(w, &stats);
    pfl_trace_writer_free(tw);
    smb_reader_assemble(&r);
    assert_int_equal(r.drop_markers, 1);
    assert_int_equal(stats.packets, r.packets_len);
    assert_int_equal(stats.packets + stats.dropped, 13);
    assert_true(stats.packets > 5);

    assert_memory_equal(r.packets[1].data, after_loss, sizeof(after_loss));
    assert_packet(&r.packets[2], noise, 300);
    smb_reader_fini(&r);
}

static void memory_that_ends_between_packets_leaves_no_marker(void **state)
{
    struct perfleet_writer_stats stats;
    struct smb_reader r;
    struct pfl_trace_writer *tw;
    struct perfleet_writer *w;

    (void)state;
    smb_reader_init(&r, PAGE, 1);
    tw = open_writer(&r, PERFLEET_DROP);
    w = pfl_trace_writer_get_public(tw);
    write_raw(w, PAYLOAD - 4 - sizeof(first_packet)); /* fills the chunk to the last byte */
    assert_int_equal(r.arbiter->pending.moves.len, 1);
    write_raw(w, 2000);
    smb_reader_take(&r);
    write_raw(w, 10);
    perfleet_writer_stats_get(w, &stats);
    assert_int_equal(stats.packets, 2);
    assert_int_equal(stats.dropped, 1);
    assert_true(perfleet_writer_take_reset(w));
    assert_false(perfleet_writer_take_reset(w));
    pfl_trace_writer_free(tw);
    smb_reader_assemble(&r);
    assert_int_equal(r.drop_markers, 0);
    assert_int_equal(r.packets_len, 2);

    smb_reader_fini(&r);
}

static void a_writer_without_any_memory_still_says_first_packet_later(void **state)
{
    struct smb_reader r;
    struct pfl_trace_writer *tw;
    struct pfl_trace_writer *other;

    (void)state;
    smb_reader_init(&r, PAGE, 1);
    other = open_writer(&r, PERFLEET_DROP);
    tw = open_writer(&r, PERFLEET_DROP);
    write_raw(pfl_trace_writer_get_public(other), 5);
    write_raw(pfl_trace_writer_get_public(tw), 1100);
    pfl_trace_writer_free(other);
    smb_reader_take(&r);
    write_raw(pfl_trace_writer_get_public(tw), 6);
    pfl_trace_writer_free(tw);
    smb_reader_assemble(&r);
    assert_int_equal(r.packets_len, 2);

    smb_reader_fini(&r);
}

static void messages_too_deep_and_stray_calls_harm_nobody(void **state)
{
    struct perfleet_writer_stats stats;
    struct smb_reader r;
    struct pfl_trace_writer *tw;
    struct perfleet_writer *w;

    (void)state;
    smb_reader_init(&r, PAGE, 4);
    tw = open_writer(&r, PERFLEET_DROP);
    w = pfl_trace_writer_get_public(tw);
    perfleet_uint(w, 1, 1); /* not in a packet */
    perfleet_string(w, 1, "lost");
    perfleet_begin(w, 1);
    perfleet_end(w);
    perfleet_packet_end(w);
    write_raw(w, 1);
    perfleet_packet_begin(w);
    for (uint32_t i = 0; i < PERFLEET_MAX_NESTING + 3; i++) {
        perfleet_begin(w, 1);
        perfleet_uint(w, 2, i);
    }
    for (uint32_t i = 0; i < PERFLEET_MAX_NESTING + 9; i++)
        perfleet_end(w); /* six too many */
    perfleet_packet_end(w);
    perfleet_packet_begin(w);
    perfleet_begin(w, 1);
    perfleet_begin(w, 1);
    perfleet_packet_begin(w); /* closes two messages and a packet */
    perfleet_raw(w, noise, 7);
    perfleet_writer_stats_get(w, &stats);
    assert_int_equal(stats.dropped, 1);
    pfl_trace_writer_free(tw); /* closes a packet */
    smb_reader_assemble(&r);
    assert_int_equal(r.packets_len, 3);

    assert_packet(&r.packets[2], noise, 7);
    smb_reader_fini(&r);
}

static void a_dead_arbiter_swallows_everything(void **state)
{
    struct perfleet_writer_stats stats;
    struct smb_reader r;
    struct pfl_trace_writer *tw;

    (void)state;
    smb_reader_init(&r, PAGE, 4);
    tw = open_writer(&r, PERFLEET_STALL);
    write_raw(pfl_trace_writer_get_public(tw), 10);
    perfleet_packet_begin(pfl_trace_writer_get_public(tw));
    pfl_arbiter_kill(r.arbiter);
    for (int i = 0; i < 20; i++)
        write_raw(pfl_trace_writer_get_public(tw), PAGE);
    perfleet_writer_stats_get(pfl_trace_writer_get_public(tw), &stats);
    assert_true(stats.dropped >= 19);
    pfl_trace_writer_free(tw);
    smb_reader_take(&r);
    assert_int_equal(r.chunks_len, 0);
    smb_reader_fini(&r);
}

static void every_failed_allocation_is_reported_and_leaves_nothing(void **state)
{
    struct pfl_trace_writer_conf conf = {.clears = &clears};
    struct pfl_trace_writer *w = NULL;
    struct smb_reader r;
    uint64_t before;

    (void)state;
    smb_reader_init(&r, PAGE, 1);
    conf.arbiter = r.arbiter;
    before = pfl_heap_live_blocks();
    for (uint64_t nth = 1; nth <= 2; nth++) {
        pfl_heap_fail_at(nth);
        assert_int_equal(pfl_trace_writer_new(&conf, &w), PFL_ENOMEM);
        assert_int_equal(pfl_heap_live_blocks(), before);
    }
    pfl_heap_fail_at(3);
    assert_int_equal(pfl_trace_writer_new(&conf, &w), 0);
    pfl_heap_fail_at(0);
    pfl_trace_writer_free(w);
    assert_int_equal(r.arbiter->writers_live, 0);
    smb_reader_fini(&r);
    assert_int_equal(pfl_heap_live_blocks(), 0);
}

static int no_block_is_left(void **state)
{
    (void)state;
    assert_int_equal(pfl_heap_live_blocks(), 0);
    return 0;
}

/* small { 1: `len` bytes, 2 { `len` / 2 bytes }, 3: 7 }, 4: 9 */
static void write_small(struct perfleet_writer *w, size_t len)
{
    perfleet_packet_begin(w);
    pfl_trace_writer_begin_small(w, 11);
    perfleet_bytes(w, 1, noise, len);
    perfleet_begin(w, 2);
    perfleet_raw(w, noise, len / 2);
    perfleet_end(w);
    perfleet_uint(w, 3, 7);
    perfleet_end(w);
    perfleet_uint(w, 4, 9);
    perfleet_packet_end(w);
}

static void assert_bytes_field(struct pfl_reader *r, uint32_t id, size_t len)
{
    struct pfl_field f;

    assert_true(pfl_reader_field(r, &f));
    assert_int_equal(f.id, id);
    assert_int_equal(f.bytes.len, len);
    if (len > 0)
        assert_memory_equal(f.bytes.data, noise, len);
}

static void assert_small(const struct smb_packet *p, size_t len)
{
    struct pfl_reader r = pfl_reader_of(pfl_span_of(p->data, p->len));
    struct pfl_reader inner;
    struct pfl_field f;

    assert_true(pfl_reader_field(&r, &f));
    if (f.id == 87)
        assert_true(pfl_reader_field(&r, &f));
    assert_int_equal(f.id, 11);
    inner = pfl_reader_of(f.bytes);
    assert_bytes_field(&inner, 1, len);
    assert_bytes_field(&inner, 2, len / 2);
    assert_true(pfl_reader_field(&inner, &f));
    assert_int_equal(f.value, 7);
    assert_int_equal(inner.left, 0);
    assert_true(pfl_reader_field(&r, &f));
    assert_int_equal(f.id, 4);
    assert_int_equal(r.left, 0);
}

static void small_messages_grow_wherever_chunks_end(void **state)
{
    struct smb_reader r;
    struct pfl_trace_writer *tw;
    struct perfleet_writer *w;
    const uint32_t packets = 6000;

    (void)state;
    smb_reader_init(&r, PAGE, 16);
    tw = open_writer(&r, PERFLEET_DROP);
    w = pfl_trace_writer_get_public(tw);
    for (uint32_t i = 0; i < packets; i++) {
        write_small(w, i % 5 == 0 ? i : i % 163);
        smb_reader_take(&r);
    }
    pfl_trace_writer_free(tw);
    smb_reader_assemble(&r);
    assert_int_equal(r.packets_len, packets);
    for (uint32_t i = 0; i < packets; i++)
        assert_small(&r.packets[i], i % 5 == 0 ? i : i % 163);
    /* One byte for the size: tag and size, 1: 1 byte, 2 { }, 3: 7; 4: 9. */
    assert_int_equal(r.packets[1].len, 2 + 3 + 5 + 2 + 2);
    smb_reader_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_messages_grow_wherever_chunks_end),
        cmocka_unit_test_teardown(packets_of_every_size_arrive_byte_for_byte, no_block_is_left),
        cmocka_unit_test(nested_messages_split_at_every_point_are_patched_right),
        cmocka_unit_test(fields_split_at_every_point_are_the_same_bytes),
        cmocka_unit_test(a_chunk_holds_at_most_1022_packets),
        cmocka_unit_test(a_finished_packet_is_counted_once_more_for_scrapers),
        cmocka_unit_test(memory_that_ends_in_a_packet_drops_it_and_says_so),
        cmocka_unit_test(memory_that_ends_between_packets_leaves_no_marker),
        cmocka_unit_test(a_writer_without_any_memory_still_says_first_packet_later),
        cmocka_unit_test(messages_too_deep_and_stray_calls_harm_nobody),
        cmocka_unit_test(a_dead_arbiter_swallows_everything),
        cmocka_unit_test_teardown(every_failed_allocation_is_reported_and_leaves_nothing,
                                  no_block_is_left),
    };

    for (size_t i = 0; i < sizeof(noise); i++)
        noise[i] = (uint8_t)(i * 2654435761u >> 13);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
