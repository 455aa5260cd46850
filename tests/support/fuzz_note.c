/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes of a replay (fuzz_note.h), in one text: "== INPUT", then its lines. An input's lines after
 * the first LINES_MAX are only hashed: the block ends with their number and the hash. Heap and
 * parsers are not those under test: a mutant of these must not write the notes.
 */
#include "tests/support/fuzz_note.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define TEXT_MAX   (4u << 20)
#define LINE_MAX   1024u
#define LINES_MAX  160u
#define BYTES_MAX  200u
#define FIELDS_MAX 48u
#define DEPTH_MAX  12u

static struct {
    char text[TEXT_MAX];
    size_t len;
    char last[LINE_MAX];
    unsigned repeats; /* of `last`, after the first */
    unsigned lines;   /* of this input */
    uint64_t hash;    /* of the lines that are not shown */
    bool is_on;
} notes;

/* What does not fit is hashed and counted. */
struct line {
    char text[LINE_MAX];
    size_t len;
    size_t cut;
    uint64_t hash;
};

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t len)
{
    const uint8_t *bytes = data;

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ bytes[i]) * 1099511628211u;
    return hash;
}

static uint32_t hash_of(struct pfl_span bytes)
{
    uint64_t hash = hash_bytes(14695981039346656037u, bytes.data, bytes.len);

    return (uint32_t)(hash ^ hash >> 32);
}

static void add(struct line *l, const char *text, size_t len)
{
    size_t room = sizeof(l->text) - 40 - l->len;
    size_t most = len < room ? len : room;

    memcpy(l->text + l->len, text, most);
    l->len += most;
    l->cut += len - most;
    l->hash = hash_bytes(l->hash, text + most, len - most);
}

__attribute__((format(printf, 2, 3))) static void addf(struct line *l, const char *format, ...)
{
    char text[LINE_MAX];
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (len > 0)
        add(l, text, (size_t)len < sizeof(text) ? (size_t)len : sizeof(text) - 1);
}

static void append(const char *text, size_t len)
{
    if (len > sizeof(notes.text) - notes.len)
        abort();
    memcpy(notes.text + notes.len, text, len);
    notes.len += len;
}

static void append_line(const char *text)
{
    append(text, strlen(text));
    append("\n", 1);
}

static void flush_repeats(void)
{
    char text[40];

    if (notes.repeats != 0 && notes.lines <= LINES_MAX) {
        (void)snprintf(text, sizeof(text), "  (%u more)", notes.repeats);
        append_line(text);
    }
    notes.repeats = 0;
}

static void end_line(struct line *l)
{
    int len;

    if (l->cut != 0) {
        len = snprintf(l->text + l->len, 40, "... %zu more, %08x", l->cut, (unsigned)l->hash);
        l->len += (size_t)len;
    }
    l->text[l->len] = '\0';
    if (notes.lines != 0 && strcmp(l->text, notes.last) == 0) {
        notes.repeats++;
        notes.hash = hash_bytes(notes.hash, "=", 1);
        return;
    }
    flush_repeats();
    memcpy(notes.last, l->text, l->len + 1);
    if (++notes.lines <= LINES_MAX)
        append_line(l->text);
    else
        notes.hash = hash_bytes(notes.hash, l->text, l->len);
}

static bool is_text(struct pfl_span bytes)
{
    for (size_t i = 0; i < bytes.len; i++)
        if ((bytes.data[i] < ' ' && bytes.data[i] != '\n') || bytes.data[i] >= 0x7f)
            return false;
    return true;
}

static void add_quoted(struct line *l, struct pfl_span bytes)
{
    size_t shown = bytes.len <= BYTES_MAX ? bytes.len : BYTES_MAX / 4;

    add(l, "\"", 1);
    for (size_t i = 0; i < shown; i++) {
        char c = (char)bytes.data[i];

        if (c == '\n')
            add(l, "\\n", 2);
        else if (c == '"' || c == '\\')
            addf(l, "\\%c", c);
        else if (bytes.data[i] >= ' ' && bytes.data[i] < 0x7f)
            add(l, &c, 1);
        else
            addf(l, "\\%02x", bytes.data[i]);
    }
    add(l, "\"", 1);
    if (shown != bytes.len)
        addf(l, " (%zu bytes, %08x)", bytes.len, hash_of(bytes));
}

struct field {
    uint64_t id;
    unsigned type;
    uint64_t value;
    struct pfl_span bytes;
};

static bool take_varint(struct pfl_span *rest, uint64_t *ret_value)
{
    *ret_value = 0;
    for (unsigned i = 0; i < 10 && i < rest->len; i++) {
        *ret_value |= (uint64_t)(rest->data[i] & 0x7f) << 7 * i;
        if (rest->data[i] < 0x80) {
            *rest = pfl_span_of(rest->data + i + 1, rest->len - i - 1);
            return true;
        }
    }
    return false;
}

static bool take_field(struct pfl_span *rest, struct field *f)
{
    uint64_t tag;
    uint64_t len;

    if (!take_varint(rest, &tag) || tag >> 3 == 0 || tag >> 32 != 0)
        return false;
    f->id = tag >> 3;
    f->type = (unsigned)(tag & 7);
    if (f->type == PFL_WIRE_VARINT)
        return take_varint(rest, &f->value);
    if (f->type == PFL_WIRE_FIXED64 || f->type == PFL_WIRE_FIXED32)
        len = f->type == PFL_WIRE_FIXED64 ? 8 : 4;
    else if (f->type != PFL_WIRE_BYTES || !take_varint(rest, &len))
        return false;
    if (len > rest->len)
        return false;
    f->bytes = pfl_span_of(rest->data, (size_t)len);
    f->value = 0;
    for (size_t i = 0; f->type != PFL_WIRE_BYTES && i < len; i++)
        f->value |= (uint64_t)rest->data[i] << 8 * i;
    *rest = pfl_span_of(rest->data + len, rest->len - (size_t)len);
    return true;
}

static bool is_message(struct pfl_span bytes)
{
    struct field f;

    while (bytes.len != 0)
        if (!take_field(&bytes, &f))
            return false;
    return true;
}

static void add_value(struct line *l, struct pfl_span bytes, unsigned depth);

/* 1 5, 2 "name", 3 {1 7}; x1 and x5 are fixed64 and fixed32. */
static void add_message(struct line *l, struct pfl_span rest, unsigned depth)
{
    struct field f;
    unsigned count = 0;

    while (rest.len != 0 && count < FIELDS_MAX && take_field(&rest, &f)) {
        addf(l, "%s%u", count++ == 0 ? "" : ", ", (unsigned)f.id);
        if (f.type == PFL_WIRE_BYTES) {
            add(l, " ", 1);
            add_value(l, f.bytes, depth + 1);
        } else {
            addf(l, "%s %llu",
                 f.type == PFL_WIRE_VARINT    ? ""
                 : f.type == PFL_WIRE_FIXED64 ? "x1"
                                              : "x5",
                 (unsigned long long)f.value);
        }
    }
    if (rest.len != 0)
        addf(l, ", %zu more, %08x", rest.len, hash_of(rest));
}

static void add_value(struct line *l, struct pfl_span bytes, unsigned depth)
{
    if (bytes.len == 0 || is_text(bytes) || depth >= DEPTH_MAX || !is_message(bytes)) {
        add_quoted(l, bytes);
        return;
    }
    add(l, "{", 1);
    add_message(l, bytes, depth);
    add(l, "}", 1);
}

void note(const char *format, ...)
{
    struct line l = {.hash = 1};
    char text[4 * LINE_MAX];
    va_list args;
    int len;

    if (!notes.is_on)
        return;
    va_start(args, format);
    len = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (len < 0)
        abort();
    len = (size_t)len < sizeof(text) ? len : (int)sizeof(text) - 1;
    for (int i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];

        if (c >= ' ' && c < 0x7f)
            add(&l, &text[i], 1);
        else
            addf(&l, "\\%02x", c);
    }
    end_line(&l);
}

void note_bytes(const char *what, struct pfl_span bytes)
{
    struct line l = {.hash = 1};

    if (!notes.is_on)
        return;
    addf(&l, "%s ", what);
    add_quoted(&l, bytes);
    end_line(&l);
}

void note_text(const char *what, struct pfl_span text)
{
    if (!notes.is_on)
        return;
    note("%s: %zu bytes", what, text.len);
    while (text.len != 0) {
        const uint8_t *end = memchr(text.data, '\n', text.len);
        size_t len = end != NULL ? (size_t)(end - text.data) : text.len;

        note("| %.*s%s", (int)(len < LINE_MAX ? len : LINE_MAX), (const char *)text.data,
             end == NULL ? " (no newline)" : "");
        len += end != NULL;
        text = pfl_span_of(text.data + len, text.len - len);
    }
}

void note_message(const char *what, struct pfl_span bytes)
{
    struct line l = {.hash = 1};

    if (!notes.is_on)
        return;
    addf(&l, "%s ", what);
    if (is_message(bytes))
        add_message(&l, bytes, 0);
    else
        add_quoted(&l, bytes);
    end_line(&l);
}

void note_fields(const char *what, struct pfl_span bytes)
{
    struct field f;

    if (!notes.is_on)
        return;
    if (!is_message(bytes)) {
        note_bytes(what, bytes);
        return;
    }
    while (bytes.len != 0 && take_field(&bytes, &f)) {
        struct line l = {.hash = 1};

        addf(&l, "%s %u ", what, (unsigned)f.id);
        if (f.type == PFL_WIRE_BYTES)
            add_value(&l, f.bytes, 1);
        else
            addf(&l, "%llu", (unsigned long long)f.value);
        end_line(&l);
    }
}

struct pfl_span note_get_all(void)
{
    return pfl_span_of(notes.text, notes.len);
}

void note_begin(const char *input)
{
    notes.is_on = true;
    notes.lines = 0;
    notes.hash = 1;
    append("== ", 3);
    append_line(input);
}

void note_end(void)
{
    char text[80];

    flush_repeats();
    if (notes.lines > LINES_MAX) {
        (void)snprintf(text, sizeof(text), "... %u more lines, %08x", notes.lines - LINES_MAX,
                       (unsigned)(notes.hash ^ notes.hash >> 32));
        append_line(text);
    }
    notes.is_on = false;
}
