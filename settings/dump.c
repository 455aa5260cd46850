/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Configuration as text: see layers.h. One line per value, in the schema's order, each with a
 * comment that has the value's source; an unset value is a comment. The output, read as a file, is
 * the same configuration. Failures: the buffer's.
 */
#include <stdio.h>
#include <string.h>

#include "settings/layers.h"

static int append_text(struct pfl_buf *out, const char *text)
{
    return pfl_buf_append(out, text, strlen(text));
}

static int append_quoted(struct pfl_buf *out, const char *value)
{
    char escaped[8];
    int rc = append_text(out, "\"");

    for (const char *c = value; rc == 0 && *c != '\0'; c++) {
        if (*c == '"' || *c == '\\')
            (void)snprintf(escaped, sizeof(escaped), "\\%c", *c);
        else if ((unsigned char)*c < 0x20 || (unsigned char)*c == 0x7f)
            (void)snprintf(escaped, sizeof(escaped), "\\%03o", (unsigned)(unsigned char)*c);
        else
            (void)snprintf(escaped, sizeof(escaped), "%c", *c);
        rc = append_text(out, escaped);
    }
    return rc != 0 ? rc : append_text(out, "\"");
}

static int append_value(const ProtobufCFieldDescriptor *field, const void *value,
                        struct pfl_buf *out)
{
    const ProtobufCEnumValue *name;
    char text[24];
    uint64_t large = 0;
    uint32_t small = 0;

    if (field->type == PROTOBUF_C_TYPE_STRING) {
        const char *string;

        memcpy(&string, value, sizeof(string));
        return append_quoted(out, string);
    }
    if (field->type == PROTOBUF_C_TYPE_UINT64)
        memcpy(&large, value, sizeof(large));
    else
        memcpy(&small, value, sizeof(small));
    if (field->type == PROTOBUF_C_TYPE_BOOL)
        return append_text(out, small != 0 ? "true" : "false");
    if (field->type == PROTOBUF_C_TYPE_ENUM) {
        name = protobuf_c_enum_descriptor_get_value(field->descriptor, (int)small);
        return append_text(out, name != NULL ? name->name : "?");
    }
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)large + small);
    return append_text(out, text);
}

static int append_line(const struct pfl_settings_layers *self, unsigned i, const void *value,
                       struct pfl_buf *out)
{
    const ProtobufCFieldDescriptor *field = &self->program->type->fields[i];
    char from[PFL_SETTINGS_ERROR_MAX];
    int rc = append_text(out, field->name);

    pfl_settings_layers_name_source(self, i, from);
    if (rc == 0)
        rc = append_text(out, ": ");
    if (rc == 0)
        rc = append_value(field, value, out);
    if (rc == 0)
        rc = append_text(out, " # ");
    if (rc == 0)
        rc = append_text(out, from);
    return rc != 0 ? rc : append_text(out, "\n");
}

static int append_unset(const ProtobufCFieldDescriptor *field, struct pfl_buf *out)
{
    char line[PFL_SETTINGS_FLAG_MAX + 16];

    (void)snprintf(line, sizeof(line), "# %s: not set\n", field->name);
    return append_text(out, line);
}

static int append_key(const struct pfl_settings_layers *self, const ProtobufCMessage *message,
                      unsigned i, struct pfl_buf *out)
{
    const ProtobufCFieldDescriptor *field = &self->program->type->fields[i];
    const char *const *strings;
    size_t count;
    int rc = 0;

    if (field->label != PROTOBUF_C_LABEL_REPEATED) {
        if (field->type == PROTOBUF_C_TYPE_STRING) {
            memcpy(&strings, (const uint8_t *)message + field->offset, sizeof(strings));
            if (strings == NULL)
                return append_unset(field, out);
        }
        return append_line(self, i, (const uint8_t *)message + field->offset, out);
    }
    memcpy(&count, (const uint8_t *)message + field->quantifier_offset, sizeof(count));
    memcpy(&strings, (const uint8_t *)message + field->offset, sizeof(strings));
    for (size_t k = 0; rc == 0 && k < count; k++)
        rc = append_line(self, i, &strings[k], out);
    return rc != 0 || count != 0 ? rc : append_unset(field, out);
}

int pfl_settings_layers_dump(const struct pfl_settings_layers *self,
                             const ProtobufCMessage *message, struct pfl_buf *out)
{
    int rc = 0;

    for (unsigned i = 0; rc == 0 && i < self->program->type->n_fields; i++)
        rc = append_key(self, message, i, out);
    return rc;
}
