/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library's only output. Happy path: one look at the environment for the life of the process,
 * then a line for each note. Failures: a line that cannot be written is lost. A program with other
 * rights than its user's (secure_getenv) prints nothing. Limits: LINE_BYTES a line.
 */
#include "producer/platform/note.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES 512

static pthread_once_t looked = PTHREAD_ONCE_INIT;
static bool is_wanted;

static void look(void)
{
    const char *level = secure_getenv("PERFLEET_LOG");

    is_wanted = level != NULL && strcmp(level, "debug") == 0;
}

void pfl_note(const char *fmt, ...)
{
    char line[LINE_BYTES];
    int saved = errno;
    int len;
    int more;
    va_list ap;
    ssize_t n;

    (void)pthread_once(&looked, look);
    if (!is_wanted)
        return;
    len = snprintf(line, sizeof(line), "perfleet[%d]: ", (int)getpid());
    va_start(ap, fmt);
    more = vsnprintf(line + len, sizeof(line) - (size_t)len - 1, fmt, ap);
    va_end(ap);
    if (more > 0)
        len += more < LINE_BYTES - len - 1 ? more : LINE_BYTES - len - 2;
    line[len++] = '\n';
    n = write(STDERR_FILENO, line, (size_t)len);
    (void)n;
    errno = saved;
}
