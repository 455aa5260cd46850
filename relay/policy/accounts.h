/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What operators use of what their roles give them at this relay: streams at a time, new ones a
 * minute, bytes a second. One account for each operator and role. Pure; time is an argument.
 */
#ifndef PFL_RELAY_POLICY_ACCOUNTS_H
#define PFL_RELAY_POLICY_ACCOUNTS_H

#include <stdbool.h>

#include "base/bucket.h"
#include "base/bytes.h"
#include "base/list.h"
#include "proto/gate/role.h"
#include "proto/tunnel/identity.h"

/* The one that is idle longest gives way; nobody new while none is idle. */
#define PFL_ACCOUNTS_MAX 4096u

struct pfl_account {
    struct pfl_list node;
    char operator_name[PFL_IDENTITY_NAME_BYTES];
    char role[PFL_ROLE_PATTERN_MAX + 1];
    struct pfl_bucket bytes; /* towards the operator */
    struct pfl_bucket openings;
    struct pfl_bucket strays; /* resumes of streams that no host knew */
    uint64_t max_streams;     /* 0: no limit */
    unsigned streams;
};

struct pfl_accounts {
    struct pfl_list all; /* owned; used last at the end */
    unsigned count;
};

void pfl_accounts_init(struct pfl_accounts *self);
void pfl_accounts_fini(struct pfl_accounts *self);
/* With the rates of `role` (checked; the relay's fields). NULL: no memory, or too many. Borrowed
 * while it has streams. */
struct pfl_account *pfl_accounts_get(struct pfl_accounts *self, const char *operator_name,
                                     struct pfl_span role, uint64_t now_ms);
/* One stream more; false: there may not be one now. A stream that is taken up again is no new one,
 * unless it turns out that there was none: then it counts as one (pfl_account_note_stray), and when
 * a minute's worth of those has come, no stream is taken up for a while either. */
bool pfl_account_try_open(struct pfl_account *self, bool is_new, uint64_t now_ms);
void pfl_account_note_stray(struct pfl_account *self, uint64_t now_ms);
void pfl_account_close(struct pfl_account *self);

#endif
