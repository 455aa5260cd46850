/* SPDX-License-Identifier: Apache-2.0 */
/* What a process published of a stream is what the next one finds, at whatever moment it died. */
#include "agent/daemon/stream/stream_memory.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/gate/gate.h"
#include "proto/ipc/frame.h"
#include "tests/support/sweep.h"
#include "tests/unit/agent/daemon/stream/memory_kit.h"

#define PAGE_BYTES 4096u

/* ---- what is published ---- */

static void assert_areas(struct pfl_stream_memory *m)
{
    struct pfl_span gate = pfl_stream_memory_get_gate(m);

    assert_true(memory_kit_is_filled(pfl_stream_memory_get_read(m), PFL_STREAM_READ_BYTES, 1));
    assert_true(memory_kit_is_filled(pfl_stream_memory_get_frame(m), PFL_FRAME_MAX_BYTES, 2));
    assert_true(memory_kit_is_filled(pfl_stream_memory_get_pipe(m), PFL_STREAM_PIPE_BYTES, 3));
    assert_true(memory_kit_is_filled(pfl_stream_memory_get_spool(m), PFL_SPOOL_RING_BYTES, 4));
    assert_true(memory_kit_is_filled(memory_kit_get_out(m, memory_kit_full.out_capacity),
                                     memory_kit_full.out_capacity, 5));
    assert_int_equal(gate.len, memory_kit_full.gate_bytes);
    assert_true(memory_kit_is_filled(gate.data, gate.len, 6));
}

static void what_was_published_is_found_again(void **state)
{
    struct pfl_stream_memory *m = memory_kit_make();
    struct pfl_stream_memory *next;
    int kept = fcntl(pfl_stream_memory_get_fd(m), F_DUPFD_CLOEXEC, 0);

    (void)state;
    memory_kit_fill_areas(m);
    pfl_stream_memory_publish(m, &memory_kit_full);
    pfl_stream_memory_free(m);
    for (unsigned lives = 0; lives < 3; lives++) {
        assert_int_equal(memory_kit_take_dup(kept, &next), 0);
        memory_kit_assert_is_record(next, &memory_kit_full);
        assert_areas(next);
        assert_string_equal(pfl_stream_memory_get_facts(next)->id, memory_kit_facts.id);
        assert_string_equal(pfl_stream_memory_get_facts(next)->operator_name, "me");
        assert_int_equal(pfl_stream_memory_get_facts(next)->begin_ms, 77);
        assert_int_equal(pfl_stream_memory_get_facts(next)->ttl_ms, 60000);
        assert_int_equal(pfl_stream_memory_get_facts(next)->is_zstd, 1);
        pfl_stream_memory_free(next);
    }
    (void)close(kept);
}

static void a_stream_of_which_nothing_was_published_is_at_its_beginning(void **state)
{
    static const struct pfl_stream_record at_begin;
    struct pfl_stream_facts plain = memory_kit_facts;
    struct pfl_stream_memory *m;
    struct pfl_stream_memory *next;

    (void)state;
    plain.has_gate = 0;
    assert_int_equal(pfl_stream_memory_new(&plain, &m), 0);
    assert_int_equal(memory_kit_take_dup(pfl_stream_memory_get_fd(m), &next), 0);
    memory_kit_assert_is_record(next, &at_begin);
    assert_int_equal(pfl_stream_memory_get_gate(next).len, 0);
    assert_int_equal(pfl_noted_call_get(pfl_stream_memory_get_reading(next), 0), 0);
    assert_int_equal(pfl_noted_call_get(pfl_stream_memory_get_writing(next), 0), 0);
    pfl_stream_memory_free(next);
    pfl_stream_memory_free(m);
}

static void the_gate_that_is_being_saved_is_not_the_one_that_counts(void **state)
{
    struct pfl_stream_memory *m = memory_kit_make();
    struct pfl_stream_memory *next;
    struct pfl_stream_record r = memory_kit_full;

    (void)state;
    for (unsigned i = 0; i < 5; i++) {
        memory_kit_save_gate(m, 4000 + i, 100 + i);
        r.gate_bytes = 4000 + i;
        r.in_used = i;
        pfl_stream_memory_publish(m, &r);
        memory_kit_save_gate(m, 9000, 55); /* and dies */
        assert_int_equal(memory_kit_take_dup(pfl_stream_memory_get_fd(m), &next), 0);
        memory_kit_assert_is_record(next, &r);
        assert_int_equal(pfl_stream_memory_get_gate(next).len, 4000 + i);
        assert_true(memory_kit_is_filled(pfl_stream_memory_get_gate(next).data, 4000 + i, 100 + i));
        pfl_stream_memory_free(next);
    }
    pfl_stream_memory_free(m);
}

/* ---- a death within publish ---- */

struct change {
    uint8_t old[HEAD_BYTES];
    uint8_t new[HEAD_BYTES];
    unsigned at[HEAD_BYTES]; /* where they differ, in order */
    unsigned len;
};

/* The index is what lies behind both records. */
static void assert_either(int fd, const struct pfl_stream_record *r, uint64_t gate_seed)
{
    struct pfl_stream_memory *next;

    assert_int_equal(memory_kit_take_dup(fd, &next), 0);
    memory_kit_assert_is_record(next, r);
    assert_true(
        memory_kit_is_filled(pfl_stream_memory_get_gate(next).data, r->gate_bytes, gate_seed));
    pfl_stream_memory_free(next);
}

static void a_death_within_publish_gives_the_old_record_or_the_new_one(void **state)
{
    static struct change c;
    struct pfl_stream_memory *m = memory_kit_make();
    int fd = pfl_stream_memory_get_fd(m);
    struct pfl_stream_record old = memory_kit_full;
    uint32_t dice = 1;

    (void)state;
    memory_kit_save_gate(m, memory_kit_full.gate_bytes, 1);
    pfl_stream_memory_publish(m, &memory_kit_full);
    for (unsigned turn = 0; turn < 4; turn++) { /* into either slot */
        struct pfl_stream_record new = old;

        new.in_used = old.in_used * 257 + 1;
        new.reads = old.reads * 257 + 1;
        new.pipe_begin = new.pipe_end = old.pipe_end * 257 + 1;
        new.out_base = new.out_end = old.out_end * 3 + 1;
        new.gate_bytes = 70 + turn;
        new.h2_streams = old.h2_streams * 31;
        new.is_encoded = turn % 2 == 0;
        memory_kit_save_gate(m, new.gate_bytes, 2 + turn);
        memory_kit_read_head(fd, c.old);
        pfl_stream_memory_publish(m, &new);
        memory_kit_read_head(fd, c.new);
        c.len = 0;
        for (unsigned i = 0; i < HEAD_BYTES; i++) {
            if (c.old[i] != c.new[i])
                c.at[c.len++] = i;
        }
        assert_true(c.len > 10);
        for (unsigned done = 0; done < c.len; done++) { /* some of it, in an order of its own */
            assert_int_equal(pwrite(fd, c.old, HEAD_BYTES, 0), HEAD_BYTES);
            for (unsigned i = 0; i < c.len - 1; i++) {
                dice = dice * 1664525u + 1013904223u;
                if ((dice >> 16) % c.len < done)
                    assert_int_equal(pwrite(fd, c.new + c.at[i], 1, c.at[i]), 1);
            }
            assert_either(fd, &old, 1 + turn);
        }
        assert_int_equal(pwrite(fd, c.new, HEAD_BYTES, 0), HEAD_BYTES);
        assert_either(fd, &new, 2 + turn);
        old = new;
    }
    pfl_stream_memory_free(m);
}

/* ---- noted calls ---- */

static void a_note_counts_for_its_own_call_only(void **state)
{
    struct pfl_noted_call call = {.at = 0};

    (void)state;
    pfl_noted_call_begin(&call, 7);
    assert_int_equal(pfl_noted_call_get(&call, 7), 0);
    call.message.msg_len = 300; /* as the kernel does */
    assert_int_equal(pfl_noted_call_get(&call, 7), 300);
    assert_int_equal(pfl_noted_call_get(&call, 6), 0);
    assert_int_equal(pfl_noted_call_get(&call, 8), 0); /* it is in the record already */
    pfl_noted_call_begin(&call, 8);
    assert_int_equal(pfl_noted_call_get(&call, 8), 0);
    call.message.msg_len = 0; /* the end */
    assert_int_equal(pfl_noted_call_get(&call, 8), 0);
}

/* ---- the ring that is not credited ---- */

static void each_capacity_has_a_place_of_its_own(void **state)
{
    struct pfl_stream_memory *m = memory_kit_make();

    (void)state;
    for (size_t capacity = PAGE_BYTES; capacity <= OUT_BYTES; capacity *= 2) {
        uint8_t *data = memory_kit_get_out(m, capacity);

        assert_non_null(data);
        memory_kit_fill(data, capacity, capacity);
    }
    for (size_t capacity = PAGE_BYTES; capacity <= OUT_BYTES; capacity *= 2)
        assert_true(memory_kit_is_filled(memory_kit_get_out(m, capacity), capacity, capacity));
    assert_true(memory_kit_is_filled(memory_kit_get_out(m, OUT_BYTES), OUT_BYTES, OUT_BYTES));
    pfl_stream_memory_free(m);
}

static void there_is_no_ring_of_another_size(void **state)
{
    static const size_t sizes[] = {0,
                                   1,
                                   2048,
                                   5000,
                                   8193,
                                   3 * MIB / 4,
                                   2 * MIB,
                                   (size_t)1 << 40,
                                   SIZE_MAX,
                                   (size_t)1 << 63,
                                   ((size_t)1 << 63) + PAGE_BYTES};
    struct pfl_stream_memory *m = memory_kit_make();

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        assert_null(memory_kit_get_out(m, sizes[i]));
    pfl_stream_memory_free(m);
}

static void a_ring_that_was_given_back_stays_until_the_record_does_not_speak_of_it(void **state)
{
    struct pfl_stream_memory *m = memory_kit_make();
    struct pfl_stream_record r = {.gate_bytes = 1};
    uint8_t *first = memory_kit_get_out(m, PAGE_BYTES);
    uint8_t *second = memory_kit_get_out(m, 2 * PAGE_BYTES);

    (void)state;
    memory_kit_fill(first, PAGE_BYTES, 1);
    memory_kit_fill(second, 2 * PAGE_BYTES, 2);
    memory_kit_give_back(m, first, PAGE_BYTES);
    memory_kit_give_back(m, second, 2 * PAGE_BYTES);
    assert_true(memory_kit_is_filled(first, PAGE_BYTES, 1));
    assert_ptr_equal(memory_kit_get_out(m, 2 * PAGE_BYTES), second); /* and it is wanted again */
    pfl_stream_memory_publish(m, &r);
    for (size_t i = 0; i < PAGE_BYTES; i++)
        assert_int_equal(first[i], 0);
    assert_true(memory_kit_is_filled(second, 2 * PAGE_BYTES, 2));
    pfl_stream_memory_free(m);
}

static uint64_t count_blocks(const struct pfl_stream_memory *m)
{
    struct stat st;

    assert_int_equal(fstat(pfl_stream_memory_get_fd(m), &st), 0);
    return (uint64_t)st.st_blocks * 512;
}

/* The process died before it had given them back. */
static void pages_of_which_no_record_speaks_are_given_back_by_the_next_process(void **state)
{
    struct pfl_stream_memory *m = memory_kit_make();
    struct pfl_stream_memory *next;
    struct pfl_stream_record r = {.gate_bytes = 1, .out_end = 100, .out_capacity = 4 * PAGE_BYTES};

    (void)state;
    memory_kit_fill(memory_kit_get_out(m, OUT_BYTES), OUT_BYTES, 1);
    memory_kit_fill(pfl_stream_memory_get_spool(m), PFL_SPOOL_RING_BYTES, 1);
    memory_kit_fill(memory_kit_get_out(m, 4 * PAGE_BYTES), 4 * PAGE_BYTES, 9);
    pfl_stream_memory_publish(m, &r);
    assert_true(count_blocks(m) >= OUT_BYTES + PFL_SPOOL_RING_BYTES);
    assert_int_equal(memory_kit_take_dup(pfl_stream_memory_get_fd(m), &next), 0);
    pfl_stream_memory_publish(next, &r);
    assert_true(count_blocks(next) < OUT_BYTES / 2);
    assert_true(memory_kit_is_filled(memory_kit_get_out(next, 4 * PAGE_BYTES), 4 * PAGE_BYTES, 9));
    pfl_stream_memory_free(next);
    pfl_stream_memory_free(m);
}

static void the_spools_ring_is_given_back_when_nothing_is_in_it(void **state)
{
    struct pfl_stream_memory *m = memory_kit_make();
    struct pfl_stream_record r = {.gate_bytes = 1, .spool = {.ring_end = 5000}};

    (void)state;
    memory_kit_fill(pfl_stream_memory_get_spool(m), 5000, 1);
    pfl_stream_memory_publish(m, &r);
    assert_true(memory_kit_is_filled(pfl_stream_memory_get_spool(m), 5000, 1));
    r.spool.ring_begin = 5000;
    pfl_stream_memory_publish(m, &r);
    assert_int_equal(pfl_stream_memory_get_spool(m)[0], 0);
    pfl_stream_memory_free(m);
}

/* Its pages are soon needed again. */
static void the_spools_ring_is_not_given_back_while_the_operator_is_far_behind(void **state)
{
    struct pfl_stream_memory *m = memory_kit_make();
    struct pfl_stream_record r = {.gate_bytes = 1,
                                  .spool = {.ring_end = 5000},
                                  .out_end = 2u << 20,
                                  .out_capacity = 2u << 20};

    (void)state;
    memory_kit_fill(pfl_stream_memory_get_spool(m), 5000, 1);
    pfl_stream_memory_publish(m, &r);
    r.spool.ring_begin = 5000;
    for (unsigned i = 0; i < 3; i++)
        pfl_stream_memory_publish(m, &r);
    assert_true(memory_kit_is_filled(pfl_stream_memory_get_spool(m), 5000, 1));
    r.out_base = r.out_end - 1000;
    pfl_stream_memory_publish(m, &r);
    assert_int_equal(pfl_stream_memory_get_spool(m)[0], 0);
    pfl_stream_memory_free(m);
}

static void a_ring_may_be_so_large_and_no_larger(void **state)
{
    struct pfl_stream_facts f = memory_kit_facts;
    struct pfl_stream_memory *m;
    struct pfl_stream_memory *next;

    (void)state;
    f.out_max_bytes = 0;
    assert_int_equal(pfl_stream_memory_new(&f, &m), PFL_ELIMIT);
    f.out_max_bytes = (1u << 30) + 1;
    assert_int_equal(pfl_stream_memory_new(&f, &m), PFL_ELIMIT);
    f.out_max_bytes = UINT64_MAX;
    assert_int_equal(pfl_stream_memory_new(&f, &m), PFL_ELIMIT);
    f.out_max_bytes = 1u << 30;
    f.has_gate = 0;
    assert_int_equal(pfl_stream_memory_new(&f, &m), 0);
    memory_kit_get_out(m, 1u << 30)[(1u << 30) - 1] = 5;
    assert_int_equal(memory_kit_take_dup(pfl_stream_memory_get_fd(m), &next), 0);
    assert_int_equal(memory_kit_get_out(next, 1u << 30)[(1u << 30) - 1], 5);
    pfl_stream_memory_free(next);
    pfl_stream_memory_free(m);
}

/* ---- all together ---- */

static int body(void *arg)
{
    struct pfl_stream_memory *m;
    struct pfl_stream_memory *next;
    int rc = pfl_stream_memory_new(&memory_kit_facts, &m);

    (void)arg;
    if (rc != 0)
        return rc;
    memory_kit_save_gate(m, memory_kit_full.gate_bytes, 1);
    pfl_stream_memory_publish(m, &memory_kit_full);
    rc = memory_kit_take_dup(pfl_stream_memory_get_fd(m), &next);
    pfl_stream_memory_free(rc == 0 ? next : NULL);
    pfl_stream_memory_free(m);
    return rc;
}

static void what_five_processes_died_in_is_not_tried_again(void **state)
{
    struct pfl_stream_memory *m = memory_kit_make();

    (void)state;
    for (unsigned i = 0; i < 5; i++)
        assert_true(pfl_stream_memory_begin_try(m));
    assert_false(pfl_stream_memory_begin_try(m));
    pfl_stream_memory_end_try(m);
    assert_true(pfl_stream_memory_begin_try(m));
    pfl_stream_memory_free(m);
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    pfl_sweep(body, NULL, false);
    pfl_stream_memory_free(NULL);
}

#define CLAIM(name)                                                                                \
    cmocka_unit_test_setup_teardown(name, memory_kit_count_before,                                 \
                                    memory_kit_assert_nothing_is_left)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLAIM(what_was_published_is_found_again),
        CLAIM(a_stream_of_which_nothing_was_published_is_at_its_beginning),
        CLAIM(the_gate_that_is_being_saved_is_not_the_one_that_counts),
        CLAIM(a_death_within_publish_gives_the_old_record_or_the_new_one),
        CLAIM(a_note_counts_for_its_own_call_only),
        CLAIM(each_capacity_has_a_place_of_its_own),
        CLAIM(there_is_no_ring_of_another_size),
        CLAIM(a_ring_that_was_given_back_stays_until_the_record_does_not_speak_of_it),
        CLAIM(pages_of_which_no_record_speaks_are_given_back_by_the_next_process),
        CLAIM(the_spools_ring_is_given_back_when_nothing_is_in_it),
        CLAIM(the_spools_ring_is_not_given_back_while_the_operator_is_far_behind),
        CLAIM(a_ring_may_be_so_large_and_no_larger),
        CLAIM(what_five_processes_died_in_is_not_tried_again),
        CLAIM(each_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
