/* SPDX-License-Identifier: Apache-2.0 */
/* Shared memory as the service sees it: mapping, commits (docs/abi/smb.md 4, 7, 8), scraping (9).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "abi/state.h"
#include "base/closer.h"
#include "service/buffer/smb_scrape.h"
#include "tests/support/sweep.h"
#include "tests/unit/service/buffer/buffer_kit.h"

#define PAGE    4096u
#define SMB     65536u
#define ALLOWED 7u
#define FOREIGN 8u
#define SEALS   (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define WRITER  3u
#define REQ_MAX 4096u

struct fixture {
    struct pfl_smb_map map;
    struct pfl_trace_buffer *buffer;
    struct pfl_commit_counters counters;
    uint8_t request[REQ_MAX];
    struct pfl_writer w;
    bool is_emulated;
};

static struct fixture fx;

static int setup(void **state)
{
    (void)state;
    memset(&fx, 0, sizeof(fx));
    pfl_smb_map_init(&fx.map);
    fx.buffer = kit_buffer(1 << 20, PFL_FILL_RING_BUFFER);
    fx.w = pfl_writer_of(fx.request, sizeof(fx.request));
    assert_int_equal(pfl_smb_map_create(&fx.map, (struct pfl_smb_size){SMB, PAGE}, true), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pfl_smb_map_fini(&fx.map);
    pfl_trace_buffer_free(fx.buffer);
    pfl_sweep_assert_no_leak();
    return 0;
}

/* ---- a producer ---- */

static struct pfl_page_header *page_at(uint32_t page)
{
    return pfl_smb_page(&fx.map.smb, page);
}

/* Takes a chunk, writes `packets` packets of 9 bytes into it and leaves it BeingWritten. */
static struct pfl_chunk_header *write_chunk(uint32_t page, uint32_t index, uint32_t id,
                                            uint16_t packets)
{
    struct pfl_chunk_header *header;
    uint32_t bitmap = 0;
    uint8_t *pos;

    (void)pfl_state_try_partition(page_at(page), PFL_PAGE_DIV4);
    assert_int_equal(pfl_state_begin_write(page_at(page), index, &bitmap), PFL_STATE_DONE);
    header = pfl_smb_chunk(&fx.map.smb, page, bitmap, index);
    assert_non_null(header);
    if (header == NULL)
        return NULL; /* never: the analyzer does not know that the assertion ends the test */
    pfl_chunk_set_header(header, WRITER, id, pfl_chunk_packets_of(packets, 0));
    pos = pfl_chunk_payload(header);
    for (uint16_t i = 0; i < packets; i++) {
        *pos++ = 9;
        memset(pos, 'a' + i, 9);
        pos += 9;
    }
    return header;
}

static void finish_chunk(uint32_t page, uint32_t index)
{
    assert_int_equal(pfl_state_complete(page_at(page), index), PFL_STATE_DONE);
}

static void request_move(uint32_t page, uint32_t chunk, uint32_t buffer)
{
    uint8_t bytes[32];
    struct pfl_writer m = pfl_writer_of(bytes, sizeof(bytes));

    pfl_writer_field_varint(&m, 1, page);
    pfl_writer_field_varint(&m, 2, chunk);
    pfl_writer_field_varint(&m, 3, buffer);
    pfl_writer_field_bytes(&fx.w, 1, bytes, sizeof(bytes) - m.left);
}

static void request_patch(uint32_t buffer, uint32_t writer, uint32_t chunk_id, size_t data_len)
{
    uint8_t one[16];
    uint8_t list[64];
    struct pfl_writer p = pfl_writer_of(one, sizeof(one));
    struct pfl_writer l = pfl_writer_of(list, sizeof(list));

    pfl_writer_field_varint(&p, 1, 1);
    pfl_writer_field_bytes(&p, 2, "PQRST", data_len);
    pfl_writer_field_varint(&l, 1, buffer);
    pfl_writer_field_varint(&l, 2, writer);
    pfl_writer_field_varint(&l, 3, chunk_id);
    pfl_writer_field_bytes(&l, 4, one, sizeof(one) - p.left);
    pfl_writer_field_bytes(&fx.w, 2, list, sizeof(list) - l.left);
}

/* ---- the service ---- */

static struct pfl_trace_buffer *get_allowed(void *user, uint16_t buffer_id, uint16_t writer_id)
{
    (void)user;
    (void)writer_id;
    return buffer_id == ALLOWED ? fx.buffer : NULL;
}

static struct pfl_trace_buffer *get_buffer(void *user, uint16_t buffer_id)
{
    (void)user;
    return buffer_id == ALLOWED || buffer_id == FOREIGN ? fx.buffer : NULL;
}

static int apply(uint64_t *ret_flush_id)
{
    struct pfl_commit_conf conf = {
        .identity = {.producer_id = 1, .uid = 10, .pid = 11, .machine_id = 12},
        .map = &fx.map,
        .is_emulated = fx.is_emulated,
        .get_allowed_buffer = get_allowed,
        .get_buffer = get_buffer,
        .counters = &fx.counters,
    };
    struct pfl_span args = pfl_span_of(fx.request, sizeof(fx.request) - fx.w.left);

    assert_false(fx.w.failed);
    fx.w = pfl_writer_of(fx.request, sizeof(fx.request));
    return pfl_commit_apply(&conf, args, &(struct pfl_commit_data_position){0}, ret_flush_id);
}

static void expect_packets(const char *fills)
{
    pfl_trace_buffer_begin_read(fx.buffer);
    for (; *fills != 0; fills++)
        kit_expect(fx.buffer, *fills, 9, 0);
    kit_expect_end(fx.buffer);
}

/* ---- mapping ---- */

static void memory_that_is_made_has_its_seals_and_is_zero(void **state)
{
    (void)state;
    assert_int_equal(fcntl(fx.map.fd, F_GET_SEALS), SEALS);
    assert_int_equal(fx.map.smb.pages, SMB / PAGE);
    assert_int_equal(ftruncate(fx.map.fd, 0), -1);
    assert_int_equal(fx.map.smb.base[SMB - 1], 0);
    assert_int_equal(pfl_smb_map_create(&fx.map, (struct pfl_smb_size){SMB, PAGE}, true),
                     PFL_ESTATE);
}

static int adopt(size_t bytes, int seals, uint64_t page_hint)
{
    struct pfl_smb_map map;
    int fd = memfd_create("offer", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int rc;

    assert_true(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
    assert_true(seals == 0 || fcntl(fd, F_ADD_SEALS, seals) == 0);
    pfl_smb_map_init(&map);
    rc = pfl_smb_map_adopt(&map, fd, page_hint, true);
    if (rc != 0)
        assert_int_equal(close(fd), 0); /* still ours */
    else
        assert_true(map.is_adopted);
    pfl_smb_map_fini(&map);
    return rc;
}

static void offered_memory_is_taken_only_when_sealed_and_of_a_size_we_would_choose(void **state)
{
    (void)state;
    assert_int_equal(adopt(1 << 20, SEALS, 32768), 0);
    assert_int_equal(adopt(1 << 20, SEALS, 0), PFL_EINVAL);
    assert_int_equal(adopt(1 << 20, SEALS, 65536), PFL_EINVAL);
    assert_int_equal(adopt(1 << 20, SEALS, 12288), PFL_EINVAL);
    assert_int_equal(adopt((1 << 20) + 4096, SEALS, 32768), PFL_EINVAL);
    assert_int_equal(adopt(64u << 20, SEALS, 4096), PFL_EINVAL);
    assert_int_equal(adopt(0, SEALS, 4096), PFL_EINVAL);
    assert_int_equal(adopt(1 << 20, 0, 4096), PFL_EPERM);
    assert_int_equal(adopt(1 << 20, F_SEAL_SHRINK | F_SEAL_GROW, 4096), PFL_EPERM);
}

static void huge_pages_are_refused(void **state)
{
    struct pfl_smb_map map;
    int fd = memfd_create("offer", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);

    (void)state;
    if (fd < 0)
        skip(); /* this kernel has none */
    assert_int_equal(ftruncate(fd, 2 << 20), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, SEALS), 0);
    pfl_smb_map_init(&map);
    assert_int_equal(pfl_smb_map_adopt(&map, fd, 4096, true), PFL_EPERM);
    (void)close(fd);
}

static struct pfl_trace_buffer *get_no_buffer(void *user, uint16_t writer_id)
{
    (void)user;
    (void)writer_id;
    return NULL;
}

static void pages_that_nobody_wrote_are_never_touched(void **state)
{
    const struct pfl_smb_scrape_conf conf = {
        .map = &fx.map, .get_writer_buffer = get_no_buffer, .credit = UINT64_MAX};
    struct pfl_smb_chunk chunk;
    struct stat st;

    (void)state;
    write_chunk(1, 2, 0, 3);
    finish_chunk(1, 2);
    assert_int_equal(pfl_smb_scrape(&conf).offered, 0);
    for (uint32_t page = 0; page < SMB / PAGE; page++) {
        pfl_smb_map_prefetch(&fx.map, page);
        if (page != 1)
            assert_int_equal(pfl_smb_map_take(&fx.map, page, 0, &chunk), PFL_ENOENT);
    }
    assert_int_equal(fstat(fx.map.fd, &st), 0);
    assert_int_equal(st.st_blocks, PAGE / 512);
    assert_int_equal(pfl_smb_map_take(&fx.map, 1, 2, &chunk), 0);
}

static void page_that_cannot_be_read_becomes_zeros(void **state)
{
    int empty = memfd_create("empty", MFD_CLOEXEC);

    (void)state;
    pfl_smb_map_guard();
    assert_true(mmap(fx.map.smb.base + 3 * PAGE, PAGE, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_FIXED, empty, 0) != MAP_FAILED);
    assert_false(fx.map.has_faulted);
    assert_int_equal(pfl_page_bitmap(page_at(3)), 0);
    assert_true(fx.map.has_faulted);
    (void)signal(SIGBUS, SIG_DFL);
    (void)close(empty);
}

static uint64_t get_cpu_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* As it does while the kernel tries to bring a page back, and cannot. */
static void spend_cpu_ms(uint64_t ms)
{
    uint64_t end_ms = get_cpu_ms() + ms;

    while (get_cpu_ms() < end_ms && !fx.map.has_faulted)
        ;
}

static void page_that_takes_cpu_time_without_end_becomes_zeros(void **state)
{
    struct pfl_smb_chunk chunk;

    (void)state;
    pfl_smb_map_guard();
    for (uint32_t page = 1; page < 4; page++) {
        write_chunk(page, 0, page, 1);
        finish_chunk(page, 0);
    }
    for (int i = 0; i < 10; i++) { /* others in turn, for as long in sum */
        pfl_smb_map_begin_touch(&fx.map);
        spend_cpu_ms(4);
        pfl_smb_map_end_touch();
    }
    spend_cpu_ms(100); /* nothing is touched */
    pfl_smb_map_begin_touch(&fx.map);
    assert_ptr_equal(pfl_smb_map_pause_touch(), &fx.map);
    spend_cpu_ms(100); /* likewise */
    pfl_smb_map_resume_touch(&fx.map);
    pfl_smb_map_end_touch();
    assert_false(fx.map.has_faulted);

    assert_int_equal(pfl_smb_map_take(&fx.map, 2, 0, &chunk), 0);
    spend_cpu_ms(1000);
    assert_true(fx.map.has_faulted);
    assert_int_equal(pfl_page_bitmap(page_at(2)), 0);
    assert_int_equal(pfl_smb_map_release(&fx.map, 2, 0, chunk.header), PFL_EAGAIN);
    assert_int_equal(pfl_smb_map_take(&fx.map, 3, 0, &chunk), PFL_ENOENT);
}

/* ---- commits ---- */

static void a_complete_chunk_is_moved_and_freed(void **state)
{
    struct pfl_chunk_header *header;
    uint64_t flush_id;

    (void)state;
    header = write_chunk(1, 2, 0, 3);
    finish_chunk(1, 2);
    request_move(1, 2, ALLOWED);
    pfl_writer_field_varint(&fx.w, 3, 99);
    assert_int_equal(apply(&flush_id), 0);
    assert_int_equal(flush_id, 99);
    assert_int_equal(pfl_page_bitmap(page_at(1)), 0);
    assert_int_equal(header->writer_id | header->chunk_id | header->packets, 0);
    expect_packets("abc");
}

static void the_layout_stays_until_the_last_chunk_is_freed(void **state)
{
    uint64_t flush_id;

    (void)state;
    write_chunk(0, 0, 0, 1);
    finish_chunk(0, 0);
    write_chunk(0, 1, 1, 1);
    request_move(0, 0, ALLOWED);
    assert_int_equal(apply(&flush_id), 0);
    assert_int_equal(pfl_page_layout(pfl_page_bitmap(page_at(0))), PFL_PAGE_DIV4);
    finish_chunk(0, 1);
    request_move(0, 1, ALLOWED);
    assert_int_equal(apply(&flush_id), 0);
    assert_int_equal(pfl_page_bitmap(page_at(0)), 0);
}

static void entries_that_do_not_match_the_memory_are_skipped(void **state)
{
    uint32_t bitmap;
    uint64_t flush_id;

    (void)state;
    write_chunk(0, 0, 0, 2);
    bitmap = pfl_page_bitmap(page_at(0));
    request_move(0, 0, ALLOWED); /* being written */
    request_move(0, 1, ALLOWED); /* free */
    request_move(0, 4, ALLOWED); /* no such chunk */
    request_move(0, UINT32_MAX, ALLOWED);
    request_move(SMB / PAGE, 0, ALLOWED);
    request_move(UINT32_MAX, 0, ALLOWED);
    assert_int_equal(apply(&flush_id), 0);
    assert_int_equal(flush_id, 0);
    assert_int_equal(pfl_page_bitmap(page_at(0)), bitmap);
    assert_int_equal(fx.counters.entries_skipped, 6);
    assert_int_equal(fx.counters.chunks_discarded, 0);
    expect_packets("");
}

static void a_chunk_for_a_forbidden_buffer_is_discarded_and_freed(void **state)
{
    uint64_t flush_id;

    (void)state;
    write_chunk(0, 0, 0, 1);
    finish_chunk(0, 0);
    write_chunk(1, 0, 1, 1);
    finish_chunk(1, 0);
    request_move(0, 0, FOREIGN);
    request_move(1, 0, 0);
    assert_int_equal(apply(&flush_id), 0);
    assert_int_equal(pfl_page_bitmap(page_at(0)), 0);
    assert_int_equal(pfl_page_bitmap(page_at(1)), 0);
    assert_int_equal(fx.counters.chunks_discarded, 2);
    expect_packets("");
}

static void a_buffer_id_has_sixteen_bits(void **state)
{
    uint64_t flush_id;

    (void)state;
    write_chunk(0, 0, 0, 1);
    finish_chunk(0, 0);
    request_move(0, 0, 0x50000 + ALLOWED);
    assert_int_equal(apply(&flush_id), 0);
    expect_packets("a");
}

static void moves_come_before_patches_of_the_same_request(void **state)
{
    static struct kit_packet packet;
    uint64_t flush_id;

    (void)state;
    write_chunk(0, 0, 0, 1);
    finish_chunk(0, 0);
    request_patch(ALLOWED, WRITER, 0, 4);
    request_move(0, 0, ALLOWED);
    assert_int_equal(apply(&flush_id), 0);
    pfl_trace_buffer_begin_read(fx.buffer);
    assert_true(kit_read(fx.buffer, &packet));
    assert_memory_equal(packet.data, "PQRSaaaaa", 9);
}

static bool stop_now(void *user)
{
    (void)user;
    return false;
}

/* A search costs as much as many entries. */
static void a_patch_that_is_searched_far_is_the_last_of_its_turn(void **state)
{
    struct pfl_trace_buffer_credit credit = {0};
    const struct pfl_commit_conf conf = {
        .identity = {.producer_id = 1, .credit = &credit},
        .map = &fx.map,
        .get_allowed_buffer = get_allowed,
        .get_buffer = get_buffer,
        .may_continue = stop_now,
        .counters = &fx.counters,
    };
    struct pfl_commit_data_position at = {0};
    struct pfl_span request;
    struct kit_chunk c;
    uint64_t flush_id;

    (void)state;
    for (uint32_t i = 0; i < 5000; i++) {
        kit_chunk_begin(&c, 1, WRITER, i);
        kit_chunk_add(&c, 'a', 9);
        c.chunk.credit = &credit;
        pfl_trace_buffer_commit(fx.buffer, &c.chunk);
    }
    request_patch(ALLOWED, WRITER, 4999, 4);
    request_patch(ALLOWED, WRITER, 1, 4);
    request_patch(ALLOWED, WRITER, 2, 4);
    request = pfl_span_of(fx.request, sizeof(fx.request) - fx.w.left);
    for (uint64_t patched = 2; patched <= 3; patched++) {
        assert_int_equal(pfl_commit_apply(&conf, request, &at, &flush_id), PFL_EAGAIN);
        assert_int_equal(kit_stats(fx.buffer).patches_succeeded, patched);
    }
    assert_int_equal(pfl_commit_apply(&conf, request, &at, &flush_id), 0);
}

static void patches_that_cannot_be_are_counted(void **state)
{
    uint64_t flush_id;

    (void)state;
    request_patch(ALLOWED, 0, 0, 4);
    request_patch(ALLOWED, 32768, 0, 4);
    request_patch(1234, WRITER, 0, 4);
    request_patch(ALLOWED, WRITER, 0, 5);
    assert_int_equal(apply(&flush_id), 0);
    assert_int_equal(fx.counters.patches_discarded, 4);
    assert_int_equal(kit_stats(fx.buffer).patches_failed, 1); /* the last: no patch, no chunk */
}

static void without_shared_memory_a_request_is_refused_whole(void **state)
{
    uint64_t flush_id = 5;

    (void)state;
    pfl_smb_map_fini(&fx.map);
    request_move(0, 0, ALLOWED);
    assert_int_equal(apply(&flush_id), PFL_ESTATE);
    assert_int_equal(flush_id, 5);
}

static void a_request_that_is_no_message_does_nothing(void **state)
{
    uint64_t flush_id;

    (void)state;
    write_chunk(0, 0, 0, 1);
    finish_chunk(0, 0);
    request_move(0, 0, ALLOWED);
    pfl_writer_u8(&fx.w, 0x0a);
    assert_int_equal(apply(&flush_id), PFL_EPARSE);
    assert_int_equal(pfl_page_chunk_state(pfl_page_bitmap(page_at(0)), 0), PFL_CHUNK_COMPLETE);
}

static void request_data(const uint8_t *data, size_t len, bool is_incomplete)
{
    static uint8_t entry[70000];
    struct pfl_writer m = pfl_writer_of(entry, sizeof(entry));

    pfl_writer_field_varint(&m, 1, 999999);
    pfl_writer_field_varint(&m, 3, ALLOWED);
    pfl_writer_field_bytes(&m, 4, data, len);
    if (is_incomplete)
        pfl_writer_field_varint(&m, 5, 1);
    pfl_writer_field_bytes(&fx.w, 1, entry, sizeof(entry) - m.left);
}

static void chunks_in_the_message_need_no_shared_memory(void **state)
{
    static const uint8_t chunk[] = {0, 0, 0, 0, WRITER, 0, 2, 0, 2, 'a', 'a', 1, 'b'};
    static const uint8_t empty[] = {1, 0, 0, 0, WRITER, 0, 0, 0};
    uint64_t flush_id;

    (void)state;
    pfl_smb_map_fini(&fx.map);
    fx.is_emulated = true;
    request_data(chunk, sizeof(chunk), true);
    request_data(empty, sizeof(empty), false);
    request_data(empty, 7, false);
    request_move(0, 0, ALLOWED);
    assert_int_equal(apply(&flush_id), 0);
    assert_int_equal(fx.counters.entries_skipped, 2);
    assert_int_equal(kit_stats(fx.buffer).chunks_written, 2);
    pfl_trace_buffer_begin_read(fx.buffer);
    kit_expect(fx.buffer, 'a', 2, 0);
    kit_expect_end(fx.buffer);
    request_data(chunk, sizeof(chunk), false);
    assert_int_equal(apply(&flush_id), 0);
    pfl_trace_buffer_begin_read(fx.buffer);
    kit_expect(fx.buffer, 'b', 1, 0);
    kit_expect_end(fx.buffer);
}

/* ---- scraping ---- */

static struct pfl_trace_buffer *get_writer_buffer(void *user, uint16_t writer_id)
{
    (void)user;
    return writer_id == WRITER ? fx.buffer : NULL;
}

static struct pfl_smb_scrape_result scrape_from(uint32_t page, uint64_t credit)
{
    return pfl_smb_scrape(&(struct pfl_smb_scrape_conf){.identity = {.producer_id = 1, .pid = -1},
                                                        .map = &fx.map,
                                                        .get_writer_buffer = get_writer_buffer,
                                                        .page = page,
                                                        .credit = credit});
}

static size_t scrape(void)
{
    return scrape_from(0, UINT64_MAX).offered;
}

static void scraping_goes_on_where_its_credit_ended(void **state)
{
    /* Of a page with one such chunk here, which is done whole. */
    const uint64_t more = PFL_SCRAPE_COST_PAGES + PFL_SCRAPE_COST_READ + PFL_SCRAPE_COST_CHUNK;

    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        write_chunk(i, 0, i, 2);
        finish_chunk(i, 0);
    }
    assert_int_equal(scrape_from(0, 0).next_page, 0);
    for (uint64_t credit = 1; credit <= 4 * more; credit++) {
        uint32_t page = 0;
        size_t offered = 0;

        while (page < SMB / PAGE) {
            struct pfl_smb_scrape_result result = scrape_from(page, credit);

            assert_true(result.next_page > page);
            assert_true(result.units < credit + more);
            assert_true(result.units >= credit || result.next_page == SMB / PAGE);
            page = result.next_page;
            offered += result.offered;
        }
        assert_int_equal(offered, 4);
    }
}

/* They are read once, to find out which ones are written. */
static void pages_that_are_known_to_be_written_cost_less_to_scrape(void **state)
{
    const uint64_t known = PFL_SCRAPE_COST_PAGES + (uint64_t)SMB / PAGE * PFL_SCRAPE_COST_CHUNK;

    (void)state;
    for (uint32_t i = 0; i < SMB / PAGE; i++) {
        write_chunk(i, 0, i, 2);
        finish_chunk(i, 0);
    }
    assert_int_equal(scrape_from(0, UINT64_MAX).units, known + PFL_SCRAPE_COST_READ);
    assert_int_equal(scrape_from(0, UINT64_MAX).units, known);
}

static void scraping_takes_what_is_finished_and_changes_nothing(void **state)
{
    struct pfl_chunk_header *foreign;
    uint32_t bitmaps[4];
    uint64_t flush_id;

    (void)state;
    write_chunk(0, 0, 0, 2); /* complete: both */
    finish_chunk(0, 0);
    write_chunk(0, 3, 1, 3); /* being written: 'a' and 'b' */
    write_chunk(1, 0, 2, 1); /* being written, nothing finished */
    foreign = write_chunk(2, 0, 0, 5);
    pfl_chunk_set_header(foreign, WRITER + 1, 0, pfl_chunk_packets_of(5, 0));
    for (uint32_t i = 0; i < 4; i++)
        bitmaps[i] = pfl_page_bitmap(page_at(i));
    assert_int_equal(scrape(), 2);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(bitmaps[i], pfl_page_bitmap(page_at(i)));
    expect_packets("abab");
    assert_int_equal(scrape(), 2);
    expect_packets("");
    finish_chunk(0, 3);
    request_move(0, 0, ALLOWED); /* stale by now */
    request_move(0, 3, ALLOWED);
    assert_int_equal(apply(&flush_id), 0);
    expect_packets("c");
    assert_int_equal(kit_stats(fx.buffer).abi_violations, 0);
}

/* ---- a producer that writes while we read ---- */

struct scribbler {
    pthread_t thread;
    atomic_bool stops;
};

static void *scribble(void *arg)
{
    struct scribbler *s = arg;
    struct kit_random random = {.state = 99};

    while (!atomic_load(&s->stops)) {
        uint32_t at = kit_random(&random, SMB);

        /* Sizes, headers and bitmaps, mostly where they are used. */
        if (kit_random(&random, 4) != 0)
            at = at / PAGE * PAGE + kit_random(&random, 64);
        *(volatile uint8_t *)(fx.map.smb.base + at) = (uint8_t)kit_random(&random, 256);
    }
    return NULL;
}

static void a_producer_that_scribbles_gets_what_it_wrote_and_harms_nobody(void **state)
{
    struct scribbler s = {0};
    struct pfl_trace_buffer_packet packet;
    uint64_t flush_id;
    size_t bytes = 0;
    size_t packets = 0;

    (void)state;
    assert_int_equal(pthread_create(&s.thread, NULL, scribble, &s), 0);
    /* On a busy machine the other thread may begin late. */
    for (uint32_t round = 0; round < 3000 || (bytes == 0 && round < 3000000); round++) {
        for (uint32_t page = 0; page < SMB / PAGE; page++) {
            atomic_store(&page_at(page)->bitmap, (1u << 28) | PFL_CHUNK_COMPLETE);
            request_move(page, 0, ALLOWED);
        }
        assert_int_equal(apply(&flush_id), 0);
        (void)scrape();
        if (round % 16 != 0)
            continue;
        pfl_trace_buffer_begin_read(fx.buffer);
        while (pfl_trace_buffer_read(fx.buffer, &packet)) {
            for (size_t i = 0; i < packet.slices_len; i++) {
                const uint8_t *data = packet.slices[i].iov_base;

                assert_true(packet.slices[i].iov_len <= PAGE);
                bytes += (size_t)data[0] + data[packet.slices[i].iov_len - 1];
            }
            packets++;
        }
    }
    atomic_store(&s.stops, true);
    assert_int_equal(pthread_join(s.thread, NULL), 0);
    assert_true(packets > 0 && bytes > 0);
}

#define ROW(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(memory_that_is_made_has_its_seals_and_is_zero),
        ROW(offered_memory_is_taken_only_when_sealed_and_of_a_size_we_would_choose),
        ROW(huge_pages_are_refused),
        ROW(pages_that_nobody_wrote_are_never_touched),
        ROW(page_that_cannot_be_read_becomes_zeros),
        ROW(page_that_takes_cpu_time_without_end_becomes_zeros),
        ROW(a_complete_chunk_is_moved_and_freed),
        ROW(the_layout_stays_until_the_last_chunk_is_freed),
        ROW(entries_that_do_not_match_the_memory_are_skipped),
        ROW(a_chunk_for_a_forbidden_buffer_is_discarded_and_freed),
        ROW(a_buffer_id_has_sixteen_bits),
        ROW(moves_come_before_patches_of_the_same_request),
        ROW(a_patch_that_is_searched_far_is_the_last_of_its_turn),
        ROW(patches_that_cannot_be_are_counted),
        ROW(without_shared_memory_a_request_is_refused_whole),
        ROW(a_request_that_is_no_message_does_nothing),
        ROW(chunks_in_the_message_need_no_shared_memory),
        ROW(scraping_takes_what_is_finished_and_changes_nothing),
        ROW(scraping_goes_on_where_its_credit_ended),
        ROW(pages_that_are_known_to_be_written_cost_less_to_scrape),
        ROW(a_producer_that_scribbles_gets_what_it_wrote_and_harms_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
