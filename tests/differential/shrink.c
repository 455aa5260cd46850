/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Delta debugging of a schedule.
 *
 * Happy path: runs of lines are left out, half of all first, then shorter ones, down to single
 * lines, until nothing can go; then single words behind the first WORDS_KEPT of a line; then lines
 * once more.
 * Any list of lines is a schedule (what refers to nothing does nothing), so every step is legal.
 */
#include "tests/differential/shrink.h"

#include "base/mem.h"

#define WORDS_KEPT 2u

/* Leaves out `len` lines from `from` on when it still shows. */
static bool try_without(struct diff_schedule *self, size_t from, size_t len, diff_shows shows,
                        void *user)
{
    struct diff_schedule smaller;
    bool *keep = pfl_mem_alloc(self->len);

    if (keep == NULL)
        diff_die("out of memory");
    for (size_t i = 0; i < self->len; i++)
        keep[i] = i < from || i >= from + len;
    diff_schedule_copy(&smaller, self, keep);
    pfl_mem_free(keep);
    if (!shows(user, &smaller)) {
        diff_schedule_fini(&smaller);
        return false;
    }
    diff_schedule_fini(self);
    *self = smaller;
    return true;
}

static bool shrink_lines(struct diff_schedule *self, diff_shows shows, void *user)
{
    bool is_smaller = false;

    for (size_t len = self->len / 2; len > 0; len = len > 1 ? len / 2 : 0) {
        for (size_t from = self->len; from > 0;) {
            size_t part = from < len ? from : len;

            from -= part;
            is_smaller |= try_without(self, from, part, shows, user);
        }
    }
    return is_smaller;
}

/* The line without its n-th word; NULL when it has none. */
static char *without_word(const char *line, size_t n)
{
    const char *begin = line;
    size_t len;
    char *shorter;

    for (size_t i = 0; i < n; i++) {
        begin += strcspn(begin, " ");
        begin += strspn(begin, " ");
    }
    len = strcspn(begin, " ");
    if (len == 0)
        return NULL;
    shorter = pfl_mem_strdup(line);
    if (shorter == NULL)
        diff_die("out of memory");
    len += begin[len] == ' ';
    memmove(shorter + (begin - line), begin + len, strlen(begin + len) + 1);
    return shorter;
}

static bool shrink_words(struct diff_schedule *self, size_t at, diff_shows shows, void *user)
{
    bool is_smaller = false;
    char *line;

    for (size_t n = WORDS_KEPT; (line = without_word(self->lines[at], n)) != NULL;) {
        char *before = self->lines[at];

        self->lines[at] = line;
        if (shows(user, self)) {
            pfl_mem_free(before);
            is_smaller = true;
        } else {
            self->lines[at] = before;
            pfl_mem_free(line);
            n++;
        }
    }
    return is_smaller;
}

void diff_shrink(struct diff_schedule *self, diff_shows shows, void *user)
{
    bool is_smaller;

    do {
        while (shrink_lines(self, shows, user))
            continue;
        is_smaller = false;
        for (size_t at = 0; at < self->len; at++) {
            if (strncmp(self->lines[at], "connect", 7) != 0)
                is_smaller |= shrink_words(self, at, shows, user);
        }
    } while (is_smaller);
}
