/* SPDX-License-Identifier: Apache-2.0 */
/* The descriptor of text_types.h. Tables only. */
#include "tests/unit/proto/text/text_types.h"

#define ONEOF_OFFSET 1u

static const ProtobufCEnumValue kind_values[] = {
    {"MINUS", "MINUS", -1}, {"ONE", "ONE", 1}, {"TWO", "TWO", 2}};
static const ProtobufCEnumValueIndex kind_names[] = {{"MINUS", 0}, {"ONE", 1}, {"TWO", 2}};
static const ProtobufCEnumDescriptor kind_descriptor = {
    .magic = PROTOBUF_C__ENUM_DESCRIPTOR_MAGIC,
    .name = "tests.Kind",
    .short_name = "Kind",
    .package_name = "tests",
    .n_values = 3,
    .values = kind_values,
    .n_value_names = 3,
    .values_by_name = kind_names,
};

#define FIELD(field_name, number, field_type)                                                      \
    {                                                                                              \
        .name = field_name, .id = number, .label = PROTOBUF_C_LABEL_OPTIONAL,                      \
        .type = PROTOBUF_C_TYPE_##field_type                                                       \
    }

static const ProtobufCFieldDescriptor fields[] = {
    FIELD("i32", 1, INT32),
    FIELD("u32", 2, UINT32),
    FIELD("i64", 3, INT64),
    FIELD("u64", 4, UINT64),
    FIELD("s32", 5, SINT32),
    FIELD("s64", 6, SINT64),
    FIELD("f32", 7, FIXED32),
    FIELD("sf64", 8, SFIXED64),
    FIELD("flt", 9, FLOAT),
    FIELD("dbl", 10, DOUBLE),
    {.name = "rb", .id = 11, .label = PROTOBUF_C_LABEL_REPEATED, .type = PROTOBUF_C_TYPE_BOOL},
    {.name = "en",
     .id = 12,
     .label = PROTOBUF_C_LABEL_OPTIONAL,
     .type = PROTOBUF_C_TYPE_ENUM,
     .descriptor = &kind_descriptor},
    FIELD("str", 13, STRING),
    FIELD("byt", 14, BYTES),
    {.name = "sub",
     .id = 15,
     .label = PROTOBUF_C_LABEL_OPTIONAL,
     .type = PROTOBUF_C_TYPE_MESSAGE,
     .descriptor = &text_types_descriptor},
    {.name = "rs",
     .id = 16,
     .label = PROTOBUF_C_LABEL_REPEATED,
     .type = PROTOBUF_C_TYPE_MESSAGE,
     .descriptor = &text_types_descriptor},
    {.name = "alt_a",
     .id = 17,
     .label = PROTOBUF_C_LABEL_OPTIONAL,
     .type = PROTOBUF_C_TYPE_UINT32,
     .quantifier_offset = ONEOF_OFFSET,
     .flags = PROTOBUF_C_FIELD_FLAG_ONEOF},
    {.name = "alt_b",
     .id = 18,
     .label = PROTOBUF_C_LABEL_OPTIONAL,
     .type = PROTOBUF_C_TYPE_UINT32,
     .quantifier_offset = ONEOF_OFFSET,
     .flags = PROTOBUF_C_FIELD_FLAG_ONEOF},
};

const ProtobufCMessageDescriptor text_types_descriptor = {
    .magic = PROTOBUF_C__MESSAGE_DESCRIPTOR_MAGIC,
    .name = "tests.Types",
    .short_name = "Types",
    .package_name = "tests",
    .n_fields = sizeof(fields) / sizeof(fields[0]),
    .fields = fields,
};
