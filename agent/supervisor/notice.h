/* SPDX-License-Identifier: Apache-2.0 */
/* One datagram of the service manager's protocol (sd_notify(3)): requests to the store, and the
 * part for the manager above. */
#ifndef PFL_AGENT_KEEP_NOTICE_H
#define PFL_AGENT_KEEP_NOTICE_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/stored_fds.h"

#define PFL_NOTICE_MAX_BYTES 4096u
/* The name of a descriptor without one. */
#define PFL_NOTICE_NO_NAME "stored"

struct pfl_notice {
    bool is_ready;
    bool stores;
    bool removes;      /* removes those named `name`; never without one */
    bool has_bad_name; /* the name is ignored */
    char name[PFL_STORED_FDS_NAME_MAX_BYTES + 1]; /* PFL_NOTICE_NO_NAME if it has none */
    size_t passed_on_len;
    char passed_on[PFL_NOTICE_MAX_BYTES + 1]; /* lines; "": nothing for the manager above */
};

/* PFL_EPARSE: empty, longer than PFL_NOTICE_MAX_BYTES, or not text (NUL inside). */
PFL_MUST_USE int pfl_notice_parse(struct pfl_span datagram, struct pfl_notice *ret_notice);

#endif
