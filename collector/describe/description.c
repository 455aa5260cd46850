/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptions as JSON: see description.h. Happy path: each field of the message that is set
 * becomes a member, by the schema's own names. Failures: out of memory. Limits: those of the
 * header.
 */
#include "collector/describe/description.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "base/mem.h"
#include "proto/unpack.h"

#define FORMAT     1
#define TEXT_BYTES 24u

static json_t *describe(const ProtobufCMessage *message);

/* NULL: out of memory. */
static json_t *write_hex(struct pfl_span bytes)
{
    static const char digits[] = "0123456789abcdef";
    char *text = pfl_mem_alloc(2 * bytes.len + 1);
    json_t *value;

    if (text == NULL)
        return NULL;
    for (size_t i = 0; i < bytes.len; i++) {
        text[2 * i] = digits[bytes.data[i] >> 4];
        text[2 * i + 1] = digits[bytes.data[i] & 15];
    }
    value = json_stringn_nocheck(text, 2 * bytes.len);
    pfl_mem_free(text);
    return value;
}

static json_t *write_u64(uint64_t number)
{
    char text[TEXT_BYTES];

    (void)snprintf(text, sizeof(text), "%" PRIu64, number);
    return json_string_nocheck(text);
}

static json_t *write_s64(int64_t number)
{
    char text[TEXT_BYTES];

    (void)snprintf(text, sizeof(text), "%" PRId64, number);
    return json_string_nocheck(text);
}

static json_t *write_enum(const ProtobufCFieldDescriptor *field, int value)
{
    const ProtobufCEnumValue *named =
        protobuf_c_enum_descriptor_get_value(field->descriptor, value);

    return named != NULL ? json_string_nocheck(named->name) : json_integer(value);
}

/* Text that is not UTF-8 is written in hex. */
static json_t *write_text(const char *text)
{
    json_t *value = json_string(text);

    return value != NULL ? value : write_hex(pfl_span_of(text, strlen(text)));
}

static json_t *write_value(const ProtobufCFieldDescriptor *field, const void *member)
{
    const ProtobufCBinaryData *bytes = member;

    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        return write_text(*(const char *const *)member);
    case PROTOBUF_C_TYPE_BYTES:
        return write_hex(pfl_span_of(bytes->data, bytes->len));
    case PROTOBUF_C_TYPE_MESSAGE:
        return describe(*(const ProtobufCMessage *const *)member);
    case PROTOBUF_C_TYPE_ENUM:
        return write_enum(field, *(const int *)member);
    case PROTOBUF_C_TYPE_BOOL:
        return json_boolean(*(const protobuf_c_boolean *)member);
    case PROTOBUF_C_TYPE_UINT32:
        return json_integer(*(const uint32_t *)member);
    case PROTOBUF_C_TYPE_INT32:
        return json_integer(*(const int32_t *)member);
    case PROTOBUF_C_TYPE_SINT64:
        return write_s64(*(const int64_t *)member);
    default: /* these messages have no other types */
        return write_u64(*(const uint64_t *)member);
    }
}

static size_t size_of(const ProtobufCFieldDescriptor *field)
{
    return field->type == PROTOBUF_C_TYPE_BYTES ? sizeof(ProtobufCBinaryData) : sizeof(void *);
}

static json_t *write_list(const ProtobufCFieldDescriptor *field, const uint8_t *items, size_t len)
{
    json_t *list = json_array();

    for (size_t i = 0; i < len; i++) {
        if (json_array_append_new(list, write_value(field, items + i * size_of(field))) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static bool is_set(const ProtobufCFieldDescriptor *field, const uint8_t *message)
{
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return *(const size_t *)(const void *)(message + field->quantifier_offset) != 0;
    if (field->type == PROTOBUF_C_TYPE_STRING || field->type == PROTOBUF_C_TYPE_MESSAGE)
        return *(void *const *)(const void *)(message + field->offset) != NULL;
    return *(const protobuf_c_boolean *)(const void *)(message + field->quantifier_offset) != 0;
}

/* NULL: out of memory. */
static json_t *describe(const ProtobufCMessage *message)
{
    const ProtobufCMessageDescriptor *type = message->descriptor;
    const uint8_t *base = (const uint8_t *)message;
    json_t *object = json_object();

    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &type->fields[i];
        const uint8_t *member = base + field->offset;
        json_t *value;

        if (!is_set(field, base))
            continue;
        value = field->label == PROTOBUF_C_LABEL_REPEATED
                    ? write_list(field, *(const uint8_t *const *)(const void *)member,
                                 *(const size_t *)(const void *)(base + field->quantifier_offset))
                    : write_value(field, member);
        if (json_object_set_new_nocheck(object, field->name, value) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

static int append_json(const char *bytes, size_t len, void *user)
{
    return pfl_buf_append(user, bytes, len) == 0 ? 0 : -1;
}

static json_t *pack(const Perfleet__StoredTrace *trace)
{
    struct pfl_buf packed;
    json_t *value = NULL;

    pfl_buf_init(&packed, PFL_DESCRIPTION_MAX_BYTES / 4);
    if (pfl_proto_pack(&trace->base, &packed) == 0)
        value = write_hex(pfl_buf_get(&packed));
    pfl_buf_fini(&packed);
    return value;
}

int pfl_description_write(const Perfleet__StoredTrace *trace, struct pfl_buf *out)
{
    json_t *root = json_object();
    struct pfl_buf text;
    int rc = PFL_ENOMEM;

    pfl_buf_init(&text, PFL_DESCRIPTION_MAX_BYTES);
    if (json_object_set_new_nocheck(root, "format", json_integer(FORMAT)) == 0 &&
        json_object_set_new_nocheck(root, "trace", describe(&trace->base)) == 0 &&
        json_object_set_new_nocheck(root, "packed", pack(trace)) == 0 &&
        json_dump_callback(root, append_json, &text, JSON_INDENT(1)) == 0)
        rc = pfl_buf_append(out, text.data + text.start, text.len);
    pfl_buf_fini(&text);
    json_decref(root);
    return rc;
}

/* ---- reading ---- */

static int read_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int read_hex(const char *text, struct pfl_buf *dst)
{
    size_t len = strlen(text);
    int rc = len % 2 == 0 ? 0 : PFL_EPARSE;

    for (size_t i = 0; i < len && rc == 0; i += 2) {
        int high = read_digit(text[i]);
        int low = read_digit(text[i + 1]);
        uint8_t byte;

        if (high < 0 || low < 0)
            return PFL_EPARSE;
        byte = (uint8_t)(high << 4 | low);
        rc = pfl_buf_append(dst, &byte, 1);
    }
    return rc;
}

int pfl_description_parse(struct pfl_span text_untrusted, Perfleet__StoredTrace **ret_trace)
{
    struct pfl_buf packed;
    json_error_t error;
    json_t *root;
    const char *hex;
    int rc;

    if (text_untrusted.len > PFL_DESCRIPTION_MAX_BYTES)
        return PFL_ELIMIT;
    root = json_loadb((const char *)text_untrusted.data, text_untrusted.len, 0, &error);
    if (root == NULL)
        return json_error_code(&error) == json_error_out_of_memory ? PFL_ENOMEM : PFL_EPARSE;
    hex = json_string_value(json_object_get(root, "packed"));
    pfl_buf_init(&packed, PFL_DESCRIPTION_MAX_BYTES);
    rc = PFL_EPARSE;
    if (hex != NULL && json_integer_value(json_object_get(root, "format")) == FORMAT)
        rc = read_hex(hex, &packed);
    if (rc == 0)
        rc = pfl_proto_unpack(&perfleet__stored_trace__descriptor, pfl_buf_get(&packed),
                              (ProtobufCMessage **)ret_trace);
    pfl_buf_fini(&packed);
    json_decref(root);
    return rc;
}
