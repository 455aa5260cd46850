/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a reserved segment becomes: the states are those of index_segment.c. It is live, or dropped;
 * its object is lost, and found again; it is a tombstone, then gone, and forgotten.
 *
 * Each step locks the row and keeps the counts of its run true. Failures: the database's; the row
 * is in another state. Owns nothing. Limits: those of index.h.
 */
#include "collector/index/index_impl.h"
#include "collector/index/index_row.h"

struct moved {
    const char *id;
    const struct pfl_index_deletion *deletion;
    uint64_t now_unix_ns;
    bool is_there;
    uint64_t run_id;
    uint64_t host_id;
    uint64_t number;
    uint64_t last;
    bool is_gap;
    uint64_t bytes;
};

static bool on_live(void *user, const struct pfl_sql_row *row)
{
    struct moved *moved = user;

    moved->is_there = true;
    moved->run_id = pfl_sql_row_int(row, 0);
    moved->host_id = pfl_sql_row_int(row, 1);
    moved->number = pfl_sql_row_int(row, 2);
    moved->bytes = pfl_sql_row_int(row, 3);
    return true;
}

struct mask {
    uint64_t number;
    bool is_in_gap;
};

static bool on_mask(void *user, const struct pfl_sql_row *row)
{
    struct mask *mask = user;

    mask->is_in_gap = mask->is_in_gap || pfl_sql_row_int(row, 1) > mask->number ||
                      pfl_sql_row_int(row, 0) < mask->number;
    return true;
}

/* Whether the number is in a gap as well. */
static int find_mask(struct pfl_index *self, const struct moved *moved, struct mask *mask)
{
    struct pfl_sql_call call = {
        PFL_SQL_LIST_RANGE,
        PFL_INDEX_PARAMS(pfl_sql_int(moved->run_id), pfl_sql_int(moved->number),
                         pfl_sql_int(moved->number), pfl_sql_int(PFL_INDEX_COVER_MAX)),
        on_mask, mask, 0};

    mask->number = moved->number;
    return pfl_index_run(self, &call);
}

static int set_live_steps(struct pfl_index *self, void *arg)
{
    struct moved *moved = arg;
    struct pfl_sql_call call = {
        PFL_SQL_SET_LIVE,
        PFL_INDEX_PARAMS(pfl_sql_text(moved->id), pfl_sql_int(moved->now_unix_ns)), on_live, moved,
        0};
    struct mask mask = {0};
    struct pfl_index_counts counts = {.stored = 1};
    int rc;

    moved->is_there = false;
    rc = pfl_index_run(self, &call);
    if (rc == 0 && !moved->is_there)
        rc = pfl_index_fail(self, PFL_ENOENT, "%s: no such reservation", moved->id);
    if (rc != 0)
        return rc;
    rc = find_mask(self, moved, &mask);
    counts.in_gaps = mask.is_in_gap ? -1 : 0;
    counts.bytes = (int64_t)moved->bytes;
    return rc != 0 ? rc : pfl_index_count(self, moved->run_id, moved->host_id, &counts);
}

int pfl_index_set_live(struct pfl_index *self, const char *id, uint64_t stored_unix_ns)
{
    struct moved moved = {.id = id, .now_unix_ns = stored_unix_ns};

    return pfl_index_transact(self, set_live_steps, &moved);
}

int pfl_index_drop(struct pfl_index *self, const char *id)
{
    struct pfl_sql_call call = {PFL_SQL_DROP, PFL_INDEX_PARAMS(pfl_sql_text(id)), NULL, NULL, 0};

    return pfl_index_run(self, &call);
}

static bool on_tombstone(void *user, const struct pfl_sql_row *row)
{
    struct moved *moved = user;

    moved->is_there = true;
    moved->run_id = pfl_sql_row_int(row, 0);
    moved->host_id = pfl_sql_row_int(row, 1);
    moved->number = pfl_sql_row_int(row, 2);
    moved->last = pfl_sql_row_int(row, 3);
    moved->is_gap = pfl_sql_row_int(row, 4) != 0;
    moved->bytes = pfl_sql_row_int(row, 5);
    return true;
}

static bool on_state(void *user, const struct pfl_index_row *row)
{
    *(bool *)user = row->state == PFL_INDEX_LIVE;
    return true;
}

static int explain_refusal(struct pfl_index *self, const char *id)
{
    bool is_live = false;
    int rc = pfl_index_get(self, id, on_state, &is_live);

    if (rc != 0 && rc != PFL_ENOENT)
        return rc;
    return is_live ? pfl_index_fail(self, PFL_EPERM, "%s is pinned, or kept for a while", id)
                   : pfl_index_fail(self, PFL_ENOENT, "%s: no such trace", id);
}

static int add_deletion(struct pfl_index *self, const struct moved *moved)
{
    const struct pfl_index_deletion *why = moved->deletion;
    struct pfl_sql_call call = {PFL_SQL_ADD_DELETION,
                                PFL_INDEX_PARAMS(pfl_sql_text(moved->id),
                                                 pfl_sql_int(why->now_unix_ns),
                                                 pfl_sql_text(why->who), pfl_sql_text(why->reason)),
                                NULL, NULL, 0};

    return pfl_index_run(self, &call);
}

static bool on_lease(void *user, const struct pfl_sql_row *row)
{
    (void)row;
    *(bool *)user = true;
    return true;
}

/* Who was held up for long may have lost it, and goes by sums that are old. */
static int check_lease(struct pfl_index *self, const char *lease)
{
    bool is_held = false;
    struct pfl_sql_call call = {PFL_SQL_HAS_LEASE,
                                PFL_INDEX_PARAMS(pfl_sql_text(lease), pfl_sql_text(self->collector),
                                                 pfl_sql_int(self->generation)),
                                on_lease, &is_held, 0};
    int rc = pfl_index_run(self, &call);

    return rc != 0 || is_held ? rc
                              : pfl_index_fail(self, PFL_ESTATE, "another collector has %s", lease);
}

static int tombstone_steps(struct pfl_index *self, void *arg)
{
    struct moved *moved = arg;
    const struct pfl_index_deletion *why = moved->deletion;
    struct pfl_sql_call call = {PFL_SQL_TOMBSTONE,
                                PFL_INDEX_PARAMS(pfl_sql_text(moved->id),
                                                 pfl_sql_int(why->now_unix_ns),
                                                 pfl_sql_int(why->is_bound_by_keep)),
                                on_tombstone, moved, 0};
    struct pfl_index_counts counts = {0};
    uint64_t gaps;
    int rc = why->lease != NULL ? check_lease(self, why->lease) : 0;

    moved->is_there = false;
    if (rc == 0)
        rc = pfl_index_run(self, &call);
    if (rc == 0 && !moved->is_there)
        rc = explain_refusal(self, moved->id);
    if (rc != 0)
        return rc;
    rc = add_deletion(self, moved);
    if (rc != 0)
        return rc;
    counts.bytes = -(int64_t)moved->bytes;
    counts.stored = moved->is_gap ? 0 : -1; /* what was lost at the host was never stored */
    counts.removed = moved->is_gap ? 0 : 1;
    /* The run before its host, as in a reservation: else two collectors wait for each other. */
    rc = pfl_index_count(self, moved->run_id, moved->host_id, &counts);
    if (rc != 0 || !moved->is_gap)
        return rc;
    return pfl_index_count_gaps(self, moved->host_id, -1, &gaps);
}

/* A number that is in a gap as well is one of the gap's again. */
static int lost_steps(struct pfl_index *self, void *arg)
{
    struct moved *moved = arg;
    struct pfl_sql_call call = {
        PFL_SQL_SET_LOST,
        PFL_INDEX_PARAMS(pfl_sql_text(moved->id), pfl_sql_int(moved->deletion->now_unix_ns)),
        on_tombstone, moved, 0};
    struct mask mask = {0};
    struct pfl_index_counts counts = {.stored = -1};
    int rc;

    moved->is_there = false;
    rc = pfl_index_run(self, &call);
    if (rc == 0 && !moved->is_there)
        rc = pfl_index_fail(self, PFL_ENOENT, "%s: no such trace", moved->id);
    if (rc == 0)
        rc = add_deletion(self, moved);
    if (rc == 0)
        rc = find_mask(self, moved, &mask);
    if (rc != 0)
        return rc;
    counts.in_gaps = mask.is_in_gap ? 1 : 0;
    counts.bytes = -(int64_t)moved->bytes;
    return pfl_index_count(self, moved->run_id, moved->host_id, &counts);
}

int pfl_index_set_lost(struct pfl_index *self, const char *id, const struct pfl_index_deletion *why)
{
    struct moved moved = {.id = id, .deletion = why};

    return pfl_index_transact(self, lost_steps, &moved);
}

static int found_steps(struct pfl_index *self, void *arg)
{
    struct moved *moved = arg;
    struct pfl_sql_call call = {
        PFL_SQL_SET_FOUND,
        PFL_INDEX_PARAMS(pfl_sql_text(moved->id), pfl_sql_int(moved->now_unix_ns)), NULL, NULL, 0};
    int rc = pfl_index_run(self, &call);

    if (rc == 0 && call.changed == 0)
        rc = pfl_index_fail(self, PFL_ENOENT, "%s: it is not lost", moved->id);
    return rc != 0 ? rc : set_live_steps(self, arg);
}

int pfl_index_set_found(struct pfl_index *self, const char *id, uint64_t now_unix_ns)
{
    struct moved moved = {.id = id, .now_unix_ns = now_unix_ns};

    return pfl_index_transact(self, found_steps, &moved);
}

int pfl_index_tombstone(struct pfl_index *self, const char *id,
                        const struct pfl_index_deletion *deletion)
{
    struct moved moved = {.id = id, .deletion = deletion};
    int rc = pfl_index_check_name(self, "an id", id);

    if (rc == 0)
        rc = pfl_index_check_name(self, "who deletes", deletion->who);
    if (rc == 0)
        rc = pfl_index_check_name(self, "the reason", deletion->reason);
    return rc != 0 ? rc : pfl_index_transact(self, tombstone_steps, &moved);
}

int pfl_index_set_gone(struct pfl_index *self, const char *id, uint64_t now_unix_ns)
{
    struct pfl_sql_call call = {PFL_SQL_SET_GONE,
                                PFL_INDEX_PARAMS(pfl_sql_text(id), pfl_sql_int(now_unix_ns)), NULL,
                                NULL, 0};

    return pfl_index_run(self, &call);
}

struct forget {
    uint64_t before_unix_ns;
    uint64_t count;
};

static int forget_steps(struct pfl_index *self, void *arg)
{
    struct forget *forget = arg;
    struct pfl_sql_call call = {
        PFL_SQL_FORGET,
        PFL_INDEX_PARAMS(pfl_sql_int(forget->before_unix_ns), pfl_sql_int(PFL_INDEX_FORGET_MAX)),
        NULL, NULL, 0};
    int rc = pfl_index_run(self, &call);

    forget->count = call.changed;
    if (rc != 0)
        return rc;
    call.statement = PFL_SQL_FORGET_DELETIONS;
    rc = pfl_index_run(self, &call);
    forget->count += call.changed;
    return rc;
}

static bool on_count(void *user, const struct pfl_sql_row *row)
{
    *(uint64_t *)user = pfl_sql_row_int(row, 0);
    return true;
}

int pfl_index_count_deletions(struct pfl_index *self, uint64_t *ret_count)
{
    struct pfl_sql_call call = {
        .statement = PFL_SQL_COUNT_DELETIONS, .on_row = on_count, .user = ret_count};

    return pfl_index_run(self, &call);
}

struct forget_above {
    uint64_t max;
    uint64_t count;
};

static int forget_above_steps(struct pfl_index *self, void *arg)
{
    struct forget_above *forget = arg;
    struct pfl_sql_call call = {
        PFL_SQL_FORGET_GONE_ABOVE,
        PFL_INDEX_PARAMS(pfl_sql_int(forget->max), pfl_sql_int(PFL_INDEX_FORGET_MAX)), NULL, NULL,
        0};
    int rc = pfl_index_run(self, &call);

    if (rc != 0)
        return rc;
    call.statement = PFL_SQL_FORGET_DELETIONS_ABOVE;
    rc = pfl_index_run(self, &call);
    forget->count = call.changed;
    return rc;
}

int pfl_index_forget_above(struct pfl_index *self, uint64_t max, uint64_t *ret_count)
{
    struct forget_above forget = {.max = max};
    int rc = pfl_index_transact(self, forget_above_steps, &forget);

    *ret_count = forget.count;
    return rc;
}

int pfl_index_forget(struct pfl_index *self, uint64_t before_unix_ns, uint64_t *ret_count)
{
    struct forget forget = {.before_unix_ns = before_unix_ns};
    int rc = pfl_index_transact(self, forget_steps, &forget);

    *ret_count = forget.count;
    return rc;
}
