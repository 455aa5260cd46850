/* SPDX-License-Identifier: Apache-2.0 */
/* Long packets: read in steps, between which the ring changes; sent and lent in parts. */
#include "service/buffer/gather.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "abi/chunk.h"
#include "service/buffer/packet_reader.h"
#include "service/buffer/readback.h"
#include "tests/support/sweep.h"
#include "tests/unit/service/buffer/buffer_kit.h"
#include "tests/unit/service/buffer/frame_kit.h"

#define PREV PFL_CHUNK_CONTINUES_PREV
#define NEXT PFL_CHUNK_CONTINUES_NEXT

/* Longer than a step, in records and in bytes. */
#define CHUNKS        3000u
#define CHUNK_BYTES   1000u
#define BYTES         ((size_t)CHUNKS * CHUNK_BYTES)
#define HEAD_BYTES    6u
#define SEPTET(shift) (uint8_t)((BYTES - HEAD_BYTES) >> (shift)&0x7f)

struct fixture {
    struct pfl_trace_buffer *buffer;
    struct kit_chunk chunk;
    struct pfl_trace_buffer_packet packet;
    uint32_t pauses;
};

static struct fixture fx;

static int setup(void **state)
{
    (void)state;
    fx.buffer = kit_buffer((uint64_t)16 << 20, PFL_FILL_RING_BUFFER);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pfl_trace_buffer_free(fx.buffer);
    fx.buffer = NULL;
    assert_int_equal(pfl_long_packets_get_bytes(), 0);
    pfl_sweep_assert_no_leak();
    return 0;
}

static uint8_t byte_at(size_t i)
{
    static const uint8_t head[HEAD_BYTES] = {900 * 8 % 128 | 0x82, 900 * 8 / 128,
                                             SEPTET(0) | 0x80,     SEPTET(7) | 0x80,
                                             SEPTET(14) | 0x80,    SEPTET(21)};

    return i < sizeof(head) ? head[i] : (uint8_t)(i * 2654435761u >> 13);
}

/* One of the chunks of the long packet; the last one has a packet of one byte behind its end. */
static void commit_part(uint32_t chunk_id, uint32_t index)
{
    uint8_t bytes[CHUNK_BYTES];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = byte_at((size_t)index * CHUNK_BYTES + i);
    kit_chunk_begin(&fx.chunk, 1, 1, chunk_id);
    kit_chunk_add_bytes(&fx.chunk, bytes, sizeof(bytes));
    if (index == CHUNKS - 1)
        kit_chunk_add(&fx.chunk, 'e', 1);
    fx.chunk.chunk.flags =
        (uint8_t)((index != 0 ? PREV : 0u) | (index != CHUNKS - 1 ? (unsigned)NEXT : 0u));
    pfl_trace_buffer_commit(fx.buffer, &fx.chunk.chunk);
}

static void commit_parts(uint32_t begin, uint32_t end)
{
    for (uint32_t i = begin; i < end; i++)
        commit_part(i, i);
}

/* False at the end, or after so many pauses. */
static bool read_on(struct pfl_trace_buffer *buffer, uint32_t most_pauses)
{
    while (!pfl_trace_buffer_read(buffer, &fx.packet)) {
        if (!pfl_trace_buffer_is_paused(buffer) || most_pauses-- == 0)
            return false;
        fx.pauses++;
    }
    return true;
}

static void begin(void)
{
    fx.pauses = 0;
    pfl_trace_buffer_begin_read(fx.buffer);
}

static void expect_long(struct pfl_trace_buffer *buffer, uint32_t loss_reasons)
{
    const uint8_t *data;

    assert_true(read_on(buffer, UINT32_MAX));
    assert_true(fx.packet.is_long);
    assert_true(fx.packet.is_valid);
    assert_int_equal(fx.packet.bytes, BYTES);
    assert_int_equal(fx.packet.slices_len, 1);
    assert_int_equal(fx.packet.loss_reasons, loss_reasons);
    data = fx.packet.slices[0].iov_base;
    for (size_t i = 0; i < BYTES; i++)
        assert_int_equal(data[i], byte_at(i));
}

static void expect_short(struct pfl_trace_buffer *buffer, char fill, uint32_t loss_reasons)
{
    assert_true(read_on(buffer, UINT32_MAX));
    assert_false(fx.packet.is_long);
    assert_int_equal(fx.packet.bytes, 1);
    assert_int_equal(*(const char *)fx.packet.slices[0].iov_base, fill);
    assert_int_equal(fx.packet.loss_reasons, loss_reasons);
}

static void expect_end(struct pfl_trace_buffer *buffer)
{
    assert_false(read_on(buffer, UINT32_MAX));
}

static void a_long_packet_is_read_in_steps(void **state)
{
    (void)state;
    commit_parts(0, CHUNKS);
    kit_commit(fx.buffer, 1, CHUNKS, 0, 'n', 1);
    begin();
    expect_long(fx.buffer, 0);
    /* to look for it, and to copy it */
    assert_true(fx.pauses >= CHUNKS / PFL_GATHER_STEP_RECORDS + BYTES / PFL_GATHER_STEP_BYTES);
    expect_short(fx.buffer, 'e', 0);
    expect_short(fx.buffer, 'n', 0);
    expect_end(fx.buffer);
    assert_int_equal(kit_stats(fx.buffer).chunks_read, CHUNKS + 1);
    assert_int_equal(kit_stats(fx.buffer).readaheads_succeeded, 1);
    assert_int_equal(kit_stats(fx.buffer).readaheads_failed, 0);
    begin();
    expect_end(fx.buffer);
}

static void its_memory_may_be_taken(void **state)
{
    struct pfl_long_packet packet;

    (void)state;
    commit_parts(0, CHUNKS);
    begin();
    expect_long(fx.buffer, 0);
    pfl_trace_buffer_take_long(fx.buffer, &packet);
    assert_int_equal(pfl_long_packets_get_bytes(), packet.mapped_bytes);
    expect_short(fx.buffer, 'e', 0);
    pfl_trace_buffer_free(fx.buffer);
    fx.buffer = NULL;
    assert_int_equal(packet.bytes, BYTES);
    assert_int_equal(packet.base[BYTES - 1], byte_at(BYTES - 1));
    pfl_long_packet_fini(&packet);
}

static void what_is_written_between_two_steps_does_not_matter(void **state)
{
    uint32_t steps = 0;

    (void)state;
    commit_parts(0, CHUNKS);
    begin();
    while (!read_on(fx.buffer, 0)) {
        assert_true(pfl_trace_buffer_is_paused(fx.buffer));
        kit_commit(fx.buffer, 1, CHUNKS + steps, 0, 'n', 1);
        kit_commit(fx.buffer, 2, steps, 0, 'o', 1);
        steps++;
    }
    assert_true(fx.packet.is_long && fx.packet.is_valid && fx.packet.bytes == BYTES);
    expect_short(fx.buffer, 'e', 0);
    for (uint32_t i = 0; i < steps; i++) {
        expect_short(fx.buffer, 'n', 0);
        expect_short(fx.buffer, 'o', 0);
    }
    expect_end(fx.buffer);
}

/* Writes over the oldest records. */
static void overwrite(uint32_t records)
{
    struct pfl_trace_buffer_stats stats = kit_stats(fx.buffer);
    uint64_t overwritten = stats.chunks_overwritten + records;

    for (uint32_t i = 0; stats.chunks_overwritten < overwritten; i++) {
        kit_commit(fx.buffer, 9, i, 0, 'z', 60000);
        stats = kit_stats(fx.buffer);
    }
}

static void one_that_is_overwritten_between_two_steps_is_lost_and_reported(void **state)
{
    const uint32_t steps = CHUNKS / PFL_GATHER_STEP_RECORDS + BYTES / PFL_GATHER_STEP_BYTES;

    (void)state;
    for (uint32_t step = 0; step < steps; step++) {
        commit_parts(0, CHUNKS);
        kit_commit(fx.buffer, 1, CHUNKS, 0, 'n', 1);
        begin();
        assert_false(read_on(fx.buffer, step));
        assert_true(pfl_trace_buffer_is_paused(fx.buffer));
        overwrite(step % 2 == 0 ? 1 : CHUNKS / 2);
        while (read_on(fx.buffer, UINT32_MAX) && fx.packet.source->writer_id != 1)
            assert_false(fx.packet.is_long);
        assert_int_equal(fx.packet.bytes, 1);
        assert_int_equal(*(const char *)fx.packet.slices[0].iov_base, 'e');
        assert_true((fx.packet.loss_reasons & PFL_LOSS_OVERWRITE) != 0);
        pfl_trace_buffer_free(fx.buffer);
        setup(NULL);
    }
}

static void what_was_read_of_it_is_no_loss_when_it_is_overwritten(void **state)
{
    (void)state;
    commit_parts(0, CHUNKS);
    kit_commit(fx.buffer, 1, CHUNKS, 0, 'n', 1);
    begin();
    expect_long(fx.buffer, 0);
    overwrite(CHUNKS / 2);
    expect_short(fx.buffer, 'e', 0);
    expect_short(fx.buffer, 'n', 0);
}

/* It erases the beginning of a packet of more fragments than the slices of any packet. */
/* LOOKS_CREDIT_MAX of trace_buffer.c, and what each packet has besides. */
#define LOOKS_MAX (16384u + PFL_ERASER_FREE_LOOKS)

static void overwriting_one_looks_at_a_bounded_number_of_its_records(void **state)
{
    const uint32_t fragments = PFL_PACKET_SLICES_MAX + 5000;
    uint32_t id = 0;

    (void)state;
    for (uint32_t i = 0; i < fragments; i++)
        kit_commit(fx.buffer, 1, i, (uint8_t)((i != 0 ? PREV : 0u) | (unsigned)NEXT), 'x', 1);
    while (kit_stats(fx.buffer).chunks_overwritten == 0)
        kit_commit(fx.buffer, 2, id++, 0, 'n', 1);
    assert_in_range(kit_stats(fx.buffer).chunks_overwritten, 1, LOOKS_MAX + 1);
    for (uint32_t end = id + 3 * fragments; id < end; id++)
        kit_commit(fx.buffer, 2, id, 0, 'n', 1);
    assert_true(kit_stats(fx.buffer).chunks_overwritten >= fragments);
    kit_commit(fx.buffer, 1, fragments, 0, 'e', 1);
    begin();
    while (read_on(fx.buffer, UINT32_MAX) && fx.packet.source->writer_id != 1)
        assert_int_equal(fx.packet.bytes, 1);
    assert_int_equal(*(const char *)fx.packet.slices[0].iov_base, 'e');
    assert_true((fx.packet.loss_reasons & PFL_LOSS_OVERWRITE) != 0);
}

/* Each begins in a small record, side by side, and continues in thousands. */
static void overwriting_many_at_once_looks_at_a_bounded_number_of_their_records(void **state)
{
    enum { WRITERS = 512, RECORDS = 2000, RECORD_BYTES = 32 };
    struct pfl_trace_buffer *wide =
        kit_buffer((uint64_t)WRITERS * RECORDS * RECORD_BYTES, PFL_FILL_RING_BUFFER);
    static struct kit_packet packet;
    struct pfl_trace_buffer_stats stats;
    uint32_t id = 0;

    (void)state;
    for (uint32_t i = 0; i < RECORDS; i++)
        for (uint16_t w = 1; w <= WRITERS; w++)
            kit_commit(wide, w, i, (uint8_t)((i != 0 ? PREV : 0u) | (unsigned)NEXT), 'x', 1);
    kit_commit(wide, WRITERS + 1, id++, 0, 'n', WRITERS * RECORD_BYTES - 64);
    stats = kit_stats(wide);
    assert_in_range(stats.readaheads_failed, WRITERS - 1, WRITERS);
    assert_in_range(stats.chunks_overwritten, WRITERS - 1,
                    WRITERS * (PFL_ERASER_FREE_LOOKS + 1) + LOOKS_MAX);
    while (id < 2 * RECORDS) /* and all is overwritten in the end, and nothing else */
        kit_commit(wide, WRITERS + 1, id++, 0, 'n', WRITERS * RECORD_BYTES - 64);
    stats = kit_stats(wide);
    assert_true(stats.chunks_overwritten > WRITERS * RECORDS);
    pfl_trace_buffer_begin_read(wide);
    for (uint32_t i = 0; kit_read(wide, &packet); i++)
        assert_int_equal(packet.loss_reasons, i == 0 ? PFL_LOSS_PRESENT | PFL_LOSS_OVERWRITE : 0);
    pfl_trace_buffer_free(wide);
}

static void one_that_is_not_complete_is_read_when_it_is(void **state)
{
    (void)state;
    commit_parts(0, CHUNKS - 1);
    begin();
    expect_end(fx.buffer);
    begin();
    assert_false(read_on(fx.buffer, 1));
    commit_part(CHUNKS - 1, CHUNKS - 1); /* in the pass */
    expect_long(fx.buffer, 0);
    expect_short(fx.buffer, 'e', 0);
    expect_end(fx.buffer);
}

static void one_that_breaks_off_is_one_loss(void **state)
{
    (void)state;
    commit_parts(0, CHUNKS - 2);
    kit_commit(fx.buffer, 1, CHUNKS - 2, 0, 'n', 1); /* continues with nothing */
    kit_commit(fx.buffer, 1, CHUNKS - 1, 0, 'o', 1);
    begin();
    expect_short(fx.buffer, 'n', PFL_LOSS_PRESENT | PFL_LOSS_REASSEMBLY_BROKEN_CHAIN);
    expect_short(fx.buffer, 'o', 0);
    expect_end(fx.buffer);
    assert_int_equal(kit_stats(fx.buffer).readaheads_failed, 1);
}

/* Its size is that of the first walk. */
static void one_that_grows_after_its_size_was_found_is_lost_and_reported(void **state)
{
    (void)state;
    commit_parts(0, 10);
    kit_chunk_begin(&fx.chunk, 1, 1, 10);
    kit_chunk_add(&fx.chunk, 'x', CHUNK_BYTES);
    fx.chunk.chunk.flags = PREV | NEXT;
    fx.chunk.chunk.is_complete = false; /* scraped: its only fragment is being written */
    pfl_trace_buffer_commit(fx.buffer, &fx.chunk.chunk);
    commit_parts(11, CHUNKS);
    begin();
    assert_false(read_on(fx.buffer, 0));
    commit_part(10, 10);
    expect_short(fx.buffer, 'e', PFL_LOSS_PRESENT);
    expect_end(fx.buffer);
}

static void a_chunk_that_comes_late_before_it_is_read_first(void **state)
{
    (void)state;
    kit_commit(fx.buffer, 1, 0, 0, 'a', 1);
    for (uint32_t i = 0; i < CHUNKS; i++)
        commit_part(i + 2, i);
    begin();
    expect_short(fx.buffer, 'a', 0);
    assert_false(read_on(fx.buffer, 1));
    kit_commit(fx.buffer, 1, 1, 0, 'b', 1); /* the list begins with it now */
    expect_short(fx.buffer, 'b', PFL_LOSS_PRESENT | PFL_LOSS_READ_GAP);
    expect_long(fx.buffer, 0);
    expect_short(fx.buffer, 'e', 0);
    expect_end(fx.buffer);
}

static void a_clone_has_it_until_it_is_read(void **state)
{
    struct pfl_trace_buffer *clone;

    (void)state;
    commit_parts(0, CHUNKS);
    begin();
    assert_false(read_on(fx.buffer, CHUNKS / PFL_GATHER_STEP_RECORDS + 3));
    clone = kit_clone(fx.buffer);
    pfl_trace_buffer_begin_read(clone);
    expect_long(clone, 0);
    expect_short(clone, 'e', 0);
    expect_end(clone);
    pfl_trace_buffer_free(clone);
    expect_long(fx.buffer, 0);
    clone = kit_clone(fx.buffer);
    pfl_trace_buffer_begin_read(clone);
    expect_short(clone, 'e', 0);
    expect_end(clone);
    pfl_trace_buffer_free(clone);
}

static void contents_that_move_take_it_along(void **state)
{
    struct pfl_trace_buffer *taken;

    (void)state;
    commit_parts(0, CHUNKS);
    begin();
    assert_false(read_on(fx.buffer, 2));
    assert_int_equal(pfl_trace_buffer_take(fx.buffer, &taken), 0);
    pfl_trace_buffer_begin_read(taken);
    expect_long(taken, 0);
    pfl_trace_buffer_free(taken);
    expect_end(fx.buffer);
}

/* ---- on its way out ---- */

static void on_new_source(void *user, struct pfl_trace_buffer_source *source)
{
    (void)user;
    source->packet_sequence_id = 2;
    source->trusted_len = 2;
    memcpy(source->trusted, "\x50\x02", 2);
}

static struct pfl_readback *open_readback(void)
{
    const struct pfl_readback_conf conf = {
        .buffers = &fx.buffer, .buffers_len = 1, .on_new_source = on_new_source};
    struct pfl_readback *readback;

    assert_int_equal(pfl_readback_new(&conf, &readback), 0);
    return readback;
}

static void expect_sent(struct pfl_span packet)
{
    assert_int_equal(packet.len, BYTES + 2);
    for (size_t i = 0; i < BYTES; i++)
        assert_int_equal(packet.data[i], byte_at(i));
    assert_memory_equal(packet.data + BYTES, "\x50\x02", 2);
}

static void it_is_sent_over_many_frames(void **state)
{
    struct pfl_readback *readback = open_readback();
    struct kit_trace trace;
    struct pfl_span packet;

    (void)state;
    commit_parts(0, CHUNKS - 1);
    kit_chunk_begin(&fx.chunk, 1, 1, CHUNKS - 1);
    kit_trace_init(&trace);
    /* valid but for the packet of one byte behind it */
    commit_part(CHUNKS - 1, CHUNKS - 1);
    kit_trace_drain(&trace, readback, 0);
    packet = kit_trace_take(&trace);
    expect_sent(packet);
    assert_int_equal(pfl_readback_take_invalid_packets(readback), 1);
    assert_int_equal(kit_trace_take(&trace).len, 0);
    kit_trace_fini(&trace);
    pfl_readback_free(readback);
}

static void it_is_lent_in_parts(void **state)
{
    struct pfl_readback *readback = open_readback();
    struct pfl_readback_packet part = {.more = BYTES + 2};
    struct pfl_buf whole;
    int rc = 0;

    (void)state;
    commit_parts(0, CHUNKS);
    pfl_buf_init(&whole, 2 * BYTES);
    while (part.more != 0) {
        size_t left = part.more;

        rc = pfl_readback_next_packet(readback, &part);
        if (rc == PFL_EAGAIN && pfl_readback_is_paused(readback)) {
            part.more = left;
            continue;
        }
        assert_int_equal(rc, 0);
        assert_true(part.bytes <= PFL_READBACK_PART_BYTES && part.bytes == part.tail.len);
        assert_int_equal(part.bytes + part.more, left);
        assert_int_equal(part.trusted.len, whole.len == 0 ? 2 : 0);
        assert_int_equal(pfl_buf_append(&whole, part.tail.data, part.tail.len), 0);
        assert_int_equal(pfl_readback_is_paused(readback), part.more != 0);
    }
    expect_sent(pfl_buf_get(&whole));
    pfl_buf_fini(&whole);
    do
        rc = pfl_readback_next_packet(readback, &part);
    while (rc == PFL_EAGAIN && pfl_readback_is_paused(readback));
    assert_int_equal(rc, PFL_EEOF);
    pfl_readback_free(readback);
}

static void one_of_few_bytes_is_sent_as_others_are(void **state)
{
    struct pfl_readback *readback = open_readback();
    const uint32_t chunks = 4 * PFL_LONG_PACKET_FRAGMENTS;
    struct kit_trace trace;

    (void)state;
    for (uint32_t packet = 0; packet < 4; packet++) {
        for (uint32_t i = 0; i < chunks; i++) {
            kit_chunk_begin(&fx.chunk, 1, 1, packet * chunks + i);
            kit_chunk_add_bytes(
                &fx.chunk, "\x20\x01\x20\x02\x20\x03\x20\x04\x20\x05\x20\x06\x20\x07\x20\x08", 16);
            fx.chunk.chunk.flags =
                (uint8_t)((i != 0 ? PREV : 0u) | (i != chunks - 1 ? (unsigned)NEXT : 0u));
            pfl_trace_buffer_commit(fx.buffer, &fx.chunk.chunk);
        }
    }
    kit_trace_init(&trace);
    kit_trace_drain(&trace, readback, 0);
    for (uint32_t packet = 0; packet < 4; packet++) {
        struct pfl_span got = kit_trace_take(&trace);

        assert_int_equal(got.len, 16 * chunks + 2);
        assert_memory_equal(got.data + 16 * chunks - 4, "\x20\x07\x20\x08", 4);
    }
    kit_trace_fini(&trace);
    pfl_readback_free(readback);
}

static void one_that_no_producer_may_write_is_counted(void **state)
{
    struct pfl_readback *readback = open_readback();
    struct kit_trace trace;

    (void)state;
    for (uint32_t i = 0; i < CHUNKS; i++)
        kit_commit(fx.buffer, 1, i,
                   (uint8_t)((i != 0 ? PREV : 0u) | (i != CHUNKS - 1 ? (unsigned)NEXT : 0u)), 7,
                   100);
    kit_trace_init(&trace);
    kit_trace_drain(&trace, readback, 0);
    assert_int_equal(kit_trace_take(&trace).len, 0);
    assert_int_equal(pfl_readback_take_invalid_packets(readback), 1);
    kit_trace_fini(&trace);
    pfl_readback_free(readback);
}

static void a_reader_that_leaves_in_the_middle_leaves_it_to_the_next(void **state)
{
    struct pfl_readback *readback = open_readback();
    struct pfl_readback_frame frame;
    struct kit_trace trace;

    (void)state;
    commit_parts(0, CHUNKS);
    assert_int_equal(pfl_readback_next_frame(readback, &frame), PFL_EAGAIN);
    assert_true(pfl_readback_is_paused(readback));
    pfl_readback_free(readback);
    readback = open_readback();
    kit_trace_init(&trace);
    kit_trace_drain(&trace, readback, 0);
    expect_sent(kit_trace_take(&trace));
    kit_trace_fini(&trace);
    pfl_readback_free(readback);
}

#define ROW(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(a_long_packet_is_read_in_steps),
        ROW(its_memory_may_be_taken),
        ROW(what_is_written_between_two_steps_does_not_matter),
        ROW(one_that_is_overwritten_between_two_steps_is_lost_and_reported),
        ROW(what_was_read_of_it_is_no_loss_when_it_is_overwritten),
        ROW(overwriting_one_looks_at_a_bounded_number_of_its_records),
        ROW(overwriting_many_at_once_looks_at_a_bounded_number_of_their_records),
        ROW(one_that_is_not_complete_is_read_when_it_is),
        ROW(one_that_breaks_off_is_one_loss),
        ROW(one_that_grows_after_its_size_was_found_is_lost_and_reported),
        ROW(a_chunk_that_comes_late_before_it_is_read_first),
        ROW(a_clone_has_it_until_it_is_read),
        ROW(contents_that_move_take_it_along),
        ROW(it_is_sent_over_many_frames),
        ROW(it_is_lent_in_parts),
        ROW(one_of_few_bytes_is_sent_as_others_are),
        ROW(one_that_no_producer_may_write_is_counted),
        ROW(a_reader_that_leaves_in_the_middle_leaves_it_to_the_next),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
