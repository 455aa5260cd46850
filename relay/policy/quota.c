/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quotas: see quota.h. A quota stays after its last stream, so that closing and opening
 * does not fill a bucket. Limits: PFL_QUOTAS_MAX.
 */
#include "relay/policy/quota.h"

#include <stdio.h>

#include "base/mem.h"
#include "perfleet/policy.fields.h"

/* Burst of bytes: half a second's rate, and at least one frame of the tunnel. */
#define BURST_MIN_BYTES 32768u
/* A bucket counts in 60ths of a stream, so that a rate per minute is one per second. */
#define OPENING 60u

static struct pfl_quota *account_of(struct pfl_list *node)
{
    return PFL_CONTAINER_OF(node, struct pfl_quota, node);
}

void pfl_quotas_init(struct pfl_quotas *self)
{
    pfl_list_init(&self->all);
    self->count = 0;
    self->hosts = 0;
}

static void free_account(struct pfl_quotas *self, struct pfl_quota *a)
{
    pfl_list_remove(&a->node);
    self->count--;
    pfl_mem_free(a);
}

void pfl_quotas_fini(struct pfl_quotas *self)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    PFL_LIST_EACH_SAFE (it, tmp, &self->all)
        free_account(self, account_of(it));
}

static bool make_room(struct pfl_quotas *self)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    if (self->count < PFL_QUOTAS_MAX)
        return true;
    PFL_LIST_EACH_SAFE (it, tmp, &self->all) {
        if (account_of(it)->streams != 0)
            continue;
        free_account(self, account_of(it));
        return true;
    }
    return false;
}

static struct pfl_quota *find(struct pfl_quotas *self, const char *operator_name, const char *role)
{
    struct pfl_list *it;

    for (it = self->all.prev; it != &self->all; it = it->prev) { /* the last used one first */
        if (strcmp(account_of(it)->operator_name, operator_name) == 0 &&
            strcmp(account_of(it)->role, role) == 0)
            return account_of(it);
    }
    return NULL;
}

static uint64_t burst_of_hosts(const struct pfl_quota *a)
{
    return (uint64_t)a->hosts * PFL_QUOTA_STREAMS_OF_HOST;
}

static uint64_t rate_of_hosts(const struct pfl_quota *a)
{
    return (uint64_t)a->hosts * PFL_QUOTA_STREAMS_OF_HOST_PER_MIN;
}

/* A rate per minute and a burst, in streams. A burst that grows gives what it grew by. */
static void set_bucket(struct pfl_token_bucket *bucket, uint64_t per_min, uint64_t at_once,
                       uint64_t now_ms)
{
    uint64_t before = bucket->burst;
    bool is_new = bucket->per_s == 0;

    pfl_token_bucket_set(bucket, per_min, at_once * OPENING, now_ms);
    if (!is_new && bucket->burst > before)
        pfl_token_bucket_give(bucket, bucket->burst - before);
}

/* A rate that a policy gives or removes begins with all of its burst; one that it changes keeps
 * what is left. */
static void set_openings(struct pfl_quota *a, uint64_t given_per_min, uint64_t now_ms)
{
    bool is_given = given_per_min != 0;
    uint64_t per_min = is_given ? given_per_min : PFL_QUOTA_STREAMS_PER_MIN + rate_of_hosts(a);
    uint64_t at_once = is_given ? given_per_min : PFL_QUOTA_STREAMS_AT_ONCE + burst_of_hosts(a);

    if (is_given != a->has_rate) {
        a->openings = (struct pfl_token_bucket){0};
        a->strays = (struct pfl_token_bucket){0};
    }
    a->has_rate = is_given;
    if (per_min == a->openings.per_s)
        return;
    if (is_given) {
        pfl_token_bucket_set(&a->openings, per_min, at_once * OPENING, now_ms);
        pfl_token_bucket_set(&a->strays, per_min, at_once * OPENING, now_ms);
        return;
    }
    set_bucket(&a->openings, per_min, at_once, now_ms);
    set_bucket(&a->strays, per_min, at_once, now_ms);
}

static void set_rates(struct pfl_quota *a, struct pfl_span role, uint64_t now_ms)
{
    uint64_t bytes = pfl_role_get_number(role, ROLE__MAX_BYTES_PER_S);
    uint64_t burst = bytes / 2 > BURST_MIN_BYTES ? bytes / 2 : BURST_MIN_BYTES;

    if (bytes != a->bytes.per_s)
        pfl_token_bucket_set(&a->bytes, bytes, burst, now_ms);
    set_openings(a, pfl_role_get_number(role, ROLE__MAX_NEW_STREAMS_PER_MIN), now_ms);
    if (a->changes.per_s != PFL_QUOTA_CHANGES_PER_MIN + rate_of_hosts(a))
        set_bucket(&a->changes, PFL_QUOTA_CHANGES_PER_MIN + rate_of_hosts(a),
                   PFL_QUOTA_CHANGES_AT_ONCE + burst_of_hosts(a), now_ms);
    a->max_streams = pfl_role_get_number(role, ROLE__MAX_STREAMS);
}

struct pfl_quota *pfl_quotas_get(struct pfl_quotas *self, const char *operator_name,
                                 struct pfl_span role, uint64_t now_ms)
{
    char name[PFL_ROLE_PATTERN_MAX + 1];
    struct pfl_quota *a;

    pfl_role_copy_name(role, name);
    a = find(self, operator_name, name);
    if (a == NULL) {
        a = make_room(self) ? pfl_mem_zalloc(sizeof(*a)) : NULL;
        if (a == NULL)
            return NULL;
        (void)snprintf(a->operator_name, sizeof(a->operator_name), "%s", operator_name);
        memcpy(a->role, name, sizeof(name));
        self->count++;
    } else {
        pfl_list_remove(&a->node);
    }
    pfl_list_append(&self->all, &a->node);
    a->hosts = self->hosts;
    set_rates(a, role, now_ms);
    return a;
}

void pfl_quota_get_rate(const struct pfl_quota *self, uint64_t *ret_at_once, uint64_t *ret_per_min)
{
    *ret_at_once = self->openings.burst / OPENING;
    *ret_per_min = self->openings.per_s;
}

static bool try_take(struct pfl_token_bucket *bucket, uint64_t now_ms)
{
    if (pfl_token_bucket_get(bucket, now_ms) < OPENING)
        return false;
    pfl_token_bucket_take(bucket, OPENING);
    return true;
}

bool pfl_quota_try_open(struct pfl_quota *self, unsigned flags, uint64_t now_ms)
{
    bool is_new = (flags & PFL_QUOTA_NEW) != 0;
    bool is_taken_over = (flags & PFL_QUOTA_TAKE_OVER) != 0;

    if (!is_taken_over && self->max_streams != 0 && self->streams >= self->max_streams)
        return false;
    if (!is_new && !is_taken_over && pfl_token_bucket_get(&self->strays, now_ms) < OPENING)
        return false;
    if (!try_take(is_new ? &self->openings : &self->changes, now_ms))
        return false;
    self->streams++;
    return true;
}

bool pfl_quota_try_change(struct pfl_quota *self, uint64_t now_ms)
{
    return try_take(&self->changes, now_ms);
}

void pfl_quota_note_stray(struct pfl_quota *self, uint64_t now_ms)
{
    (void)pfl_token_bucket_get(&self->openings, now_ms);
    (void)pfl_token_bucket_get(&self->strays, now_ms);
    pfl_token_bucket_take(&self->openings, OPENING);
    pfl_token_bucket_take(&self->strays, OPENING);
}

void pfl_quota_close(struct pfl_quota *self)
{
    self->streams--;
}

struct pfl_quota *pfl_quotas_move(struct pfl_quotas *self, struct pfl_quota *from,
                                  struct pfl_span role, uint64_t now_ms)
{
    struct pfl_quota *to = pfl_quotas_get(self, from->operator_name, role, now_ms);

    if (to == NULL || to == from)
        return from;
    to->streams++;
    pfl_quota_close(from);
    return to;
}
