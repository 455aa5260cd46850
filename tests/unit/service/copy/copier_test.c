/* SPDX-License-Identifier: Apache-2.0 */
/* A copier's work, in this process: commits and scrapes (docs/abi/smb.md 4, 9) into an area, and
 * requests over its socket. */
#include "service/copy/copier.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "abi/state.h"
#include "service/copy/copy_socket.h"
#include "tests/support/sweep.h"
#include "tests/unit/service/copy/copy_kit.h"

#define PAGE 4096u
#define SMB  65536u

static struct {
    struct kit_memory memory;
    struct pfl_smb_map map;
    struct pfl_copy_area *area;
    int area_fd;
} fx;

static int setup(void **state)
{
    (void)state;
    kit_memory_init(&fx.memory, SMB, PAGE);
    pfl_smb_map_init(&fx.map);
    assert_int_equal(pfl_smb_map_adopt(&fx.map, dup(fx.memory.fd), PAGE, true), 0);
    fx.area_fd = kit_area_make(&fx.area);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pfl_smb_map_fini(&fx.map);
    kit_memory_fini(&fx.memory);
    kit_area_free(fx.area, fx.area_fd);
    pfl_sweep_assert_no_leak();
    return 0;
}

/* ---- memory that is attached ---- */

static int attach(size_t bytes, int seals, uint64_t page_bytes)
{
    struct pfl_smb_map map;
    int fd = memfd_create("offer", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int rc;

    assert_true(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
    assert_true(seals == 0 || fcntl(fd, F_ADD_SEALS, seals) == 0);
    pfl_smb_map_init(&map);
    rc = pfl_smb_map_adopt(&map, fd, page_bytes, true);
    if (rc != 0)
        assert_int_equal(close(fd), 0); /* still ours */
    pfl_smb_map_fini(&map);
    return rc;
}

static void memory_is_attached_that_cannot_shrink_and_has_a_legal_size(void **state)
{
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

    (void)state;
    assert_int_equal(attach(SMB, seals, 32768), 0);
    assert_int_equal(attach(SMB, seals, PAGE), 0);
    assert_int_equal(attach(SMB, F_SEAL_SHRINK | F_SEAL_GROW, PAGE), PFL_EPERM);
    assert_int_equal(attach(SMB, F_SEAL_SHRINK, PAGE), PFL_EPERM);
    assert_int_equal(attach(SMB, 0, PAGE), PFL_EPERM);
    assert_int_equal(attach(SMB, seals, 0), PFL_EINVAL);
    assert_int_equal(attach(SMB, seals, 65536), PFL_EINVAL);
    assert_int_equal(attach(64u << 20, seals, PAGE), PFL_EINVAL);
}

/* ---- COMMIT ---- */

static void ask_for(uint32_t page, uint32_t chunk)
{
    fx.area->entries[fx.area->entries_len++] = (struct pfl_copy_entry){
        .page = page, .chunk = chunk, .result = 77, .at = UINT32_MAX, .bytes = UINT32_MAX};
}

static void expect_none(uint32_t entry)
{
    const struct pfl_copy_entry *e = &fx.area->entries[entry];

    assert_int_equal(e->result, PFL_COPY_NONE);
    assert_int_equal(e->at | e->bytes | e->chunk_id | e->writer_id | e->count | e->flags, 0);
}

static void complete_chunks_are_copied_and_freed(void **state)
{
    struct pfl_chunk_header *header;

    (void)state;
    header = kit_write(&fx.memory, PFL_PAGE_DIV4, 1, 2, 3);
    assert_int_equal(pfl_state_complete(kit_page(&fx.memory, 1), 2), PFL_STATE_DONE);
    kit_write_whole(&fx.memory, PFL_PAGE_DIV1, 5, 0);
    ask_for(1, 2);
    ask_for(5, 0);
    pfl_copier_commit(&fx.map, fx.area);
    assert_int_equal(fx.area->entries_len, 2);
    kit_expect_chunk(fx.area, 0, 1, 2);
    kit_expect_chunk(fx.area, 1, 5, 0);
    assert_int_equal(fx.area->entries[0].count, 3);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(fx.area->entries[i].result, PFL_COPY_WHOLE);
    assert_int_equal(fx.area->entries[0].at, 0);
    assert_int_equal(fx.area->entries[1].at, fx.area->entries[0].bytes);
    assert_int_equal(fx.area->entries[1].bytes,
                     PAGE - PFL_PAGE_HEADER_BYTES - PFL_CHUNK_HEADER_BYTES);
    assert_int_equal(pfl_page_bitmap(kit_page(&fx.memory, 1)), 0);
    assert_int_equal(pfl_page_bitmap(kit_page(&fx.memory, 5)), 0);
    assert_int_equal(header->writer_id | header->chunk_id | header->packets, 0);
}

static void entries_that_do_not_match_the_memory_are_none_and_change_nothing(void **state)
{
    uint32_t bitmap;

    (void)state;
    (void)kit_write(&fx.memory, PFL_PAGE_DIV4, 0, 0, 2);
    kit_write_whole(&fx.memory, PFL_PAGE_DIV4, 0, 3);
    bitmap = pfl_page_bitmap(kit_page(&fx.memory, 0));
    ask_for(0, 0); /* being written */
    ask_for(0, 1); /* free */
    ask_for(0, 4); /* no such chunk */
    ask_for(0, UINT32_MAX);
    ask_for(SMB / PAGE, 0);
    ask_for(UINT32_MAX, 3);
    pfl_copier_commit(&fx.map, fx.area);
    for (uint32_t i = 0; i < 6; i++)
        expect_none(i);
    assert_int_equal(pfl_page_bitmap(kit_page(&fx.memory, 0)), bitmap);
    ask_for(0, 3);
    ask_for(0, 3); /* free by then */
    pfl_copier_commit(&fx.map, fx.area);
    kit_expect_chunk(fx.area, 6, 0, 3);
    expect_none(7);
}

static void pages_that_nobody_wrote_are_never_touched(void **state)
{
    struct stat st;

    (void)state;
    kit_write_whole(&fx.memory, PFL_PAGE_DIV4, 1, 0);
    for (uint32_t page = 0; page < SMB / PAGE; page++)
        ask_for(page, 0);
    pfl_copier_commit(&fx.map, fx.area);
    pfl_copier_scrape(&fx.map, 0, fx.area);
    assert_int_equal(fx.area->entries_len, 0);
    assert_int_equal(fx.area->next_page, SMB / PAGE);
    assert_int_equal(fstat(fx.memory.fd, &st), 0);
    assert_int_equal(st.st_blocks, PAGE / 512);
}

static void what_data_has_no_room_for_stays_complete(void **state)
{
    const uint32_t page_bytes = 32768;
    const uint32_t fit = PFL_COPY_DATA_BYTES / page_bytes;
    struct kit_memory memory;
    struct pfl_smb_map map;

    (void)state;
    kit_memory_init(&memory, (size_t)page_bytes * (fit + 2), page_bytes);
    pfl_smb_map_init(&map);
    assert_int_equal(pfl_smb_map_adopt(&map, dup(memory.fd), page_bytes, true), 0);
    for (uint32_t page = 0; page < fit + 2; page++) {
        kit_write_whole(&memory, PFL_PAGE_DIV1, page, 0);
        ask_for(page, 0);
    }
    pfl_copier_commit(&map, fx.area);
    for (uint32_t page = 0; page < fit; page++)
        kit_expect_chunk(fx.area, page, page, 0);
    for (uint32_t page = fit; page < fit + 2; page++) {
        expect_none(page);
        assert_int_equal(pfl_page_chunk_state(pfl_page_bitmap(kit_page(&memory, page)), 0),
                         PFL_CHUNK_COMPLETE);
    }
    pfl_smb_map_fini(&map);
    kit_memory_fini(&memory);
}

static void more_entries_than_the_area_has_are_not_served(void **state)
{
    (void)state;
    for (uint32_t page = 0; page < SMB / PAGE; page++)
        for (uint32_t i = 0; i < PFL_PAGE_CHUNKS_MAX; i++)
            kit_write_whole(&fx.memory, PFL_PAGE_DIV14, page, i);
    for (uint32_t i = 0; i < PFL_COPY_ENTRIES; i++)
        ask_for(i / PFL_PAGE_CHUNKS_MAX, i % PFL_PAGE_CHUNKS_MAX);
    fx.area->entries_len = UINT32_MAX;
    pfl_copier_commit(&fx.map, fx.area);
    for (uint32_t i = 0; i < SMB / PAGE * PFL_PAGE_CHUNKS_MAX; i++)
        kit_expect_chunk(fx.area, i, i / PFL_PAGE_CHUNKS_MAX, i % PFL_PAGE_CHUNKS_MAX);
    for (uint32_t i = SMB / PAGE * PFL_PAGE_CHUNKS_MAX; i < PFL_COPY_ENTRIES; i++)
        expect_none(i);
}

/* A producer that takes the chunk back while the copier reads it. */
struct scribbler {
    pthread_t thread;
    atomic_bool stops;
};

static void *scribble(void *user)
{
    struct scribbler *s = user;
    struct pfl_page_header *page = kit_page(&fx.memory, 3);

    while (!atomic_load(&s->stops)) {
        uint32_t seen = pfl_page_bitmap(page);

        if (pfl_page_chunk_state(seen, 0) == PFL_CHUNK_BEING_READ)
            atomic_store(&page->bitmap, pfl_page_with_chunk_state(seen, 0, PFL_CHUNK_FREE));
    }
    return NULL;
}

static void a_chunk_whose_page_changes_meanwhile_is_stuck(void **state)
{
    struct scribbler s = {.stops = false};
    unsigned stuck = 0;

    (void)state;
    assert_int_equal(pthread_create(&s.thread, NULL, scribble, &s), 0);
    for (unsigned round = 0; stuck == 0 && round < 10000000; round++) {
        (void)pfl_state_try_partition(kit_page(&fx.memory, 3), PFL_PAGE_DIV1);
        (void)kit_write(&fx.memory, PFL_PAGE_DIV1, 3, 0, 2);
        if (pfl_state_complete(kit_page(&fx.memory, 3), 0) == PFL_STATE_DONE) {
            fx.area->entries_len = 0;
            ask_for(3, 0);
            pfl_copier_commit(&fx.map, fx.area);
            if (fx.area->entries[0].result != PFL_COPY_NONE)
                kit_expect_chunk(fx.area, 0, 3, 0); /* copied nevertheless */
            stuck += fx.area->entries[0].result == PFL_COPY_STUCK;
        }
        atomic_store(&kit_page(&fx.memory, 3)->bitmap, 0);
    }
    atomic_store(&s.stops, true);
    assert_int_equal(pthread_join(s.thread, NULL), 0);
    assert_true(stuck > 0);
}

/* ---- SCRAPE ---- */

static void scraping_takes_what_is_finished_and_changes_nothing(void **state)
{
    uint32_t bitmap;

    (void)state;
    (void)kit_write(&fx.memory, PFL_PAGE_DIV4, 2, 0, 1); /* its only packet may be unfinished */
    (void)kit_write(&fx.memory, PFL_PAGE_DIV4, 2, 1, 2);
    kit_write_whole(&fx.memory, PFL_PAGE_DIV4, 2, 3);
    kit_write_whole(&fx.memory, PFL_PAGE_DIV2, 9, 1);
    bitmap = pfl_page_bitmap(kit_page(&fx.memory, 2));
    for (int i = 0; i < 2; i++) {
        pfl_copier_scrape(&fx.map, 0, fx.area);
        assert_int_equal(fx.area->next_page, SMB / PAGE);
        assert_int_equal(fx.area->entries_len, 3);
        kit_expect_chunk(fx.area, 0, 2, 1);
        kit_expect_chunk(fx.area, 1, 2, 3);
        kit_expect_chunk(fx.area, 2, 9, 1);
        assert_int_equal(fx.area->entries[0].result, PFL_COPY_OPEN);
        assert_int_equal(fx.area->entries[1].result, PFL_COPY_WHOLE);
        assert_int_equal(fx.area->entries[2].result, PFL_COPY_WHOLE);
    }
    assert_int_equal(pfl_page_bitmap(kit_page(&fx.memory, 2)), bitmap);
    pfl_copier_scrape(&fx.map, 3, fx.area);
    assert_int_equal(fx.area->entries_len, 1);
}

static void pages_past_the_end_are_the_end(void **state)
{
    (void)state;
    kit_write_whole(&fx.memory, PFL_PAGE_DIV1, SMB / PAGE - 1, 0);
    pfl_copier_scrape(&fx.map, SMB / PAGE - 1, fx.area);
    assert_int_equal(fx.area->entries_len, 1);
    pfl_copier_scrape(&fx.map, SMB / PAGE, fx.area);
    assert_int_equal(fx.area->entries_len, 0);
    assert_int_equal(fx.area->next_page, SMB / PAGE);
    pfl_copier_scrape(&fx.map, UINT32_MAX, fx.area);
    assert_int_equal(fx.area->entries_len, 0);
    assert_int_equal(fx.area->next_page, SMB / PAGE);
}

/* Each chunk once, in order, in parts of whole pages. Returns the number of parts. */
static unsigned scrape_all(struct pfl_smb_map *map, uint32_t chunks)
{
    uint32_t page = 0;
    uint32_t seen = 0;
    unsigned parts = 0;

    do {
        pfl_copier_scrape(map, page, fx.area);
        assert_true(fx.area->next_page > page && fx.area->entries_len <= PFL_COPY_ENTRIES);
        for (uint32_t i = 0; i < fx.area->entries_len; i++, seen++)
            kit_expect_chunk(fx.area, i, seen / chunks, seen % chunks);
        page = fx.area->next_page;
        assert_int_equal(seen, page * chunks);
        parts++;
    } while (page < map->smb.pages);
    return parts;
}

static void expect_parts(uint32_t pages, uint32_t page_bytes, enum pfl_page_layout layout,
                         unsigned parts)
{
    const uint32_t chunks = pfl_page_layout_chunks(layout);
    struct kit_memory memory;
    struct pfl_smb_map map;

    kit_memory_init(&memory, (size_t)pages * page_bytes, page_bytes);
    pfl_smb_map_init(&map);
    assert_int_equal(pfl_smb_map_adopt(&map, dup(memory.fd), page_bytes, true), 0);
    for (uint32_t page = 0; page < pages; page++)
        for (uint32_t i = 0; i < chunks; i++)
            kit_write_whole(&memory, layout, page, i);
    assert_int_equal(scrape_all(&map, chunks), parts);
    pfl_smb_map_fini(&map);
    kit_memory_fini(&memory);
}

static void what_does_not_fit_is_scraped_by_the_next_request(void **state)
{
    (void)state;
    expect_parts(16, 4096, PFL_PAGE_DIV14, 1);
    expect_parts(36, 4096, PFL_PAGE_DIV14, 1); /* 504 entries */
    expect_parts(37, 4096, PFL_PAGE_DIV14, 2);
    expect_parts(16, 32768, PFL_PAGE_DIV1, 1); /* 512 KiB, but for the headers */
    expect_parts(17, 32768, PFL_PAGE_DIV1, 2);
    expect_parts(40, 32768, PFL_PAGE_DIV7, 3);
    expect_parts(150, 4096, PFL_PAGE_DIV2, 2);
}

static void bitmaps_of_any_kind_stay_within_their_page(void **state)
{
    (void)state;
    for (uint32_t layout = 0; layout < 16; layout++) {
        atomic_store(&kit_page(&fx.memory, 4)->bitmap, layout << 28 | 0x0fffffffu);
        pfl_copier_scrape(&fx.map, 4, fx.area);
        assert_int_equal(fx.area->entries_len, pfl_page_layout_chunks(layout & 7u));
        for (uint32_t i = 0; i < fx.area->entries_len; i++)
            assert_true(fx.area->entries[i].at + fx.area->entries[i].bytes <= PAGE);
    }
}

/* ---- requests ---- */

static int ends[2];

static void send_request(const struct pfl_copy_message *m, int fd)
{
    const struct pfl_copy_fds fds = {.list = {fd}, .len = 1};

    assert_int_equal(pfl_copy_socket_send(ends[0], m, sizeof(*m), fd < 0 ? NULL : &fds), 0);
}

static void begin_requests(void)
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends),
                     0);
}

/* Nothing more is sent. */
static void run(void)
{
    assert_int_equal(shutdown(ends[0], SHUT_WR), 0);
    pfl_copier_run(ends[1], fx.area);
    assert_int_equal(close(ends[1]), 0);
}

static void expect_answer(enum pfl_copy_kind kind, uint32_t map, int error)
{
    struct pfl_copy_message m;
    struct pfl_copy_fds fds;

    assert_int_equal(pfl_copy_socket_receive(ends[0], &m, sizeof(m), &fds), 0);
    assert_int_equal(m.kind, kind);
    assert_int_equal(m.map, map);
    assert_int_equal(m.error, error);
    assert_int_equal(fds.len, 0);
}

static void expect_end(void)
{
    struct pfl_copy_message m;
    struct pfl_copy_fds fds;

    assert_int_equal(pfl_copy_socket_receive(ends[0], &m, sizeof(m), &fds), PFL_EEOF);
    assert_int_equal(close(ends[0]), 0);
}

static void requests_are_answered_in_order(void **state)
{
    (void)state;
    kit_write_whole(&fx.memory, PFL_PAGE_DIV1, 0, 0);
    kit_write_whole(&fx.memory, PFL_PAGE_DIV1, 2, 0);
    ask_for(0, 0);
    begin_requests();
    send_request(&(struct pfl_copy_message){.kind = PFL_COPY_COMMIT, .map = 65535}, -1);
    send_request(&(struct pfl_copy_message){PFL_COPY_ATTACH, .map = 65535, .page_bytes = PAGE},
                 fx.memory.fd);
    send_request(&(struct pfl_copy_message){.kind = PFL_COPY_COMMIT, .map = 65535}, -1);
    send_request(&(struct pfl_copy_message){.kind = PFL_COPY_SCRAPE, .map = 65535}, -1);
    send_request(&(struct pfl_copy_message){.kind = PFL_COPY_DETACH, .map = 65535}, -1);
    send_request(&(struct pfl_copy_message){.kind = PFL_COPY_DETACH, .map = 65535}, -1);
    send_request(&(struct pfl_copy_message){.kind = PFL_COPY_SCRAPE, .map = 65535}, -1);
    run();
    expect_answer(PFL_COPY_COMMIT, 65535, PFL_ENOENT);
    expect_answer(PFL_COPY_ATTACH, 65535, 0);
    expect_answer(PFL_COPY_COMMIT, 65535, 0);
    expect_answer(PFL_COPY_SCRAPE, 65535, 0);
    expect_answer(PFL_COPY_DETACH, 65535, 0);
    expect_answer(PFL_COPY_DETACH, 65535, PFL_ENOENT);
    expect_answer(PFL_COPY_SCRAPE, 65535, PFL_ENOENT);
    expect_end();
    assert_int_equal(pfl_page_bitmap(kit_page(&fx.memory, 0)), 0);
    assert_int_equal(fx.area->entries_len, 1);
    kit_expect_chunk(fx.area, 0, 2, 0);
}

static void memory_that_cannot_be_attached_is_an_answer(void **state)
{
    (void)state;
    begin_requests();
    send_request(&(struct pfl_copy_message){PFL_COPY_ATTACH, .map = 1, .page_bytes = PAGE},
                 fx.memory.fd);
    send_request(&(struct pfl_copy_message){PFL_COPY_ATTACH, .map = 1, .page_bytes = PAGE},
                 fx.memory.fd);
    send_request(&(struct pfl_copy_message){PFL_COPY_ATTACH, .map = 2, .page_bytes = 5},
                 fx.memory.fd);
    send_request(
        &(struct pfl_copy_message){PFL_COPY_ATTACH, .map = PFL_COPY_MAPS, .page_bytes = PAGE},
        fx.memory.fd);
    send_request(&(struct pfl_copy_message){PFL_COPY_ATTACH, .map = 3, .page_bytes = PAGE}, -1);
    send_request(&(struct pfl_copy_message){PFL_COPY_ATTACH, .map = 4, .page_bytes = PAGE},
                 ends[0]);
    send_request(&(struct pfl_copy_message){PFL_COPY_SCRAPE, .map = PFL_COPY_MAPS}, -1);
    run();
    expect_answer(PFL_COPY_ATTACH, 1, 0);
    expect_answer(PFL_COPY_ATTACH, 1, PFL_EEXIST);
    expect_answer(PFL_COPY_ATTACH, 2, PFL_EINVAL);
    expect_answer(PFL_COPY_ATTACH, PFL_COPY_MAPS, PFL_EINVAL);
    expect_answer(PFL_COPY_ATTACH, 3, PFL_ELIMIT);
    expect_answer(PFL_COPY_ATTACH, 4, PFL_EPERM);
    expect_answer(PFL_COPY_SCRAPE, PFL_COPY_MAPS, PFL_ENOENT);
    expect_end();
}

static void what_is_no_request_ends_it(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        begin_requests();
        if (i < 2)
            send_request(&(struct pfl_copy_message){.kind = i * 5}, -1);
        else if (i == 2)
            send_request(&(struct pfl_copy_message){.kind = PFL_COPY_DETACH}, fx.memory.fd);
        else
            assert_int_equal(send(ends[0], "short", 5, 0), 5);
        send_request(&(struct pfl_copy_message){.kind = PFL_COPY_SCRAPE}, -1);
        run(); /* an unread request: the kernel says so */
        assert_int_equal(close(ends[0]), 0);
    }
}

static int attach_by_request(void *user)
{
    struct pfl_copy_message m;
    struct pfl_copy_fds fds;
    int rc;

    (void)user;
    begin_requests();
    send_request(&(struct pfl_copy_message){PFL_COPY_ATTACH, .map = 1, .page_bytes = PAGE},
                 fx.memory.fd);
    run();
    rc = pfl_copy_socket_receive(ends[0], &m, sizeof(m), &fds);
    assert_int_equal(close(ends[0]), 0);
    return rc == 0 ? m.error : PFL_ENOMEM; /* or it ended at once */
}

static void memory_of_its_own_may_be_missing(void **state)
{
    (void)state;
    pfl_smb_map_fini(&fx.map); /* the sweep counts what is there */
    pfl_sweep(attach_by_request, NULL, false);
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        ROW(memory_is_attached_that_cannot_shrink_and_has_a_legal_size),
        ROW(complete_chunks_are_copied_and_freed),
        ROW(entries_that_do_not_match_the_memory_are_none_and_change_nothing),
        ROW(pages_that_nobody_wrote_are_never_touched),
        ROW(what_data_has_no_room_for_stays_complete),
        ROW(more_entries_than_the_area_has_are_not_served),
        ROW(a_chunk_whose_page_changes_meanwhile_is_stuck),
        ROW(scraping_takes_what_is_finished_and_changes_nothing),
        ROW(pages_past_the_end_are_the_end),
        ROW(what_does_not_fit_is_scraped_by_the_next_request),
        ROW(bitmaps_of_any_kind_stay_within_their_page),
        ROW(requests_are_answered_in_order),
        ROW(memory_that_cannot_be_attached_is_an_answer),
        ROW(what_is_no_request_ends_it),
        ROW(memory_of_its_own_may_be_missing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
