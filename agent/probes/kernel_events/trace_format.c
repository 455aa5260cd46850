/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the kernel's format files.
 *
 *     name: sched_switch
 *     ID: 372
 *     format:
 *         field:char prev_comm[16];   offset:8;   size:16;   signed:0;
 *
 * Happy path: line by line; a `field:` line is split at its semicolons: the declaration yields name
 * and kind, the rest offset, size and sign. `print fmt:` ends the description. Failure: a line that
 * is not of this form is skipped; a file without name, id or fields is PFL_EPARSE. Numbers that do
 * not fit are refused, so offset + size never overflows.
 */
#include "agent/probes/kernel_events/trace_format.h"

#include <ctype.h>

struct line {
    const char *pos;
    const char *end;
};

static bool take_line(struct pfl_reader *r, struct line *ret_line)
{
    const uint8_t *newline;
    size_t len;

    if (r->left == 0)
        return false;
    newline = memchr(r->pos, '\n', r->left);
    len = newline != NULL ? (size_t)(newline - r->pos) : r->left;
    ret_line->pos = (const char *)r->pos;
    ret_line->end = ret_line->pos + len;
    (void)pfl_reader_bytes(r, newline != NULL ? len + 1 : len);
    return true;
}

static bool skip_word(struct line *line, const char *word)
{
    size_t len = strlen(word);

    while (line->pos < line->end && isspace((unsigned char)*line->pos))
        line->pos++;
    if ((size_t)(line->end - line->pos) < len || memcmp(line->pos, word, len) != 0)
        return false;
    line->pos += len;
    return true;
}

static bool take_number(struct line *line, uint32_t max, uint32_t *ret_number)
{
    uint32_t n = 0;
    bool any = false;

    while (line->pos < line->end && *line->pos == ' ')
        line->pos++;
    for (; line->pos < line->end && isdigit((unsigned char)*line->pos); line->pos++) {
        n = n * 10 + (uint32_t)(*line->pos - '0');
        any = true;
        if (n > max)
            return false;
    }
    if (any)
        *ret_number = n;
    return any;
}

static bool copy_name(const char *from, const char *end, char *ret_name)
{
    size_t len = (size_t)(end - from);

    if (len == 0 || len >= PFL_TRACE_NAME_MAX)
        return false;
    memcpy(ret_name, from, len);
    ret_name[len] = '\0';
    return true;
}

static bool has_word(const struct line *text, const char *word)
{
    size_t len = strlen(word);

    return memmem(text->pos, (size_t)(text->end - text->pos), word, len) != NULL;
}

static bool is_name_char(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* The name: the last identifier before the semicolon or the bracket. */
static bool split_declaration(const struct line *decl, struct line *ret_type, char *ret_name,
                              bool *ret_is_array)
{
    const char *end = decl->end;
    const char *start;

    while (end > decl->pos && isspace((unsigned char)end[-1]))
        end--;
    *ret_is_array = end > decl->pos && end[-1] == ']';
    if (*ret_is_array) {
        while (end > decl->pos && *end != '[')
            end--;
    }
    start = end;
    while (start > decl->pos && is_name_char(start[-1]))
        start--;
    ret_type->pos = decl->pos;
    ret_type->end = start;
    return copy_name(start, end, ret_name);
}

static uint16_t find_element_bytes(const struct line *type)
{
    static const struct {
        const char *word;
        uint16_t bytes;
    } sizes[] = {{"long long", 8}, {"64", 8},    {"long", 8}, {"size_t", 8},
                 {"*", 8},         {"short", 2}, {"16", 2},   {"char", 1},
                 {"u8", 1},        {"s8", 1},    {"bool", 1}};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        if (has_word(type, sizes[i].word))
            return sizes[i].bytes;
    }
    return 4;
}

static enum pfl_trace_kind judge_kind(const struct line *type, bool is_array, uint16_t size)
{
    bool is_char = has_word(type, "char");
    bool is_int = size == 1 || size == 2 || size == 4 || size == 8;

    if (has_word(type, "__data_loc"))
        return is_char && size == 4 ? PFL_TRACE_DATA_LOC : PFL_TRACE_OTHER;
    if (has_word(type, "__rel_loc"))
        return is_char && size == 4 ? PFL_TRACE_REL_LOC : PFL_TRACE_OTHER;
    if (is_array && is_char)
        return size == 0 ? PFL_TRACE_TAIL : PFL_TRACE_CHARS;
    if (is_array)
        return size != 0 ? PFL_TRACE_INTS : PFL_TRACE_OTHER;
    if (is_char && has_word(type, "*"))
        return size == 8 ? PFL_TRACE_CHAR_PTR : PFL_TRACE_OTHER;
    return is_int ? PFL_TRACE_INT : PFL_TRACE_OTHER;
}

/* Some kernels declare the addresses of code as numbers. */
static bool is_address(const struct line *type, const struct pfl_trace_field *field)
{
    return field->kind == PFL_TRACE_INT && field->size == 8 &&
           (has_word(type, "*") || has_word(type, "fl_owner_t") ||
            strcmp(field->name, "function") == 0 || strcmp(field->name, "caller") == 0 ||
            strcmp(field->name, "call_site") == 0 || strcmp(field->name, "ip") == 0 ||
            strcmp(field->name, "parent_ip") == 0);
}

static bool parse_field(struct line *line, struct pfl_trace_field *ret_field)
{
    struct line decl = {.pos = line->pos};
    struct line type;
    uint32_t offset;
    uint32_t size;
    uint32_t is_signed;
    bool is_array;

    decl.end = memchr(line->pos, ';', (size_t)(line->end - line->pos));
    if (decl.end == NULL || !split_declaration(&decl, &type, ret_field->name, &is_array))
        return false;
    line->pos = decl.end + 1;
    if (!skip_word(line, "offset:") || !take_number(line, 32767, &offset) || !skip_word(line, ";"))
        return false;
    if (!skip_word(line, "size:") || !take_number(line, 32767, &size) || !skip_word(line, ";"))
        return false;
    if (!skip_word(line, "signed:") || !take_number(line, 1, &is_signed))
        return false;
    ret_field->offset = (uint16_t)offset;
    ret_field->size = (uint16_t)size;
    ret_field->is_signed = is_signed != 0;
    ret_field->kind = judge_kind(&type, is_array, ret_field->size);
    if (is_address(&type, ret_field))
        ret_field->kind = PFL_TRACE_ADDRESS;
    ret_field->element_bytes = find_element_bytes(&type);
    if (ret_field->kind == PFL_TRACE_INTS && size % ret_field->element_bytes != 0)
        ret_field->kind = PFL_TRACE_OTHER;
    return true;
}

static void take_field(struct line *line, struct pfl_trace_format *f)
{
    struct pfl_trace_field *field;

    if (f->field_count == PFL_TRACE_FIELDS_MAX)
        return;
    field = &f->fields[f->field_count];
    if (!parse_field(line, field))
        return;
    f->field_count++;
    if (field->offset + field->size > f->fixed_bytes)
        f->fixed_bytes = (uint16_t)(field->offset + field->size);
}

int pfl_trace_format_parse(struct pfl_span text, struct pfl_trace_format *ret_format)
{
    struct pfl_reader r = pfl_reader_of(text);
    struct line line;
    bool has_id = false;
    uint32_t id;

    memset(ret_format, 0, sizeof(*ret_format));
    while (take_line(&r, &line) && !skip_word(&line, "print fmt:")) {
        if (skip_word(&line, "name:")) {
            (void)skip_word(&line, "");
            if (!copy_name(line.pos, line.end, ret_format->name))
                return PFL_EPARSE;
        } else if (skip_word(&line, "ID:")) {
            has_id = take_number(&line, PFL_TRACE_EVENT_ID_MAX, &id);
            if (has_id)
                ret_format->id = (uint16_t)id;
        } else if (skip_word(&line, "field:")) {
            take_field(&line, ret_format);
        }
    }
    if (ret_format->name[0] == '\0' || !has_id || ret_format->field_count == 0)
        return PFL_EPARSE;
    return 0;
}

const struct pfl_trace_field *pfl_trace_format_find(const struct pfl_trace_format *self,
                                                    const char *name)
{
    for (uint16_t i = 0; i < self->field_count; i++) {
        if (strcmp(self->fields[i].name, name) == 0)
            return &self->fields[i];
    }
    return NULL;
}

int pfl_trace_page_layout_parse(struct pfl_span text, struct pfl_trace_page_layout *ret_layout)
{
    struct pfl_reader r = pfl_reader_of(text);
    struct pfl_trace_field field;
    struct line line;
    uint16_t commit = 0;
    uint16_t data = 0;

    while (take_line(&r, &line)) {
        if (!skip_word(&line, "field:") || !parse_field(&line, &field))
            continue;
        if (strcmp(field.name, "commit") == 0 && field.offset == 8)
            commit = field.size;
        else if (strcmp(field.name, "data") == 0)
            data = field.offset;
    }
    if ((commit != 4 && commit != 8) || data < 8 + commit)
        return PFL_EPARSE;
    ret_layout->commit_bytes = commit;
    ret_layout->data_offset = data;
    return 0;
}
