/* SPDX-License-Identifier: Apache-2.0 */
/* A copy of a ring, before a service that copies, refuses, sends too much and goes away. */
#include "agent/daemon/order/order_copy_port.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/mem.h"
#include "tests/support/sweep.h"
#include "tests/unit/agent/daemon/segment/segments_kit.h"
#include "tests/unit/tunnel/service_kit.h"

#define WAIT_NS      (UINT64_C(60) * 1000000000) /* other threads may be slow */
#define PACKET_BYTES 100000u

struct fixture {
    struct service_kit kit; /* first: a peer's kit is its fixture */
    struct kit segments;
    struct pfl_list copies;
    struct pfl_order_copy *copy;
    unsigned packets; /* of PACKET_BYTES each */
    bool is_refusing;
    bool is_hanging_up; /* while it is read */
    bool is_done;
    bool is_gone;
    char why[256];
    char session[64]; /* that was cloned */
};

static atomic_bool is_disk_full;

/* It stands before the C library's. */
int fsync(int fd)
{
    if (atomic_load(&is_disk_full)) {
        errno = ENOSPC;
        return -1;
    }
    return (int)syscall(SYS_fsync, fd);
}

static const struct pfl_segment_quota no_quota = {.max_bytes = 0};

/* ---- the service ---- */

static struct fixture *fixture_of(struct service_peer *peer)
{
    return (struct fixture *)peer->kit;
}

static int clone_session(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    static const uint8_t made[] = {0x08, 0x01};
    static const uint8_t refused[] = {0x12, 0x03, 'n', 0x1b, 'o'};
    struct fixture *f = fixture_of(user);
    struct pfl_reader r = pfl_reader_of(args);
    struct pfl_field field;

    while (pfl_reader_field(&r, &field)) {
        if (field.id == 4)
            (void)snprintf(f->session, sizeof(f->session), "%.*s", (int)field.bytes.len,
                           (const char *)field.bytes.data);
    }
    return service_peer_reply(user, request, PFL_RPC_SUCCESS,
                              f->is_refusing ? pfl_span_of(refused, sizeof(refused))
                                             : pfl_span_of(made, sizeof(made)));
}

/* Each packet in a reply of its own. */
static int read_buffers(void *user, struct pfl_rpc_request request, struct pfl_span args)
{
    static uint8_t bytes[PACKET_BYTES];
    static uint8_t body[PACKET_BYTES + 32];
    struct fixture *f = fixture_of(user);
    int rc = 0;

    (void)args;
    memset(bytes, 'x', sizeof(bytes));
    for (unsigned i = 0; rc == 0 && i < f->packets; i++) {
        static uint8_t slice[PACKET_BYTES + 16];
        struct pfl_writer s = pfl_writer_of(slice, sizeof(slice));
        struct pfl_writer b = pfl_writer_of(body, sizeof(body));
        bool is_last = i + 1 == f->packets;

        pfl_writer_field_bytes(&s, 1, bytes, sizeof(bytes));
        pfl_writer_field_varint(&s, 2, 1);
        pfl_writer_field_bytes(&b, 2, slice, sizeof(slice) - s.left);
        if (is_last && f->is_hanging_up)
            return PFL_ECLOSED;
        rc = service_peer_reply(user, request, PFL_RPC_SUCCESS | (is_last ? 0 : PFL_RPC_HAS_MORE),
                                pfl_span_of(body, sizeof(body) - b.left));
    }
    return rc;
}

static const struct pfl_rpc_method methods[] = {{"CloneSession", clone_session},
                                                {"ReadBuffers", read_buffers}};
static const struct pfl_rpc_service consumer_port = {"ConsumerPort", methods, 2};

/* ---- the copy ---- */

static int begin_run(void *user, struct pfl_order_copy *copy,
                     const struct pfl_segments_begin *begin, char ret_id[PFL_SEGMENT_ID_BYTES],
                     struct pfl_segments_op **ret_op)
{
    struct fixture *f = user;
    struct kit_run run = {"ring", pfl_order_copy_get_raise(copy)->trigger};

    return kit_submit_run(&f->segments, &run, begin, ret_id, ret_op);
}

static void on_done(void *user, struct pfl_order_copy *copy, const char *why)
{
    struct fixture *f = user;

    (void)copy;
    f->is_done = true;
    (void)snprintf(f->why, sizeof(f->why), "%s", why);
}

static void on_closed(void *user)
{
    ((struct fixture *)user)->is_gone = true;
}

static int open_copy(struct fixture *f, uint64_t max_bytes)
{
    struct pfl_order_raise raise = {.trigger = "boom", .host = "two"};
    struct pfl_order_copy_conf conf = {.loop = &f->kit.loop,
                                       .socket = f->kit.path,
                                       .segments = f->segments.segments,
                                       .session = "order.ann.ring.7",
                                       .raise = &raise,
                                       .max_bytes = max_bytes,
                                       .begin_run = begin_run,
                                       .on_done = on_done,
                                       .on_closed = on_closed,
                                       .user = f};
    int rc = pfl_order_copy_open(&conf, &f->copy);

    f->is_done = f->is_gone = false;
    f->why[0] = '\0';
    if (rc == 0)
        pfl_list_append(&f->copies, pfl_order_copy_get_node(f->copy));
    return rc;
}

static void turn(struct fixture *f)
{
    (void)uv_run(&f->kit.loop, UV_RUN_NOWAIT);
    (void)uv_run(&f->segments.loop, UV_RUN_NOWAIT);
}

static void wait_until_gone(struct fixture *f)
{
    uint64_t begin_ns = uv_hrtime();

    while ((!f->is_gone || !pfl_list_is_empty(&f->kit.peers)) && uv_hrtime() - begin_ns < WAIT_NS)
        turn(f);
    assert_true(f->is_gone);
    assert_true(pfl_list_is_empty(&f->copies));
}

/* All that is given out, when there is something. */
static struct kit_note only_note(struct fixture *f)
{
    static struct kit_note notes[64];
    struct kit_note note;

    while (kit_list(&f->segments, KIT_COLLECTOR, false, notes, 64) == 0)
        turn(f);
    note = notes[0];
    assert_int_equal(kit_list(&f->segments, KIT_COLLECTOR, false, notes, 64), 1);
    assert_int_equal(kit_release(&f->segments, KIT_COLLECTOR, &note), 0);
    assert_string_equal(note.trigger, "boom");
    return note;
}

static int set_up(void **state)
{
    struct fixture *f = pfl_mem_zalloc(sizeof(*f));

    pfl_log_set_level(PFL_LOG_ERROR);
    service_kit_open(&f->kit);
    f->kit.service = &consumer_port;
    f->packets = 3;
    pfl_list_init(&f->copies);
    kit_make_dir(&f->segments);
    kit_open(&f->segments, &no_quota);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    service_kit_close(&f->kit);
    kit_close(&f->segments);
    kit_remove_dir(&f->segments);
    pfl_mem_free(f);
    pfl_sweep_assert_no_leak();
    return 0;
}

static void a_ring_becomes_a_segment(void **state)
{
    struct fixture *f = *state;
    struct kit_note note;

    f->packets = 9; /* several times what is written at once */
    assert_int_equal(open_copy(f, UINT64_MAX), 0);
    wait_until_gone(f);
    assert_true(f->is_done);
    assert_string_equal(f->why, "");
    assert_string_equal(f->session, "order.ann.ring.7");
    note = only_note(f);
    assert_false(note.is_gap);
    assert_int_equal(note.reason, PERFLEET__SEGMENT__REASON__COPY);
    assert_int_equal(note.bytes, 9 * (PACKET_BYTES + 4)); /* a tag and three bytes of length */
}

static void what_fails_is_a_gap_and_says_why(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(open_copy(f, 2 * PACKET_BYTES), 0);
    wait_until_gone(f);
    assert_non_null(strstr(f->why, "larger than the order's quota"));
    assert_int_equal(only_note(f).why, PERFLEET__SEGMENT_GAP__WHY__QUOTA);
    f->is_hanging_up = true;
    assert_int_equal(open_copy(f, UINT64_MAX), 0);
    wait_until_gone(f);
    assert_non_null(strstr(f->why, "was lost"));
    assert_int_equal(only_note(f).why, PERFLEET__SEGMENT_GAP__WHY__SERVICE_DIED);
    f->is_refusing = true;
    assert_int_equal(open_copy(f, UINT64_MAX), 0);
    wait_until_gone(f);
    assert_non_null(strstr(f->why, "n\\x1bo"));
    assert_int_equal(only_note(f).why, PERFLEET__SEGMENT_GAP__WHY__SERVICE_DIED);
    service_kit_stop_listening(&f->kit);
    assert_int_equal(open_copy(f, UINT64_MAX), 0);
    wait_until_gone(f);
    assert_non_null(strstr(f->why, "does not answer"));
    (void)only_note(f);
}

/* Not even for the note of its run. */
static void without_room_on_the_disk_it_is_a_gap_once_there_is_room(void **state)
{
    struct fixture *f = *state;
    struct kit_note note;

    atomic_store(&is_disk_full, true);
    assert_int_equal(open_copy(f, UINT64_MAX), 0);
    wait_until_gone(f);
    assert_non_null(strstr(f->why, "is full"));
    for (int i = 0; i < 100; i++)
        turn(f);
    assert_int_equal(kit_count_files(&f->segments, ".run"), 0);
    assert_int_equal(kit_count_files(&f->segments, ".segment"), 0);
    atomic_store(&is_disk_full, false);
    note = only_note(f);
    assert_true(note.is_gap);
    assert_int_equal(note.why, PERFLEET__SEGMENT_GAP__WHY__DISK_FULL);
}

static void a_close_at_any_moment_leaves_nothing_open(void **state)
{
    struct fixture *f = *state;

    for (int turns = 0; turns < 40; turns++) {
        assert_int_equal(open_copy(f, UINT64_MAX), 0);
        for (int i = 0; i < turns && !f->is_gone; i++)
            turn(f);
        if (!f->is_gone)
            pfl_order_copy_close(f->copy);
        wait_until_gone(f);
    }
}

/* It fails, and tells so, or a failure was absorbed; the folder never has half a segment. */
static void every_allocation_may_fail(void **state)
{
    struct fixture *f = *state;
    struct pfl_mem_stats stats;
    uint64_t nth = 0;

    do {
        int rc;

        pfl_mem_fail_at(++nth);
        rc = open_copy(f, UINT64_MAX);
        if (rc == 0)
            wait_until_gone(f);
        pfl_mem_stats_get(&stats);
        pfl_mem_fail_at(0);
        assert_true(rc == 0 || rc == PFL_ENOMEM);
        if (f->is_done && f->why[0] == '\0') {
            struct kit_note note = only_note(f);

            assert_int_equal(note.bytes, 3 * (PACKET_BYTES + 4));
        } else if (f->is_done) {
            assert_true(only_note(f).is_gap);
        }
    } while (stats.allocations >= nth && nth < 2000);
    assert_true(nth > 5 && nth < 2000);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_ring_becomes_a_segment),
        TEST(what_fails_is_a_gap_and_says_why),
        TEST(without_room_on_the_disk_it_is_a_gap_once_there_is_room),
        TEST(a_close_at_any_moment_leaves_nothing_open),
        TEST(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
