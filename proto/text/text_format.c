/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text format to serialized bytes, by protobuf-c's descriptors: see text_format.h.
 *
 * Happy path: one token of look-ahead; each field is appended to `out` as soon as it is read; a
 * nested message is written in place and its length put in front of it when it ends.
 *
 * Failures: the first one fills the error with its place and remedy and ends the parse; `out` gets
 * its old length. `fail` returns the code, so that a rule can `return fail(...)`.
 *
 * Limits: PFL_TEXT_FORMAT_MAX_DEPTH levels, FIELDS_MAX fields of one message type, out's maximum.
 */
#include "proto/text/text_format.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "proto/text/text_lexer.h"
#include "proto/text/text_nearest.h"
#include "proto/text/text_scalar.h"
#include "proto/text/text_string.h"

#define FIELDS_MAX       1024u
#define FIELD_HEAD_BYTES 20u

/* One message being read; a chain from the innermost outwards. */
struct level {
    const ProtobufCMessageDescriptor *type;
    const struct level *outer;  /* borrowed; NULL for the root */
    struct pfl_text_token open; /* "{" or "<"; the root's is unused */
    uint64_t seen[FIELDS_MAX / 64];
};

struct parser {
    struct pfl_text_lexer lexer;
    struct pfl_text_token token; /* the next one */
    struct pfl_buf *out;
    struct pfl_text_error *error;
    unsigned depth;
};

static int parse_fields(struct parser *p, struct level *level);

__attribute__((format(printf, 4, 5))) static int
fail(struct parser *p, int rc, const struct pfl_text_token *at, const char *fmt, ...)
{
    va_list ap;

    p->error->line = at->line;
    p->error->column = at->column;
    va_start(ap, fmt);
    (void)vsnprintf(p->error->message, sizeof(p->error->message), fmt, ap);
    va_end(ap);
    return rc;
}

/* "expected WHAT, found TOKEN" at the next token. */
static int fail_expected(struct parser *p, const char *what, const char *where)
{
    char found[PFL_TEXT_DESCRIPTION_MAX];

    if (p->token.kind == PFL_TEXT_OPEN_QUOTE)
        return fail(p, PFL_EPARSE, &p->token, "the string is not closed in its line");
    pfl_text_token_describe(&p->token, found);
    return fail(p, PFL_EPARSE, &p->token, "expected %s for \"%s\", found %s", what, where, found);
}

static int fail_output(struct parser *p, int rc)
{
    return fail(p, rc, &p->token,
                rc == PFL_ELIMIT ? "the message is longer than the %zu bytes allowed"
                                 : "out of memory at %zu bytes",
                rc == PFL_ELIMIT ? p->out->max_bytes : p->out->len);
}

static void advance(struct parser *p)
{
    p->token = pfl_text_lexer_next(&p->lexer);
}

static bool try_symbol(struct parser *p, char symbol)
{
    if (!pfl_text_token_is_symbol(&p->token, symbol))
        return false;
    advance(p);
    return true;
}

/* Without the package: "TraceConfig.BufferConfig". */
static const char *name_of(const char *full_name, const char *package)
{
    size_t len = strlen(package);

    if (len != 0 && strncmp(full_name, package, len) == 0 && full_name[len] == '.')
        return full_name + len + 1;
    return full_name;
}

static const char *type_name(const ProtobufCMessageDescriptor *type)
{
    return name_of(type->name, type->package_name);
}

static bool is_named(const char *name, struct pfl_span text)
{
    return strlen(name) == text.len && memcmp(name, text.data, text.len) == 0;
}

static const ProtobufCFieldDescriptor *find_field(const ProtobufCMessageDescriptor *type,
                                                  struct pfl_span name)
{
    for (unsigned i = 0; i < type->n_fields; i++) {
        if (is_named(type->fields[i].name, name))
            return &type->fields[i];
    }
    return NULL;
}

static int fail_unknown_field(struct parser *p, const struct level *level)
{
    const ProtobufCMessageDescriptor *type = level->type;
    struct pfl_text_nearest nearest;
    char found[PFL_TEXT_DESCRIPTION_MAX];

    pfl_text_token_describe(&p->token, found);
    for (const struct level *l = level->outer; l != NULL; l = l->outer) {
        if (find_field(l->type, p->token.text) != NULL)
            return fail(p, PFL_EPARSE, &p->token,
                        "no field %s in %s, but %s has one: is the \"{\" of line %u not closed?",
                        found, type_name(type), type_name(l->type), level->open.line);
    }
    pfl_text_nearest_init(&nearest, p->token.text);
    for (unsigned i = 0; i < type->n_fields; i++)
        pfl_text_nearest_try(&nearest, type->fields[i].name);
    if (nearest.name == NULL)
        return fail(p, PFL_EPARSE, &p->token, "no field %s in %s", found, type_name(type));
    return fail(p, PFL_EPARSE, &p->token, "no field %s in %s; did you mean \"%s\"?", found,
                type_name(type), nearest.name);
}

static const ProtobufCEnumValue *find_enum_value(const ProtobufCEnumDescriptor *type,
                                                 struct pfl_span name)
{
    for (unsigned i = 0; i < type->n_value_names; i++) {
        if (is_named(type->values_by_name[i].name, name))
            return &type->values[type->values_by_name[i].index];
    }
    return NULL;
}

static int fail_unknown_enum_value(struct parser *p, const ProtobufCEnumDescriptor *type)
{
    const char *name = name_of(type->name, type->package_name);
    struct pfl_text_nearest nearest;
    char found[PFL_TEXT_DESCRIPTION_MAX];

    assert(type->values != NULL && type->n_values > 0);
    pfl_text_token_describe(&p->token, found);
    pfl_text_nearest_init(&nearest, p->token.text);
    for (unsigned i = 0; i < type->n_value_names; i++)
        pfl_text_nearest_try(&nearest, type->values_by_name[i].name);
    if (nearest.name != NULL)
        return fail(p, PFL_EPARSE, &p->token, "no value %s in %s; did you mean \"%s\"?", found,
                    name, nearest.name);
    return fail(p, PFL_EPARSE, &p->token, "no value %s in %s; it has \"%s\"%s", found, name,
                type->values[0].name, type->n_values > 1 ? " and others" : "");
}

/* Writes a field's tag and number, or its tag and length. */
static int append_head(struct parser *p, uint32_t id, enum pfl_wire_type wire, uint64_t value)
{
    uint8_t head[FIELD_HEAD_BYTES];
    struct pfl_writer w = pfl_writer_of(head, sizeof(head));
    int rc;

    if (wire == PFL_WIRE_FIXED32)
        pfl_writer_field_fixed32(&w, id, (uint32_t)value);
    else if (wire == PFL_WIRE_FIXED64)
        pfl_writer_field_fixed64(&w, id, value);
    else if (wire == PFL_WIRE_VARINT)
        pfl_writer_field_varint(&w, id, value);
    else
        pfl_writer_field_header(&w, id, value);
    assert(!w.failed);
    rc = pfl_buf_append(p->out, head, sizeof(head) - w.left);
    return rc != 0 ? fail_output(p, rc) : 0;
}

/* Puts the head of field `id` in front of the payload that begins at `mark`. */
static int close_payload(struct parser *p, uint32_t id, size_t mark)
{
    size_t payload = p->out->len - mark;
    size_t head;
    uint8_t tmp[FIELD_HEAD_BYTES];
    uint8_t *at;
    int rc = append_head(p, id, PFL_WIRE_BYTES, payload);

    if (rc != 0)
        return rc;
    head = p->out->len - mark - payload;
    at = p->out->data + p->out->start + mark;
    memcpy(tmp, at + payload, head);
    memmove(at + head, at, payload);
    memcpy(at, tmp, head);
    return 0;
}

static int parse_string(struct parser *p, const ProtobufCFieldDescriptor *field)
{
    size_t mark = p->out->len;

    if (p->token.kind != PFL_TEXT_STRING)
        return fail_expected(p, pfl_text_scalar_expected(field->type), field->name);
    while (p->token.kind == PFL_TEXT_STRING) {
        size_t offset = 0;
        int rc = pfl_text_string_decode(p->token.text, p->out, &offset);

        if (rc == PFL_EPARSE) {
            p->token.column += (unsigned)offset;
            return fail(p, rc, &p->token, "the escape in this string means nothing");
        }
        if (rc != 0)
            return fail_output(p, rc);
        advance(p);
    }
    if (p->token.kind == PFL_TEXT_OPEN_QUOTE)
        return fail_expected(p, "", field->name);
    return close_payload(p, field->id, mark);
}

static int parse_enum_name(struct parser *p, const ProtobufCFieldDescriptor *field)
{
    const ProtobufCEnumDescriptor *type = field->descriptor;
    const ProtobufCEnumValue *value = find_enum_value(type, p->token.text);

    if (value == NULL)
        return fail_unknown_enum_value(p, type);
    advance(p);
    return append_head(p, field->id, PFL_WIRE_VARINT, (uint64_t)(int64_t)value->value);
}

static int parse_scalar(struct parser *p, const ProtobufCFieldDescriptor *field)
{
    bool is_negative = try_symbol(p, '-');
    const char *expected = pfl_text_scalar_expected(field->type);
    struct pfl_text_scalar scalar = {PFL_WIRE_VARINT, 0};
    char found[PFL_TEXT_DESCRIPTION_MAX];
    int rc;

    if (field->type == PROTOBUF_C_TYPE_ENUM && !is_negative && p->token.kind == PFL_TEXT_NAME)
        return parse_enum_name(p, field);
    rc = pfl_text_scalar_parse(field->type, is_negative, &p->token, &scalar);
    if (rc == PFL_EINVAL)
        return fail_expected(p, expected, field->name);
    if (rc != 0) {
        pfl_text_token_describe(&p->token, found);
        return fail(p, PFL_EPARSE, &p->token, "%s%s is out of range: \"%s\" is %s",
                    is_negative ? "minus " : "", found, field->name, expected);
    }
    advance(p);
    return append_head(p, field->id, scalar.wire, scalar.value);
}

static int parse_message(struct parser *p, const ProtobufCFieldDescriptor *field,
                         const struct level *outer)
{
    struct level level = {.type = field->descriptor, .outer = outer, .open = p->token};
    size_t mark = p->out->len;
    char what[16];
    char close;
    int rc;

    if (!pfl_text_token_is_symbol(&p->token, '{') && !pfl_text_token_is_symbol(&p->token, '<'))
        return fail_expected(p, "\"{\"", field->name);
    if (p->depth >= PFL_TEXT_FORMAT_MAX_DEPTH)
        return fail(p, PFL_ELIMIT, &p->token, "nested deeper than %u levels",
                    PFL_TEXT_FORMAT_MAX_DEPTH);
    close = pfl_text_token_is_symbol(&p->token, '{') ? '}' : '>';
    p->depth++;
    advance(p);
    rc = parse_fields(p, &level);
    p->depth--;
    if (rc != 0)
        return rc;
    if (p->token.kind == PFL_TEXT_END)
        return fail(p, PFL_EPARSE, &level.open, "the \"%c\" of \"%s\" is never closed",
                    close == '}' ? '{' : '<', field->name);
    (void)snprintf(what, sizeof(what), "\"%c\"", close);
    if (!try_symbol(p, close))
        return fail_expected(p, what, field->name);
    return close_payload(p, field->id, mark);
}

static int parse_value(struct parser *p, const ProtobufCFieldDescriptor *field,
                       const struct level *level)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
        return parse_message(p, field, level);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
        return parse_string(p, field);
    default:
        return parse_scalar(p, field);
    }
}

/* After "[": values with commas between, then "]". */
static int parse_list(struct parser *p, const ProtobufCFieldDescriptor *field,
                      const struct level *level)
{
    if (try_symbol(p, ']'))
        return 0;
    for (;;) {
        int rc = parse_value(p, field, level);

        if (rc != 0)
            return rc;
        if (try_symbol(p, ']'))
            return 0;
        if (!try_symbol(p, ','))
            return fail_expected(p, "\",\" or \"]\"", field->name);
    }
}

static bool was_seen(const struct level *level, size_t index)
{
    return (level->seen[index / 64] >> (index % 64) & 1) != 0;
}

/* Refuses a second value where there can be one, of the field or of its oneof. */
static int note_field(struct parser *p, struct level *level, const ProtobufCFieldDescriptor *field)
{
    const ProtobufCMessageDescriptor *type = level->type;
    size_t index = (size_t)(field - type->fields);

    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return 0;
    assert(type->n_fields <= FIELDS_MAX);
    if (was_seen(level, index))
        return fail(p, PFL_EPARSE, &p->token, "\"%s\" is given twice in this %s", field->name,
                    type_name(type));
    for (size_t i = 0; (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0 && i < type->n_fields;
         i++) {
        if (was_seen(level, i) && (type->fields[i].flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0 &&
            type->fields[i].quantifier_offset == field->quantifier_offset)
            return fail(p, PFL_EPARSE, &p->token, "\"%s\" and \"%s\" exclude each other in one %s",
                        type->fields[i].name, field->name, type_name(type));
    }
    level->seen[index / 64] |= 1ull << (index % 64);
    return 0;
}

static int parse_field(struct parser *p, struct level *level)
{
    const ProtobufCFieldDescriptor *field = find_field(level->type, p->token.text);
    bool has_colon;
    int rc;

    if (field == NULL)
        return fail_unknown_field(p, level);
    rc = note_field(p, level, field);
    if (rc != 0)
        return rc;
    advance(p);
    has_colon = try_symbol(p, ':');
    if (!has_colon && field->type != PROTOBUF_C_TYPE_MESSAGE)
        return fail_expected(p, "\":\" and a value", field->name);
    if (pfl_text_token_is_symbol(&p->token, '[')) {
        if (field->label != PROTOBUF_C_LABEL_REPEATED)
            return fail(p, PFL_EPARSE, &p->token, "\"%s\" takes one value, not a list",
                        field->name);
        advance(p);
        rc = parse_list(p, field, level);
    } else {
        rc = parse_value(p, field, level);
    }
    if (rc == 0 && !try_symbol(p, ','))
        (void)try_symbol(p, ';');
    return rc;
}

/* Fields up to what cannot begin one: a closing bracket or the end, which the caller judges. */
static int parse_fields(struct parser *p, struct level *level)
{
    char found[PFL_TEXT_DESCRIPTION_MAX];
    int rc = 0;

    while (rc == 0 && p->token.kind == PFL_TEXT_NAME)
        rc = parse_field(p, level);
    if (rc != 0 || p->token.kind == PFL_TEXT_END || pfl_text_token_is_symbol(&p->token, '}') ||
        pfl_text_token_is_symbol(&p->token, '>'))
        return rc;
    pfl_text_token_describe(&p->token, found);
    return fail(p, PFL_EPARSE, &p->token, "expected the name of a field of %s, found %s",
                type_name(level->type), found);
}

int pfl_text_format_parse(const ProtobufCMessageDescriptor *type, struct pfl_span text,
                          struct pfl_buf *out, struct pfl_text_error *ret_error)
{
    struct parser p = {.out = out, .error = ret_error, .depth = 1};
    struct level root = {.type = type};
    size_t len_before = out->len;
    int rc;

    pfl_text_lexer_init(&p.lexer, text);
    advance(&p);
    rc = parse_fields(&p, &root);
    if (rc == 0 && p.token.kind != PFL_TEXT_END)
        rc = fail(&p, PFL_EPARSE, &p.token, "this \"%c\" closes nothing", p.token.text.data[0]);
    if (rc != 0)
        out->len = len_before;
    return rc;
}
