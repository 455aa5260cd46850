/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text that grows, the words of a line, and the end of the program when something is wrong with
 * the machine: what the parts of difftest share.
 */
#ifndef PFL_TESTS_DIFFERENTIAL_TEXT_H
#define PFL_TESTS_DIFFERENTIAL_TEXT_H

#include "base/buf.h"

#define DIFF_TEXT_MAX (64u << 20)

struct diff_text {
    struct pfl_buf buf; /* owned */
};

void diff_text_init(struct diff_text *self);
void diff_text_fini(struct diff_text *self);
void diff_text_clear(struct diff_text *self);
void diff_text_add(struct diff_text *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The whole text, NUL-terminated; borrowed until it changes. */
const char *diff_text_get(struct diff_text *self);

/* A line being taken apart at its blanks. */
struct diff_words {
    const char *pos;
};
#define DIFF_WORD_MAX 256u
/* False at the end. A longer word is cut. */
bool diff_words_next(struct diff_words *self, char ret_word[DIFF_WORD_MAX]);

/* One line on stderr, exit 3: the machine failed, nothing was learned. */
_Noreturn void diff_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
