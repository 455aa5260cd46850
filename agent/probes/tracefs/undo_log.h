/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What has to be written into tracefs to have it as it was found: a list, and its form in a file
 * that outlives the program. Pure.
 *
 *     <number> <kind> <path> <text>\n      to do; text and path with \\, \n and \s escaped
 *     <number> x\n                         done
 */
#ifndef PFL_PROBES_UNDO_LOG_H
#define PFL_PROBES_UNDO_LOG_H

#include "base/buf.h"

#define PFL_UNDO_ENTRIES_MAX 65536u
#define PFL_UNDO_TEXT_MAX    65536u /* bytes of a text */
#define PFL_UNDO_LINE_MAX    (2u * PFL_UNDO_TEXT_MAX + 4096u)

enum pfl_undo_kind {
    PFL_UNDO_WRITE = 'w',   /* text takes the place of the file's value */
    PFL_UNDO_APPEND = 'a',  /* text is a command to the file */
    PFL_UNDO_REPLACE = 'r', /* the file is emptied, then each line of text is added */
    PFL_UNDO_RMDIR = 'd',   /* the folder goes */
};

struct pfl_undo_entry {
    uint32_t number; /* grows; later entries are undone first */
    enum pfl_undo_kind kind;
    const void *owner; /* whose end calls for it; an address to compare, borrowed from the caller */
    char *path;        /* owned; below tracefs; one block with the text */
    char *text;
};

struct pfl_undo_log {
    struct pfl_undo_entry *entries; /* owned; by number */
    size_t count;
    uint32_t next_number;
};

/* `text` is cut by nobody: PFL_ELIMIT when it is too long or there are too many. PFL_ENOMEM. */
PFL_MUST_USE int pfl_undo_log_add(struct pfl_undo_log *self, const void *owner,
                                  enum pfl_undo_kind kind, const char *path, const char *text);
/* The last entry of `owner` (NULL: of anybody); NULL: there is none. Borrowed until the next
 * change. */
const struct pfl_undo_entry *pfl_undo_log_get_last(const struct pfl_undo_log *self,
                                                   const void *owner);
/* Is it noted already? For a file's value or list, whatever the text is. */
bool pfl_undo_log_has(const struct pfl_undo_log *self, const struct pfl_undo_entry *entry);
void pfl_undo_log_remove(struct pfl_undo_log *self, uint32_t number);
void pfl_undo_log_fini(struct pfl_undo_log *self); /* legal on zeroed memory */

/* One line of the file each. PFL_ENOMEM, PFL_ELIMIT. */
PFL_MUST_USE int pfl_undo_log_encode(const struct pfl_undo_entry *entry, struct pfl_buf *ret_line);
/* Adds what a file says is still to be done, without owner; lines that make no sense, as the last
 * one of a program that was killed may be, are skipped. Paths that leave the folder too.
 * PFL_ENOMEM. */
PFL_MUST_USE int pfl_undo_log_parse(struct pfl_undo_log *self, struct pfl_span file);

#endif
