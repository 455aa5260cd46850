/* SPDX-License-Identifier: Apache-2.0 */
/* The quick walk says what the plain one says: made packets, cut anywhere, in any slices, with
 * tails that stay and tails that change. Bytes lie in storage of their exact size. */
#include "consumer/merge/packet_view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "tests/support/sweep.h"

#define PACKET_MAX 500u
#define SEEDS      4000u

static uint32_t random_below(uint64_t *state, uint32_t limit)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % limit;
}

/* The same by pfl_reader_field, field after field, without a tail. */
static bool view_plainly(struct pfl_packet_view *v, struct pfl_span packet)
{
    struct pfl_reader r = pfl_reader_of(packet);
    struct pfl_field f;

    *v = (struct pfl_packet_view){0};
    while (pfl_reader_field(&r, &f)) {
        bool is_packed = f.id == 50 || f.id == 133;

        if (f.id == 8)
            v->timestamp_ns = f.value;
        if (f.id == 42)
            v->loss_reasons = (uint32_t)f.value;
        if (f.id == 10)
            v->has_sequence = true;
        if (f.id == 10)
            v->sequence = (uint32_t)f.value;
        if (f.id == 98)
            v->machine = (uint32_t)f.value;
        if (f.id == 35 || f.id == 45 || f.id == 69 || f.id == 107 || f.id == 124 || is_packed) {
            v->has_two_special |= v->special != 0 && v->special != f.id;
            v->special = f.id;
            v->is_compressed |= is_packed;
        }
        if (f.id != 10 && f.id != 98)
            continue;
        if (v->cuts_len == PFL_PACKET_CUTS_MAX)
            return false;
        v->cuts[v->cuts_len++] =
            (struct pfl_packet_cut){(size_t)(f.raw.data - packet.data), f.raw.len};
        v->cut_bytes += f.raw.len;
    }
    return !r.failed;
}

static void assert_same(const struct pfl_packet_view *a, const struct pfl_packet_view *b)
{
    assert_int_equal(a->timestamp_ns, b->timestamp_ns);
    assert_int_equal(a->has_sequence, b->has_sequence);
    assert_int_equal(a->sequence, b->sequence);
    assert_int_equal(a->machine, b->machine);
    assert_int_equal(a->loss_reasons, b->loss_reasons);
    assert_int_equal(a->special, b->special);
    assert_int_equal(a->has_two_special, b->has_two_special);
    assert_int_equal(a->is_compressed, b->is_compressed);
    assert_int_equal(a->cuts_len, b->cuts_len);
    assert_int_equal(a->cut_bytes, b->cut_bytes);
    for (uint32_t i = 0; i < a->cuts_len; i++) {
        assert_int_equal(a->cuts[i].at, b->cuts[i].at);
        assert_int_equal(a->cuts[i].len, b->cuts[i].len);
    }
}

/* What a service would append; the same for most seeds. */
static void put_tail(struct pfl_writer *w, uint64_t *state)
{
    static const uint32_t sequences[] = {2, 2, 2, 7, 300, 70000};

    pfl_writer_field_varint(w, 3, random_below(state, 4) == 0 ? 0 : 1000);
    pfl_writer_field_varint(w, 10, sequences[random_below(state, 6)]);
    if (random_below(state, 8) != 0)
        pfl_writer_field_varint(w, 79, 477748 + random_below(state, 2));
    if (random_below(state, 8) == 0)
        pfl_writer_field_varint(w, 98, 1 + random_below(state, 3));
}

/* A length in `spelled` bytes or in as many as it needs. */
static void put_payload(struct pfl_writer *w, uint32_t id, size_t len, size_t spelled)
{
    static const uint8_t filler[200] = {0x50, 0x02, 0x18};

    size_t left = len;

    pfl_writer_varint(w, (uint64_t)id << 3 | PFL_WIRE_BYTES);
    for (; spelled > 1 || left >= 0x80; left >>= 7, spelled -= spelled > 1)
        pfl_writer_u8(w, (uint8_t)(left | 0x80));
    pfl_writer_u8(w, (uint8_t)left);
    pfl_writer_bytes(w, filler, len);
}

static size_t make(uint8_t *out, uint64_t *state)
{
    static const uint32_t ids[] = {8, 8, 8, 11, 11, 13, 58, 42, 1, 10, 98, 3, 35, 50, 133, 5000};
    struct pfl_writer w = pfl_writer_of(out, PACKET_MAX);

    for (uint32_t n = random_below(state, 6); n != 0; n--) {
        uint32_t id = ids[random_below(state, random_below(state, 4) == 0 ? 16 : 9)];
        uint64_t value = (uint64_t)random_below(state, 1u << 31) << random_below(state, 34);

        value >>= random_below(state, 64);
        if (id == 11 || id == 1)
            put_payload(&w, id, random_below(state, 40) * n % 200, random_below(state, 7));
        else if (random_below(state, 16) == 0)
            pfl_writer_field_fixed64(&w, id, value);
        else
            pfl_writer_field_varint(&w, id, value);
    }
    put_tail(&w, state);
    return PACKET_MAX - w.left;
}

static uint8_t *exact(const uint8_t *data, size_t len)
{
    uint8_t *copy = pfl_mem_alloc(len != 0 ? len : 1);

    assert_non_null(copy);
    memcpy(copy, data, len);
    return copy;
}

static size_t usual_ones;

/* The shorter walk says yes to nothing that has more in it than the tail. */
static void check_usual(const struct pfl_packet_tail *tail, const struct iovec *slice,
                        const struct pfl_packet_view *plain, bool is_good)
{
    if (!pfl_packet_view_is_usual(tail, slice))
        return;
    usual_ones++;
    assert_true(is_good);
    assert_true(plain->has_sequence);
    assert_int_equal(plain->sequence, tail->sequence);
    assert_int_equal(plain->machine, 0);
    assert_int_equal(plain->loss_reasons, 0);
    assert_int_equal(plain->special, 0);
    assert_int_equal(plain->cuts_len, 1);
    assert_int_equal(plain->cuts[0].at, slice->iov_len - tail->len + tail->cut.at);
    assert_int_equal(plain->cuts[0].len, tail->cut.len);
}

static void check_whole(struct pfl_packet_tail *tail, const uint8_t *data, size_t len)
{
    uint8_t *copy = exact(data, len);
    struct iovec slice = {copy, len};
    struct pfl_packet_view quick;
    struct pfl_packet_view plain;
    bool is_good = view_plainly(&plain, pfl_span_of(data, len));

    check_usual(tail, &slice, &plain, is_good);
    assert_int_equal(pfl_packet_view_of(&quick, tail, &slice, 1), is_good);
    if (is_good)
        assert_same(&quick, &plain);
    pfl_mem_free(copy);
}

static void made_packets_are_seen_as_the_plain_walk_sees_them(void **state)
{
    struct pfl_packet_tail tail = {0};
    uint64_t seed = 1;
    size_t hits = 0;

    (void)state;
    for (unsigned i = 0; i < SEEDS; i++) {
        uint8_t packet[PACKET_MAX];
        size_t len = make(packet, &seed);

        hits += tail.len != 0 && len >= tail.len &&
                memcmp(packet + len - tail.len, tail.bytes, tail.len) == 0;
        check_whole(&tail, packet, len);
    }
    assert_true(hits > SEEDS / 20);
    assert_true(usual_ones > SEEDS / 40);
}

static void packets_that_end_too_early_are_seen_as_the_plain_walk_sees_them(void **state)
{
    struct pfl_packet_tail tail = {0};
    uint64_t seed = 2;

    (void)state;
    for (unsigned i = 0; i < 60; i++) {
        uint8_t packet[PACKET_MAX];
        size_t len = make(packet, &seed);

        for (size_t cut = 0; cut <= len; cut++)
            check_whole(&tail, packet, cut);
    }
}

static void changed_bytes_are_seen_as_the_plain_walk_sees_them(void **state)
{
    struct pfl_packet_tail tail = {0};
    uint64_t seed = 3;

    (void)state;
    for (unsigned i = 0; i < SEEDS; i++) {
        uint8_t packet[PACKET_MAX];
        size_t len = make(packet, &seed);

        for (uint32_t n = 1 + random_below(&seed, 3); n != 0; n--)
            packet[random_below(&seed, (uint32_t)len)] = (uint8_t)random_below(&seed, 256);
        check_whole(&tail, packet, len);
    }
}

/* A cut between fields makes no difference; one inside a field is detected, whatever the tail. */
static void two_slices_are_seen_as_one_where_no_field_is_cut(void **state)
{
    struct pfl_packet_tail tail = {0};
    uint64_t seed = 4;
    size_t seen = 0;

    (void)state;
    for (unsigned i = 0; i < 200; i++) {
        uint8_t packet[PACKET_MAX];
        size_t len = make(packet, &seed);
        struct pfl_packet_view plain;
        struct pfl_packet_view quick;

        if (!view_plainly(&plain, pfl_span_of(packet, len)))
            continue;
        for (size_t cut = 0; cut <= len; cut++) {
            uint8_t *a = exact(packet, cut);
            uint8_t *b = exact(packet + cut, len - cut);
            struct iovec slices[] = {{a, cut}, {b, len - cut}};
            struct pfl_packet_view half;
            bool is_between = view_plainly(&half, pfl_span_of(packet, cut)) &&
                              view_plainly(&half, pfl_span_of(packet + cut, len - cut));

            assert_int_equal(pfl_packet_view_of(&quick, &tail, slices, 2), is_between);
            if (is_between) {
                assert_same(&quick, &plain);
                seen++;
            }
            pfl_mem_free(a);
            pfl_mem_free(b);
        }
    }
    assert_true(seen > 600);
    pfl_sweep_assert_no_leak();
}

static void more_trusted_fields_than_fit_are_refused_with_and_without_a_tail(void **state)
{
    struct pfl_packet_tail tail = {0};
    uint8_t packet[PACKET_MAX];

    (void)state;
    for (unsigned n = 0; n < 12; n++) {
        struct pfl_writer w = pfl_writer_of(packet, sizeof(packet));

        for (unsigned i = 0; i < n; i++)
            pfl_writer_field_varint(&w, 98, 1);
        pfl_writer_field_varint(&w, 3, 1000);
        pfl_writer_field_varint(&w, 10, 9);
        pfl_writer_field_varint(&w, 79, 4321);
        check_whole(&tail, packet, sizeof(packet) - w.left);
        assert_int_equal(tail.len != 0, true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(made_packets_are_seen_as_the_plain_walk_sees_them),
        cmocka_unit_test(packets_that_end_too_early_are_seen_as_the_plain_walk_sees_them),
        cmocka_unit_test(changed_bytes_are_seen_as_the_plain_walk_sees_them),
        cmocka_unit_test(two_slices_are_seen_as_one_where_no_field_is_cut),
        cmocka_unit_test(more_trusted_fields_than_fit_are_refused_with_and_without_a_tail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
