/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/agent/daemon/stream/memory_kit.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/gate/gate.h"
#include "proto/ipc/frame.h"
#include "tests/support/sweep.h"

const struct pfl_stream_facts memory_kit_facts = {.out_max_bytes = OUT_BYTES,
                                                  .ttl_ms = 60000,
                                                  .begin_ms = 77,
                                                  .is_zstd = 1,
                                                  .has_gate = 1,
                                                  .id = "00112233445566778899aabbccddeeff",
                                                  .operator_name = "me"};

/* All of it is something else than 0. */
const struct pfl_stream_record memory_kit_full = {
    .in_used = 1000,
    .passing_bytes = 300,
    .passed_bytes = 200,
    .reads = 5,
    .writes = 6,
    .pipe_begin = 10 * MIB,
    .pipe_end = 11 * MIB,
    .out_base = 123456,
    .out_end = 123456 + 8000,
    .out_capacity = 8192,
    .spool = {.ring_begin = 1, .ring_end = 70000, .file_begin = 3, .file_end = 900},
    .gate_bytes = 5000,
    .orphan_since_ms = 99,
    .h2_streams = 4,
    .is_frame_open = 1,
    .is_encoded = 1,
    .is_service_over = 1,
};

int memory_kit_count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;

    assert_non_null(dir);
    while (readdir(dir) != NULL)
        count++;
    (void)closedir(dir);
    return count;
}

struct pfl_stream_memory *memory_kit_make(void)
{
    struct pfl_stream_memory *m;

    assert_int_equal(pfl_stream_memory_new(&memory_kit_facts, &m), 0);
    return m;
}

/* As the next process does with what the manager kept. */
int memory_kit_take_dup(int fd, struct pfl_stream_memory **ret_memory)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    int rc;

    assert_true(copy >= 0);
    rc = pfl_stream_memory_take_back(copy, ret_memory);
    if (rc != 0)
        (void)close(copy);
    return rc;
}

void memory_kit_fill(uint8_t *at, size_t len, uint64_t seed)
{
    for (size_t i = 0; i < len; i++)
        at[i] = (uint8_t)((seed + i) * 2654435761u >> 11);
}

bool memory_kit_is_filled(const uint8_t *at, size_t len, uint64_t seed)
{
    for (size_t i = 0; i < len; i++) {
        if (at[i] != (uint8_t)((seed + i) * 2654435761u >> 11))
            return false;
    }
    return true;
}

void memory_kit_save_gate(struct pfl_stream_memory *m, size_t len, uint64_t seed)
{
    struct pfl_writer w = pfl_stream_memory_get_gate_room(m);

    assert_int_equal(w.left, PFL_GATE_SAVED_MAX_BYTES);
    memory_kit_fill(w.pos, len, seed);
}

uint8_t *memory_kit_get_out(struct pfl_stream_memory *m, size_t capacity)
{
    const struct pfl_replay_memory *out = pfl_stream_memory_get_out(m);

    return out->get(out->user, capacity);
}

void memory_kit_give_back(struct pfl_stream_memory *m, uint8_t *data, size_t capacity)
{
    const struct pfl_replay_memory *out = pfl_stream_memory_get_out(m);

    out->give_back(out->user, data, capacity);
}

/* Also that padding is none of a record's. */
void memory_kit_assert_is_record(const struct pfl_stream_memory *m,
                                 const struct pfl_stream_record *r)
{
    const struct pfl_stream_record *got = pfl_stream_memory_get_record(m);

    assert_int_equal(got->in_used, r->in_used);
    assert_int_equal(got->passing_bytes, r->passing_bytes);
    assert_int_equal(got->passed_bytes, r->passed_bytes);
    assert_int_equal(got->reads, r->reads);
    assert_int_equal(got->writes, r->writes);
    assert_int_equal(got->pipe_begin, r->pipe_begin);
    assert_int_equal(got->pipe_end, r->pipe_end);
    assert_int_equal(got->out_base, r->out_base);
    assert_int_equal(got->out_end, r->out_end);
    assert_int_equal(got->out_capacity, r->out_capacity);
    assert_memory_equal(&got->spool, &r->spool, sizeof(r->spool));
    assert_int_equal(got->gate_bytes, r->gate_bytes);
    assert_int_equal(got->orphan_since_ms, r->orphan_since_ms);
    assert_int_equal(got->h2_streams, r->h2_streams);
    assert_int_equal(got->is_frame_open, r->is_frame_open);
    assert_int_equal(got->is_encoded, r->is_encoded);
    assert_int_equal(got->is_service_over, r->is_service_over);
}

void memory_kit_fill_areas(struct pfl_stream_memory *m)
{
    memory_kit_fill(pfl_stream_memory_get_read(m), PFL_STREAM_READ_BYTES, 1);
    memory_kit_fill(pfl_stream_memory_get_frame(m), PFL_FRAME_MAX_BYTES, 2);
    memory_kit_fill(pfl_stream_memory_get_pipe(m), PFL_STREAM_PIPE_BYTES, 3);
    memory_kit_fill(pfl_stream_memory_get_spool(m), PFL_SPOOL_RING_BYTES, 4);
    memory_kit_fill(memory_kit_get_out(m, memory_kit_full.out_capacity),
                    memory_kit_full.out_capacity, 5);
    memory_kit_save_gate(m, memory_kit_full.gate_bytes, 6);
}

void memory_kit_read_head(int fd, uint8_t *dst)
{
    assert_int_equal(pread(fd, dst, HEAD_BYTES, 0), HEAD_BYTES);
}

int memory_kit_count_before(void **state)
{
    static int before;

    before = memory_kit_count_fds();
    *state = &before;
    return 0;
}

int memory_kit_assert_nothing_is_left(void **state)
{
    pfl_sweep_assert_no_leak();
    assert_int_equal(memory_kit_count_fds(), *(int *)*state);
    return 0;
}
