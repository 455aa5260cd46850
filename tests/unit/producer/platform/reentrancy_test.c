/* SPDX-License-Identifier: Apache-2.0 */
/* Signal handlers that trace: refused where they interrupt the library, else without harm. */
#include "tests/unit/producer/client_fixture.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "producer/perfleet_track_event.h"
#include "producer/platform/heap.h"

PERFLEET_CATEGORY_DEFINE(signals, "signals", NULL, NULL)

static struct perfleet_source *source;
static _Atomic(int) handled, written;

static void write_one(void)
{
    struct perfleet_writer *w;

    PERFLEET_TRACE(source, w)
    {
        perfleet_packet_begin(w);
        perfleet_begin(w, 900);
        perfleet_uint(w, 2, 7);
        perfleet_end(w);
        perfleet_packet_end(w);
        atomic_fetch_add(&written, 1);
    }
}

static void on_signal(int number)
{
    (void)number;
    atomic_fetch_add(&handled, 1);
    write_one();
    PERFLEET_EVENT (ev, &signals, PERFLEET_INSTANT, "signal")
        perfleet_arg(ev, "handled", atomic_load(&handled));
}

static void handle(void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler};

    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    atomic_store(&handled, 0);
    atomic_store(&written, 0);
}

/* A session without a service that reads: what does not fit is dropped. */
static void start(struct client_fixture *f)
{
    fake_listen(&f->service);
    client_open_fixture(f, PERFLEET_POLICY_BY_CONFIG);
    client_start_session(f);
    source = f->source;
    handle(on_signal);
}

static void a_handler_that_interrupts_a_packet_writes_nothing(void **state)
{
    struct perfleet_writer *w;
    struct client_fixture f;
    uint32_t rounds = 0;

    (void)state;
    start(&f);
    raise(SIGUSR1);
    assert_int_equal(written, 1);
    PERFLEET_TRACE(source, w)
    {
        perfleet_packet_begin(w);
        perfleet_begin(w, 900);
        raise(SIGUSR1);
        assert_int_equal(written, 1);
        perfleet_end(w);
        perfleet_packet_end(w);
        raise(SIGUSR1); /* between packets, but still inside */
        assert_int_equal(written, 1);
        rounds++;
    }
    assert_int_equal(rounds, 1);
    raise(SIGUSR1);
    assert_int_equal(written, 2);
    assert_int_equal(handled, 4);
    client_close_fixture(&f);
}

static void a_block_that_is_left_early_does_not_lock_the_thread_out(void **state)
{
    struct perfleet_writer *w;
    struct client_fixture f;

    (void)state;
    start(&f);
    PERFLEET_TRACE(source, w)
    {
        perfleet_packet_begin(w);
        perfleet_uint(w, 8, 1);
        break; /* the packet ends with the block */
    }
    write_one();
    assert_int_equal(written, 1);
    client_close_fixture(&f);
}

static void packets_inside_a_block_are_left_out(void **state)
{
    struct perfleet_writer *w;
    struct client_fixture f;

    (void)state;
    start(&f);
    PERFLEET_TRACE(source, w)
    write_one();
    assert_int_equal(written, 0);
    write_one();
    assert_int_equal(written, 1);
    client_close_fixture(&f);
}

/* --- storms ------------------------------------------------------------------------------ */

enum { SIGNALS = 20000 };

struct storm {
    pthread_t victim;
    _Atomic(uint32_t) is_over;
};

static void *rage(void *arg)
{
    struct storm *storm = arg;

    /* On a busy machine most of them are one signal, or hit the same block: more, then. */
    for (int i = 0; i < SIGNALS || (atomic_load(&written) == 0 && i < 1000 * SIGNALS); i++) {
        pthread_kill(storm->victim, SIGUSR1);
        if (i >= SIGNALS)
            sched_yield();
    }
    atomic_store(&storm->is_over, 1);
    return NULL;
}

/* Everything that a thread does: its own packets, the heap, the end of its writers. */
static void *trace_and_allocate(void *arg)
{
    struct storm *storm = arg;
    struct perfleet_writer *w;
    pthread_t rager;

    storm->victim = pthread_self();
    assert_int_equal(pthread_create(&rager, NULL, rage, storm), 0);
    for (uint32_t n = 0; !atomic_load(&storm->is_over); n++) {
        void *volatile block = pfl_mem_alloc(n % 4000 + 1);

        PERFLEET_TRACE(source, w)
        {
            perfleet_packet_begin(w);
            perfleet_bytes(w, 1, block, n % 4000 + 1);
            perfleet_packet_end(w);
        }
        pfl_mem_free(block);
        if (n % 64 == 0)
            pfl_source_drop_thread(); /* the handler makes the next writer, or we do */
    }
    pthread_join(rager, NULL);
    return NULL;
}

static void handlers_that_come_at_any_moment_do_no_harm(void **state)
{
    struct storm storm = {0};
    struct client_fixture f;
    pthread_t thread;

    (void)state;
    /* buffer_exhausted_policy: drop */
    static const uint8_t config[] = {0x0a, 8,   'c', 'o',  'm', '.',  't',
                                     'e',  's', 't', 0x10, 3,   0x48, 1};

    fake_listen(&f.service);
    client_open_fixture(&f, PERFLEET_POLICY_BY_CONFIG);
    client_start_session(&f);
    fake_instance_command(&f.service, 1, 12, pfl_span_of(config, sizeof(config)));
    fake_expect(&f.service, FAKE_NOTIFY_STARTED);
    {
        static const uint8_t stop[] = {0x08, 11};

        fake_command(&f.service, 2, pfl_span_of(stop, sizeof(stop)));
        fake_expect(&f.service, FAKE_NOTIFY_STOPPED);
    }
    source = f.source;
    handle(on_signal);
    assert_int_equal(pthread_create(&thread, NULL, trace_and_allocate, &storm), 0);
    pthread_join(thread, NULL);
    assert_true(handled > 0);
    assert_true(written > 0);
    handle(SIG_IGN);
    client_close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_handler_that_interrupts_a_packet_writes_nothing),
        cmocka_unit_test(a_block_that_is_left_early_does_not_lock_the_thread_out),
        cmocka_unit_test(packets_inside_a_block_are_left_out),
        cmocka_unit_test(handlers_that_come_at_any_moment_do_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
