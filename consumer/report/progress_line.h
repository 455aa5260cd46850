/* SPDX-License-Identifier: Apache-2.0 */
/* One line of progress that fits into a terminal of any width. Pure. */
#ifndef PFL_CONSUMER_PROGRESS_LINE_H
#define PFL_CONSUMER_PROGRESS_LINE_H

#include <stddef.h>

#define PFL_PROGRESS_LINE_BYTES 512u

/* Text without a bar. */
#define PFL_PROGRESS_NO_BAR (-1.0)

/*
 * "words [####....] tail", with a bar that is `share` full (0 to 1). It takes at most `columns` - 1
 * characters, so that no terminal wraps it: first the bar gets shorter, then it is omitted, then
 * the parts of `tail` after its last commas and semicolons. `columns` 0: unknown, 80. ASCII.
 */
void pfl_progress_line(unsigned columns, const char *words, double share, const char *tail,
                       char ret_line[PFL_PROGRESS_LINE_BYTES]);

#endif
