/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules as lists of lines (see schedule.h). The list owns its lines; running out of memory ends
 * the program.
 */
#include "tests/differential/schedule.h"

#include <stdio.h>

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
