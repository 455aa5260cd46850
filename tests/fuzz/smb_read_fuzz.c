/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared memory of any content: scraped, every chunk of every page committed, all of it read
 * through the read-back, with runs of packets and without: the same packets. The input is the
 * memory, from its beginning.
 */
#include <stdlib.h>

#include "perfetto/consumer_port.fields.h"
#include "perfetto/ipc.fields.h"
#include "proto/ipc/frame.h"
#include "proto/packet_run.h"
#include "service/buffer/readback.h"
#include "service/buffer/smb_scrape.h"
#include "tests/fuzz/buffer_stats.h"
#include "tests/support/fuzz_note.h"
#include "tests/support/fuzz_packets.h"

#define SMB_BYTES  32768u
#define PAGE_BYTES 4096u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct pfl_trace_buffer *get_buffer(void *user, uint16_t id)
{
    return id % 2 == 1 ? user : NULL;
}

static struct pfl_trace_buffer *get_allowed(void *user, uint16_t id, uint16_t writer_id)
{
    (void)writer_id;
    return get_buffer(user, id);
}

static void on_new_source(void *user, struct pfl_trace_buffer_source *source)
{
    (void)user;
    source->packet_sequence_id = 2;
}

static void commit_all(struct pfl_smb_map *map, struct pfl_trace_buffer *buffer)
{
    struct pfl_commit_counters counters = {0};
    struct pfl_commit_conf conf = {
        .identity = {.producer_id = 1},
        .map = map,
        .get_allowed_buffer = get_allowed,
        .get_buffer = get_buffer,
        .user = buffer,
        .counters = &counters,
    };
    uint64_t flush_id;

    for (uint8_t page = 0; page < SMB_BYTES / PAGE_BYTES; page++) {
        for (uint8_t chunk = 0; chunk < PFL_PAGE_CHUNKS_MAX; chunk++) {
            const uint8_t request[] = {0x0a, 6, 0x08, page, 0x10, chunk, 0x18, 1};

            if (pfl_commit_apply(&conf, pfl_span_of(request, sizeof(request)),
                                 &(struct pfl_commit_data_position){0}, &flush_id) != 0)
                abort();
        }
    }
    note("commits: %llu chunks discarded, %llu patches, %llu entries skipped, %llu stuck",
         (unsigned long long)counters.chunks_discarded,
         (unsigned long long)counters.patches_discarded,
         (unsigned long long)counters.entries_skipped, (unsigned long long)counters.chunks_stuck);
}

/* Bytes and packets of a reply, in order. */
struct digest {
    uint64_t hash;
    uint64_t packets;
};

static void add_bytes(struct digest *d, struct pfl_span bytes)
{
    for (size_t i = 0; i < bytes.len; i++)
        d->hash = (d->hash ^ bytes.data[i]) * 1099511628211u;
}

static void end_packet(struct digest *d)
{
    d->hash = (d->hash ^ 0x100) * 1099511628211u;
    d->packets++;
}

static void add_slice(struct digest *d, struct pfl_span slice)
{
    struct pfl_reader r = pfl_reader_of(slice);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == 1)
            add_bytes(d, f.bytes);
        else if (f.value != 0)
            end_packet(d);
    }
    if (r.failed)
        abort();
}

static struct pfl_span take_run_field(struct pfl_reader *r, uint32_t id)
{
    struct pfl_field f;

    if (!pfl_reader_field(r, &f) || f.id != id || f.type != PFL_WIRE_BYTES)
        abort();
    return f.bytes;
}

static void add_time(struct digest *d, struct pfl_reader *times)
{
    const uint8_t tag = PFL_RUN_TIME_TAG;
    const uint8_t *begin = times->pos;

    (void)pfl_reader_varint(times);
    add_bytes(d, pfl_span_of(&tag, 1));
    add_bytes(d, pfl_span_of(begin, (size_t)(times->pos - begin)));
}

static void add_run(struct digest *d, struct pfl_span run)
{
    struct pfl_reader r = pfl_reader_of(run);
    struct pfl_span tail = take_run_field(&r, READ_BUFFERS_RESPONSE__PACKET_RUN__TAIL);
    struct pfl_reader rest =
        pfl_reader_of(take_run_field(&r, READ_BUFFERS_RESPONSE__PACKET_RUN__REST));
    struct pfl_reader times =
        pfl_reader_of(take_run_field(&r, READ_BUFFERS_RESPONSE__PACKET_RUN__TIMES));
    struct pfl_reader lengths =
        pfl_reader_of(take_run_field(&r, READ_BUFFERS_RESPONSE__PACKET_RUN__LENGTHS));

    if (r.left != 0 || lengths.left == 0)
        abort();
    while (lengths.left != 0) {
        uint64_t length = pfl_reader_varint(&lengths);

        if ((length & 1) != 0)
            add_time(d, &times);
        add_bytes(d, pfl_reader_bytes(&rest, length >> 1));
        add_bytes(d, tail);
        end_packet(d);
    }
    if (rest.left != 0 || times.left != 0 || rest.failed || times.failed || lengths.failed)
        abort();
}

static void add_body(struct digest *d, struct pfl_span body)
{
    struct pfl_reader r = pfl_reader_of(body);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == READ_BUFFERS_RESPONSE__PERFLEET_RUNS)
            add_run(d, f.bytes);
        else
            add_slice(d, f.bytes);
    }
    if (r.failed)
        abort();
}

static void add_frame(struct digest *d, const struct pfl_readback_frame *frame)
{
    static uint8_t bytes[PFL_FRAME_MAX_BYTES];
    struct pfl_reader r;
    struct pfl_field f;
    struct pfl_field reply;
    size_t len = 0;

    for (int i = 0; i < frame->iov_len; i++) {
        memcpy(bytes + len, frame->iov[i].iov_base, frame->iov[i].iov_len);
        len += frame->iov[i].iov_len;
    }
    r = pfl_reader_of(pfl_span_of(bytes + PFL_FRAME_PREFIX_BYTES, len - PFL_FRAME_PREFIX_BYTES));
    note_reply(pfl_span_of(r.pos, r.left));
    while (pfl_reader_field(&r, &f)) {
        struct pfl_reader inner = pfl_reader_of(f.bytes);

        while (f.id == IPC_FRAME__MSG_INVOKE_METHOD_REPLY && pfl_reader_field(&inner, &reply)) {
            if (reply.id == IPC_FRAME__INVOKE_METHOD_REPLY__REPLY_PROTO)
                add_body(d, reply.bytes);
        }
    }
    if (r.failed)
        abort();
}

static struct digest read_all(struct pfl_trace_buffer *buffer, bool accepts_runs)
{
    struct pfl_readback_conf conf = {
        .buffers = &buffer, .buffers_len = 1, .on_new_source = on_new_source};
    struct pfl_readback_frame frame = {.has_more = true};
    struct pfl_readback *readback;
    struct digest d = {0};

    if (pfl_readback_new(&conf, &readback) != 0)
        abort();
    pfl_readback_set_request(readback, 1, accepts_runs);
    while (frame.has_more) {
        if (pfl_readback_next_frame(readback, &frame) != 0)
            abort();
        add_frame(&d, &frame);
    }
    pfl_readback_free(readback);
    return d;
}

static struct digest fill_and_read(struct pfl_smb_map *map, bool accepts_runs)
{
    struct pfl_trace_buffer_conf conf = {.size_bytes = 16384};
    struct pfl_smb_scrape_result result;
    struct pfl_trace_buffer *buffer;
    struct digest d;

    if (pfl_trace_buffer_new(&conf, &buffer) != 0)
        abort();
    result = pfl_smb_scrape(&(struct pfl_smb_scrape_conf){.identity = {.producer_id = 1},
                                                          .map = map,
                                                          .get_writer_buffer = get_buffer,
                                                          .user = buffer,
                                                          .credit = UINT64_MAX});
    note("scraped: %zu offered, %llu units, next page %u", result.offered,
         (unsigned long long)result.units, result.next_page);
    commit_all(map, buffer);
    d = read_all(buffer, accepts_runs);
    note_buffer_stats(buffer);
    pfl_trace_buffer_free(buffer);
    return d;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct digest digests[2];

    note_packets_open();

    for (size_t i = 0; i < 2; i++) {
        struct pfl_smb_map map;

        pfl_smb_map_init(&map);
        if (pfl_smb_map_create(&map, (struct pfl_smb_size){SMB_BYTES, PAGE_BYTES}, true) != 0)
            abort();
        memcpy(map.smb.base, data, size < SMB_BYTES ? size : SMB_BYTES);
        digests[i] = fill_and_read(&map, i != 0);
        pfl_smb_map_fini(&map);
    }
    note_packets_close();
    if (digests[0].hash != digests[1].hash || digests[0].packets != digests[1].packets)
        abort();
    return 0;
}
