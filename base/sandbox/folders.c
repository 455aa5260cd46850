/* SPDX-License-Identifier: Apache-2.0 */
/* Folders by the names of files: see folders.h. No failures; limits: PFL_FOLDERS_MAX, PATH_MAX. */
#include "base/sandbox/folders.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void pfl_folders_add(struct pfl_folders *self, const char *path, unsigned rights)
{
    char *copy;

    if (self->len == PFL_FOLDERS_MAX)
        return;
    copy = self->paths[self->len];
    (void)snprintf(copy, PATH_MAX, "%s", path);
    self->list[self->len++] = (struct pfl_sandbox_folder){.path = copy, .rights = rights};
}

void pfl_folders_add_if_there(struct pfl_folders *self, const char *path, unsigned rights)
{
    struct stat is;

    if (stat(path, &is) == 0 && S_ISDIR(is.st_mode))
        pfl_folders_add(self, path, rights);
}

static void add_parent(struct pfl_folders *self, const char *file, unsigned rights)
{
    char path[PATH_MAX];
    char *slash;

    (void)snprintf(path, sizeof(path), "%s", file);
    slash = strrchr(path, '/');
    if (slash == NULL)
        (void)snprintf(path, sizeof(path), ".");
    else
        slash[slash == path ? 1 : 0] = '\0';
    pfl_folders_add(self, path, rights);
}

void pfl_folders_add_of_file(struct pfl_folders *self, const char *file, unsigned rights)
{
    char target[PATH_MAX];

    if (file == NULL)
        return;
    add_parent(self, file, rights);
    if (realpath(file, target) != NULL)
        add_parent(self, target, rights);
}
