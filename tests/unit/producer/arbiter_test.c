/* SPDX-License-Identifier: Apache-2.0 */
/* Writer ids, urgency of commits, batches, and a page that somebody scribbled over. */
#include "producer/arbiter.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "producer/heap.h"
#include "tests/unit/producer/smb_reader.h"

static uint64_t stalls;

static struct pfl_arbiter_want want_of(uint16_t writer_id, enum perfleet_policy policy)
{
    return (struct pfl_arbiter_want){
        .writer_id = writer_id, .policy = policy, .packets = 1, .stalls = &stalls};
}

static void writer_ids_go_round_and_skip_those_alive(void **state)
{
    struct smb_reader r;
    uint16_t id = 0;

    (void)state;
    smb_reader_init(&r, 4096, 1);
    for (uint32_t i = 1; i <= PFL_WRITER_ID_MAX; i++) {
        assert_int_equal(pfl_arbiter_open_writer(r.arbiter, 1, &id), 0);
        assert_int_equal(id, i);
        if (i % 2 == 0)
            pfl_arbiter_close_writer(r.arbiter, id);
    }
    smb_reader_take(&r);
    assert_int_equal(r.opened, PFL_WRITER_ID_MAX);
    assert_int_equal(r.closed, PFL_WRITER_ID_MAX / 2);
    for (uint32_t i = 2; i <= PFL_WRITER_ID_MAX; i += 2) {
        assert_int_equal(pfl_arbiter_open_writer(r.arbiter, 1, &id), 0);
        assert_int_equal(id, i);
    }
    assert_int_equal(pfl_arbiter_open_writer(r.arbiter, 1, &id), PFL_ELIMIT);
    pfl_arbiter_close_writer(r.arbiter, 77);
    assert_int_equal(pfl_arbiter_open_writer(r.arbiter, 1, &id), 0);
    assert_int_equal(id, 77);
    smb_reader_fini(&r);
}

static void half_of_the_memory_pending_is_urgent(void **state)
{
    struct pfl_arbiter_chunk chunk;
    struct pfl_arbiter_want want = want_of(1, PERFLEET_DROP);
    struct smb_reader r;

    (void)state;
    smb_reader_init(&r, 4096, 8);
    assert_int_equal(pfl_arbiter_get_due(r.arbiter), PFL_ARBITER_NOTHING);
    for (int i = 0; i < 5; i++) {
        want.chunk_id = (uint32_t)i;
        assert_true(pfl_arbiter_get_chunk(r.arbiter, &want, &chunk));
        pfl_arbiter_give_chunk(r.arbiter, &chunk, 1);
        assert_null(chunk.header);
        assert_int_equal(pfl_arbiter_get_due(r.arbiter),
                         i < 4 ? PFL_ARBITER_LATER : PFL_ARBITER_NOW);
    }
    smb_reader_take(&r);
    assert_int_equal(r.chunks_len, 5);
    assert_int_equal(pfl_arbiter_get_due(r.arbiter), PFL_ARBITER_NOTHING);
    smb_reader_fini(&r);
}

static void flush_acks_merge_to_the_highest(void **state)
{
    struct smb_reader r;

    (void)state;
    smb_reader_init(&r, 4096, 1);
    pfl_arbiter_ack_flush(r.arbiter, 7);
    pfl_arbiter_ack_flush(r.arbiter, 9);
    pfl_arbiter_ack_flush(r.arbiter, 8);
    assert_int_equal(pfl_arbiter_get_due(r.arbiter), PFL_ARBITER_NOW);
    smb_reader_take(&r);
    assert_int_equal(r.flush_id, 9);
    smb_reader_fini(&r);
}

static void a_scribbled_page_is_skipped_and_costs_only_itself(void **state)
{
    struct pfl_arbiter_chunk chunk;
    struct pfl_arbiter_want want = want_of(1, PERFLEET_DROP);
    struct smb_reader r;

    (void)state;
    smb_reader_init(&r, 4096, 2);
    atomic_store(&pfl_smb_page(&r.arbiter->smb, 0)->bitmap, 0xffffffffu);
    assert_true(pfl_arbiter_get_chunk(r.arbiter, &want, &chunk));
    assert_int_equal(chunk.page, 1);
    atomic_store(&pfl_smb_page(&r.arbiter->smb, 1)->bitmap, 0);
    pfl_arbiter_give_chunk(r.arbiter, &chunk, 1);
    smb_reader_take(&r);
    assert_int_equal(r.chunks_len, 0);
    smb_reader_fini(&r);
}

static bool make_room(void *user)
{
    smb_reader_take(user);
    return true;
}

static bool lose_hope(void *user)
{
    (void)user;
    return false;
}

static void the_commit_thread_commits_instead_of_waiting(void **state)
{
    struct pfl_arbiter_chunk chunk;
    struct pfl_arbiter_want want = want_of(1, PERFLEET_STALL);
    struct smb_reader r;

    (void)state;
    smb_reader_init(&r, 4096, 1);
    r.arbiter->commit_now = make_room;
    r.arbiter->user = &r;
    for (want.chunk_id = 0; want.chunk_id < 5; want.chunk_id++) {
        assert_true(pfl_arbiter_get_chunk(r.arbiter, &want, &chunk));
        pfl_arbiter_give_chunk(r.arbiter, &chunk, 1);
    }
    assert_true(pfl_arbiter_get_chunk(r.arbiter, &want, &chunk));
    r.arbiter->commit_now = lose_hope;
    assert_false(pfl_arbiter_get_chunk(r.arbiter, &want, &chunk));
    smb_reader_fini(&r);
}

static void a_batch_costs_at_most_two_wake_ups(void **state)
{
    struct smb_reader r;
    uint64_t count = 0;
    int fd = eventfd(0, EFD_NONBLOCK);
    pthread_t nobody = {0};

    (void)state;
    smb_reader_init(&r, 4096, 1);
    r.arbiter->wake_fd = fd;
    r.arbiter->commit_thread = nobody;
    for (int i = 0; i < 10; i++) {
        struct pfl_arbiter_patch patch = {.writer_id = 1};

        pfl_arbiter_add_patch(r.arbiter, &patch);
        pfl_arbiter_ack_flush(r.arbiter, 1);
    }
    assert_int_equal(read(fd, &count, sizeof(count)), sizeof(count));
    assert_int_equal(count, 2);
    assert_int_equal(r.arbiter->pending.patches.len, 10);
    close(fd);
    smb_reader_fini(&r);
    assert_int_equal(pfl_heap_live_blocks(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writer_ids_go_round_and_skip_those_alive),
        cmocka_unit_test(half_of_the_memory_pending_is_urgent),
        cmocka_unit_test(flush_acks_merge_to_the_highest),
        cmocka_unit_test(a_scribbled_page_is_skipped_and_costs_only_itself),
        cmocka_unit_test(the_commit_thread_commits_instead_of_waiting),
        cmocka_unit_test(a_batch_costs_at_most_two_wake_ups),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
