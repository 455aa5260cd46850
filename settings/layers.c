/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layers of configuration: see layers.h.
 *
 * Happy path: the file is read by the text format's own reader into serialized fields, and so is
 * each flag; built together they are the file's fields, without those whose flag was given, and
 * then the flags. Protobuf does the rest: the last of a field counts, what is missing has its
 * default. The reader keeps no places, so lines of keys are found by a second walk over its tokens.
 *
 * Failures: words with the place and, where there is one, the value's right form. A bad file is
 * never half a configuration.
 * Ownership: two buffers. Limits: PFL_SETTINGS_MAX_KEYS, PFL_SETTINGS_MAX_BYTES for either layer.
 */
#include "settings/layers.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/text_format.h"
#include "proto/text_lexer.h"
#include "proto/text_nearest.h"
#include "proto/unpack.h"

void pfl_settings_layers_init(struct pfl_settings_layers *self,
                              const struct pfl_settings_program *program)
{
    *self = (struct pfl_settings_layers){.program = program};
    assert(program->type->n_fields <= PFL_SETTINGS_MAX_KEYS);
    pfl_buf_init(&self->file, PFL_SETTINGS_MAX_BYTES);
    pfl_buf_init(&self->flags, PFL_SETTINGS_MAX_BYTES);
}

void pfl_settings_layers_fini(struct pfl_settings_layers *self)
{
    pfl_buf_fini(&self->file);
    pfl_buf_fini(&self->flags);
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

void pfl_settings_layers_explain(const struct pfl_settings_layers *self,
                                 const struct pfl_settings_fault *fault,
                                 char ret_error[PFL_SETTINGS_ERROR_MAX])
{
    const ProtobufCMessageDescriptor *type = self->program->type;
    unsigned i = index_of(type, fault->key);
    char flag[PFL_SETTINGS_FLAG_MAX];
    char where[PFL_SETTINGS_ERROR_MAX / 2];
    char value[128] = "";

    pfl_settings_flag_name(&type->fields[i], flag);
    if (self->source[i] == PFL_SETTINGS_FILE)
        (void)snprintf(where, sizeof(where), "%s:%u: %s", self->path, self->line[i], fault->key);
    else
        (void)snprintf(where, sizeof(where), "--%s", flag);
    if (fault->value != NULL)
        (void)snprintf(value, sizeof(value), ", not \"%.100s\"", fault->value);
    (void)snprintf(ret_error, PFL_SETTINGS_ERROR_MAX, "%s: %s%s", where, fault->what, value);
}

static int refuse_flag(const struct pfl_settings_layers *self,
                       const ProtobufCFieldDescriptor *field, const char *what, const char *value,
                       char *ret_error)
{
    char flag[PFL_SETTINGS_FLAG_MAX];

    (void)self;
    pfl_settings_flag_name(field, flag);
    (void)snprintf(ret_error, PFL_SETTINGS_ERROR_MAX, "--%s: wants %s, not \"%.100s\"", flag, what,
                   value);
    return PFL_EPARSE;
}

/* ---- the file ---- */

/* Notes the line of each key outside of brackets. */
static void note_lines(struct pfl_settings_layers *self, struct pfl_span text)
{
    const ProtobufCMessageDescriptor *type = self->program->type;
    struct pfl_text_lexer lexer;
    struct pfl_text_token token;
    bool is_key = true; /* the next name is one, and not a value */

    pfl_text_lexer_init(&lexer, text);
    while ((token = pfl_text_lexer_next(&lexer)).kind != PFL_TEXT_END) {
        for (unsigned i = 0; is_key && i < type->n_fields; i++) {
            if (!pfl_text_token_is_name(&token, type->fields[i].name) ||
                self->source[i] == PFL_SETTINGS_FLAG)
                continue;
            self->source[i] = PFL_SETTINGS_FILE;
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

int pfl_settings_layers_take_file(struct pfl_settings_layers *self, const char *path,
                                  struct pfl_span text, char ret_error[PFL_SETTINGS_ERROR_MAX])
{
    struct pfl_text_error error = {0};
    int rc = pfl_text_format_parse(self->program->type, text, &self->file, &error);

    self->path = path;
    if (rc != 0) {
        (void)snprintf(ret_error, PFL_SETTINGS_ERROR_MAX, "%.200s:%u:%u: %s", path, error.line,
                       error.column, error.message);
        return rc;
    }
    if (has_nul(pfl_buf_get(&self->file))) {
        (void)snprintf(ret_error, PFL_SETTINGS_ERROR_MAX, "%.200s: a string has \\0 in it", path);
        return PFL_EPARSE;
    }
    note_lines(self, text);
    return 0;
}

/* ---- flags ---- */

static int append_number(struct pfl_settings_layers *self, uint32_t id, uint64_t value)
{
    uint8_t bytes[2 * PFL_VARINT_MAX_BYTES];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));

    pfl_writer_field_varint(&w, id, value);
    return pfl_buf_append(&self->flags, bytes, sizeof(bytes) - w.left);
}

static int append_string(struct pfl_settings_layers *self, uint32_t id, const char *value)
{
    uint8_t head[2 * PFL_VARINT_MAX_BYTES];
    struct pfl_writer w = pfl_writer_of(head, sizeof(head));
    int rc;

    pfl_writer_field_header(&w, id, strlen(value));
    rc = pfl_buf_append(&self->flags, head, sizeof(head) - w.left);
    return rc != 0 ? rc : pfl_buf_append(&self->flags, value, strlen(value));
}

static int take_number(struct pfl_settings_layers *self, const ProtobufCFieldDescriptor *field,
                       const char *value, char *ret_error)
{
    char *end;
    unsigned long long number;

    errno = 0;
    number = strtoull(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end != '\0' || errno != 0 ||
        (field->type == PROTOBUF_C_TYPE_UINT32 && number > UINT32_MAX))
        return refuse_flag(self, field, "a number", value, ret_error);
    return append_number(self, field->id, number);
}

static int take_enum(struct pfl_settings_layers *self, const ProtobufCFieldDescriptor *field,
                     const char *value, char *ret_error)
{
    const ProtobufCEnumDescriptor *type = field->descriptor;
    char names[128] = "";
    size_t len = 0;

    for (unsigned i = 0; i < type->n_values; i++) {
        if (strcmp(type->values[i].name, value) == 0)
            return append_number(self, field->id, (uint64_t)type->values[i].value);
        if (len < sizeof(names))
            len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%s",
                                    i == 0                    ? ""
                                    : i + 1 == type->n_values ? " or "
                                                              : ", ",
                                    type->values[i].name);
    }
    return refuse_flag(self, field, names, value, ret_error);
}

int pfl_settings_layers_take_flag(struct pfl_settings_layers *self, unsigned field,
                                  const char *value, char ret_error[PFL_SETTINGS_ERROR_MAX])
{
    const ProtobufCFieldDescriptor *f = &self->program->type->fields[field];

    (void)snprintf(ret_error, PFL_SETTINGS_ERROR_MAX, "the command line is too long");
    self->source[field] = PFL_SETTINGS_FLAG;
    switch (f->type) {
    case PROTOBUF_C_TYPE_BOOL:
        return append_number(self, f->id, 1);
    case PROTOBUF_C_TYPE_ENUM:
        return take_enum(self, f, value, ret_error);
    case PROTOBUF_C_TYPE_STRING:
        return append_string(self, f->id, value);
    default:
        return take_number(self, f, value, ret_error);
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

static bool is_overruled(const struct pfl_settings_layers *self, uint32_t id)
{
    const ProtobufCMessageDescriptor *type = self->program->type;

    for (unsigned i = 0; i < type->n_fields; i++) {
        if (type->fields[i].id == id)
            return self->source[i] == PFL_SETTINGS_FLAG;
    }
    return false;
}

static int merge(const struct pfl_settings_layers *self, struct pfl_buf *out)
{
    struct pfl_reader r = pfl_reader_of(pfl_buf_get(&self->file));
    struct pfl_span flags = pfl_buf_get(&self->flags);
    struct pfl_field f;
    int rc = 0;

    while (rc == 0 && pfl_reader_field(&r, &f)) {
        if (!is_overruled(self, f.id))
            rc = pfl_buf_append(out, f.raw.data, f.raw.len);
    }
    if (rc == 0 && flags.len != 0)
        rc = pfl_buf_append(out, flags.data, flags.len);
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
    pfl_buf_init(&merged, 2 * (size_t)PFL_SETTINGS_MAX_BYTES);
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
