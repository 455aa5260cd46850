/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytecode -> table.
 *
 * Both inputs are varints; the last one is the checksum of the others. The bytecode is read once,
 * message by message. The overlay, sorted by message and field, is merged: an entry before the next
 * field of the bytecode is added, one for the same field replaces it, and the rest of a message is
 * added at its end. Fields below 128 become a directly indexed row, others ranges.
 *
 * Failures name the input, the word and the reason. The table is the caller's. Limits: words of the
 * table, PFL_FILTER_MAX_WORDS; of the inputs, their bytes.
 */
#include "service/output/filter_bytecode.h"

#include <stdarg.h>
#include <stdio.h>

enum {
    OP_END = 0,
    OP_FIELD = 1,
    OP_RANGE = 2,
    OP_NESTED = 3,
    OP_STRING = 4,
    OP_TYPED_STRING = 5,
};

#define OVERLAY_WORDS 3u

struct words {
    struct pfl_buf buf; /* u32 each */
    const char *name;   /* the config's field */
    size_t len;
};

struct builder {
    struct pfl_filter_bytecode *out;
    struct words base;
    struct words overlay;
    size_t overlay_at; /* word */
    uint32_t message;
    uint32_t nested_max;
    uint32_t direct[PFL_FILTER_DIRECT];
    uint32_t direct_len;
    struct pfl_buf ranges; /* u32: first, end, action */
    char *why;
};

static int refuse(char *why, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static int refuse(char *why, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(why, PFL_FILTER_WHY_BYTES, fmt, args);
    va_end(args);
    return PFL_EPARSE;
}

static pfl_filter_action action_of(enum pfl_filter_kind kind, uint32_t argument)
{
    return (uint32_t)kind << 24 | argument;
}

static uint32_t get_word(const struct pfl_buf *buf, size_t at)
{
    uint32_t word;

    memcpy(&word, buf->data + buf->start + at * sizeof(word), sizeof(word));
    return word;
}

static size_t count_words(const struct pfl_buf *buf)
{
    return buf->len / sizeof(uint32_t);
}

static int put_word(struct pfl_buf *buf, uint32_t word)
{
    return pfl_buf_append(buf, &word, sizeof(word));
}

/* FNV-1a over the four bytes of a word, little-endian. */
static uint64_t hash_word(uint64_t hash, uint32_t word)
{
    for (unsigned shift = 0; shift < 32; shift += 8)
        hash = (hash ^ ((word >> shift) & 0xffu)) * 0x100000001b3ull;
    return hash;
}

/* Unpacks the varints and takes the checksum off. */
static int unpack(struct words *self, struct pfl_span bytes, char *why)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    uint64_t hash = 0xcbf29ce484222325ull;
    uint32_t word = 0;
    int rc = 0;

    if (bytes.len == 0)
        return refuse(why, "%s: empty; it needs at least one message and a checksum", self->name);
    pfl_buf_init(&self->buf, bytes.len * sizeof(uint32_t));
    while (rc == 0) {
        word = (uint32_t)pfl_reader_varint(&r);
        if (r.failed)
            return refuse(why, "%s: word %zu is no varint", self->name, count_words(&self->buf));
        if (r.left == 0)
            break;
        hash = hash_word(hash, word);
        rc = put_word(&self->buf, word);
    }
    if (rc != 0)
        return rc;
    self->len = count_words(&self->buf);
    if (word != (uint32_t)hash)
        return refuse(why, "%s: checksum is %#x, should be %#x", self->name, word, (uint32_t)hash);
    return 0;
}

/* ---- the overlay ---- */

static int read_overlay(const struct builder *b, size_t at, pfl_filter_action *ret_action)
{
    uint32_t word = get_word(&b->overlay.buf, at + 1);
    uint32_t argument = get_word(&b->overlay.buf, at + 2);

    switch (word & 7u) {
    case OP_FIELD:
        *ret_action = action_of(PFL_FILTER_PASS, 0);
        return 0;
    case OP_STRING:
        *ret_action = action_of(PFL_FILTER_STRING, 0);
        return 0;
    case OP_TYPED_STRING:
        if (argument > PFL_FILTER_MAX_TYPE)
            return refuse(b->why, "%s: word %zu: no semantic type %u", b->overlay.name, at + 2,
                          argument);
        *ret_action = action_of(PFL_FILTER_STRING, argument);
        return 0;
    default:
        return refuse(b->why, "%s: word %zu has opcode %u; 1, 4 and 5 are possible",
                      b->overlay.name, at + 1, word & 7u);
    }
}

static int check_overlay(const struct builder *b)
{
    const struct pfl_buf *words = &b->overlay.buf;
    int rc = 0;

    if (b->overlay.len % OVERLAY_WORDS != 0)
        return refuse(b->why, "%s: %zu words; it needs three for each field", b->overlay.name,
                      b->overlay.len);
    for (size_t at = 0; rc == 0 && at < b->overlay.len; at += OVERLAY_WORDS) {
        pfl_filter_action action;
        uint32_t message = get_word(words, at);
        uint32_t id = get_word(words, at + 1) >> 3;

        rc = read_overlay(b, at, &action);
        if (rc != 0 || at == 0)
            continue;
        if (message < get_word(words, at - 3) ||
            (message == get_word(words, at - 3) && id <= get_word(words, at - 2) >> 3))
            rc = refuse(b->why, "%s: word %zu: message %u, field %u is not in ascending order",
                        b->overlay.name, at, message, id);
    }
    return rc;
}

/* ---- a message ---- */

static int add_range(struct builder *b, uint32_t first, uint32_t end, pfl_filter_action action)
{
    size_t len = count_words(&b->ranges);
    int rc;

    if (len != 0 && first < get_word(&b->ranges, len - 2))
        return refuse(b->why, "%s: message %u: field %u comes behind or inside a later range",
                      b->base.name, b->message, first);
    rc = put_word(&b->ranges, first);
    if (rc == 0)
        rc = put_word(&b->ranges, end);
    return rc != 0 ? rc : put_word(&b->ranges, action);
}

static int add_fields(struct builder *b, uint32_t first, uint32_t end, pfl_filter_action action)
{
    for (; first < end && first < PFL_FILTER_DIRECT; first++) {
        b->direct[first] = action;
        if (b->direct_len <= first)
            b->direct_len = first + 1;
    }
    return first < end ? add_range(b, first, end, action) : 0;
}

/* Adds the overlay's fields of this message before `field_id`; its own action, if there is one,
 * replaces `action`. */
static int merge_overlay(struct builder *b, uint32_t field_id, pfl_filter_action *action)
{
    int rc = 0;

    while (rc == 0 && b->overlay_at < b->overlay.len) {
        uint32_t id = get_word(&b->overlay.buf, b->overlay_at + 1) >> 3;
        pfl_filter_action over = 0;

        if (get_word(&b->overlay.buf, b->overlay_at) != b->message || id > field_id)
            return 0;
        rc = read_overlay(b, b->overlay_at, &over);
        b->overlay_at += OVERLAY_WORDS;
        if (rc == 0 && id == field_id) {
            *action = over;
            return 0;
        }
        if (rc == 0)
            rc = add_fields(b, id, id + 1, over);
    }
    return rc;
}

static int end_message(struct builder *b)
{
    struct pfl_buf *table = &b->out->table;
    pfl_filter_action unused = 0;
    int rc = merge_overlay(b, UINT32_MAX, &unused);

    if (rc == 0)
        rc = put_word(&b->out->messages, (uint32_t)count_words(table));
    if (rc == 0)
        rc = put_word(table, b->direct_len);
    if (rc == 0)
        rc = pfl_buf_append(table, b->direct, b->direct_len * sizeof(uint32_t));
    if (rc == 0 && b->ranges.len != 0)
        rc = pfl_buf_append(table, pfl_buf_get(&b->ranges).data, b->ranges.len);
    if (rc == PFL_ELIMIT)
        rc = refuse(b->why, "%s: more than %u words when unpacked", b->base.name,
                    PFL_FILTER_MAX_WORDS);
    memset(b->direct, 0, sizeof(b->direct));
    b->direct_len = 0;
    pfl_buf_clear(&b->ranges);
    b->message++;
    return rc;
}

static int read_argument(const struct builder *b, size_t at, uint32_t *ret_argument)
{
    if (at + 1 >= b->base.len)
        return refuse(b->why, "%s: ends inside the field at word %zu", b->base.name, at);
    *ret_argument = get_word(&b->base.buf, at + 1);
    return 0;
}

static int add_one(struct builder *b, uint32_t id, pfl_filter_action action)
{
    int rc = merge_overlay(b, id, &action);

    return rc != 0 ? rc : add_fields(b, id, id + 1, action);
}

static int add_nested(struct builder *b, size_t at, uint32_t id, uint32_t message)
{
    if (message > PFL_FILTER_MAX_MESSAGE)
        return refuse(b->why, "%s: word %zu: there is no message %u", b->base.name, at + 1,
                      message);
    if (message > b->nested_max)
        b->nested_max = message;
    return add_one(b, id, action_of(PFL_FILTER_NESTED, message));
}

static int add_typed(struct builder *b, size_t at, uint32_t id, uint32_t type)
{
    if (type > PFL_FILTER_MAX_TYPE)
        return refuse(b->why, "%s: word %zu: no semantic type %u", b->base.name, at + 1, type);
    return add_one(b, id, action_of(PFL_FILTER_STRING, type));
}

/* One field, or the end of a message; moves `at` behind it. */
static int read_op(struct builder *b, size_t *at)
{
    uint32_t word = get_word(&b->base.buf, *at);
    uint32_t op = word & 7u;
    uint32_t id = word >> 3;
    uint32_t argument = 0;
    size_t here = *at;
    int rc = 0;

    if (op > OP_TYPED_STRING)
        return refuse(b->why, "%s: word %zu has the unknown opcode %u", b->base.name, here, op);
    if (op != OP_END && id == 0)
        return refuse(b->why, "%s: word %zu: 0 is no field id", b->base.name, here);
    if (op == OP_RANGE || op == OP_NESTED || op == OP_TYPED_STRING) {
        rc = read_argument(b, here, &argument);
        *at += 1;
    }
    *at += 1;
    if (rc != 0)
        return rc;
    switch (op) {
    case OP_END:
        return end_message(b);
    case OP_RANGE:
        return add_fields(b, id, id + argument, action_of(PFL_FILTER_PASS, 0));
    case OP_NESTED:
        return add_nested(b, here, id, argument);
    case OP_TYPED_STRING:
        return add_typed(b, here, id, argument);
    default:
        return add_one(b, id, action_of(op == OP_FIELD ? PFL_FILTER_PASS : PFL_FILTER_STRING, 0));
    }
}

static int build(struct builder *b)
{
    uint32_t last_op = OP_END;
    size_t at = 0;
    int rc = 0;

    while (rc == 0 && at < b->base.len) {
        last_op = get_word(&b->base.buf, at) & 7u;
        rc = read_op(b, &at);
    }
    if (rc != 0)
        return rc;
    if (last_op != OP_END || b->message == 0)
        return refuse(b->why, "%s: does not end with the end of a message", b->base.name);
    if (b->nested_max >= b->message)
        return refuse(b->why, "%s: a field leads to message %u, but there are %u", b->base.name,
                      b->nested_max, b->message);
    if (b->overlay_at != b->overlay.len)
        return refuse(b->why, "%s: it has fields of message %u, but there are %u", b->overlay.name,
                      get_word(&b->overlay.buf, b->overlay_at), b->message);
    b->out->messages_len = b->message;
    return put_word(&b->out->messages, (uint32_t)count_words(&b->out->table));
}

int pfl_filter_bytecode_parse(struct pfl_span bytecode, struct pfl_span overlay,
                              struct pfl_filter_bytecode *ret, char ret_why[PFL_FILTER_WHY_BYTES])
{
    struct pfl_filter_bytecode out = {0};
    struct builder b = {.out = &out,
                        .base = {.name = "bytecode"},
                        .overlay = {.name = "bytecode_overlay_v54"},
                        .why = ret_why};
    int rc;

    pfl_buf_init(&out.table, PFL_FILTER_MAX_WORDS * sizeof(uint32_t));
    pfl_buf_init(&out.messages, PFL_FILTER_MAX_WORDS * sizeof(uint32_t));
    pfl_buf_init(&b.ranges, PFL_FILTER_MAX_WORDS * sizeof(uint32_t));
    rc = unpack(&b.base, bytecode, ret_why);
    if (rc == 0 && overlay.len != 0)
        rc = unpack(&b.overlay, overlay, ret_why);
    if (rc == 0)
        rc = check_overlay(&b);
    if (rc == 0)
        rc = build(&b);
    pfl_buf_fini(&b.base.buf);
    pfl_buf_fini(&b.overlay.buf);
    pfl_buf_fini(&b.ranges);
    if (rc != 0) {
        pfl_filter_bytecode_fini(&out);
        return rc;
    }
    *ret = out;
    return 0;
}

void pfl_filter_bytecode_fini(struct pfl_filter_bytecode *self)
{
    pfl_buf_fini(&self->table);
    pfl_buf_fini(&self->messages);
    self->messages_len = 0;
}

pfl_filter_action pfl_filter_bytecode_find(const struct pfl_filter_bytecode *self, uint32_t message,
                                           uint32_t field_id)
{
    const uint32_t *table = (const uint32_t *)(const void *)self->table.data;
    const uint32_t *messages = (const uint32_t *)(const void *)self->messages.data;
    const uint32_t *row;
    const uint32_t *end;

    if (message >= self->messages_len)
        return PFL_FILTER_DROP;
    row = table + messages[message];
    end = table + messages[message + 1];
    if (field_id < row[0])
        return row[1 + field_id];
    for (row += 1 + row[0]; row < end; row += 3) {
        if (field_id >= row[0] && field_id < row[1])
            return row[2];
    }
    return PFL_FILTER_DROP;
}
