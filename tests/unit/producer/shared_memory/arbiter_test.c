/* SPDX-License-Identifier: Apache-2.0 */
/* Writer ids, urgency of commits, batches, and a corrupt page. */
#include "producer/shared_memory/arbiter.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "producer/platform/heap.h"
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
            pfl_arbiter_close_writer(r.arbiter, id, 1);
    }
    smb_reader_take(&r);
    assert_int_equal(r.opened, PFL_WRITER_ID_MAX);
    assert_int_equal(r.closed, PFL_WRITER_ID_MAX / 2);
    for (uint32_t i = 2; i <= PFL_WRITER_ID_MAX; i += 2) {
        assert_int_equal(pfl_arbiter_open_writer(r.arbiter, 1, &id), 0);
        assert_int_equal(id, i);
    }
    assert_int_equal(pfl_arbiter_open_writer(r.arbiter, 1, &id), PFL_ELIMIT);
    pfl_arbiter_close_writer(r.arbiter, 77, 1);
    assert_int_equal(pfl_arbiter_open_writer(r.arbiter, 1, &id), 0);
    assert_int_equal(id, 77);
    smb_reader_fini(&r);
}

static void a_quarter_of_the_memory_pending_is_urgent(void **state)
{
    struct pfl_arbiter_chunk chunk;
    struct pfl_arbiter_want want = want_of(1, PERFLEET_DROP);
    struct smb_reader r;

    (void)state;
    smb_reader_init(&r, 4096, 8);
    assert_int_equal(pfl_arbiter_get_due(r.arbiter), PFL_ARBITER_NOTHING);
    for (int i = 0; i < 3; i++) {
        want.chunk_id = (uint32_t)i;
        assert_true(pfl_arbiter_get_chunk(r.arbiter, &want, &chunk));
        pfl_arbiter_give_chunk(r.arbiter, &chunk, 1);
        assert_null(chunk.header);
        assert_int_equal(pfl_arbiter_get_due(r.arbiter),
                         i < 2 ? PFL_ARBITER_LATER : PFL_ARBITER_NOW);
    }
    smb_reader_take(&r);
    assert_int_equal(r.chunks_len, 3);
    assert_int_equal(pfl_arbiter_get_due(r.arbiter), PFL_ARBITER_NOTHING);
    smb_reader_fini(&r);
}

/* What a connection does when a writer commits. */
struct fake_connection {
    struct smb_reader reader;
    bool is_idle;
    size_t asked;
    size_t sent;
};

static bool commit_here(void *user)
{
    struct fake_connection *connection = user;

    connection->asked++;
    if (!connection->is_idle)
        return false;
    connection->sent++;
    smb_reader_take(&connection->reader);
    return true;
}

static void fake_connection_init(struct fake_connection *connection, int wake_fd)
{
    pthread_t nobody = {0};

    *connection = (struct fake_connection){.is_idle = true};
    smb_reader_init(&connection->reader, 4096, 8);
    connection->reader.arbiter->commit_thread = nobody;
    connection->reader.arbiter->commit_here = commit_here;
    connection->reader.arbiter->user = connection;
    connection->reader.arbiter->wake_fd = wake_fd;
}

static void write_chunk(struct fake_connection *connection, uint32_t chunk_id)
{
    struct pfl_arbiter_want want = want_of(1, PERFLEET_DROP);
    struct pfl_arbiter_chunk chunk;

    want.chunk_id = chunk_id;
    assert_true(pfl_arbiter_get_chunk(connection->reader.arbiter, &want, &chunk));
    pfl_arbiter_give_chunk(connection->reader.arbiter, &chunk, 1);
}

static uint64_t count_wake_ups(int fd)
{
    uint64_t count = 0;

    return read(fd, &count, sizeof(count)) == sizeof(count) ? count : 0;
}

static void the_writer_of_a_quarter_commits_it_itself(void **state)
{
    int fd = eventfd(0, EFD_NONBLOCK);
    struct fake_connection connection;

    (void)state;
    fake_connection_init(&connection, fd);
    for (uint32_t i = 0; i < 9; i++) {
        write_chunk(&connection, i);
        assert_int_equal(connection.sent, (i + 1) / 3);
        assert_int_equal(connection.reader.chunks_len, (i + 1) / 3 * 3);
    }
    assert_int_equal(pfl_arbiter_get_due(connection.reader.arbiter), PFL_ARBITER_NOTHING);
    assert_int_equal(count_wake_ups(fd), 3); /* the first chunk of each batch: for the timer */
    smb_reader_fini(&connection.reader);
    close(fd);
}

static void a_writer_that_cannot_commit_wakes_the_commit_thread_once(void **state)
{
    int fd = eventfd(0, EFD_NONBLOCK);
    struct fake_connection connection;

    (void)state;
    fake_connection_init(&connection, fd);
    connection.is_idle = false;
    for (uint32_t i = 0; i < 5; i++)
        write_chunk(&connection, i);
    assert_int_equal(connection.asked, 3);
    assert_int_equal(count_wake_ups(fd), 2);
    assert_int_equal(pfl_arbiter_get_due(connection.reader.arbiter), PFL_ARBITER_NOW);
    pthread_mutex_lock(
        &connection.reader.arbiter->send_lock); /* as if another thread was sending */
    write_chunk(&connection, 5);
    pthread_mutex_unlock(&connection.reader.arbiter->send_lock);
    assert_int_equal(connection.asked, 3);
    smb_reader_take(&connection.reader);
    smb_reader_fini(&connection.reader);
    close(fd);
}

static void nobody_is_woken_for_later_while_the_timer_runs(void **state)
{
    int fd = eventfd(0, EFD_NONBLOCK);
    struct fake_connection connection;

    (void)state;
    fake_connection_init(&connection, fd);
    pfl_arbiter_set_timed(connection.reader.arbiter, true);
    write_chunk(&connection, 0);
    assert_int_equal(pfl_arbiter_get_due(connection.reader.arbiter), PFL_ARBITER_LATER);
    assert_int_equal(count_wake_ups(fd), 0);
    smb_reader_take(&connection.reader);
    pfl_arbiter_set_timed(connection.reader.arbiter, false);
    write_chunk(&connection, 1);
    assert_int_equal(count_wake_ups(fd), 1);
    smb_reader_take(&connection.reader);
    smb_reader_fini(&connection.reader);
    close(fd);
}

static void full_memory_has_even_a_small_batch_committed(void **state)
{
    struct pfl_arbiter_want want = want_of(1, PERFLEET_DROP);
    struct pfl_arbiter_chunk chunks[8];
    struct fake_connection connection;

    (void)state;
    fake_connection_init(&connection, -1);
    for (uint32_t i = 0; i < 8; i++) {
        want.chunk_id = i;
        assert_true(pfl_arbiter_get_chunk(connection.reader.arbiter, &want, &chunks[i]));
    }
    pfl_arbiter_give_chunk(connection.reader.arbiter, &chunks[0], 1);
    assert_int_equal(connection.sent, 0);
    assert_false(pfl_arbiter_get_chunk(connection.reader.arbiter, &want, &chunks[0]));
    assert_int_equal(connection.sent, 1);
    assert_true(pfl_arbiter_get_chunk(connection.reader.arbiter, &want, &chunks[0]));
    smb_reader_fini(&connection.reader);
}

static void a_dead_arbiter_asks_the_connection_for_nothing(void **state)
{
    struct fake_connection connection;

    (void)state;
    fake_connection_init(&connection, -1);
    write_chunk(&connection, 0);
    write_chunk(&connection, 1);
    pfl_arbiter_kill(connection.reader.arbiter);
    assert_int_equal(connection.asked, 0);
    smb_reader_fini(&connection.reader);
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
        cmocka_unit_test(a_quarter_of_the_memory_pending_is_urgent),
        cmocka_unit_test(the_writer_of_a_quarter_commits_it_itself),
        cmocka_unit_test(a_writer_that_cannot_commit_wakes_the_commit_thread_once),
        cmocka_unit_test(nobody_is_woken_for_later_while_the_timer_runs),
        cmocka_unit_test(full_memory_has_even_a_small_batch_committed),
        cmocka_unit_test(a_dead_arbiter_asks_the_connection_for_nothing),
        cmocka_unit_test(flush_acks_merge_to_the_highest),
        cmocka_unit_test(a_scribbled_page_is_skipped_and_costs_only_itself),
        cmocka_unit_test(the_commit_thread_commits_instead_of_waiting),
        cmocka_unit_test(a_batch_costs_at_most_two_wake_ups),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
