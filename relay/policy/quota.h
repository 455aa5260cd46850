/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quotas of operators at this relay, by their roles: concurrent streams, new ones per minute, bytes
 * per second. One quota for each operator and role; without a role, or a rate in it, the defaults
 * below hold. Pure; time is an argument.
 */
#ifndef PFL_RELAY_POLICY_QUOTA_H
#define PFL_RELAY_POLICY_QUOTA_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/list.h"
#include "base/token_bucket.h"
#include "proto/gate/role.h"
#include "proto/tunnel/identity.h"

/* A new one replaces the one that is idle longest; none is added while none is idle. */
#define PFL_QUOTAS_MAX 4096u

/* New streams of a role without max_new_streams_per_min, and without a role: these at once, */
#define PFL_QUOTA_STREAMS_AT_ONCE 4096u
/* and then so many; */
#define PFL_QUOTA_STREAMS_PER_MIN 1800u
/* and so many more of the first and of the second for each host that the relay knows: an operator's
 * commands ask all of them. */
#define PFL_QUOTA_STREAMS_OF_HOST         32u
#define PFL_QUOTA_STREAMS_OF_HOST_PER_MIN 8u
/* The same for resumes, and for requests that change something at a host, whatever the role. All
 * streams of an operator's 64 connections can be resumed at once. */
#define PFL_QUOTA_CHANGES_AT_ONCE 16384u
#define PFL_QUOTA_CHANGES_PER_MIN 1800u

enum pfl_quota_flags {
    PFL_QUOTA_NEW = 1,       /* no resume */
    PFL_QUOTA_TAKE_OVER = 2, /* an older connection of this operator carries the stream */
};

struct pfl_quota {
    struct pfl_list node;
    char operator_name[PFL_IDENTITY_NAME_BYTES];
    char role[PFL_ROLE_PATTERN_MAX + 1]; /* "": none */
    struct pfl_token_bucket bytes;       /* towards the operator */
    struct pfl_token_bucket openings;
    struct pfl_token_bucket strays;  /* resumes of streams that no host had */
    struct pfl_token_bucket changes; /* resumes, and requests that change something */
    bool has_rate;                   /* the role has max_new_streams_per_min */
    unsigned hosts;                  /* that the rates are made for */
    uint64_t max_streams;            /* 0: no limit */
    unsigned streams;
};

struct pfl_quotas {
    struct pfl_list all; /* owned; the last used one is at the end */
    unsigned count;
    unsigned hosts; /* that the relay knows; set by its owner before pfl_quotas_get */
};

void pfl_quotas_init(struct pfl_quotas *self);
void pfl_quotas_fini(struct pfl_quotas *self);
/* The operator's quota with the rates of `role` (checked; the relay's fields; empty: none). NULL:
 * no memory, or too many. Borrowed while it has streams. */
struct pfl_quota *pfl_quotas_get(struct pfl_quotas *self, const char *operator_name,
                                 struct pfl_span role, uint64_t now_ms);
/* Takes one stream; false: not permitted now. `flags`: of pfl_quota_flags. A resumed stream is not
 * a new one, unless the host has no such stream: then it counts as new (pfl_quota_note_stray), and
 * after a minute's worth of those no stream may be resumed for a while. Streams that are taken over
 * do not count against max_streams. */
bool pfl_quota_try_open(struct pfl_quota *self, unsigned flags, uint64_t now_ms);
/* New streams that it gives at once, and per minute. */
void pfl_quota_get_rate(const struct pfl_quota *self, uint64_t *ret_at_once, uint64_t *ret_per_min);
/* Takes a request that changes something; false: not permitted now. */
bool pfl_quota_try_change(struct pfl_quota *self, uint64_t now_ms);
void pfl_quota_note_stray(struct pfl_quota *self, uint64_t now_ms);
void pfl_quota_close(struct pfl_quota *self);
/* One stream of `from` counts with the rates of this role from now on, of the same role or another.
 * Its quota: `from` when there is no other. */
struct pfl_quota *pfl_quotas_move(struct pfl_quotas *self, struct pfl_quota *from,
                                  struct pfl_span role, uint64_t now_ms);

#endif
