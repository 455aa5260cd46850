/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layers of configuration: see layers.h.
 *
 * Happy path: a file is read by the text format's own reader into serialized fields, and so is each
 * flag; build takes each field from the highest source that has it. Protobuf does the rest: the
 * last occurrence of a field counts, a missing one has its default. The reader keeps no positions,
 * so a second walk over the tokens finds the lines of keys.
 *
 * Failures: a text with the place and, if there is one, the value's correct form. An invalid file
 * is never used in part. Ownership: a buffer a source. Limits: PFL_SETTINGS_MAX_KEYS,
 * PFL_SETTINGS_MAX_BYTES a source.
 */
#include "settings/layers.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/text/text_format.h"
#include "proto/text/text_lexer.h"
#include "proto/text/text_nearest.h"
#include "proto/unpack.h"

void pfl_settings_layers_init(struct pfl_settings_layers *self,
                              const struct pfl_settings_program *program)
{
    *self = (struct pfl_settings_layers){.program = program};
    assert(program->type->n_fields <= PFL_SETTINGS_MAX_KEYS);
    for (size_t i = 0; i < PFL_SETTINGS_SOURCES; i++)
        pfl_buf_init(&self->given[i], PFL_SETTINGS_MAX_BYTES);
}

void pfl_settings_layers_fini(struct pfl_settings_layers *self)
{
    for (size_t i = 0; i < PFL_SETTINGS_SOURCES; i++)
        pfl_buf_fini(&self->given[i]);
}

void pfl_settings_flag_name(const ProtobufCFieldDescriptor *field,
                            char ret_name[PFL_SETTINGS_FLAG_MAX])
{
    (void)snprintf(ret_name, PFL_SETTINGS_FLAG_MAX, "%s", field->name);
    for (char *c = ret_name; *c != '\0'; c++) {
        if (*c == '_')
            *c = '-';
    }
}

void pfl_settings_variable_name(const ProtobufCFieldDescriptor *field,
                                char ret_name[PFL_SETTINGS_FLAG_MAX])
{
    (void)snprintf(ret_name, PFL_SETTINGS_FLAG_MAX, "PERFLEET_%s", field->name);
    for (char *c = ret_name; *c != '\0'; c++) {
        if (*c >= 'a' && *c <= 'z')
            *c = (char)(*c - 'a' + 'A');
    }
}

bool pfl_settings_is_switch(const ProtobufCFieldDescriptor *field)
{
    return field->type == PROTOBUF_C_TYPE_BOOL;
}

static unsigned index_of(const ProtobufCMessageDescriptor *type, const char *name)
{
    unsigned i = 0;

    while (i < type->n_fields && strcmp(type->fields[i].name, name) != 0)
        i++;
    assert(i < type->n_fields); /* keys and faults name fields of the schema */
    return i;
}

/* ---- words ---- */

/* Without the line: a value that was refused is not the field's. */
static void name_giver(enum pfl_settings_source source, const ProtobufCFieldDescriptor *field,
                       char ret_name[PFL_SETTINGS_FLAG_MAX])
{
    if (source == PFL_SETTINGS_VARIABLE) {
        pfl_settings_variable_name(field, ret_name);
    } else {
        char flag[PFL_SETTINGS_FLAG_MAX];

        pfl_settings_flag_name(field, flag);
        (void)snprintf(ret_name, PFL_SETTINGS_FLAG_MAX, "--%.60s", flag);
    }
}

void pfl_settings_layers_name_source(const struct pfl_settings_layers *self, unsigned field,
                                     char ret_name[PFL_SETTINGS_ERROR_MAX])
{
    enum pfl_settings_source source = self->source[field];

    if (source == PFL_SETTINGS_DEFAULT)
        (void)snprintf(ret_name, PFL_SETTINGS_ERROR_MAX, "default");
    else if (self->path[source] != NULL)
        (void)snprintf(ret_name, PFL_SETTINGS_ERROR_MAX, "%.400s:%u", self->path[source],
                       self->line[field]);
    else
        name_giver(source, &self->program->type->fields[field], ret_name);
}

void pfl_settings_layers_explain(const struct pfl_settings_layers *self,
                                 const struct pfl_settings_fault *fault,
                                 char ret_error[PFL_SETTINGS_ERROR_MAX])
{
    const ProtobufCMessageDescriptor *type = self->program->type;
    unsigned i = index_of(type, fault->key);
    enum pfl_settings_source source = self->source[i];
    char giver[PFL_SETTINGS_FLAG_MAX];
    char where[PFL_SETTINGS_ERROR_MAX / 2];
    char value[128] = "";

    name_giver(source, &type->fields[i], giver);
    if (self->path[source] != NULL)
        (void)snprintf(where, sizeof(where), "%s:%u: %s", self->path[source], self->line[i],
                       fault->key);
    else
        (void)snprintf(where, sizeof(where), "%s", giver);
    if (fault->value != NULL)
        (void)snprintf(value, sizeof(value), ", not \"%.100s\"", fault->value);
    (void)snprintf(ret_error, PFL_SETTINGS_ERROR_MAX, "%s: %s%s", where, fault->what, value);
}

/* One value that a flag or a variable gives. */
struct given_value {
    enum pfl_settings_source source;
    const ProtobufCFieldDescriptor *field;
    const char *text;
};

static int refuse_value(const struct given_value *v, const char *what, char *ret_error)
{
    char giver[PFL_SETTINGS_FLAG_MAX];

    name_giver(v->source, v->field, giver);
    (void)snprintf(ret_error, PFL_SETTINGS_ERROR_MAX, "%s: wants %s, not \"%.100s\"", giver, what,
                   v->text);
    return PFL_EPARSE;
}

/* ---- the file ---- */

/* Notes the line of each key outside of brackets. */
static void note_lines(struct pfl_settings_layers *self, enum pfl_settings_source source,
                       struct pfl_span text)
{
    const ProtobufCMessageDescriptor *type = self->program->type;
    struct pfl_text_lexer lexer;
    struct pfl_text_token token;
    bool is_key = true; /* the next name is one, and not a value */

    pfl_text_lexer_init(&lexer, text);
    while ((token = pfl_text_lexer_next(&lexer)).kind != PFL_TEXT_END) {
        for (unsigned i = 0; is_key && i < type->n_fields; i++) {
            if (!pfl_text_token_is_name(&token, type->fields[i].name) || self->source[i] > source)
                continue;
            self->source[i] = source;
            self->line[i] = token.line;
        }
        is_key = !pfl_text_token_is_symbol(&token, ':') && !pfl_text_token_is_symbol(&token, '[');
    }
}

/* The programs take strings as C does. */
static bool has_nul(struct pfl_span message)
{
    struct pfl_reader r = pfl_reader_of(message);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.type == PFL_WIRE_BYTES && f.bytes.len != 0 &&
            memchr(f.bytes.data, '\0', f.bytes.len) != NULL)
            return true;
    }
    return false;
}

int pfl_settings_layers_take_file(struct pfl_settings_layers *self, enum pfl_settings_source source,
                                  const char *path, struct pfl_span text,
                                  char ret_error[PFL_SETTINGS_ERROR_MAX])
{
    struct pfl_text_error error = {0};
    int rc = pfl_text_format_parse(self->program->type, text, &self->given[source], &error);

    self->path[source] = path;
    if (rc != 0) {
        (void)snprintf(ret_error, PFL_SETTINGS_ERROR_MAX, "%.200s:%u:%u: %s", path, error.line,
                       error.column, error.message);
        return rc;
    }
    if (has_nul(pfl_buf_get(&self->given[source]))) {
        (void)snprintf(ret_error, PFL_SETTINGS_ERROR_MAX, "%.200s: a string has \\0 in it", path);
        return PFL_EPARSE;
    }
    note_lines(self, source, text);
    return 0;
}

/* ---- flags and variables ---- */

static int append_number(const struct given_value *v, uint64_t number, struct pfl_buf *out)
{
    uint8_t bytes[2 * PFL_VARINT_MAX_BYTES];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));

    pfl_writer_field_varint(&w, v->field->id, number);
    return pfl_buf_append(out, bytes, sizeof(bytes) - w.left);
}

static int append_string(const struct given_value *v, struct pfl_buf *out)
{
    uint8_t head[2 * PFL_VARINT_MAX_BYTES];
    struct pfl_writer w = pfl_writer_of(head, sizeof(head));
    int rc;

    pfl_writer_field_header(&w, v->field->id, strlen(v->text));
    rc = pfl_buf_append(out, head, sizeof(head) - w.left);
    return rc != 0 ? rc : pfl_buf_append(out, v->text, strlen(v->text));
}

static int take_number(const struct given_value *v, struct pfl_buf *out, char *ret_error)
{
    char *end;
    unsigned long long number;

    errno = 0;
    number = strtoull(v->text, &end, 10);
    if (v->text[0] < '0' || v->text[0] > '9' || *end != '\0' || errno != 0 ||
        (v->field->type == PROTOBUF_C_TYPE_UINT32 && number > UINT32_MAX))
        return refuse_value(v, "a number", ret_error);
    return append_number(v, number, out);
}

static int take_enum(const struct given_value *v, struct pfl_buf *out, char *ret_error)
{
    const ProtobufCEnumDescriptor *type = v->field->descriptor;
    char names[128] = "";
    size_t len = 0;

    for (unsigned i = 0; i < type->n_values; i++) {
        if (strcmp(type->values[i].name, v->text) == 0)
            return append_number(v, (uint64_t)type->values[i].value, out);
        if (len < sizeof(names))
            len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%s",
                                    i == 0                    ? ""
                                    : i + 1 == type->n_values ? " or "
                                                              : ", ",
                                    type->values[i].name);
    }
    return refuse_value(v, names, ret_error);
}

int pfl_settings_layers_take_value(struct pfl_settings_layers *self,
                                   enum pfl_settings_source source, unsigned field,
                                   const char *value, char ret_error[PFL_SETTINGS_ERROR_MAX])
{
    struct given_value v = {source, &self->program->type->fields[field], value};
    struct pfl_buf *out = &self->given[source];

    (void)snprintf(ret_error, PFL_SETTINGS_ERROR_MAX, "the command line is too long");
    if (self->source[field] < source)
        self->source[field] = source;
    switch (v.field->type) {
    case PROTOBUF_C_TYPE_BOOL:
        return append_number(&v, 1, out);
    case PROTOBUF_C_TYPE_ENUM:
        return take_enum(&v, out, ret_error);
    case PROTOBUF_C_TYPE_STRING:
        return append_string(&v, out);
    default:
        return take_number(&v, out, ret_error);
    }
}

/* ---- the message ---- */

static const void *member(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    return (const uint8_t *)message + field->offset;
}

static uint64_t read_number(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    uint32_t small;
    uint64_t large;

    if (field->type == PROTOBUF_C_TYPE_UINT64) {
        memcpy(&large, member(message, field), sizeof(large));
        return large;
    }
    memcpy(&small, member(message, field), sizeof(small));
    return small;
}

static int check_ranges(const struct pfl_settings_layers *self, const ProtobufCMessage *message,
                        char *ret_error)
{
    const struct pfl_settings_program *p = self->program;

    for (size_t i = 0; i < p->keys_len; i++) {
        const struct pfl_settings_key *key = &p->keys[i];
        const ProtobufCFieldDescriptor *field = &p->type->fields[index_of(p->type, key->name)];
        struct pfl_settings_fault fault = {.key = key->name};
        char what[96];
        char value[24];
        uint64_t number;

        if (key->max == 0)
            continue;
        number = read_number(message, field);
        if (number >= key->min && number <= key->max)
            continue;
        (void)snprintf(what, sizeof(what), "wants a number from %llu to %llu",
                       (unsigned long long)key->min, (unsigned long long)key->max);
        (void)snprintf(value, sizeof(value), "%llu", (unsigned long long)number);
        fault.what = what;
        fault.value = value;
        pfl_settings_layers_explain(self, &fault, ret_error);
        return PFL_EPARSE;
    }
    return 0;
}

static bool is_from(const struct pfl_settings_layers *self, uint32_t id,
                    enum pfl_settings_source source)
{
    const ProtobufCMessageDescriptor *type = self->program->type;

    for (unsigned i = 0; i < type->n_fields; i++) {
        if (type->fields[i].id == id)
            return self->source[i] == source;
    }
    return false;
}

static int merge(const struct pfl_settings_layers *self, struct pfl_buf *out)
{
    int rc = 0;

    for (unsigned source = 0; source < PFL_SETTINGS_SOURCES; source++) {
        struct pfl_reader r = pfl_reader_of(pfl_buf_get(&self->given[source]));
        struct pfl_field f;

        while (rc == 0 && pfl_reader_field(&r, &f)) {
            if (is_from(self, f.id, (enum pfl_settings_source)source))
                rc = pfl_buf_append(out, f.raw.data, f.raw.len);
        }
    }
    return rc;
}

int pfl_settings_layers_build(const struct pfl_settings_layers *self,
                              ProtobufCMessage **ret_message,
                              char ret_error[PFL_SETTINGS_ERROR_MAX])
{
    ProtobufCMessage *message = NULL;
    struct pfl_buf merged;
    int rc;

    (void)snprintf(ret_error, PFL_SETTINGS_ERROR_MAX, "out of memory");
    pfl_buf_init(&merged, PFL_SETTINGS_SOURCES * (size_t)PFL_SETTINGS_MAX_BYTES);
    rc = merge(self, &merged);
    if (rc == 0)
        rc = pfl_proto_unpack(self->program->type, pfl_buf_get(&merged), &message);
    pfl_buf_fini(&merged);
    if (rc == 0)
        rc = check_ranges(self, message, ret_error);
    if (rc != 0) {
        pfl_proto_free(message);
        return rc;
    }
    *ret_message = message;
    return 0;
}
