/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading while writers continue: commits and patches between any two packets of a pass. Writers
 * number their packets, so that what must hold can be said without a model: numbers go up, one that
 * is missing is reported by the next packet, and what was not overwritten arrives.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "abi/chunk.h"
#include "tests/support/sweep.h"
#include "tests/unit/service/buffer/buffer_kit.h"

#define WRITERS   3u
#define HISTORIES 200u
#define STEPS     3000u

struct writer {
    uint32_t next_chunk;
    uint32_t next_number; /* of the packet that is written next */
    uint32_t pieces_left; /* of the packet that is being written */
    bool needs_patch;     /* the last chunk does; until the next step of this writer */
    uint32_t read_number; /* expected next */
};

struct live {
    struct kit_random random;
    struct pfl_trace_buffer *buffer;
    struct writer writers[WRITERS];
    struct kit_chunk chunk;
    uint64_t packets;
    uint64_t losses;
};

static struct live live;
static uint64_t seed_running;

static uint32_t below(uint32_t n)
{
    return kit_random(&live.random, n);
}

/* A fragment that begins with the packet's number, or one that only continues. */
static void add_fragment(struct writer *w, bool is_first)
{
    uint8_t bytes[64];
    size_t len = sizeof(w->next_number) + below(50);

    memset(bytes, 0xee, sizeof(bytes));
    if (is_first)
        memcpy(bytes, &w->next_number, sizeof(w->next_number));
    kit_chunk_add_bytes(&live.chunk, bytes, len);
}

static void patch_last(uint16_t writer_id, struct writer *w)
{
    struct pfl_trace_buffer_patches batch = {
        .producer_id = 1, .writer_id = writer_id, .chunk_id = w->next_chunk - 1};

    pfl_trace_buffer_patch(live.buffer, &batch);
    w->needs_patch = false;
}

static void step_writer(uint32_t index)
{
    struct writer *w = &live.writers[index];
    uint32_t packets = below(5);

    if (w->needs_patch && below(2) == 0) {
        patch_last((uint16_t)(index + 1), w);
        return;
    }
    if (w->needs_patch)
        patch_last((uint16_t)(index + 1), w);
    kit_chunk_begin(&live.chunk, 1, (uint16_t)(index + 1), w->next_chunk++);
    if (w->pieces_left != 0) {
        live.chunk.chunk.flags |= PFL_CHUNK_CONTINUES_PREV;
        add_fragment(w, false);
        if (--w->pieces_left != 0) {
            live.chunk.chunk.flags |= PFL_CHUNK_CONTINUES_NEXT;
            packets = 0;
        } else {
            w->next_number++;
        }
    }
    for (uint32_t i = 0; i < packets; i++) {
        add_fragment(w, true);
        if (i + 1 == packets && below(3) == 0) {
            w->pieces_left = 1 + below(4);
            live.chunk.chunk.flags |= PFL_CHUNK_CONTINUES_NEXT;
            w->needs_patch = below(2) == 0;
            live.chunk.chunk.flags |= w->needs_patch ? PFL_CHUNK_NEEDS_PATCH : 0;
        } else {
            w->next_number++;
        }
    }
    pfl_trace_buffer_commit(live.buffer, &live.chunk.chunk);
}

/* True when there was a packet. */
static bool step_reader(void)
{
    static struct kit_packet packet;
    struct writer *w;
    uint32_t number;

    if (!kit_read(live.buffer, &packet))
        return false;
    w = &live.writers[packet.writer_id - 1];
    memcpy(&number, packet.data, sizeof(number));
    assert_true(number >= w->read_number);
    assert_int_equal(packet.loss_reasons != 0, number != w->read_number);
    live.losses += packet.loss_reasons != 0;
    live.packets++;
    w->read_number = number + 1;
    return true;
}

static void finish_writers(void)
{
    for (uint32_t i = 0; i < WRITERS; i++) {
        while (live.writers[i].pieces_left != 0 || live.writers[i].needs_patch)
            step_writer(i);
    }
}

static void run_history(uint64_t seed)
{
    uint32_t haste = 1 + (uint32_t)(seed % 8); /* how fast the reader is */
    uint64_t packets = live.packets;
    uint64_t losses = live.losses;

    memset(&live, 0, sizeof(live));
    live.packets = packets;
    live.losses = losses;
    live.random.state = seed;
    live.buffer = kit_buffer(8192, PFL_FILL_RING_BUFFER);
    for (uint32_t i = 0; i < STEPS; i++) {
        step_writer(below(WRITERS));
        for (uint32_t reads = below(haste); reads != 0; reads--) {
            if (!step_reader())
                pfl_trace_buffer_begin_read(live.buffer);
        }
    }
    finish_writers();
    pfl_trace_buffer_begin_read(live.buffer);
    while (step_reader())
        continue;
    for (uint32_t i = 0; i < WRITERS; i++)
        assert_int_equal(live.writers[i].read_number, live.writers[i].next_number);
    pfl_trace_buffer_free(live.buffer);
}

static void what_is_read_is_in_order_and_what_is_missing_is_reported(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= HISTORIES; seed++) {
        seed_running = seed;
        run_history(seed);
    }
    seed_running = 0;
    print_message("%llu packets, %llu with a loss\n", (unsigned long long)live.packets,
                  (unsigned long long)live.losses);
    assert_true(live.packets > 100000 && live.losses > 1000);
}

static int tell_seed(void **state)
{
    (void)state;
    if (seed_running != 0)
        print_message("the history of seed %llu failed\n", (unsigned long long)seed_running);
    else
        pfl_sweep_assert_no_leak();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(what_is_read_is_in_order_and_what_is_missing_is_reported,
                                  tell_seed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
