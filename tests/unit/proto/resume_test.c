/* SPDX-License-Identifier: Apache-2.0 */
/* Streams that outlive connections: two ends, legs that are cut anywhere, nothing lost or doubled.
 */
#include "proto/resume.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/sweep.h"

#define WINDOW 1000u
#define OUT    3000u

/* ---- replay ---- */

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

/* ---- two ends and legs between them ---- */

struct end {
    struct pfl_resume resume;
    struct pfl_resume_offer told;
    uint64_t written; /* by its owner */
    uint64_t used;
    uint64_t total;       /* to write */
    uint8_t leg[1 << 14]; /* bytes under way to this end */
    size_t leg_len;
    uint32_t credit_leg; /* credit under way to this end */
    bool end_leg;
};

static struct end ends[2];
static uint64_t dice;

static uint32_t roll(uint32_t sides)
{
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(dice >> 33) % sides;
}

static uint8_t byte_at(unsigned end, uint64_t offset)
{
    return (uint8_t)((offset * 2654435761u >> 7) + end);
}

static void write_some(unsigned i)
{
    struct end *e = &ends[i];
    uint8_t data[512];
    size_t len = roll(sizeof(data));
    int rc;

    if (len > e->total - e->written)
        len = (size_t)(e->total - e->written);
    for (size_t k = 0; k < len; k++)
        data[k] = byte_at(i, e->written + k);
    rc = len != 0 ? pfl_resume_write(&e->resume, pfl_span_of(data, len)) : 0;
    assert_true(rc == 0 || rc == PFL_ELIMIT);
    if (rc == 0)
        e->written += len;
    if (e->written == e->total)
        pfl_resume_end(&e->resume);
}

static void use_some(unsigned i)
{
    struct end *e = &ends[i];
    struct pfl_span piece = pfl_resume_peek(&e->resume, roll(700));

    for (size_t k = 0; k < piece.len; k++)
        assert_int_equal(piece.data[k], byte_at(1 - i, e->used + k));
    pfl_resume_use(&e->resume, piece.len);
    e->used += piece.len;
}

static void send_some(unsigned i)
{
    struct end *to = &ends[1 - i];
    size_t room = roll(600);
    bool is_end = false;

    if (room > sizeof(to->leg) - to->leg_len)
        room = sizeof(to->leg) - to->leg_len;
    to->leg_len += pfl_resume_pull(&ends[i].resume, to->leg + to->leg_len, room, &is_end);
    to->end_leg |= is_end;
    to->credit_leg += pfl_resume_take_credit(&ends[i].resume);
}

static void receive_some(unsigned i)
{
    struct end *e = &ends[i];
    size_t len = e->leg_len != 0 ? 1 + roll((uint32_t)e->leg_len) : 0;

    if (len != 0 && pfl_resume_held(&e->resume) == 0 && roll(2) == 0) {
        for (size_t k = 0; k < len; k++)
            assert_int_equal(e->leg[k], byte_at(1 - i, e->used + k));
        assert_int_equal(pfl_resume_pass(&e->resume, len), 0);
        e->used += len;
    } else if (len != 0) {
        assert_int_equal(pfl_resume_feed(&e->resume, pfl_span_of(e->leg, len)), 0);
    }
    memmove(e->leg, e->leg + len, e->leg_len - len);
    e->leg_len -= len;
    if (e->leg_len == 0 && e->end_leg)
        pfl_resume_feed_end(&e->resume);
    if (e->credit_leg != 0)
        assert_int_equal(pfl_resume_on_credit(&e->resume, e->credit_leg), 0);
    e->credit_leg = 0;
    assert_true(pfl_resume_held(&e->resume) <= WINDOW);
}

static void cut(void)
{
    for (unsigned i = 0; i < 2; i++) {
        pfl_resume_detach(&ends[i].resume);
        ends[i].leg_len = 0;
        ends[i].credit_leg = 0;
        ends[i].end_leg = false;
    }
}

/* The asker's offer was made some time before the answer comes. */
static void join(void)
{
    struct end *asker = &ends[0];
    struct end *answerer = &ends[1];

    pfl_resume_get_offer(&asker->resume, &asker->told);
    use_some(1);
    pfl_resume_get_offer(&answerer->resume, &answerer->told);
    assert_int_equal(pfl_resume_attach(&answerer->resume, &asker->told, &answerer->told), 0);
    if (roll(4) == 0) {
        cut(); /* the answer is lost */
        return;
    }
    use_some(0);
    assert_int_equal(pfl_resume_attach(&asker->resume, &answerer->told, &asker->told), 0);
}

static void begin(uint64_t total0, uint64_t total1)
{
    memset(ends, 0, sizeof(ends));
    for (unsigned i = 0; i < 2; i++)
        pfl_resume_init(&ends[i].resume, OUT, WINDOW);
    ends[0].total = total0;
    ends[1].total = total1;
}

static void finish(void)
{
    for (unsigned i = 0; i < 2; i++)
        pfl_resume_fini(&ends[i].resume);
    pfl_sweep_assert_no_leak();
}

static void step(uint32_t cut_sides)
{
    unsigned i = roll(2);

    switch (roll(4)) {
    case 0:
        write_some(i);
        break;
    case 1:
        send_some(i);
        break;
    case 2:
        receive_some(i);
        break;
    default:
        use_some(i);
        break;
    }
    if (!ends[0].resume.is_attached)
        join();
    else if (cut_sides != 0 && roll(cut_sides) == 0)
        cut();
}

static void every_byte_arrives_once_and_in_order_however_often_the_leg_is_cut(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 60; seed++) {
        unsigned steps = 0;

        dice = seed;
        begin(5000 + seed, 60000);
        while (!pfl_resume_is_done(&ends[0].resume) || !pfl_resume_is_done(&ends[1].resume)) {
            /* Rare cuts at the end, or the last ends never both arrive. */
            step(steps < 20000 ? 2 + seed : 1000);
            assert_true(++steps < 2000000);
        }
        assert_int_equal(ends[0].used, ends[1].total);
        assert_int_equal(ends[1].used, ends[0].total);
        finish();
    }
}

static void a_reader_that_never_reads_is_sent_one_window_however_often_it_comes_back(void **state)
{
    uint8_t data[256];

    (void)state;
    dice = 7;
    begin(0, 100000);
    for (unsigned round = 0; round < 50; round++) {
        join();
        if (!ends[0].resume.is_attached)
            continue;
        for (unsigned k = 0; k < 20; k++) {
            bool is_end = false;
            size_t len;

            write_some(1);
            len = pfl_resume_pull(&ends[1].resume, data, sizeof(data), &is_end);
            if (len != 0)
                assert_int_equal(pfl_resume_feed(&ends[0].resume, pfl_span_of(data, len)), 0);
        }
        cut();
    }
    /* join uses some of what the asker has; the rest is at most the window. */
    assert_true(pfl_resume_held(&ends[0].resume) <= WINDOW);
    assert_true(pfl_replay_kept(&ends[1].resume.out) <= OUT);
    finish();
}

static void offers_that_cannot_be_true_are_refused_and_change_nothing(void **state)
{
    static const struct pfl_resume_offer first = {.window_bytes = WINDOW};
    struct pfl_resume_offer mine;
    uint8_t data[64] = {0};
    bool is_end = false;
    static const struct pfl_resume_offer bad[] = {
        {.received = 65, .credited = 0, .window_bytes = WINDOW}, /* more than was sent */
        {.received = 30, .credited = 31, .window_bytes = WINDOW},
        {.received = 30, .credited = 9, .window_bytes = WINDOW}, /* credit taken back */
        {.received = 30, .credited = 20, .window_bytes = 0},
        {.received = UINT64_MAX, .credited = UINT64_MAX, .window_bytes = WINDOW},
    };

    (void)state;
    begin(0, 0);
    join();
    assert_int_equal(pfl_resume_write(&ends[1].resume, pfl_span_of(data, sizeof(data))), 0);
    assert_int_equal(pfl_resume_attach(&ends[1].resume, &first, &ends[1].told), 0);
    assert_int_equal(pfl_resume_pull(&ends[1].resume, data, sizeof(data), &is_end), 64);
    assert_int_equal(pfl_resume_on_credit(&ends[1].resume, 10), 0);
    pfl_resume_get_offer(&ends[1].resume, &mine);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(pfl_resume_attach(&ends[1].resume, &bad[i], &mine), PFL_EPROTO);
        assert_int_equal(ends[1].resume.out.base, 10);
        assert_int_equal(ends[1].resume.out.next, 64);
    }
    finish();
}

static void credit_for_bytes_that_were_not_sent_is_refused(void **state)
{
    uint8_t data[64] = {0};
    bool is_end = false;

    (void)state;
    begin(0, 0);
    assert_int_equal(pfl_resume_attach(&ends[1].resume,
                                       &(struct pfl_resume_offer){.window_bytes = 40},
                                       &ends[1].told),
                     0);
    assert_int_equal(pfl_resume_write(&ends[1].resume, pfl_span_of(data, sizeof(data))), 0);
    assert_int_equal(pfl_resume_pull(&ends[1].resume, data, sizeof(data), &is_end), 40);
    assert_int_equal(pfl_resume_on_credit(&ends[1].resume, 41), PFL_EPROTO);
    assert_int_equal(pfl_resume_on_credit(&ends[1].resume, UINT32_MAX), PFL_EPROTO);
    assert_int_equal(pfl_resume_on_credit(&ends[1].resume, 40), 0);
    assert_int_equal(pfl_resume_pull(&ends[1].resume, data, sizeof(data), &is_end), 24);
    finish();
}

static void bytes_past_the_window_or_after_the_end_are_refused(void **state)
{
    uint8_t data[WINDOW + 1] = {0};

    (void)state;
    begin(0, 0);
    assert_int_equal(pfl_resume_feed(&ends[0].resume, pfl_span_of(data, WINDOW + 1)), PFL_EPROTO);
    assert_int_equal(pfl_resume_feed(&ends[0].resume, pfl_span_of(data, WINDOW)), 0);
    assert_int_equal(pfl_resume_feed(&ends[0].resume, pfl_span_of(data, 1)), PFL_EPROTO);
    pfl_resume_use(&ends[0].resume, WINDOW);
    pfl_resume_feed_end(&ends[0].resume);
    assert_int_equal(pfl_resume_feed(&ends[0].resume, pfl_span_of(data, 1)), PFL_EPROTO);
    assert_int_equal(pfl_resume_pass(&ends[0].resume, 1), PFL_EPROTO);
    finish();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_gives_back_what_was_appended_across_its_ends),
        cmocka_unit_test(a_ring_never_holds_more_than_its_maximum),
        cmocka_unit_test(offsets_outside_what_is_kept_are_refused),
        cmocka_unit_test(a_ring_that_cannot_grow_stays_as_it_was),
        cmocka_unit_test(every_byte_arrives_once_and_in_order_however_often_the_leg_is_cut),
        cmocka_unit_test(a_reader_that_never_reads_is_sent_one_window_however_often_it_comes_back),
        cmocka_unit_test(offers_that_cannot_be_true_are_refused_and_change_nothing),
        cmocka_unit_test(credit_for_bytes_that_were_not_sent_is_refused),
        cmocka_unit_test(bytes_past_the_window_or_after_the_end_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
