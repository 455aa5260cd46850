/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's functions.
 *
 *     ffffffff81000000 T _stext
 *     ffffffffc0201000 t nf_hook  [nf_tables]
 *
 * Happy path: feed takes /proc/kallsyms in pieces and keeps functions (t, T), seal sorts them,
 * find searches by halves for the one at or before an address.
 * Failure: lines of another form are skipped; with hidden addresses (zeros) nothing is kept.
 * Ownership: two blocks that grow: symbols, names.
 * Limits: PFL_KSYMS_MAX symbols, PFL_KSYMS_NAMES_MAX bytes of names.
 */
#include "agent/probes/kernel_events/ksyms.h"

#include <stdlib.h>

#include "base/mem.h"

#define FIRST_SYMBOLS 65536u
#define FIRST_NAMES   (2u * 1024u * 1024u)

static int make_room(struct pfl_ksyms *self, size_t name_len)
{
    if (self->count == self->room) {
        size_t room = self->room != 0 ? self->room * 2 : FIRST_SYMBOLS;
        struct pfl_ksym *symbols;

        if (room > PFL_KSYMS_MAX)
            return PFL_ELIMIT;
        symbols = pfl_mem_realloc(self->symbols, room * sizeof(*symbols));
        if (symbols == NULL)
            return PFL_ENOMEM;
        self->symbols = symbols;
        self->room = room;
    }
    if (name_len > self->names_room - self->names_len) {
        size_t room = self->names_room != 0 ? self->names_room * 2 : FIRST_NAMES;
        char *names;

        if (room > PFL_KSYMS_NAMES_MAX)
            return PFL_ELIMIT;
        names = pfl_mem_realloc(self->names, room);
        if (names == NULL)
            return PFL_ENOMEM;
        self->names = names;
        self->names_room = room;
    }
    return 0;
}

static bool read_hex(struct pfl_reader *r, uint64_t *ret_value)
{
    uint64_t value = 0;
    size_t digits = 0;

    for (; r->left != 0 && digits < 16; digits++) {
        uint8_t c = *r->pos;
        uint64_t digit;

        if (c >= '0' && c <= '9')
            digit = c - (uint64_t)'0';
        else if (c >= 'a' && c <= 'f')
            digit = c - (uint64_t)'a' + 10;
        else
            break;
        value = value << 4 | digit;
        (void)pfl_reader_u8(r);
    }
    *ret_value = value;
    return digits != 0 && value != 0;
}

static int take_line(struct pfl_ksyms *self, struct pfl_span line)
{
    struct pfl_reader r = pfl_reader_of(line);
    uint64_t address;
    uint8_t kind;
    size_t len = 0;
    int rc;

    if (!read_hex(&r, &address) || pfl_reader_u8(&r) != ' ')
        return 0;
    kind = pfl_reader_u8(&r);
    if ((kind != 't' && kind != 'T') || pfl_reader_u8(&r) != ' ' || r.failed)
        return 0;
    while (len < r.left && r.pos[len] != '\t' && r.pos[len] != ' ')
        len++;
    if (len == 0 || r.pos[0] == '$') /* marks of some architectures, no functions */
        return 0;
    rc = make_room(self, len);
    if (rc != 0)
        return rc;
    memcpy(self->names + self->names_len, r.pos, len);
    self->symbols[self->count++] =
        (struct pfl_ksym){address, (uint32_t)self->names_len, (uint32_t)len};
    self->names_len += len;
    return 0;
}

/* The part of a line that one piece ended with is kept for the next. */
static int take_cut_line(struct pfl_ksyms *self, struct pfl_span part, bool is_whole)
{
    size_t room = sizeof(self->line) - self->line_len;
    size_t len = part.len < room ? part.len : room;
    int rc = 0;

    if (len != 0)
        memcpy(self->line + self->line_len, part.data, len);
    self->line_len += len;
    if (is_whole) {
        rc = take_line(self, pfl_span_of(self->line, self->line_len));
        self->line_len = 0;
    }
    return rc;
}

int pfl_ksyms_feed(struct pfl_ksyms *self, struct pfl_span text)
{
    struct pfl_reader r = pfl_reader_of(text);
    int rc = 0;

    while (rc == 0 && r.left != 0) {
        const uint8_t *end = memchr(r.pos, '\n', r.left);
        struct pfl_span line = pfl_span_of(r.pos, end != NULL ? (size_t)(end - r.pos) : r.left);

        if (self->line_len != 0 || end == NULL)
            rc = take_cut_line(self, line, end != NULL);
        else
            rc = take_line(self, line);
        (void)pfl_reader_bytes(&r, end != NULL ? line.len + 1 : line.len);
    }
    return rc;
}

static int compare_symbols(const void *a, const void *b)
{
    const struct pfl_ksym *x = a;
    const struct pfl_ksym *y = b;

    if (x->address != y->address)
        return x->address < y->address ? -1 : 1;
    return x->name < y->name ? -1 : 1; /* the file's order */
}

void pfl_ksyms_seal(struct pfl_ksyms *self)
{
    if (self->line_len != 0 && take_line(self, pfl_span_of(self->line, self->line_len)) != 0)
        self->line_len = 0; /* one symbol less */
    self->line_len = 0;
    if (self->count != 0)
        qsort(self->symbols, self->count, sizeof(*self->symbols), compare_symbols);
}

void pfl_ksyms_fini(struct pfl_ksyms *self)
{
    pfl_mem_free(self->symbols);
    pfl_mem_free(self->names);
    memset(self, 0, sizeof(*self));
}

struct pfl_span pfl_ksyms_find(const struct pfl_ksyms *self, uint64_t address)
{
    size_t low = 0;
    size_t high = self->count;

    /* The first symbol behind the address. */
    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (self->symbols[mid].address <= address)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == 0 || address - self->symbols[low - 1].address > PFL_KSYMS_REACH)
        return pfl_span_of(NULL, 0);
    return pfl_span_of(self->names + self->symbols[low - 1].name, self->symbols[low - 1].len);
}

int pfl_ksym_set_init(struct pfl_ksym_set *self)
{
    memset(self, 0, sizeof(*self));
    self->slots = pfl_mem_calloc(PFL_KSYM_SLOTS, sizeof(*self->slots));
    self->fresh = pfl_mem_calloc(PFL_KSYM_SLOTS, sizeof(*self->fresh));
    if (self->slots != NULL && self->fresh != NULL)
        return 0;
    pfl_ksym_set_fini(self);
    return PFL_ENOMEM;
}

void pfl_ksym_set_fini(struct pfl_ksym_set *self)
{
    pfl_mem_free(self->slots);
    pfl_mem_free(self->fresh);
    memset(self, 0, sizeof(*self));
}

void pfl_ksym_set_add(struct pfl_ksym_set *self, uint64_t address)
{
    size_t slot = (address * UINT64_C(0x9e3779b97f4a7c15)) >> 40 & (PFL_KSYM_SLOTS - 1);

    if (address == 0 || self->count >= PFL_KSYM_SLOTS / 4 * 3)
        return;
    while (self->slots[slot] != 0) {
        if (self->slots[slot] == address)
            return;
        slot = (slot + 1) & (PFL_KSYM_SLOTS - 1);
    }
    self->slots[slot] = address;
    self->fresh[self->fresh_count++] = address;
    self->count++;
}

void pfl_ksym_set_clear(struct pfl_ksym_set *self)
{
    if (self->count != 0)
        memset(self->slots, 0, PFL_KSYM_SLOTS * sizeof(*self->slots));
    self->count = 0;
    self->fresh_count = 0;
}
