/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and certificates on disk. */
#ifndef PFL_AGENT_PEM_FILE_H
#define PFL_AGENT_PEM_FILE_H

#include <sys/types.h>

#include "base/bytes.h"
#include "base/err.h"

/* The owner of a new file; (uid_t)-1: our user. */
struct pfl_pem_owner {
    uid_t uid;
    gid_t gid;
};

/* Atomically replaces the file by a new one of mode 0400. PFL_EIO, with errno; nothing changed. */
PFL_MUST_USE int pfl_pem_file_write(const char *path, struct pfl_span text,
                                    const struct pfl_pem_owner *owner);

#endif
