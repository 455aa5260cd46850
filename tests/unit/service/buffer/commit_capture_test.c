/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recorded producers (tests/fixtures/captures): their chunks put into shared memory, their
 * CommitData requests applied, and the packets read compared with the trace that the real service
 * made of the same conversation: every packet, per sequence, in order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/mem.h"
#include "perfetto/ipc.fields.h"
#include "perfetto/trace_packet.fields.h"
#include "service/buffer/commit.h"
#include "service/buffer/sequence.h"
#include "tests/support/sweep.h"
#include "tests/unit/service/buffer/buffer_kit.h"

#define FILE_MAX    ((size_t)4 << 20)
#define PACKETS_MAX 8192u
#define WRITERS_MAX 64u
#define SERVICE_SEQ 1u

#define WRITERS_LOSS (PFL_LOSS_PRESENT | PFL_LOSS_WRITER_ABORT | PFL_LOSS_REASSEMBLY_BROKEN_CHAIN)

enum record_kind { RECORD_FRAME = 1, RECORD_SMB = 2, RECORD_CHUNK = 3 };

/* A packet of the trace file that a producer wrote. */
struct traced {
    struct pfl_span bytes;
    uint32_t sequence_id;
    bool is_matched;
};

struct replay {
    struct pfl_smb_map map;
    struct pfl_trace_buffer *buffer;
    struct pfl_commit_counters counters;
    uint64_t commit_method; /* id of CommitData */
    size_t chunks;
    struct traced traced[PACKETS_MAX];
    size_t traced_len;
    struct {
        uint16_t writer_id;
        uint32_t sequence_id;
        size_t next; /* in traced: where the next packet of the sequence is looked for */
    } writers[WRITERS_MAX];
    size_t writers_len;
};

static uint8_t *load(const char *path, size_t *ret_len)
{
    uint8_t *data = pfl_mem_alloc(FILE_MAX);
    FILE *f = fopen(path, "rb");

    assert_non_null(data);
    assert_non_null(f);
    *ret_len = fread(data, 1, FILE_MAX, f);
    assert_true(*ret_len > 0 && *ret_len < FILE_MAX);
    fclose(f);
    return data;
}

static struct pfl_trace_buffer *get_buffer(void *user, uint16_t buffer_id)
{
    struct replay *rp = user;

    assert_true(buffer_id != 0);
    return rp->buffer;
}

static struct pfl_trace_buffer *get_allowed(void *user, uint16_t buffer_id, uint16_t writer_id)
{
    assert_true(writer_id != 0);
    return get_buffer(user, buffer_id);
}

static void take_bind_reply(struct replay *rp, struct pfl_span reply)
{
    struct pfl_reader r = pfl_reader_of(reply);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        struct pfl_reader m = pfl_reader_of(f.bytes);
        struct pfl_field g;
        uint64_t id = 0;
        bool is_commit = false;

        if (f.id != IPC_FRAME__BIND_SERVICE_REPLY__METHODS)
            continue;
        while (pfl_reader_field(&m, &g)) {
            if (g.id == IPC_FRAME__BIND_SERVICE_REPLY__METHOD_INFO__ID)
                id = g.value;
            else if (g.id == IPC_FRAME__BIND_SERVICE_REPLY__METHOD_INFO__NAME)
                is_commit = g.bytes.len == 10 && memcmp(g.bytes.data, "CommitData", 10) == 0;
        }
        if (is_commit)
            rp->commit_method = id;
    }
}

static void take_invoke(struct replay *rp, struct pfl_span invoke)
{
    struct pfl_commit_conf conf = {
        .identity = {.producer_id = 1, .uid = 0, .pid = 42},
        .map = &rp->map,
        .get_allowed_buffer = get_allowed,
        .get_buffer = get_buffer,
        .user = rp,
        .counters = &rp->counters,
    };
    struct pfl_reader r = pfl_reader_of(invoke);
    struct pfl_span args = {0};
    struct pfl_field f;
    uint64_t method = 0;
    uint64_t flush_id;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == IPC_FRAME__INVOKE_METHOD__METHOD_ID)
            method = f.value;
        else if (f.id == IPC_FRAME__INVOKE_METHOD__ARGS_PROTO)
            args = f.bytes;
    }
    if (method == rp->commit_method && method != 0)
        assert_int_equal(
            pfl_commit_apply(&conf, args, &(struct pfl_commit_data_position){0}, &flush_id), 0);
}

static void take_frame(struct replay *rp, struct pfl_span frame)
{
    struct pfl_reader r = pfl_reader_of(frame);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == IPC_FRAME__MSG_BIND_SERVICE_REPLY)
            take_bind_reply(rp, f.bytes);
        else if (f.id == IPC_FRAME__MSG_INVOKE_METHOD)
            take_invoke(rp, f.bytes);
    }
    assert_false(r.failed);
}

static void take_chunk(struct replay *rp, struct pfl_span record)
{
    struct pfl_reader r = pfl_reader_of(record);
    uint32_t page = pfl_reader_u32(&r);
    uint32_t chunk = pfl_reader_u32(&r);
    uint32_t bitmap = pfl_reader_u32(&r);
    struct pfl_chunk_header *header = pfl_smb_chunk(&rp->map.smb, page, bitmap, chunk);

    assert_non_null(header);
    assert_int_equal(r.left, PFL_CHUNK_HEADER_BYTES +
                                 pfl_page_payload_bytes(rp->map.smb.page_bytes, bitmap));
    memcpy((void *)header, r.pos, r.left);
    atomic_store(&pfl_smb_page(&rp->map.smb, page)->bitmap, bitmap);
    rp->chunks++;
}

static void play(struct replay *rp, const char *path)
{
    size_t len;
    uint8_t *data = load(path, &len);
    struct pfl_reader r = pfl_reader_of(pfl_span_of(data, len));

    (void)pfl_reader_u64(&r);
    while (r.left != 0) {
        uint8_t kind = pfl_reader_u8(&r);
        struct pfl_span record;

        (void)pfl_reader_u8(&r);
        (void)pfl_reader_u16(&r);
        record.len = pfl_reader_u32(&r);
        (void)pfl_reader_u64(&r);
        record = pfl_reader_bytes(&r, record.len);
        assert_false(r.failed);
        if (kind == RECORD_FRAME) {
            take_frame(rp, record);
        } else if (kind == RECORD_SMB) {
            struct pfl_reader s = pfl_reader_of(record);
            struct pfl_smb_size size = {.smb_bytes = pfl_reader_u32(&s)};

            size.page_bytes = pfl_reader_u32(&s);
            assert_int_equal(pfl_smb_map_create(&rp->map, size, true), 0);
        } else if (kind == RECORD_CHUNK) {
            take_chunk(rp, record);
        }
    }
    pfl_mem_free(data);
}

static void load_trace(struct replay *rp, struct pfl_span trace)
{
    struct pfl_reader r = pfl_reader_of(trace);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        struct pfl_reader p = pfl_reader_of(f.bytes);
        struct traced packet = {.bytes = f.bytes};
        struct pfl_field g;

        while (pfl_reader_field(&p, &g)) {
            if (g.id == TRACE_PACKET__TRUSTED_PACKET_SEQUENCE_ID)
                packet.sequence_id = (uint32_t)g.value;
        }
        assert_true(rp->traced_len < PACKETS_MAX);
        if (packet.sequence_id > SERVICE_SEQ)
            rp->traced[rp->traced_len++] = packet;
    }
    assert_false(r.failed);
}

static bool begins_with(const struct traced *traced, const struct kit_packet *packet)
{
    return traced->bytes.len >= packet->bytes &&
           memcmp(traced->bytes.data, packet->data, packet->bytes) == 0;
}

static size_t writer_of(struct replay *rp, const struct kit_packet *packet)
{
    size_t w = 0;

    while (w < rp->writers_len && rp->writers[w].writer_id != packet->writer_id)
        w++;
    if (w < rp->writers_len)
        return w;
    assert_true(w < WRITERS_MAX);
    rp->writers_len++;
    rp->writers[w].writer_id = packet->writer_id;
    for (size_t i = 0; i < rp->traced_len && rp->writers[w].sequence_id == 0; i++) {
        if (!rp->traced[i].is_matched && begins_with(&rp->traced[i], packet))
            rp->writers[w].sequence_id = rp->traced[i].sequence_id;
    }
    assert_int_not_equal(rp->writers[w].sequence_id, 0);
    return w;
}

/* The packet is the next one of its sequence in the trace. */
static void match(struct replay *rp, const struct kit_packet *packet)
{
    size_t w = writer_of(rp, packet);
    size_t i = rp->writers[w].next;

    while (i < rp->traced_len && rp->traced[i].sequence_id != rp->writers[w].sequence_id)
        i++;
    assert_true(i < rp->traced_len);
    assert_true(begins_with(&rp->traced[i], packet));
    /* What the recorded writer lost itself, amid a packet; the service loses nothing. */
    assert_int_equal(packet->loss_reasons & ~(uint32_t)WRITERS_LOSS, 0);
    rp->traced[i].is_matched = true;
    rp->writers[w].next = i + 1;
}

static void replay(const char *name, size_t *ret_packets)
{
    static struct replay rp;
    static struct kit_packet packet;
    char path[128];
    uint8_t *trace;
    size_t len;
    size_t packets = 0;

    memset(&rp, 0, sizeof(rp));
    pfl_smb_map_init(&rp.map);
    rp.buffer = kit_buffer((uint64_t)16 << 20, PFL_FILL_RING_BUFFER);
    (void)snprintf(path, sizeof(path), "tests/fixtures/captures/producer-%s.cap", name);
    play(&rp, path);
    (void)snprintf(path, sizeof(path), "tests/fixtures/captures/%s.pftrace", name);
    trace = load(path, &len);
    load_trace(&rp, pfl_span_of(trace, len));

    pfl_trace_buffer_begin_read(rp.buffer);
    while (kit_read(rp.buffer, &packet)) {
        match(&rp, &packet);
        packets++;
    }
    assert_int_equal(packets, rp.traced_len);
    assert_int_equal(kit_stats(rp.buffer).abi_violations, 0);
    /* Only patches for what their writer dropped itself find nothing. */
    assert_true(kit_stats(rp.buffer).patches_failed <=
                kit_stats(rp.buffer).trace_writer_packet_loss);
    assert_int_equal(rp.counters.entries_skipped, 0);
    assert_true(rp.chunks > 0);
    *ret_packets = packets;
    pfl_mem_free(trace);
    pfl_trace_buffer_free(rp.buffer);
    pfl_smb_map_fini(&rp.map);
    pfl_sweep_assert_no_leak();
}

static void small_packets_of_two_threads_arrive_as_in_the_real_trace(void **state)
{
    size_t packets;

    (void)state;
    replay("small", &packets);
    assert_true(packets > 1000);
}

static void packets_over_many_chunks_arrive_as_in_the_real_trace(void **state)
{
    size_t packets;

    (void)state;
    replay("fragmented", &packets);
    assert_true(packets > 30);
}

static void track_events_arrive_as_in_the_real_trace(void **state)
{
    size_t packets;

    (void)state;
    replay("trackevent", &packets);
    assert_true(packets > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_packets_of_two_threads_arrive_as_in_the_real_trace),
        cmocka_unit_test(packets_over_many_chunks_arrive_as_in_the_real_trace),
        cmocka_unit_test(track_events_arrive_as_in_the_real_trace),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
