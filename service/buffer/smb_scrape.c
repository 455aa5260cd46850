/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies uncommitted chunks of registered writers into their buffers.
 *
 * Happy path: of each page that the producer has ever written, the bitmap is loaded once; of each
 * chunk in use the header is looked at; a complete one is offered whole, one being written when it
 * has a packet that is finished (count of two or more: the last one is open). Nothing in shared
 * memory changes, so a chunk is offered again by its commit or by the next scrape; the buffer sorts
 * that out. Cannot fail; what a producer scribbles meanwhile is judged by the buffer as any chunk
 * is. Cost: one load a page that was written, 64 KiB at a time read of others, and a copy for each
 * chunk in use.
 */
#include "service/buffer/smb_scrape.h"

#define COUNT_WITH_FINISHED_PACKET 2u

static bool scrape_chunk(const struct pfl_smb_scrape_conf *conf, uint32_t page, uint32_t bitmap,
                         uint32_t index)
{
    const struct pfl_smb *smb = &conf->map->smb;
    struct pfl_chunk_header *header = pfl_smb_chunk(smb, page, bitmap, index);
    bool is_complete = pfl_page_chunk_state(bitmap, index) == PFL_CHUNK_COMPLETE;
    struct pfl_chunk_view view = pfl_chunk_look(header);
    struct pfl_trace_buffer *buffer;

    if (!is_complete && view.count < COUNT_WITH_FINISHED_PACKET)
        return false;
    buffer = conf->get_writer_buffer(conf->user, view.writer_id);
    if (buffer == NULL)
        return false;
    pfl_trace_buffer_commit(buffer,
                            &(struct pfl_trace_buffer_chunk){
                                .producer_id = conf->identity.producer_id,
                                .writer_id = view.writer_id,
                                .chunk_id = view.chunk_id,
                                .fragments = view.count,
                                .flags = view.flags,
                                .is_complete = is_complete,
                                .payload = pfl_chunk_payload(header),
                                .payload_bytes = pfl_page_payload_bytes(smb->page_bytes, bitmap),
                                .producer_uid = conf->identity.uid,
                                .producer_pid = conf->identity.pid,
                                .machine_id = conf->identity.machine_id,
                            });
    return true;
}

size_t pfl_smb_scrape(const struct pfl_smb_scrape_conf *conf)
{
    const struct pfl_smb *smb = &conf->map->smb;
    size_t offered = 0;

    pfl_smb_map_find_all_written(conf->map);
    for (uint32_t page = 0; page < smb->pages; page++) {
        uint32_t bitmap;
        uint32_t chunks;

        if (!pfl_smb_map_is_known_written(conf->map, page))
            continue;
        bitmap = pfl_page_bitmap(pfl_smb_page(smb, page));
        chunks = pfl_page_chunks(bitmap);

        for (uint32_t i = 0; i < chunks; i++) {
            if (pfl_page_chunk_state(bitmap, i) != PFL_CHUNK_FREE &&
                scrape_chunk(conf, page, bitmap, i))
                offered++;
        }
    }
    return offered;
}
