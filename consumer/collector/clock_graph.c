/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph of clocks: see clock_graph.h.
 *
 *     host A --- relay 1 (hub) --- host B --- relay 2 --- host C
 *
 * Happy path: an edge joins a host's clock and a relay's, and has the exchanges between both in the
 * order of the host's clock. solve sorts them and chooses the relay to which most hosts are tied:
 * the hub. Each host that is tied to it is placed by its own exchanges alone. Further relays are
 * placed by hosts that are tied to both, in rounds, and so on: a way leads through as few hosts as
 * possible. convert walks from a clock to the hub, and from there to the reference: at each edge
 * the offset is interpolated between the two exchanges around the instant.
 *
 * What a host says of its clock may be a lie, which is to misplace that host alone. So a relay is
 * placed as the majority of hosts has it, and not at all if there is none; a host whose clock would
 * gain or lose more than any clock does is neither the reference nor a way, if there are others;
 * and one host alone does not tell how long others' clocks are known. Failures: out of memory; a
 * clock without a way is not converted. Ownership: all memory is the graph's. Limits:
 * clock_graph.h.
 */
#include "consumer/collector/clock_graph.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/shares.h"

#define SANE_NS      ((int64_t)1 << 61)
#define ERROR_MAX_NS 3600000000000ull /* sums of them never overflow */
#define NONE         SIZE_MAX
#define WITNESSES    16u /* hosts that are compared about a relay */
#define ROUNDS_MAX   32u /* hosts on a way */
/* A clock gains or loses less on another one: 2 %. */
#define RATE_MAX_PPM 20000

struct clock {
    char *name; /* owned */
    char *boot; /* owned */
    bool is_relay;
    bool is_placed;
    bool is_odd;      /* of a host's: it changes as no clock does */
    bool is_listed;   /* of a relay's: among those to be placed in this round */
    size_t first;     /* the first clock of that name */
    size_t edges;     /* the first of its edges; NONE: there are none */
    size_t edges_len; /* of a host's */
    size_t left_out;  /* of a host's: relays that it named beyond its share */
    size_t boots;     /* of a host's first clock, as the next two: clocks of that name */
    size_t relays;    /* that this host was the first to name */
    size_t points;    /* of all its boots */
    size_t edge;      /* on its way to the hub; NONE: it is the hub, or has none */
    int64_t error_ns; /* of that way */
};

struct exchange {
    int64_t host_ns;
    int64_t offset_ns;
    int64_t error_ns;
};

struct edge {
    size_t host;
    size_t relay;
    size_t next_of_host; /* NONE: the last */
    size_t next_of_relay;
    struct exchange *list; /* owned; by host_ns, once solved */
    size_t len;
};

struct pfl_clock_graph {
    struct clock *clocks; /* owned */
    size_t clocks_len;
    size_t relays_len;  /* of the clocks */
    struct edge *edges; /* owned */
    size_t edges_len;
    size_t points;
    size_t hub;
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

/* False: there is no such clock; `ret_first`: the first one of that name, or the next one to be. */
static bool find_clock(const struct pfl_clock_graph *g, const struct clock *like, size_t *ret_clock,
                       size_t *ret_first)
{
    *ret_first = g->clocks_len;
    for (size_t i = 0; i < g->clocks_len; i++) {
        const struct clock *c = &g->clocks[i];

        if (c->is_relay != like->is_relay || strcmp(c->name, like->name) != 0)
            continue;
        *ret_first = c->first;
        *ret_clock = i;
        if (strcmp(c->boot, like->boot) == 0)
            return true;
    }
    return false;
}

static int add_clock(struct pfl_clock_graph *g, const struct clock *like, size_t first)
{
    struct clock c = {.is_relay = like->is_relay, .first = first, .edges = NONE, .edge = NONE};
    void *list = g->clocks;
    int rc = grow(&list, g->clocks_len, sizeof(c));

    g->clocks = list;
    if (rc != 0)
        return rc;
    c.name = pfl_mem_strdup(like->name);
    c.boot = pfl_mem_strdup(like->boot);
    if (c.name == NULL || c.boot == NULL) {
        pfl_mem_free(c.name);
        pfl_mem_free(c.boot);
        return PFL_ENOMEM;
    }
    g->clocks[g->clocks_len++] = c;
    g->relays_len += c.is_relay;
    return 0;
}

int pfl_clock_graph_add_host(struct pfl_clock_graph *self, const char *host, const char *boot_id,
                             size_t *ret_clock)
{
    const struct clock like = {.name = (char *)(uintptr_t)host, .boot = (char *)(uintptr_t)boot_id};
    size_t first;
    int rc;

    if (find_clock(self, &like, ret_clock, &first))
        return 0;
    if (self->clocks_len - self->relays_len == PFL_CLOCK_GRAPH_MAX_BOOTS ||
        (first != self->clocks_len && self->clocks[first].boots == PFL_CLOCK_GRAPH_HOST_BOOTS))
        return PFL_ELIMIT;
    rc = add_clock(self, &like, first);
    if (rc != 0)
        return rc;
    self->clocks[first].boots++;
    *ret_clock = self->clocks_len - 1;
    return 0;
}

/* PFL_ELIMIT: this host has named as many that nobody else had named as it may. */
static int add_relay(struct pfl_clock_graph *g, size_t host, const struct clock *like,
                     size_t *ret_clock)
{
    size_t first_host = g->clocks[host].first;
    size_t first;
    int rc;

    if (find_clock(g, like, ret_clock, &first))
        return 0;
    if (!pfl_shares_allow(PFL_CLOCK_GRAPH_MAX_RELAYS, g->relays_len, g->clocks[first_host].relays,
                          1)) {
        g->clocks[host].left_out++;
        return PFL_ELIMIT;
    }
    rc = add_clock(g, like, first);
    if (rc != 0)
        return rc;
    g->clocks[first_host].relays++;
    *ret_clock = g->clocks_len - 1;
    return 0;
}

/* Between this host and the relay that the exchange names. NULL: there is none yet. */
static struct edge *find_edge(const struct pfl_clock_graph *g, size_t host,
                              const Perfleet__ClockPoint *p)
{
    const char *boot = p->relay_boot_id != NULL ? p->relay_boot_id : "";
    size_t i = g->clocks[host].edges;

    for (; i != NONE; i = g->edges[i].next_of_host) {
        const struct clock *relay = &g->clocks[g->edges[i].relay];

        if (strcmp(relay->name, p->relay) == 0 && strcmp(relay->boot, boot) == 0)
            return &g->edges[i];
    }
    return NULL;
}

/* PFL_ELIMIT: there are as many clocks, or relays of this host, as may be. */
static int add_edge(struct pfl_clock_graph *g, size_t host, const Perfleet__ClockPoint *p,
                    struct edge **ret_edge)
{
    const struct clock like = {.name = p->relay,
                               .boot = p->relay_boot_id != NULL ? p->relay_boot_id
                                                                : (char *)(uintptr_t) "",
                               .is_relay = true};
    void *list = g->edges;
    size_t relay;
    int rc;

    /* Each is looked for among all. */
    if (g->clocks[host].edges_len + g->clocks[host].left_out >= PFL_CLOCK_GRAPH_HOST_RELAYS)
        return PFL_ELIMIT;
    rc = add_relay(g, host, &like, &relay);
    if (rc != 0)
        return rc;
    rc = grow(&list, g->edges_len, sizeof(*g->edges));
    g->edges = list;
    if (rc != 0)
        return rc;
    g->edges[g->edges_len] = (struct edge){.host = host,
                                           .relay = relay,
                                           .next_of_host = g->clocks[host].edges,
                                           .next_of_relay = g->clocks[relay].edges};
    g->clocks[host].edges = g->clocks[relay].edges = g->edges_len;
    g->clocks[host].edges_len++;
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
    size_t used = self->clocks[self->clocks[clock].first].points;
    struct edge *edge;
    void *list;
    int rc = 0;

    if (!is_sane(point) || !pfl_shares_allow(PFL_CLOCK_GRAPH_MAX_POINTS, self->points, used, 1))
        return 0;
    edge = find_edge(self, clock, point);
    if (edge == NULL)
        rc = add_edge(self, clock, point, &edge);
    if (rc != 0)
        return rc == PFL_ELIMIT ? 0 : rc;
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
    self->clocks[self->clocks[clock].first].points++;
    return 0;
}

/* ---- what hosts say ---- */

static int64_t magnitude(int64_t ns)
{
    return ns < 0 ? -ns : ns;
}

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

/* It gains or loses more between two exchanges than a clock can. */
static bool is_odd(const struct edge *t)
{
    for (size_t i = 0; i + 1 < t->len; i++) {
        const struct exchange *a = &t->list[i];
        const struct exchange *b = &t->list[i + 1];
        int64_t most_ns = (b->host_ns - a->host_ns) / (1000000 / RATE_MAX_PPM);

        if (magnitude(b->offset_ns - a->offset_ns) > most_ns + a->error_ns + b->error_ns)
            return true;
    }
    return false;
}

/* ---- offsets ---- */

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

/* The instant of a relay's clock on that of the edge's host, whose offset is not known yet: it
 * changes slowly. */
static int64_t convert_to_host(const struct edge *t, int64_t ns, int64_t *ret_error_ns)
{
    int64_t host_ns = ns + offset_at(t, ns + t->list[0].offset_ns, ret_error_ns);

    return ns + offset_at(t, host_ns, ret_error_ns);
}

static bool convert_to_hub(const struct pfl_clock_graph *g, size_t clock, int64_t *ns,
                           int64_t *error_ns)
{
    while (clock != g->hub) {
        const struct clock *c = &g->clocks[clock];
        const struct edge *t;
        int64_t more_ns;

        if (c->edge == NONE || magnitude(*ns) > SANE_NS)
            return false;
        t = &g->edges[c->edge];
        *ns = c->is_relay ? convert_to_host(t, *ns, &more_ns) : *ns - offset_at(t, *ns, &more_ns);
        *error_ns += more_ns;
        clock = c->is_relay ? t->host : t->relay;
    }
    return magnitude(*ns) <= SANE_NS;
}

/* ---- ways to the hub ---- */

/* Hosts of different names that are tied to it. */
static size_t count_hosts(const struct pfl_clock_graph *g, size_t relay, size_t *seen)
{
    size_t count = 0;

    for (size_t i = g->clocks[relay].edges; i != NONE; i = g->edges[i].next_of_relay) {
        size_t first = g->clocks[g->edges[i].host].first;

        count += seen[first] != relay && g->edges[i].len != 0;
        seen[first] = relay;
    }
    return count;
}

/* PFL_ESTATE: there is no exchange. */
static int choose_hub(struct pfl_clock_graph *g)
{
    size_t *seen = pfl_mem_alloc(g->clocks_len * sizeof(*seen));
    size_t most = 0;

    if (seen == NULL)
        return PFL_ENOMEM;
    for (size_t i = 0; i < g->clocks_len; i++)
        seen[i] = NONE;
    for (size_t i = 0; i < g->clocks_len; i++) {
        size_t count = g->clocks[i].is_relay ? count_hosts(g, i, seen) : 0;

        if (count > most) {
            most = count;
            g->hub = i;
        }
    }
    pfl_mem_free(seen);
    return most != 0 ? 0 : PFL_ESTATE;
}

/* Hosts that have no way yet, by their own exchanges with a relay of this round. */
static void place_hosts(struct pfl_clock_graph *g)
{
    for (size_t i = 0; i < g->edges_len; i++) {
        const struct edge *e = &g->edges[i];
        const struct clock *relay = &g->clocks[e->relay];
        struct clock *host = &g->clocks[e->host];
        int64_t error_ns;

        if (!relay->is_placed || host->is_placed || e->len == 0)
            continue;
        error_ns = relay->error_ns + least_error(e);
        if (host->edge != NONE && host->error_ns <= error_ns)
            continue;
        host->edge = i;
        host->error_ns = error_ns;
    }
    for (size_t i = 0; i < g->clocks_len; i++) {
        if (!g->clocks[i].is_relay && g->clocks[i].edge != NONE)
            g->clocks[i].is_placed = true;
    }
}

/* A host that is tied to a relay and placed. */
struct witness {
    size_t edge;
    unsigned votes; /* of hosts that say the same, itself too */
};

/* One host of each name. Returns how many. */
static unsigned find_witnesses(const struct pfl_clock_graph *g, size_t relay, bool is_odd_wanted,
                               struct witness list[WITNESSES])
{
    unsigned len = 0;

    for (size_t i = g->clocks[relay].edges; i != NONE && len < WITNESSES;
         i = g->edges[i].next_of_relay) {
        const struct clock *host = &g->clocks[g->edges[i].host];
        bool is_there = false;

        for (unsigned k = 0; k < len; k++)
            is_there = is_there || g->clocks[g->edges[list[k].edge].host].first == host->first;
        if (!is_there && host->is_placed && host->is_odd == is_odd_wanted && g->edges[i].len != 0)
            list[len++] = (struct witness){i, 1};
    }
    return len;
}

/* The relay's instant at the hub, as the edge's host has it. */
static bool witness_instant(const struct pfl_clock_graph *g, size_t edge, int64_t relay_ns,
                            int64_t *ret_ns, int64_t *ret_error_ns)
{
    *ret_ns = convert_to_host(&g->edges[edge], relay_ns, ret_error_ns);
    return convert_to_hub(g, g->edges[edge].host, ret_ns, ret_error_ns);
}

/* At the last exchange of `a`. */
static bool do_agree(const struct pfl_clock_graph *g, size_t a, size_t b)
{
    const struct exchange *last = &g->edges[a].list[g->edges[a].len - 1];
    int64_t relay_ns = last->host_ns - last->offset_ns;
    int64_t ns[2];
    int64_t error_ns[2];

    return magnitude(relay_ns) <= SANE_NS &&
           witness_instant(g, a, relay_ns, &ns[0], &error_ns[0]) &&
           witness_instant(g, b, relay_ns, &ns[1], &error_ns[1]) &&
           magnitude(ns[0] - ns[1]) <= error_ns[0] + error_ns[1];
}

/* The edge by which it is placed: of the hosts that the majority agrees with, the one with the
 * least error. NONE: they contradict each other. */
static size_t choose_way(const struct pfl_clock_graph *g, size_t relay)
{
    struct witness list[WITNESSES];
    unsigned len = find_witnesses(g, relay, false, list);
    int64_t best_ns = INT64_MAX;
    size_t best = NONE;

    if (len == 0)
        len = find_witnesses(g, relay, true, list);
    for (unsigned i = 0; i < len; i++) {
        for (unsigned k = i + 1; k < len; k++) {
            bool is_same = do_agree(g, list[i].edge, list[k].edge);

            list[i].votes += is_same;
            list[k].votes += is_same;
        }
    }
    for (unsigned i = 0; i < len; i++) {
        const struct edge *e = &g->edges[list[i].edge];
        int64_t error_ns = g->clocks[e->host].error_ns + least_error(e);

        if (2 * list[i].votes <= len || error_ns >= best_ns)
            continue;
        best_ns = error_ns;
        best = list[i].edge;
    }
    return best;
}

/* Relays that have no way yet, and to which placed hosts are tied. False: there was none. */
static bool place_relays(struct pfl_clock_graph *g)
{
    bool is_any = false;

    for (size_t i = 0; i < g->edges_len; i++)
        g->clocks[g->edges[i].relay].is_listed =
            g->clocks[g->edges[i].relay].is_listed || g->clocks[g->edges[i].host].is_placed;
    for (size_t i = 0; i < g->clocks_len; i++) {
        struct clock *c = &g->clocks[i];

        if (c->is_relay && c->is_listed && !c->is_placed)
            c->edge = choose_way(g, i);
        c->is_listed = false;
    }
    for (size_t i = 0; i < g->clocks_len; i++) {
        struct clock *c = &g->clocks[i];

        if (!c->is_relay || c->is_placed || c->edge == NONE)
            continue;
        c->error_ns = g->clocks[g->edges[c->edge].host].error_ns + least_error(&g->edges[c->edge]);
        c->is_placed = is_any = true;
    }
    return is_any;
}

/* ---- the reference ---- */

static int64_t span_of(const struct pfl_clock_graph *g, size_t host)
{
    const struct edge *e = &g->edges[g->clocks[host].edge];

    return e->list[e->len - 1].host_ns - e->list[0].host_ns;
}

/* Whether its own exchanges with the hub place it. */
static bool is_candidate(const struct pfl_clock_graph *g, size_t clock, bool is_odd_wanted)
{
    const struct clock *c = &g->clocks[clock];

    return !c->is_relay && c->edge != NONE && g->edges[c->edge].relay == g->hub &&
           c->is_odd == is_odd_wanted;
}

/* The longest span of a host that is not `but`, and whose it is. 0: there is none. */
static int64_t find_longest(const struct pfl_clock_graph *g, bool is_odd_wanted, size_t but,
                            size_t *ret_first)
{
    int64_t longest_ns = 0;

    *ret_first = NONE;
    for (size_t i = 0; i < g->clocks_len; i++) {
        if (!is_candidate(g, i, is_odd_wanted) || g->clocks[i].first == but ||
            (*ret_first != NONE && span_of(g, i) <= longest_ns))
            continue;
        longest_ns = span_of(g, i);
        *ret_first = g->clocks[i].first;
    }
    return longest_ns;
}

/* The first host whose clock is known about as long as any: beyond that time all others' places
 * would be guesses. What only one of three or more says does not count. NONE: no host is it. */
static size_t choose_reference(const struct pfl_clock_graph *g, bool is_odd_wanted)
{
    size_t first;
    size_t second;
    int64_t longest_ns = find_longest(g, is_odd_wanted, NONE, &first);
    int64_t second_ns = find_longest(g, is_odd_wanted, first, &second);

    for (size_t i = 0; i < g->clocks_len; i++) {
        if (is_candidate(g, i, is_odd_wanted) && g->clocks[i].first != first &&
            g->clocks[i].first != second)
            longest_ns = second_ns;
    }
    for (size_t i = 0; i < g->clocks_len; i++) {
        if (is_candidate(g, i, is_odd_wanted) && span_of(g, i) >= longest_ns - longest_ns / 10)
            return i;
    }
    return NONE;
}

int pfl_clock_graph_solve(struct pfl_clock_graph *self, size_t *ret_reference)
{
    int rc;

    if (self->edges_len == 0)
        return PFL_ESTATE;
    for (size_t i = 0; i < self->edges_len; i++) {
        struct edge *e = &self->edges[i];

        sort_edge(e);
        self->clocks[e->host].is_odd = self->clocks[e->host].is_odd || is_odd(e);
    }
    rc = choose_hub(self);
    if (rc != 0)
        return rc;
    self->clocks[self->hub].is_placed = true;
    place_hosts(self);
    for (unsigned round = 1; round < ROUNDS_MAX && place_relays(self); round++)
        place_hosts(self);
    self->reference = choose_reference(self, false);
    if (self->reference == NONE)
        self->reference = choose_reference(self, true);
    *ret_reference = self->reference;
    return 0;
}

bool pfl_clock_graph_convert(const struct pfl_clock_graph *self, size_t clock, int64_t ns,
                             int64_t *ret_ns, int64_t *ret_error_ns)
{
    int64_t error_ns = 0;
    int64_t last_ns = 0;

    if (magnitude(ns) > SANE_NS)
        return false;
    if (clock != self->reference) {
        if (!convert_to_hub(self, clock, &ns, &error_ns))
            return false;
        ns = convert_to_host(&self->edges[self->clocks[self->reference].edge], ns, &last_ns);
    }
    *ret_ns = ns;
    *ret_error_ns = error_ns + last_ns;
    return magnitude(ns) <= SANE_NS;
}
