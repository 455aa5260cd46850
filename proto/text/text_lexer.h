/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens of protobuf text format, with their places. For text_format.c alone. */
#ifndef PFL_PROTO_TEXT_TEXT_LEXER_H
#define PFL_PROTO_TEXT_TEXT_LEXER_H

#include "base/bytes.h"

enum pfl_text_token_kind {
    PFL_TEXT_END,
    PFL_TEXT_NAME,       /* [A-Za-z_][A-Za-z0-9_]* */
    PFL_TEXT_NUMBER,     /* begins with a digit, or with a point and a digit; not validated yet */
    PFL_TEXT_STRING,     /* with its quotes, escapes untouched */
    PFL_TEXT_OPEN_QUOTE, /* a string that does not end on its line */
    PFL_TEXT_SYMBOL,     /* any other single byte */
};

struct pfl_text_token {
    enum pfl_text_token_kind kind;
    struct pfl_span text; /* borrowed from the input */
    unsigned line;        /* from 1 */
    unsigned column;      /* from 1, in bytes */
};

struct pfl_text_lexer {
    const uint8_t *pos; /* borrowed: the input */
    const uint8_t *end;
    const uint8_t *line_start;
    unsigned line;
};

void pfl_text_lexer_init(struct pfl_text_lexer *self, struct pfl_span text);
/* At the end of the input it always returns PFL_TEXT_END. */
struct pfl_text_token pfl_text_lexer_next(struct pfl_text_lexer *self);

bool pfl_text_token_is_symbol(const struct pfl_text_token *token, char symbol);
bool pfl_text_token_is_name(const struct pfl_text_token *token, const char *name);

#define PFL_TEXT_DESCRIPTION_MAX 48u
/* The token for an error message: `"}"`, `the end of the text`; escaped and cut. */
void pfl_text_token_describe(const struct pfl_text_token *token,
                             char ret_description[PFL_TEXT_DESCRIPTION_MAX]);

#endif
