/* SPDX-License-Identifier: Apache-2.0 */
/* Folders for struct pfl_sandbox_conf, derived from the names of files that a program opens
 * again. */
#ifndef PFL_BASE_SANDBOX_FOLDERS_H
#define PFL_BASE_SANDBOX_FOLDERS_H

#include <limits.h>

#include "base/sandbox/sandbox.h"

#define PFL_FOLDERS_MAX 20u

struct pfl_folders {
    struct pfl_sandbox_folder list[PFL_FOLDERS_MAX];
    size_t len;
    char paths[PFL_FOLDERS_MAX][PATH_MAX];
};

/* Adds one folder; those past the limit are left out, and refused later. `path` is copied. */
void pfl_folders_add(struct pfl_folders *self, const char *path, unsigned rights);
/* The same if the folder exists. */
void pfl_folders_add_if_there(struct pfl_folders *self, const char *path, unsigned rights);
/* Adds the file's folder, because a renewed file replaces the old one there, and the folder that
 * symbolic links lead to. NULL is legal. */
void pfl_folders_add_of_file(struct pfl_folders *self, const char *file, unsigned rights);

#endif
