/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the text files of /proc and /sys: cursors over lines, words and numbers. Pure. */
#ifndef PFL_PROBES_PROC_TEXT_H
#define PFL_PROBES_PROC_TEXT_H

#include "base/bytes.h"

/* The next line without its newline; false at the end. Advances `text` past it. */
bool pfl_proc_take_line(struct pfl_span *text, struct pfl_span *ret_line);
/* The next word between spaces and tabs; false at the end. Advances `line` past it. */
bool pfl_proc_take_word(struct pfl_span *line, struct pfl_span *ret_word);
/* The decimal number at the start of the word, 0 if there is none; a minus sign is accepted. Stops
 * at what does not fit into 64 bits. */
uint64_t pfl_proc_number(struct pfl_span word);
bool pfl_proc_starts_with(struct pfl_span word, const char *text);
/* The rest of the line that starts with `key`, without leading blanks; empty when there is none. */
struct pfl_span pfl_proc_find(struct pfl_span text, const char *key);

#endif
