/* SPDX-License-Identifier: Apache-2.0 */
/* Rings of bytes by their offsets, in memory of their own and in their owner's. */
#include "proto/tunnel/replay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/sweep.h"

static void a_ring_gives_back_what_was_appended_across_its_ends(void **state)
{
    struct pfl_replay r;
    uint8_t data[700];
    uint64_t seen = 0;
    uint64_t written = 0;

    (void)state;
    pfl_replay_init(&r, 10000);
    for (unsigned round = 0; round < 200; round++) {
        for (size_t i = 0; i < sizeof(data); i++)
            data[i] = (uint8_t)((written + i) * 7);
        assert_int_equal(pfl_replay_append(&r, data, sizeof(data)), 0);
        written += sizeof(data);
        while (r.end - seen > 2000) {
            struct pfl_span piece = pfl_replay_peek(&r, 333);

            for (size_t i = 0; i < piece.len; i++)
                assert_int_equal(piece.data[i], (uint8_t)((seen + i) * 7));
            pfl_replay_skip(&r, piece.len);
            seen += piece.len;
            assert_int_equal(pfl_replay_release(&r, seen), 0);
        }
    }
    assert_true(r.capacity <= 16384);
    pfl_replay_fini(&r);
    pfl_sweep_assert_no_leak();
}

static void a_ring_never_holds_more_than_its_maximum(void **state)
{
    struct pfl_replay r;
    uint8_t data[100] = {0};

    (void)state;
    pfl_replay_init(&r, 150);
    assert_int_equal(pfl_replay_append(&r, data, 100), 0);
    assert_int_equal(pfl_replay_append(&r, data, 51), PFL_ELIMIT);
    assert_int_equal(pfl_replay_append(&r, data, 50), 0);
    assert_int_equal(pfl_replay_append(&r, data, 1), PFL_ELIMIT);
    pfl_replay_fini(&r);
}

static void offsets_outside_what_is_kept_are_refused(void **state)
{
    struct pfl_replay r;
    uint8_t data[100] = {0};

    (void)state;
    pfl_replay_init(&r, 150);
    assert_int_equal(pfl_replay_append(&r, data, 100), 0);
    pfl_replay_skip(&r, 60);
    assert_int_equal(pfl_replay_release(&r, 61), PFL_EPROTO);
    assert_int_equal(pfl_replay_rewind(&r, 61), PFL_EPROTO);
    assert_int_equal(pfl_replay_release(&r, 40), 0);
    assert_int_equal(pfl_replay_release(&r, 39), PFL_EPROTO);
    assert_int_equal(pfl_replay_rewind(&r, 39), PFL_EPROTO);
    assert_int_equal(pfl_replay_rewind(&r, 40), 0);
    assert_int_equal(pfl_replay_unsent(&r), 60);
    pfl_replay_fini(&r);
}

static int grow_a_ring(void *arg)
{
    struct pfl_replay r;
    uint8_t data[5000] = {0};
    int rc;

    (void)arg;
    pfl_replay_init(&r, 20000);
    rc = pfl_replay_append(&r, data, 1000);
    if (rc == 0)
        rc = pfl_replay_append(&r, data, 5000);
    assert_true(rc == 0 || pfl_replay_kept(&r) <= 1000);
    pfl_replay_fini(&r);
    return rc;
}

static void a_ring_that_cannot_grow_stays_as_it_was(void **state)
{
    (void)state;
    pfl_sweep(grow_a_ring, NULL, false);
}

/* ---- an owner's memory ---- */

static struct {
    uint8_t regions[2][32768];
    unsigned given; /* regions that are out */
    unsigned gets;
    bool is_failing;
    const struct pfl_replay *watched; /* of it, all bytes have to lie in the region given last */
} owned;

static uint8_t owned_byte(uint64_t offset)
{
    return (uint8_t)(offset * 7);
}

static uint8_t *owned_get(void *user, size_t capacity)
{
    (void)user;
    assert_true(capacity <= sizeof(owned.regions[0]));
    if (owned.is_failing)
        return NULL;
    owned.given++;
    assert_true(owned.given <= 2);
    return owned.regions[owned.gets++ % 2];
}

static void owned_give_back(void *user, uint8_t *data, size_t capacity)
{
    const struct pfl_replay *r = owned.watched;
    const uint8_t *fresh = owned.regions[(owned.gets - 1) % 2];

    (void)user;
    assert_true(data == owned.regions[0] || data == owned.regions[1]);
    owned.given--;
    if (r != NULL && owned.given != 0) { /* it grows, at least by twice */
        for (uint64_t at = r->base; at < r->end; at++)
            assert_int_equal(fresh[at & (2 * capacity - 1)], owned_byte(at));
        memset(data, 0xee, capacity);
    }
}

static const struct pfl_replay_memory owned_memory = {.get = owned_get,
                                                      .give_back = owned_give_back};

static int append_owned(struct pfl_replay *r, size_t len)
{
    uint8_t data[8192];

    for (size_t i = 0; i < len; i++)
        data[i] = owned_byte(r->end + i);
    return pfl_replay_append(r, data, len);
}

static void assert_unsent_is_owned(struct pfl_replay *r, uint64_t from)
{
    while (pfl_replay_unsent(r) != 0) {
        struct pfl_span piece = pfl_replay_peek(r, SIZE_MAX);

        for (size_t i = 0; i < piece.len; i++)
            assert_int_equal(piece.data[i], owned_byte(from + i));
        from += piece.len;
        pfl_replay_skip(r, piece.len);
    }
    assert_int_equal(from, r->end);
}

static void an_owners_memory_goes_back_once_the_larger_one_is_filled(void **state)
{
    struct pfl_replay r;

    (void)state;
    memset(&owned, 0, sizeof(owned));
    pfl_replay_init(&r, 20000);
    pfl_replay_set_memory(&r, &owned_memory);
    owned.watched = &r;
    assert_int_equal(append_owned(&r, 3000), 0);
    pfl_replay_skip(&r, 2500);
    assert_int_equal(pfl_replay_release(&r, 2500), 0);
    assert_int_equal(append_owned(&r, 3000), 0); /* around the end */
    assert_int_equal(owned.gets, 1);
    for (size_t want = 8192; want <= 16384; want *= 2) {
        assert_int_equal(append_owned(&r, want - pfl_replay_kept(&r)), 0);
        assert_int_equal(r.capacity, want);
        assert_int_equal(owned.given, 1);
    }
    assert_int_equal(owned.gets, 3);
    assert_unsent_is_owned(&r, 2500);
    pfl_replay_fini(&r);
    assert_int_equal(owned.given, 0);
    pfl_sweep_assert_no_leak();
}

static void an_owner_without_memory_changes_nothing(void **state)
{
    struct pfl_replay before;
    struct pfl_replay r;

    (void)state;
    memset(&owned, 0, sizeof(owned));
    pfl_replay_init(&r, 20000);
    pfl_replay_set_memory(&r, &owned_memory);
    owned.is_failing = true;
    before = r;
    assert_int_equal(append_owned(&r, 1), PFL_ENOMEM);
    assert_memory_equal(&r, &before, sizeof(r));
    owned.is_failing = false;
    assert_int_equal(append_owned(&r, 4000), 0);
    owned.is_failing = true;
    before = r;
    assert_int_equal(append_owned(&r, 97), PFL_ENOMEM);
    assert_memory_equal(&r, &before, sizeof(r));
    assert_int_equal(append_owned(&r, 96), 0);
    owned.is_failing = false;
    assert_int_equal(append_owned(&r, 1), 0);
    assert_unsent_is_owned(&r, 0);
    pfl_replay_fini(&r);
    assert_int_equal(owned.given, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_gives_back_what_was_appended_across_its_ends),
        cmocka_unit_test(a_ring_never_holds_more_than_its_maximum),
        cmocka_unit_test(offsets_outside_what_is_kept_are_refused),
        cmocka_unit_test(a_ring_that_cannot_grow_stays_as_it_was),
        cmocka_unit_test(an_owners_memory_goes_back_once_the_larger_one_is_filled),
        cmocka_unit_test(an_owner_without_memory_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
