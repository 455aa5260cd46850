/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers and booleans of text format. Integers are decimal, hexadecimal (0x) or octal (0) and
 * checked against the field's range; floats take an exponent, the suffix f, inf and nan.
 */
#include "proto/text/text_scalar.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#define FLOAT_MAX_BYTES 63u

struct range {
    uint64_t min_magnitude; /* of the most negative value */
    uint64_t max;
};

const char *pfl_text_scalar_expected(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        return "an integer from -2147483648 to 2147483647";
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        return "an integer from 0 to 4294967295";
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return "a 64-bit integer";
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return "a 64-bit integer without sign";
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_DOUBLE:
        return "a number";
    case PROTOBUF_C_TYPE_BOOL:
        return "true or false";
    case PROTOBUF_C_TYPE_ENUM:
        return "a value's name";
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
        return "a string in quotes";
    default:
        return "\"{\"";
    }
}

static struct range range_of(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        return (struct range){0, UINT32_MAX};
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return (struct range){0, UINT64_MAX};
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return (struct range){(uint64_t)INT64_MAX + 1, INT64_MAX};
    default:
        return (struct range){(uint64_t)INT32_MAX + 1, INT32_MAX};
    }
}

static unsigned digit_of(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0');
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10) : 16u;
}

static int read_magnitude(struct pfl_span text, uint64_t *ret)
{
    bool is_zero_first = text.len > 1 && text.data[0] == '0';
    bool is_hex = is_zero_first && (text.data[1] | 0x20) == 'x';
    unsigned base = is_hex ? 16 : is_zero_first ? 8 : 10;
    bool is_too_big = false;
    uint64_t v = 0;

    if (is_hex && text.len == 2)
        return PFL_EINVAL;
    for (size_t i = is_hex ? 2 : 0; i < text.len; i++) {
        unsigned digit = digit_of(text.data[i]);

        if (digit >= base)
            return PFL_EINVAL;
        is_too_big = is_too_big || __builtin_mul_overflow(v, base, &v) ||
                     __builtin_add_overflow(v, digit, &v);
    }
    *ret = v;
    return is_too_big ? PFL_ELIMIT : 0;
}

/* The value in two's complement, as encoded. */
static struct pfl_text_scalar wire_integer(ProtobufCType type, uint64_t v)
{
    switch (type) {
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SINT64:
        return (struct pfl_text_scalar){PFL_WIRE_VARINT, v << 1 ^ (0 - (v >> 63))};
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32:
        return (struct pfl_text_scalar){PFL_WIRE_FIXED32, (uint32_t)v};
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return (struct pfl_text_scalar){PFL_WIRE_FIXED64, v};
    default:
        return (struct pfl_text_scalar){PFL_WIRE_VARINT, v};
    }
}

static int parse_integer(ProtobufCType type, bool is_negative, struct pfl_span text,
                         struct pfl_text_scalar *ret_scalar)
{
    struct range range = range_of(type);
    uint64_t v;
    int rc = read_magnitude(text, &v);

    if (rc != 0)
        return rc;
    if (v > (is_negative ? range.min_magnitude : range.max))
        return PFL_ELIMIT;
    *ret_scalar = wire_integer(type, is_negative ? 0 - v : v);
    return 0;
}

static bool is_word(struct pfl_span text, const char *word)
{
    if (text.len != strlen(word))
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if ((text.data[i] | 0x20) != (uint8_t)word[i])
            return false;
    }
    return true;
}

static int read_decimal(struct pfl_span text, double *ret)
{
    char copy[FLOAT_MAX_BYTES + 1];
    char *end;

    if (text.len > FLOAT_MAX_BYTES)
        return PFL_EINVAL;
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    if (text.len > 1 && copy[0] == '0' && copy[1] >= '0' && copy[1] != '.' &&
        (copy[1] | 0x20) != 'e' && (copy[1] | 0x20) != 'f')
        return PFL_EINVAL; /* neither hexadecimal nor octal */
    *ret = strtod(copy, &end);
    if (end > copy && (*end | 0x20) == 'f')
        end++;
    return *end == '\0' ? 0 : PFL_EINVAL;
}

static struct pfl_text_scalar wire_float(ProtobufCType type, double v)
{
    struct pfl_text_scalar scalar = {PFL_WIRE_FIXED64, 0};
    uint32_t bits;
    float f;

    if (type == PROTOBUF_C_TYPE_DOUBLE) {
        memcpy(&scalar.value, &v, sizeof(v));
        return scalar;
    }
    if (isfinite(v) && fabs(v) > FLT_MAX)
        v = copysign(INFINITY, v);
    f = (float)v;
    memcpy(&bits, &f, sizeof(bits));
    return (struct pfl_text_scalar){PFL_WIRE_FIXED32, bits};
}

static int parse_float(ProtobufCType type, bool is_negative, const struct pfl_text_token *token,
                       struct pfl_text_scalar *ret_scalar)
{
    double v = 0;
    int rc = 0;

    if (token->kind == PFL_TEXT_NUMBER)
        rc = read_decimal(token->text, &v);
    else if (is_word(token->text, "inf") || is_word(token->text, "infinity"))
        v = INFINITY;
    else if (is_word(token->text, "nan"))
        v = NAN;
    else
        rc = PFL_EINVAL;
    if (rc == 0)
        *ret_scalar = wire_float(type, is_negative ? -v : v);
    return rc;
}

static int parse_bool(bool is_negative, const struct pfl_text_token *token,
                      struct pfl_text_scalar *ret_scalar)
{
    static const char *const names[] = {"false", "False", "f", "true", "True", "t"};
    uint64_t v;
    int rc;

    if (is_negative)
        return PFL_EINVAL;
    if (token->kind == PFL_TEXT_NUMBER) {
        rc = read_magnitude(token->text, &v);
        if (rc != 0 || v > 1)
            return PFL_EINVAL;
        *ret_scalar = (struct pfl_text_scalar){PFL_WIRE_VARINT, v};
        return 0;
    }
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (pfl_text_token_is_name(token, names[i])) {
            *ret_scalar = (struct pfl_text_scalar){PFL_WIRE_VARINT, i >= 3};
            return 0;
        }
    }
    return PFL_EINVAL;
}

int pfl_text_scalar_parse(ProtobufCType type, bool is_negative, const struct pfl_text_token *token,
                          struct pfl_text_scalar *ret_scalar)
{
    if (token->kind != PFL_TEXT_NAME && token->kind != PFL_TEXT_NUMBER)
        return PFL_EINVAL;
    if (type == PROTOBUF_C_TYPE_BOOL)
        return parse_bool(is_negative, token, ret_scalar);
    if (type == PROTOBUF_C_TYPE_FLOAT || type == PROTOBUF_C_TYPE_DOUBLE)
        return parse_float(type, is_negative, token, ret_scalar);
    if (token->kind != PFL_TEXT_NUMBER)
        return PFL_EINVAL;
    return parse_integer(type, is_negative, token->text, ret_scalar);
}
