/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs: see segment_runs.h. Happy path: each record is checked and becomes a row, its host and boot
 * a machine, its exchanges ties of clocks; then the rows are sorted. Failures: a record that makes
 * no sense is refused; what is too much of one host is left out and counted. Limits:
 * PFL_SEGMENT_MERGE_MAX_SEGMENTS, those of clock_graph.h.
 */
#include "consumer/collector/segment_runs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "consumer/collector/segment_merge.h"
#include "proto/tunnel/identity.h"

#define SANE_NS        ((uint64_t)1 << 61)
#define RUN_NAME_BYTES 512u

int pfl_segment_runs_init(struct pfl_segment_runs *self)
{
    *self = (struct pfl_segment_runs){0};
    return pfl_clock_graph_new(&self->clocks);
}

void pfl_segment_runs_fini(struct pfl_segment_runs *self)
{
    for (size_t i = 0; i < self->rows_len; i++)
        pfl_mem_free(self->rows[i].run);
    for (size_t i = 0; i < self->hosts_len; i++) {
        pfl_mem_free(self->hosts[i].host);
        pfl_mem_free(self->hosts[i].name);
    }
    pfl_mem_free(self->rows);
    pfl_mem_free(self->hosts);
    pfl_clock_graph_free(self->clocks);
}

/* Room for one more in a list of `len`, which grows by doubling. */
static int grow(void **list, size_t len, size_t size)
{
    void *larger;

    if ((len & (len - 1)) != 0)
        return 0;
    larger = pfl_mem_realloc(*list, (len != 0 ? 2 * len : 1) * size);
    if (larger == NULL)
        return PFL_ENOMEM;
    *list = larger;
    return 0;
}

/* ---- adding ---- */

static bool is_sane(const Perfleet__Segment *s)
{
    return s->host != NULL && pfl_identity_is_name(s->host) && s->incarnation != NULL &&
           s->begin_boot_ns <= s->end_boot_ns && s->end_boot_ns < SANE_NS &&
           s->begin_unix_ns < UINT64_MAX - SANE_NS;
}

static const char *text_of(const char *text)
{
    return text != NULL ? text : "";
}

static size_t find_first(const struct pfl_segment_runs *r, const char *host)
{
    for (size_t i = 0; i < r->hosts_len; i++)
        if (strcmp(r->hosts[i].host, host) == 0)
            return i;
    return r->hosts_len;
}

/* The machines of a host differ in their boots, and so in their clocks. */
static int find_host(struct pfl_segment_runs *r, const Perfleet__Segment *s, size_t *ret_host)
{
    void *list = r->hosts;
    size_t clock;
    char *name;
    int rc = pfl_clock_graph_add_host(r->clocks, s->host, text_of(s->boot_id), &clock);

    if (rc != 0)
        return rc;
    for (size_t i = 0; i < r->hosts_len; i++)
        if (r->hosts[i].clock == clock) {
            *ret_host = i;
            return 0;
        }
    rc = grow(&list, r->hosts_len, sizeof(*r->hosts));
    r->hosts = list;
    name = rc == 0 ? pfl_mem_strdup(s->host) : NULL;
    if (name == NULL)
        return PFL_ENOMEM;
    *ret_host = r->hosts_len;
    r->hosts[*ret_host] = (struct pfl_segment_host){.host = name,
                                                    .first = find_first(r, name),
                                                    .clock = clock,
                                                    .begin_ns = s->begin_boot_ns,
                                                    .end_ns = s->end_boot_ns};
    r->hosts_len++;
    return 0;
}

static int add_points(struct pfl_segment_runs *r, size_t clock, const Perfleet__Segment *s)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < s->n_clock; i++)
        rc = pfl_clock_graph_add_point(r->clocks, clock, s->clock[i]);
    return rc;
}

static int add_row(struct pfl_segment_runs *r, const Perfleet__Segment *s, size_t host)
{
    struct pfl_segment_row row = {.machine = host,
                                  .added = r->added,
                                  .number = s->number,
                                  .bytes = s->bytes,
                                  .begin_boot_ns = s->begin_boot_ns,
                                  .end_boot_ns = s->end_boot_ns,
                                  .begin_unix_ns = s->begin_unix_ns};
    char run[RUN_NAME_BYTES];
    void *list = r->rows;
    int rc = grow(&list, r->rows_len, sizeof(row));

    r->rows = list;
    if (rc != 0)
        return rc;
    (void)snprintf(run, sizeof(run), "%s/%s/%s", text_of(s->orderer), text_of(s->order),
                   s->incarnation);
    row.run = pfl_mem_strdup(run);
    if (row.run == NULL)
        return PFL_ENOMEM;
    r->rows[r->rows_len++] = row;
    return 0;
}

int pfl_segment_runs_add(struct pfl_segment_runs *self, const Perfleet__Segment *segment)
{
    struct pfl_segment_host *h;
    size_t host;
    int rc;

    if (!is_sane(segment))
        return PFL_EINVAL;
    if (self->added == PFL_SEGMENT_MERGE_MAX_SEGMENTS)
        return PFL_ELIMIT;
    if (segment->gap != NULL) {
        self->added++;
        return 0;
    }
    rc = find_host(self, segment, &host);
    if (rc == PFL_ELIMIT && find_first(self, segment->host) != self->hosts_len) {
        self->hosts[find_first(self, segment->host)].left_out++;
        self->added++;
        return 0;
    }
    if (rc == 0)
        rc = add_points(self, self->hosts[host].clock, segment);
    if (rc == 0)
        rc = add_row(self, segment, host);
    if (rc != 0)
        return rc;
    h = &self->hosts[host];
    h->begin_ns = segment->begin_boot_ns < h->begin_ns ? segment->begin_boot_ns : h->begin_ns;
    h->end_ns = segment->end_boot_ns > h->end_ns ? segment->end_boot_ns : h->end_ns;
    self->added++;
    return 0;
}

/* ---- sorting ---- */

bool pfl_segment_runs_is_same(const struct pfl_segment_row *a, const struct pfl_segment_row *b)
{
    return a->machine == b->machine && strcmp(a->run, b->run) == 0;
}

static int compare_rows(const void *a, const void *b)
{
    const struct pfl_segment_row *x = a;
    const struct pfl_segment_row *y = b;
    int order;

    if (x->machine != y->machine)
        return x->machine < y->machine ? -1 : 1;
    order = strcmp(x->run, y->run);
    if (order != 0)
        return order;
    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    return (x->added > y->added) - (x->added < y->added);
}

/* Boots of one host are numbered as they were added. */
static int name_host(struct pfl_segment_runs *r, size_t host)
{
    char name[PFL_IDENTITY_NAME_BYTES + 32];
    unsigned boot = 1;

    for (size_t i = 0; i < host; i++)
        boot += r->hosts[i].first == r->hosts[host].first;
    if (boot == 1)
        (void)snprintf(name, sizeof(name), "%s", r->hosts[host].host);
    else
        (void)snprintf(name, sizeof(name), "%s (boot %u)", r->hosts[host].host, boot);
    r->hosts[host].name = pfl_mem_strdup(name);
    return r->hosts[host].name != NULL ? 0 : PFL_ENOMEM;
}

int pfl_segment_runs_sort(struct pfl_segment_runs *self)
{
    size_t len = 0;
    int rc = 0;

    if (self->rows_len != 0)
        qsort(self->rows, self->rows_len, sizeof(*self->rows), compare_rows);
    for (size_t i = 0; i < self->rows_len; i++) {
        struct pfl_segment_row *row = &self->rows[i];

        if (len != 0 && pfl_segment_runs_is_same(row, &self->rows[len - 1]) &&
            row->number == self->rows[len - 1].number) {
            pfl_mem_free(row->run);
            continue;
        }
        self->hosts[row->machine].segments++;
        self->rows[len++] = *row;
    }
    self->rows_len = len;
    for (size_t i = 0; rc == 0 && i < self->hosts_len; i++)
        rc = name_host(self, i);
    return rc;
}

/* ---- limits ---- */

static bool is_new_run(const struct pfl_segment_runs *r, size_t row)
{
    return row == 0 || !pfl_segment_runs_is_same(&r->rows[row], &r->rows[row - 1]);
}

/* Runs of each host, by its first machine. */
static void count_runs(const struct pfl_segment_runs *r, size_t *counts)
{
    for (size_t i = 0; i < r->rows_len; i++)
        counts[r->hosts[r->rows[i].machine].first] += is_new_run(r, i);
}

/* So many runs may each host have that all have at most `max`; 0: there are more hosts. */
static size_t find_share(const size_t *counts, size_t len, size_t max)
{
    size_t share = 0;

    for (;;) {
        size_t sum = 0;

        for (size_t i = 0; i < len; i++)
            sum += counts[i] < share + 1 ? counts[i] : share + 1;
        if (sum > max || share == max)
            return share;
        share++;
    }
}

/* All but the first `share` runs of each host; `seen` is zeroed. */
static void mark_left_out(struct pfl_segment_runs *r, size_t share, size_t *seen)
{
    for (size_t i = 0; i < r->rows_len; i++) {
        size_t first = r->hosts[r->rows[i].machine].first;

        seen[first] += is_new_run(r, i);
        r->rows[i].is_left_out = seen[first] > share;
    }
}

static void drop_left_out(struct pfl_segment_runs *r)
{
    size_t len = 0;

    for (size_t i = 0; i < r->rows_len; i++) {
        struct pfl_segment_row *row = &r->rows[i];
        struct pfl_segment_host *h = &r->hosts[row->machine];

        if (!row->is_left_out) {
            r->rows[len++] = *row;
            continue;
        }
        h->segments--;
        r->hosts[h->first].left_out++;
        pfl_mem_free(row->run);
    }
    r->rows_len = len;
}

int pfl_segment_runs_limit(struct pfl_segment_runs *self, size_t max)
{
    size_t *counts = pfl_mem_calloc(self->hosts_len + 1, sizeof(*counts));
    size_t share;

    if (counts == NULL)
        return PFL_ENOMEM;
    count_runs(self, counts);
    share = find_share(counts, self->hosts_len, max);
    memset(counts, 0, self->hosts_len * sizeof(*counts));
    if (share != 0 && share != max) {
        mark_left_out(self, share, counts);
        drop_left_out(self);
    }
    pfl_mem_free(counts);
    return share != 0 ? 0 : PFL_ELIMIT;
}

const char *pfl_segment_runs_find_largest(const struct pfl_segment_runs *self, bool is_sorted,
                                          size_t *ret_count)
{
    size_t *counts = pfl_mem_calloc(self->hosts_len + 1, sizeof(*counts));
    size_t largest = 0;

    *ret_count = 0;
    if (counts == NULL || self->hosts_len == 0) {
        pfl_mem_free(counts);
        return NULL;
    }
    for (size_t i = 0; i < self->rows_len; i++)
        if (!is_sorted || is_new_run(self, i))
            counts[self->hosts[self->rows[i].machine].first]++;
    for (size_t i = 0; i < self->hosts_len; i++)
        largest = counts[i] > counts[largest] ? i : largest;
    *ret_count = counts[largest];
    pfl_mem_free(counts);
    return self->hosts[largest].host;
}
