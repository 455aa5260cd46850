/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and certificates on disk. */
#ifndef PFL_AGENT_PEM_FILE_H
#define PFL_AGENT_PEM_FILE_H

#include <sys/types.h>

#include "base/bytes.h"
#include "base/err.h"

/* Whose a new file is; (uid_t)-1: ours. */
struct pfl_pem_owner {
    uid_t uid;
    gid_t gid;
};

/* A new file of mode 0400 takes the name at once, whole; what had it is gone then. PFL_EIO, with
 * errno; nothing has changed. */
PFL_MUST_USE int pfl_pem_file_write(const char *path, struct pfl_span text,
                                    const struct pfl_pem_owner *owner);

#endif
