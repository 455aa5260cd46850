/* SPDX-License-Identifier: Apache-2.0 */
/* Random histories of a trace buffer, the real one against the model: PFL_MODEL_HISTORIES of STEPS
 * operations, from PFL_MODEL_SEED on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "abi/fragment.h"
#include "service/vm/vm_set.h"
#include "tests/support/sweep.h"
#include "tests/unit/service/buffer/buffer_model.h"

#define WRITERS      4u
#define OPEN_CHUNKS  4u
#define HISTORIES    5200u /* two million operations */
#define STEPS        400u
#define PATCHES_MOST 3u

/* What a writer is at: chunks that may be scraped several times and then committed. */
struct open_chunk {
    uint32_t chunk_id;
    uint8_t flags;
    uint32_t ends[8]; /* of each fragment */
    uint32_t count;
    uint8_t payload[MODEL_PAYLOAD];
    uint32_t payload_bytes;
};

struct writer {
    uint32_t next_id;
    bool is_amid_packet; /* the last chunk ended in a packet that continues */
    struct open_chunk open[OPEN_CHUNKS];
    size_t opened;
};

struct history {
    struct kit_random random;
    struct writer writers[WRITERS];
    struct pfl_trace_buffer *real;
    struct model model;
    struct pfl_trace_buffer_credit credit; /* never used up: the model has none */
    uint64_t packets;
    uint32_t stop_after;           /* packets of this pass */
    uint64_t digest;               /* of the packets of this pass */
    struct pfl_trace_buffer *slow; /* a clone that is being copied, or NULL */
    uint64_t slow_digest;
    uint64_t slow_packets;
    /* Over all histories: packets, losses, rewritten or moved, clones, to a VM, slow clones. */
    uint64_t sum[6];
};

static bool chance(struct history *h, uint32_t percent)
{
    return kit_random(&h->random, 100) < percent;
}

static void make_chunk(struct history *h, struct writer *w, struct open_chunk *c)
{
    uint32_t pos = 0;

    memset(c, 0, sizeof(*c));
    if (chance(h, 5))
        w->next_id += 1 + kit_random(&h->random, 2);
    c->chunk_id = w->next_id++;
    c->count = kit_random(&h->random, 5);
    for (uint32_t i = 0; i < c->count; i++) {
        uint32_t bytes = chance(h, 10) ? 0 : kit_random(&h->random, 60);

        if (chance(h, 50)) {
            pfl_fragment_put_size4(c->payload + pos, bytes);
            pos += PFL_FRAGMENT_SIZE_BYTES;
        } else {
            c->payload[pos++] = (uint8_t)bytes;
        }
        for (uint32_t b = 0; b < bytes; b++)
            c->payload[pos++] = (uint8_t)kit_random(&h->random, 256);
        c->ends[i] = pos;
    }
    if (w->is_amid_packet ? !chance(h, 5) : chance(h, 3))
        c->flags |= 1;
    w->is_amid_packet = c->count != 0 && chance(h, 30);
    if (w->is_amid_packet)
        c->flags |= 2;
    if (w->is_amid_packet && chance(h, 30))
        c->flags |= 4;
    c->payload_bytes = pos + kit_random(&h->random, 100);
    if (chance(h, 2))
        pfl_fragment_put_size4(c->payload + pos, PFL_FRAGMENT_DROP);
    if (chance(h, 2))
        memset(c->payload + pos, 0xff, 12);
}

static void commit_both(struct history *h, struct pfl_trace_buffer_chunk *chunk)
{
    chunk->credit = &h->credit;
    pfl_trace_buffer_commit(h->real, chunk);
    model_commit(&h->model, chunk);
}

static void step_commit(struct history *h)
{
    uint32_t which = kit_random(&h->random, WRITERS);
    struct writer *w = &h->writers[which];
    struct pfl_trace_buffer_chunk chunk;
    struct open_chunk *c;
    uint32_t count;

    if (w->opened == 0 || chance(h, 70))
        make_chunk(h, w, &w->open[w->opened++ % OPEN_CHUNKS]);
    if (w->opened > 1 && chance(h, 20)) /* a second one before the first is committed */
        make_chunk(h, w, &w->open[w->opened++ % OPEN_CHUNKS]);
    c = &w->open[(w->opened - 1 - (chance(h, 75) ? 0 : kit_random(&h->random, 3))) % OPEN_CHUNKS];
    count = c->count;
    chunk = (struct pfl_trace_buffer_chunk){
        .producer_id = 1,
        .writer_id = (uint16_t)(which + 1),
        .chunk_id = c->chunk_id,
        .fragments = (uint16_t)(count + (chance(h, 3) ? 1 : 0)),
        .flags = c->flags,
        .is_complete = !chance(h, 25),
        .payload = c->payload,
        .payload_bytes = c->payload_bytes,
    };
    if (!chunk.is_complete) {
        chunk.fragments = (uint16_t)(count == 0 ? 0 : 1 + kit_random(&h->random, count));
        chunk.flags &= chance(h, 50) ? 7 : 1;
    }
    commit_both(h, &chunk);
}

/* Patches bytes inside a fragment or, rarely, anywhere. */
static void step_patch(struct history *h)
{
    uint32_t which = kit_random(&h->random, WRITERS);
    struct writer *w = &h->writers[which];
    struct open_chunk *c = &w->open[kit_random(&h->random, OPEN_CHUNKS)];
    struct pfl_trace_buffer_patch patches[PATCHES_MOST];
    struct pfl_trace_buffer_patches batch = {
        .producer_id = 1,
        .writer_id = (uint16_t)(which + 1),
        .chunk_id = c->chunk_id,
        .has_more_patches = chance(h, 30),
        .patches = patches,
        .patches_len = kit_random(&h->random, PATCHES_MOST + 1),
    };

    for (size_t i = 0; i < batch.patches_len; i++) {
        uint32_t value = kit_random(&h->random, 0x7fffffff);

        patches[i].offset_untrusted = kit_random(&h->random, c->payload_bytes + 8);
        memcpy(patches[i].data, &value, sizeof(value));
        if (chance(h, 90) && c->count != 0) /* harmless: what is there already */
            patches[i].offset_untrusted = kit_random(&h->random, c->ends[c->count - 1]);
        if (patches[i].offset_untrusted + 4 <= c->payload_bytes && chance(h, 80))
            memcpy(patches[i].data, c->payload + patches[i].offset_untrusted, 4);
    }
    pfl_trace_buffer_patch(h->real, &batch);
    model_patch(&h->model, &batch);
}

static uint64_t add_to_digest(uint64_t digest, const struct kit_packet *packet)
{
    digest = (digest ^ packet->writer_id ^ packet->loss_reasons) * 0x100000001b3u;
    for (size_t i = 0; i < packet->bytes; i++)
        digest = (digest ^ packet->data[i]) * 0x100000001b3u;
    return digest;
}

static bool expect_same(void *user, const struct kit_packet *want)
{
    static struct kit_packet got;
    struct history *h = user;

    assert_true(kit_read(h->real, &got));
    assert_int_equal(got.writer_id, want->writer_id);
    assert_int_equal(got.bytes, want->bytes);
    assert_memory_equal(got.data, want->data, want->bytes);
    assert_int_equal(got.loss_reasons, want->loss_reasons);
    h->digest = add_to_digest(h->digest, &got);
    h->sum[0]++;
    h->sum[1] += got.loss_reasons != 0;
    return ++h->packets != h->stop_after;
}

static void step_read(struct history *h)
{
    h->packets = 0;
    h->digest = 0;
    h->stop_after = chance(h, 30) ? 1 + kit_random(&h->random, 10) : UINT32_MAX;
    pfl_trace_buffer_begin_read(h->real);
    model_read(&h->model, expect_same, h);
    if (h->packets != h->stop_after)
        kit_expect_end(h->real);
}

static void expect_digest(struct pfl_trace_buffer *clone, uint64_t digest, uint64_t packets)
{
    static struct kit_packet got;
    uint64_t clone_digest = 0;

    pfl_trace_buffer_begin_read(clone);
    for (; kit_read(clone, &got); packets--)
        clone_digest = add_to_digest(clone_digest, &got);
    assert_int_equal(packets, 0);
    assert_true(clone_digest == digest);
    pfl_trace_buffer_free(clone);
}

/* A clone, and a clone of what take moved out of it, are read as the source is, whose model knows
 * nothing of clones; commits to them change nothing. */
static void step_clone(struct history *h)
{
    struct pfl_trace_buffer *source = h->real;
    struct pfl_trace_buffer *clone;
    struct pfl_trace_buffer *taken;
    struct pfl_trace_buffer *second;

    if (h->slow != NULL) /* one at a time */
        return;
    clone = kit_clone(source);
    second = kit_clone(clone);
    assert_int_equal(pfl_trace_buffer_take(second, &taken), 0);
    kit_commit(clone, .writer = 1, .chunk_id = 70000, .fill = 'x', .len = 10);
    kit_commit(second, .writer = 1, .chunk_id = 1, .fill = 'y', .len = 10);
    pfl_trace_buffer_begin_read(second);
    kit_expect(second, 'y', 10, 0);
    kit_expect_end(second);
    pfl_trace_buffer_free(second);
    step_read(h);
    if (h->packets != h->stop_after) {
        expect_digest(clone, h->digest, h->packets);
        expect_digest(taken, h->digest, h->packets);
        h->sum[3]++;
        return;
    }
    pfl_trace_buffer_free(clone);
    pfl_trace_buffer_free(taken);
}

/* A clone that is copied page by page while the history continues. What it has to yield is read
 * from another one at once. */
static void begin_slow_clone(struct history *h)
{
    static struct kit_packet got;
    struct pfl_trace_buffer *at_once = kit_clone(h->real);

    h->slow_digest = 0;
    h->slow_packets = 0;
    pfl_trace_buffer_begin_read(at_once);
    for (; kit_read(at_once, &got); h->slow_packets++)
        h->slow_digest = add_to_digest(h->slow_digest, &got);
    pfl_trace_buffer_free(at_once);
    assert_int_equal(pfl_trace_buffer_clone(h->real, &h->slow), 0);
}

static void go_on_with_slow_clone(struct history *h)
{
    uint32_t budget_bytes = 1;

    if (chance(h, 20))
        pfl_trace_buffer_copy_more(h->slow, &budget_bytes);
    if (!pfl_trace_buffer_is_whole(h->slow))
        return;
    expect_digest(h->slow, h->slow_digest, h->slow_packets);
    h->slow = NULL;
    h->sum[5]++;
}

static void step_slow_clone(struct history *h)
{
    if (h->slow != NULL)
        go_on_with_slow_clone(h);
    else if (chance(h, 3))
        begin_slow_clone(h);
}

static void expect_same_stats(struct history *h)
{
    struct pfl_trace_buffer_stats real = kit_stats(h->real);

    assert_memory_equal(&real, &h->model.stats, sizeof(real));
}

/* A VM that takes whatever is overwritten; nothing else may be any different. */
static void add_vm(struct history *h)
{
    static const uint8_t program[] = {0x12, 0x02, 0x1a, 0x00}; /* merge */
    const struct pfl_vm_set_conf conf = {.program = pfl_span_of(program, sizeof(program)),
                                         .source = pfl_span_of("a", 1),
                                         .memory_limit_kb = 64,
                                         .producer_id = 1};

    assert_int_equal(pfl_trace_buffer_add_vm(h->real, &conf), 0);
}

static void count_of_vm(struct history *h)
{
    const struct pfl_vm_set *vms = pfl_trace_buffer_get_vms(h->real);

    if (pfl_vm_set_len(vms) != 0)
        h->sum[4] = pfl_vm_set_get(vms, 0)->counts.applied;
}

static void run_history(uint64_t seed, uint64_t sum[6])
{
    static struct history h;
    bool is_discard = seed % 8 == 7;
    uint32_t size_bytes = seed % 6 == 0 ? 4 * 4096 : 4096;

    memset(&h, 0, sizeof(h));
    h.random.state = seed;
    h.real = kit_buffer(size_bytes, is_discard ? PFL_FILL_DISCARD : PFL_FILL_RING_BUFFER);
    model_init(&h.model, size_bytes, is_discard);
    if (seed % 2 == 0)
        add_vm(&h);
    for (uint32_t i = 0; i < WRITERS; i++)
        h.writers[i].next_id = i == 0 ? UINT32_MAX - 20 : 0;
    for (uint32_t i = 0; i < STEPS; i++) {
        uint32_t kind = kit_random(&h.random, 100);

        if (kind < 85)
            step_commit(&h);
        else if (kind < 93)
            step_patch(&h);
        else if (kind < 95)
            step_clone(&h);
        else
            step_read(&h);
        step_slow_clone(&h);
        expect_same_stats(&h);
    }
    h.sum[2] = h.model.stats.chunks_rewritten + h.model.stats.chunks_relocated;
    count_of_vm(&h);
    for (size_t i = 0; i < 6; i++)
        sum[i] += h.sum[i];
    if (seed % 2 == 0) /* in either order */
        pfl_trace_buffer_free(h.slow);
    pfl_trace_buffer_free(h.real);
    if (seed % 2 != 0)
        pfl_trace_buffer_free(h.slow);
    model_fini(&h.model);
}

static uint64_t seed_running;

static uint64_t read_number(const char *variable, uint64_t otherwise)
{
    const char *text = getenv(variable);

    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

static void random_histories_agree_with_the_model(void **state)
{
    uint64_t first = read_number("PFL_MODEL_SEED", 1);
    uint64_t histories = read_number("PFL_MODEL_HISTORIES", HISTORIES);
    uint64_t sum[6] = {0};

    (void)state;
    for (uint64_t seed = first; seed < first + histories; seed++) {
        seed_running = seed;
        run_history(seed, sum);
    }
    seed_running = 0;
    print_message("%llu packets, %llu with a loss, %llu chunks changed, %llu clones, %llu to a VM, "
                  "%llu slow clones\n",
                  (unsigned long long)sum[0], (unsigned long long)sum[1],
                  (unsigned long long)sum[2], (unsigned long long)sum[3],
                  (unsigned long long)sum[4], (unsigned long long)sum[5]);
    assert_true(sum[0] > 1000 && sum[1] > 100 && sum[2] > 100 && sum[3] > 100 && sum[4] > 1000 &&
                sum[5] > 100);
}

static int tell_seed(void **state)
{
    (void)state;
    if (seed_running != 0)
        print_message("the history of seed %llu failed\n", (unsigned long long)seed_running);
    else
        pfl_sweep_assert_no_leak();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(random_histories_agree_with_the_model, tell_seed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
