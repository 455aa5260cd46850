/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a CommitDataRequest in place: see commit_data.h.
 *
 * Happy path: one walk parses every entry and every patch without callbacks, and notes the flush id
 * and the first MOVES_KEPT moves and LISTS_KEPT lists, which is a whole common request. Then it
 * calls back for the moves, then for the lists. The rest of a longer request is walked again.
 * A request that takes long is continued by a later call, at the position where it stopped.
 *
 * Failures: bytes that are no protobuf message at any level are PFL_EPARSE, found by the first
 * walk; the later walks cannot fail. Fields of an unexpected wire type count as unknown: skipped.
 */
#include "proto/ipc/commit_data.h"

#include "perfetto/commit_data.fields.h"

#define MOVES_KEPT 128u
#define LISTS_KEPT 64u

#define ENTRIES_A_LOOK 8u /* at the clock, which costs as much as a part of a move */

struct outline {
    uint64_t flush_request_id;
    size_t moves_len; /* of the request; the first of them are in `moves` */
    size_t lists_len;
    struct pfl_commit_data_move moves[MOVES_KEPT];
    struct pfl_commit_data_patch_list lists[LISTS_KEPT];
};

static void set_move_varint(struct pfl_commit_data_move *m, const struct pfl_field *f)
{
    switch (f->id) {
    case COMMIT_DATA_REQUEST__CHUNKS_TO_MOVE__PAGE:
        m->page_untrusted = (uint32_t)f->value;
        break;
    case COMMIT_DATA_REQUEST__CHUNKS_TO_MOVE__CHUNK:
        m->chunk_untrusted = (uint32_t)f->value;
        break;
    case COMMIT_DATA_REQUEST__CHUNKS_TO_MOVE__TARGET_BUFFER:
        m->target_buffer_untrusted = (uint32_t)f->value;
        break;
    case COMMIT_DATA_REQUEST__CHUNKS_TO_MOVE__CHUNK_INCOMPLETE:
        m->is_incomplete = f->value != 0;
        break;
    default:
        break;
    }
}

/*
 * There are hundreds of thousands of moves per second, and nearly all have one-byte tags and short
 * varints: those are read here. False, without a decision, for any other form.
 */
static bool try_parse_plain_move(struct pfl_span bytes, struct pfl_commit_data_move *ret_move)
{
    uint32_t values[COMMIT_DATA_REQUEST__CHUNKS_TO_MOVE__CHUNK_INCOMPLETE + 1] = {0};
    size_t i = 0;

    while (i < bytes.len) {
        uint32_t id = bytes.data[i] >> 3;
        uint32_t v = 0;
        unsigned shift = 0;

        if ((bytes.data[i++] & 7) != PFL_WIRE_VARINT || id == 0 ||
            id == COMMIT_DATA_REQUEST__CHUNKS_TO_MOVE__DATA ||
            id > COMMIT_DATA_REQUEST__CHUNKS_TO_MOVE__CHUNK_INCOMPLETE)
            return false;
        while (i < bytes.len && bytes.data[i] >= 0x80 && shift < 21) {
            v |= (uint32_t)(bytes.data[i++] & 0x7f) << shift;
            shift += 7;
        }
        if (i == bytes.len || bytes.data[i] >= 0x80)
            return false;
        values[id] = v | (uint32_t)bytes.data[i++] << shift;
    }
    *ret_move = (struct pfl_commit_data_move){
        .page_untrusted = values[COMMIT_DATA_REQUEST__CHUNKS_TO_MOVE__PAGE],
        .chunk_untrusted = values[COMMIT_DATA_REQUEST__CHUNKS_TO_MOVE__CHUNK],
        .target_buffer_untrusted = values[COMMIT_DATA_REQUEST__CHUNKS_TO_MOVE__TARGET_BUFFER],
        .is_incomplete = values[COMMIT_DATA_REQUEST__CHUNKS_TO_MOVE__CHUNK_INCOMPLETE] != 0};
    return true;
}

static bool parse_move(struct pfl_span bytes, struct pfl_commit_data_move *ret_move)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_commit_data_move m = {0};
    struct pfl_field f;

    if (try_parse_plain_move(bytes, ret_move))
        return true;
    while (pfl_reader_field(&r, &f)) {
        if (f.type == PFL_WIRE_VARINT) {
            set_move_varint(&m, &f);
        } else if (f.type == PFL_WIRE_BYTES && f.id == COMMIT_DATA_REQUEST__CHUNKS_TO_MOVE__DATA) {
            m.has_data = true;
            m.data = f.bytes;
        }
    }
    *ret_move = m;
    return !r.failed;
}

/*
 * The form that every known producer writes: offset in at most three bytes, then four bytes of
 * data. False, without a decision, for any other.
 */
static bool try_parse_plain_patch(struct pfl_span bytes, struct pfl_commit_data_patch *ret_patch)
{
    uint32_t offset = 0;
    const uint8_t *tail;
    size_t offset_len;

    if (bytes.len < 8 || bytes.len > 10 ||
        bytes.data[0] !=
            (COMMIT_DATA_REQUEST__CHUNK_TO_PATCH__PATCH__OFFSET << 3 | PFL_WIRE_VARINT))
        return false;
    tail = bytes.data + bytes.len - 6;
    if (tail[0] != (COMMIT_DATA_REQUEST__CHUNK_TO_PATCH__PATCH__DATA << 3 | PFL_WIRE_BYTES) ||
        tail[1] != 4)
        return false;
    offset_len = bytes.len - 7;
    for (size_t i = 0; i < offset_len; i++) {
        uint8_t byte = bytes.data[1 + i];

        if ((byte >= 0x80) != (i + 1 < offset_len))
            return false;
        offset |= (uint32_t)(byte & 0x7f) << (7 * i);
    }
    ret_patch->offset_untrusted = offset;
    ret_patch->data = pfl_span_of(tail + 2, 4);
    return true;
}

static bool parse_patch(struct pfl_span bytes, struct pfl_commit_data_patch *ret_patch)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_commit_data_patch p = {0};
    struct pfl_field f;

    if (try_parse_plain_patch(bytes, ret_patch))
        return true;
    while (pfl_reader_field(&r, &f)) {
        if (f.type == PFL_WIRE_VARINT && f.id == COMMIT_DATA_REQUEST__CHUNK_TO_PATCH__PATCH__OFFSET)
            p.offset_untrusted = (uint32_t)f.value;
        else if (f.type == PFL_WIRE_BYTES &&
                 f.id == COMMIT_DATA_REQUEST__CHUNK_TO_PATCH__PATCH__DATA)
            p.data = f.bytes;
    }
    *ret_patch = p;
    return !r.failed;
}

static void set_list_varint(struct pfl_commit_data_patch_list *l, const struct pfl_field *f)
{
    switch (f->id) {
    case COMMIT_DATA_REQUEST__CHUNK_TO_PATCH__TARGET_BUFFER:
        l->target_buffer_untrusted = (uint32_t)f->value;
        break;
    case COMMIT_DATA_REQUEST__CHUNK_TO_PATCH__WRITER_ID:
        l->writer_id_untrusted = (uint32_t)f->value;
        break;
    case COMMIT_DATA_REQUEST__CHUNK_TO_PATCH__CHUNK_ID:
        l->chunk_id_untrusted = (uint32_t)f->value;
        break;
    case COMMIT_DATA_REQUEST__CHUNK_TO_PATCH__HAS_MORE_PATCHES:
        l->has_more_patches = f->value != 0;
        break;
    default:
        break;
    }
}

/* The list without its patches, which it counts and `is_checked` says were parsed before. */
static bool parse_patch_list(struct pfl_span bytes, bool is_checked,
                             struct pfl_commit_data_patch_list *ret_list)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_commit_data_patch patch;
    struct pfl_field f;
    bool is_ok = true;

    memset(ret_list, 0, sizeof(*ret_list));
    ret_list->fields = r;
    while (is_ok && pfl_reader_field(&r, &f)) {
        if (f.type == PFL_WIRE_VARINT) {
            set_list_varint(ret_list, &f);
        } else if (f.type == PFL_WIRE_BYTES &&
                   f.id == COMMIT_DATA_REQUEST__CHUNK_TO_PATCH__PATCHES) {
            ret_list->patches_len++;
            is_ok = is_checked || parse_patch(f.bytes, &patch);
        }
    }
    return is_ok && !r.failed;
}

static bool is_entry(const struct pfl_field *f, uint32_t id)
{
    return f->type == PFL_WIRE_BYTES && f->id == id;
}

/* Where the entry is parsed to: its place in the outline, or `spare` when that is full. */
static struct pfl_commit_data_move *move_at(struct outline *o, struct pfl_commit_data_move *spare)
{
    return o->moves_len < MOVES_KEPT ? &o->moves[o->moves_len] : spare;
}

static struct pfl_commit_data_patch_list *list_at(struct outline *o,
                                                  struct pfl_commit_data_patch_list *spare)
{
    return o->lists_len < LISTS_KEPT ? &o->lists[o->lists_len] : spare;
}

static bool check(struct pfl_span request, struct outline *ret_outline)
{
    struct pfl_reader r = pfl_reader_of(request);
    struct outline *o = ret_outline;
    struct pfl_commit_data_patch_list list;
    struct pfl_commit_data_move move;
    struct pfl_field f;
    bool is_ok = true;

    o->flush_request_id = 0;
    o->moves_len = 0;
    o->lists_len = 0;
    while (is_ok && pfl_reader_field(&r, &f)) {
        if (is_entry(&f, COMMIT_DATA_REQUEST__CHUNKS_TO_MOVE)) {
            is_ok = parse_move(f.bytes, move_at(o, &move));
            o->moves_len++;
        } else if (is_entry(&f, COMMIT_DATA_REQUEST__CHUNKS_TO_PATCH)) {
            is_ok = parse_patch_list(f.bytes, false, list_at(o, &list));
            o->lists_len++;
        } else if (f.type == PFL_WIRE_VARINT && f.id == COMMIT_DATA_REQUEST__FLUSH_REQUEST_ID) {
            o->flush_request_id = f.value;
        }
    }
    return is_ok && !r.failed;
}

static bool may_continue(const struct pfl_commit_data_visitor *visitor,
                         struct pfl_commit_data_position *at)
{
    bool is_due = ++at->entries % ENTRIES_A_LOOK == 0;

    if (visitor->was_long != NULL)
        is_due = visitor->was_long(visitor->user) || is_due;
    return !is_due || visitor->may_continue == NULL || visitor->may_continue(visitor->user);
}

/* Moves that were kept. False: not all of them. */
static bool visit_kept_moves(const struct outline *o, const struct pfl_commit_data_visitor *visitor,
                             struct pfl_commit_data_position *at)
{
    size_t kept = o->moves_len < MOVES_KEPT ? o->moves_len : MOVES_KEPT;

    while (at->skip < kept) {
        const struct pfl_commit_data_move *move = &o->moves[at->skip++];

        if (visitor->on_move_ahead != NULL && at->skip < kept)
            visitor->on_move_ahead(visitor->user, move + 1);
        visitor->on_move(visitor->user, move);
        if (!may_continue(visitor, at))
            return false;
    }
    return true;
}

static bool visit_kept_lists(struct outline *o, const struct pfl_commit_data_visitor *visitor,
                             struct pfl_commit_data_position *at)
{
    while (at->skip < o->lists_len && at->skip < LISTS_KEPT) {
        visitor->on_patches(visitor->user, &o->lists[at->skip++]);
        if (!may_continue(visitor, at))
            return false;
    }
    return true;
}

/* The entries of the part from the position on. False: not all of them. */
static bool visit_entries(struct pfl_span request, const struct pfl_commit_data_visitor *visitor,
                          struct pfl_commit_data_position *at)
{
    struct pfl_reader r =
        pfl_reader_of(pfl_span_of(request.data + at->offset, request.len - at->offset));
    bool is_moves = at->part == PFL_COMMIT_DATA_MOVES;
    struct pfl_commit_data_patch_list list;
    struct pfl_commit_data_move move;
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (!is_entry(&f, is_moves ? COMMIT_DATA_REQUEST__CHUNKS_TO_MOVE
                                   : COMMIT_DATA_REQUEST__CHUNKS_TO_PATCH))
            continue;
        if (at->skip != 0) {
            at->skip--;
            continue;
        }
        if (is_moves && parse_move(f.bytes, &move))
            visitor->on_move(visitor->user, &move);
        else if (!is_moves && parse_patch_list(f.bytes, true, &list))
            visitor->on_patches(visitor->user, &list);
        if (!may_continue(visitor, at)) {
            at->offset = (size_t)(r.pos - request.data);
            return false;
        }
    }
    return true;
}

static void begin_part(struct pfl_commit_data_position *at, enum pfl_commit_data_part part)
{
    at->part = part;
    at->offset = 0;
    at->skip = 0;
}

/* `o` is NULL when the walk continues. False: not all of it. */
static bool visit_part(struct pfl_span request, struct outline *o,
                       const struct pfl_commit_data_visitor *visitor,
                       struct pfl_commit_data_position *at)
{
    bool is_moves = at->part == PFL_COMMIT_DATA_MOVES;

    if (is_moves ? visitor->on_move == NULL : visitor->on_patches == NULL)
        return true;
    if (o != NULL) {
        if (!(is_moves ? visit_kept_moves(o, visitor, at) : visit_kept_lists(o, visitor, at)))
            return false;
        if (is_moves ? o->moves_len <= MOVES_KEPT : o->lists_len <= LISTS_KEPT)
            return true;
    }
    return visit_entries(request, visitor, at);
}

int pfl_commit_data_continue(struct pfl_span request, const struct pfl_commit_data_visitor *visitor,
                             struct pfl_commit_data_position *at, uint64_t *ret_flush_request_id)
{
    struct outline outline;
    bool is_first = at->part == PFL_COMMIT_DATA_START;

    if (is_first) {
        if (!check(request, &outline))
            return PFL_EPARSE;
        at->flush_request_id = outline.flush_request_id;
        begin_part(at, PFL_COMMIT_DATA_MOVES);
    }
    if (at->part == PFL_COMMIT_DATA_MOVES) {
        if (!visit_part(request, is_first ? &outline : NULL, visitor, at))
            return PFL_EAGAIN;
        begin_part(at, PFL_COMMIT_DATA_LISTS);
    }
    if (!visit_part(request, is_first ? &outline : NULL, visitor, at))
        return PFL_EAGAIN;
    *ret_flush_request_id = at->flush_request_id;
    *at = (struct pfl_commit_data_position){0};
    return 0;
}

int pfl_commit_data_read(struct pfl_span request, const struct pfl_commit_data_visitor *visitor,
                         uint64_t *ret_flush_request_id)
{
    struct pfl_commit_data_position at = {0};

    return pfl_commit_data_continue(request, visitor, &at, ret_flush_request_id);
}

bool pfl_commit_data_next_patch(struct pfl_commit_data_patch_list *list,
                                struct pfl_commit_data_patch *ret_patch)
{
    struct pfl_field f;

    while (pfl_reader_field(&list->fields, &f)) {
        if (is_entry(&f, COMMIT_DATA_REQUEST__CHUNK_TO_PATCH__PATCHES))
            return parse_patch(f.bytes, ret_patch);
    }
    return false;
}
