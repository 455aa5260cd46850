/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes the escapes of a string literal: single letters, one to three octal digits, \x with one
 * or two hexadecimal digits, \u and \U for code points (a surrogate pair of two \u is one), which
 * become UTF-8. Anything else after a backslash is an error at its place.
 */
#include "proto/text/text_string.h"

#define BAD_VALUE      UINT32_MAX
#define CODE_POINT_MAX 0x10ffffu

static uint32_t digit_of(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return (uint32_t)(c - '0');
    c |= 0x20;
    if (c >= 'a' && c <= 'f')
        return (uint32_t)(c - 'a' + 10);
    return BAD_VALUE;
}

/* Between `min` and `max` digits of `base`. */
static uint32_t read_digits(struct pfl_reader *r, uint32_t base, unsigned min, unsigned max)
{
    uint32_t v = 0;
    unsigned n = 0;

    while (n < max && r->left != 0 && digit_of(*r->pos) < base) {
        v = v * base + digit_of(pfl_reader_u8(r));
        n++;
    }
    return n >= min ? v : BAD_VALUE;
}

static bool is_high_surrogate(uint32_t c)
{
    return c >= 0xd800 && c <= 0xdbff;
}

static bool is_low_surrogate(uint32_t c)
{
    return c >= 0xdc00 && c <= 0xdfff;
}

/* After `\u` or `\U`, `digits` of them. */
static uint32_t read_code_point(struct pfl_reader *r, unsigned digits)
{
    uint32_t c = read_digits(r, 16, digits, digits);
    uint32_t low;

    if (is_high_surrogate(c)) {
        if (pfl_reader_u8(r) != '\\' || pfl_reader_u8(r) != 'u')
            return BAD_VALUE;
        low = read_digits(r, 16, 4, 4);
        return is_low_surrogate(low) ? 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00) : BAD_VALUE;
    }
    return is_low_surrogate(c) || c > CODE_POINT_MAX ? BAD_VALUE : c;
}

static int append_utf8(struct pfl_buf *out, uint32_t c)
{
    uint8_t b[4];
    size_t n = 0;

    if (c < 0x80) {
        b[n++] = (uint8_t)c;
    } else if (c < 0x800) {
        b[n++] = (uint8_t)(0xc0 | c >> 6);
        b[n++] = (uint8_t)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        b[n++] = (uint8_t)(0xe0 | c >> 12);
        b[n++] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
        b[n++] = (uint8_t)(0x80 | (c & 0x3f));
    } else {
        b[n++] = (uint8_t)(0xf0 | c >> 18);
        b[n++] = (uint8_t)(0x80 | (c >> 12 & 0x3f));
        b[n++] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
        b[n++] = (uint8_t)(0x80 | (c & 0x3f));
    }
    return pfl_buf_append(out, b, n);
}

static uint32_t simple_escape(uint8_t c)
{
    static const char letters[] = "abfnrtv\\'\"?";
    static const char meanings[] = "\a\b\f\n\r\t\v\\'\"?";
    const char *found = c != 0 ? strchr(letters, c) : NULL;

    return found != NULL ? (uint8_t)meanings[found - letters] : BAD_VALUE;
}

/* After the backslash. */
static int decode_escape(struct pfl_reader *r, struct pfl_buf *out)
{
    uint8_t c = r->left != 0 ? *r->pos : 0;
    uint32_t v;
    uint8_t byte;

    if (c >= '0' && c <= '7') {
        v = read_digits(r, 8, 1, 3);
    } else {
        (void)pfl_reader_u8(r);
        if (c == 'u' || c == 'U') {
            v = read_code_point(r, c == 'u' ? 4 : 8);
            return v != BAD_VALUE ? append_utf8(out, v) : PFL_EPARSE;
        }
        v = c == 'x' || c == 'X' ? read_digits(r, 16, 1, 2) : simple_escape(c);
    }
    if (v > UINT8_MAX)
        return PFL_EPARSE;
    byte = (uint8_t)v;
    return pfl_buf_append(out, &byte, 1);
}

int pfl_text_string_decode(struct pfl_span literal, struct pfl_buf *out, size_t *ret_offset)
{
    struct pfl_reader r = pfl_reader_of(pfl_span_of(literal.data + 1, literal.len - 2));
    int rc = 0;

    while (rc == 0 && r.left != 0) {
        const uint8_t *run = r.pos;
        const uint8_t *stop = memchr(run, '\\', r.left);
        size_t plain = stop != NULL ? (size_t)(stop - run) : r.left;

        rc = pfl_buf_append(out, pfl_reader_bytes(&r, plain).data, plain);
        if (rc != 0 || stop == NULL)
            break;
        *ret_offset = (size_t)(stop - literal.data);
        (void)pfl_reader_u8(&r);
        rc = decode_escape(&r, out);
    }
    return rc;
}
