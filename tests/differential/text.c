/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text that grows (see text.h). Running out of memory or past DIFF_TEXT_MAX ends the program: it
 * is a test tool, and half an outcome would be compared with a whole one.
 */
#include "tests/differential/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

_Noreturn void diff_die(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("difftest: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(3);
}

void diff_text_init(struct diff_text *self)
{
    pfl_buf_init(&self->buf, DIFF_TEXT_MAX);
}

void diff_text_fini(struct diff_text *self)
{
    pfl_buf_fini(&self->buf);
}

void diff_text_clear(struct diff_text *self)
{
    pfl_buf_clear(&self->buf);
}

void diff_text_add(struct diff_text *self, const char *format, ...)
{
    va_list args, again;
    uint8_t *room;
    int len;

    va_start(args, format);
    va_copy(again, args);
    len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (len < 0 || pfl_buf_reserve(&self->buf, (size_t)len + 1, &room) != 0)
        diff_die("a text of more than %u bytes", DIFF_TEXT_MAX);
    (void)vsnprintf((char *)room, (size_t)len + 1, format, again);
    va_end(again);
    pfl_buf_extend(&self->buf, (size_t)len);
}

const char *diff_text_get(struct diff_text *self)
{
    uint8_t *room;

    if (pfl_buf_reserve(&self->buf, 1, &room) != 0)
        diff_die("out of memory");
    *room = 0;
    return (const char *)room - self->buf.len;
}

bool diff_words_next(struct diff_words *self, char ret_word[DIFF_WORD_MAX])
{
    size_t len;

    self->pos += strspn(self->pos, " ");
    len = strcspn(self->pos, " \n");
    if (len == 0)
        return false;
    memset(ret_word, 0, DIFF_WORD_MAX);
    memcpy(ret_word, self->pos, len < DIFF_WORD_MAX ? len : DIFF_WORD_MAX - 1);
    self->pos += len;
    return true;
}
