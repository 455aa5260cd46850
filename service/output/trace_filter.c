/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filtering of packets.
 *
 * Happy path: field by field, with a stack of the open messages. A field that may pass is encoded
 * in its shortest form. The rules are applied to strings in the output. A message that may pass is
 * entered: its header is written with its old length, and corrected at its end in the same number
 * of bytes. So the output never overtakes the input, and both may be the same memory. Failures: a
 * filter that is cancelled stops before the next field or rule, with PFL_EAGAIN. A packet that is
 * malformed where the filter reads it yields PFL_EPARSE; it does not look into dropped or passed
 * strings. A field of id 0 is skipped and its payload read as fields, as upstream does. Owned:
 * table, rules. Limits: depth; the rest is bounded by the packet.
 */
#include "service/output/trace_filter.h"

#include <stdio.h>

#include "base/mem.h"
#include "perfetto/trace_packet.fields.h"

#define LEN_MAX      ((1ull << 28) - 1)
#define FIELD_ID_MAX ((1u << 29) - 1)

/* Immutable; shared by a filter and its copies. */
struct shared_table {
    size_t users;
    struct pfl_filter_bytecode bytecode;
    uint32_t root;              /* message index of TracePacket */
    struct pfl_shares *charged; /* borrowed; NULL: nobody is charged */
    uint64_t who;               /* whose share it uses */
    uint64_t held_bytes;        /* counted there: the table, and the compiled rules */
};

struct pfl_trace_filter {
    struct shared_table *table;
    struct pfl_filter_strings strings;
};

struct level {
    size_t end;      /* of the message in the input */
    uint8_t *size;   /* its length in the output; NULL: the packet itself */
    size_t size_len; /* bytes of that varint */
    uint32_t message;
};

struct walk {
    struct pfl_trace_filter *filter;
    const uint8_t *in;
    size_t at;
    uint8_t *out;
    uint32_t depth;
    struct level levels[PFL_TRACE_FILTER_MAX_DEPTH];
};

static int read_config(struct pfl_trace_filter *f, struct pfl_span config, char *why)
{
    struct pfl_reader r = pfl_reader_of(config);
    struct pfl_span by_id[6] = {{0}};
    bool has_v2;
    struct pfl_field field;
    int rc;

    while (pfl_reader_field(&r, &field)) {
        if (field.id < 6 && field.type == PFL_WIRE_BYTES)
            by_id[field.id] = field.bytes;
    }
    if (r.failed) {
        (void)snprintf(why, PFL_FILTER_WHY_BYTES, "it is no valid message");
        return PFL_EPARSE;
    }
    has_v2 = by_id[2].len != 0;
    rc = pfl_filter_strings_add(&f->strings, by_id[3], "string_filter_chain", why);
    if (rc == 0)
        rc = pfl_filter_strings_add(&f->strings, by_id[5], "string_filter_chain_v54", why);
    if (rc == 0)
        rc = pfl_filter_bytecode_parse(by_id[has_v2 ? 2 : 1], by_id[4], &f->table->bytecode, why);
    return rc;
}

static int find_root(struct pfl_trace_filter *f, char *why)
{
    pfl_filter_action action = pfl_filter_bytecode_find(&f->table->bytecode, 0, TRACE__PACKET);

    if (pfl_filter_kind_of(action) != PFL_FILTER_NESTED) {
        (void)snprintf(why, PFL_FILTER_WHY_BYTES,
                       "bytecode: field 1 of the root message (Trace.packet) must be a nested one");
        return PFL_EPARSE;
    }
    f->table->root = pfl_filter_argument_of(action);
    return 0;
}

int pfl_trace_filter_new(struct pfl_span config, struct pfl_trace_filter **ret_filter,
                         char ret_why[PFL_FILTER_WHY_BYTES])
{
    struct pfl_trace_filter *f = pfl_mem_zalloc(sizeof(*f));
    int rc;

    ret_why[0] = '\0';
    if (f == NULL)
        return PFL_ENOMEM;
    f->table = pfl_mem_zalloc(sizeof(*f->table));
    if (f->table == NULL) {
        pfl_trace_filter_free(f);
        return PFL_ENOMEM;
    }
    f->table->users = 1;
    rc = read_config(f, config, ret_why);
    if (rc == 0)
        rc = find_root(f, ret_why);
    if (rc != 0) {
        pfl_trace_filter_free(f);
        return rc;
    }
    *ret_filter = f;
    return 0;
}

int pfl_trace_filter_copy(const struct pfl_trace_filter *from, struct pfl_trace_filter **ret_filter)
{
    struct pfl_trace_filter *f = pfl_mem_zalloc(sizeof(*f));

    if (f == NULL)
        return PFL_ENOMEM;
    f->table = from->table;
    f->table->users++;
    if (pfl_filter_strings_copy(&f->strings, &from->strings) != 0) {
        pfl_trace_filter_free(f);
        return PFL_ENOMEM;
    }
    *ret_filter = f;
    return 0;
}

static void leave(struct shared_table *table)
{
    if (table == NULL || --table->users != 0)
        return;
    if (table->charged != NULL)
        pfl_shares_give(table->charged, table->who, table->held_bytes);
    pfl_filter_bytecode_fini(&table->bytecode);
    pfl_mem_free(table);
}

void pfl_trace_filter_free(struct pfl_trace_filter *self)
{
    if (self == NULL)
        return;
    leave(self->table);
    pfl_filter_strings_fini(&self->strings);
    pfl_mem_free(self);
}

bool pfl_trace_filter_charge(struct pfl_trace_filter *self, struct pfl_shares *charged,
                             uint64_t who)
{
    struct shared_table *table = self->table;
    uint64_t bytes = sizeof(*table) + table->bytecode.table.capacity +
                     table->bytecode.messages.capacity +
                     pfl_filter_strings_get_shared_bytes(&self->strings);

    if (table->charged != NULL)
        return true;
    if (!pfl_shares_set(charged, who, &table->held_bytes, bytes))
        return false;
    table->charged = charged;
    table->who = who;
    return true;
}

size_t pfl_trace_filter_get_own_bytes(const struct pfl_trace_filter *self)
{
    return sizeof(*self) + pfl_filter_strings_get_own_bytes(&self->strings);
}

void pfl_trace_filter_set_cancel(struct pfl_trace_filter *self, const atomic_bool *is_cancelled)
{
    pfl_filter_strings_set_cancel(&self->strings, is_cancelled);
}

/* ---- one packet ---- */

static bool read_varint(struct walk *w, size_t end, uint64_t *ret_value)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 70 && w->at < end; shift += 7) {
        uint8_t byte = w->in[w->at++];

        value |= (uint64_t)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0) {
            *ret_value = value;
            return true;
        }
    }
    return false;
}

static void put_tag(struct walk *w, uint32_t id, enum pfl_wire_type type)
{
    w->out += pfl_varint_put(w->out, (uint64_t)id << 3 | (uint64_t)type);
}

/* Closes the messages that end here; their lengths keep the bytes they were given. */
static void close_levels(struct walk *w)
{
    while (w->depth != 0 && w->at == w->levels[w->depth - 1].end) {
        const struct level *l = &w->levels[--w->depth];
        size_t len;

        if (l->size == NULL)
            continue;
        len = (size_t)(w->out - l->size) - l->size_len;
        for (size_t i = 0; i < l->size_len; i++, len >>= 7)
            l->size[i] = (uint8_t)((len & 0x7f) | (i + 1 < l->size_len ? 0x80u : 0u));
    }
}

static int open_level(struct walk *w, uint32_t id, size_t len, uint32_t message)
{
    struct level *l;

    if (w->depth == PFL_TRACE_FILTER_MAX_DEPTH)
        return PFL_EPARSE;
    l = &w->levels[w->depth++];
    put_tag(w, id, PFL_WIRE_BYTES);
    *l = (struct level){.end = w->at + len, .size = w->out, .message = message};
    l->size_len = pfl_varint_put(w->out, len);
    w->out += l->size_len;
    return 0;
}

/* A length-delimited field; its tag is read. */
static int filter_bytes(struct walk *w, uint32_t id, pfl_filter_action action)
{
    const size_t end = w->levels[w->depth - 1].end;
    const uint8_t *payload;
    uint64_t len;

    if (!read_varint(w, end, &len) || len > LEN_MAX)
        return PFL_EPARSE;
    if (id == 0)
        return 0;
    if (len > end - w->at)
        return PFL_EPARSE;
    if (pfl_filter_kind_of(action) == PFL_FILTER_NESTED && len != 0)
        return open_level(w, id, (size_t)len, pfl_filter_argument_of(action));
    payload = w->in + w->at;
    w->at += (size_t)len;
    if (pfl_filter_kind_of(action) == PFL_FILTER_DROP)
        return 0;
    put_tag(w, id, PFL_WIRE_BYTES);
    w->out += pfl_varint_put(w->out, len);
    memmove(w->out, payload, (size_t)len);
    if (pfl_filter_kind_of(action) == PFL_FILTER_STRING)
        (void)pfl_filter_strings_apply(&w->filter->strings, w->out, (size_t)len,
                                       pfl_filter_argument_of(action));
    w->out += len;
    return 0;
}

static int filter_fixed(struct walk *w, uint32_t id, enum pfl_wire_type type, bool is_passed)
{
    const size_t len = type == PFL_WIRE_FIXED32 ? 4 : 8;
    const uint8_t *payload = w->in + w->at;

    if (len > w->levels[w->depth - 1].end - w->at)
        return PFL_EPARSE;
    w->at += len;
    if (!is_passed)
        return 0;
    put_tag(w, id, type);
    memmove(w->out, payload, len);
    w->out += len;
    return 0;
}

static int filter_field(struct walk *w)
{
    const struct level *l = &w->levels[w->depth - 1];
    pfl_filter_action action = PFL_FILTER_DROP;
    uint64_t value;
    uint64_t tag;
    uint32_t id;
    bool is_passed;

    if (!read_varint(w, l->end, &tag))
        return PFL_EPARSE;
    id = (uint32_t)(tag >> 3);
    if (id != 0 && id <= FIELD_ID_MAX)
        action = pfl_filter_bytecode_find(&w->filter->table->bytecode, l->message, id);
    is_passed = pfl_filter_kind_of(action) == PFL_FILTER_PASS;
    switch (tag & 7) {
    case PFL_WIRE_VARINT:
        if (!read_varint(w, l->end, &value))
            return PFL_EPARSE;
        if (is_passed) {
            put_tag(w, id, PFL_WIRE_VARINT);
            w->out += pfl_varint_put(w->out, value);
        }
        return 0;
    case PFL_WIRE_FIXED32:
    case PFL_WIRE_FIXED64:
        return filter_fixed(w, id, (enum pfl_wire_type)(tag & 7), is_passed);
    case PFL_WIRE_BYTES:
        return filter_bytes(w, id, action);
    default:
        return PFL_EPARSE;
    }
}

int pfl_trace_filter_packet(struct pfl_trace_filter *self, struct pfl_span packet, uint8_t *out,
                            size_t *ret_len)
{
    struct walk w;
    int rc = packet.len != 0 ? 0 : PFL_EPARSE;

    w.filter = self;
    w.in = packet.data;
    w.at = 0;
    w.out = out;
    w.depth = 1;
    w.levels[0] = (struct level){.end = packet.len, .message = self->table->root};
    while (rc == 0 && w.depth != 0) {
        rc = pfl_filter_strings_is_cancelled(&self->strings) ? PFL_EAGAIN : filter_field(&w);
        if (rc == 0)
            close_levels(&w);
    }
    if (rc == 0)
        *ret_len = (size_t)(w.out - out);
    return rc;
}
