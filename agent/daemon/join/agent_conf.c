/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See agent_conf.h. Happy path: search the key in the file's lines, append a line. Failures: errno.
 * Limits: lines are read in pieces of LINE_BYTES; keys are at their beginning.
 */
#include "agent/daemon/join/agent_conf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_BYTES 1024u

bool pfl_agent_conf_is_plain(const char *value)
{
    for (const char *p = value; *p != '\0'; p++)
        if (*p <= ' ' || *p >= 0x7f || *p == '"' || *p == '\\')
            return false;
    return *value != '\0';
}

static bool is_of_key(const char *line, const char *key)
{
    size_t len = strlen(key);

    line += strspn(line, " \t");
    if (strncmp(line, key, len) != 0)
        return false;
    line += len;
    return line[strspn(line, " \t")] == ':';
}

/* `ret_is_ended`: the last line has its end. */
static bool has_key(FILE *file, const char *key, bool *ret_is_ended)
{
    char line[LINE_BYTES];

    *ret_is_ended = true;
    while (fgets(line, sizeof(line), file) != NULL) {
        if (*ret_is_ended && is_of_key(line, key))
            return true;
        *ret_is_ended = line[0] != '\0' && line[strlen(line) - 1] == '\n';
    }
    return false;
}

/* Settings are not secret: the agent's user reads them. */
static FILE *open_file(const char *path)
{
    int fd = open(path, O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
    FILE *file;

    if (fd < 0 && errno == ENOENT) {
        fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (fd >= 0)
            (void)fchmod(fd, 0644);
    }
    if (fd < 0)
        return NULL;
    file = fdopen(fd, "a+");
    if (file == NULL)
        (void)close(fd);
    return file;
}

int pfl_agent_conf_add(const char *path, const char *key, const char *value)
{
    FILE *file = open_file(path);
    bool is_ended;
    int rc = 0;

    if (file == NULL)
        return PFL_EIO;
    rewind(file);
    if (!has_key(file, key, &is_ended) &&
        fprintf(file, "%s%s: \"%s\"\n", is_ended ? "" : "\n", key, value) < 0)
        rc = PFL_EIO;
    if (fclose(file) != 0)
        rc = PFL_EIO;
    return rc;
}
