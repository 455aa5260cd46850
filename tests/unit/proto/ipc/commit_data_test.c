/* SPDX-License-Identifier: Apache-2.0 */
/* CommitDataRequest in place: order, values, and that malformed requests do nothing at all. */
#include "proto/ipc/commit_data.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

struct journal {
    char text[512];
    size_t len;
    unsigned moves;
    unsigned patches;
};

static void on_move(void *user, const struct pfl_commit_data_move *m)
{
    struct journal *j = user;

    j->moves++;
    j->len += (size_t)snprintf(j->text + j->len, sizeof(j->text) - j->len, "m%u.%u>%u%s%s%zu ",
                               m->page_untrusted, m->chunk_untrusted, m->target_buffer_untrusted,
                               m->has_data ? "d" : "", m->is_incomplete ? "i" : "", m->data.len);
}

static void on_patches(void *user, struct pfl_commit_data_patch_list *l)
{
    struct journal *j = user;
    struct pfl_commit_data_patch p;
    size_t n = 0;

    j->len += (size_t)snprintf(j->text + j->len, sizeof(j->text) - j->len,
                               "p%u.%u>%u%s:", l->writer_id_untrusted, l->chunk_id_untrusted,
                               l->target_buffer_untrusted, l->has_more_patches ? "+" : "");
    while (pfl_commit_data_next_patch(l, &p)) {
        j->len += (size_t)snprintf(j->text + j->len, sizeof(j->text) - j->len, "%u=%zu ",
                                   p.offset_untrusted, p.data.len);
        n++;
    }
    assert_int_equal(n, l->patches_len);
    j->patches += (unsigned)n;
}

static int read_request(struct pfl_span request, struct journal *j, uint64_t *ret_flush)
{
    const struct pfl_commit_data_visitor visitor = {
        .on_move = on_move, .on_patches = on_patches, .user = j};

    memset(j, 0, sizeof(*j));
    return pfl_commit_data_read(request, &visitor, ret_flush);
}

/* Patches stand between the moves, and the flush id first: the order is still moves, patches. */
static const char mixed[] = "\x18\x96\x01"
                            "\x0a\x06\x08\x01\x10\x02\x18\x03"
                            "\x12\x18\x08\x03\x10\x07\x18\x64"
                            "\x22\x08\x08\x10\x12\x04"
                            "abcd"
                            "\x22\x04\x08\x20\x12\x00"
                            "\x28\x01"
                            "\x0a\x0a\x08\x04\x18\x05\x22\x02hi\x28\x01"
                            "\x0a\x00";

static void moves_come_first_then_patches_then_the_flush_id(void **state)
{
    struct journal j;
    uint64_t flush = 0;
    (void)state;

    assert_int_equal(read_request(pfl_span_of(mixed, sizeof(mixed) - 1), &j, &flush), 0);
    assert_string_equal(j.text, "m1.2>30 m4.0>5di2 m0.0>00 p7.100>3+:16=4 32=0 ");
    assert_int_equal(flush, 150);
}

static void empty_request_is_a_fence(void **state)
{
    struct journal j;
    uint64_t flush = 9;
    (void)state;

    assert_int_equal(read_request(pfl_span_of(NULL, 0), &j, &flush), 0);
    assert_int_equal(j.moves + j.patches, 0);
    assert_int_equal(flush, 0);
}

static void request_cut_anywhere_does_its_whole_fields_or_nothing(void **state)
{
    static const size_t ends[] = {0, 3, 11, 37, 49, 51};
    size_t next = 0;
    (void)state;

    assert_int_equal(sizeof(mixed) - 1, 51);
    for (size_t cut = 0; cut < sizeof(mixed); cut++) {
        struct journal j;
        uint64_t flush = 77;
        int rc = read_request(pfl_span_of(mixed, cut), &j, &flush);
        bool is_end = next < 6 && cut == ends[next];

        assert_int_equal(rc, is_end ? 0 : PFL_EPARSE);
        if (is_end)
            next++;
        else
            assert_true(j.len == 0 && flush == 77);
    }
    assert_int_equal(next, 6);
}

static void malformed_entry_stops_the_whole_request(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
    } bad[] = {
        {"\x0a\x02\x08\x01\x0a\x02\x08\xff", 8},          /* a move cut inside */
        {"\x0a\x02\x08\x01\x12\x02\x22\x05", 8},          /* a patch longer than its list */
        {"\x0a\x02\x08\x01\x12\x04\x22\x02\x12\x09", 10}, /* a patch's data longer than it */
        {"\x0a\x02\x08\x01\x0b\x0c", 6},                  /* a group */
        {"\x0a\x02\x08\x01\x00\x00", 6},                  /* field 0 */
    };
    (void)state;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct journal j;
        uint64_t flush = 0;

        assert_int_equal(read_request(pfl_span_of(bad[i].bytes, bad[i].len), &j, &flush),
                         PFL_EPARSE);
        assert_int_equal(j.len, 0);
    }
}

static void unknown_fields_and_other_wire_types_are_skipped(void **state)
{
    static const char bytes[] = "\x08\x05"             /* chunks_to_move as a varint */
                                "\x1d\x01\x02\x03\x04" /* flush id as fixed32 */
                                "\xf2\x3f\x01x"        /* an unknown field */
                                "\x0a\x04\x0a\x00\x10\x03";
    struct journal j;
    uint64_t flush = 1;
    (void)state;

    assert_int_equal(read_request(pfl_span_of(bytes, sizeof(bytes) - 1), &j, &flush), 0);
    assert_string_equal(j.text, "m0.3>00 ");
    assert_int_equal(flush, 0);
}

static void members_of_the_visitor_may_be_missing(void **state)
{
    const struct pfl_commit_data_visitor nobody = {0};
    uint64_t flush;
    (void)state;

    assert_int_equal(pfl_commit_data_read(pfl_span_of(mixed, sizeof(mixed) - 1), &nobody, &flush),
                     0);
    assert_int_equal(flush, 150);
}

/* A request of so many moves of pages 1, 2, ... and, between them, lists of one patch each for the
 * chunks 1, 2, ... */
static struct pfl_span make_request(unsigned moves, unsigned lists)
{
    static uint8_t bytes[16384];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));

    for (unsigned i = 1; i <= moves || i <= lists; i++) {
        uint8_t entry[64];
        struct pfl_writer e = pfl_writer_of(entry, sizeof(entry));

        pfl_writer_field_varint(&e, 1, i);
        pfl_writer_field_varint(&e, 3, 5);
        if (i <= moves)
            pfl_writer_field_bytes(&w, 1, entry, sizeof(entry) - e.left);
        e = pfl_writer_of(entry, sizeof(entry));
        pfl_writer_field_varint(&e, 1, 2);
        pfl_writer_field_varint(&e, 3, i);
        pfl_writer_field_varint(&e, 2, 9);
        pfl_writer_field_bytes(&e, 4,
                               "\x08\x10\x12\x04"
                               "abcd",
                               8);
        if (i <= lists)
            pfl_writer_field_bytes(&w, 2, entry, sizeof(entry) - e.left);
    }
    pfl_writer_field_varint(&w, 3, 77);
    assert_false(w.failed);
    return pfl_span_of(bytes, sizeof(bytes) - w.left);
}

struct counts {
    unsigned moves;
    unsigned ahead;
    unsigned lists;
    unsigned last_list;
};

static void count_move(void *user, const struct pfl_commit_data_move *m)
{
    struct counts *c = user;

    assert_int_equal(m->page_untrusted, ++c->moves);
    assert_int_equal(m->target_buffer_untrusted, 5);
    assert_int_equal(c->lists, 0);
}

static void count_ahead(void *user, const struct pfl_commit_data_move *m)
{
    struct counts *c = user;

    assert_int_equal(m->page_untrusted, c->moves + 2);
    c->ahead++;
}

static void count_patches(void *user, struct pfl_commit_data_patch_list *l)
{
    struct counts *c = user;
    struct pfl_commit_data_patch patch;

    assert_true(l->chunk_id_untrusted > c->last_list);
    c->last_list = l->chunk_id_untrusted;
    c->lists++;
    assert_true(pfl_commit_data_next_patch(l, &patch));
    assert_int_equal(patch.offset_untrusted, 16);
    assert_memory_equal(patch.data.data, "abcd", 4);
    assert_false(pfl_commit_data_next_patch(l, &patch));
}

static void requests_of_any_number_of_entries_are_visited_whole_and_in_order(void **state)
{
    static const unsigned numbers[] = {0, 1, 2, 63, 64, 65, 127, 128, 129, 130, 300};
    const size_t len = sizeof(numbers) / sizeof(numbers[0]);

    (void)state;
    for (size_t i = 0; i < len * len; i++) {
        const struct pfl_commit_data_visitor visitor = {.on_move = count_move,
                                                        .on_patches = count_patches,
                                                        .on_move_ahead = count_ahead,
                                                        .user = &(struct counts){0}};
        const struct counts *c = visitor.user;
        unsigned moves = numbers[i / len];
        unsigned lists = numbers[i % len];
        uint64_t flush = 0;

        assert_int_equal(pfl_commit_data_read(make_request(moves, lists), &visitor, &flush), 0);
        assert_int_equal(c->moves, moves);
        assert_int_equal(c->lists, lists);
        assert_int_equal(c->last_list, lists);
        assert_int_equal(c->ahead, moves == 0 ? 0 : moves <= 128 ? moves - 1 : 127);
        assert_int_equal(flush, 77);
    }
}

static bool stop_now(void *user)
{
    (void)user;
    return false;
}

static void a_request_continues_where_it_stopped(void **state)
{
    static const unsigned numbers[] = {0, 1, 8, 9, 63, 65, 127, 128, 129, 300};
    const size_t len = sizeof(numbers) / sizeof(numbers[0]);

    (void)state;
    for (size_t i = 0; i < len * len; i++) {
        const struct pfl_commit_data_visitor visitor = {.on_move = count_move,
                                                        .on_patches = count_patches,
                                                        .may_continue = stop_now,
                                                        .user = &(struct counts){0}};
        const struct counts *c = visitor.user;
        struct pfl_commit_data_position at = {0};
        unsigned moves = numbers[i / len];
        unsigned lists = numbers[i % len];
        struct pfl_span request = make_request(moves, lists);
        unsigned stops = 0;
        unsigned before = 0;
        uint64_t flush = 0;

        while (pfl_commit_data_continue(request, &visitor, &at, &flush) == PFL_EAGAIN) {
            assert_in_range(c->moves + c->lists, before + 1, before + 8);
            before = c->moves + c->lists;
            assert_int_equal(flush, 0); /* nothing is acknowledged before its end */
            stops++;
        }
        assert_int_equal(stops, (moves + lists) / 8);
        assert_int_equal(c->moves, moves);
        assert_int_equal(c->lists, lists);
        assert_int_equal(flush, 77);
        assert_int_equal(at.part, PFL_COMMIT_DATA_START);
    }
}

static bool always(void *user)
{
    (void)user;
    return true;
}

static void the_clock_is_looked_at_after_an_entry_that_took_long(void **state)
{
    const struct pfl_commit_data_visitor visitor = {.on_move = count_move,
                                                    .on_patches = count_patches,
                                                    .may_continue = stop_now,
                                                    .was_long = always,
                                                    .user = &(struct counts){0}};
    const struct counts *c = visitor.user;
    struct pfl_commit_data_position at = {0};
    struct pfl_span request = make_request(130, 70);
    unsigned stops = 0;
    uint64_t flush = 0;

    (void)state;
    while (pfl_commit_data_continue(request, &visitor, &at, &flush) == PFL_EAGAIN)
        assert_int_equal(c->moves + c->lists, ++stops);
    assert_int_equal(stops, 200);
    assert_int_equal(flush, 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moves_come_first_then_patches_then_the_flush_id),
        cmocka_unit_test(empty_request_is_a_fence),
        cmocka_unit_test(the_clock_is_looked_at_after_an_entry_that_took_long),
        cmocka_unit_test(request_cut_anywhere_does_its_whole_fields_or_nothing),
        cmocka_unit_test(malformed_entry_stops_the_whole_request),
        cmocka_unit_test(unknown_fields_and_other_wire_types_are_skipped),
        cmocka_unit_test(members_of_the_visitor_may_be_missing),
        cmocka_unit_test(requests_of_any_number_of_entries_are_visited_whole_and_in_order),
        cmocka_unit_test(a_request_continues_where_it_stopped),
    };

    return cmocka_run_group_tests_name("commit_data", tests, NULL, NULL);
}
