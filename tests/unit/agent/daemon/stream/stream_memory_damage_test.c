/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is none, was left by another version, or was damaged, harms nobody. */
#include "agent/daemon/stream/stream_memory.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/gate/gate.h"
#include "proto/ipc/frame.h"
#include "proto/tunnel/resume.h"
#include "tests/unit/agent/daemon/stream/memory_kit.h"

#define PAGE_BYTES 4096u

/* All that a record which was taken for true makes a process touch. */
static unsigned touch(struct pfl_stream_memory *m)
{
    const struct pfl_stream_record *r = pfl_stream_memory_get_record(m);
    const struct pfl_stream_facts *f = pfl_stream_memory_get_facts(m);
    struct pfl_resume resume;
    struct pfl_resume_kept kept = {.in_used = r->in_used,
                                   .out_base = r->out_base,
                                   .out_end = r->out_end,
                                   .out_capacity = r->out_capacity};
    struct pfl_span gate = pfl_stream_memory_get_gate(m);
    unsigned sum = (unsigned)(strlen(f->id) + strlen(f->operator_name));

    for (size_t i = 0; i < gate.len; i += PAGE_BYTES)
        sum += gate.data[i];
    pfl_resume_init(&resume, f->out_max_bytes, PFL_TUNNEL_CONTROL_WINDOW_BYTES);
    pfl_replay_set_memory(&resume.out, pfl_stream_memory_get_out(m));
    if (r->out_capacity != 0)
        kept.out_data = memory_kit_get_out(m, r->out_capacity);
    if (pfl_resume_restore(&resume, &kept) == 0) {
        for (uint64_t at = r->out_base; at != r->out_end; at++)
            sum += pfl_replay_peek_at(&resume.out, at, 1).data[0];
        (void)!pfl_resume_pass(&resume, 100);
        (void)!pfl_resume_write(&resume, pfl_span_of("next", 4));
        sum += pfl_replay_peek_at(&resume.out, r->out_end, 4).len != 0;
    }
    pfl_resume_fini(&resume);
    return sum;
}

static void try_memory(int fd)
{
    struct pfl_stream_memory *next = NULL;
    int rc = memory_kit_take_dup(fd, &next);

    assert_true(rc == 0 || rc == PFL_EPARSE);
    if (rc == 0)
        (void)touch(next);
    pfl_stream_memory_free(next);
}

/* Both records are in it; its head is copied to `dst`. */
static struct pfl_stream_memory *make_full(uint8_t *dst)
{
    struct pfl_stream_memory *m = memory_kit_make();

    memory_kit_fill_areas(m);
    pfl_stream_memory_publish(m, &memory_kit_full);
    pfl_stream_memory_publish(m, &memory_kit_full);
    memory_kit_read_head(pfl_stream_memory_get_fd(m), dst);
    return m;
}

static void each_changed_byte_of_the_head_is_found_out_or_does_no_harm(void **state)
{
    static const uint8_t changes[] = {0x01, 0x40, 0x80, 0xff};
    static uint8_t head[HEAD_BYTES];
    struct pfl_stream_memory *m = make_full(head);
    int fd = pfl_stream_memory_get_fd(m);

    (void)state;
    for (off_t at = 0; at < 1024; at++) {
        for (size_t i = 0; i < sizeof(changes); i++) {
            uint8_t byte = head[at] ^ changes[i];

            assert_int_equal(pwrite(fd, &byte, 1, at), 1);
            try_memory(fd);
            assert_int_equal(pwrite(fd, head, HEAD_BYTES, 0), HEAD_BYTES);
        }
    }
    pfl_stream_memory_free(m);
}

static void numbers_that_cannot_be_are_found_out_or_do_no_harm(void **state)
{
    static const uint64_t numbers[] = {0,
                                       1,
                                       2,
                                       PAGE_BYTES,
                                       OUT_BYTES,
                                       2 * OUT_BYTES,
                                       1u << 30,
                                       UINT32_MAX,
                                       (uint64_t)1 << 32,
                                       (uint64_t)1 << 62,
                                       ((uint64_t)1 << 63) - 1,
                                       (uint64_t)1 << 63,
                                       UINT64_MAX - 4000,
                                       UINT64_MAX};
    static uint8_t head[HEAD_BYTES];
    struct pfl_stream_memory *m = make_full(head);
    int fd = pfl_stream_memory_get_fd(m);

    (void)state;
    for (off_t at = 0; at < 1024; at += 4) {
        for (size_t i = 0; i < 2 * sizeof(numbers) / sizeof(numbers[0]); i++) {
            assert_int_equal(pwrite(fd, &numbers[i / 2], i % 2 == 0 ? 8 : 4, at),
                             i % 2 == 0 ? 8 : 4);
            try_memory(fd);
            assert_int_equal(pwrite(fd, head, HEAD_BYTES, 0), HEAD_BYTES);
        }
    }
    pfl_stream_memory_free(m);
}

/* A record that says this much too much, in place of `full`. */
static void assert_refused(const struct pfl_stream_record *r)
{
    struct pfl_stream_memory *m = memory_kit_make();
    struct pfl_stream_memory *next;

    pfl_stream_memory_publish(m, r);
    assert_int_equal(memory_kit_take_dup(pfl_stream_memory_get_fd(m), &next), PFL_EPARSE);
    assert_null(next);
    pfl_stream_memory_free(m);
}

static void a_record_that_cannot_be_true_is_refused(void **state)
{
    struct pfl_stream_record r = memory_kit_full;

    (void)state;
#define REFUSED(member, value)                                                                     \
    do {                                                                                           \
        r = memory_kit_full;                                                                       \
        r.member = (value);                                                                        \
        assert_refused(&r);                                                                        \
    } while (0)
    REFUSED(pipe_end, memory_kit_full.pipe_begin + PFL_STREAM_PIPE_BYTES + 1);
    REFUSED(pipe_end, memory_kit_full.pipe_begin - 1);
    REFUSED(out_end, memory_kit_full.out_base + memory_kit_full.out_capacity + 1);
    REFUSED(out_end, memory_kit_full.out_base - 1);
    REFUSED(out_capacity, 0);
    REFUSED(out_capacity, 8191);
    REFUSED(out_capacity, 2 * OUT_BYTES);
    REFUSED(out_capacity, (uint64_t)1 << 63);
    REFUSED(passed_bytes, memory_kit_full.passing_bytes + 1);
    REFUSED(passing_bytes, PFL_FRAME_MAX_BYTES + 1);
    REFUSED(gate_bytes, PFL_GATE_SAVED_MAX_BYTES + 1);
    REFUSED(gate_bytes, 0); /* it has a role */
    REFUSED(in_used, UINT64_MAX);
    REFUSED(reads, UINT64_MAX);
    REFUSED(writes, UINT64_MAX);
#undef REFUSED
    r = memory_kit_full;
    r.out_base = UINT64_MAX - 4000;
    r.out_end = UINT64_MAX;
    assert_refused(&r);
}

static void memory_of_another_version_is_refused(void **state)
{
    struct pfl_stream_memory *m = memory_kit_make();
    struct pfl_stream_memory *next;
    uint32_t other = 2;
    struct pfl_stream_record r = {.gate_bytes = 1};

    (void)state;
    pfl_stream_memory_publish(m, &r);
    assert_int_equal(pwrite(pfl_stream_memory_get_fd(m), &other, 4, 8), 4);
    assert_int_equal(memory_kit_take_dup(pfl_stream_memory_get_fd(m), &next), PFL_EPARSE);
    pfl_stream_memory_free(m);
}

static void memory_that_was_cut_or_grew_is_refused(void **state)
{
    struct pfl_stream_memory *m = memory_kit_make();
    struct pfl_stream_memory *next;
    int fd = pfl_stream_memory_get_fd(m);
    struct stat st;

    (void)state;
    assert_int_equal(fstat(fd, &st), 0);
    {
        const off_t sizes[] = {0,
                               1,
                               PAGE_BYTES,
                               st.st_size / 2,
                               st.st_size - 2 * (off_t)OUT_BYTES,
                               st.st_size - 1,
                               st.st_size + 1,
                               2 * st.st_size,
                               (off_t)1 << 32,
                               (off_t)1 << 40};

        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            assert_int_equal(ftruncate(fd, sizes[i]), 0);
            assert_int_equal(memory_kit_take_dup(fd, &next), PFL_EPARSE);
        }
    }
    pfl_stream_memory_free(m);
}

static void what_is_no_file_is_refused(void **state)
{
    struct pfl_stream_memory *next;
    int fds[6];

    (void)state;
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds + 2), 0);
    fds[4] = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    fds[5] = open("/dev/zero", O_RDWR | O_CLOEXEC);
    for (unsigned i = 0; i < 6; i++) {
        assert_true(fds[i] >= 0);
        assert_int_equal(memory_kit_take_dup(fds[i], &next), PFL_EPARSE);
        (void)close(fds[i]);
    }
    assert_int_equal(pfl_stream_memory_take_back(-1, &next), PFL_EPARSE);
}

#define CLAIM(name)                                                                                \
    cmocka_unit_test_setup_teardown(name, memory_kit_count_before,                                 \
                                    memory_kit_assert_nothing_is_left)

/* One of the files is a TiB long and empty, whatever limit the runner of mutants sets. */
static int lift_limit(void **state)
{
    struct rlimit limit;

    (void)state;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0)
        return -1;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_FSIZE, &limit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLAIM(each_changed_byte_of_the_head_is_found_out_or_does_no_harm),
        CLAIM(numbers_that_cannot_be_are_found_out_or_do_no_harm),
        CLAIM(a_record_that_cannot_be_true_is_refused),
        CLAIM(memory_of_another_version_is_refused),
        CLAIM(memory_that_was_cut_or_grew_is_refused),
        CLAIM(what_is_no_file_is_refused),
    };

    return cmocka_run_group_tests(tests, lift_limit, NULL);
}
