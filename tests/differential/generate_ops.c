/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines about one producer, drawn at random: chunks, commits, patches.
 *
 * The model follows the shared memory as far as the lines written here change it, so that most
 * operations mean something; where the service does otherwise (hostile chunks) the driver refuses
 * the operation, and that is part of the outcome.
 */
#include "tests/differential/generate_model.h"

#include "abi/page.h"

static uint32_t payload_bytes(const struct gen_producer *producer, uint32_t layout)
{
    return pfl_page_payload_bytes(producer->page_kb * 1024, layout << PFL_PAGE_LAYOUT_SHIFT);
}

void gen_connect(struct gen *self, uint32_t p)
{
    struct gen_producer *producer = &self->producers[p];
    uint32_t sources = 0;

    for (uint32_t bit = 0; bit < 8; bit++)
        sources |= (uint32_t)gen_chance(self, 80) << bit;
    *producer = (struct gen_producer){
        .is_up = true,
        .sources = sources | 1u << (gen_below(self, 2) * 4),
        .page_kb = 4u << (gen_chance(self, 75) ? 0 : gen_below(self, 4)),
        .pages = 4 + gen_below(self, GEN_PAGES - 3),
        .next_writer_id = 1 + gen_below(self, 3),
    };
    diff_text_add(&self->line, "connect %u %u %u %u %u", p, producer->page_kb,
                  producer->page_kb * producer->pages, gen_chance(self, 70) ? 1 : 0,
                  producer->sources);
    gen_emit(self);
}

void gen_bye(struct gen *self, uint32_t p)
{
    diff_text_add(&self->line, "bye %u", p);
    gen_emit(self);
    self->producers[p].is_up = false;
}

/* For a buffer of a session that is on and for which the producer has a data source. */
void gen_add_writer(struct gen *self, uint32_t p)
{
    struct gen_producer *producer = &self->producers[p];
    uint32_t s = gen_below(self, GEN_SESSIONS);
    struct gen_writer *writer;
    uint32_t b;

    if (!self->is_enabled[s])
        s = 1 - s;
    if (!self->is_enabled[s])
        return;
    b = gen_below(self, self->buffers[s]);
    if ((producer->sources & (1u << (s * 4 + b))) == 0 && gen_chance(self, 95))
        return;
    if (producer->writers_len < GEN_WRITERS)
        writer = &producer->writers[producer->writers_len++];
    else
        writer = &producer->writers[gen_below(self, GEN_WRITERS)];
    *writer = (struct gen_writer){.id = producer->next_writer_id++, .session = s, .buffer = b};
    if (gen_chance(self, 25))
        writer->next_chunk_id = 0u - 1 - gen_below(self, 6);
    if (gen_chance(self, 80)) {
        diff_text_add(&self->line, "writer %u %u %u.%u", p, writer->id, s, b);
        gen_emit(self);
    }
}

/* A free chunk, in a page of its own if it must be. */
static struct gen_slot *find_slot(struct gen *self, struct gen_producer *producer,
                                  uint32_t *ret_page, uint32_t *ret_chunk)
{
    uint32_t start = gen_below(self, producer->pages);

    for (uint32_t i = 0; i < producer->pages; i++) {
        uint32_t page = (start + i) % producer->pages;
        uint32_t layout = producer->layouts[page];

        if (layout == 0) {
            layout = self->habits.layout != 0 ? self->habits.layout : 1 + gen_below(self, 5);
            producer->layouts[page] = layout;
        }
        for (uint32_t c = 0; c < pfl_page_layout_chunks(layout); c++) {
            if (producer->slots[page][c].state == GEN_FREE) {
                *ret_page = page;
                *ret_chunk = c;
                return &producer->slots[page][c];
            }
        }
    }
    return NULL;
}

static void free_slot(struct gen_producer *producer, uint32_t page, uint32_t chunk)
{
    producer->slots[page][chunk].state = GEN_FREE;
    for (uint32_t c = 0; c < GEN_CHUNKS; c++) {
        if (producer->slots[page][c].state != GEN_FREE)
            return;
    }
    producer->layouts[page] = 0;
}

static uint32_t fragment_length(struct gen *self, uint32_t left)
{
    uint32_t len;

    if (gen_chance(self, self->habits.large))
        len = gen_chance(self, 50) ? left : gen_below(self, left + 1);
    else
        len = gen_chance(self, 60) ? 2 + gen_below(self, 30) : 2 + gen_below(self, 400);
    return len < left ? len : left;
}

static void add_options(struct gen *self)
{
    static const char odd[] = "sLrdfb+";
    char option = odd[gen_below(self, sizeof(odd) - 1)];

    if (gen_chance(self, 20))
        diff_text_add(&self->line, "s");
    if (!gen_chance(self, self->habits.hostile))
        return;
    diff_text_add(&self->line, "%c", option);
    if (option == '+')
        diff_text_add(&self->line, "%u", 1 + gen_below(self, 5000));
}

/* Fragments into the line; how many. */
static uint32_t add_fragments(struct gen *self, struct gen_slot *slot, uint32_t count)
{
    uint32_t added = 0;

    while (added < count && slot->left >= 8) {
        uint32_t len;

        added++;
        if (gen_chance(self, 6)) {
            diff_text_add(&self->line, " 0");
            slot->left--;
            slot->used++;
            continue;
        }
        len = fragment_length(self, slot->left - 4);
        diff_text_add(&self->line, " %u/%u", self->next_id++, len);
        add_options(self);
        slot->left -= len + 4;
        slot->used += len + 4;
    }
    /* Not with the flags that speak of the last fragment: docs/compatibility.md, "Buffers". */
    if (slot->may_drop && gen_chance(self, 4) && slot->left >= 4) {
        diff_text_add(&self->line, " !");
        slot->is_dropped = true;
    }
    return added;
}

static uint32_t next_chunk_id(struct gen *self, struct gen_writer *writer)
{
    uint32_t id = writer->next_chunk_id;

    if (!gen_chance(self, self->habits.untidy)) {
        writer->next_chunk_id++;
    } else if (gen_chance(self, 50)) {
        id += 1 + gen_below(self, 2);
        writer->next_chunk_id = gen_chance(self, 50) ? id + 1 : writer->next_chunk_id;
    } else {
        id -= 1 + gen_below(self, 3);
    }
    return id;
}

static void owe_patch(struct gen *self, struct gen_producer *producer, const struct gen_slot *slot)
{
    for (uint32_t i = 0; i < GEN_PATCHES; i++) {
        if (!producer->patches[i].is_owed) {
            producer->patches[i] = (struct gen_patch){
                .is_owed = gen_chance(self, 90),
                .writer = slot->writer,
                .chunk_id = slot->chunk_id,
                .offset = slot->used >= 4 ? slot->used - 4 : 0,
            };
            return;
        }
    }
}

/* Flags of the next chunk of a writer, and whether it continues. */
static const char *chunk_flags(struct gen *self, struct gen_writer *writer, bool *ret_needs_patch)
{
    static const char *const names[] = {"-", "p", "n", "pn", "x", "px", "nx", "pnx"};
    uint32_t flags = writer->is_open ? 1 : 0;

    writer->is_open = gen_chance(self, self->habits.fragmented);
    flags |= writer->is_open ? 2u : 0u;
    *ret_needs_patch =
        gen_chance(self, writer->is_open ? self->habits.patched : self->habits.patched / 4);
    flags |= *ret_needs_patch ? 4u : 0u;
    if (gen_chance(self, self->habits.hostile))
        flags = gen_below(self, 8);
    return names[flags];
}

static void complete(struct gen *self, uint32_t p, uint32_t page, uint32_t chunk)
{
    struct gen_slot *slot = &self->producers[p].slots[page][chunk];

    diff_text_add(&self->line, "done %u %u.%u", p, page, chunk);
    gen_emit(self);
    slot->state = GEN_COMPLETE;
    slot->age = self->clock;
}

/* Mostly its own. */
static uint32_t writer_id(struct gen *self, const struct gen_writer *writer)
{
    static const uint32_t odd[] = {0, 32767, 32768, 65535};

    return gen_chance(self, self->habits.hostile / 4) ? odd[gen_below(self, 4)] : writer->id;
}

/* A page's header becomes anything; the model takes over what the states say. */
void gen_scribble(struct gen *self, uint32_t p)
{
    struct gen_producer *producer = &self->producers[p];
    uint32_t page = gen_below(self, producer->pages);
    uint32_t layout = gen_below(self, 8);
    uint32_t states = 0;

    for (uint32_t c = 0; c < GEN_CHUNKS; c++) {
        uint32_t state = gen_chance(self, 50) ? gen_below(self, 4) : 0;

        states |= state << (2 * c);
        producer->slots[page][c].state = state == 1   ? GEN_WRITING
                                         : state == 3 ? GEN_COMPLETE
                                                      : GEN_FREE;
    }
    producer->layouts[page] = layout;
    diff_text_add(&self->line, "page %u %u %x", p, page, layout << 28 | states);
    gen_emit(self);
}

void gen_chunk(struct gen *self, uint32_t p)
{
    struct gen_producer *producer = &self->producers[p];
    uint32_t page = 0, chunk = 0, added, count;
    struct gen_writer *writer;
    struct gen_slot *slot;
    const char *flags;

    if (producer->writers_len == 0)
        return;
    slot = find_slot(self, producer, &page, &chunk);
    if (slot == NULL) {
        gen_commit(self, p, false);
        return;
    }
    *slot = (struct gen_slot){.state = GEN_WRITING,
                              .writer = gen_below(self, producer->writers_len),
                              .left = payload_bytes(producer, producer->layouts[page])};
    writer = &producer->writers[slot->writer];
    slot->chunk_id = next_chunk_id(self, writer);
    flags = chunk_flags(self, writer, &slot->needs_patch);
    slot->may_drop = strpbrk(flags, "nx") == NULL;
    diff_text_add(&self->line, "fill %u %u.%u %u %u %u %s ", p, page, chunk,
                  producer->layouts[page], writer_id(self, writer), slot->chunk_id, flags);
    if (gen_chance(self, self->habits.hostile / 2))
        diff_text_add(&self->line, "%u", gen_below(self, 12));
    else
        diff_text_add(&self->line, "=");
    count = flags[0] == 'p' && flags[1] == 'n' && gen_chance(self, 80) ? 1 : gen_below(self, 7);
    added = add_fragments(self, slot, count);
    gen_emit(self);
    if (slot->needs_patch && added > 0)
        owe_patch(self, producer, slot);
    if (gen_chance(self, self->habits.scraped))
        return;
    complete(self, p, page, chunk);
    if (!gen_chance(self, self->habits.delayed))
        gen_commit(self, p, false);
}

void gen_more(struct gen *self, uint32_t p)
{
    struct gen_producer *producer = &self->producers[p];
    uint32_t start = gen_below(self, GEN_PAGES * GEN_CHUNKS);

    for (uint32_t i = 0; i < GEN_PAGES * GEN_CHUNKS; i++) {
        uint32_t at = (start + i) % (GEN_PAGES * GEN_CHUNKS);
        struct gen_slot *slot = &producer->slots[at / GEN_CHUNKS][at % GEN_CHUNKS];

        if (slot->state != GEN_WRITING)
            continue;
        if (gen_chance(self, 70)) {
            diff_text_add(&self->line, "more %u %u.%u %s", p, at / GEN_CHUNKS, at % GEN_CHUNKS,
                          !slot->is_dropped && gen_chance(self, self->habits.hostile) ? "n" : "-");
            slot->may_drop = false;
            (void)add_fragments(self, slot, 1 + gen_below(self, 3));
            gen_emit(self);
        }
        if (gen_chance(self, 50))
            complete(self, p, at / GEN_CHUNKS, at % GEN_CHUNKS);
        return;
    }
}

/* The complete chunk to commit next: mostly the oldest. */
static struct gen_slot *next_complete(struct gen *self, struct gen_producer *producer,
                                      uint32_t *ret_at)
{
    struct gen_slot *best = NULL;

    for (uint32_t at = 0; at < GEN_PAGES * GEN_CHUNKS; at++) {
        struct gen_slot *slot = &producer->slots[at / GEN_CHUNKS][at % GEN_CHUNKS];

        if (slot->state != GEN_COMPLETE || (best != NULL && slot->age > best->age))
            continue;
        if (best != NULL && gen_chance(self, self->habits.untidy))
            continue;
        best = slot;
        *ret_at = at;
    }
    return best;
}

static void add_move(struct gen *self, struct gen_producer *producer, const struct gen_slot *slot,
                     uint32_t at)
{
    const struct gen_writer *writer = &producer->writers[slot->writer];

    diff_text_add(&self->line, " m:%u.%u:", at / GEN_CHUNKS, at % GEN_CHUNKS);
    if (gen_chance(self, self->habits.hostile / 4))
        diff_text_add(&self->line, gen_chance(self, 50) ? "#0" : "#65000");
    else if (gen_chance(self, self->habits.hostile / 4))
        diff_text_add(&self->line, "%u.%u", gen_below(self, 2), gen_below(self, 3));
    else
        diff_text_add(&self->line, "%u.%u", writer->session, writer->buffer);
}

static void add_patch(struct gen *self, struct gen_producer *producer)
{
    struct gen_patch *patch = &producer->patches[gen_below(self, GEN_PATCHES)];
    const struct gen_writer *writer = &producer->writers[patch->writer];
    bool is_last = gen_chance(self, 80);

    for (uint32_t i = 0; i < GEN_PATCHES && !patch->is_owed; i++) {
        patch = &producer->patches[i];
        writer = &producer->writers[patch->writer];
    }
    if (!patch->is_owed)
        return;
    diff_text_add(&self->line, " p:%u.%u:%u:%u:%c", writer->session, writer->buffer,
                  writer_id(self, writer), patch->chunk_id, is_last ? 'l' : 'm');
    for (uint32_t i = gen_below(self, 3) + (gen_chance(self, 90) ? 1 : 0); i > 0; i--) {
        uint32_t offset = patch->offset;

        if (gen_chance(self, self->habits.hostile))
            offset = gen_below(self, offset + 64);
        diff_text_add(&self->line, ":%u=%08x", offset, gen_below(self, UINT32_MAX));
        if (gen_chance(self, self->habits.hostile / 3))
            diff_text_add(&self->line, gen_chance(self, 50) ? "00" : ":9");
    }
    patch->is_owed = !is_last;
}

void gen_commit(struct gen *self, uint32_t p, bool all)
{
    struct gen_producer *producer = &self->producers[p];
    uint32_t left = all ? GEN_PAGES * GEN_CHUNKS : 1 + gen_below(self, 4);
    struct gen_slot *slot;
    uint32_t at = 0;

    diff_text_add(&self->line, "commit %u", p);
    while (left-- > 0 && (slot = next_complete(self, producer, &at)) != NULL) {
        add_move(self, producer, slot, at);
        free_slot(producer, at / GEN_CHUNKS, at % GEN_CHUNKS);
    }
    if (gen_chance(self, 20))
        add_patch(self, producer);
    if (gen_chance(self, self->habits.hostile / 2))
        diff_text_add(&self->line, " m:%u.%u:0.0", gen_below(self, 40), gen_below(self, 16));
    if (all)
        diff_text_add(&self->line, " f");
    gen_emit(self);
}

void gen_patch(struct gen *self, uint32_t p)
{
    diff_text_add(&self->line, "commit %u", p);
    add_patch(self, &self->producers[p]);
    gen_emit(self);
}
