/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writes that restore tracefs: a list, and its format in a file that outlives the program.
 * Pure.
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
    PFL_UNDO_WRITE = 'w',   /* text replaces the file's value */
    PFL_UNDO_APPEND = 'a',  /* text is a command to the file */
    PFL_UNDO_REPLACE = 'r', /* the file is emptied, then each line of text is added */
    PFL_UNDO_RMDIR = 'd',   /* the folder is removed */
};

struct pfl_undo_entry {
    uint32_t number; /* grows; later entries are undone first */
    enum pfl_undo_kind kind;
    const void *owner; /* whose end undoes it; only compared */
    char *path;        /* owned; below tracefs; one block with the text */
    char *text;
};

struct pfl_undo_log {
    struct pfl_undo_entry *entries; /* owned; by number */
    size_t count;
    uint32_t next_number;
};

/* PFL_ELIMIT if `text` is too long or there are too many. PFL_ENOMEM. */
PFL_MUST_USE int pfl_undo_log_add(struct pfl_undo_log *self, const void *owner,
                                  enum pfl_undo_kind kind, const char *path, const char *text);
/* The last entry of `owner` (NULL: of any); NULL: none. Borrowed until the next change. */
const struct pfl_undo_entry *pfl_undo_log_get_last(const struct pfl_undo_log *self,
                                                   const void *owner);
/* Is there such an entry already? For a file's value or list, with any text. */
bool pfl_undo_log_has(const struct pfl_undo_log *self, const struct pfl_undo_entry *entry);
void pfl_undo_log_remove(struct pfl_undo_log *self, uint32_t number);
void pfl_undo_log_fini(struct pfl_undo_log *self); /* legal on zeroed memory */

/* One line of the file each. PFL_ENOMEM, PFL_ELIMIT. */
PFL_MUST_USE int pfl_undo_log_encode(const struct pfl_undo_entry *entry, struct pfl_buf *ret_line);
/* Adds what is still to be undone in a file, without owner. Malformed lines (the last one of a
 * killed program may be) and paths that leave the folder are skipped. PFL_ENOMEM. */
PFL_MUST_USE int pfl_undo_log_parse(struct pfl_undo_log *self, struct pfl_span file);

#endif
