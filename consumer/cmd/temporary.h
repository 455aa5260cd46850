/* SPDX-License-Identifier: Apache-2.0 */
/* A file that is not kept, in a folder of its own that only this user can enter: below $TMPDIR, or
 * /var/tmp. */
#ifndef PFL_CONSUMER_TEMPORARY_H
#define PFL_CONSUMER_TEMPORARY_H

#include <stdbool.h>

#define PFL_TEMPORARY_MAX 512u

/* Makes the folder; the file `name` in it is the caller's to write. False: there is none. */
bool pfl_temporary_make(const char *name, char ret_path[PFL_TEMPORARY_MAX]);
/* Removes the file, what a recording left of it (FILE.partial), and the folder. */
void pfl_temporary_remove(char path[PFL_TEMPORARY_MAX]);

#endif
