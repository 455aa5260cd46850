/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes as a CommitDataRequest. A refused request has called nobody; an accepted one has called
 * moves before patches, each patch list giving as many patches as it says, and says what
 * protobuf-c reads, if that reads it at all.
 */
#include "proto/ipc/commit_data.h"

#include <stdlib.h>

#include "perfetto/commit_data.pb-c.h"
#include "proto/unpack.h"
#include "tests/support/fuzz_note.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct count {
    size_t moves;
    size_t lists;
    uint64_t sum;    /* of every number in the moves; protobuf-c takes a bool of any wire type */
    uint8_t touched; /* reads every byte of data, for the sanitizer */
};

static void touch(struct count *c, struct pfl_span bytes)
{
    for (size_t i = 0; i < bytes.len; i++)
        c->touched ^= bytes.data[i];
}

static void add(struct count *c, uint64_t v)
{
    c->sum = c->sum * 31 + v;
}

static void on_move(void *user, const struct pfl_commit_data_move *move)
{
    struct count *c = user;

    if (c->lists != 0)
        abort();
    c->moves++;
    note("move: page %u, chunk %u, buffer %u, data %d, incomplete %d", move->page_untrusted,
         move->chunk_untrusted, move->target_buffer_untrusted, move->has_data, move->is_incomplete);
    note_bytes("  ", move->data);
    touch(c, move->data);
    add(c, move->page_untrusted);
    add(c, move->chunk_untrusted);
    add(c, move->target_buffer_untrusted);
    add(c, move->has_data);
    add(c, move->data.len);
}

static void on_patches(void *user, struct pfl_commit_data_patch_list *list)
{
    struct count *c = user;
    struct pfl_commit_data_patch patch;
    size_t n = 0;

    c->lists++;
    note("patches: buffer %u, writer %u, chunk %u, more %d", list->target_buffer_untrusted,
         list->writer_id_untrusted, list->chunk_id_untrusted, list->has_more_patches);
    while (pfl_commit_data_next_patch(list, &patch)) {
        touch(c, patch.data);
        note("  at %u", patch.offset_untrusted);
        note_bytes("  ", patch.data);
        n++;
    }
    if (n != list->patches_len)
        abort();
}

static void compare(struct pfl_span bytes, const struct count *count)
{
    struct count expected = {0};
    ProtobufCMessage *message;
    const Perfetto__Protos__CommitDataRequest *request;

    if (pfl_proto_unpack(&perfetto__protos__commit_data_request__descriptor, bytes, &message) != 0)
        return;
    request = (const Perfetto__Protos__CommitDataRequest *)message;
    for (size_t i = 0; i < request->n_chunks_to_move; i++) {
        const Perfetto__Protos__CommitDataRequest__ChunksToMove *m = request->chunks_to_move[i];

        add(&expected, m->page);
        add(&expected, m->chunk);
        add(&expected, m->target_buffer);
        add(&expected, m->has_data != 0);
        add(&expected, m->data.len);
    }
    if (request->n_chunks_to_move != count->moves || request->n_chunks_to_patch != count->lists ||
        expected.sum != count->sum)
        abort();
    pfl_proto_free(message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct count count = {0};
    const struct pfl_commit_data_visitor visitor = {
        .on_move = on_move, .on_patches = on_patches, .user = &count};
    uint64_t flush;
    int rc = pfl_commit_data_read(pfl_span_of(data, size), &visitor, &flush);

    if (rc != 0 && count.moves + count.lists != 0)
        abort();
    note("%s, flush %llu", pfl_err_str(rc), rc == 0 ? (unsigned long long)flush : 0);
    if (rc == 0)
        compare(pfl_span_of(data, size), &count);
    return 0;
}
