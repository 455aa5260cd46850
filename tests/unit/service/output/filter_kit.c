/* SPDX-License-Identifier: Apache-2.0 */
/* Writes what Perfetto's proto_filter would: see filter_kit.h. Asserts that it fits. */
#include "tests/unit/service/output/filter_kit.h"

#include <assert.h>

static struct pfl_writer open_writer(struct kit_bytes *b)
{
    return pfl_writer_of(b->data + b->len, sizeof(b->data) - b->len);
}

static void close_writer(struct kit_bytes *b, const struct pfl_writer *w)
{
    assert(!w->failed);
    b->len = sizeof(b->data) - w->left;
}

struct kit_bytes kit_bytecode_of(const uint32_t *words, size_t len)
{
    struct kit_bytes b = {.len = 0};
    struct pfl_writer w = open_writer(&b);
    uint64_t hash = 14695981039346656037ull;

    for (size_t i = 0; i < len; i++) {
        for (unsigned byte = 0; byte < 4; byte++) {
            hash ^= words[i] >> (8 * byte) & 0xff;
            hash *= 1099511628211ull;
        }
        pfl_writer_varint(&w, words[i]);
    }
    pfl_writer_varint(&w, (uint32_t)hash);
    close_writer(&b, &w);
    return b;
}

void kit_put(struct kit_bytes *message, uint32_t id, const void *data, size_t len)
{
    struct pfl_writer w = open_writer(message);

    pfl_writer_field_bytes(&w, id, data, len);
    close_writer(message, &w);
}

void kit_put_varint(struct kit_bytes *message, uint32_t id, uint64_t value)
{
    struct pfl_writer w = open_writer(message);

    pfl_writer_field_varint(&w, id, value);
    close_writer(message, &w);
}

static void put_str(struct kit_bytes *message, uint32_t id, const char *s)
{
    if (s != NULL)
        kit_put(message, id, s, strlen(s));
}

struct kit_bytes kit_chain(const struct kit_rule *rules, size_t len)
{
    struct kit_bytes chain = {.len = 0};

    for (size_t i = 0; i < len; i++) {
        struct kit_bytes rule = {.len = 0};

        kit_put_varint(&rule, 1, rules[i].policy);
        put_str(&rule, 2, rules[i].pattern);
        put_str(&rule, 3, rules[i].payload_start);
        put_str(&rule, 4, rules[i].name);
        if (rules[i].type >= 0)
            kit_put_varint(&rule, 5, (uint64_t)rules[i].type);
        kit_put(&chain, 1, rule.data, rule.len);
    }
    return chain;
}
