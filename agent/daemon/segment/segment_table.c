/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of segments: see segment_table.h.
 *
 * Happy path: a run is added, its segments follow in the order of their numbers, and are removed in
 * any order. Failures: a bound was met, no memory: nothing has changed. Owns two sorted arrays,
 * which grow to their maximum: look-ups are binary, an insertion moves what is behind it. Limits:
 * PFL_SEGMENTS_MAX, PFL_SEGMENT_RUNS_MAX.
 */
#include "agent/daemon/segment/segment_table.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "perfleet/segment.fields.h"

#define FIRST_ROOM 16u
#define NS_PER_MS  UINT64_C(1000000)

bool pfl_segment_is_id(const char *text_untrusted)
{
    size_t len = strspn(text_untrusted, "0123456789ABCDEFGHJKMNPQRSTVWXYZ");

    return len == PFL_SEGMENT_ID_BYTES - 1 && text_untrusted[len] == '\0' &&
           text_untrusted[0] <= '7';
}

void pfl_segment_table_init(struct pfl_segment_table *self, const struct pfl_segment_quota *quota)
{
    *self = (struct pfl_segment_table){
        .max = PFL_SEGMENTS_MAX, .runs_max = PFL_SEGMENT_RUNS_MAX, .quota = *quota};
}

void pfl_segment_table_fini(struct pfl_segment_table *self)
{
    pfl_mem_free(self->entries);
    pfl_mem_free(self->runs);
    *self = (struct pfl_segment_table){.entries = NULL};
}

/* Room for one more of `size` bytes in an array. */
static int make_room(void **array, size_t len, size_t *room, size_t max, size_t size)
{
    size_t more = *room == 0 ? FIRST_ROOM : 2 * *room;
    void *grown;

    if (len == max)
        return PFL_ELIMIT;
    if (len < *room)
        return 0;
    grown = pfl_mem_realloc(*array, (more < max ? more : max) * size);
    if (grown == NULL)
        return PFL_ENOMEM;
    *array = grown;
    *room = more < max ? more : max;
    return 0;
}

/* ---- runs ---- */

/* The first run whose id is not below. */
static size_t seek_run(const struct pfl_segment_table *self, const char *id)
{
    size_t low = 0;
    size_t high = self->runs_len;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (strcmp(self->runs[middle].id, id) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct pfl_segment_run *pfl_segment_table_find_run(const struct pfl_segment_table *self,
                                                   const char *id)
{
    size_t at = seek_run(self, id);

    return at < self->runs_len && strcmp(self->runs[at].id, id) == 0 ? &self->runs[at] : NULL;
}

int pfl_segment_table_add_run(struct pfl_segment_table *self, const struct pfl_segment_run *run)
{
    size_t at = seek_run(self, run->id);
    int rc;

    if (pfl_segment_table_find_run(self, run->id) != NULL)
        return PFL_EEXIST;
    rc = make_room((void **)&self->runs, self->runs_len, &self->runs_room, self->runs_max,
                   sizeof(*self->runs));
    if (rc != 0)
        return rc;
    memmove(self->runs + at + 1, self->runs + at, (self->runs_len - at) * sizeof(*self->runs));
    self->runs[at] = *run;
    self->runs[at].bytes = 0;
    self->runs[at].count = 0;
    self->runs_len++;
    return 0;
}

void pfl_segment_table_remove_run(struct pfl_segment_table *self, const char *id)
{
    size_t at = seek_run(self, id);

    if (pfl_segment_table_find_run(self, id) == NULL)
        return;
    self->runs_len--;
    memmove(self->runs + at, self->runs + at + 1, (self->runs_len - at) * sizeof(*self->runs));
}

/* ---- entries ---- */

static int compare(const struct pfl_segment_entry *entry, const char *id, uint32_t number)
{
    int order = strcmp(entry->id, id);

    if (order != 0)
        return order;
    return entry->number < number ? -1 : entry->number > number;
}

size_t pfl_segment_table_seek(const struct pfl_segment_table *self, const char *id, uint32_t number)
{
    size_t low = 0;
    size_t high = self->len;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (compare(&self->entries[middle], id, number) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct pfl_segment_entry *pfl_segment_table_find(const struct pfl_segment_table *self,
                                                 const char *id, uint32_t number)
{
    size_t at = pfl_segment_table_seek(self, id, number);

    return at > 0 && compare(&self->entries[at - 1], id, number) == 0 ? &self->entries[at - 1]
                                                                      : NULL;
}

static bool is_of(const struct pfl_segment_table *self, size_t at, const char *id)
{
    return at < self->len && strcmp(self->entries[at].id, id) == 0;
}

static void count(struct pfl_segment_table *self, struct pfl_segment_run *run,
                  const struct pfl_segment_entry *entry, bool is_added)
{
    uint64_t bytes = entry->is_gap ? 0 : entry->bytes;

    run->count += is_added ? 1u : (uint32_t)-1;
    run->bytes = is_added ? run->bytes + bytes : run->bytes - bytes;
    self->bytes = is_added ? self->bytes + bytes : self->bytes - bytes;
    if (entry->is_gap)
        self->gaps = is_added ? self->gaps + 1 : self->gaps - 1;
}

int pfl_segment_table_add(struct pfl_segment_table *self, const struct pfl_segment_entry *entry)
{
    size_t at = pfl_segment_table_seek(self, entry->id, entry->number);
    struct pfl_segment_run *run = pfl_segment_table_find_run(self, entry->id);
    int rc;

    if ((at > 0 && is_of(self, at - 1, entry->id) && self->entries[at - 1].last >= entry->number) ||
        (is_of(self, at, entry->id) && self->entries[at].number <= entry->last))
        return PFL_EEXIST;
    rc = make_room((void **)&self->entries, self->len, &self->room, self->max,
                   sizeof(*self->entries));
    if (rc != 0)
        return rc;
    memmove(self->entries + at + 1, self->entries + at, (self->len - at) * sizeof(*self->entries));
    self->entries[at] = *entry;
    self->len++;
    count(self, run, entry, true);
    if (entry->last > run->last)
        run->last = entry->last;
    return 0;
}

static void remove_at(struct pfl_segment_table *self, size_t at)
{
    count(self, pfl_segment_table_find_run(self, self->entries[at].id), &self->entries[at], false);
    self->len--;
    memmove(self->entries + at, self->entries + at + 1, (self->len - at) * sizeof(*self->entries));
}

void pfl_segment_table_remove(struct pfl_segment_table *self, const char *id, uint32_t number)
{
    struct pfl_segment_entry *entry = pfl_segment_table_find(self, id, number);

    if (entry != NULL)
        remove_at(self, (size_t)(entry - self->entries));
}

/* ---- quota ---- */

static bool is_of_order(const struct pfl_segment_run *run, const char *orderer, const char *order)
{
    assert(run != NULL);
    return (orderer == NULL || strcmp(run->orderer, orderer) == 0) &&
           (order == NULL || strcmp(run->order, order) == 0);
}

/* Of all runs of one order. */
struct order_sums {
    uint64_t bytes;
    uint64_t count;
    struct pfl_segment_quota quota; /* of the newest */
};

static struct order_sums sum_order(const struct pfl_segment_table *self,
                                   const struct pfl_segment_run *of)
{
    struct order_sums sums = {0};

    for (size_t i = 0; i < self->runs_len; i++) {
        if (!is_of_order(&self->runs[i], of->orderer, of->order))
            continue;
        sums.bytes += self->runs[i].bytes;
        sums.count += self->runs[i].count;
        sums.quota = self->runs[i].quota;
    }
    return sums;
}

/* An earlier run of the same order was looked at. */
static bool was_summed(const struct pfl_segment_table *self, size_t at)
{
    for (size_t i = 0; i < at; i++) {
        if (self->runs[i].bytes != 0 &&
            is_of_order(&self->runs[i], self->runs[at].orderer, self->runs[at].order))
            return true;
    }
    return false;
}

static struct pfl_segment_entry *find_oldest(const struct pfl_segment_table *self,
                                             const struct pfl_segment_run *of)
{
    struct pfl_segment_entry *oldest = NULL;

    for (size_t i = 0; i < self->len; i++) {
        struct pfl_segment_entry *e = &self->entries[i];

        if (e->is_gap || e->is_leaving || (oldest != NULL && e->end_unix_ns >= oldest->end_unix_ns))
            continue;
        if (is_of_order(pfl_segment_table_find_run(self, e->id), of->orderer, of->order))
            oldest = e;
    }
    return oldest;
}

static uint64_t get_max_age_ms(const struct pfl_segment_table *self,
                               const struct pfl_segment_run *run)
{
    uint64_t own = run->quota.max_age_ms;
    uint64_t all = self->quota.max_age_ms;

    if (own == 0 || (all != 0 && all < own))
        return all;
    return own;
}

/* The first that is past its age. */
static struct pfl_segment_entry *find_aged(const struct pfl_segment_table *self, uint64_t unix_ns)
{
    const struct pfl_segment_run *run = NULL;

    for (size_t i = 0; i < self->len; i++) {
        struct pfl_segment_entry *e = &self->entries[i];
        uint64_t max_ms;

        if (e->is_gap || e->is_leaving || e->end_unix_ns >= unix_ns)
            continue;
        if (run == NULL || strcmp(run->id, e->id) != 0)
            run = pfl_segment_table_find_run(self, e->id);
        max_ms = get_max_age_ms(self, run);
        if (max_ms != 0 && (unix_ns - e->end_unix_ns) / NS_PER_MS > max_ms)
            return e;
    }
    return NULL;
}

struct pfl_segment_entry *pfl_segment_table_choose(const struct pfl_segment_table *self,
                                                   uint64_t unix_ns, bool for_room,
                                                   uint8_t *ret_why)
{
    struct pfl_segment_entry *chosen = find_aged(self, unix_ns);
    const struct pfl_segment_run *largest = NULL;
    const struct pfl_segment_run *longest = NULL;
    uint64_t most_bytes = 0;
    uint64_t most_count = 0;

    *ret_why = SEGMENT_GAP__AGE;
    if (chosen != NULL)
        return chosen;
    *ret_why = SEGMENT_GAP__QUOTA;
    for (size_t i = 0; chosen == NULL && i < self->runs_len; i++) {
        struct order_sums sums;

        if (self->runs[i].bytes == 0 || was_summed(self, i))
            continue;
        sums = sum_order(self, &self->runs[i]);
        if (sums.quota.max_bytes != 0 && sums.bytes > sums.quota.max_bytes)
            chosen = find_oldest(self, &self->runs[i]);
        if (sums.bytes > most_bytes) {
            largest = &self->runs[i];
            most_bytes = sums.bytes;
        }
        if (sums.count > most_count) {
            longest = &self->runs[i];
            most_count = sums.count;
        }
    }
    if (chosen == NULL && largest != NULL && self->quota.max_bytes != 0 &&
        self->bytes > self->quota.max_bytes)
        chosen = find_oldest(self, largest);
    if (chosen == NULL && longest != NULL && for_room && self->len >= self->max)
        chosen = find_oldest(self, longest);
    return chosen;
}

/* ---- gaps ---- */

/* The wall clock may have been set back between two segments: the gap is from the earliest to the
 * latest moment. */
static void widen(struct pfl_segment_entry *gap, const struct pfl_segment_entry *by)
{
    bool is_before = by->number < gap->number;

    if (is_before) {
        gap->number = by->number;
        gap->begin_boot_ns = by->begin_boot_ns;
        gap->why = by->why;
    } else {
        gap->last = by->last;
        gap->end_boot_ns = by->end_boot_ns;
    }
    if (by->begin_unix_ns < gap->begin_unix_ns)
        gap->begin_unix_ns = by->begin_unix_ns;
    if (by->end_unix_ns > gap->end_unix_ns)
        gap->end_unix_ns = by->end_unix_ns;
    gap->bytes += by->bytes;
}

static bool is_free_gap(const struct pfl_segment_table *self, size_t at, const char *id)
{
    return is_of(self, at, id) && self->entries[at].is_gap && !self->entries[at].is_leaving;
}

void pfl_segment_table_plan_gap(const struct pfl_segment_table *self,
                                const struct pfl_segment_entry *entry, uint8_t why,
                                struct pfl_segment_entry *ret_gap)
{
    size_t behind = pfl_segment_table_seek(self, entry->id, entry->number);
    size_t before = behind;
    struct pfl_segment_entry gap = *entry;

    gap.is_gap = true;
    gap.is_leaving = false;
    gap.why = why;
    memset(gap.sha256, 0, sizeof(gap.sha256));
    /* `entry` itself need not be in the table. */
    if (before > 0 && compare(&self->entries[before - 1], entry->id, entry->number) == 0)
        before--;
    if (before > 0 && is_free_gap(self, before - 1, entry->id) &&
        self->entries[before - 1].last + 1 == gap.number)
        widen(&gap, &self->entries[before - 1]);
    if (is_free_gap(self, behind, entry->id) && self->entries[behind].number == gap.last + 1)
        widen(&gap, &self->entries[behind]);
    *ret_gap = gap;
}

int pfl_segment_table_put_gap(struct pfl_segment_table *self, const struct pfl_segment_entry *gap)
{
    size_t at = pfl_segment_table_seek(self, gap->id, gap->number);
    struct pfl_segment_entry copy = *gap;

    if (at > 0 && compare(&self->entries[at - 1], copy.id, copy.number) == 0)
        at--;
    while (is_of(self, at, copy.id) && self->entries[at].number <= copy.last)
        remove_at(self, at);
    return pfl_segment_table_add(self, &copy);
}

void pfl_segment_table_sum(const struct pfl_segment_table *self, const char *orderer,
                           const char *order, struct pfl_segment_sums *ret_sums)
{
    struct pfl_segment_sums sums = {0};

    for (size_t i = 0; i < self->len; i++) {
        const struct pfl_segment_entry *e = &self->entries[i];

        if (e->is_gap || ((orderer != NULL || order != NULL) &&
                          !is_of_order(pfl_segment_table_find_run(self, e->id), orderer, order)))
            continue;
        sums.segments++;
        sums.bytes += e->bytes;
        if (sums.oldest_unix_ns == 0 || e->end_unix_ns < sums.oldest_unix_ns)
            sums.oldest_unix_ns = e->end_unix_ns;
    }
    *ret_sums = sums;
}
