/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared memory of any content: scraped, every chunk of every page committed, all of it read
 * through the read-back. The input is the memory, from its beginning.
 */
#include <stdlib.h>

#include "service/buffer/readback.h"
#include "service/buffer/smb_scrape.h"

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

static void commit_all(const struct pfl_smb_map *map, struct pfl_trace_buffer *buffer)
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

            if (pfl_commit_apply(&conf, pfl_span_of(request, sizeof(request)), &flush_id) != 0)
                abort();
        }
    }
}

static void read_all(struct pfl_trace_buffer *buffer)
{
    struct pfl_readback_conf conf = {
        .buffers = &buffer, .buffers_len = 1, .on_new_source = on_new_source};
    struct pfl_readback_frame frame = {.has_more = true};
    struct pfl_readback *readback;

    if (pfl_readback_new(&conf, &readback) != 0)
        abort();
    while (frame.has_more) {
        if (pfl_readback_next_frame(readback, &frame) != 0)
            abort();
    }
    pfl_readback_free(readback);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pfl_trace_buffer_conf conf = {.size_bytes = 16384};
    struct pfl_smb_map map;
    struct pfl_trace_buffer *buffer;

    pfl_smb_map_init(&map);
    if (pfl_smb_map_create(&map, (struct pfl_smb_size){SMB_BYTES, PAGE_BYTES}) != 0 ||
        pfl_trace_buffer_new(&conf, &buffer) != 0)
        abort();
    memcpy(map.smb.base, data, size < SMB_BYTES ? size : SMB_BYTES);
    (void)pfl_smb_scrape(&(struct pfl_smb_scrape_conf){.identity = {.producer_id = 1},
                                                       .map = &map,
                                                       .get_writer_buffer = get_buffer,
                                                       .user = buffer});
    commit_all(&map, buffer);
    read_all(buffer);
    pfl_trace_buffer_free(buffer);
    pfl_smb_map_fini(&map);
    return 0;
}
