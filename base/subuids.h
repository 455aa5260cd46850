/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The owner of a user id. A user with a range in /etc/subuid (subuid(5)) can act as each of its ids
 * in a user namespace; for shares all of these count as one user.
 */
#ifndef PFL_BASE_SUBUIDS_H
#define PFL_BASE_SUBUIDS_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

#define PFL_SUBUIDS_MAX       16384u      /* ranges; further ones are ignored */
#define PFL_SUBUIDS_MAX_BYTES (1u << 20)  /* of the file with them */
#define PFL_USERS_MAX_BYTES   (16u << 20) /* of the file with users */

struct pfl_subuids_range {
    uint32_t first;
    uint32_t last;
    uint32_t owner; /* `first` if no user owns it */
};

struct pfl_subuids {
    struct pfl_subuids_range *list; /* owned; sorted by the text of their owners */
    size_t len;
    size_t ignored; /* malformed lines, or past the limit */
};

/* From the text of subuid(5) and of passwd(5). PFL_ENOMEM. */
PFL_MUST_USE int pfl_subuids_parse(struct pfl_subuids *self, struct pfl_span ranges,
                                   struct pfl_span users);
void pfl_subuids_fini(struct pfl_subuids *self);
/* The user whose range has this id, or `uid` itself. 0 and `self_uid` never belong to another user.
 * An id in a range of theirs counts as the range's first id. */
uint32_t pfl_subuids_owner(const struct pfl_subuids *self, uint32_t uid, uint32_t self_uid);

/* Reads /etc/subuid and /etc/passwd once: call before a sandbox, and before there are threads. An
 * unreadable file is logged and counts as empty. */
void pfl_subuids_load(void);
/* The owner, from the loaded files; `uid` if nothing was loaded. */
uint32_t pfl_subuids_find(uint32_t uid);

#endif
