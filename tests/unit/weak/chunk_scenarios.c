/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chunk protocol (abi/state.h, abi/chunk.h, producer/shared_memory/search.c) between writers
 * and a service. Each thread tries a few times and gives up, so that everything ends.
 */
#include <string.h>

#include "abi/state.h"
#include "producer/shared_memory/search.h"
#include "tests/unit/weak/scenarios.h"

enum { PAGE = 4096, PAGES = 2, TRIES = 2, FIRST = 100, SECOND = 200 };

static _Alignas(4096) uint8_t memory[PAGES * PAGE];
static struct pfl_search search;

static struct pfl_smb smb_of(uint32_t pages)
{
    return (struct pfl_smb){.base = memory, .page_bytes = PAGE, .pages = pages};
}

static struct pfl_page_header *page_at(uint32_t index)
{
    struct pfl_smb smb = smb_of(PAGES);

    return pfl_smb_page(&smb, index);
}

static uint32_t *payload_of(struct pfl_chunk_header *chunk)
{
    return (uint32_t *)(void *)pfl_chunk_payload(chunk);
}

static void begin(void)
{
    memset(memory, 0, sizeof(memory));
    pfl_search_init(&search);
    pfl_weak_watch(memory, sizeof(memory));
}

/* Two packets that say whose they are and which. */
static void fill(struct pfl_chunk_header *chunk, uint16_t writer, uint32_t id)
{
    uint32_t *payload = payload_of(chunk);

    pfl_chunk_set_header(chunk, writer, id, 1);
    payload[0] = FIRST + id;
    (void)pfl_chunk_add_packet(chunk);
    payload[1] = SECOND + writer;
}

static struct pfl_chunk_header *try_take(enum pfl_page_layout layout, uint32_t index)
{
    struct pfl_smb smb = smb_of(1);
    uint32_t bitmap;

    (void)pfl_state_try_partition(page_at(0), layout);
    if (pfl_state_begin_write(page_at(0), index, &bitmap) != PFL_STATE_DONE)
        return NULL;
    return pfl_smb_chunk(&smb, 0, bitmap, index);
}

static void complete(uint32_t index)
{
    pfl_weak_claim(pfl_state_complete(page_at(0), index) == PFL_STATE_DONE,
                   "a writer cannot complete its own chunk");
}

static void write_whole_page(void)
{
    uint32_t id = 0;

    for (uint32_t i = 0; i < TRIES; i++) {
        struct pfl_chunk_header *chunk = try_take(PFL_PAGE_DIV1, 0);

        if (chunk == NULL)
            continue;
        fill(chunk, 7, id++);
        complete(0);
    }
}

static void write_half(uint16_t writer)
{
    struct pfl_chunk_header *chunk = try_take(PFL_PAGE_DIV2, 0);

    if (chunk == NULL)
        return;
    fill(chunk, writer, 0);
    complete(0);
}

static void write_as_first(void)
{
    write_half(7);
}

static void write_as_second(void)
{
    write_half(8);
}

/* Chunk 0 is complete. */
static void begin_complete(void)
{
    begin();
    fill(try_take(PFL_PAGE_DIV2, 0), 7, 0);
    complete(0);
}

/* Two chunks are being written. */
static void begin_both(void)
{
    begin();
    fill(try_take(PFL_PAGE_DIV2, 0), 7, 0);
    fill(try_take(PFL_PAGE_DIV2, 1), 8, 0);
}

static void end_second(void)
{
    complete(1);
}

/* --- a service that takes chunks ------------------------------------------------------------- */

static void judge(struct pfl_chunk_header *chunk)
{
    struct pfl_chunk_view view = pfl_chunk_look(chunk);
    const uint32_t *payload = payload_of(chunk);

    pfl_weak_claim(view.count == 2, "a complete chunk lacks a packet");
    pfl_weak_claim(view.writer_id == 7 || view.writer_id == 8, "a complete chunk has no writer");
    pfl_weak_claim(payload[0] == FIRST + view.chunk_id, "the chunk's id and bytes do not fit");
    pfl_weak_claim(payload[1] == (uint32_t)SECOND + view.writer_id,
                   "the writer's id and bytes do not fit");
}

static void read_once(uint32_t index)
{
    struct pfl_smb smb = smb_of(1);
    struct pfl_chunk_header *chunk;
    uint32_t bitmap;

    if (pfl_state_begin_read(page_at(0), index, &bitmap) != PFL_STATE_DONE)
        return;
    chunk = pfl_smb_chunk(&smb, 0, bitmap, index);
    judge(chunk);
    pfl_weak_claim(pfl_state_end_read(page_at(0), index, chunk) == PFL_STATE_DONE,
                   "the service cannot free a chunk of its own");
}

static void read_whole_pages(void)
{
    for (uint32_t i = 0; i < TRIES; i++)
        read_once(0);
}

static void read_first(void)
{
    read_once(0);
}

/* The thread of a producer without shared memory that sends chunks and frees them. */
static void send_whole_pages(void)
{
    struct pfl_smb smb = smb_of(1);

    for (uint32_t i = 0; i < TRIES; i++) {
        uint32_t bitmap = pfl_page_bitmap(page_at(0));
        struct pfl_chunk_header *chunk;

        if (pfl_page_chunk_state(bitmap, 0) != PFL_CHUNK_COMPLETE)
            continue;
        chunk = pfl_smb_chunk(&smb, 0, bitmap, 0);
        judge(chunk);
        (void)pfl_state_free_complete(page_at(0), 0, chunk);
    }
}

/* --- a word that is as it was, after another life of the chunk -------------------------------- */

/* Chunk 1 is being written all the time, so the page keeps its layout. */
static void begin_free(void)
{
    begin();
    (void)try_take(PFL_PAGE_DIV2, 1);
}

static uint32_t *first_payload(void)
{
    struct pfl_smb smb = smb_of(1);

    return payload_of(pfl_smb_chunk(&smb, 0, (uint32_t)PFL_PAGE_DIV2 << PFL_PAGE_LAYOUT_SHIFT, 0));
}

static void end_first(void)
{
    *first_payload() = FIRST;
    complete(0);
}

static void take_and_write(void)
{
    if (pfl_state_begin_write(page_at(0), 0, NULL) == PFL_STATE_DONE)
        *first_payload() = FIRST;
}

static void take_write_and_complete(void)
{
    if (pfl_state_begin_write(page_at(0), 0, NULL) != PFL_STATE_DONE)
        return;
    *first_payload() = FIRST;
    complete(0);
}

static void read_and_free(void)
{
    if (pfl_state_begin_read(page_at(0), 0, NULL) != PFL_STATE_DONE)
        return;
    pfl_weak_claim(*first_payload() == FIRST, "a complete chunk is not whole");
    (void)pfl_state_move_own(page_at(0), 0, PFL_CHUNK_BEING_READ, PFL_CHUNK_FREE, NULL);
}

/* --- a service that looks into what is being written ------------------------------------------ */

static void scrape_once(void)
{
    struct pfl_smb smb = smb_of(1);
    uint32_t bitmap = pfl_page_bitmap(page_at(0));
    enum pfl_chunk_state state = pfl_page_chunk_state(bitmap, 0);
    struct pfl_chunk_header *chunk;
    struct pfl_chunk_view view;

    if (state != PFL_CHUNK_BEING_WRITTEN && state != PFL_CHUNK_COMPLETE)
        return;
    chunk = pfl_smb_chunk(&smb, 0, bitmap, 0);
    view = pfl_chunk_look(chunk);
    if (view.count == 0)
        return;
    pfl_weak_claim(view.writer_id == 7 && view.chunk_id < TRIES, "a counted chunk has no ids");
    if (view.count == 2)
        pfl_weak_claim(payload_of(chunk)[0] == FIRST + view.chunk_id,
                       "a packet that is counted is not whole");
    if (state == PFL_CHUNK_COMPLETE)
        judge(chunk);
}

static void scrape_twice(void)
{
    scrape_once();
    scrape_once();
}

static void read_and_scrape(void)
{
    read_once(0);
    scrape_once();
}

/* Flags change the word that says how many packets are whole. */
static void write_with_flags(void)
{
    struct pfl_chunk_header *chunk = try_take(PFL_PAGE_DIV1, 0);

    fill(chunk, 7, 0);
    pfl_chunk_set_flag(chunk, PFL_CHUNK_NEEDS_PATCH);
    (void)pfl_state_complete(page_at(0), 0);
}

static void write_and_clear_a_flag(void)
{
    struct pfl_chunk_header *chunk = try_take(PFL_PAGE_DIV1, 0);
    uint32_t *payload = payload_of(chunk);

    pfl_chunk_set_header(chunk, 7, 0, pfl_chunk_packets_of(1, PFL_CHUNK_NEEDS_PATCH));
    payload[0] = FIRST;
    (void)pfl_chunk_add_packet(chunk);
    pfl_chunk_clear_flag(chunk, PFL_CHUNK_NEEDS_PATCH);
}

/* --- the search ------------------------------------------------------------------------------ */

static void search_and_write(uint16_t writer)
{
    struct pfl_smb smb = smb_of(PAGES);
    struct pfl_arbiter_chunk chunk = {0};

    if (pfl_search_take(&search, &smb, &chunk)) {
        pfl_chunk_set_header(chunk.header, writer, 0, 1);
        payload_of(chunk.header)[0] = FIRST;
        pfl_weak_claim(pfl_state_complete(page_at(chunk.page), chunk.index) == PFL_STATE_DONE,
                       "a chunk that was found has two owners");
    }
}

static void search_as_first(void)
{
    search_and_write(7);
}

static void search_as_second(void)
{
    search_and_write(8);
}

const struct pfl_weak_scenario pfl_chunk_scenarios[] = {
    {"a writer of whole pages and a service", begin, {write_whole_page, read_whole_pages}, NULL},
    {"two writers of one chunk", begin, {write_as_first, write_as_second}, NULL},
    {"a writer after a service", begin_complete, {write_as_second, read_first}, NULL},
    {"two writers of one page and a service",
     begin_both,
     {end_first, end_second, read_first},
     NULL},
    {"a writer that looked before another's chunk was read",
     begin_free,
     {take_and_write, take_write_and_complete, read_and_free},
     NULL},
    {"a writer and one that sends", begin, {write_whole_page, send_whole_pages}, NULL},
    {"a writer and a scraper", begin, {write_whole_page, scrape_twice}, NULL},
    {"a writer and a service that scrapes", begin, {write_whole_page, read_and_scrape}, NULL},
    {"a writer that sets a flag, and a scraper", begin, {write_with_flags, scrape_twice}, NULL},
    {"a writer that clears a flag, and a scraper",
     begin,
     {write_and_clear_a_flag, scrape_twice},
     NULL},
    {"two that search", begin, {search_as_first, search_as_second}, NULL},
};
const size_t pfl_chunk_scenarios_len = sizeof(pfl_chunk_scenarios) / sizeof(pfl_chunk_scenarios[0]);
