/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of changes to undo.
 *
 * Happy path: before each change of tracefs an entry is added that undoes it; at the end the list
 * is processed backwards. The file is only appended to, so that after a kill at any moment all
 * lines but the last are whole. Failure: a malformed line is skipped: its change was not made yet.
 * Ownership: the log owns its entries' texts.
 */
#include "agent/probes/tracefs/undo_log.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"

static int add_entry(struct pfl_undo_log *self, const struct pfl_undo_entry *like, size_t path_len,
                     size_t text_len)
{
    struct pfl_undo_entry *grown;
    struct pfl_undo_entry entry = *like;

    if (self->count == PFL_UNDO_ENTRIES_MAX || text_len > PFL_UNDO_TEXT_MAX || path_len > 4000)
        return PFL_ELIMIT;
    grown = pfl_mem_realloc(self->entries, (self->count + 1) * sizeof(*grown));
    if (grown == NULL)
        return PFL_ENOMEM;
    self->entries = grown;
    entry.path = pfl_mem_zalloc(path_len + text_len + 2);
    if (entry.path == NULL)
        return PFL_ENOMEM;
    entry.text = entry.path + path_len + 1;
    memcpy(entry.path, like->path, path_len);
    memcpy(entry.text, like->text, text_len);
    grown[self->count++] = entry;
    return 0;
}

int pfl_undo_log_add(struct pfl_undo_log *self, const void *owner, enum pfl_undo_kind kind,
                     const char *path, const char *text)
{
    struct pfl_undo_entry entry = {
        .number = self->next_number,
        .kind = kind,
        .owner = owner,
        .path = (char *)path,
        .text = (char *)text,
    };
    int rc = add_entry(self, &entry, strlen(path), strlen(text));

    if (rc == 0)
        self->next_number++;
    return rc;
}

const struct pfl_undo_entry *pfl_undo_log_get_last(const struct pfl_undo_log *self,
                                                   const void *owner)
{
    for (size_t i = self->count; i > 0; i--) {
        if (owner == NULL || self->entries[i - 1].owner == owner)
            return &self->entries[i - 1];
    }
    return NULL;
}

bool pfl_undo_log_has(const struct pfl_undo_log *self, const struct pfl_undo_entry *entry)
{
    for (size_t i = 0; i < self->count; i++) {
        const struct pfl_undo_entry *e = &self->entries[i];

        if (e->owner == entry->owner && e->kind == entry->kind &&
            strcmp(e->path, entry->path) == 0 &&
            (e->kind != PFL_UNDO_APPEND || strcmp(e->text, entry->text) == 0))
            return true;
    }
    return false;
}

void pfl_undo_log_remove(struct pfl_undo_log *self, uint32_t number)
{
    for (size_t i = 0; i < self->count; i++) {
        if (self->entries[i].number != number)
            continue;
        pfl_mem_free(self->entries[i].path);
        self->count--;
        memmove(&self->entries[i], &self->entries[i + 1],
                (self->count - i) * sizeof(*self->entries));
        return;
    }
}

void pfl_undo_log_fini(struct pfl_undo_log *self)
{
    for (size_t i = 0; i < self->count; i++)
        pfl_mem_free(self->entries[i].path);
    pfl_mem_free(self->entries);
    memset(self, 0, sizeof(*self));
}

/* --- the file ---------------------------------------------------------------------------- */

static int put_escaped(struct pfl_buf *line, const char *text)
{
    int rc = 0;

    for (; *text != '\0' && rc == 0; text++) {
        if (*text == '\n')
            rc = pfl_buf_append(line, "\\n", 2);
        else if (*text == '\\')
            rc = pfl_buf_append(line, "\\\\", 2);
        else if (*text == ' ')
            rc = pfl_buf_append(line, "\\s", 2);
        else
            rc = pfl_buf_append(line, text, 1);
    }
    return rc;
}

int pfl_undo_log_encode(const struct pfl_undo_entry *entry, struct pfl_buf *ret_line)
{
    char head[32];
    int len = snprintf(head, sizeof(head), "%u %c ", entry->number, (char)entry->kind);
    int rc;

    pfl_buf_clear(ret_line);
    rc = pfl_buf_append(ret_line, head, (size_t)len);
    if (rc == 0)
        rc = put_escaped(ret_line, entry->path);
    if (rc == 0)
        rc = pfl_buf_append(ret_line, " ", 1);
    if (rc == 0)
        rc = put_escaped(ret_line, entry->text);
    return rc != 0 ? rc : pfl_buf_append(ret_line, "\n", 1);
}

/* In place; returns the length. */
static size_t unescape(char *text, size_t len)
{
    size_t out = 0;

    for (size_t i = 0; i < len; i++) {
        char c = text[i];

        if (c == '\\' && i + 1 < len) {
            i++;
            c = text[i] == 'n' ? '\n' : text[i] == 's' ? ' ' : text[i];
        }
        text[out++] = c;
    }
    return out;
}

/* No component of it leads out; "a..b" is a valid name. */
static bool is_inside(const char *path, size_t len)
{
    if (len == 0 || path[0] == '/' || memchr(path, '\0', len) != NULL)
        return false;
    for (size_t at = 0; at < len; at++) {
        const char *end = memchr(path + at, '/', len - at);
        size_t part = end != NULL ? (size_t)(end - path) - at : len - at;

        if (part == 2 && memcmp(path + at, "..", 2) == 0)
            return false;
        at += part;
    }
    return true;
}

/* `line` is a copy that may be written, with a NUL behind it. */
static int parse_line(struct pfl_undo_log *self, char *line, size_t len)
{
    char *at;
    unsigned long number = strtoul(line, &at, 10);
    struct pfl_undo_entry entry = {.number = (uint32_t)number};
    char *space;
    size_t path_len;
    size_t text_len;
    int rc;

    if (at == line || *at != ' ' || number > UINT32_MAX - 1)
        return 0;
    if (strcmp(at, " x") == 0) {
        pfl_undo_log_remove(self, entry.number);
        return 0;
    }
    if (at[1] == '\0' || strchr("ward", at[1]) == NULL || at[2] != ' ')
        return 0;
    entry.kind = (enum pfl_undo_kind)at[1];
    entry.path = at + 3;
    space = strchr(entry.path, ' ');
    if (space == NULL)
        return 0;
    entry.text = space + 1;
    path_len = unescape(entry.path, (size_t)(space - entry.path));
    text_len = unescape(entry.text, len - (size_t)(entry.text - line));
    if (!is_inside(entry.path, path_len) || memchr(entry.text, '\0', text_len) != NULL)
        return 0;
    rc = add_entry(self, &entry, path_len, text_len);
    if (rc == 0 && self->next_number <= entry.number)
        self->next_number = entry.number + 1;
    return rc == PFL_ENOMEM ? rc : 0;
}

int pfl_undo_log_parse(struct pfl_undo_log *self, struct pfl_span file)
{
    struct pfl_reader r = pfl_reader_of(file);
    int rc = 0;

    while (rc == 0 && r.left != 0) {
        const uint8_t *end = memchr(r.pos, '\n', r.left);
        size_t len = end != NULL ? (size_t)(end - r.pos) : r.left;
        char *line = NULL;

        if (end != NULL && len <= PFL_UNDO_LINE_MAX) {
            line = pfl_mem_strndup((const char *)r.pos, len);
            rc = line == NULL ? PFL_ENOMEM : parse_line(self, line, strlen(line));
        }
        pfl_mem_free(line);
        (void)pfl_reader_bytes(&r, end != NULL ? len + 1 : len);
    }
    return rc;
}
