/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many threads, one small shared memory, a reader that keeps freeing it: packets check themselves,
 * and what was written is what arrived. Also the test to run under ThreadSanitizer.
 */
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "producer/shared_memory/writer.h"
#include "tests/unit/producer/smb_reader.h"

enum { THREADS = 6, PACKETS = 3000, SIZES = 9000 };

struct shared {
    struct smb_reader reader;
    enum perfleet_policy policy;
    _Atomic(uint32_t) running;
    struct perfleet_writer_stats stats[THREADS];
    uint16_t thread_of_writer[64];
};

struct thread {
    struct shared *shared;
    pthread_t id;
    uint32_t index;
};

static _Atomic(uint32_t) clears;

static uint32_t size_of(uint32_t thread, uint32_t n)
{
    uint32_t x = (thread * 7919 + n) * 2654435761u;

    return n % 50 == 0 ? x % SIZES : x % 200;
}

/* {1: thread, 2: n, 3: {1: bytes of size_of(thread, n), each the low byte of n}, 2: n} */
static void write_packet(struct perfleet_writer *w, uint32_t thread, uint32_t n)
{
    uint8_t fill[SIZES];
    uint32_t size = size_of(thread, n);

    memset(fill, (int)(n & 0xff), size);
    perfleet_packet_begin(w);
    perfleet_uint(w, 1, thread);
    perfleet_begin(w, 3);
    perfleet_bytes(w, 1, fill, size);
    perfleet_end(w);
    perfleet_uint(w, 2, n);
    perfleet_packet_end(w);
}

static void *run_thread(void *arg)
{
    struct thread *t = arg;
    struct pfl_trace_writer_conf conf = {.arbiter = t->shared->reader.arbiter,
                                         .buffer = 1,
                                         .policy = t->shared->policy,
                                         .clears = &clears};
    struct pfl_trace_writer *w = NULL;

    if (pfl_trace_writer_new(&conf, &w) == 0) {
        for (uint32_t n = 0; n < PACKETS; n++) {
            write_packet(pfl_trace_writer_get_public(w), t->index, n);
            if (n % 997 == 0)
                perfleet_writer_flush(pfl_trace_writer_get_public(w));
        }
        perfleet_writer_stats_get(pfl_trace_writer_get_public(w), &t->shared->stats[t->index]);
    }
    pfl_trace_writer_free(w);
    atomic_fetch_sub(&t->shared->running, 1);
    return NULL;
}

static void check_packet(const struct smb_packet *p, uint32_t *ret_thread, uint32_t *ret_n)
{
    struct pfl_reader r = pfl_reader_of(pfl_span_of(p->data, p->len));
    struct pfl_span nested = {0};
    struct pfl_span fill;
    struct pfl_field f;
    uint32_t n = UINT32_MAX;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == 1)
            *ret_thread = (uint32_t)f.value;
        else if (f.id == 2)
            n = (uint32_t)f.value;
        else if (f.id == 3)
            nested = f.bytes;
    }
    assert_false(r.failed);
    assert_true(*ret_thread < THREADS && n < PACKETS);
    r = pfl_reader_of(nested);
    assert_true(pfl_reader_field(&r, &f));
    fill = f.bytes;
    assert_int_equal(r.left, 0);
    assert_int_equal(fill.len, size_of(*ret_thread, n));
    for (size_t i = 0; i < fill.len; i++)
        assert_int_equal(fill.data[i], n & 0xff);
    *ret_n = n;
}

static void run_all(enum perfleet_policy policy, uint32_t pages, struct shared *shared,
                    uint64_t *ret_arrived)
{
    struct thread threads[THREADS];
    uint32_t last[THREADS];

    memset(shared, 0, sizeof(*shared));
    shared->policy = policy;
    shared->running = THREADS;
    smb_reader_init(&shared->reader, 4096, pages);
    for (uint32_t i = 0; i < THREADS; i++) {
        threads[i] = (struct thread){.shared = shared, .index = i};
        last[i] = UINT32_MAX;
        assert_int_equal(pthread_create(&threads[i].id, NULL, run_thread, &threads[i]), 0);
    }
    while (atomic_load(&shared->running) > 0) {
        smb_reader_take(&shared->reader);
        sched_yield();
    }
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(threads[i].id, NULL);
    smb_reader_assemble(&shared->reader);
    for (size_t i = 0; i < shared->reader.packets_len; i++) {
        uint32_t thread = UINT32_MAX;
        uint32_t n = 0;

        check_packet(&shared->reader.packets[i], &thread, &n);
        assert_true(last[thread] == UINT32_MAX || n > last[thread]);
        last[thread] = n;
    }
    *ret_arrived = shared->reader.packets_len;
    smb_reader_fini(&shared->reader);
}

static struct shared shared_memory;

static void what_was_written_arrived_and_the_rest_was_counted(void **state)
{
    uint64_t written = 0;
    uint64_t arrived = 0;

    (void)state;
    run_all(PERFLEET_DROP, 8, &shared_memory, &arrived);
    for (uint32_t i = 0; i < THREADS; i++) {
        const struct perfleet_writer_stats *s = &shared_memory.stats[i];

        assert_int_equal(s->packets + s->dropped, PACKETS);
        written += s->packets;
    }
    assert_int_equal(written, arrived);
}

static void stalling_writers_lose_nothing(void **state)
{
    uint64_t arrived = 0;

    (void)state;
    run_all(PERFLEET_STALL, 2 * THREADS, &shared_memory, &arrived);
    assert_int_equal(arrived, THREADS * PACKETS);
    for (uint32_t i = 0; i < THREADS; i++)
        assert_int_equal(shared_memory.stats[i].dropped, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_arrived_and_the_rest_was_counted),
        cmocka_unit_test(stalling_writers_lose_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
