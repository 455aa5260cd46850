/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes as a history of the service without its sockets: records of `u8 what, u16 len, len bytes`,
 * each a request of one of two producers (one has shared memory, the other is on another machine)
 * or two consumers, the answer of the disk, or time that passes. Whatever comes, in whatever order,
 * nothing may crash, and at the end nothing may be left. Notes: everything that the service sends,
 * writes and reports.
 */
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "service/control/query.h"
#include "service/control/registry.h"
#include "service/session/clone.h"
#include "service/session/session_attach.h"
#include "service/session/session_change.h"
#include "service/session/session_due.h"
#include "service/session/session_flush.h"
#include "service/session/session_read.h"
#include "service/session/session_run.h"
#include "service/session/session_timers.h"
#include "service/session/stats.h"
#include "service/session/trigger.h"
#include "tests/fuzz/played_disk.h"
#include "tests/support/fuzz_note.h"
#include "tests/support/fuzz_packets.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX_BUFFERS_KB 1024u

enum what {
    WHAT_REGISTER,
    WHAT_UPDATE,
    WHAT_UNREGISTER,
    WHAT_COMMIT,
    WHAT_WRITER,
    WHAT_STARTED,
    WHAT_STOPPED,
    WHAT_PRODUCER_LEAVES,
    WHAT_ENABLE,
    WHAT_START,
    WHAT_DISABLE,
    WHAT_END,
    WHAT_FLUSH,
    WHAT_READ,
    WHAT_QUERY,
    WHAT_TIME,
    WHAT_DETACH,
    WHAT_ATTACH,
    WHAT_CHANGE,
    WHAT_CLONE,
    WHAT_END_CLONE,
    WHAT_MEMORY,  /* bytes into the producer's memory: u16 offset, bytes */
    WHAT_TRIGGER, /* of that name */
    WHAT_DISK,    /* does the jobs that wait; a number: with that errno */
    WHAT_REMOTE,  /* registers a data source of the producer on another machine */
    WHAT_CHUNKS,  /* that producer's CommitData */
    WHAT_OTHER,   /* the other consumer enables a session */
    WHAT_READ_CLONE,
    WHAT_FILE,     /* the next session enabled gets a file */
    WHAT_QUERY_AS, /* a number: uid, and two bits of options */
    WHAT_REMOTE_LEAVES,
    WHAT_COUNT,
};

static const char *const what_names[WHAT_COUNT] = {
    "register",   "update",  "unregister",   "commit",  "writer", "started",      "stopped",
    "leaves",     "enable",  "start",        "disable", "end",    "flush",        "read",
    "query",      "time",    "detach",       "attach",  "change", "clone",        "end clone",
    "memory",     "trigger", "disk",         "remote",  "chunks", "other enable", "read clone",
    "has a file", "query",   "remote leaves"};

struct world {
    struct pfl_service service;
    struct pfl_consumer consumer;
    struct pfl_consumer cloner; /* another one, for clones */
    struct pfl_producer *producer;
    struct pfl_producer *remote; /* on another machine */
    struct pfl_session_read read;
    struct pfl_session_read clone_read;
    struct played_disk disk;
    bool has_file;
    uint64_t now_ns;
};

static uint64_t read_clock(void *user, enum pfl_clock_id id)
{
    const struct world *w = user;

    (void)id;
    return w->now_ns;
}

static void read_random(void *user, void *dst, size_t len)
{
    (void)user;
    memset(dst, 7, len);
}

static void on_command(void *port, struct pfl_span body, int fd, bool is_setup)
{
    (void)port;
    note_message(is_setup ? fd >= 0 ? "setup+fd" : "setup" : "command", body);
    if (body.len == 0)
        abort();
}

static void on_remote_command(void *port, struct pfl_span body, int fd, bool is_setup)
{
    (void)port;
    (void)fd;
    note_message(is_setup ? "remote setup" : "remote command", body);
}

static const char *name_of(const struct world *w, const void *port)
{
    return port == &w->cloner ? "other " : "";
}

static struct world *world_of(void *port);

static void on_disabled(void *port, const char *why)
{
    note("%sdisabled: %s", name_of(world_of(port), port), why != NULL ? why : "-");
}

static void on_flush_done(void *port, const struct pfl_flush *flush, bool is_ok)
{
    note("%sflush %llu done: request=%llu flags=%llu lost=%d ok=%d", name_of(world_of(port), port),
         (unsigned long long)flush->id, (unsigned long long)flush->request_id,
         (unsigned long long)flush->flags, flush->has_lost, is_ok);
}

static void on_cloned(void *port, const struct pfl_clone_result *result)
{
    note("%scloned: ok=%d file=%d why=%s", name_of(world_of(port), port), result->is_ok,
         result->was_write_into_file, result->why != NULL ? result->why : "-");
    if (result->is_ok == (result->why != NULL))
        abort();
}

static void on_session_gone(void *port)
{
    struct world *w = world_of(port);

    note("%ssession gone", name_of(w, port));
    pfl_session_read_stop(port == &w->cloner ? &w->clone_read : &w->read);
}

static void on_observed(void *port)
{
    (void)port; /* take_events */
}

/* As the port does at the end of a turn. */
static void take_events(struct world *w)
{
    struct pfl_consumer *both[] = {&w->consumer, &w->cloner};

    for (size_t i = 0; i < 2; i++) {
        if (!pfl_observe_has_events(&both[i]->observe))
            continue;
        note_message(i == 0 ? "events" : "other events", pfl_observe_get(&both[i]->observe));
        pfl_observe_clear(&both[i]->observe);
    }
}

static void on_read_ready(void *port)
{
    note("%sread ready", name_of(world_of(port), port));
}

static const struct pfl_producer_ops producer_ops = {.send_command = on_command};
static const struct pfl_producer_ops remote_ops = {.send_command = on_remote_command};
static const struct pfl_consumer_ops consumer_ops = {.on_disabled = on_disabled,
                                                     .on_flush_done = on_flush_done,
                                                     .on_session_gone = on_session_gone,
                                                     .on_read_ready = on_read_ready,
                                                     .on_cloned = on_cloned,
                                                     .on_observed = on_observed};
static struct world world;

static struct world *world_of(void *port)
{
    (void)port;
    return &world;
}

static void connect_producer(struct world *w)
{
    const struct pfl_producer_conf conf = {
        .name = {(const uint8_t *)"p", 1}, .wants_scraping = true, .ops = &producer_ops, .port = w};

    if (pfl_registry_add_producer(&w->service, &conf, &w->producer) != 0)
        abort();
}

static void connect_remote(struct world *w)
{
    const struct pfl_producer_conf conf = {.name = {(const uint8_t *)"remote", 6},
                                           .sdk_version = {(const uint8_t *)"v1", 2},
                                           .uid = 1000,
                                           .pid = 77,
                                           .machine_id = 5,
                                           .machine_name = "box",
                                           .is_emulated = true,
                                           .ops = &remote_ops,
                                           .port = w};

    if (pfl_registry_add_producer(&w->service, &conf, &w->remote) != 0)
        abort();
}

static uint64_t number_of(struct pfl_span bytes)
{
    struct pfl_reader r = pfl_reader_of(bytes);

    return pfl_reader_varint(&r);
}

static void do_producer(struct world *w, enum what what, struct pfl_span bytes)
{
    uint64_t number = number_of(bytes);
    int rc = 0;

    if (what == WHAT_REGISTER)
        rc = pfl_registry_register_source(&w->service, w->producer, bytes);
    else if (what == WHAT_UPDATE)
        rc = pfl_registry_update_source(&w->service, w->producer, bytes);
    else if (what == WHAT_UNREGISTER)
        pfl_registry_unregister_source(&w->service, w->producer, bytes);
    else if (what == WHAT_COMMIT)
        rc = pfl_registry_commit(&w->service, w->producer, bytes);
    else if (what == WHAT_WRITER)
        rc = pfl_producer_set_writer(w->producer, (uint32_t)number & 0xffff,
                                     (uint32_t)(number >> 16));
    else if (what == WHAT_STARTED)
        pfl_session_on_started(&w->service, w->producer, number);
    else if (what == WHAT_STOPPED)
        pfl_session_on_stopped(&w->service, w->producer, number);
    if (rc != 0)
        note("producer: %s", pfl_err_str(rc));
    if (what != WHAT_PRODUCER_LEAVES)
        return;
    pfl_registry_remove_producer(&w->service, w->producer);
    connect_producer(w);
}

/* Large buffers only slow the search down. */
static bool is_small(struct pfl_span config)
{
    struct pfl_session_plan *plan;
    uint64_t sum_kb = 0;

    if (pfl_session_plan_new(config, &plan) != 0)
        return true;
    for (size_t i = 0; i < plan->buffers_len; i++)
        sum_kb += plan->buffers[i].size_kb;
    pfl_session_plan_free(plan);
    return sum_kb <= MAX_BUFFERS_KB;
}

static void note_frame(const struct pfl_readback_frame *frame)
{
    static uint8_t bytes[PFL_FRAME_MAX_BYTES];
    size_t len = 0;

    for (int i = 0; i < frame->iov_len; i++) {
        memcpy(bytes + len, frame->iov[i].iov_base, frame->iov[i].iov_len);
        len += frame->iov[i].iov_len;
    }
    note_reply(pfl_span_of(bytes + PFL_FRAME_PREFIX_BYTES, len - PFL_FRAME_PREFIX_BYTES));
    if (note_packets_are_plain())
        note("frame: %zu bytes, more=%d", frame->bytes, frame->has_more);
}

static void read_some(struct pfl_session_read *read, struct world *w, struct pfl_session *session,
                      uint64_t frames)
{
    struct pfl_readback_frame frame = {.has_more = true};
    int rc = 0;

    if (session == NULL ||
        (read->readback == NULL && pfl_session_read_start(read, &w->service, session, 1) != 0))
        return;
    pfl_readback_set_request(read->readback, 1, frames % 2 != 0);
    while (frame.has_more && frames-- > 0) {
        rc = pfl_session_read_next_frame(read, &frame);
        if (rc != 0)
            break;
        note_frame(&frame);
    }
    if (rc != 0)
        note("read: %s paused=%d proceed=%d", pfl_err_str(rc), pfl_session_read_is_paused(read),
             pfl_session_read_can_proceed(read));
    if (!frame.has_more)
        pfl_session_read_stop(read);
}

static void query(struct world *w, uint64_t options)
{
    struct pfl_query query = {.service = &w->service,
                              .uid = (uint32_t)(options >> 2),
                              .sessions_only = (options & 1) != 0,
                              .has_figures = (options & 2) != 0};
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);
    bool has_more = true;

    pfl_buf_init(&buf, 131072);
    while (has_more) {
        if (pfl_query_next(&query, &buf, &has_more) != 0 || buf.len == 0)
            abort();
        note_message("state", pfl_buf_get(&buf));
    }
    pfl_query_fini(&query);
    pfl_buf_clear(&buf);
    if (w->consumer.session != NULL) {
        pfl_stats_encode(&m, &w->service, w->consumer.session, 65536);
        note_message("stats", pfl_buf_get(&buf));
        note("losses %llu", (unsigned long long)pfl_stats_count_losses(w->consumer.session));
    }
    pfl_buf_fini(&buf);
}

static void do_session(struct world *w, enum what what, struct pfl_span bytes)
{
    struct pfl_session *session = w->consumer.session;
    const struct pfl_session_flush_conf flush = {.timeout_ms = (uint32_t)number_of(bytes),
                                                 .then = PFL_FLUSH_THEN_REPLY};

    if (session == NULL)
        return;
    if (what == WHAT_START)
        note("start: %d", pfl_session_start(&w->service, session));
    else if (what == WHAT_DISABLE)
        pfl_session_disable(&w->service, session);
    else if (what == WHAT_END)
        pfl_session_end(&w->service, session);
    else if (what == WHAT_FLUSH)
        pfl_session_flush(&w->service, session, &flush);
    else if (what == WHAT_READ)
        read_some(&w->read, w, session, number_of(bytes) % 64);
}

static void do_handover(struct world *w, enum what what, struct pfl_span bytes)
{
    const struct pfl_clone_request request = {.session_id = number_of(bytes),
                                              .trigger = {.name = bytes}};
    int rc = 0;

    if (what == WHAT_DETACH)
        rc = pfl_session_detach(&w->service, &w->consumer, bytes);
    else if (what == WHAT_ATTACH)
        rc = pfl_session_attach(&w->service, &w->consumer, bytes);
    else if (what == WHAT_CHANGE && w->consumer.session != NULL)
        rc = pfl_session_change(&w->service, w->consumer.session, bytes);
    else if (what == WHAT_CLONE)
        pfl_clone_start(&w->service, &w->cloner, &request);
    else if (what == WHAT_END_CLONE && w->cloner.session != NULL)
        pfl_session_end(&w->service, w->cloner.session);
    if (rc != 0)
        note("consumer: %s", pfl_err_str(rc));
}

static void enable(struct world *w, struct pfl_consumer *consumer, struct pfl_span config)
{
    struct pfl_session_enable_conf conf = {.config = config};
    char why[PFL_PLAN_WHY_BYTES] = "";
    int fd = w->has_file ? PLAYED_FD : -1;
    int rc;

    if (!is_small(config))
        return;
    conf.fd = &fd;
    rc = pfl_session_enable(&w->service, consumer, &conf, why);
    note("enable: %s %s%s", pfl_err_str(rc), why,
         w->has_file && fd >= 0 ? " (the file was not taken)" : "");
    w->has_file = false;
}

static void put_memory(struct world *w, struct pfl_span bytes)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    size_t at = pfl_reader_u16(&r);
    const struct pfl_smb_map *map = &w->producer->smb;

    if (r.failed || !pfl_smb_map_is_open(map) || r.left > map->bytes || at > map->bytes - r.left)
        return;
    memcpy((uint8_t *)map->smb.base + at, r.pos, r.left);
}

static void do_new(struct world *w, enum what what, struct pfl_span bytes)
{
    int rc = 0;

    if (what == WHAT_MEMORY)
        put_memory(w, bytes);
    else if (what == WHAT_TRIGGER)
        pfl_trigger_activate(&w->service, w->producer, bytes);
    else if (what == WHAT_DISK)
        played_disk_run(&w->disk, (int)(number_of(bytes) % 100));
    else if (what == WHAT_REMOTE)
        rc = pfl_registry_register_source(&w->service, w->remote, bytes);
    else if (what == WHAT_CHUNKS)
        rc = pfl_registry_commit(&w->service, w->remote, bytes);
    else if (what == WHAT_OTHER)
        enable(w, &w->cloner, bytes);
    else if (what == WHAT_READ_CLONE)
        read_some(&w->clone_read, w, w->cloner.session, number_of(bytes) % 64);
    else if (what == WHAT_FILE)
        w->has_file = true;
    else if (what == WHAT_QUERY_AS)
        query(w, number_of(bytes));
    if (rc != 0)
        note("remote: %s", pfl_err_str(rc));
    if (what != WHAT_REMOTE_LEAVES)
        return;
    pfl_registry_remove_producer(&w->service, w->remote);
    connect_remote(w);
}

static void pass_time(struct world *w, uint64_t ms)
{
    uint64_t next_ms;

    w->now_ns += (ms & 0xffffff) * 1000000;
    pfl_session_due_run(&w->service);
    next_ms = pfl_session_timers_next_ms(&w->service);
    if (next_ms > pfl_session_timers_find_ms(&w->service))
        abort();
    if (next_ms != PFL_SESSION_NEVER)
        note("at %llu ms, next %llu ms", (unsigned long long)(w->now_ns / 1000000),
             (unsigned long long)next_ms);
}

static void do_what(struct world *w, enum what what, struct pfl_span bytes)
{
    if (what < WHAT_ENABLE)
        do_producer(w, what, bytes);
    else if (what == WHAT_ENABLE)
        enable(w, &w->consumer, bytes);
    else if (what == WHAT_QUERY)
        query(w, 0);
    else if (what == WHAT_TIME)
        pass_time(w, number_of(bytes));
    else if (what >= WHAT_MEMORY)
        do_new(w, what, bytes);
    else if (what >= WHAT_DETACH)
        do_handover(w, what, bytes);
    else
        do_session(w, what, bytes);
    take_events(w);
}

static void open_world(struct world *w)
{
    static const struct pfl_service_facts facts = {.version = "fuzz"};
    const struct pfl_service_conf conf = {.now_ns = read_clock,
                                          .random = read_random,
                                          .user = w,
                                          .facts = &facts,
                                          .disk = &played_disk_ops,
                                          .disk_user = &w->disk};

    *w = (struct world){.now_ns = 1000000000000ull};
    if (pfl_service_init(&w->service, &conf) != 0)
        abort();
    w->consumer.ops = &consumer_ops;
    w->consumer.port = &w->consumer;
    pfl_registry_add_consumer(&w->service, &w->consumer);
    w->consumer.observe.mask = 7;
    w->cloner.ops = &consumer_ops;
    w->cloner.port = &w->cloner;
    pfl_registry_add_consumer(&w->service, &w->cloner);
    connect_producer(w);
    connect_remote(w);
}

static void close_world(struct world *w)
{
    pfl_registry_remove_producer(&w->service, w->producer);
    pfl_registry_remove_producer(&w->service, w->remote);
    pfl_registry_remove_consumer(&w->service, &w->consumer);
    pfl_registry_remove_consumer(&w->service, &w->cloner);
    pfl_session_end_detached(&w->service);
    while (played_disk_run(&w->disk, 0))
        continue;
    pfl_service_fini(&w->service);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pfl_reader r = pfl_reader_of(pfl_span_of(data, size));
    struct pfl_mem_stats stats;

    pfl_log_set_level(PFL_LOG_ERROR);
    note_packets_open();
    open_world(&world);
    while (r.left != 0 && !r.failed) {
        unsigned what = pfl_reader_u8(&r) % WHAT_COUNT;
        size_t len = pfl_reader_u16(&r);

        note("-- %s", what_names[what]);
        do_what(&world, (enum what)what, pfl_reader_bytes(&r, len < r.left ? len : r.left));
    }
    note("-- end");
    close_world(&world);
    note_packets_close();
    pfl_mem_stats_get(&stats);
    if (stats.live_blocks != 0)
        abort();
    return 0;
}
