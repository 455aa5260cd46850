/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream's memory as the next process of the agent finds it: a plausible one, in which the input
 * wrote. First byte: bits of what there is (a gate, zstd, a file, a service that is gone); then
 * records of `u8 area, u16 at, u8 len, bytes`, or, once AREA_SERVICE comes, what the service says.
 * Whatever it is: it is refused or continues, and nothing is left of it, neither memory nor
 * descriptors.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/daemon/stream/stream_memory.h"
#include "agent/daemon/stream/stream_port.h"
#include "base/io/loop.h"
#include "base/log.h"
#include "base/mem.h"
#include "proto/gate/gate.h"

#define ID        "0123456789abcdef0123456789abcdef"
#define OUT_BYTES (64u * 1024)
#define TURNS     8u
#define DATA_MAX  65536u

enum has {
    HAS_GATE = 1,
    HAS_ZSTD = 2,
    HAS_FILE = 4,
    HAS_NO_SERVICE = 8,
};

enum area {
    AREA_HEAD, /* facts, records, noted calls */
    AREA_GATE,
    AREA_PIPE,
    AREA_FRAME,
    AREA_SERVICE, /* not the memory's: what comes from there afterwards */
    AREAS,
};

struct world {
    uv_loop_t loop;
    struct pfl_spool_pool pool;
    struct pfl_worker *worker;
    struct pfl_events events;
    struct pfl_agent_stream *stream; /* NULL: refused or gone */
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int pass(void *user, struct pfl_span bytes)
{
    (void)user;
    (void)bytes;
    return 0;
}

static uint32_t save_gate(struct pfl_stream_memory *m)
{
    static const uint8_t role[] = {0x0a, 1, 'r', 0x12, 1, 'x'};
    const struct pfl_gate_conf conf = {
        .role = pfl_span_of(role, sizeof(role)), .to_service = pass, .to_operator = pass};
    struct pfl_writer w = pfl_stream_memory_get_gate_room(m);
    struct pfl_gate *gate;

    if (pfl_gate_new(&conf, &gate) != 0 || pfl_gate_save(gate, &w) != 0)
        abort();
    pfl_gate_free(gate);
    return (uint32_t)(PFL_GATE_SAVED_MAX_BYTES - w.left);
}

/* As a process leaves it that has sent some bytes and read others. */
static struct pfl_stream_memory *make_memory(uint8_t has)
{
    const struct pfl_stream_facts facts = {.out_max_bytes = OUT_BYTES,
                                           .ttl_ms = 60000,
                                           .begin_ms = 1,
                                           .is_zstd = (has & HAS_ZSTD) != 0,
                                           .has_gate = (has & HAS_GATE) != 0,
                                           .id = ID,
                                           .operator_name = "me"};
    struct pfl_stream_record record = {.in_used = 100,
                                       .reads = 3,
                                       .writes = 2,
                                       .out_base = 1000,
                                       .out_end = 3000,
                                       .out_capacity = 4096,
                                       .h2_streams = 1};
    struct pfl_stream_memory *m;

    if (pfl_stream_memory_new(&facts, &m) != 0)
        abort();
    if (has & HAS_GATE)
        record.gate_bytes = save_gate(m);
    if (has & HAS_FILE)
        record.spool.file_end = 500;
    pfl_stream_memory_publish(m, &record);
    return m;
}

static uint8_t *find_area(struct pfl_stream_memory *m, enum area area)
{
    switch (area) {
    case AREA_GATE:
        return (uint8_t *)(uintptr_t)pfl_stream_memory_get_gate(m).data;
    case AREA_PIPE:
        return pfl_stream_memory_get_pipe(m);
    case AREA_FRAME:
        return pfl_stream_memory_get_frame(m);
    default:
        /* The facts lie in the head; where it begins, the page does. */
        return (uint8_t *)((uintptr_t)pfl_stream_memory_get_facts(m) & ~(uintptr_t)4095);
    }
}

/* All areas have a page at least. */
static void damage(struct pfl_stream_memory *m, struct pfl_reader *r)
{
    uint8_t *areas[AREAS];

    for (unsigned i = 0; i < AREA_SERVICE; i++)
        areas[i] = find_area(m, (enum area)i);
    while (r->left >= 4) {
        unsigned area = pfl_reader_u8(r) % AREAS;
        size_t at = pfl_reader_u16(r) % 4096;
        size_t len = pfl_reader_u8(r);
        struct pfl_span bytes;

        if (area == AREA_SERVICE)
            return;
        len = len < r->left ? len : r->left;
        bytes = pfl_reader_bytes(r, len < 4096 - at ? len : 4096 - at);
        if (bytes.len != 0)
            memcpy(areas[area] + at, bytes.data, bytes.len);
    }
}

static int make_file(void)
{
    int fd = memfd_create("spool", MFD_CLOEXEC);

    if (fd < 0 || ftruncate(fd, 4096) != 0)
        abort();
    return fd;
}

static void on_gone(void *user)
{
    ((struct world *)user)->stream = NULL;
}

static void take_back(struct world *w, int memory_fd, int service_fd, uint8_t has)
{
    const struct pfl_agent_stream_conf conf = {.loop = &w->loop,
                                               .pool = &w->pool,
                                               .worker = w->worker,
                                               .events = &w->events,
                                               .spool_bytes = PFL_AGENT_SPOOL_MIN_BYTES,
                                               .is_to_be_kept = true,
                                               .on_gone = on_gone,
                                               .user = w};
    const struct pfl_agent_stream_kept kept = {.id = ID,
                                               .memory_fd = memory_fd,
                                               .service_fd = service_fd,
                                               .spool_fd = has & HAS_FILE ? make_file() : -1};
    struct pfl_agent_stream *stream = NULL;

    if (pfl_agent_stream_take_back(&conf, &kept, &stream) != 0)
        return;
    w->stream = stream;
}

static void turn(struct world *w)
{
    for (unsigned i = 0; i < TURNS && w->stream != NULL; i++)
        (void)uv_run(&w->loop, UV_RUN_NOWAIT);
}

static void play(struct world *w, struct pfl_reader *r, uint8_t has)
{
    struct pfl_stream_memory *m = make_memory(has);
    int memory_fd = dup(pfl_stream_memory_get_fd(m));
    int fds[2];

    damage(m, r);
    pfl_stream_memory_free(m);
    if (memory_fd < 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0)
        abort();
    if (has & HAS_NO_SERVICE)
        (void)shutdown(fds[1], SHUT_RDWR);
    take_back(w, memory_fd, fds[0], has);
    turn(w);
    if (r->left != 0)
        (void)!send(fds[1], r->pos, r->left < DATA_MAX ? r->left : DATA_MAX,
                    MSG_DONTWAIT | MSG_NOSIGNAL);
    turn(w);
    if (w->stream != NULL) {
        struct pfl_agent_stream_info info;

        pfl_agent_stream_get_info(w->stream, &info);
        if (strcmp(info.id, ID) != 0 || info.is_carried)
            abort();
        pfl_agent_stream_kill(w->stream);
    }
    (void)close(fds[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pfl_reader r = pfl_reader_of(pfl_span_of(data, size));
    struct world w = {.pool = {.dir = "/tmp",
                               .max_bytes = 1u << 24,
                               .disk_max_bytes = 1u << 24,
                               .disk_max_stream_bytes = 1u << 24}};
    struct pfl_mem_stats stats;
    int before;
    int after;

    if (size == 0)
        return 0;
    pfl_log_set_level(PFL_LOG_ERROR);
    if (pfl_loop_init(&w.loop) != 0 ||
        pfl_worker_open(&(struct pfl_worker_conf){.loop = &w.loop, .threads_max = 1}, &w.worker) !=
            0 ||
        pfl_worker_open(&(struct pfl_worker_conf){.loop = &w.loop, .threads_max = 4},
                        &w.pool.worker) != 0)
        abort();
    pfl_events_init(&w.events);
    before = dup(0);
    (void)close(before);
    play(&w, &r, pfl_reader_u8(&r));
    pfl_worker_close(w.worker);
    pfl_worker_close(w.pool.worker);
    (void)uv_run(&w.loop, UV_RUN_DEFAULT);
    /* The lowest number that is free. */
    after = dup(0);
    (void)close(after);
    if (w.stream != NULL || uv_loop_close(&w.loop) != 0 || after > before)
        abort();
    pfl_events_fini(&w.events);
    pfl_mem_stats_get(&stats);
    if (stats.live_blocks != 0)
        abort();
    return 0;
}
