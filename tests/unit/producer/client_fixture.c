/* SPDX-License-Identifier: Apache-2.0 */
/* The library's callbacks note what they saw; a test reads it. See client_fixture.h. */
#include "tests/unit/producer/client_fixture.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "producer/platform/heap.h"

uint32_t client_batch_ms = 1;

static void write_in_callback(struct client_seen *seen)
{
    struct perfleet_writer *w;

    if (!seen->writes_in_callbacks)
        return;
    PERFLEET_TRACE(seen->source, w)
    {
        perfleet_packet_begin(w);
        perfleet_uint(w, 8, 1);
        perfleet_packet_end(w);
    }
}

static void on_setup(void *user, uint32_t instance, const void *bytes, size_t len)
{
    struct client_seen *seen = user;

    (void)instance;
    if (len == sizeof(seen->config))
        memcpy(seen->config, bytes, len);
    atomic_fetch_add(&seen->setups, 1);
}

static void on_start(void *user, uint32_t instance)
{
    struct client_seen *seen = user;

    (void)instance;
    if (seen->forks_in_start)
        seen->child = fork(); /* and returns in both */
    atomic_fetch_add(&((struct client_seen *)user)->starts, 1);
}

static void on_stop(void *user, uint32_t instance)
{
    (void)instance;
    atomic_fetch_add(&((struct client_seen *)user)->stops, 1);
}

static void on_flush(void *user, uint32_t instance, uint64_t flags)
{
    struct client_seen *seen = user;

    (void)instance;
    atomic_store(&seen->flush_flags, flags);
    atomic_fetch_add(&seen->flushes, 1);
    write_in_callback(seen);
}

static void commit_and_wait(struct client_seen *seen)
{
    struct perfleet_writer *w;

    PERFLEET_TRACE(seen->source, w)
    {
        perfleet_packet_begin(w);
        perfleet_uint(w, 8, 1);
        perfleet_packet_end(w);
        perfleet_writer_flush(w);
    }
    perfleet_commit(seen->commits_in_clear);
    for (uint32_t ms = 0; ms < 60000 && !atomic_load(&seen->is_released); ms++)
        poll(NULL, 0, 1);
}

static void on_clear(void *user, uint32_t instance)
{
    struct perfleet *tracing = ((struct client_seen *)user)->triggers_in_clear;

    (void)instance;
    if (tracing != NULL) {
        assert_int_equal(perfleet_trigger(tracing, "first"), 0);
        assert_int_equal(perfleet_trigger(tracing, "second"), 0);
    }
    if (((struct client_seen *)user)->commits_in_clear != NULL)
        commit_and_wait(user);
    atomic_fetch_add(&((struct client_seen *)user)->clears, 1);
}

void client_open_fixture(struct client_fixture *f, uint32_t source_flags)
{
    struct perfleet_conf conf = {.producer_name = "tester", .batch_ms = client_batch_ms};
    struct perfleet_source_conf source = {.name = "com.test",
                                          .user = &f->seen,
                                          .flags = source_flags,
                                          .policy = PERFLEET_STALL,
                                          .on_setup = on_setup,
                                          .on_start = on_start,
                                          .on_stop = on_stop,
                                          .on_flush = on_flush,
                                          .on_clear_incremental_state = on_clear};

    memset(&f->seen, 0, sizeof(f->seen));
    conf.socket = f->service.name;
    assert_int_equal(perfleet_open(&conf, &f->tracing), 0);
    assert_int_equal(perfleet_register(f->tracing, &source, &f->source), 0);
    f->seen.source = f->source;
}

/* Up to a started instance 11. */
void client_start_session(struct client_fixture *f)
{
    struct pfl_span args;

    fake_greet(&f->service);
    args = fake_expect(&f->service, FAKE_REGISTER_DATA_SOURCE);
    assert_memory_equal(args.data + 2, client_config, 10);
    if ((f->service.lacks & 1u << FAKE_SYNC) == 0) {
        fake_expect(&f->service, FAKE_SYNC);
        fake_reply(&f->service, pfl_span_of(NULL, 0));
    }
    assert_int_equal(perfleet_wait_connected(f->tracing, 10000), 0);
    fake_setup_tracing(&f->service, 8);
    fake_instance_command(&f->service, 6, 11, pfl_span_of(client_config, sizeof(client_config)));
    fake_instance_command(&f->service, 1, 11, pfl_span_of(client_config, sizeof(client_config)));
    if ((f->service.lacks & 1u << FAKE_NOTIFY_STARTED) == 0) {
        args = fake_expect(&f->service, FAKE_NOTIFY_STARTED);
        assert_int_equal(args.data[1], 11);
    }
}

void client_close_fixture(struct client_fixture *f)
{
    perfleet_close(f->tracing);
    fake_fini(&f->service);
    pfl_source_drop_thread();
    assert_int_equal(pfl_heap_live_blocks(), 0);
}

uint32_t client_write_packets(struct client_fixture *f, uint32_t n)
{
    struct perfleet_writer *w;
    uint32_t written = 0;

    for (uint32_t i = 0; i < n; i++) {
        PERFLEET_TRACE(f->source, w)
        {
            perfleet_packet_begin(w);
            perfleet_uint(w, 8, i);
            perfleet_packet_end(w);
            written++;
        }
    }
    return written;
}
