/* SPDX-License-Identifier: Apache-2.0 */
/* Frames cut from a stream: whole, byte by byte, cut at every length, at the limit and past it. */
#include "proto/ipc/frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "perfleet/collector.pb-c.h"
#include "proto/unpack.h"
#include "tests/support/sweep.h"

#define STREAM_MAX (2 * PFL_FRAME_MAX_BYTES)

struct sink {
    unsigned frames;
    size_t bytes;
    uint32_t sum; /* of every payload byte and length, so that order and content count */
    int answer;
};

static uint8_t stream[STREAM_MAX];

static int on_frame(void *user, struct pfl_span payload)
{
    struct sink *s = user;

    s->frames++;
    s->bytes += payload.len;
    s->sum = s->sum * 31 + (uint32_t)payload.len;
    for (size_t i = 0; i < payload.len; i++)
        s->sum = s->sum * 31 + payload.data[i];
    return s->answer;
}

static size_t put_frame(size_t at, uint32_t len, uint8_t seed)
{
    struct pfl_writer w = pfl_writer_of(stream + at, sizeof(stream) - at);

    pfl_writer_u32(&w, len);
    assert_true(w.left >= len);
    for (uint32_t i = 0; i < len; i++)
        w.pos[i] = (uint8_t)(seed + i);
    return at + PFL_FRAME_PREFIX_BYTES + len;
}

/* Frames of 1, 0, 300 and 7 bytes. */
static size_t put_conversation(void)
{
    size_t len = put_frame(0, 1, 5);

    len = put_frame(len, 0, 0);
    len = put_frame(len, 300, 9);
    return put_frame(len, 7, 77);
}

static struct sink feed_in_pieces(size_t len, size_t first, size_t piece)
{
    struct pfl_frame_reader r;
    struct sink s = {0};
    size_t n = first;

    pfl_frame_reader_init(&r);
    for (size_t at = 0; at < len; at += n, n = piece) {
        n = n < len - at ? n : len - at;
        assert_int_equal(pfl_frame_reader_feed(&r, pfl_span_of(stream + at, n), on_frame, &s), 0);
    }
    assert_int_equal(r.partial.len, 0);
    pfl_frame_reader_fini(&r);
    return s;
}

static void frames_come_out_whole_however_they_arrive(void **state)
{
    size_t len = put_conversation();
    struct sink whole = feed_in_pieces(len, len, len);
    (void)state;

    assert_int_equal(whole.frames, 3); /* the empty one is skipped */
    assert_int_equal(whole.bytes, 308);
    for (size_t cut = 1; cut < len; cut++) {
        struct sink s = feed_in_pieces(len, cut, len);

        assert_memory_equal(&s, &whole, sizeof(s));
    }
    for (size_t piece = 1; piece < 9; piece++) {
        struct sink s = feed_in_pieces(len, piece, piece);

        assert_memory_equal(&s, &whole, sizeof(s));
    }
    pfl_sweep_assert_no_leak();
}

static void frames_that_arrive_whole_are_not_copied(void **state)
{
    size_t len = put_conversation();
    struct pfl_mem_stats stats;
    (void)state;

    pfl_mem_fail_at(0);
    (void)feed_in_pieces(len, len, len);
    pfl_mem_stats_get(&stats);
    assert_int_equal(stats.allocations, 0);
}

static void largest_frame_passes(void **state)
{
    size_t len = put_frame(put_frame(0, PFL_FRAME_PAYLOAD_MAX, 3), 2, 1);
    struct sink whole = feed_in_pieces(len, len, len);
    struct sink cut = feed_in_pieces(len, 1000, 4096);
    (void)state;

    assert_int_equal(PFL_FRAME_PAYLOAD_MAX, 131068);
    assert_int_equal(whole.bytes, 131070);
    assert_memory_equal(&cut, &whole, sizeof(cut));
    pfl_sweep_assert_no_leak();
}

static void larger_frame_is_refused_as_soon_as_its_prefix_is_known(void **state)
{
    static const uint8_t prefix[] = {0xfd, 0xff, 0x01, 0x00}; /* 131069 */
    (void)state;

    for (size_t cut = 0; cut < sizeof(prefix); cut++) {
        struct pfl_frame_reader r;
        struct sink s = {0};

        pfl_frame_reader_init(&r);
        assert_int_equal(pfl_frame_reader_feed(&r, pfl_span_of(prefix, cut), on_frame, &s), 0);
        assert_int_equal(pfl_frame_reader_feed(&r, pfl_span_of(prefix + cut, sizeof(prefix) - cut),
                                               on_frame, &s),
                         PFL_EPROTO);
        assert_int_equal(s.frames, 0);
        pfl_frame_reader_fini(&r);
    }
}

static void frames_before_an_oversized_one_are_handed_out(void **state)
{
    size_t len = put_frame(0, 3, 1);
    struct pfl_frame_reader r;
    struct sink s = {0};
    (void)state;

    memset(stream + len, 0xff, 4);
    pfl_frame_reader_init(&r);
    assert_int_equal(pfl_frame_reader_feed(&r, pfl_span_of(stream, len + 4), on_frame, &s),
                     PFL_EPROTO);
    assert_int_equal(s.frames, 1);
    pfl_frame_reader_fini(&r);
}

static void announced_length_reserves_nothing(void **state)
{
    static const uint8_t prefix[] = {0xfc, 0xff, 0x01, 0x00, 0x01};
    struct pfl_frame_reader r;
    struct sink s = {0};
    (void)state;

    pfl_frame_reader_init(&r);
    assert_int_equal(pfl_frame_reader_feed(&r, pfl_span_of(prefix, sizeof(prefix)), on_frame, &s),
                     0);
    assert_true(r.partial.capacity <= 256);
    pfl_frame_reader_fini(&r);
}

static void idle_reader_keeps_little_memory_after_a_large_frame(void **state)
{
    size_t len = put_frame(0, 100000, 3);
    struct pfl_frame_reader r;
    struct sink s = {0};
    (void)state;

    pfl_frame_reader_init(&r);
    assert_int_equal(pfl_frame_reader_feed(&r, pfl_span_of(stream, len - 1), on_frame, &s), 0);
    assert_int_equal(pfl_frame_reader_feed(&r, pfl_span_of(stream + len - 1, 1), on_frame, &s), 0);
    assert_int_equal(s.frames, 1);
    assert_true(r.partial.capacity <= 4096);
    pfl_frame_reader_fini(&r);
}

static void failure_of_the_callback_ends_the_feed(void **state)
{
    size_t len = put_conversation();
    (void)state;

    for (size_t cut = 1; cut <= len; cut++) {
        struct pfl_frame_reader r;
        struct sink s = {.answer = PFL_EPERM};
        int rc;

        pfl_frame_reader_init(&r);
        rc = pfl_frame_reader_feed(&r, pfl_span_of(stream, cut), on_frame, &s);
        assert_int_equal(rc, cut >= 5 ? PFL_EPERM : 0);
        assert_int_equal(s.frames, cut >= 5);
        pfl_frame_reader_fini(&r);
    }
}

static struct sink feed_with_pauses(size_t len, size_t piece)
{
    struct pfl_frame_reader r;
    struct sink s = {.answer = PFL_FRAME_PAUSE};

    pfl_frame_reader_init(&r);
    for (size_t at = 0; at < len; at += piece) {
        size_t n = piece < len - at ? piece : len - at;
        unsigned before = s.frames;

        assert_int_equal(pfl_frame_reader_feed(&r, pfl_span_of(stream + at, n), on_frame, &s), 0);
        assert_true(s.frames <= before + 1);
        while (pfl_frame_reader_has_frames(&r)) {
            before = s.frames;
            assert_int_equal(pfl_frame_reader_feed(&r, (struct pfl_span){0}, on_frame, &s), 0);
            assert_true(s.frames <= before + 1);
        }
    }
    assert_int_equal(r.partial.len, 0);
    pfl_frame_reader_fini(&r);
    return s;
}

static void a_pause_after_each_frame_loses_nothing_and_changes_no_order(void **state)
{
    size_t len = put_conversation();
    struct sink whole = feed_in_pieces(len, len, len);
    (void)state;

    for (size_t piece = 1; piece <= len; piece++) {
        struct sink s = feed_with_pauses(len, piece);

        assert_int_equal(s.frames, whole.frames);
        assert_int_equal(s.sum, whole.sum);
    }
}

/* Each comes three times. */
struct thrice {
    struct sink sink;
    unsigned times;
};

static int on_frame_again(void *user, struct pfl_span payload)
{
    struct thrice *t = user;

    if (++t->times < 3)
        return PFL_FRAME_AGAIN;
    t->times = 0;
    return on_frame(&t->sink, payload);
}

static void a_frame_that_is_not_finished_comes_again_before_what_follows(void **state)
{
    size_t len = put_conversation();
    struct sink whole = feed_in_pieces(len, len, len);
    (void)state;

    for (size_t piece = 1; piece <= len; piece++) {
        struct pfl_frame_reader r;
        struct thrice t = {0};

        pfl_frame_reader_init(&r);
        for (size_t at = 0; at < len; at += piece) {
            size_t n = piece < len - at ? piece : len - at;

            assert_int_equal(
                pfl_frame_reader_feed(&r, pfl_span_of(stream + at, n), on_frame_again, &t), 0);
            while (pfl_frame_reader_has_frames(&r))
                assert_int_equal(
                    pfl_frame_reader_feed(&r, (struct pfl_span){0}, on_frame_again, &t), 0);
        }
        assert_int_equal(r.partial.len, 0);
        assert_int_equal(t.sink.frames, whole.frames);
        assert_int_equal(t.sink.sum, whole.sum);
        pfl_frame_reader_fini(&r);
    }
}

static void a_prefix_past_the_limit_that_was_kept_is_refused(void **state)
{
    size_t len = put_frame(put_frame(0, 3, 1), 4, 2);
    struct pfl_frame_reader r;
    struct sink s = {.answer = PFL_FRAME_PAUSE};

    (void)state;
    memset(stream + len, 0xff, PFL_FRAME_PREFIX_BYTES);
    pfl_frame_reader_init(&r);
    assert_int_equal(pfl_frame_reader_feed(&r, pfl_span_of(stream, len + 4), on_frame, &s), 0);
    assert_true(pfl_frame_reader_has_frames(&r));
    assert_int_equal(pfl_frame_reader_feed(&r, (struct pfl_span){0}, on_frame, &s), 0);
    assert_false(pfl_frame_reader_has_frames(&r));
    assert_int_equal(pfl_frame_reader_feed(&r, pfl_span_of(stream, 1), on_frame, &s), PFL_EPROTO);
    assert_int_equal(s.frames, 2);
    pfl_frame_reader_fini(&r);
}

static int pause_at_each(void *arg)
{
    size_t len = put_conversation();
    struct pfl_frame_reader r;
    struct sink s = {.answer = PFL_FRAME_PAUSE};
    int rc;
    (void)arg;

    pfl_frame_reader_init(&r);
    rc = pfl_frame_reader_feed(&r, pfl_span_of(stream, len), on_frame, &s);
    while (rc == 0 && pfl_frame_reader_has_frames(&r))
        rc = pfl_frame_reader_feed(&r, (struct pfl_span){0}, on_frame, &s);
    pfl_frame_reader_fini(&r);
    return rc;
}

static void out_of_memory_at_a_pause_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    pfl_sweep(pause_at_each, NULL, false);
}

struct nested {
    struct pfl_frame_reader reader;
    unsigned frames;
};

static int on_nested_frame(void *user, struct pfl_span payload)
{
    static const uint8_t second[] = {2, 0, 0, 0, 'x', 'y'};
    struct nested *n = user;

    n->frames++;
    if (payload.len != 1)
        return 0;
    assert_int_equal(
        pfl_frame_reader_feed(&n->reader, pfl_span_of(second, sizeof(second)), on_nested_frame, n),
        0);
    assert_int_equal(payload.data[0], 'a'); /* the outer frame still stands */
    return 0;
}

static void callback_may_feed_the_reader_again(void **state)
{
    static const uint8_t first[] = {1, 0, 0, 0, 'a'};
    struct nested n = {.frames = 0};
    (void)state;

    pfl_frame_reader_init(&n.reader);
    assert_int_equal(pfl_frame_reader_feed(&n.reader, pfl_span_of(first, 4), on_nested_frame, &n),
                     0);
    assert_int_equal(
        pfl_frame_reader_feed(&n.reader, pfl_span_of(first + 4, 1), on_nested_frame, &n), 0);
    assert_int_equal(n.frames, 2);
    pfl_frame_reader_fini(&n.reader);
}

static int feed_by_bytes(void *arg)
{
    struct pfl_frame_reader r;
    struct sink s = {0};
    int rc = 0;
    (void)arg;

    pfl_frame_reader_init(&r);
    for (size_t i = 0; i < 320 && rc == 0; i++)
        rc = pfl_frame_reader_feed(&r, pfl_span_of(stream + i, 1), on_frame, &s);
    pfl_frame_reader_fini(&r);
    return rc;
}

static void out_of_memory_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    (void)put_conversation();
    pfl_sweep(feed_by_bytes, NULL, false);
}

static int keep_size(void *user, struct pfl_span payload)
{
    *(size_t *)user = payload.len;
    return 0;
}

static int write_and_read(size_t data_len, size_t *ret_len)
{
    Perfleet__CollectorReply reply = PERFLEET__COLLECTOR_REPLY__INIT;
    struct pfl_frame_reader r;
    struct pfl_buf out;
    int rc;

    reply.has_data = 1;
    reply.data.data = stream;
    reply.data.len = data_len;
    pfl_buf_init(&out, 2 * (size_t)PFL_FRAME_LARGE_MAX_BYTES);
    rc = pfl_buf_append(&out, "ab", 2);
    if (rc == 0)
        rc = pfl_frame_write(&reply.base, &out);
    if (rc != 0) {
        assert_true(out.len == 0 || out.len == 2);
        pfl_buf_fini(&out);
        return rc;
    }
    pfl_buf_consume(&out, 2);
    pfl_frame_reader_init_large(&r);
    for (size_t at = 0; rc == 0 && at < out.len; at += 100000)
        rc = pfl_frame_reader_feed(
            &r,
            pfl_span_of(pfl_buf_get(&out).data + at, out.len - at < 100000 ? out.len - at : 100000),
            keep_size, ret_len);
    pfl_frame_reader_fini(&r);
    pfl_buf_fini(&out);
    return rc;
}

static void a_message_is_written_as_a_frame_that_a_large_reader_takes(void **state)
{
    static const uint8_t prefix[] = {0x01, 0x00, 0x10, 0x00}; /* 1 MiB and a byte */
    struct pfl_frame_reader r;
    size_t len = 0;

    (void)state;
    assert_int_equal(write_and_read(STREAM_MAX, &len), 0);
    assert_int_equal(len, STREAM_MAX + 4);
    pfl_frame_reader_init_large(&r);
    assert_int_equal(pfl_frame_reader_feed(&r, pfl_span_of(prefix, 4), keep_size, &len),
                     PFL_EPROTO);
    pfl_frame_reader_fini(&r);
    pfl_sweep_assert_no_leak();
}

static void a_message_that_is_too_large_adds_nothing(void **state)
{
    Perfleet__CollectorReply reply = PERFLEET__COLLECTOR_REPLY__INIT;
    static uint8_t many[PFL_FRAME_LARGE_MAX_BYTES];
    struct pfl_buf out;

    (void)state;
    reply.has_data = 1;
    reply.data.data = many;
    reply.data.len = sizeof(many) - 8; /* with tag and length one byte too many */
    pfl_buf_init(&out, 2 * (size_t)PFL_FRAME_LARGE_MAX_BYTES);
    assert_int_equal(pfl_frame_write(&reply.base, &out), 0);
    reply.data.len++;
    assert_int_equal(pfl_frame_write(&reply.base, &out), PFL_ELIMIT);
    assert_int_equal(out.len, PFL_FRAME_LARGE_MAX_BYTES);
    pfl_buf_fini(&out);
}

static int write_and_read_any(void *arg)
{
    size_t len;

    (void)arg;
    return write_and_read(200000, &len);
}

static void writing_survives_a_failed_allocation(void **state)
{
    (void)state;
    pfl_sweep(write_and_read_any, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_come_out_whole_however_they_arrive),
        cmocka_unit_test(frames_that_arrive_whole_are_not_copied),
        cmocka_unit_test(largest_frame_passes),
        cmocka_unit_test(larger_frame_is_refused_as_soon_as_its_prefix_is_known),
        cmocka_unit_test(frames_before_an_oversized_one_are_handed_out),
        cmocka_unit_test(announced_length_reserves_nothing),
        cmocka_unit_test(idle_reader_keeps_little_memory_after_a_large_frame),
        cmocka_unit_test(failure_of_the_callback_ends_the_feed),
        cmocka_unit_test(a_pause_after_each_frame_loses_nothing_and_changes_no_order),
        cmocka_unit_test(a_frame_that_is_not_finished_comes_again_before_what_follows),
        cmocka_unit_test(a_prefix_past_the_limit_that_was_kept_is_refused),
        cmocka_unit_test(out_of_memory_at_a_pause_is_reported_and_leaks_nothing),
        cmocka_unit_test(callback_may_feed_the_reader_again),
        cmocka_unit_test(out_of_memory_is_reported_and_leaks_nothing),
        cmocka_unit_test(a_message_is_written_as_a_frame_that_a_large_reader_takes),
        cmocka_unit_test(a_message_that_is_too_large_adds_nothing),
        cmocka_unit_test(writing_survives_a_failed_allocation),
    };

    return cmocka_run_group_tests_name("frame", tests, NULL, NULL);
}
