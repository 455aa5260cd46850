/* SPDX-License-Identifier: Apache-2.0 */
/* Creates the files of a session at its output_path: the trace, or the first segment and the index,
 * in a folder that is opened. */
#ifndef PFL_SERVICE_SESSION_FILE_CREATE_H
#define PFL_SERVICE_SESSION_FILE_CREATE_H

#include "service/session/session_file.h"

/* Fills `fds` (PFL_DISK_SLOTS), of which all are -1. PFL_EINVAL, with `why` (PFL_PLAN_WHY_BYTES):
 * one of them cannot be created; the others stay in `fds`. */
PFL_MUST_USE int pfl_session_file_create(const struct pfl_session_file *file, const char *path,
                                         int *fds, char *why);
/* Closes those of `fds` that are open, and removes the files. */
void pfl_session_file_discard(const struct pfl_session_file *file, const char *path,
                              const int *fds);

#endif
