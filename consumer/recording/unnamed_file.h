/* SPDX-License-Identifier: Apache-2.0 */
/* A file for a page's trace: without a name, of mode 0600, in TMPDIR or /var/tmp. */
#ifndef PFL_CONSUMER_UNNAMED_FILE_H
#define PFL_CONSUMER_UNNAMED_FILE_H

#include <stdbool.h>
#include <stddef.h>

struct pfl_unnamed_file {
    int fd;           /* owned; -1: none */
    char folder[256]; /* in which its bytes are */
    char path[32];    /* by which this process can open it */
};

/* False: `ret_why` (room for why_len) has the reason and the remedy. */
bool pfl_unnamed_file_open(struct pfl_unnamed_file *self, char *ret_why, size_t why_len);
/* Gives the descriptor to the caller. */
int pfl_unnamed_file_take(struct pfl_unnamed_file *self);
/* Idempotent; its bytes go when nobody has it open. */
void pfl_unnamed_file_close(struct pfl_unnamed_file *self);

#endif
