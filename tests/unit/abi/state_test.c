/* SPDX-License-Identifier: Apache-2.0 */
/* Every step of a chunk's life from every state, and many threads on one page. */
#include "abi/state.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct page {
    _Alignas(4096) uint8_t bytes[4096];
};

static struct page page_memory;

static struct pfl_page_header *fresh_page(void)
{
    memset(&page_memory, 0, sizeof(page_memory));
    return (struct pfl_page_header *)(void *)page_memory.bytes;
}

static struct pfl_smb smb_of_page(void)
{
    return (struct pfl_smb){.base = page_memory.bytes, .page_bytes = 4096, .pages = 1};
}

static void a_page_is_partitioned_once(void **state)
{
    struct pfl_page_header *page = fresh_page();

    (void)state;
    assert_true(pfl_state_try_partition(page, PFL_PAGE_DIV7));
    assert_int_equal(pfl_page_bitmap(page), 0x40000000);
    assert_false(pfl_state_try_partition(page, PFL_PAGE_DIV1));
    assert_int_equal(pfl_page_bitmap(page), 0x40000000);
}

static void a_life_goes_round_and_unpartitions_the_page(void **state)
{
    struct pfl_page_header *page = fresh_page();
    struct pfl_smb smb = smb_of_page();
    struct pfl_chunk_header *chunk;
    uint32_t bitmap = 0;

    (void)state;
    assert_true(pfl_state_try_partition(page, PFL_PAGE_DIV2));
    assert_int_equal(pfl_state_begin_write(page, 1, &bitmap), PFL_STATE_DONE);
    assert_int_equal(bitmap, 0x20000004);
    chunk = pfl_smb_chunk(&smb, 0, bitmap, 1);
    assert_ptr_equal(chunk, page_memory.bytes + 8 + 2044);
    pfl_chunk_set_header(chunk, 3, 9, 1);
    assert_int_equal(pfl_state_complete(page, 1), PFL_STATE_DONE);
    assert_int_equal(pfl_page_bitmap(page), 0x2000000c);
    assert_int_equal(pfl_state_begin_read(page, 1, &bitmap), PFL_STATE_DONE);
    assert_int_equal(bitmap, 0x20000008);
    assert_int_equal(pfl_chunk_look(chunk).chunk_id, 9);
    assert_int_equal(pfl_state_end_read(page, 1, chunk), PFL_STATE_DONE);
    assert_int_equal(pfl_page_bitmap(page), 0);
    assert_int_equal(pfl_chunk_look(chunk).writer_id, 0);
    assert_int_equal(pfl_chunk_look(chunk).count, 0);
}

static void a_page_keeps_its_layout_while_a_chunk_is_used(void **state)
{
    struct pfl_page_header *page = fresh_page();
    struct pfl_smb smb = smb_of_page();
    uint32_t bitmap = 0;

    (void)state;
    assert_true(pfl_state_try_partition(page, PFL_PAGE_DIV2));
    assert_int_equal(pfl_state_begin_write(page, 0, &bitmap), PFL_STATE_DONE);
    assert_int_equal(pfl_state_begin_write(page, 1, &bitmap), PFL_STATE_DONE);
    assert_int_equal(pfl_state_complete(page, 0), PFL_STATE_DONE);
    assert_int_equal(pfl_state_free_complete(page, 0, pfl_smb_chunk(&smb, 0, bitmap, 0)),
                     PFL_STATE_DONE);
    assert_int_equal(pfl_page_bitmap(page), 0x20000004);
    assert_int_equal(pfl_state_complete(page, 1), PFL_STATE_DONE);
    assert_int_equal(pfl_state_free_complete(page, 1, pfl_smb_chunk(&smb, 0, bitmap, 1)),
                     PFL_STATE_DONE);
    assert_int_equal(pfl_page_bitmap(page), 0);
}

/* All layouts, all chunks, all states, all steps: refused unless it is the step's own state. */
static void steps_from_a_wrong_state_are_refused_and_change_nothing(void **state)
{
    static const uint8_t steps[][2] = {
        {PFL_CHUNK_FREE, PFL_CHUNK_BEING_WRITTEN},  {PFL_CHUNK_BEING_WRITTEN, PFL_CHUNK_COMPLETE},
        {PFL_CHUNK_COMPLETE, PFL_CHUNK_BEING_READ}, {PFL_CHUNK_BEING_READ, PFL_CHUNK_FREE},
        {PFL_CHUNK_COMPLETE, PFL_CHUNK_FREE},
    };
    struct pfl_page_header *page = fresh_page();
    uint32_t done = 0;

    (void)state;
    for (uint32_t i = 0; i < 8u * 16u * 4u * 5u; i++) {
        uint32_t layout = i % 8;
        uint32_t index = i / 8 % 16;
        uint32_t at = i / 128 % 4;
        const uint8_t *step = steps[i / 512];
        uint32_t before = layout << PFL_PAGE_LAYOUT_SHIFT;
        enum pfl_state_result rc;

        if (index < PFL_PAGE_CHUNKS_MAX)
            before = pfl_page_with_chunk_state(before, index, (enum pfl_chunk_state)at);
        atomic_store(&page->bitmap, before);
        rc = pfl_state_move(page, index, (enum pfl_chunk_state)step[0],
                            (enum pfl_chunk_state)step[1], NULL);
        if (index < pfl_page_layout_chunks(layout) && at == step[0]) {
            assert_int_equal(rc, PFL_STATE_DONE);
            done++;
        } else {
            assert_int_equal(rc, PFL_STATE_REFUSED);
            assert_int_equal(pfl_page_bitmap(page), before);
        }
    }
    assert_int_equal(done, (1 + 2 + 4 + 7 + 14) * 5);
}

/* Whatever a peer scribbled into the word: alone or not, a step does the same. */
static void the_owner_of_a_chunk_steps_as_anybody_does(void **state)
{
    struct pfl_page_header *page = fresh_page();
    uint32_t word = 1;

    (void)state;
    for (uint32_t i = 0; i < 300000; i++) {
        uint32_t index = i % 16;
        enum pfl_chunk_state from = (enum pfl_chunk_state)(i / 16 % 4);
        enum pfl_chunk_state to = (enum pfl_chunk_state)(i / 64 % 4);
        enum pfl_state_result rc;
        uint32_t after;

        word = word * 1664525u + 1013904223u;
        /* half of them pages of one chunk in that state */
        if (i & 256)
            word = (word & 0x83fffffcu) | 0x10000000u | from;
        atomic_store(&page->bitmap, word);
        rc = pfl_state_move(page, index, from, to, NULL);
        after = pfl_page_bitmap(page);
        atomic_store(&page->bitmap, word);
        assert_int_equal(pfl_state_move_own(page, index, from, to, NULL), rc);
        assert_int_equal(pfl_page_bitmap(page), after);
    }
}

/* --- contention: writers take chunks and sign them, a reader checks and frees them -------- */

enum { WRITERS = 4, CHUNKS_EACH = 20000 };

static struct pfl_page_header *arena;
static _Atomic(uint32_t) double_taken;

static void *write_chunks(void *arg)
{
    struct pfl_smb smb = smb_of_page();
    uint16_t id = (uint16_t)(uintptr_t)arg;

    for (uint32_t n = 0; n < CHUNKS_EACH;) {
        uint32_t bitmap = 0;
        uint32_t index = n % PFL_PAGE_CHUNKS_MAX;
        struct pfl_chunk_header *chunk;

        pfl_state_try_partition(arena, PFL_PAGE_DIV14);
        if (pfl_state_begin_write(arena, index, &bitmap) != PFL_STATE_DONE) {
            n++; /* try another place; this number is skipped */
            sched_yield();
            continue;
        }
        chunk = pfl_smb_chunk(&smb, 0, bitmap, index);
        if (pfl_chunk_look(chunk).writer_id != 0)
            atomic_fetch_add(&double_taken, 1);
        pfl_chunk_set_header(chunk, id, n, 1);
        memset(pfl_chunk_payload(chunk), id, 64);
        while (pfl_state_complete(arena, index) == PFL_STATE_CONTENDED)
            ;
        n++;
    }
    return NULL;
}

static void read_round(uint32_t *mixed)
{
    struct pfl_smb smb = smb_of_page();

    for (uint32_t i = 0; i < PFL_PAGE_CHUNKS_MAX; i++) {
        struct pfl_chunk_header *chunk;
        uint32_t bitmap = 0;

        if (pfl_state_begin_read(arena, i, &bitmap) != PFL_STATE_DONE)
            continue;
        chunk = pfl_smb_chunk(&smb, 0, bitmap, i);
        for (uint32_t b = 0; b < 64; b++)
            *mixed += pfl_chunk_payload(chunk)[b] != pfl_chunk_look(chunk).writer_id;
        while (pfl_state_end_read(arena, i, chunk) == PFL_STATE_CONTENDED)
            ;
    }
}

static void chunks_never_have_two_owners(void **state)
{
    pthread_t threads[WRITERS];
    uint32_t mixed = 0;

    (void)state;
    arena = fresh_page();
    for (uintptr_t i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_chunks, (void *)(i + 1)), 0);
    for (uint32_t i = 0; i < 20000; i++)
        read_round(&mixed);
    for (uint32_t i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    read_round(&mixed);
    assert_int_equal(mixed, 0);
    assert_int_equal(atomic_load(&double_taken), 0);
    assert_int_equal(pfl_page_bitmap(arena), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_is_partitioned_once),
        cmocka_unit_test(a_life_goes_round_and_unpartitions_the_page),
        cmocka_unit_test(a_page_keeps_its_layout_while_a_chunk_is_used),
        cmocka_unit_test(steps_from_a_wrong_state_are_refused_and_change_nothing),
        cmocka_unit_test(the_owner_of_a_chunk_steps_as_anybody_does),
        cmocka_unit_test(chunks_never_have_two_owners),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
