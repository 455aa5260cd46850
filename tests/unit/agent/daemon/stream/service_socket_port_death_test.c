/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that are killed while they read and write one connection to a service, one after the
 * other: what the kernel noted in their memory says what the last call of each did. No byte is lost
 * and none comes twice, either way.
 *
 * The parent is the service. It has no loop and no thread: its children begin as it is.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/daemon/stream/service_socket_port.h"
#include "base/io/loop.h"
#include "base/mem.h"
#include "tests/support/emulator.h"
#include "tests/support/pattern.h"
#include "tests/unit/agent/daemon/stream/memory_kit.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LIVES 100u /* a process takes long to begin */
#else
#define LIVES 500u
#endif
#define READ_MAX 9000u
#define SEND_MAX 9000u

enum end { END_NOT_TAKEN_BACK = 10, END_OTHER_BYTES, END_OF_SERVICE };

/* A process of the agent. */
struct life {
    uv_loop_t loop;
    struct pfl_stream_memory *memory;
    struct pfl_service_socket *service;
    struct pfl_stream_record
        record; /* pipe_end: bytes that were read; in_used: that were written */
    uint32_t seed;
};

static uint32_t roll(uint32_t *seed, uint32_t below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)*seed * below) >> 32);
}

static uint64_t at_ring(const struct life *l)
{
    return l->record.pipe_end % PFL_STREAM_PIPE_BYTES;
}

/* Bytes that were read are judged and done with at once. */
static void use_read(struct life *l, size_t len)
{
    const uint8_t *data = pfl_stream_memory_get_pipe(l->memory);
    uint64_t at = at_ring(l);
    size_t first = PFL_STREAM_PIPE_BYTES - (size_t)at;

    first = first < len ? first : len;
    if (!pfl_pattern_is(l->record.pipe_end, data + at, first) ||
        !pfl_pattern_is(l->record.pipe_end + first, data, len - first))
        _exit(END_OTHER_BYTES);
    l->record.pipe_end += len;
    l->record.pipe_begin = l->record.pipe_end;
    l->record.reads++;
    pfl_stream_memory_publish(l->memory, &l->record);
}

static int get_room(void *user, struct iovec *ret_pieces, uint64_t *ret_reads)
{
    struct life *l = user;
    uint8_t *data = pfl_stream_memory_get_pipe(l->memory);
    size_t room = 1 + roll(&l->seed, READ_MAX);
    size_t first = PFL_STREAM_PIPE_BYTES - (size_t)at_ring(l);

    *ret_reads = l->record.reads;
    first = first < room ? first : room;
    ret_pieces[0] = (struct iovec){data + at_ring(l), first};
    ret_pieces[1] = (struct iovec){data, room - first};
    return first < room ? 2 : 1;
}

static void write_some(struct life *l)
{
    size_t len;

    do {
        struct pfl_span data =
            pfl_span_of(pfl_pattern_get(l->record.in_used), 1 + roll(&l->seed, SEND_MAX));

        if (pfl_service_socket_send(l->service, data, l->record.writes, &len) != 0)
            _exit(END_OF_SERVICE);
        l->record.in_used += len;
        l->record.writes += len != 0;
        pfl_stream_memory_publish(l->memory, &l->record);
    } while (len != 0 && roll(&l->seed, 4) != 0);
}

static void on_read(void *user, size_t len)
{
    use_read(user, len);
    write_some(user);
}

static void on_eof(void *user)
{
    (void)user;
    _exit(END_OF_SERVICE);
}

static void on_writable(void *user)
{
    write_some(user);
}

static const struct pfl_service_socket_ops ops = {
    .get_room = get_room, .on_read = on_read, .on_eof = on_eof, .on_writable = on_writable};

/* What the one before did and could not say. */
static void proceed(struct life *l)
{
    size_t written = pfl_noted_call_get(pfl_stream_memory_get_writing(l->memory), l->record.writes);
    size_t read = pfl_noted_call_get(pfl_stream_memory_get_reading(l->memory), l->record.reads);

    l->record.in_used += written;
    l->record.writes += written != 0;
    if (read != 0)
        use_read(l, read);
    pfl_stream_memory_publish(l->memory, &l->record);
}

static _Noreturn void live(int memory_fd, int service_fd, uint32_t seed)
{
    struct life l = {.seed = seed};
    struct pfl_service_socket_conf conf = {
        .loop = &l.loop, .ops = &ops, .user = &l, .fd = service_fd};

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (pfl_loop_init(&l.loop) != 0 || pfl_stream_memory_take_back(memory_fd, &l.memory) != 0)
        _exit(END_NOT_TAKEN_BACK);
    l.record = *pfl_stream_memory_get_record(l.memory);
    conf.memory = l.memory;
    proceed(&l);
    if (pfl_service_socket_open(&conf, &l.service) != 0)
        _exit(END_NOT_TAKEN_BACK);
    write_some(&l);
    (void)uv_run(&l.loop, UV_RUN_DEFAULT);
    _exit(END_OF_SERVICE);
}

/* ---- the service ---- */

static struct {
    int fd;
    uint64_t said;
    uint64_t heard;
} peer;

/* Nothing waits. */
static void talk(uint32_t *seed)
{
    static uint8_t data[65536];
    ssize_t len = send(peer.fd, pfl_pattern_get(peer.said), 1 + roll(seed, 20000),
                       MSG_DONTWAIT | MSG_NOSIGNAL);

    peer.said += len > 0 ? (uint64_t)len : 0;
    len = recv(peer.fd, data, 1 + roll(seed, sizeof(data) - 1), MSG_DONTWAIT);
    assert_true(len != 0);
    if (len < 0)
        return;
    assert_true(pfl_pattern_is(peer.heard, data, (size_t)len));
    peer.heard += (uint64_t)len;
}

static void end_life(pid_t child)
{
    int status = 0;

    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status)); /* else it found something wrong */
}

/* What is in the sockets still belongs to what was said and written. */
static void assert_all_is_there(struct pfl_stream_memory *m, int service_fd)
{
    struct pfl_stream_record r = *pfl_stream_memory_get_record(m);
    static uint8_t data[1u << 20];
    ssize_t len;

    r.in_used += pfl_noted_call_get(pfl_stream_memory_get_writing(m), r.writes);
    r.pipe_end += pfl_noted_call_get(pfl_stream_memory_get_reading(m), r.reads);
    while ((len = recv(peer.fd, data, sizeof(data), MSG_DONTWAIT)) > 0) {
        assert_true(pfl_pattern_is(peer.heard, data, (size_t)len));
        peer.heard += (uint64_t)len;
    }
    assert_int_equal(peer.heard, r.in_used);
    while ((len = recv(service_fd, data, sizeof(data), MSG_DONTWAIT)) > 0) {
        assert_true(pfl_pattern_is(r.pipe_end, data, (size_t)len));
        r.pipe_end += (uint64_t)len;
    }
    assert_int_equal(peer.said, r.pipe_end);
}

static void no_byte_is_lost_or_comes_twice_whenever_death_comes(void **state)
{
    static const struct pfl_stream_record at_begin = {.gate_bytes =
                                                          1}; /* these facts have a gate */
    struct pfl_stream_memory *m = memory_kit_make();
    uint32_t seed = 3;
    int fds[2];

    (void)state;
    if (pfl_is_emulated())
        skip(); /* qemu-user notes a call's length itself, after the call */
    pfl_stream_memory_publish(m, &at_begin);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    peer.fd = fds[1];
    for (unsigned i = 0; i < LIVES; i++) {
        uint32_t seed_of_life = roll(&seed, UINT32_MAX);
        uint64_t reads = pfl_stream_memory_get_record(m)->reads;
        uint32_t turns = roll(&seed, 40);
        pid_t child = fork();

        assert_true(child >= 0);
        if (child == 0)
            live(pfl_stream_memory_get_fd(m), fds[0], seed_of_life);
        /* It is at work: from then on at any moment. */
        while (pfl_stream_memory_get_record(m)->reads < reads + 1 &&
               waitpid(child, NULL, WNOHANG) == 0)
            talk(&seed);
        while (turns-- != 0)
            talk(&seed);
        end_life(child);
    }
    assert_all_is_there(m, fds[0]);
    assert_true(pfl_stream_memory_get_record(m)->reads >= LIVES);
    assert_true(pfl_stream_memory_get_record(m)->in_used > LIVES);
    (void)close(fds[0]);
    (void)close(fds[1]);
    pfl_stream_memory_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_byte_is_lost_or_comes_twice_whenever_death_comes),
    };

    (void)pfl_pattern_get(0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
