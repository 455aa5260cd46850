/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copier's process.
 *
 * Happy path: a request comes, with the memory's descriptor if it is ATTACH; it is done, and the
 * answer is sent. Chunks go into the area one after the other: their words, each read once, in an
 * entry, and their payload in `data`.
 * Failures: of a request, in its answer. A request that is not one ends the process; so does a page
 * that cannot be read (SIGBUS), for all memory here is of one user. What the kernel lets it wait
 * for, only that user's requests wait for.
 * Memory: pages that the producer never wrote are not touched (service/buffer/smb_map.h). Numbers
 * of pages and chunks are the producer's, and judged.
 * Owns the maps. Limits: PFL_COPY_MAPS of them, and what the area holds.
 */
#include "service/copy/copier.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "service/copy/copy_socket.h"

#define COUNT_WITH_FINISHED_PACKET 2u

_Static_assert(PFL_COPY_DATA_BYTES >= PFL_PAGE_MAX_BYTES, "a page fits");
_Static_assert(PFL_COPY_ENTRIES >= PFL_PAGE_CHUNKS_MAX, "a page's chunks fit");

struct copier {
    struct pfl_copy_area *area; /* borrowed */
    struct pfl_smb_map **maps;  /* owned: by their numbers; NULL: none */
};

/* ---- chunks into the area ---- */

/* What is filled of the area: never read back from it. */
struct cursor {
    struct pfl_copy_area *area;
    uint32_t entries;
    uint32_t bytes;
};

static bool has_room_for_page(const struct cursor *cursor, const struct pfl_smb_map *map)
{
    return PFL_COPY_ENTRIES - cursor->entries >= PFL_PAGE_CHUNKS_MAX &&
           PFL_COPY_DATA_BYTES - cursor->bytes >= map->smb.page_bytes;
}

static void copy_out(struct cursor *cursor, const struct pfl_smb_chunk *chunk,
                     struct pfl_copy_entry entry)
{
    entry.at = cursor->bytes;
    entry.bytes = chunk->payload_bytes;
    entry.chunk_id = chunk->view.chunk_id;
    entry.writer_id = chunk->view.writer_id;
    entry.count = chunk->view.count;
    entry.flags = chunk->view.flags;
    memcpy(cursor->area->data + cursor->bytes, chunk->payload, chunk->payload_bytes);
    cursor->area->entries[cursor->entries++] = entry;
    cursor->bytes += chunk->payload_bytes;
}

static void commit_entry(struct pfl_smb_map *map, struct cursor *cursor)
{
    struct pfl_copy_entry *entry = &cursor->area->entries[cursor->entries];
    const uint32_t page = entry->page;
    const uint32_t index = entry->chunk;
    struct pfl_smb_chunk chunk;

    if (PFL_COPY_DATA_BYTES - cursor->bytes < map->smb.page_bytes ||
        pfl_smb_map_take(map, page, index, &chunk) != 0) {
        *entry = (struct pfl_copy_entry){.page = page, .chunk = index, .result = PFL_COPY_NONE};
        cursor->entries++;
        return;
    }
    copy_out(cursor, &chunk, (struct pfl_copy_entry){.page = page, .chunk = index});
    entry->result =
        pfl_smb_map_release(map, page, index, chunk.header) == 0 ? PFL_COPY_WHOLE : PFL_COPY_STUCK;
}

void pfl_copier_commit(struct pfl_smb_map *map, struct pfl_copy_area *area)
{
    struct cursor cursor = {.area = area};
    uint32_t len = area->entries_len;

    if (len > PFL_COPY_ENTRIES)
        len = PFL_COPY_ENTRIES;
    while (cursor.entries < len) {
        if (cursor.entries + 1 < len)
            pfl_smb_map_prefetch(map, area->entries[cursor.entries + 1].page);
        commit_entry(map, &cursor);
    }
}

static void scrape_chunk(const struct pfl_smb_map *map, struct cursor *cursor, uint32_t page,
                         uint32_t bitmap, uint32_t index)
{
    struct pfl_chunk_header *header = pfl_smb_chunk(&map->smb, page, bitmap, index);
    struct pfl_smb_chunk chunk;

    if (header == NULL)
        return; /* never: `bitmap` has that chunk */
    chunk = (struct pfl_smb_chunk){
        .view = pfl_chunk_look(header),
        .payload = pfl_chunk_payload(header),
        .payload_bytes = pfl_page_payload_bytes(map->smb.page_bytes, bitmap),
        .is_complete = pfl_page_chunk_state(bitmap, index) == PFL_CHUNK_COMPLETE,
    };
    if (!chunk.is_complete && chunk.view.count < COUNT_WITH_FINISHED_PACKET)
        return;
    copy_out(cursor, &chunk,
             (struct pfl_copy_entry){.page = page,
                                     .chunk = index,
                                     .result = chunk.is_complete ? PFL_COPY_WHOLE : PFL_COPY_OPEN});
}

static void scrape_page(const struct pfl_smb_map *map, struct cursor *cursor, uint32_t page)
{
    uint32_t bitmap = pfl_page_bitmap(pfl_smb_page(&map->smb, page));
    uint32_t chunks = pfl_page_chunks(bitmap);

    for (uint32_t i = 0; i < chunks; i++)
        if (pfl_page_chunk_state(bitmap, i) != PFL_CHUNK_FREE)
            scrape_chunk(map, cursor, page, bitmap, i);
}

void pfl_copier_scrape(struct pfl_smb_map *map, uint32_t page, struct pfl_copy_area *area)
{
    struct cursor cursor = {.area = area};
    uint32_t looked_at = page; /* the end of the pages that are known to be written, or not */
    bool has_read;

    while (page < map->smb.pages && !map->has_faulted && has_room_for_page(&cursor, map)) {
        if (page == looked_at)
            looked_at = pfl_smb_map_find_some_written(map, page, &has_read);
        if (pfl_smb_map_is_known_written(map, page))
            scrape_page(map, &cursor, page);
        page++;
    }
    area->entries_len = cursor.entries;
    area->next_page = page < map->smb.pages && !map->has_faulted ? page : map->smb.pages;
}

/* ---- requests ---- */

static int attach(struct copier *c, const struct pfl_copy_message *m, struct pfl_copy_fds *fds)
{
    struct pfl_smb_map *map;
    int rc;

    if (m->map >= PFL_COPY_MAPS)
        return PFL_EINVAL;
    if (fds->len == 0)
        return PFL_ELIMIT;
    if (c->maps[m->map] != NULL)
        return PFL_EEXIST;
    map = pfl_mem_alloc(sizeof(*map));
    if (map == NULL)
        return PFL_ENOMEM;
    pfl_smb_map_init(map);
    rc = pfl_smb_map_adopt(map, fds->list[0], m->page_bytes, true);
    if (rc != 0) {
        pfl_mem_free(map);
        return rc;
    }
    fds->len = 0; /* the map's now */
    c->maps[m->map] = map;
    return 0;
}

static void detach(struct copier *c, uint32_t number)
{
    struct pfl_smb_map *map = c->maps[number];
    int fd;

    if (map == NULL)
        return;
    fd = map->fd;
    map->fd = -1; /* the map would have a thread close it */
    pfl_smb_map_fini(map);
    (void)close(fd);
    pfl_mem_free(map);
    c->maps[number] = NULL;
}

static int act_on_map(struct copier *c, const struct pfl_copy_message *m)
{
    struct pfl_smb_map *map = m->map < PFL_COPY_MAPS ? c->maps[m->map] : NULL;

    if (map == NULL)
        return PFL_ENOENT;
    if (m->kind == PFL_COPY_DETACH)
        detach(c, m->map);
    else if (m->kind == PFL_COPY_COMMIT)
        pfl_copier_commit(map, c->area);
    else
        pfl_copier_scrape(map, m->page, c->area);
    return 0;
}

/* False: it is no request, or nobody takes the answer. */
static bool serve(struct copier *c, int sock, struct pfl_copy_message *m, struct pfl_copy_fds *fds)
{
    if (m->kind < PFL_COPY_ATTACH || m->kind > PFL_COPY_SCRAPE ||
        fds->len > (m->kind == PFL_COPY_ATTACH ? 1 : 0))
        return false;
    m->error = m->kind == PFL_COPY_ATTACH ? attach(c, m, fds) : act_on_map(c, m);
    return pfl_copy_socket_send(sock, m, sizeof(*m), NULL) == 0;
}

void pfl_copier_run(int sock, struct pfl_copy_area *area)
{
    struct copier c = {.area = area};
    struct pfl_copy_message m;
    struct pfl_copy_fds fds;
    bool is_served;

    c.maps = pfl_mem_calloc(PFL_COPY_MAPS, sizeof(c.maps[0])); /* pages that are not used: none */
    if (c.maps == NULL)
        return;
    (void)fcntl(sock, F_SETFL, 0); /* it waits */
    do {
        is_served =
            pfl_copy_socket_receive(sock, &m, sizeof(m), &fds) == 0 && serve(&c, sock, &m, &fds);
        pfl_copy_socket_close_fds(&fds);
    } while (is_served);
    for (uint32_t i = 0; i < PFL_COPY_MAPS; i++)
        detach(&c, i);
    pfl_mem_free(c.maps);
}
