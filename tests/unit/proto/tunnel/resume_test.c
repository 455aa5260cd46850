/* SPDX-License-Identifier: Apache-2.0 */
/* Streams that outlive connections and processes: two ends, connections that are cut anywhere,
 * nothing lost or doubled. */
#include "proto/tunnel/resume.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tests/support/sweep.h"

#define WINDOW 1000u
#define OUT    3000u

/* ---- what another process left ---- */

#define KEPT_BASE 37u
#define KEPT_END  49u

static uint8_t kept_byte(uint64_t offset)
{
    return (uint8_t)(offset * 7);
}

/* A ring of 16 bytes, around whose end it goes. */
static uint8_t *make_kept(void)
{
    uint8_t *ring = pfl_mem_alloc(16);

    assert_non_null(ring);
    for (uint64_t at = KEPT_END - 16; at < KEPT_END; at++)
        ring[at & 15] = kept_byte(at);
    return ring;
}

static void attach_restored(const struct pfl_resume_offer *offer, bool is_legal)
{
    const struct pfl_resume_kept kept = {.in_used = 1000,
                                         .out_base = KEPT_BASE,
                                         .out_end = KEPT_END,
                                         .out_data = make_kept(),
                                         .out_capacity = 16};
    struct pfl_resume_offer mine;
    struct pfl_resume r;
    uint8_t data[64];
    bool is_end = false;
    size_t len;

    pfl_resume_init(&r, OUT, WINDOW);
    assert_int_equal(pfl_resume_restore(&r, &kept), 0);
    pfl_resume_get_offer(&r, &mine);
    assert_int_equal(mine.received, 1000);
    assert_int_equal(mine.credited, 1000);
    assert_int_equal(pfl_resume_attach(&r, offer, &mine), is_legal ? 0 : PFL_EPROTO);
    if (is_legal) {
        len = pfl_resume_pull(&r, data, sizeof(data), &is_end);
        assert_int_equal(len, KEPT_END - offer->received);
        for (size_t i = 0; i < len; i++)
            assert_int_equal(data[i], kept_byte(offer->received + i));
        assert_int_equal(pfl_resume_on_credit(&r, (uint32_t)(KEPT_END - offer->credited)), 0);
        assert_int_equal(pfl_resume_write(&r, pfl_span_of(data, sizeof(data))), 0);
        assert_int_equal(r.out.end, KEPT_END + sizeof(data));
        assert_int_equal(pfl_resume_feed(&r, pfl_span_of(data, sizeof(data))), 0);
        assert_int_equal(r.in.end, 1000 + sizeof(data));
    } else {
        assert_int_equal(r.out.base, KEPT_BASE);
        assert_int_equal(r.out.next, KEPT_END);
    }
    pfl_resume_fini(&r);
}

static void what_was_kept_goes_on_with_every_offer_that_can_be_true(void **state)
{
    (void)state;
    for (uint64_t received = KEPT_BASE - 2; received <= KEPT_END + 2; received++) {
        for (uint64_t credited = KEPT_BASE - 2; credited <= KEPT_END + 2; credited++) {
            bool is_legal = KEPT_BASE <= credited && credited <= received && received <= KEPT_END;

            attach_restored(&(struct pfl_resume_offer){received, credited, WINDOW}, is_legal);
            attach_restored(&(struct pfl_resume_offer){received, credited, 0}, false);
        }
    }
    attach_restored(&(struct pfl_resume_offer){UINT64_MAX, KEPT_BASE, WINDOW}, false);
    attach_restored(&(struct pfl_resume_offer){UINT64_MAX, UINT64_MAX, WINDOW}, false);
    pfl_sweep_assert_no_leak();
}

static void what_cannot_have_been_kept_is_refused(void **state)
{
    uint8_t *ring = make_kept();
    const struct pfl_resume_kept bad[] = {
        {.out_base = 2, .out_end = 1, .out_data = ring, .out_capacity = 16},
        {.out_end = 17, .out_data = ring, .out_capacity = 16},
        {.out_end = OUT + 1, .out_data = ring, .out_capacity = 4096},
        {.out_end = UINT64_MAX, .out_data = ring, .out_capacity = 16},
        {.out_end = 1, .out_data = ring, .out_capacity = 24},
        {.out_end = 1},
        {.out_capacity = 16},
        {.out_data = ring},
    };
    struct pfl_resume r;

    (void)state;
    pfl_resume_init(&r, OUT, WINDOW);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(pfl_resume_restore(&r, &bad[i]), PFL_EPARSE);
    pfl_mem_free(ring); /* it is still ours */
    assert_int_equal(pfl_resume_restore(&r, &(struct pfl_resume_kept){.out_base = 5, .out_end = 5}),
                     0);
    assert_int_equal(pfl_resume_write(&r, pfl_span_of("x", 1)), 0);
    assert_int_equal(r.out.base, 5);
    pfl_resume_fini(&r);
    pfl_sweep_assert_no_leak();
}

/* ---- two ends and connections between them ---- */

struct end {
    struct pfl_resume resume;
    struct pfl_resume_offer sent_offer;
    uint64_t written; /* by its owner */
    uint64_t used;
    uint64_t total;             /* to write */
    uint8_t in_flight[1 << 14]; /* bytes under way to this end */
    size_t in_flight_len;
    uint32_t credit_in_flight; /* credit under way to this end */
    bool has_end_in_flight;
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

    if (room > sizeof(to->in_flight) - to->in_flight_len)
        room = sizeof(to->in_flight) - to->in_flight_len;
    to->in_flight_len +=
        pfl_resume_pull(&ends[i].resume, to->in_flight + to->in_flight_len, room, &is_end);
    to->has_end_in_flight |= is_end;
    to->credit_in_flight += pfl_resume_take_credit(&ends[i].resume);
}

static void receive_some(unsigned i)
{
    struct end *e = &ends[i];
    size_t len = e->in_flight_len != 0 ? 1 + roll((uint32_t)e->in_flight_len) : 0;

    if (len != 0 && pfl_resume_held(&e->resume) == 0 && roll(2) == 0) {
        for (size_t k = 0; k < len; k++)
            assert_int_equal(e->in_flight[k], byte_at(1 - i, e->used + k));
        assert_int_equal(pfl_resume_pass(&e->resume, len), 0);
        e->used += len;
    } else if (len != 0) {
        assert_int_equal(pfl_resume_feed(&e->resume, pfl_span_of(e->in_flight, len)), 0);
    }
    memmove(e->in_flight, e->in_flight + len, e->in_flight_len - len);
    e->in_flight_len -= len;
    if (e->in_flight_len == 0 && e->has_end_in_flight)
        pfl_resume_feed_end(&e->resume);
    if (e->credit_in_flight != 0)
        assert_int_equal(pfl_resume_on_credit(&e->resume, e->credit_in_flight), 0);
    e->credit_in_flight = 0;
    assert_true(pfl_resume_held(&e->resume) <= WINDOW);
}

/* Its process dies: what is left of it is what was credited, used up and kept for sending. */
static void replace(unsigned i)
{
    struct pfl_resume *r = &ends[i].resume;
    struct pfl_resume_kept left = {.in_used = r->in.base,
                                   .out_base = r->out.base,
                                   .out_end = r->out.end,
                                   .out_data = r->out.data,
                                   .out_capacity = r->out.capacity};

    pfl_replay_fini(&r->in);
    pfl_resume_init(r, OUT, WINDOW);
    assert_int_equal(pfl_resume_restore(r, &left), 0);
    assert_int_equal(ends[i].used, r->in.base);
    if (ends[i].written == ends[i].total)
        pfl_resume_end(r);
}

static void cut(void)
{
    for (unsigned i = 0; i < 2; i++) {
        pfl_resume_detach(&ends[i].resume);
        ends[i].in_flight_len = 0;
        ends[i].credit_in_flight = 0;
        ends[i].has_end_in_flight = false;
    }
}

/* The requesting side's offer was made some time before the answer comes. */
static void join(void)
{
    struct end *asker = &ends[0];
    struct end *answerer = &ends[1];

    pfl_resume_get_offer(&asker->resume, &asker->sent_offer);
    use_some(1);
    pfl_resume_get_offer(&answerer->resume, &answerer->sent_offer);
    assert_int_equal(
        pfl_resume_attach(&answerer->resume, &asker->sent_offer, &answerer->sent_offer), 0);
    if (roll(4) == 0) {
        cut(); /* the answer is lost */
        return;
    }
    use_some(0);
    assert_int_equal(pfl_resume_attach(&asker->resume, &answerer->sent_offer, &asker->sent_offer),
                     0);
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

static void step(uint32_t cut_sides, bool is_mortal)
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
    if (!ends[0].resume.is_attached) {
        join();
    } else if (cut_sides != 0 && roll(cut_sides) == 0) {
        cut();
        if (is_mortal && roll(2) == 0)
            replace(1);
    }
}

static void run_to_the_end(bool is_mortal)
{
    for (unsigned seed = 1; seed <= 60; seed++) {
        unsigned steps = 0;

        dice = seed;
        begin(5000 + seed, 60000);
        while (!pfl_resume_is_done(&ends[0].resume) || !pfl_resume_is_done(&ends[1].resume)) {
            /* Rare cuts at the end, or the last ends never both arrive. */
            step(steps < 20000 ? 2 + seed : 1000, is_mortal);
            assert_true(++steps < 2000000);
        }
        assert_int_equal(ends[0].used, ends[1].total);
        assert_int_equal(ends[1].used, ends[0].total);
        finish();
    }
}

static void every_byte_arrives_once_and_in_order_however_often_the_h2_stream_is_cut(void **state)
{
    (void)state;
    run_to_the_end(false);
}

static void every_byte_arrives_once_and_in_order_however_often_an_end_is_replaced(void **state)
{
    (void)state;
    run_to_the_end(true);
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
    /* join uses some of what the requesting side has; the rest is at most the window. */
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
    assert_int_equal(pfl_resume_attach(&ends[1].resume, &first, &ends[1].sent_offer), 0);
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
                                       &ends[1].sent_offer),
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
        cmocka_unit_test(what_was_kept_goes_on_with_every_offer_that_can_be_true),
        cmocka_unit_test(what_cannot_have_been_kept_is_refused),
        cmocka_unit_test(every_byte_arrives_once_and_in_order_however_often_the_h2_stream_is_cut),
        cmocka_unit_test(every_byte_arrives_once_and_in_order_however_often_an_end_is_replaced),
        cmocka_unit_test(a_reader_that_never_reads_is_sent_one_window_however_often_it_comes_back),
        cmocka_unit_test(offers_that_cannot_be_true_are_refused_and_change_nothing),
        cmocka_unit_test(credit_for_bytes_that_were_not_sent_is_refused),
        cmocka_unit_test(bytes_past_the_window_or_after_the_end_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
