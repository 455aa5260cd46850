/* SPDX-License-Identifier: Apache-2.0 */
/* What went wrong, said to a person: on stderr, or kept for a command that draws a screen. */
#include "consumer/cmd/cmd_error.h"

#include <stdarg.h>
#include <stdio.h>

static struct {
    char *room; /* borrowed; NULL: stderr */
    size_t size;
} kept;

void pfl_cmd_error_keep(char *room, size_t size)
{
    kept.room = room;
    kept.size = size;
}

void pfl_cmd_error(const char *fmt, ...)
{
    va_list ap;

    if (kept.room != NULL) {
        va_start(ap, fmt);
        vsnprintf(kept.room, kept.size, fmt, ap);
        va_end(ap);
        return;
    }
    fputs("perfleet: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}
