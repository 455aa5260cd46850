/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts protobuf text format into tokens. No allocation; cannot fail: invalid text becomes a token
 * that no rule of the parser accepts. White space and comments (# to the end of the line) are
 * skipped; a byte order mark at the beginning is, too.
 */
#include "proto/text/text_lexer.h"

#include <stdio.h>

#define SHOWN_MAX 24u

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

static bool is_name_start(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_name_part(uint8_t c)
{
    return is_name_start(c) || is_digit(c);
}

void pfl_text_lexer_init(struct pfl_text_lexer *self, struct pfl_span text)
{
    static const uint8_t mark[] = {0xef, 0xbb, 0xbf};

    if (text.len >= sizeof(mark) && memcmp(text.data, mark, sizeof(mark)) == 0)
        text = pfl_span_of(text.data + sizeof(mark), text.len - sizeof(mark));
    if (text.len == 0)
        text = pfl_span_of("", 0);
    *self = (struct pfl_text_lexer){
        .pos = text.data, .end = text.data + text.len, .line_start = text.data, .line = 1};
}

static void skip_comment(struct pfl_text_lexer *self)
{
    while (self->pos < self->end && *self->pos != '\n')
        self->pos++;
}

static void skip_blanks(struct pfl_text_lexer *self)
{
    while (self->pos < self->end) {
        uint8_t c = *self->pos;

        if (c == '#') {
            skip_comment(self);
        } else if (c == '\n') {
            self->pos++;
            self->line++;
            self->line_start = self->pos;
        } else if (c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f') {
            self->pos++;
        } else {
            return;
        }
    }
}

static void scan_name(struct pfl_text_lexer *self)
{
    while (self->pos < self->end && is_name_part(*self->pos))
        self->pos++;
}

/* Takes a sign after an exponent's letter; hexadecimal digits have none. */
static void scan_number(struct pfl_text_lexer *self)
{
    const uint8_t *start = self->pos;
    bool is_hex = self->end - start > 1 && start[0] == '0' && (start[1] | 0x20) == 'x';

    while (self->pos < self->end) {
        uint8_t c = *self->pos;
        bool is_sign = (c == '+' || c == '-') && !is_hex && (self->pos[-1] | 0x20) == 'e';

        if (!is_name_part(c) && c != '.' && !(is_sign && self->pos > start))
            return;
        self->pos++;
    }
}

static enum pfl_text_token_kind scan_string(struct pfl_text_lexer *self)
{
    uint8_t quote = *self->pos++;

    while (self->pos < self->end && *self->pos != '\n') {
        uint8_t c = *self->pos++;

        if (c == quote)
            return PFL_TEXT_STRING;
        if (c == '\\' && self->pos < self->end && *self->pos != '\n')
            self->pos++;
    }
    return PFL_TEXT_OPEN_QUOTE;
}

static enum pfl_text_token_kind scan(struct pfl_text_lexer *self)
{
    uint8_t c = *self->pos;

    if (is_name_start(c)) {
        scan_name(self);
        return PFL_TEXT_NAME;
    }
    if (is_digit(c) || (c == '.' && self->end - self->pos > 1 && is_digit(self->pos[1]))) {
        self->pos++;
        scan_number(self);
        return PFL_TEXT_NUMBER;
    }
    if (c == '"' || c == '\'')
        return scan_string(self);
    self->pos++;
    return PFL_TEXT_SYMBOL;
}

struct pfl_text_token pfl_text_lexer_next(struct pfl_text_lexer *self)
{
    struct pfl_text_token token = {.kind = PFL_TEXT_END};
    const uint8_t *start;

    skip_blanks(self);
    start = self->pos;
    token.line = self->line;
    token.column = (unsigned)(start - self->line_start) + 1;
    if (self->pos == self->end)
        return token;
    token.kind = scan(self);
    token.text = pfl_span_of(start, (size_t)(self->pos - start));
    return token;
}

bool pfl_text_token_is_symbol(const struct pfl_text_token *token, char symbol)
{
    return token->kind == PFL_TEXT_SYMBOL && token->text.data[0] == (uint8_t)symbol;
}

bool pfl_text_token_is_name(const struct pfl_text_token *token, const char *name)
{
    return token->kind == PFL_TEXT_NAME && token->text.len == strlen(name) &&
           memcmp(token->text.data, name, token->text.len) == 0;
}

void pfl_text_token_describe(const struct pfl_text_token *token,
                             char ret_description[PFL_TEXT_DESCRIPTION_MAX])
{
    size_t shown = token->text.len < SHOWN_MAX ? token->text.len : SHOWN_MAX;
    char *out = ret_description;
    size_t n = 0;

    if (token->kind == PFL_TEXT_END) {
        (void)snprintf(out, PFL_TEXT_DESCRIPTION_MAX, "the end of the text");
        return;
    }
    out[n++] = '"';
    for (size_t i = 0; i < shown && n < PFL_TEXT_DESCRIPTION_MAX - 12; i++) {
        uint8_t c = token->text.data[i];

        if (c >= 0x20 && c < 0x7f)
            out[n++] = (char)c;
        else
            n += (size_t)snprintf(out + n, 5, "\\x%02x", c);
    }
    (void)snprintf(out + n, PFL_TEXT_DESCRIPTION_MAX - n, "%s\"",
                   shown < token->text.len ? "..." : "");
}
