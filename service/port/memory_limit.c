/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the limits of memory of a process's cgroups. In a container the path can be one of the host
 * that is not there: what is there above it counts. Files that cannot be read have no limit.
 */
#include "service/port/memory_limit.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_LIMIT (UINT64_C(1) << 62) /* version 1 has a number for that */

static uint64_t read_number(const char *path)
{
    FILE *file = fopen(path, "re");
    char text[32] = "";
    uint64_t number;

    if (file == NULL)
        return 0;
    if (fgets(text, sizeof(text), file) == NULL)
        text[0] = '\0';
    (void)fclose(file);
    number = strtoull(text, NULL, 10); /* 0 of "max" */
    return number < NO_LIMIT ? number : 0;
}

static void take_lower(uint64_t *limit, uint64_t other)
{
    if (other != 0 && (*limit == 0 || other < *limit))
        *limit = other;
}

/* Of the folder `base` + `path`, and of each above it, down to `base`. */
static void look_upwards(const char *base, char *path, const char *name, uint64_t *limit)
{
    for (;;) {
        char file[PATH_MAX];
        char *slash = strrchr(path, '/');

        if (snprintf(file, sizeof(file), "%s%s/%s", base, path, name) < (int)sizeof(file))
            take_lower(limit, read_number(file));
        if (slash == NULL)
            return;
        *slash = '\0';
    }
}

/* A line is "number:controllers:path"; of version 2 "0::path". */
static void look_at_line(char *line, const char *root, uint64_t *limit)
{
    char *controllers = strchr(line, ':');
    char *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    char base[PATH_MAX];

    if (path == NULL)
        return;
    *path++ = '\0';
    path[strcspn(path, "\n")] = '\0';
    controllers++;
    if (*controllers == '\0') {
        look_upwards(root, path, "memory.max", limit);
    } else if (strcmp(controllers, "memory") == 0) {
        if (snprintf(base, sizeof(base), "%s/memory", root) < (int)sizeof(base))
            look_upwards(base, path, "memory.limit_in_bytes", limit);
    }
}

uint64_t pfl_memory_limit_read(const char *cgroups, const char *root)
{
    FILE *file = fopen(cgroups, "re");
    char line[PATH_MAX];
    uint64_t limit = 0;

    if (file == NULL)
        return 0;
    while (fgets(line, sizeof(line), file) != NULL)
        look_at_line(line, root, &limit);
    (void)fclose(file);
    return limit;
}
