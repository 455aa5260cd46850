/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fragments as words and bytes (see payload.h).
 *
 *   LEN >= 12:  timestamp (8) with ID in five bytes | for_testing (900), size in four, filler of ID
 *   2 .. 11:    timestamp with ID in LEN - 1 bytes, cut to what they hold
 *   1:          a tag without its value, which no packet may end with
 */
#include "tests/differential/payload.h"

#include <stdlib.h>

#include "abi/fragment.h"

#define CONTENT_MAX 65536u

struct form {
    uint32_t id;
    uint32_t len;
    uint32_t claim;
    bool is_short, is_long, has_reserved, has_loss, has_first, is_broken;
};

uint32_t diff_hash(uint32_t hash, struct pfl_span bytes)
{
    for (size_t i = 0; i < bytes.len; i++)
        hash = (hash ^ bytes.data[i]) * 16777619u;
    return hash;
}

static bool parse_form(const char *word, struct form *ret_form)
{
    struct form form = {0};
    char *end;

    form.id = (uint32_t)strtoul(word, &end, 10);
    if (*end != '/')
        return false;
    form.len = (uint32_t)strtoul(end + 1, &end, 10);
    for (end++; end[-1] != 0;) {
        char c = end[-1];

        form.is_short |= c == 's';
        form.is_long |= c == 'L';
        form.has_reserved |= c == 'r';
        form.has_loss |= c == 'd';
        form.has_first |= c == 'f';
        form.is_broken |= c == 'b';
        if (c == '+')
            form.claim = (uint32_t)strtoul(end, &end, 10);
        end++;
    }
    *ret_form = form;
    return form.len <= CONTENT_MAX;
}

/* `bytes` of a varint, longer than it must be. */
static void put_redundant(struct pfl_writer *w, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        pfl_writer_u8(w, (uint8_t)(((value >> (7 * i)) & 0x7fu) | (i + 1 < bytes ? 0x80u : 0)));
}

static void put_filler(struct pfl_writer *w, uint32_t id, size_t bytes)
{
    uint32_t x = id * 2654435761u | 1u;

    for (size_t i = 0; i < bytes; i++) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        pfl_writer_u8(w, (uint8_t)x);
    }
}

static void put_special(struct pfl_writer *w, const struct form *form)
{
    static const uint8_t reserved[] = {0x18, 0x07};
    static const uint8_t loss[] = {0xd0, 0x02, 0x81, 0x02};
    static const uint8_t first[] = {0xb8, 0x05, 0x01};

    if (form->has_reserved && w->left >= sizeof(reserved))
        pfl_writer_bytes(w, reserved, sizeof(reserved));
    if (form->has_loss && w->left >= sizeof(loss))
        pfl_writer_bytes(w, loss, sizeof(loss));
    if (form->has_first && w->left >= sizeof(first))
        pfl_writer_bytes(w, first, sizeof(first));
}

static void put_content(struct pfl_writer *w, const struct form *form)
{
    size_t left;

    put_special(w, form);
    left = w->left;
    if (left > 0)
        pfl_writer_u8(w, form->is_broken ? 0x43 : 0x40);
    if (left < 12) {
        put_redundant(w, form->id, w->left);
        return;
    }
    put_redundant(w, form->id, 5);
    pfl_writer_u8(w, 0xa2);
    pfl_writer_u8(w, 0x38);
    put_redundant(w, left - 12, 4);
    put_filler(w, form->id, left - 12);
}

bool diff_payload_put(struct pfl_writer *w, const char *word)
{
    static uint8_t content[CONTENT_MAX];
    struct pfl_writer c;
    struct form form;
    size_t size_bytes = PFL_FRAGMENT_SIZE_BYTES;

    if (strcmp(word, "0") == 0 || strcmp(word, "!") == 0) {
        bool is_empty = *word == '0';

        if (w->left < (is_empty ? 1u : PFL_FRAGMENT_SIZE_BYTES))
            return false;
        put_redundant(w, is_empty ? 0 : PFL_FRAGMENT_DROP, is_empty ? 1 : PFL_FRAGMENT_SIZE_BYTES);
        return true;
    }
    if (!parse_form(word, &form))
        return false;
    if (form.is_short)
        size_bytes = pfl_varint_size(form.len + form.claim);
    else if (form.is_long)
        size_bytes = 6;
    if (w->left < size_bytes + form.len)
        return false;
    c = pfl_writer_of(content, form.len);
    put_content(&c, &form);
    put_redundant(w, form.len + form.claim, size_bytes);
    pfl_writer_bytes(w, content, form.len);
    return true;
}
