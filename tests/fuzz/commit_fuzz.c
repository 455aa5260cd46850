/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CommitData requests of a producer without shared memory, one after the other: u16 length and
 * bytes each; a length of 0 is a pass of the reader. Chunks, patches and their order are the
 * input's.
 */
#include <stdlib.h>

#include "service/buffer/commit.h"
#include "tests/fuzz/buffer_stats.h"
#include "tests/support/fuzz_note.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct target {
    struct pfl_trace_buffer *ring;
    struct pfl_trace_buffer *once;
};

static struct pfl_trace_buffer *get_buffer(void *user, uint16_t id)
{
    const struct target *t = user;

    return id == 1 ? t->ring : id == 2 ? t->once : NULL;
}

static struct pfl_trace_buffer *get_allowed(void *user, uint16_t id, uint16_t writer_id)
{
    (void)writer_id;
    return get_buffer(user, id);
}

static void read_pass(struct pfl_trace_buffer *buffer, uint8_t most)
{
    struct pfl_trace_buffer_packet packet;
    size_t sum = 0;

    pfl_trace_buffer_begin_read(buffer);
    while (most-- != 0 && pfl_trace_buffer_read(buffer, &packet)) {
        note("packet: writer %u, %zu bytes in %zu, loss %x", packet.source->writer_id, packet.bytes,
             packet.slices_len, packet.loss_reasons);
        for (size_t i = 0; i < packet.slices_len; i++)
            note_bytes("  ", pfl_span_of(packet.slices[i].iov_base, packet.slices[i].iov_len));
        for (size_t i = 0; i < packet.slices_len; i++) {
            const uint8_t *bytes = packet.slices[i].iov_base;

            sum += packet.slices[i].iov_len;
            if (packet.slices[i].iov_len == 0 || (bytes[0] == 0xff && sum == SIZE_MAX))
                abort();
        }
        if ((packet.bytes == 0) != (packet.slices_len == 0))
            abort();
    }
}

static void run(const struct pfl_commit_conf *conf, struct target *t, struct pfl_span input)
{
    struct pfl_reader r = pfl_reader_of(input);

    while (r.left != 0 && !r.failed) {
        uint16_t len = pfl_reader_u16(&r);
        struct pfl_span request = pfl_reader_bytes(&r, len);
        uint64_t flush_id;

        if (len != 0) {
            int rc =
                pfl_commit_apply(conf, request, &(struct pfl_commit_data_position){0}, &flush_id);

            if (rc == PFL_ESTATE)
                abort();
            note("commit: %s, flush %llu", pfl_err_str(rc),
                 rc == 0 ? (unsigned long long)flush_id : 0);
            continue;
        }
        read_pass(t->ring, pfl_reader_u8(&r));
        read_pass(t->once, 255);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pfl_trace_buffer_conf ring = {.size_bytes = 4096};
    struct pfl_trace_buffer_conf once = {.size_bytes = 4096, .fill_policy = PFL_FILL_DISCARD};
    struct pfl_commit_counters counters = {0};
    struct pfl_smb_map map;
    struct target t;
    struct pfl_commit_conf conf = {
        .identity = {.producer_id = 1},
        .map = &map,
        .is_emulated = true,
        .get_allowed_buffer = get_allowed,
        .get_buffer = get_buffer,
        .user = &t,
        .counters = &counters,
    };

    pfl_smb_map_init(&map);
    if (pfl_trace_buffer_new(&ring, &t.ring) != 0 || pfl_trace_buffer_new(&once, &t.once) != 0)
        abort();
    run(&conf, &t, pfl_span_of(data, size));
    read_pass(t.ring, 255);
    read_pass(t.once, 255);
    note_buffer_stats(t.ring);
    note_buffer_stats(t.once);
    note("%llu chunks discarded, %llu patches, %llu skipped",
         (unsigned long long)counters.chunks_discarded,
         (unsigned long long)counters.patches_discarded,
         (unsigned long long)counters.entries_skipped);
    pfl_trace_buffer_free(t.ring);
    pfl_trace_buffer_free(t.once);
    return 0;
}
