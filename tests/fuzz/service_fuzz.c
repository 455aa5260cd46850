/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes as a history of the service without its sockets: records of `u8 what, u16 len, len bytes`,
 * each a request of one producer or one consumer, or time that passes. Whatever comes, in whatever
 * order, nothing may crash, and at the end nothing may be left.
 */
#include <stdlib.h>

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
    WHAT_COUNT,
};

struct world {
    struct pfl_service service;
    struct pfl_consumer consumer;
    struct pfl_consumer cloner; /* another one, for clones */
    struct pfl_producer *producer;
    struct pfl_session_read read;
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
    (void)fd;
    (void)is_setup;
    if (body.len == 0)
        abort();
}

static void on_disabled(void *port, const char *why)
{
    (void)port;
    (void)why;
}

static void on_flush_done(void *port, const struct pfl_flush *flush, bool is_ok)
{
    (void)port;
    (void)flush;
    (void)is_ok;
}

static void on_cloned(void *port, const struct pfl_clone_result *result)
{
    (void)port;
    if (result->is_ok == (result->why != NULL))
        abort();
}

static void on_session_gone(void *port)
{
    struct world *w = port;

    pfl_session_read_stop(&w->read);
}

static void on_observed(void *port)
{
    struct world *w = port;

    pfl_observe_clear(&w->consumer.observe);
}

static const struct pfl_producer_ops producer_ops = {.send_command = on_command};
static const struct pfl_consumer_ops consumer_ops = {.on_disabled = on_disabled,
                                                     .on_flush_done = on_flush_done,
                                                     .on_session_gone = on_session_gone,
                                                     .on_cloned = on_cloned,
                                                     .on_observed = on_observed};

static void ignore(void *port)
{
    (void)port;
}

static const struct pfl_consumer_ops cloner_ops = {.on_disabled = on_disabled,
                                                   .on_flush_done = on_flush_done,
                                                   .on_session_gone = ignore,
                                                   .on_cloned = on_cloned,
                                                   .on_observed = ignore};

static void connect_producer(struct world *w)
{
    const struct pfl_producer_conf conf = {
        .name = {(const uint8_t *)"p", 1}, .wants_scraping = true, .ops = &producer_ops, .port = w};

    if (pfl_registry_add_producer(&w->service, &conf, &w->producer) != 0)
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
        rc = pfl_producer_set_writer(w->producer, (uint32_t)number, (uint32_t)(number >> 16));
    else if (what == WHAT_STARTED)
        pfl_session_on_started(&w->service, w->producer, number);
    else if (what == WHAT_STOPPED)
        pfl_session_on_stopped(&w->service, w->producer, number);
    (void)rc;
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

static void read_some(struct world *w, uint64_t frames)
{
    struct pfl_readback_frame frame = {.has_more = true};

    if (w->read.readback == NULL &&
        pfl_session_read_start(&w->read, &w->service, w->consumer.session, 1) != 0)
        return;
    pfl_readback_set_request(w->read.readback, 1, frames % 2 != 0);
    while (frame.has_more && frames-- > 0) {
        if (pfl_readback_next_frame(w->read.readback, &frame) != 0)
            break;
    }
    if (!frame.has_more)
        pfl_session_read_stop(&w->read);
}

static void query(struct world *w)
{
    struct pfl_query query = {.service = &w->service};
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);
    bool has_more = true;

    pfl_buf_init(&buf, 131072);
    while (has_more)
        if (pfl_query_next(&query, &buf, &has_more) != 0 || buf.len == 0)
            abort();
    pfl_query_fini(&query);
    pfl_buf_clear(&buf);
    if (w->consumer.session != NULL)
        pfl_stats_encode(&m, &w->service, w->consumer.session, 65536);
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
        (void)pfl_session_start(&w->service, session);
    else if (what == WHAT_DISABLE)
        pfl_session_disable(&w->service, session);
    else if (what == WHAT_END)
        pfl_session_end(&w->service, session);
    else if (what == WHAT_FLUSH)
        pfl_session_flush(&w->service, session, &flush);
    else if (what == WHAT_READ)
        read_some(w, number_of(bytes) % 64);
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
    (void)rc;
}

static void do_what(struct world *w, enum what what, struct pfl_span bytes)
{
    char why[PFL_PLAN_WHY_BYTES];

    if (what < WHAT_ENABLE) {
        do_producer(w, what, bytes);
    } else if (what == WHAT_ENABLE) {
        if (is_small(bytes) &&
            pfl_session_enable(&w->service, &w->consumer,
                               &(struct pfl_session_enable_conf){.config = bytes}, why) != 0)
            why[sizeof(why) - 1] = '\0';
    } else if (what == WHAT_QUERY) {
        query(w);
    } else if (what == WHAT_TIME) {
        w->now_ns += (number_of(bytes) & 0xffffff) * 1000000;
        pfl_session_due_run(&w->service);
        if (pfl_session_timers_next_ms(&w->service) > pfl_session_timers_find_ms(&w->service))
            abort();
    } else if (what >= WHAT_DETACH) {
        do_handover(w, what, bytes);
    } else {
        do_session(w, what, bytes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct pfl_service_facts facts = {.version = "fuzz"};
    struct pfl_reader r = pfl_reader_of(pfl_span_of(data, size));
    static struct world w;
    const struct pfl_service_conf conf = {
        .now_ns = read_clock, .random = read_random, .user = &w, .facts = &facts};
    struct pfl_mem_stats stats;

    w = (struct world){.now_ns = 1000000000000ull};
    if (pfl_service_init(&w.service, &conf) != 0)
        abort();
    w.consumer.ops = &consumer_ops;
    w.consumer.port = &w;
    pfl_registry_add_consumer(&w.service, &w.consumer);
    w.consumer.observe.mask = 7;
    w.cloner.ops = &cloner_ops;
    pfl_registry_add_consumer(&w.service, &w.cloner);
    connect_producer(&w);
    while (r.left != 0 && !r.failed) {
        unsigned what = pfl_reader_u8(&r) % WHAT_COUNT;
        size_t len = pfl_reader_u16(&r);

        do_what(&w, (enum what)what, pfl_reader_bytes(&r, len < r.left ? len : r.left));
    }
    pfl_registry_remove_producer(&w.service, w.producer);
    pfl_registry_remove_consumer(&w.service, &w.consumer);
    pfl_registry_remove_consumer(&w.service, &w.cloner);
    pfl_session_end_detached(&w.service);
    pfl_service_fini(&w.service);
    pfl_mem_stats_get(&stats);
    if (stats.live_blocks != 0)
        abort();
    return 0;
}
