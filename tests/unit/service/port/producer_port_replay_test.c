/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plays recorded producers against the service: their frames, their chunks, a session of the
 * recorded consumer. The service must send the recorded commands, and the trace read back must
 * hold exactly the packets that the real service made of them, per writer and in order.
 *
 * Ids differ between services: ours is made to continue where the recorded one was.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "abi/page.h"
#include "base/mem.h"
#include "base/message.h"
#include "tests/support/capture.h"
#include "tests/unit/service/port/port_kit.h"

#define SMB_BYTES     262144u
#define MAX_SEQUENCES 8u
#define MAX_PACKETS   20000u
#define STEP_MS       10u
#define MAX_STEPS     2000

struct replay {
    struct pfl_port_kit kit;
    struct pfl_kit_client producer;
    struct pfl_kit_client consumer;
    uint64_t enable_id;
    uint32_t page_bytes;
    unsigned commands;
};

/* The first field `id` of a message, empty when it has none. */
static struct pfl_field get_field(struct pfl_span bytes, uint32_t id)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == id)
            return f;
    }
    return (struct pfl_field){0};
}

/* Makes ids continue where the recording's setup_data_source says. */
static void adopt_ids(struct pfl_port_kit *kit, const char *producer_cap)
{
    struct pfl_capture cap;
    struct pfl_capture_record record;

    pfl_capture_open(&cap, producer_cap);
    while (pfl_capture_next(&cap, &record)) {
        struct pfl_span setup;
        struct pfl_span config;

        if (record.kind != PFL_CAPTURE_FRAME || !record.is_from_service)
            continue;
        setup = get_field(get_field(get_field(record.payload, 6).bytes, 3).bytes, 6).bytes;
        if (setup.len == 0)
            continue;
        config = get_field(setup, 2).bytes;
        kit->service.last_instance_id = get_field(setup, 1).value - 1;
        kit->service.last_buffer_id = (uint16_t)(get_field(config, 2).value - 1);
        kit->service.last_session_id = get_field(config, 4).value - 1;
        break;
    }
    pfl_capture_close(&cap);
}

/* Sends the recorded consumer's EnableTracing. */
static void enable(struct replay *r, const char *consumer_cap)
{
    struct pfl_capture cap;
    struct pfl_capture_record record;

    pfl_kit_client_open(&r->consumer, &r->kit, r->kit.consumer_address);
    pfl_capture_open(&cap, consumer_cap);
    while (pfl_capture_next(&cap, &record)) {
        struct pfl_span invoke = get_field(record.payload, 5).bytes;

        if (record.kind != PFL_CAPTURE_FRAME || record.is_from_service || invoke.len == 0)
            continue;
        assert_int_equal(get_field(invoke, 2).value, KIT_ENABLE);
        r->enable_id = get_field(record.payload, 2).value;
        r->consumer.last_id = r->enable_id;
        pfl_kit_client_send_frame(&r->consumer, record.payload, -1);
        break;
    }
    pfl_capture_close(&cap);
}

static int compare_fields(const void *a, const void *b)
{
    const struct pfl_field *x = a;
    const struct pfl_field *y = b;
    size_t len = x->raw.len < y->raw.len ? x->raw.len : y->raw.len;
    int order = memcmp(x->raw.data, y->raw.data, len);

    if (order != 0)
        return order;
    return x->raw.len < y->raw.len ? -1 : x->raw.len > y->raw.len;
}

static size_t sort_fields(struct pfl_span bytes, struct pfl_field fields[64])
{
    struct pfl_reader r = pfl_reader_of(bytes);
    size_t len = 0;

    while (len < 64 && pfl_reader_field(&r, &fields[len]))
        len++;
    qsort(fields, len, sizeof(fields[0]), compare_fields);
    return len;
}

/* The same fields with the same bytes, in any order. */
static void assert_same_fields(struct pfl_span a, struct pfl_span b)
{
    struct pfl_field of_a[64];
    struct pfl_field of_b[64];
    size_t len = sort_fields(a, of_a);

    assert_int_equal(len, sort_fields(b, of_b));
    for (size_t i = 0; i < len; i++)
        assert_int_equal(compare_fields(&of_a[i], &of_b[i]), 0);
}

static void assert_same_command(struct pfl_span recorded, struct pfl_span ours)
{
    static const uint32_t with_config[] = {1, 6};
    struct pfl_span config = {0};
    struct pfl_span our_config = {0};

    for (size_t i = 0; i < 2; i++) {
        struct pfl_span command = get_field(recorded, with_config[i]).bytes;
        struct pfl_span our_command = get_field(ours, with_config[i]).bytes;

        if (command.len == 0)
            continue;
        assert_int_equal(get_field(command, 1).value, get_field(our_command, 1).value);
        config = get_field(command, 2).bytes;
        our_config = get_field(our_command, 2).bytes;
        assert_same_fields(config, our_config);
        return;
    }
    assert_int_equal(recorded.len, ours.len);
    assert_memory_equal(recorded.data, ours.data, ours.len);
}

/* Lets time pass until the service sends something to the producer. */
static struct pfl_kit_reply wait_reply(struct replay *r)
{
    struct pfl_kit_reply reply;

    for (int i = 0; i < MAX_STEPS; i++) {
        if (pfl_kit_client_take(&r->producer, &reply))
            return reply;
        pfl_port_kit_pass_ms(&r->kit, STEP_MS);
    }
    fail_msg("the service sends nothing where the recorded one did");
    return reply;
}

static void check_reply(struct replay *r, struct pfl_span payload)
{
    struct pfl_span recorded = get_field(payload, 6).bytes;
    struct pfl_kit_reply reply;

    if (recorded.len == 0) /* the bind, done already */
        return;
    reply = wait_reply(r);
    assert_int_equal(reply.request_id, get_field(payload, 2).value);
    assert_int_equal(reply.has_more, get_field(recorded, 2).value);
    assert_same_command(get_field(recorded, 3).bytes, pfl_span_of(reply.body, reply.body_len));
    r->commands += reply.has_more;
    pfl_kit_reply_free(&reply);
}

static void write_chunk(struct replay *r, struct pfl_span payload)
{
    struct pfl_reader in = pfl_reader_of(payload);
    uint32_t page = pfl_reader_u32(&in);
    uint32_t chunk = pfl_reader_u32(&in);
    uint32_t header = pfl_reader_u32(&in);
    uint8_t *at;

    assert_int_equal(r->producer.memory_bytes, SMB_BYTES);
    assert_int_equal(chunk, 0); /* these producers make one chunk a page */
    at = r->producer.memory + (size_t)page * r->page_bytes;
    assert_true((size_t)(at - r->producer.memory) + 8 + in.left <= SMB_BYTES);
    memcpy(at + 8, in.pos, in.left);
    __atomic_store_n((uint32_t *)(void *)at, header, __ATOMIC_RELEASE);
}

static void play(struct replay *r, const char *producer_cap)
{
    struct pfl_capture cap;
    struct pfl_capture_record record;

    pfl_kit_client_open(&r->producer, &r->kit, r->kit.producer_address);
    pfl_capture_open(&cap, producer_cap);
    while (pfl_capture_next(&cap, &record)) {
        if (record.kind == PFL_CAPTURE_CHUNK)
            write_chunk(r, record.payload);
        else if (record.kind == PFL_CAPTURE_FRAME && record.is_from_service)
            check_reply(r, record.payload);
        else if (record.kind == PFL_CAPTURE_FRAME && get_field(record.payload, 5).bytes.len != 0)
            pfl_kit_client_send_frame(&r->producer, record.payload, -1);
    }
    pfl_capture_close(&cap);
}

/* A trace's producer packets, grouped by sequence, without what the service adds. */
struct packets {
    struct pfl_buf stripped; /* one after the other */
    struct {
        uint64_t id;
        size_t len;
        size_t at[MAX_PACKETS];
        size_t bytes[MAX_PACKETS];
    } sequences[MAX_SEQUENCES];
    size_t sequences_len;
};

static size_t find_sequence(struct packets *p, uint64_t id)
{
    for (size_t i = 0; i < p->sequences_len; i++) {
        if (p->sequences[i].id == id)
            return i;
    }
    assert_true(p->sequences_len < MAX_SEQUENCES);
    p->sequences[p->sequences_len].id = id;
    return p->sequences_len++;
}

static bool is_trusted(uint32_t id)
{
    return id == 3 || id == 10 || id == 79 || id == 98 || id == 42;
}

static void add_packet(struct packets *p, struct pfl_span packet)
{
    uint64_t id = get_field(packet, 10).value;
    struct pfl_reader r = pfl_reader_of(packet);
    struct pfl_field f;
    size_t before = p->stripped.len;
    size_t sequence;

    if (id == 1 || id == 0)
        return;
    while (pfl_reader_field(&r, &f)) {
        if (!is_trusted(f.id))
            assert_int_equal(pfl_buf_append(&p->stripped, f.raw.data, f.raw.len), 0);
    }
    sequence = find_sequence(p, id);
    assert_true(p->sequences[sequence].len < MAX_PACKETS);
    p->sequences[sequence].at[p->sequences[sequence].len] = before;
    p->sequences[sequence].bytes[p->sequences[sequence].len++] = p->stripped.len - before;
}

static struct packets *split(struct pfl_span trace)
{
    struct packets *p = pfl_mem_zalloc(sizeof(*p));
    struct pfl_reader r = pfl_reader_of(trace);
    struct pfl_field f;

    assert_non_null(p);
    pfl_buf_init(&p->stripped, 64u << 20);
    while (pfl_reader_field(&r, &f))
        add_packet(p, f.bytes);
    assert_false(r.failed);
    return p;
}

static struct pfl_span packet_at(const struct packets *p, size_t sequence, size_t i)
{
    return pfl_span_of(pfl_buf_get(&p->stripped).data + p->sequences[sequence].at[i],
                       p->sequences[sequence].bytes[i]);
}

/* The sequence of `p` that has as many packets as sequence `of` of `model` and begins as it does;
 * two writers may begin with the same packet. */
static size_t match_sequence(const struct packets *p, const struct packets *model, size_t of)
{
    struct pfl_span first = packet_at(model, of, 0);

    for (size_t i = 0; i < p->sequences_len; i++) {
        if (p->sequences[i].len == model->sequences[of].len &&
            pfl_span_eq(packet_at(p, i, 0), first))
            return i;
    }
    fail_msg("no sequence has the %zu packets of recorded sequence %zu", model->sequences[of].len,
             of);
    return 0;
}

static void assert_same_packets(struct pfl_span recorded, struct pfl_span ours)
{
    struct packets *want = split(recorded);
    struct packets *got = split(ours);

    assert_true(want->sequences_len > 0);
    assert_int_equal(want->sequences_len, got->sequences_len);
    for (size_t s = 0; s < want->sequences_len; s++) {
        size_t at = match_sequence(got, want, s);

        for (size_t i = 0; i < want->sequences[s].len; i++)
            assert_true(pfl_span_eq(packet_at(want, s, i), packet_at(got, at, i)));
    }
    pfl_buf_fini(&want->stripped);
    pfl_buf_fini(&got->stripped);
    pfl_mem_free(want);
    pfl_mem_free(got);
}

static void replay(const char *producer_cap, const char *consumer_cap, const char *trace_file)
{
    static struct replay r;
    char path[256];
    struct pfl_kit_reply reply;
    struct pfl_span recorded;
    struct pfl_buf trace;

    r = (struct replay){.page_bytes = 4096};
    pfl_port_kit_open(&r.kit);
    adopt_ids(&r.kit, producer_cap);
    enable(&r, consumer_cap);
    play(&r, producer_cap);
    assert_true(r.commands >= 4);
    pfl_port_kit_pass_ms(&r.kit, 20000);
    reply = pfl_kit_client_expect(&r.consumer, r.enable_id, true, false);
    assert_int_equal(reply.body_len, 2); /* disabled, no error */
    pfl_kit_reply_free(&reply);
    pfl_kit_client_read_trace(
        &r.consumer, pfl_kit_client_invoke(&r.consumer, KIT_READ, (struct pfl_span){0}), &trace);
    (void)snprintf(path, sizeof(path), "tests/fixtures/captures/%s", trace_file);
    recorded = pfl_capture_read_file(path);
    assert_same_packets(recorded, pfl_buf_get(&trace));
    pfl_mem_free((void *)(uintptr_t)recorded.data);
    pfl_buf_fini(&trace);
    pfl_kit_client_close(&r.producer);
    pfl_kit_client_close(&r.consumer);
    pfl_port_kit_close(&r.kit);
}

static void small_packets_of_two_writers_come_back_as_recorded(void **state)
{
    (void)state;
    replay("producer-small.cap", "consumer-read-small.cap", "small.pftrace");
}

static void fragmented_packets_with_patches_come_back_as_recorded(void **state)
{
    (void)state;
    replay("producer-fragmented.cap", "consumer-read-fragmented.cap", "fragmented.pftrace");
}

static void track_events_with_cleared_state_come_back_as_recorded(void **state)
{
    (void)state;
    replay("producer-trackevent.cap", "consumer-read-trackevent.cap", "trackevent.pftrace");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_packets_of_two_writers_come_back_as_recorded),
        cmocka_unit_test(fragmented_packets_with_patches_come_back_as_recorded),
        cmocka_unit_test(track_events_with_cleared_state_come_back_as_recorded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
