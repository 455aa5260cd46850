/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strict reading: see strict.h.
 *
 * Happy path: each message is walked over its descriptor with a bit for each field that came.
 * Failures: the first finding ends the walk, with the field's name. Ownership: none, no allocation.
 * Limits: PFL_STRICT_MAX_DEPTH; FIELDS_MAX fields a message type (the largest has 60).
 */
#include "proto/gate/strict.h"

#include <stdio.h>

#define FIELDS_MAX 256u

struct walk {
    char *why;
    size_t why_len;
    unsigned depth;
};

static bool walk_message(struct walk *w, const ProtobufCMessageDescriptor *type,
                         struct pfl_span message);

static bool find(struct walk *w, const ProtobufCMessageDescriptor *type, const char *what,
                 const char *name)
{
    (void)snprintf(w->why, w->why_len, "%s of %s %s", name, type->short_name, what);
    return false;
}

static uint32_t wire_of(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return PFL_WIRE_FIXED32;
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return PFL_WIRE_FIXED64;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return PFL_WIRE_BYTES;
    default:
        return PFL_WIRE_VARINT;
    }
}

/* A reader that keeps fewer bits must keep the same number. */
static bool is_in_range(ProtobufCType type, uint64_t value)
{
    switch (type) {
    case PROTOBUF_C_TYPE_BOOL:
        return value <= 1;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_SINT32:
        return value <= UINT32_MAX;
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_ENUM:
        return value <= INT32_MAX || value >= (uint64_t)(int64_t)INT32_MIN;
    default:
        return true;
    }
}

static bool is_shortest(const struct pfl_field *f)
{
    size_t tag = pfl_varint_size((uint64_t)f->id << 3 | f->type);
    size_t head = f->raw.len - f->bytes.len;

    if (f->type == PFL_WIRE_VARINT)
        return f->raw.len == tag + pfl_varint_size(f->value);
    if (f->type != PFL_WIRE_BYTES)
        return f->raw.len == tag + (f->type == PFL_WIRE_FIXED32 ? 4 : 8);
    /* The tag's last byte alone has no continuation bit. */
    return head >= tag + 1 && head <= tag + 5 && f->raw.data[tag - 1] < 0x80;
}

/* A repeated number may come as one field of many. */
static bool is_packed_form(const ProtobufCFieldDescriptor *d, const struct pfl_field *f)
{
    return d->label == PROTOBUF_C_LABEL_REPEATED && f->type == PFL_WIRE_BYTES &&
           wire_of(d->type) != PFL_WIRE_BYTES;
}

static bool walk_field(struct walk *w, const ProtobufCMessageDescriptor *type,
                       const ProtobufCFieldDescriptor *d, const struct pfl_field *f)
{
    if (!is_shortest(f))
        return find(w, type, "is not written in its shortest form", d->name);
    if (is_packed_form(d, f))
        return true;
    if (f->type != wire_of(d->type))
        return find(w, type, "has another type", d->name);
    if (f->type == PFL_WIRE_VARINT && !is_in_range(d->type, f->value))
        return find(w, type, "is a number out of range", d->name);
    if (d->type == PROTOBUF_C_TYPE_STRING && f->bytes.len != 0 &&
        memchr(f->bytes.data, 0, f->bytes.len) != NULL)
        return find(w, type, "has a NUL in it", d->name);
    if (d->type == PROTOBUF_C_TYPE_MESSAGE)
        return walk_message(w, d->descriptor, f->bytes);
    return true;
}

static bool is_first(const ProtobufCMessageDescriptor *type, const ProtobufCFieldDescriptor *d,
                     uint8_t *seen)
{
    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *other = &type->fields[i];
        bool is_same = other == d || ((d->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0 &&
                                      (other->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0 &&
                                      other->quantifier_offset == d->quantifier_offset);

        if (is_same && (seen[i / 8] & 1u << i % 8) != 0)
            return false;
    }
    return true;
}

static bool walk_fields(struct walk *w, const ProtobufCMessageDescriptor *type,
                        struct pfl_span message)
{
    struct pfl_reader r = pfl_reader_of(message);
    uint8_t seen[FIELDS_MAX / 8] = {0};
    struct pfl_field f;
    char name[32];

    if (type->n_fields > FIELDS_MAX)
        return find(w, type, "cannot be checked", "each field");
    while (pfl_reader_field(&r, &f)) {
        const ProtobufCFieldDescriptor *d = protobuf_c_message_descriptor_get_field(type, f.id);
        size_t at;

        (void)snprintf(name, sizeof(name), "field %u", f.id);
        if (d == NULL)
            return find(w, type, "is not known here", name);
        at = (size_t)(d - type->fields);
        if (d->label != PROTOBUF_C_LABEL_REPEATED && !is_first(type, d, seen))
            return find(w, type, "is there twice", d->name);
        seen[at / 8] = (uint8_t)(seen[at / 8] | 1u << at % 8);
        if (!walk_field(w, type, d, &f))
            return false;
    }
    return !r.failed || find(w, type, "are malformed", "the fields");
}

static bool walk_message(struct walk *w, const ProtobufCMessageDescriptor *type,
                         struct pfl_span message)
{
    bool is_fine;

    if (w->depth == PFL_STRICT_MAX_DEPTH)
        return find(w, type, "is nested too deep", "a field");
    w->depth++;
    is_fine = walk_fields(w, type, message);
    w->depth--;
    return is_fine;
}

bool pfl_strict_check(const ProtobufCMessageDescriptor *type, struct pfl_span message_untrusted,
                      char *ret_why, size_t why_len)
{
    struct walk w = {.why = ret_why, .why_len = why_len};

    return walk_message(&w, type, message_untrusted);
}
