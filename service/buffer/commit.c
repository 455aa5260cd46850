/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Applies one CommitData request.
 *
 * Happy path: for each move, take the chunk out of shared memory (or out of the message), copy it
 * into its buffer, and release the chunk. Then apply each list of patches to the buffer that holds
 * the chunk.
 * Failures: an entry that does not match the state of the shared memory is skipped and counted. A
 * chunk for a buffer that its producer may not write to is counted as discarded, and released. The
 * caller gets an error only if the request cannot be parsed, or comes before there is shared
 * memory.
 * Owns nothing, allocates nothing. Limit: PFL_PATCHES_MAX patches in a list.
 */
#include "service/buffer/commit.h"

#include "abi/ids.h"

#define LONG_SEARCH 2048u /* records: some 0.05 ms */

static void commit_chunk(const struct pfl_commit_conf *conf, uint16_t buffer_id,
                         const struct pfl_smb_chunk *chunk)
{
    struct pfl_trace_buffer *buffer =
        conf->get_allowed_buffer(conf->user, buffer_id, chunk->view.writer_id);
    struct pfl_trace_buffer_chunk in = {
        .producer_id = conf->identity.producer_id,
        .producer_serial = conf->identity.producer_serial,
        .writer_id = chunk->view.writer_id,
        .chunk_id = chunk->view.chunk_id,
        .fragments = chunk->view.count,
        .flags = chunk->view.flags,
        .is_complete = chunk->is_complete,
        .payload = chunk->payload,
        .payload_bytes = chunk->payload_bytes,
        .producer_uid = conf->identity.uid,
        .producer_pid = conf->identity.pid,
        .machine_id = conf->identity.machine_id,
        .who = conf->identity.who,
        .credit = conf->identity.credit,
    };

    if (buffer == NULL)
        conf->counters->chunks_discarded++;
    else
        pfl_trace_buffer_commit(buffer, &in);
}

static void move_from_smb(const struct pfl_commit_conf *conf,
                          const struct pfl_commit_data_move *move)
{
    struct pfl_smb_chunk chunk;

    if (pfl_smb_map_take(conf->map, move->page_untrusted, move->chunk_untrusted, &chunk) != 0) {
        conf->counters->entries_skipped++;
        return;
    }
    commit_chunk(conf, (uint16_t)move->target_buffer_untrusted, &chunk);
    if (pfl_smb_map_release(conf->map, move->page_untrusted, move->chunk_untrusted, chunk.header) !=
        0)
        conf->counters->chunks_stuck++;
}

/* A copier took it out, and released it. */
static void move_from_copy(const struct pfl_commit_conf *conf,
                           const struct pfl_commit_data_move *move)
{
    struct pfl_smb_chunk chunk = {.is_complete = true};
    const struct pfl_copy_entry *copy = conf->next_copy(conf->user, &chunk.payload);

    if (copy == NULL || copy->page != move->page_untrusted ||
        copy->chunk != move->chunk_untrusted || copy->result == PFL_COPY_NONE) {
        conf->counters->entries_skipped++;
        return;
    }
    chunk.view = pfl_copy_entry_view(copy);
    chunk.payload_bytes = copy->bytes;
    commit_chunk(conf, (uint16_t)move->target_buffer_untrusted, &chunk);
    if (copy->result == PFL_COPY_STUCK)
        conf->counters->chunks_stuck++;
}

/* The message contains the chunk, with its header (docs/abi/smb.md 8). */
static void move_from_message(const struct pfl_commit_conf *conf,
                              const struct pfl_commit_data_move *move)
{
    struct pfl_reader r = pfl_reader_of(move->data);
    struct pfl_smb_chunk chunk = {.is_complete = !move->is_incomplete};
    uint16_t packets;

    if (move->data.len < PFL_CHUNK_DATA_MIN_BYTES || move->data.len > PFL_CHUNK_DATA_MAX_BYTES) {
        conf->counters->entries_skipped++;
        return;
    }
    chunk.view.chunk_id = pfl_reader_u32(&r);
    chunk.view.writer_id = pfl_reader_u16(&r);
    packets = pfl_reader_u16(&r);
    chunk.view.count = pfl_chunk_count(packets);
    chunk.view.flags = pfl_chunk_flags(packets);
    chunk.payload = r.pos;
    chunk.payload_bytes = (uint32_t)r.left;
    commit_chunk(conf, (uint16_t)move->target_buffer_untrusted, &chunk);
}

static void on_move(void *user, const struct pfl_commit_data_move *move)
{
    const struct pfl_commit_conf *conf = user;

    if (move->has_data)
        move_from_message(conf, move);
    else if (conf->next_copy != NULL)
        move_from_copy(conf, move);
    else if (conf->map->smb.base != NULL)
        move_from_smb(conf, move);
    else
        conf->counters->entries_skipped++;
}

static void on_move_ahead(void *user, const struct pfl_commit_data_move *move)
{
    const struct pfl_commit_conf *conf = user;

    if (!move->has_data && conf->map->smb.base != NULL)
        pfl_smb_map_prefetch(conf->map, move->page_untrusted);
}

static void on_patches(void *user, struct pfl_commit_data_patch_list *list)
{
    const struct pfl_commit_conf *conf = user;
    struct pfl_trace_buffer_patch patches[PFL_PATCHES_MAX];
    struct pfl_trace_buffer *buffer =
        conf->get_buffer(conf->user, (uint16_t)list->target_buffer_untrusted);
    uint16_t writer_id = (uint16_t)list->writer_id_untrusted;
    struct pfl_commit_data_patch patch;
    size_t len = 0;

    if (buffer == NULL || !pfl_ids_is_writer(writer_id) || list->patches_len > PFL_PATCHES_MAX) {
        conf->counters->patches_discarded += list->patches_len;
        return;
    }
    while (pfl_commit_data_next_patch(list, &patch)) {
        if (patch.data.len != PFL_PATCH_BYTES) {
            conf->counters->patches_discarded++;
            continue;
        }
        patches[len].offset_untrusted = patch.offset_untrusted;
        memcpy(patches[len].data, patch.data.data, PFL_PATCH_BYTES);
        len++;
    }
    pfl_trace_buffer_patch(buffer, &(struct pfl_trace_buffer_patches){
                                       .producer_id = conf->identity.producer_id,
                                       .producer_serial = conf->identity.producer_serial,
                                       .writer_id = writer_id,
                                       .chunk_id = list->chunk_id_untrusted,
                                       .has_more_patches = list->has_more_patches,
                                       .patches = patches,
                                       .patches_len = len,
                                       .credit = conf->identity.credit,
                                   });
}

static bool has_copies(const struct pfl_commit_conf *conf)
{
    return conf->next_copy == NULL || conf->has_more_copies(conf->user);
}

static bool may_continue(void *user)
{
    const struct pfl_commit_conf *conf = user;

    return has_copies(conf) && (conf->may_continue == NULL || conf->may_continue(conf->user));
}

static bool was_long(void *user)
{
    const struct pfl_commit_conf *conf = user;
    struct pfl_trace_buffer_credit *credit = conf->identity.credit;

    if (!has_copies(conf))
        return true;
    if (credit == NULL || credit->searched < LONG_SEARCH)
        return false;
    credit->searched = 0;
    return true;
}

int pfl_commit_apply(const struct pfl_commit_conf *conf, struct pfl_span args,
                     struct pfl_commit_data_position *at, uint64_t *ret_flush_request_id)
{
    struct pfl_commit_data_visitor visitor = {
        .on_move = on_move,
        .on_patches = on_patches,
        .on_move_ahead = on_move_ahead,
        .may_continue = may_continue,
        .was_long = was_long,
        .user = (void *)(uintptr_t)conf,
    };

    if (!conf->is_emulated && !pfl_smb_map_is_open(conf->map))
        return PFL_ESTATE;
    return pfl_commit_data_continue(args, &visitor, at, ret_flush_request_id);
}
