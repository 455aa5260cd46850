/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules as lists of lines (see schedule.h). The list owns its lines; running out of memory ends
 * the program. What a packet is made of is told by the lines that fill its chunks.
 */
#include "tests/differential/schedule.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"

#define SEPARATOR "---"

void diff_schedule_init(struct diff_schedule *self)
{
    *self = (struct diff_schedule){0};
}

void diff_schedule_fini(struct diff_schedule *self)
{
    for (size_t i = 0; i < self->len; i++)
        pfl_mem_free(self->lines[i]);
    pfl_mem_free((void *)self->lines);
    *self = (struct diff_schedule){0};
}

void diff_schedule_add(struct diff_schedule *self, const char *line, size_t len)
{
    if (self->len == self->capacity) {
        self->capacity = self->capacity * 2 + 64;
        self->lines = pfl_mem_realloc((void *)self->lines, self->capacity * sizeof(char *));
    }
    if (self->lines == NULL || (self->lines[self->len] = pfl_mem_strndup(line, len)) == NULL)
        diff_die("out of memory");
    self->len++;
}

void diff_schedule_copy(struct diff_schedule *self, const struct diff_schedule *from,
                        const bool *keep)
{
    diff_schedule_init(self);
    for (size_t i = 0; i < from->len; i++) {
        if (keep == NULL || keep[i])
            diff_schedule_add(self, from->lines[i], strlen(from->lines[i]));
    }
}

bool diff_schedule_is_tidy(const struct diff_schedule *self)
{
    return self->len > 0 && strcmp(self->lines[0], DIFF_TIDY) == 0;
}

/* A chunk as its lines fill it, and where in it one fragment is. */
struct chunk {
    size_t place_len; /* of the words after "fill ": producer, page and chunk */
    unsigned long fragments;
    unsigned long at; /* of the fragment, from 1 on; 0: it is not here */
    bool continues, goes_on, lies;
};

static void note_flags(struct chunk *self, const char *flags)
{
    self->continues |= strchr(flags, 'p') != NULL;
    self->goes_on |= strchr(flags, 'n') != NULL;
}

static void note_fragments(struct chunk *self, struct diff_words *words, unsigned long id)
{
    char word[DIFF_WORD_MAX], *end;

    while (diff_words_next(words, word)) {
        self->fragments++;
        self->lies |= strpbrk(word, "+!") != NULL;
        if (strtoul(word, &end, 10) == id && *end == '/')
            self->at = self->fragments;
    }
}

/* fill P PAGE.CHUNK LAYOUT W ID FLAGS COUNT FRAGMENT... */
static bool note_fill(struct chunk *self, const char *line, unsigned long id)
{
    struct diff_words words = {.pos = line};
    char word[DIFF_WORD_MAX];

    *self = (struct chunk){0};
    for (int i = 0; i < 8; i++) {
        if (!diff_words_next(&words, word) || (i == 0 && strcmp(word, "fill") != 0))
            return false;
        if (i == 2)
            self->place_len = (size_t)(words.pos - line) - strlen("fill");
        if (i == 6)
            note_flags(self, word);
    }
    self->lies = *word != '=';
    note_fragments(self, &words, id);
    return true;
}

static bool is_line_of(const char *line, const char *verb, const struct chunk *chunk,
                       const char *fill)
{
    size_t len = strlen(verb);

    return strncmp(line, verb, len) == 0 &&
           strncmp(line + len, fill + strlen("fill"), chunk->place_len) == 0 &&
           strchr(" ", line[len + chunk->place_len]) != NULL;
}

/* more P PAGE.CHUNK FLAGS FRAGMENT..., until the chunk is done */
static void note_more(struct chunk *self, const struct diff_schedule *schedule, size_t fill,
                      unsigned long id)
{
    const char *first = schedule->lines[fill];

    for (size_t i = fill + 1; i < schedule->len; i++) {
        struct diff_words words = {.pos = schedule->lines[i]};
        char word[DIFF_WORD_MAX];

        if (is_line_of(words.pos, "done", self, first))
            return;
        if (!is_line_of(words.pos, "more", self, first))
            continue;
        for (int w = 0; w < 4 && diff_words_next(&words, word); w++) {
            if (w == 3)
                note_flags(self, word);
        }
        note_fragments(self, &words, id);
    }
}

bool diff_schedule_is_part(const struct diff_schedule *self, unsigned long id)
{
    struct chunk chunk;

    for (size_t i = 0; i < self->len; i++) {
        if (!note_fill(&chunk, self->lines[i], id))
            continue;
        note_more(&chunk, self, i, id);
        if (chunk.at != 0 && ((chunk.continues && chunk.at == 1) ||
                              (chunk.goes_on && (chunk.lies || chunk.at == chunk.fragments))))
            return true;
    }
    return false;
}

void diff_schedule_print(const struct diff_schedule *self, struct diff_text *out)
{
    for (size_t i = 0; i < self->len; i++)
        diff_text_add(out, "%s\n", self->lines[i]);
}

static bool read_file(const char *path, struct diff_text *out)
{
    FILE *file = fopen(path, "re");
    char part[4096];
    size_t len;

    if (file == NULL)
        return false;
    while ((len = fread(part, 1, sizeof(part), file)) > 0)
        diff_text_add(out, "%.*s", (int)len, part);
    fclose(file);
    return true;
}

bool diff_schedule_load(struct diff_schedule *self, const char *path, struct diff_text *ret_outcome)
{
    struct diff_text text;
    const char *pos;
    bool is_read;

    diff_schedule_init(self);
    diff_text_init(&text);
    is_read = read_file(path, &text);
    for (pos = diff_text_get(&text); *pos != 0;) {
        size_t len = strcspn(pos, "\n");

        if (len == strlen(SEPARATOR) && memcmp(pos, SEPARATOR, len) == 0) {
            diff_text_add(ret_outcome, "%s", pos + len + (pos[len] == '\n'));
            break;
        }
        if (len > 0 && *pos != '#')
            diff_schedule_add(self, pos, len);
        pos += len + (pos[len] == '\n');
    }
    diff_text_fini(&text);
    return is_read;
}
