/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command line for a shell: see command_line.h. A word of other characters than those that no
 * shell interprets is put in single quotes, in which a single quote is '\''. Failure: a line that
 * is too long is cut, marked with three dots at the end.
 */
#include "consumer/web/html/command_line.h"

#include <string.h>

#define CUT_MARK " ..."

static void add(struct pfl_command_line *c, const char *text)
{
    size_t len = strlen(text);

    if (c->is_cut)
        return;
    if (c->len + len + sizeof(CUT_MARK) > sizeof(c->text)) {
        memcpy(c->text + c->len, CUT_MARK, sizeof(CUT_MARK));
        c->is_cut = true;
        return;
    }
    memcpy(c->text + c->len, text, len + 1);
    c->len += (unsigned)len;
}

void pfl_command_line_begin(struct pfl_command_line *self, const char *command)
{
    self->len = 0;
    self->is_cut = false;
    add(self, "perfleet ");
    add(self, command);
}

static bool is_plain(const char *word)
{
    return word[0] != '\0' && strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                           "0123456789_-./:=,@%+") == strlen(word);
}

static void add_word(struct pfl_command_line *c, const char *word)
{
    char one[2] = "";

    if (is_plain(word)) {
        add(c, word);
        return;
    }
    add(c, "'");
    for (; *word != '\0'; word++) {
        one[0] = *word;
        add(c, *word == '\'' ? "'\\''" : one);
    }
    add(c, "'");
}

void pfl_command_line_word(struct pfl_command_line *self, const char *word)
{
    add(self, " ");
    add_word(self, word);
}

void pfl_command_line_option(struct pfl_command_line *self, const char *option, const char *value)
{
    if (value == NULL || value[0] == '\0')
        return;
    add(self, " ");
    add(self, option);
    add(self, " ");
    add_word(self, value);
}

void pfl_command_line_quoted(struct pfl_command_line *self, const char *words)
{
    add(self, words);
}
