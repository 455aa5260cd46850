/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/flush.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/clock.h"

#include "tests/support/sweep.h"

struct ended {
    uint64_t ids[64];
    bool ok[64];
    unsigned len;
};

static void on_done(void *user, const struct pfl_flush *flush, bool is_ok)
{
    struct ended *ended = user;

    ended->ids[ended->len] = flush->id;
    ended->ok[ended->len++] = is_ok;
}

static void on_answered(void *user, struct pfl_flush *flush)
{
    on_done(user, flush, flush->is_ok);
}

#define PRODUCERS 4u

static struct pfl_list waits[PRODUCERS]; /* of the producer with that id */

static void open_book(struct pfl_flush_book *book)
{
    for (size_t i = 0; i < PRODUCERS; i++)
        pfl_list_init(&waits[i]);
    pfl_flush_book_init(book, NULL);
}

static int make(struct pfl_flush_book *book, uint64_t session, uint64_t who, size_t producers_len,
                struct pfl_flush **ret_flush)
{
    const struct pfl_flush_conf conf = {
        .session_id = session, .who = who, .producers_max = producers_len};

    return pfl_flush_book_new_flush(book, &conf, ret_flush);
}

static uint64_t add(struct pfl_flush_book *book, uint64_t session, uint64_t deadline_ms,
                    const uint16_t *producers, size_t producers_len)
{
    struct pfl_flush *flush;

    assert_int_equal(make(book, session, 0, producers_len, &flush), 0);
    flush->deadline_ms = deadline_ms;
    for (size_t i = 0; i < producers_len; i++)
        pfl_flush_wait_for(flush, &waits[producers[i]], producers[i]);
    pfl_flush_book_add(book, flush);
    return flush->id;
}

static const uint16_t both[] = {1, 2};

static void a_flush_ends_with_its_last_producer(void **state)
{
    struct pfl_flush_book book;
    struct ended ended = {0};
    uint64_t id;

    (void)state;
    open_book(&book);
    id = add(&book, 7, 100, both, 2);
    pfl_flush_book_ack(&book, &waits[1], id, on_answered, &ended);
    pfl_flush_book_ack(&book, &waits[1], id, on_answered, &ended);
    assert_int_equal(ended.len, 0);
    pfl_flush_book_ack(&book, &waits[2], id, on_answered, &ended);
    assert_int_equal(ended.len, 1);
    assert_int_equal(ended.ids[0], id);
    assert_true(ended.ok[0]);
    assert_int_equal(book.waits.used, 0);
    pfl_flush_book_fini(&book);
    pfl_sweep_assert_no_leak();
}

static void an_ack_covers_older_flushes_of_all_sessions_and_no_newer(void **state)
{
    struct pfl_flush_book book;
    struct ended ended = {0};
    uint64_t second;

    (void)state;
    open_book(&book);
    (void)add(&book, 7, 100, both, 1);
    second = add(&book, 8, 100, both, 1);
    (void)add(&book, 7, 100, both, 1);
    pfl_flush_book_ack(&book, &waits[1], second, on_answered, &ended);
    assert_int_equal(ended.len, 2);
    assert_int_equal(ended.ids[1], second);
    pfl_flush_book_ack(&book, &waits[3], UINT64_MAX, on_answered, &ended);
    assert_int_equal(ended.len, 2);
    pfl_flush_book_fini(&book);
}

static void a_deadline_fails_the_flush(void **state)
{
    struct pfl_flush_book book;
    struct ended ended = {0};

    (void)state;
    open_book(&book);
    assert_true(pfl_flush_book_next_deadline_ms(&book) == UINT64_MAX);
    (void)add(&book, 7, 100, both, 2);
    (void)add(&book, 7, 50, both, 2);
    assert_int_equal(pfl_flush_book_next_deadline_ms(&book), 50);
    pfl_flush_book_expire(&book, 99, on_answered, &ended);
    assert_int_equal(ended.len, 1);
    assert_int_equal(ended.ids[0], 2);
    assert_false(ended.ok[0]);
    pfl_flush_book_expire(&book, 100, on_answered, &ended);
    assert_int_equal(ended.len, 2);
    pfl_flush_book_fini(&book);
}

static void a_producer_that_is_gone_fails_its_flushes_at_once(void **state)
{
    struct pfl_flush_book book;
    struct ended ended = {0};
    uint64_t first;
    uint64_t second;

    (void)state;
    open_book(&book);
    first = add(&book, 7, 100, both, 2);
    second = add(&book, 8, 100, &both[1], 1);
    pfl_flush_book_lose(&book, &waits[1], on_answered, &ended);
    assert_int_equal(ended.len, 0); /* producer 2 is still waited for */
    pfl_flush_book_ack(&book, &waits[2], second, on_answered, &ended);
    assert_int_equal(ended.len, 2);
    assert_int_equal(ended.ids[0], first);
    assert_false(ended.ok[0]);
    assert_int_equal(ended.ids[1], second);
    assert_true(ended.ok[1]);
    (void)add(&book, 7, 100, both, 1);
    pfl_flush_book_lose(&book, &waits[1], on_answered, &ended);
    assert_int_equal(ended.len, 3);
    assert_false(ended.ok[2]);
    assert_int_equal(book.waits.used, 0);
    pfl_flush_book_fini(&book);
    pfl_sweep_assert_no_leak();
}

static void cancelling_ends_only_that_session(void **state)
{
    struct pfl_flush_book book;
    struct ended ended = {0};

    (void)state;
    open_book(&book);
    (void)add(&book, 7, 100, both, 2);
    (void)add(&book, 8, 100, both, 2);
    pfl_flush_book_cancel(&book, 7, on_done, &ended);
    assert_int_equal(ended.len, 1);
    assert_int_equal(ended.ids[0], 1);
    assert_false(ended.ok[0]);
    pfl_flush_book_fini(&book);
    pfl_sweep_assert_no_leak();
}

static void a_session_may_not_pile_up_flushes(void **state)
{
    struct pfl_flush_book book;
    struct pfl_flush *flush;

    (void)state;
    open_book(&book);
    for (unsigned i = 0; i <= PFL_FLUSH_MAX_PER_SESSION; i++)
        (void)add(&book, 7, 100, both, i % 2);
    assert_int_equal(make(&book, 7, 0, 1, &flush), PFL_ELIMIT);
    assert_int_equal(make(&book, 8, 0, 1, &flush), 0);
    pfl_flush_book_free(&book, flush);
    assert_int_equal(make(&book, 8, 0, PFL_FLUSH_MAX_WAITING, &flush), PFL_ELIMIT);
    pfl_flush_book_fini(&book);
    pfl_sweep_assert_no_leak();
}

static void answered_flushes_end_with_the_scrape_that_they_joined(void **state)
{
    struct pfl_flush_book book;
    struct pfl_flush *flush;
    struct ended ended = {0};
    uint64_t first;

    (void)state;
    open_book(&book);
    first = add(&book, 7, 100, both, 1);
    (void)add(&book, 8, 100, NULL, 0);
    pfl_flush_book_ack(&book, &waits[1], first, on_answered, &ended);
    assert_true(pfl_flush_book_has_answered(&book, 7));
    pfl_flush_book_join(&book, 7);
    (void)add(&book, 7, 100, NULL, 0);
    /* Nobody waits for it any more. */
    pfl_flush_book_expire(&book, 100, on_answered, &ended);
    pfl_flush_book_ack(&book, &waits[1], UINT64_MAX, on_answered, &ended);
    assert_int_equal(ended.len, 1);
    assert_true(pfl_flush_book_next_deadline_ms(&book) == UINT64_MAX);
    flush = pfl_flush_book_take_joined(&book, 7);
    assert_int_equal(flush->id, first);
    assert_true(flush->is_ok);
    pfl_flush_book_free(&book, flush);
    assert_null(pfl_flush_book_take_joined(&book, 7));
    assert_null(pfl_flush_book_take_joined(&book, 8));
    assert_true(pfl_flush_book_has_answered(&book, 7));
    pfl_flush_book_cancel(&book, 7, on_done, &ended);
    assert_int_equal(ended.len, 2);
    assert_false(ended.ok[1]);
    pfl_flush_book_fini(&book);
    pfl_sweep_assert_no_leak();
}

static void one_user_has_half_of_what_flushes_wait_for_and_pays_for_it(void **state)
{
    struct pfl_shares memory = {.max = 64ull << 20};
    struct pfl_flush_book book;
    struct pfl_flush *half;
    struct pfl_flush *others;
    struct pfl_flush *more;

    (void)state;
    pfl_flush_book_init(&book, &memory);
    assert_int_equal(make(&book, 7, 1000, PFL_FLUSH_MAX_WAITING / 2 + 1, &half), PFL_ELIMIT);
    assert_int_equal(make(&book, 7, 1000, PFL_FLUSH_MAX_WAITING / 2, &half), 0);
    assert_int_equal(memory.used, sizeof(struct pfl_flush) +
                                      PFL_FLUSH_MAX_WAITING / 2 * sizeof(struct pfl_flush_wait));
    assert_int_equal(make(&book, 8, 1000, 1, &more), PFL_ELIMIT);
    assert_int_equal(make(&book, 9, 1001, 1000, &others), 0);
    assert_int_equal(make(&book, 10, 0, 1000, &more), 0);
    pfl_flush_book_free(&book, more);
    memory.max = memory.used + 100;
    assert_int_equal(make(&book, 9, 1001, 1, &more), PFL_ELIMIT);
    assert_int_equal(book.waits.used, PFL_FLUSH_MAX_WAITING / 2 + 1000);
    pfl_flush_book_free(&book, half);
    pfl_flush_book_free(&book, others);
    assert_int_equal(book.waits.used, 0);
    assert_int_equal(memory.used, 0);
    pfl_flush_book_fini(&book);
    pfl_sweep_assert_no_leak();
}

/* The producer that acknowledges is in the last of them; the others' lists are broken, so that a
 * walk over them would fault. */
static void an_ack_touches_only_what_waits_for_its_producer(void **state)
{
    struct pfl_flush_book book;
    struct ended ended = {0};
    struct pfl_list *first;
    uint64_t id;

    (void)state;
    open_book(&book);
    for (unsigned i = 0; i < 100; i++)
        (void)add(&book, 7, 100, both, 1);
    id = add(&book, 8, 100, &both[1], 1);
    first = book.pending.next;
    book.pending.next = NULL;
    pfl_flush_book_ack(&book, &waits[2], id - 1, on_answered, &ended);
    assert_int_equal(ended.len, 0);
    pfl_flush_book_ack(&book, &waits[3], UINT64_MAX, on_answered, &ended);
    pfl_flush_book_lose(&book, &waits[3], on_answered, &ended);
    assert_int_equal(ended.len, 0);
    pfl_flush_book_ack(&book, &waits[2], id, on_answered, &ended);
    assert_int_equal(ended.len, 1);
    assert_int_equal(ended.ids[0], id);
    book.pending.next = first;
    pfl_flush_book_fini(&book);
    assert_true(pfl_list_is_empty(&waits[1]));
    pfl_sweep_assert_no_leak();
}

static void after_its_deadline_a_flush_knows_who_was_late(void **state)
{
    struct pfl_flush_book book;
    struct ended ended = {0};
    struct pfl_flush *flush;
    uint64_t id;

    (void)state;
    open_book(&book);
    id = add(&book, 7, 100, both, 2);
    pfl_flush_book_ack(&book, &waits[1], id, on_answered, &ended);
    pfl_flush_book_expire(&book, 100, on_answered, &ended);
    assert_int_equal(ended.len, 1);
    pfl_flush_book_ack(&book, &waits[2], id, on_answered, &ended);
    assert_int_equal(ended.len, 1);
    pfl_flush_book_join(&book, 7);
    flush = pfl_flush_book_take_joined(&book, 7);
    assert_false(flush->waits[0].is_open);
    assert_true(flush->waits[1].is_open);
    assert_int_equal(flush->waits[1].producer_id, 2);
    pfl_flush_book_free(&book, flush);
    pfl_flush_book_fini(&book);
    pfl_sweep_assert_no_leak();
}

static int make_one(void *arg)
{
    struct pfl_flush_book book;
    struct pfl_flush *flush;
    int rc;

    (void)arg;
    open_book(&book);
    rc = make(&book, 1, 0, 2, &flush);
    if (rc == 0)
        pfl_flush_book_free(&book, flush);
    pfl_flush_book_fini(&book);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    pfl_sweep(make_one, NULL, false);
}

#define MANY 4000u

static void count_one(void *user, struct pfl_flush *flush)
{
    assert_false(flush->is_ok);
    ++*(unsigned *)user;
}

/* How long it takes, with so many in front that are not due. */
static uint64_t expire_many(unsigned others)
{
    struct pfl_flush_book book;
    unsigned ended = 0;
    uint64_t began_ns;
    uint64_t took_ns;

    open_book(&book);
    for (unsigned i = 0; i < others + MANY; i++)
        (void)add(&book, i / 500, i < others ? 300 + i : 200, both, 1);
    began_ns = pfl_clock_now_ns(PFL_CLOCK_MONOTONIC);
    pfl_flush_book_expire(&book, 200, count_one, &ended);
    took_ns = pfl_clock_now_ns(PFL_CLOCK_MONOTONIC) - began_ns;
    assert_int_equal(ended, MANY);
    assert_int_equal(pfl_flush_book_next_deadline_ms(&book), others != 0 ? 300 : UINT64_MAX);
    pfl_flush_book_fini(&book);
    return took_ns;
}

static void those_that_are_due_together_cost_one_walk_over_the_others(void **state)
{
    (void)state;
    assert_true(expire_many(MANY) < 20 * expire_many(0) + 2000000);
}

static void those_that_are_due_end_in_their_order(void **state)
{
    static const uint64_t deadlines_ms[] = {300, 100, 50, 200, 100, 301};
    static const uint64_t expected[] = {2, 3, 5};
    struct pfl_flush_book book;
    struct ended ended = {0};

    (void)state;
    open_book(&book);
    for (size_t i = 0; i < 6; i++)
        (void)add(&book, 1 + i % 2, deadlines_ms[i], both, 2);
    pfl_flush_book_expire(&book, 100, on_answered, &ended);
    assert_int_equal(ended.len, 3);
    assert_memory_equal(ended.ids, expected, sizeof(expected));
    assert_int_equal(pfl_flush_book_next_deadline_ms(&book), 200);
    ended.len = 0;
    pfl_flush_book_cancel(&book, 2, on_done, &ended); /* answered ones first */
    assert_int_equal(ended.len, 3);
    assert_int_equal(ended.ids[0], 2);
    assert_int_equal(ended.ids[1], 4);
    assert_int_equal(ended.ids[2], 6);
    pfl_flush_book_fini(&book);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flush_ends_with_its_last_producer),
        cmocka_unit_test(an_ack_covers_older_flushes_of_all_sessions_and_no_newer),
        cmocka_unit_test(a_deadline_fails_the_flush),
        cmocka_unit_test(a_producer_that_is_gone_fails_its_flushes_at_once),
        cmocka_unit_test(cancelling_ends_only_that_session),
        cmocka_unit_test(a_session_may_not_pile_up_flushes),
        cmocka_unit_test(answered_flushes_end_with_the_scrape_that_they_joined),
        cmocka_unit_test(one_user_has_half_of_what_flushes_wait_for_and_pays_for_it),
        cmocka_unit_test(an_ack_touches_only_what_waits_for_its_producer),
        cmocka_unit_test(after_its_deadline_a_flush_knows_who_was_late),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(those_that_are_due_together_cost_one_walk_over_the_others),
        cmocka_unit_test(those_that_are_due_end_in_their_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
