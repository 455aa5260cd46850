/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns of hosts: see host_queue.h.
 *
 * Happy path: a host with segments is appended to the queue of ready ones; take removes the first
 * one, give appends it again if it has more. A host is in one list at a time:
 *
 *     idle --segments--> ready --take--> visited --give--> ready | waiting | idle
 *                          ^---------------- due or changed ------'
 *
 * Failures: a table that is full refuses the host. Ownership: the table owns the hosts; a visited
 * host stays until it is given back. Limits: PFL_HOST_QUEUE_HOSTS_MAX.
 */
#include "collector/pull/host_queue.h"

#include <assert.h>
#include <string.h>

#include "base/hash.h"
#include "base/list.h"
#include "base/mem.h"
#include "proto/tunnel/identity.h"
#include "tunnel/backoff.h"

#define BUCKETS 4096u

enum place {
    PLACE_IDLE = 0,
    PLACE_READY,
    PLACE_WAITING,
    PLACE_VISITED,
};

struct pfl_queued_host {
    struct pfl_list node;          /* in the list of its place */
    struct pfl_queued_host *chain; /* of its bucket */
    enum place place;
    unsigned relays; /* a bit for each that has it connected */
    bool is_changed; /* its spool changed during the visit */
    bool is_stuck;   /* waits after PFL_VISIT_STUCK: a change ends the wait */
    bool is_leased;  /* waits after PFL_VISIT_LEASED */
    uint64_t segments;
    uint64_t bytes;
    uint64_t due_ms; /* while waiting, and when idle */
    struct pfl_backoff backoff;
    char name[PFL_IDENTITY_NAME_BYTES];
};

struct pfl_host_queue {
    struct pfl_queued_host *buckets[BUCKETS]; /* owned */
    struct pfl_list lists[PLACE_VISITED + 1];
    unsigned counts[PLACE_VISITED + 1];
    unsigned hosts;
    unsigned visits_max;
};

int pfl_host_queue_new(unsigned visits_max, struct pfl_host_queue **ret_queue)
{
    struct pfl_host_queue *t = pfl_mem_zalloc(sizeof(*t));

    assert(visits_max >= 1);
    if (t == NULL)
        return PFL_ENOMEM;
    t->visits_max = visits_max;
    for (unsigned i = 0; i <= PLACE_VISITED; i++)
        pfl_list_init(&t->lists[i]);
    *ret_queue = t;
    return 0;
}

void pfl_host_queue_free(struct pfl_host_queue *self)
{
    struct pfl_queued_host *host;

    if (self == NULL)
        return;
    assert(self->counts[PLACE_VISITED] == 0);
    for (unsigned i = 0; i < BUCKETS; i++) {
        while ((host = self->buckets[i]) != NULL) {
            self->buckets[i] = host->chain;
            pfl_mem_free(host);
        }
    }
    pfl_mem_free(self);
}

/* ---- hosts ---- */

static void move(struct pfl_host_queue *t, struct pfl_queued_host *host, enum place place)
{
    pfl_list_remove(&host->node);
    t->counts[host->place]--;
    host->place = place;
    t->counts[place]++;
    pfl_list_append(&t->lists[place], &host->node);
}

static struct pfl_queued_host **find(struct pfl_host_queue *t, const char *name)
{
    struct pfl_queued_host **at = &t->buckets[pfl_hash_str(name) % BUCKETS];

    while (*at != NULL && strcmp((*at)->name, name) != 0)
        at = &(*at)->chain;
    return at;
}

static void forget(struct pfl_host_queue *t, struct pfl_queued_host *host)
{
    *find(t, host->name) = host->chain;
    pfl_list_remove(&host->node);
    t->counts[host->place]--;
    t->hosts--;
    pfl_mem_free(host);
}

static int add(struct pfl_host_queue *t, const char *name, uint64_t now_ms,
               struct pfl_queued_host **ret_host)
{
    struct pfl_queued_host *host;

    if (t->hosts == PFL_HOST_QUEUE_HOSTS_MAX)
        return PFL_ELIMIT;
    host = pfl_mem_zalloc(sizeof(*host));
    if (host == NULL)
        return PFL_ENOMEM;
    memcpy(host->name, name, strlen(name) + 1);
    host->backoff.max_ms = PFL_HOST_QUEUE_WAIT_MAX_MS;
    host->due_ms = now_ms + PFL_HOST_QUEUE_REVISIT_MS;
    *find(t, name) = host;
    t->hosts++;
    t->counts[PLACE_IDLE]++;
    pfl_list_append(&t->lists[PLACE_IDLE], &host->node);
    *ret_host = host;
    return 0;
}

/* Its relays or its spool changed. */
static void consider(struct pfl_host_queue *t, struct pfl_queued_host *host)
{
    if (host->place == PLACE_VISITED)
        return;
    if (host->relays == 0)
        forget(t, host);
    else if (host->place == PLACE_IDLE && host->segments != 0)
        move(t, host, PLACE_READY);
}

int pfl_host_queue_set(struct pfl_host_queue *self, const struct pfl_queued_host_state *state,
                       uint64_t now_ms)
{
    struct pfl_queued_host *host;
    unsigned bit = 1u << state->relay;
    bool is_changed;
    int rc = 0;

    if (!pfl_identity_is_name(state->name))
        return PFL_EINVAL;
    host = *find(self, state->name);
    if (host == NULL && !state->is_connected)
        return 0;
    if (host == NULL)
        rc = add(self, state->name, now_ms, &host);
    if (rc != 0)
        return rc;
    if (!state->is_connected) {
        host->relays &= ~bit;
        consider(self, host);
        return 0;
    }
    is_changed = host->segments != state->segments || host->bytes != state->bytes;
    host->relays |= bit;
    host->is_changed = host->is_changed || is_changed;
    host->segments = state->segments;
    host->bytes = state->bytes;
    if (host->place == PLACE_WAITING && host->is_stuck && is_changed)
        move(self, host, PLACE_READY);
    consider(self, host);
    return 0;
}

void pfl_host_queue_forget_relay(struct pfl_host_queue *self, unsigned relay)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    for (unsigned i = 0; i <= PLACE_VISITED; i++) {
        PFL_LIST_EACH_SAFE (it, tmp, &self->lists[i]) {
            struct pfl_queued_host *host = PFL_CONTAINER_OF(it, struct pfl_queued_host, node);

            host->relays &= ~(1u << relay);
            consider(self, host);
        }
    }
}

/* ---- turns ---- */

/* Hosts whose wait is over; idle ones that were not asked for long. */
static void wake_due(struct pfl_host_queue *t, enum place place, uint64_t now_ms)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    PFL_LIST_EACH_SAFE (it, tmp, &t->lists[place]) {
        struct pfl_queued_host *host = PFL_CONTAINER_OF(it, struct pfl_queued_host, node);

        if (host->due_ms > now_ms)
            continue;
        if (host->is_leased && host->segments == 0) { /* the other collector took them all */
            host->is_leased = false;
            host->due_ms = now_ms + PFL_HOST_QUEUE_REVISIT_MS;
            move(t, host, PLACE_IDLE);
        } else {
            move(t, host, PLACE_READY);
        }
    }
}

struct pfl_queued_host *pfl_host_queue_take(struct pfl_host_queue *self, uint64_t now_ms)
{
    struct pfl_queued_host *host;

    wake_due(self, PLACE_WAITING, now_ms);
    wake_due(self, PLACE_IDLE, now_ms);
    if (self->counts[PLACE_VISITED] == self->visits_max ||
        pfl_list_is_empty(&self->lists[PLACE_READY]))
        return NULL;
    host = PFL_CONTAINER_OF(self->lists[PLACE_READY].next, struct pfl_queued_host, node);
    move(self, host, PLACE_VISITED);
    host->is_changed = false;
    return host;
}

static void wait(struct pfl_host_queue *t, struct pfl_queued_host *host, uint64_t now_ms,
                 uint64_t random)
{
    host->due_ms = now_ms + pfl_backoff_next(&host->backoff, random);
    move(t, host, PLACE_WAITING);
}

static void rest(struct pfl_host_queue *t, struct pfl_queued_host *host, uint64_t now_ms)
{
    host->backoff.failures = 0;
    host->due_ms = now_ms + PFL_HOST_QUEUE_REVISIT_MS;
    if (!host->is_changed)
        host->segments = host->bytes = 0;
    move(t, host, PLACE_IDLE);
    consider(t, host);
}

void pfl_host_queue_give(struct pfl_host_queue *self, struct pfl_queued_host *host,
                         enum pfl_visit_end end, uint64_t now_ms, uint64_t random)
{
    assert(host->place == PLACE_VISITED);
    host->is_stuck = end == PFL_VISIT_STUCK;
    host->is_leased = end == PFL_VISIT_LEASED;
    if (host->relays == 0) {
        forget(self, host);
    } else if (end == PFL_VISIT_DRAINED) {
        rest(self, host, now_ms);
    } else if (end == PFL_VISIT_MORE) {
        host->backoff.failures = 0;
        move(self, host, PLACE_READY);
    } else if (end == PFL_VISIT_LEASED) {
        host->due_ms = now_ms + PFL_HOST_QUEUE_LEASED_MS + random % PFL_HOST_QUEUE_LEASED_MS;
        move(self, host, PLACE_WAITING);
    } else {
        wait(self, host, now_ms, random);
    }
}

static uint64_t find_first_due(const struct pfl_list *list, uint64_t next_ms)
{
    const struct pfl_list *it;

    PFL_LIST_EACH (it, list) {
        const struct pfl_queued_host *host =
            PFL_CONTAINER_OF((struct pfl_list *)(uintptr_t)it, struct pfl_queued_host, node);

        if (host->due_ms < next_ms)
            next_ms = host->due_ms;
    }
    return next_ms;
}

bool pfl_host_queue_is_wanted(const struct pfl_host_queue *self, uint64_t now_ms)
{
    return self->counts[PLACE_VISITED] == self->visits_max &&
           (self->counts[PLACE_READY] != 0 ||
            find_first_due(&self->lists[PLACE_WAITING], UINT64_MAX) <= now_ms ||
            find_first_due(&self->lists[PLACE_IDLE], UINT64_MAX) <= now_ms);
}

uint64_t pfl_host_queue_get_next_ms(const struct pfl_host_queue *self)
{
    uint64_t next_ms = UINT64_MAX;

    if (self->counts[PLACE_VISITED] == self->visits_max)
        return next_ms;
    next_ms = find_first_due(&self->lists[PLACE_WAITING], next_ms);
    return find_first_due(&self->lists[PLACE_IDLE], next_ms);
}

const char *pfl_queued_host_get_name(const struct pfl_queued_host *host)
{
    return host->name;
}

unsigned pfl_queued_host_get_relay(const struct pfl_queued_host *host, unsigned after)
{
    for (unsigned i = 1; i <= PFL_HOST_QUEUE_RELAYS_MAX; i++) {
        unsigned relay = (after + i) % PFL_HOST_QUEUE_RELAYS_MAX;

        if ((host->relays & 1u << relay) != 0)
            return relay;
    }
    return PFL_HOST_QUEUE_RELAYS_MAX;
}

void pfl_host_queue_get_figures(const struct pfl_host_queue *self,
                                struct pfl_host_queue_figures *ret_figures)
{
    struct pfl_host_queue_figures f = {
        .hosts = self->hosts,
        .visited = self->counts[PLACE_VISITED],
        .ready = self->counts[PLACE_READY],
        .waiting = self->counts[PLACE_WAITING],
    };

    for (unsigned i = 0; i < BUCKETS; i++) {
        for (const struct pfl_queued_host *h = self->buckets[i]; h != NULL; h = h->chain) {
            f.connected += h->relays != 0;
            f.segments_behind += h->segments;
            f.bytes_behind += h->bytes;
        }
    }
    *ret_figures = f;
}
