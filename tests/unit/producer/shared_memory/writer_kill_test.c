/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chunk protocol between processes: threads of a producer write packets that check themselves,
 * a service takes what is complete, a scraper looks into what is not, and the producer is killed at
 * any moment. Every packet that had ended is then there: whole, once, in its order. The reader is
 * the test's own. PFL_STRESS_PACKETS=5000000 makes it a long run.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "abi/fragment.h"
#include "base/bytes.h"
#include "producer/shared_memory/writer.h"
#include "tests/unit/producer/smb_reader.h"

enum { THREADS = 3, PAGES = 16, PAGE = 4096, SIZE_MAX_ = 9000, PAYLOAD = PAGE - 16, SLOTS = 64 };
enum { FIRST_PACKET_FIELD = 87 };

struct shared {
    _Atomic(uint64_t) ended[THREADS]; /* packets whose end has returned */
};

struct chunk_copy {
    bool is_there;
    uint32_t chunk_id;
    uint8_t flags;
    uint16_t count;
    uint8_t payload[PAYLOAD];
};

struct sequence {
    uint32_t next_chunk_id;
    struct chunk_copy chunks[SLOTS];
    uint8_t packet[2 * SIZE_MAX_];
    size_t packet_len;
    uint64_t next_number;
};

struct world {
    struct smb_reader smb; /* only its memory and arbiter */
    struct shared *shared;
    struct sequence sequences[THREADS + 1]; /* by writer id */
    uint64_t scraped;                       /* packets that the scraper saw whole */
};

static _Atomic(uint32_t) clears;
static uint32_t seed = 12345;

static uint32_t next_random(void)
{
    seed = seed * 1664525u + 1013904223u;
    return seed >> 8;
}

static uint32_t size_of(uint64_t number)
{
    uint32_t x = (uint32_t)number * 2654435761u >> 7;

    return number % 40 == 0 ? x % SIZE_MAX_ : x % 150;
}

/* --- the producer ------------------------------------------------------------------------ */

struct thread {
    struct world *world;
    pthread_t id;
    uint32_t index;
};

/* {1: number, 2: size_of(number) bytes that follow from it} */
static void write_packet(struct perfleet_writer *w, uint64_t number)
{
    uint8_t fill[SIZE_MAX_];
    uint32_t size = size_of(number);

    for (uint32_t i = 0; i < size; i++)
        fill[i] = (uint8_t)(number + i);
    perfleet_packet_begin(w);
    perfleet_uint(w, 1, number);
    perfleet_bytes(w, 2, fill, size);
    perfleet_packet_end(w);
}

static void *run_thread(void *arg)
{
    struct thread *t = arg;
    struct pfl_trace_writer_conf conf = {
        .arbiter = t->world->smb.arbiter, .buffer = 1, .policy = PERFLEET_STALL, .clears = &clears};
    struct pfl_trace_writer *writer = NULL;

    if (pfl_trace_writer_new(&conf, &writer) != 0)
        _exit(1);
    for (uint64_t n = 0;; n++) {
        struct perfleet_writer *w = pfl_trace_writer_get_public(writer);

        write_packet(w, n);
        atomic_store(&t->world->shared->ended[t->index], n + 1);
        if (n % 331 == 0)
            perfleet_writer_flush(w);
    }
    return NULL;
}

/* Ids are given in the order of opening: one thread after the other, or two would swap. */
static void be_the_producer(struct world *world)
{
    static struct thread threads[THREADS];
    struct timespec nap = {.tv_nsec = 20000};

    for (uint32_t i = 0; i < THREADS; i++) {
        threads[i] = (struct thread){.world = world, .index = i};
        if (pthread_create(&threads[i].id, NULL, run_thread, &threads[i]) != 0)
            _exit(1);
        while (atomic_load(&world->shared->ended[i]) == 0)
            nanosleep(&nap, NULL);
    }
    for (;;)
        pause();
}

/* --- the service ------------------------------------------------------------------------- */

static void check_packet(const uint8_t *data, size_t len, uint64_t *ret_number)
{
    struct pfl_reader r = pfl_reader_of(pfl_span_of(data, len));
    struct pfl_span fill = {0};
    struct pfl_field f;

    *ret_number = UINT64_MAX;
    while (pfl_reader_field(&r, &f)) {
        if (f.id == 1)
            *ret_number = f.value;
        else if (f.id == 2)
            fill = f.bytes;
        else
            assert_int_equal(f.id, FIRST_PACKET_FIELD);
    }
    assert_false(r.failed);
    assert_int_equal(fill.len, size_of(*ret_number));
    for (size_t i = 0; i < fill.len; i++)
        assert_int_equal(fill.data[i], (uint8_t)(*ret_number + i));
}

static void end_packet(struct sequence *s)
{
    uint64_t number;

    if (s->packet_len == 0)
        return;
    check_packet(s->packet, s->packet_len, &number);
    assert_int_equal(number, s->next_number);
    s->next_number++;
    s->packet_len = 0;
}

static void read_chunk(struct sequence *s, const struct chunk_copy *c)
{
    struct pfl_reader r = pfl_reader_of(pfl_span_of(c->payload, PAYLOAD));

    for (uint32_t i = 0; i < c->count; i++) {
        struct pfl_span fragment = pfl_reader_bytes(&r, (size_t)pfl_reader_varint(&r));

        assert_false(r.failed);
        assert_int_equal(i == 0 && (c->flags & PFL_CHUNK_CONTINUES_PREV) != 0, s->packet_len != 0);
        assert_true(s->packet_len + fragment.len <= sizeof(s->packet));
        memcpy(s->packet + s->packet_len, fragment.data, fragment.len);
        s->packet_len += fragment.len;
        if (i + 1 < c->count || (c->flags & PFL_CHUNK_CONTINUES_NEXT) == 0)
            end_packet(s);
    }
}

static void read_in_order(struct sequence *s)
{
    struct chunk_copy *c = &s->chunks[s->next_chunk_id % SLOTS];

    while (c->is_there && c->chunk_id == s->next_chunk_id) {
        read_chunk(s, c);
        c->is_there = false;
        c = &s->chunks[++s->next_chunk_id % SLOTS];
    }
}

static void copy_chunk(struct world *world, struct pfl_chunk_header *header, uint32_t leave_out)
{
    struct pfl_chunk_view view = pfl_chunk_look(header);
    struct chunk_copy *c;
    struct sequence *s;

    assert_true(view.writer_id >= 1 && view.writer_id <= THREADS);
    s = &world->sequences[view.writer_id];
    c = &s->chunks[view.chunk_id % SLOTS];
    assert_false(c->is_there);
    *c = (struct chunk_copy){.is_there = true, .chunk_id = view.chunk_id};
    c->count = (uint16_t)(view.count - leave_out);
    c->flags = leave_out == 0 ? view.flags : view.flags & PFL_CHUNK_CONTINUES_PREV;
    memcpy(c->payload, pfl_chunk_payload(header), PAYLOAD);
    read_in_order(s);
}

static void take_complete(struct world *world)
{
    const struct pfl_smb *smb = &world->smb.arbiter->smb;

    for (uint32_t i = 0; i < PAGES; i++) {
        struct pfl_page_header *page = pfl_smb_page(smb, i);
        struct pfl_chunk_header *chunk;
        uint32_t bitmap;

        if (pfl_state_begin_read(page, 0, &bitmap) != PFL_STATE_DONE)
            continue;
        chunk = pfl_smb_chunk(smb, i, bitmap, 0);
        copy_chunk(world, chunk, 0);
        assert_int_equal(pfl_state_end_read(page, 0, chunk), PFL_STATE_DONE);
    }
}

/* What a scraper copies while the writer continues: all fragments but the last are whole. */
static void look_into(struct world *world, struct pfl_page_header *page,
                      struct pfl_chunk_header *header)
{
    struct pfl_chunk_view view = pfl_chunk_look(header);
    uint8_t payload[PAYLOAD];
    struct pfl_reader r = pfl_reader_of(pfl_span_of(payload, PAYLOAD));

    memcpy(payload, pfl_chunk_payload(header), PAYLOAD);
    /* Taken, freed and used again meanwhile: a service holds on to it, this look does not. */
    if (view.count < 2 || pfl_chunk_look(header).chunk_id != view.chunk_id ||
        pfl_chunk_look(header).writer_id != view.writer_id ||
        pfl_page_chunk_state(pfl_page_bitmap(page), 0) == PFL_CHUNK_FREE)
        return;
    for (uint32_t i = 0; i + 1 < view.count; i++) {
        struct pfl_span fragment = pfl_reader_bytes(&r, (size_t)pfl_reader_varint(&r));
        uint64_t number;

        assert_false(r.failed);
        if (fragment.len == 0 || (i == 0 && (view.flags & PFL_CHUNK_CONTINUES_PREV) != 0))
            continue;
        check_packet(fragment.data, fragment.len, &number);
        world->scraped++;
    }
}

/* For each chunk in the hands of a writer; when that is dead its whole packets count. */
static void scrape(struct world *world, bool is_dead)
{
    const struct pfl_smb *smb = &world->smb.arbiter->smb;

    for (uint32_t i = 0; i < PAGES; i++) {
        struct pfl_page_header *page = pfl_smb_page(smb, i);
        uint32_t bitmap = pfl_page_bitmap(page);
        struct pfl_chunk_header *chunk;

        if (pfl_page_layout(bitmap) != PFL_PAGE_DIV1 ||
            pfl_page_chunk_state(bitmap, 0) != PFL_CHUNK_BEING_WRITTEN)
            continue;
        chunk = pfl_smb_chunk(smb, i, bitmap, 0);
        if (!is_dead)
            look_into(world, page, chunk);
        else if (pfl_chunk_look(chunk).count >= 2)
            copy_chunk(world, chunk, 1);
    }
}

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* One life of a producer; returns the packets that arrived. */
static uint64_t run_and_kill(struct world *world)
{
    uint64_t until_ns;
    uint64_t arrived = 0;
    int status;
    pid_t pid;

    memset(world->sequences, 0, sizeof(world->sequences));
    memset(world->shared, 0, sizeof(*world->shared));
    smb_reader_init(&world->smb, PAGE, PAGES);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        be_the_producer(world);
    while (atomic_load(&world->shared->ended[THREADS - 1]) == 0)
        take_complete(world);
    until_ns = now_ns() + next_random() % 8000000;
    while (now_ns() < until_ns) {
        take_complete(world);
        if (next_random() % 4 == 0)
            scrape(world, false);
    }
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    take_complete(world);
    scrape(world, true);
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_true(world->sequences[i + 1].next_number >= world->shared->ended[i]);
        assert_true(world->sequences[i + 1].next_number <= world->shared->ended[i] + 1);
        arrived += world->sequences[i + 1].next_number;
    }
    smb_reader_fini(&world->smb);
    return arrived;
}

static void a_producer_may_be_killed_at_any_moment(void **state)
{
    static struct world world;
    const char *wish = getenv("PFL_STRESS_PACKETS");
    uint64_t wanted = wish == NULL ? 100000 : strtoull(wish, NULL, 10);
    uint64_t arrived = 0;
    uint32_t lives = 0;

    (void)state;
    world.shared = mmap(NULL, sizeof(*world.shared), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(world.shared != MAP_FAILED);
    for (; arrived < wanted || lives < 20; lives++)
        arrived += run_and_kill(&world);
    assert_true(world.scraped > 0);
    print_message("%llu packets of %u producers, %llu looked at while being written\n",
                  (unsigned long long)arrived, lives, (unsigned long long)world.scraped);
    munmap(world.shared, sizeof(*world.shared));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_producer_may_be_killed_at_any_moment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
