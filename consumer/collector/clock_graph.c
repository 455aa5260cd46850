/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph of clocks: see clock_graph.h.
 *
 *     host A --- relay 1 --- host B (reference)
 *                relay 2 -----/   \--- ...
 *
 * Happy path: an edge joins a host's clock and a relay's, and has the exchanges between both in the
 * order of the host's clock. solve sorts them, counts what is tied together, and gives each clock
 * the edge with the least error on its path to the reference. convert walks that path: at each edge
 * the offset is interpolated between the two exchanges around the instant. Failures: out of memory;
 * a clock without a path is not converted. Ownership: all memory is the graph's. Limits:
 * PFL_CLOCK_GRAPH_MAX_CLOCKS, PFL_CLOCK_GRAPH_MAX_POINTS.
 */
#include "consumer/collector/clock_graph.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define SANE_NS      ((int64_t)1 << 61)
#define ERROR_MAX_NS 3600000000000ull /* sums of them never overflow */
#define NO_EDGE      SIZE_MAX

struct clock {
    char *name; /* owned */
    char *boot; /* owned */
    bool is_relay;
    size_t group;     /* of clocks that are tied together */
    size_t edge;      /* on its path to the reference; NO_EDGE: none */
    int64_t error_ns; /* of that path; INT64_MAX: there is none */
    int64_t span_ns;  /* of a host's: between its first and last exchange with one relay */
};

struct exchange {
    int64_t host_ns;
    int64_t offset_ns;
    int64_t error_ns;
};

struct edge {
    size_t host;
    size_t relay;
    struct exchange *list; /* owned; by host_ns, once solved */
    size_t len;
    size_t capacity;
};

struct pfl_clock_graph {
    struct clock *clocks; /* owned */
    size_t clocks_len;
    struct edge *edges; /* owned */
    size_t edges_len;
    size_t points;
    size_t reference;
};

int pfl_clock_graph_new(struct pfl_clock_graph **ret_graph)
{
    struct pfl_clock_graph *g = pfl_mem_zalloc(sizeof(*g));

    if (g == NULL)
        return PFL_ENOMEM;
    *ret_graph = g;
    return 0;
}

void pfl_clock_graph_free(struct pfl_clock_graph *self)
{
    if (self == NULL)
        return;
    for (size_t i = 0; i < self->clocks_len; i++) {
        pfl_mem_free(self->clocks[i].name);
        pfl_mem_free(self->clocks[i].boot);
    }
    for (size_t i = 0; i < self->edges_len; i++)
        pfl_mem_free(self->edges[i].list);
    pfl_mem_free(self->clocks);
    pfl_mem_free(self->edges);
    pfl_mem_free(self);
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

static int add_clock(struct pfl_clock_graph *g, const char *name, const char *boot, bool is_relay,
                     size_t *ret_clock)
{
    struct clock c = {.is_relay = is_relay, .edge = NO_EDGE, .error_ns = INT64_MAX};
    void *list = g->clocks;
    int rc;

    for (size_t i = 0; i < g->clocks_len; i++)
        if (g->clocks[i].is_relay == is_relay && strcmp(g->clocks[i].name, name) == 0 &&
            strcmp(g->clocks[i].boot, boot) == 0) {
            *ret_clock = i;
            return 0;
        }
    if (g->clocks_len == PFL_CLOCK_GRAPH_MAX_CLOCKS)
        return PFL_ELIMIT;
    rc = grow(&list, g->clocks_len, sizeof(c));
    g->clocks = list;
    if (rc != 0)
        return rc;
    c.name = pfl_mem_strdup(name);
    c.boot = pfl_mem_strdup(boot);
    c.group = g->clocks_len;
    if (c.name == NULL || c.boot == NULL) {
        pfl_mem_free(c.name);
        pfl_mem_free(c.boot);
        return PFL_ENOMEM;
    }
    g->clocks[g->clocks_len] = c;
    *ret_clock = g->clocks_len++;
    return 0;
}

int pfl_clock_graph_add_host(struct pfl_clock_graph *self, const char *host, const char *boot_id,
                             size_t *ret_clock)
{
    return add_clock(self, host, boot_id, false, ret_clock);
}

static int find_edge(struct pfl_clock_graph *g, size_t host, size_t relay, struct edge **ret_edge)
{
    void *list = g->edges;
    int rc;

    for (size_t i = 0; i < g->edges_len; i++)
        if (g->edges[i].host == host && g->edges[i].relay == relay) {
            *ret_edge = &g->edges[i];
            return 0;
        }
    rc = grow(&list, g->edges_len, sizeof(*g->edges));
    g->edges = list;
    if (rc != 0)
        return rc;
    g->edges[g->edges_len] = (struct edge){.host = host, .relay = relay};
    *ret_edge = &g->edges[g->edges_len++];
    return 0;
}

static bool is_sane(const Perfleet__ClockPoint *p)
{
    return p->relay != NULL && p->relay[0] != '\0' && p->host_boot_ns != 0 &&
           p->host_boot_ns < (uint64_t)SANE_NS && p->offset_ns > -SANE_NS &&
           p->offset_ns < SANE_NS && p->error_ns < ERROR_MAX_NS;
}

int pfl_clock_graph_add_point(struct pfl_clock_graph *self, size_t clock,
                              const Perfleet__ClockPoint *point)
{
    struct exchange e = {(int64_t)point->host_boot_ns, point->offset_ns, (int64_t)point->error_ns};
    struct edge *edge = NULL;
    void *list;
    size_t relay;
    int rc;

    if (!is_sane(point) || self->points == PFL_CLOCK_GRAPH_MAX_POINTS)
        return 0;
    rc = add_clock(self, point->relay, point->relay_boot_id != NULL ? point->relay_boot_id : "",
                   true, &relay);
    if (rc == PFL_ELIMIT)
        return 0;
    if (rc == 0)
        rc = find_edge(self, clock, relay, &edge);
    if (rc != 0)
        return rc;
    /* Neighbours share exchanges. */
    if (edge->len != 0 && memcmp(&edge->list[edge->len - 1], &e, sizeof(e)) == 0)
        return 0;
    list = edge->list;
    rc = grow(&list, edge->len, sizeof(e));
    edge->list = list;
    if (rc != 0)
        return rc;
    edge->list[edge->len++] = e;
    self->points++;
    return 0;
}

/* ---- paths ---- */

static int compare_exchanges(const void *a, const void *b)
{
    const struct exchange *x = a;
    const struct exchange *y = b;

    if (x->host_ns != y->host_ns)
        return x->host_ns < y->host_ns ? -1 : 1;
    return (x->error_ns > y->error_ns) - (x->error_ns < y->error_ns);
}

/* In order, and of several at one instant the best. */
static void sort_edge(struct edge *t)
{
    size_t len = 0;

    qsort(t->list, t->len, sizeof(*t->list), compare_exchanges);
    for (size_t i = 0; i < t->len; i++)
        if (i == 0 || t->list[i].host_ns != t->list[len - 1].host_ns)
            t->list[len++] = t->list[i];
    t->len = len;
}

static int64_t least_error(const struct edge *t)
{
    int64_t least = INT64_MAX;

    for (size_t i = 0; i < t->len; i++)
        least = t->list[i].error_ns < least ? t->list[i].error_ns : least;
    return least;
}

static void join_groups(struct pfl_clock_graph *g)
{
    bool is_changed = true;

    while (is_changed) {
        is_changed = false;
        for (size_t i = 0; i < g->edges_len; i++) {
            size_t *a = &g->clocks[g->edges[i].host].group;
            size_t *b = &g->clocks[g->edges[i].relay].group;

            if (*a == *b)
                continue;
            *a = *a < *b ? *a : *b;
            *b = *a;
            is_changed = true;
        }
    }
}

/* Of the clocks that are tied together: those with most hosts. */
static size_t choose_group(const struct pfl_clock_graph *g, size_t *hosts)
{
    size_t best = g->clocks[g->edges[0].host].group;

    for (size_t i = 0; i < g->clocks_len; i++)
        hosts[g->clocks[i].group] += !g->clocks[i].is_relay;
    for (size_t i = 0; i < g->edges_len; i++) {
        size_t group = g->clocks[g->edges[i].host].group;

        if (hosts[group] > hosts[best])
            best = group;
    }
    return best;
}

static void note_span(struct pfl_clock_graph *g, const struct edge *e)
{
    struct clock *host = &g->clocks[e->host];
    int64_t span_ns = e->len != 0 ? e->list[e->len - 1].host_ns - e->list[0].host_ns : 0;

    host->span_ns = span_ns > host->span_ns ? span_ns : host->span_ns;
}

/* The first host whose clock is known about as long as any: beyond that time all others' places
 * would be guesses. */
static size_t choose_reference(const struct pfl_clock_graph *g, size_t group)
{
    int64_t longest_ns = 0;
    size_t best = 0;

    for (size_t i = 0; i < g->clocks_len; i++)
        if (g->clocks[i].group == group && g->clocks[i].span_ns > longest_ns)
            longest_ns = g->clocks[i].span_ns;
    while (g->clocks[best].is_relay || g->clocks[best].group != group ||
           g->clocks[best].span_ns < longest_ns - longest_ns / 10)
        best++;
    return best;
}

/* True: the edge shortens the path of `to`. */
static bool try_path(struct pfl_clock_graph *g, size_t edge, size_t from, size_t to)
{
    int64_t error_ns = g->clocks[from].error_ns;

    if (error_ns == INT64_MAX || g->edges[edge].len == 0)
        return false;
    error_ns += least_error(&g->edges[edge]);
    if (error_ns >= g->clocks[to].error_ns || to == g->reference)
        return false;
    g->clocks[to].error_ns = error_ns;
    g->clocks[to].edge = edge;
    return true;
}

static void find_paths(struct pfl_clock_graph *g)
{
    bool is_changed = true;

    g->clocks[g->reference].error_ns = 0;
    for (size_t round = 0; is_changed && round < g->clocks_len; round++) {
        is_changed = false;
        for (size_t i = 0; i < g->edges_len; i++) {
            is_changed = try_path(g, i, g->edges[i].host, g->edges[i].relay) || is_changed;
            is_changed = try_path(g, i, g->edges[i].relay, g->edges[i].host) || is_changed;
        }
    }
}

int pfl_clock_graph_solve(struct pfl_clock_graph *self, size_t *ret_reference)
{
    size_t *hosts;

    if (self->edges_len == 0)
        return PFL_ESTATE;
    hosts = pfl_mem_calloc(self->clocks_len, sizeof(*hosts));
    if (hosts == NULL)
        return PFL_ENOMEM;
    for (size_t i = 0; i < self->edges_len; i++) {
        sort_edge(&self->edges[i]);
        note_span(self, &self->edges[i]);
    }
    join_groups(self);
    self->reference = choose_reference(self, choose_group(self, hosts));
    pfl_mem_free(hosts);
    find_paths(self);
    *ret_reference = self->reference;
    return 0;
}

/* ---- offsets ---- */

static int64_t magnitude(int64_t ns)
{
    return ns < 0 ? -ns : ns;
}

/* On the line through both. */
static int64_t interpolate(const struct exchange *a, const struct exchange *b, int64_t host_ns)
{
    double slope = (double)(b->offset_ns - a->offset_ns) / (double)(b->host_ns - a->host_ns);

    return a->offset_ns + (int64_t)(slope * (double)(host_ns - a->host_ns));
}

/* The last exchange at or before the instant; 0: also if it is before the first one. */
static size_t find_exchange(const struct edge *t, int64_t host_ns)
{
    size_t low = 0;
    size_t high = t->len;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (t->list[middle].host_ns <= host_ns)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static int64_t offset_at(const struct edge *t, int64_t host_ns, int64_t *ret_error_ns)
{
    size_t i = find_exchange(t, host_ns);
    const struct exchange *a = &t->list[i];
    const struct exchange *b = i + 1 < t->len ? a + 1 : NULL;
    int64_t distance_ns;

    assert(t->list != NULL); /* paths have no empty edges */
    if (b != NULL && host_ns >= a->host_ns) {
        *ret_error_ns = a->error_ns > b->error_ns ? a->error_ns : b->error_ns;
        return interpolate(a, b, host_ns);
    }
    distance_ns = magnitude(host_ns - a->host_ns);
    *ret_error_ns = a->error_ns + distance_ns / (1000000 / PFL_CLOCK_GRAPH_DRIFT_PPM);
    return a->offset_ns;
}

bool pfl_clock_graph_convert(const struct pfl_clock_graph *self, size_t clock, int64_t ns,
                             int64_t *ret_ns, int64_t *ret_error_ns)
{
    int64_t sum_ns = 0;

    if (magnitude(ns) > SANE_NS)
        return false;
    for (size_t steps = 0; clock != self->reference; steps++) {
        const struct edge *t;
        int64_t error_ns;

        if (self->clocks[clock].edge == NO_EDGE || steps == self->clocks_len)
            return false;
        t = &self->edges[self->clocks[clock].edge];
        if (clock == t->host) {
            ns -= offset_at(t, ns, &error_ns);
            clock = t->relay;
        } else {
            /* The host's instant is not known yet: the offset changes slowly. */
            int64_t host_ns = ns + offset_at(t, ns + t->list[0].offset_ns, &error_ns);

            ns += offset_at(t, host_ns, &error_ns);
            clock = t->host;
        }
        sum_ns += error_ns;
        if (magnitude(ns) > SANE_NS)
            return false;
    }
    *ret_ns = ns;
    *ret_error_ns = sum_ns;
    return true;
}
