/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies uncommitted chunks of registered writers into their buffers.
 *
 * Happy path: the bitmap of each page that the producer has ever written is loaded once, and the
 * header of each chunk in use is read. A complete chunk is offered whole. A chunk being written is
 * offered if it has a finished packet (a count of two or more: the last one is open). Nothing in
 * shared memory changes, so its commit or the next scrape offers a chunk again; the buffer detects
 * this. Cannot fail; the buffer checks the data like that of any chunk.
 * Cost: one load per written page, a read per 64 KiB of others, and a copy per chunk in use. It is
 * counted; when the credit is used up the caller gets the page to continue at.
 */
#include "service/buffer/smb_scrape.h"

#define COUNT_WITH_FINISHED_PACKET 2u

/* Returns the units; 0: no session wants it. */
static uint64_t offer(const struct pfl_smb_scrape_conf *conf, struct pfl_chunk_view view,
                      bool is_complete, struct pfl_span payload)
{
    struct pfl_trace_buffer *buffer;

    if (!is_complete && view.count < COUNT_WITH_FINISHED_PACKET)
        return 0;
    buffer = conf->get_writer_buffer(conf->user, view.writer_id);
    if (buffer == NULL)
        return 0;
    pfl_trace_buffer_commit(buffer, &(struct pfl_trace_buffer_chunk){
                                        .producer_id = conf->identity.producer_id,
                                        .producer_serial = conf->identity.producer_serial,
                                        .writer_id = view.writer_id,
                                        .chunk_id = view.chunk_id,
                                        .fragments = view.count,
                                        .flags = view.flags,
                                        .is_complete = is_complete,
                                        .payload = payload.data,
                                        .payload_bytes = (uint32_t)payload.len,
                                        .producer_uid = conf->identity.uid,
                                        .producer_pid = conf->identity.pid,
                                        .machine_id = conf->identity.machine_id,
                                        .who = conf->identity.who,
                                        .credit = conf->identity.credit,
                                    });
    return PFL_SCRAPE_COST_CHUNK + payload.len / PFL_SCRAPE_BYTES_A_UNIT;
}

uint64_t pfl_smb_scrape_copy(const struct pfl_smb_scrape_conf *conf,
                             const struct pfl_copy_entry *copy, const uint8_t *payload)
{
    bool is_complete = copy->result == PFL_COPY_WHOLE || copy->result == PFL_COPY_STUCK;

    if (!is_complete && copy->result != PFL_COPY_OPEN)
        return 0;
    return offer(conf, pfl_copy_entry_view(copy), is_complete, pfl_span_of(payload, copy->bytes));
}

static void scrape_chunk(const struct pfl_smb_scrape_conf *conf, uint32_t page, uint32_t bitmap,
                         uint32_t index, struct pfl_smb_scrape_result *result)
{
    const struct pfl_smb *smb = &conf->map->smb;
    struct pfl_chunk_header *header = pfl_smb_chunk(smb, page, bitmap, index);
    uint64_t units = offer(
        conf, pfl_chunk_look(header), pfl_page_chunk_state(bitmap, index) == PFL_CHUNK_COMPLETE,
        pfl_span_of(pfl_chunk_payload(header), pfl_page_payload_bytes(smb->page_bytes, bitmap)));

    result->units += units;
    result->offered += units != 0;
}

static void scrape_page(const struct pfl_smb_scrape_conf *conf, uint32_t page,
                        struct pfl_smb_scrape_result *result)
{
    uint32_t bitmap;
    uint32_t chunks;

    pfl_smb_map_begin_touch(conf->map);
    bitmap = pfl_page_bitmap(pfl_smb_page(&conf->map->smb, page));
    chunks = pfl_page_chunks(bitmap);
    for (uint32_t i = 0; i < chunks; i++) {
        if (pfl_page_chunk_state(bitmap, i) != PFL_CHUNK_FREE)
            scrape_chunk(conf, page, bitmap, i, result);
    }
    pfl_smb_map_end_touch();
}

static bool may_continue(const struct pfl_smb_scrape_conf *conf)
{
    return !conf->map->has_faulted &&
           (conf->may_continue == NULL || conf->may_continue(conf->user));
}

struct pfl_smb_scrape_result pfl_smb_scrape(const struct pfl_smb_scrape_conf *conf)
{
    struct pfl_smb_scrape_result result = {.next_page = conf->page};
    bool has_time = true;

    while (has_time && result.next_page < conf->map->smb.pages && result.units < conf->credit) {
        bool has_read;
        uint32_t end = pfl_smb_map_find_some_written(conf->map, result.next_page, &has_read);

        result.units += PFL_SCRAPE_COST_PAGES + (has_read ? PFL_SCRAPE_COST_READ : 0);
        do {
            if (pfl_smb_map_is_known_written(conf->map, result.next_page)) {
                scrape_page(conf, result.next_page, &result);
                has_time = may_continue(conf);
            }
        } while (++result.next_page < end && has_time && result.units < conf->credit);
    }
    if (conf->map->has_faulted)
        result.next_page = conf->map->smb.pages;
    return result;
}
