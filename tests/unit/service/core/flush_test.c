/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/flush.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

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

static uint64_t add(struct pfl_flush_book *book, uint64_t session, uint64_t deadline_ms,
                    const uint16_t *producers, size_t producers_len)
{
    struct pfl_flush *flush;

    assert_int_equal(pfl_flush_book_new_flush(book, session, producers_len, &flush), 0);
    flush->deadline_ms = deadline_ms;
    for (size_t i = 0; i < producers_len; i++)
        flush->waiting[flush->waiting_len++] = producers[i];
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
    pfl_flush_book_init(&book);
    id = add(&book, 7, 100, both, 2);
    pfl_flush_book_ack(&book, 1, id, on_answered, &ended);
    pfl_flush_book_ack(&book, 1, id, on_answered, &ended);
    assert_int_equal(ended.len, 0);
    pfl_flush_book_ack(&book, 2, id, on_answered, &ended);
    assert_int_equal(ended.len, 1);
    assert_int_equal(ended.ids[0], id);
    assert_true(ended.ok[0]);
    assert_int_equal(book.waiting_total, 0);
    pfl_flush_book_fini(&book);
    pfl_sweep_assert_no_leak();
}

static void an_ack_covers_older_flushes_of_all_sessions_and_no_newer(void **state)
{
    struct pfl_flush_book book;
    struct ended ended = {0};
    uint64_t second;

    (void)state;
    pfl_flush_book_init(&book);
    (void)add(&book, 7, 100, both, 1);
    second = add(&book, 8, 100, both, 1);
    (void)add(&book, 7, 100, both, 1);
    pfl_flush_book_ack(&book, 1, second, on_answered, &ended);
    assert_int_equal(ended.len, 2);
    assert_int_equal(ended.ids[1], second);
    pfl_flush_book_ack(&book, 9, UINT64_MAX, on_answered, &ended);
    assert_int_equal(ended.len, 2);
    pfl_flush_book_fini(&book);
}

static void a_deadline_fails_the_flush(void **state)
{
    struct pfl_flush_book book;
    struct ended ended = {0};

    (void)state;
    pfl_flush_book_init(&book);
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
    pfl_flush_book_init(&book);
    first = add(&book, 7, 100, both, 2);
    second = add(&book, 8, 100, &both[1], 1);
    pfl_flush_book_lose(&book, 1, on_answered, &ended);
    assert_int_equal(ended.len, 0); /* producer 2 is still waited for */
    pfl_flush_book_ack(&book, 2, second, on_answered, &ended);
    assert_int_equal(ended.len, 2);
    assert_int_equal(ended.ids[0], first);
    assert_false(ended.ok[0]);
    assert_int_equal(ended.ids[1], second);
    assert_true(ended.ok[1]);
    (void)add(&book, 7, 100, both, 1);
    pfl_flush_book_lose(&book, 1, on_answered, &ended);
    assert_int_equal(ended.len, 3);
    assert_false(ended.ok[2]);
    assert_int_equal(book.waiting_total, 0);
    pfl_flush_book_fini(&book);
    pfl_sweep_assert_no_leak();
}

static void cancelling_ends_only_that_session(void **state)
{
    struct pfl_flush_book book;
    struct ended ended = {0};

    (void)state;
    pfl_flush_book_init(&book);
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
    pfl_flush_book_init(&book);
    for (unsigned i = 0; i <= PFL_FLUSH_MAX_PER_SESSION; i++)
        (void)add(&book, 7, 100, both, i % 2);
    assert_int_equal(pfl_flush_book_new_flush(&book, 7, 1, &flush), PFL_ELIMIT);
    assert_int_equal(pfl_flush_book_new_flush(&book, 8, 1, &flush), 0);
    pfl_flush_free(flush);
    assert_int_equal(pfl_flush_book_new_flush(&book, 8, PFL_FLUSH_MAX_WAITING, &flush), PFL_ELIMIT);
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
    pfl_flush_book_init(&book);
    first = add(&book, 7, 100, both, 1);
    (void)add(&book, 8, 100, NULL, 0);
    pfl_flush_book_ack(&book, 1, first, on_answered, &ended);
    assert_true(pfl_flush_book_has_answered(&book, 7));
    pfl_flush_book_join(&book, 7);
    (void)add(&book, 7, 100, NULL, 0);
    /* Nobody waits for it any more. */
    pfl_flush_book_expire(&book, 100, on_answered, &ended);
    pfl_flush_book_ack(&book, 1, UINT64_MAX, on_answered, &ended);
    assert_int_equal(ended.len, 1);
    assert_true(pfl_flush_book_next_deadline_ms(&book) == UINT64_MAX);
    flush = pfl_flush_book_take_joined(&book, 7);
    assert_int_equal(flush->id, first);
    assert_true(flush->is_ok);
    pfl_flush_free(flush);
    assert_null(pfl_flush_book_take_joined(&book, 7));
    assert_null(pfl_flush_book_take_joined(&book, 8));
    assert_true(pfl_flush_book_has_answered(&book, 7));
    pfl_flush_book_cancel(&book, 7, on_done, &ended);
    assert_int_equal(ended.len, 2);
    assert_false(ended.ok[1]);
    pfl_flush_book_fini(&book);
    pfl_sweep_assert_no_leak();
}

static int make_one(void *arg)
{
    struct pfl_flush_book book;
    struct pfl_flush *flush;
    int rc;

    (void)arg;
    pfl_flush_book_init(&book);
    rc = pfl_flush_book_new_flush(&book, 1, 2, &flush);
    if (rc == 0)
        pfl_flush_free(flush);
    pfl_flush_book_fini(&book);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    pfl_sweep(make_one, NULL, false);
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
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
