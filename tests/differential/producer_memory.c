/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a producer under a schedule's orders does to its shared memory, and how it commits.
 *
 *   fill   Free -> BeingWritten, header, fragments       (partitions the page when it is not)
 *   more   fragments behind those, flags                 (BeingWritten)
 *   done   BeingWritten -> Complete
 *   commit moves and patches in one CommitData
 *   page   the page's bitmap is what the schedule says
 *
 * A chunk that is not in the state that is needed is left alone and the operation refused: after
 * an operation was cut out of a schedule the rest still means something. Fragments that do not fit
 * the chunk are left out, and so is what follows them.
 */
#include <stdlib.h>

#include "abi/state.h"
#include "tests/differential/payload.h"
#include "tests/differential/producer.h"

#define COMMIT_MAX 65536u
/* What a chunk holds where nothing was written: as packet bytes, an impossible wire type. With
 * zeros, field 0, the stock service returns packets whose trusted fields no parser finds. */
#define UNWRITTEN 0x0f

struct place {
    struct pfl_page_header *page;
    struct pfl_chunk_header *chunk;
    uint32_t page_no, chunk_no;
    uint32_t bitmap;
    uint32_t *used;
};

static bool parse_place(const struct diff_producer *self, struct diff_words *words,
                        struct place *ret_place)
{
    struct place place = {0};
    char word[DIFF_WORD_MAX];
    char *end;

    if (!diff_words_next(words, word) || self->smb.base == NULL)
        return false;
    place.page_no = (uint32_t)strtoul(word, &end, 10);
    place.chunk_no = *end == '.' ? (uint32_t)strtoul(end + 1, NULL, 10) : 0;
    if (place.page_no >= self->smb.pages || place.chunk_no >= PFL_PAGE_CHUNKS_MAX)
        return false;
    place.page = pfl_smb_page(&self->smb, place.page_no);
    place.used = &self->used[place.page_no * PFL_PAGE_CHUNKS_MAX + place.chunk_no];
    *ret_place = place;
    return true;
}

static bool locate(const struct diff_producer *self, struct place *place)
{
    place->bitmap = pfl_page_bitmap(place->page);
    place->chunk = pfl_smb_chunk(&self->smb, place->page_no, place->bitmap, place->chunk_no);
    return place->chunk != NULL;
}

/* Flags as letters: p continues the previous, n continues in the next, x needs patches. */
static uint32_t parse_flags(const char *word)
{
    uint32_t flags = 0;

    for (; *word != 0; word++) {
        flags |= *word == 'p' ? PFL_CHUNK_CONTINUES_PREV : 0u;
        flags |= *word == 'n' ? PFL_CHUNK_CONTINUES_NEXT : 0u;
        flags |= *word == 'x' ? PFL_CHUNK_NEEDS_PATCH : 0u;
    }
    return flags;
}

/* Puts the words' fragments behind what the chunk has; how many they are. */
static uint32_t put_fragments(const struct diff_producer *self, const struct place *place,
                              struct diff_words *words)
{
    uint32_t room = pfl_page_payload_bytes(self->smb.page_bytes, place->bitmap);
    struct pfl_writer w =
        pfl_writer_of(pfl_chunk_payload(place->chunk) + *place->used, room - *place->used);
    char word[DIFF_WORD_MAX];
    uint32_t count = 0;

    while (diff_words_next(words, word) && diff_payload_put(&w, word))
        count++;
    *place->used = room - (uint32_t)w.left;
    return count;
}

bool diff_producer_fill(struct diff_producer *self, struct diff_words *words)
{
    char layout[DIFF_WORD_MAX], writer[DIFF_WORD_MAX], id[DIFF_WORD_MAX], flags[DIFF_WORD_MAX],
        count[DIFF_WORD_MAX];
    uint32_t packets;
    struct place place;

    if (!parse_place(self, words, &place) || !diff_words_next(words, layout) ||
        !diff_words_next(words, writer) || !diff_words_next(words, id) ||
        !diff_words_next(words, flags) || !diff_words_next(words, count))
        return false;
    (void)pfl_state_try_partition(place.page, (enum pfl_page_layout)(strtoul(layout, NULL, 10)));
    if (!locate(self, &place) ||
        pfl_state_begin_write(place.page, place.chunk_no, NULL) != PFL_STATE_DONE)
        return false;
    *place.used = 0;
    memset(pfl_chunk_payload(place.chunk), UNWRITTEN,
           pfl_page_payload_bytes(self->smb.page_bytes, place.bitmap));
    packets = put_fragments(self, &place, words);
    if (*count != '=')
        packets = (uint32_t)strtoul(count, NULL, 10);
    pfl_chunk_set_header(place.chunk, (uint16_t)strtoul(writer, NULL, 10),
                         (uint32_t)strtoul(id, NULL, 10),
                         pfl_chunk_packets_of(packets, parse_flags(flags)));
    return true;
}

bool diff_producer_more(struct diff_producer *self, struct diff_words *words)
{
    char flags[DIFF_WORD_MAX];
    struct pfl_chunk_view view;
    struct place place;
    uint32_t count;

    if (!parse_place(self, words, &place) || !diff_words_next(words, flags) ||
        !locate(self, &place) ||
        pfl_page_chunk_state(place.bitmap, place.chunk_no) != PFL_CHUNK_BEING_WRITTEN)
        return false;
    view = pfl_chunk_look(place.chunk);
    count = view.count + put_fragments(self, &place, words);
    pfl_chunk_set_header(
        place.chunk, view.writer_id, view.chunk_id,
        pfl_chunk_packets_of(count < PFL_CHUNK_COUNT_MAX ? count : PFL_CHUNK_COUNT_MAX,
                             view.flags | parse_flags(flags)));
    return true;
}

bool diff_producer_done(struct diff_producer *self, struct diff_words *words)
{
    struct place place;

    return parse_place(self, words, &place) &&
           pfl_state_complete(place.page, place.chunk_no) == PFL_STATE_DONE;
}

bool diff_producer_scribble(struct diff_producer *self, struct diff_words *words)
{
    char bitmap[DIFF_WORD_MAX];
    struct place place;

    if (!parse_place(self, words, &place) || !diff_words_next(words, bitmap))
        return false;
    atomic_store_explicit(&place.page->bitmap, (uint32_t)strtoul(bitmap, NULL, 16),
                          memory_order_release);
    return true;
}

/* The part of a word up to the next colon; `*pos` goes behind it. */
static bool next_part(char **pos, char **ret_part)
{
    char *part = *pos;
    size_t len = strcspn(part, ":");

    if (*part == 0)
        return false;
    *pos = part[len] == ':' ? part + len + 1 : part + len;
    part[len] = 0;
    *ret_part = part;
    return true;
}

/* m:PAGE.CHUNK:BUFFER -> ChunksToMove {page 1, chunk 2, target_buffer 3} */
static void put_move(const struct diff_producer *self, struct pfl_writer *w, char *pos)
{
    uint8_t move[32];
    struct pfl_writer m = pfl_writer_of(move, sizeof(move));
    char *place, *buffer, *end;

    if (!next_part(&pos, &place) || !next_part(&pos, &buffer))
        return;
    pfl_writer_field_varint(&m, 1, strtoul(place, &end, 10));
    pfl_writer_field_varint(&m, 2, *end == '.' ? strtoul(end + 1, NULL, 10) : 0);
    pfl_writer_field_varint(&m, 3, diff_producer_buffer(self, buffer));
    pfl_writer_field_bytes(w, 1, move, (size_t)(m.pos - move));
}

/* OFFSET=HEX -> Patch {offset 1, data 2} */
static void put_patch(struct pfl_writer *w, const char *part)
{
    uint8_t patch[64], data[16];
    struct pfl_writer p = pfl_writer_of(patch, sizeof(patch));
    char *end;
    size_t len = 0;

    pfl_writer_field_varint(&p, 1, strtoul(part, &end, 10));
    for (end += *end == '='; end[0] != 0 && end[1] != 0 && len < sizeof(data); end += 2) {
        char digits[3] = {end[0], end[1], 0};

        data[len++] = (uint8_t)strtoul(digits, NULL, 16);
    }
    pfl_writer_field_bytes(&p, 2, data, len);
    pfl_writer_field_bytes(w, 4, patch, (size_t)(p.pos - patch));
}

/* p:BUFFER:WRITER:ID:m|l[:OFFSET=HEX...] -> ChunkToPatch; m: more patches follow, l: the last */
static void put_patches(const struct diff_producer *self, struct pfl_writer *w, char *pos)
{
    uint8_t list[512];
    struct pfl_writer l = pfl_writer_of(list, sizeof(list));
    char *buffer, *writer, *id, *more, *patch;

    if (!next_part(&pos, &buffer) || !next_part(&pos, &writer) || !next_part(&pos, &id) ||
        !next_part(&pos, &more))
        return;
    pfl_writer_field_varint(&l, 1, diff_producer_buffer(self, buffer));
    pfl_writer_field_varint(&l, 2, strtoul(writer, NULL, 10));
    pfl_writer_field_varint(&l, 3, strtoul(id, NULL, 10));
    while (next_part(&pos, &patch))
        put_patch(&l, patch);
    pfl_writer_field_varint(&l, 5, *more == 'm');
    pfl_writer_field_bytes(w, 2, list, (size_t)(l.pos - list));
}

bool diff_producer_commit(struct diff_producer *self, struct diff_words *words)
{
    static uint8_t request[COMMIT_MAX];
    struct pfl_writer w = pfl_writer_of(request, sizeof(request));
    char word[DIFF_WORD_MAX];

    while (diff_words_next(words, word)) {
        if (strncmp(word, "m:", 2) == 0)
            put_move(self, &w, word + 2);
        else if (strncmp(word, "p:", 2) == 0)
            put_patches(self, &w, word + 2);
        else if (strcmp(word, "f") == 0)
            pfl_writer_field_varint(&w, 3, self->flush_id);
    }
    return diff_connection_call(&self->connection, "CommitData",
                                pfl_span_of(request, (size_t)(w.pos - request)), NULL, NULL);
}

void diff_producer_print_memory(const struct diff_producer *self, struct diff_text *out)
{
    for (uint32_t page = 0; self->smb.base != NULL && page < self->smb.pages; page++) {
        uint32_t bitmap = pfl_page_bitmap(pfl_smb_page(&self->smb, page));

        if (bitmap != 0)
            diff_text_add(out, " %u=%x", page, bitmap);
    }
}
