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
 * A host whose last visit was slow is ready in a list of its own (later): others go first, and such
 * hosts have half of the visits together, so that they hold up each other.
 *
 * Failures: a table that is full refuses the host. Ownership: the table owns the hosts; a visited
 * host stays until it is given back. Limits: PFL_HOST_MAP_MAX.
 */
#include "collector/pull/host_queue.h"

#include <assert.h>

#include "base/mem.h"
#include "collector/relay/host_map.h"
#include "tunnel/backoff.h"

enum place {
    PLACE_IDLE = 0,
    PLACE_READY,
    PLACE_LATER, /* ready, and slow */
    PLACE_WAITING,
    PLACE_VISITED,
};

struct pfl_queued_host {
    struct pfl_host_entry entry; /* first; due_ms: while waiting, and when idle */
    bool is_changed;             /* its spool changed during the visit */
    bool is_stuck;               /* waits after PFL_VISIT_STUCK: a change ends the wait */
    bool is_leased;              /* waits after PFL_VISIT_LEASED */
    bool is_slow;                /* in its last visit */
    unsigned relay;              /* whose turn its visit is */
    uint64_t segments;
    uint64_t bytes;
    struct pfl_backoff backoff;
};

struct pfl_host_queue {
    struct pfl_host_map hosts; /* owned; a list for each place */
    unsigned visits_max;
    unsigned slow;  /* of the visited ones */
    unsigned relay; /* that had the last turn */
};

static struct pfl_queued_host *host_of(struct pfl_host_entry *entry)
{
    return (struct pfl_queued_host *)(void *)entry;
}

int pfl_host_queue_new(unsigned visits_max, const struct pfl_hash_key *hash_key,
                       struct pfl_host_queue **ret_queue)
{
    struct pfl_host_queue *t = pfl_mem_zalloc(sizeof(*t));

    assert(visits_max >= 1);
    if (t == NULL)
        return PFL_ENOMEM;
    t->visits_max = visits_max;
    t->relay = PFL_HOST_MAP_RELAYS - 1;
    pfl_host_map_init(&t->hosts, hash_key);
    *ret_queue = t;
    return 0;
}

/* ---- hosts ---- */

static void forget(struct pfl_host_queue *t, struct pfl_queued_host *host)
{
    pfl_host_map_remove(&t->hosts, &host->entry);
    pfl_mem_free(host);
}

void pfl_host_queue_free(struct pfl_host_queue *self)
{
    struct pfl_host_entry *entry;

    if (self == NULL)
        return;
    assert(self->hosts.counts[PLACE_VISITED] == 0);
    while ((entry = pfl_host_map_get_any(&self->hosts)) != NULL)
        forget(self, host_of(entry));
    pfl_mem_free(self);
}

static void move(struct pfl_host_queue *t, struct pfl_queued_host *host, enum place place)
{
    pfl_host_map_move(&t->hosts, &host->entry, place);
}

static int add(struct pfl_host_queue *t, const struct pfl_queued_host_state *state, uint64_t now_ms,
               struct pfl_queued_host **ret_host)
{
    struct pfl_queued_host *host = pfl_mem_zalloc(sizeof(*host));
    int rc = host != NULL ? pfl_host_map_add(&t->hosts, state->name, &host->entry) : PFL_ENOMEM;

    if (rc == PFL_ELIMIT) {
        struct pfl_host_entry *excess =
            pfl_host_map_find_excess(&t->hosts, state->relay, PLACE_VISITED);

        if (excess != NULL) {
            forget(t, host_of(excess));
            rc = pfl_host_map_add(&t->hosts, state->name, &host->entry);
        }
    }
    if (rc != 0) {
        pfl_mem_free(host);
        return rc;
    }
    host->backoff.max_ms = PFL_HOST_QUEUE_WAIT_MAX_MS;
    host->entry.due_ms = now_ms + PFL_HOST_QUEUE_REVISIT_MS;
    *ret_host = host;
    return 0;
}

static void move_to_ready(struct pfl_host_queue *t, struct pfl_queued_host *host)
{
    move(t, host, host->is_slow ? PLACE_LATER : PLACE_READY);
}

/* Its relays or its spool changed. */
static void consider(struct pfl_host_queue *t, struct pfl_queued_host *host)
{
    if (host->entry.list == PLACE_VISITED)
        return;
    if (host->entry.relays == 0)
        forget(t, host);
    else if (host->entry.list == PLACE_IDLE && host->segments != 0)
        move_to_ready(t, host);
}

int pfl_host_queue_set(struct pfl_host_queue *self, const struct pfl_queued_host_state *state,
                       uint64_t now_ms)
{
    struct pfl_queued_host *host = host_of(pfl_host_map_find(&self->hosts, state->name));
    unsigned bit = 1u << state->relay;
    bool is_changed;
    int rc = 0;

    if (!pfl_identity_is_name(state->name))
        return PFL_EINVAL;
    if (host == NULL && !state->is_connected)
        return 0;
    if (host == NULL)
        rc = add(self, state, now_ms, &host);
    if (rc != 0)
        return rc;
    if (!state->is_connected) {
        pfl_host_map_set_relays(&self->hosts, &host->entry, host->entry.relays & ~bit);
        consider(self, host);
        return 0;
    }
    is_changed = host->segments != state->segments || host->bytes != state->bytes;
    pfl_host_map_set_relays(&self->hosts, &host->entry, host->entry.relays | bit);
    host->is_changed = host->is_changed || is_changed;
    host->segments = state->segments;
    host->bytes = state->bytes;
    if (host->entry.list == PLACE_WAITING && host->is_stuck && is_changed)
        move_to_ready(self, host);
    consider(self, host);
    return 0;
}

void pfl_host_queue_forget_relay(struct pfl_host_queue *self, unsigned relay)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    for (unsigned i = 0; i <= PLACE_VISITED; i++) {
        PFL_LIST_EACH_SAFE (it, tmp, &self->hosts.lists[i]) {
            struct pfl_queued_host *host = host_of(pfl_host_entry_of(it));

            pfl_host_map_set_relays(&self->hosts, &host->entry,
                                    host->entry.relays & ~(1u << relay));
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

    PFL_LIST_EACH_SAFE (it, tmp, &t->hosts.lists[place]) {
        struct pfl_queued_host *host = host_of(pfl_host_entry_of(it));

        if (host->entry.due_ms > now_ms)
            continue;
        if (host->is_leased && host->segments == 0) { /* the other collector took them all */
            host->is_leased = false;
            host->entry.due_ms = now_ms + PFL_HOST_QUEUE_REVISIT_MS;
            move(t, host, PLACE_IDLE);
        } else {
            move_to_ready(t, host);
        }
    }
}

static bool may_take_slow(const struct pfl_host_queue *t)
{
    return t->slow < (t->visits_max + 1) / 2;
}

struct pfl_queued_host *pfl_host_queue_take(struct pfl_host_queue *self, uint64_t now_ms)
{
    struct pfl_queued_host *host;

    wake_due(self, PLACE_WAITING, now_ms);
    wake_due(self, PLACE_IDLE, now_ms);
    if (self->hosts.counts[PLACE_VISITED] == self->visits_max)
        return NULL;
    host = host_of(pfl_host_map_get_next(&self->hosts, PLACE_READY, &self->relay));
    if (host == NULL && may_take_slow(self))
        host = host_of(pfl_host_map_get_next(&self->hosts, PLACE_LATER, &self->relay));
    if (host == NULL)
        return NULL;
    host->relay = self->relay;
    self->slow += host->is_slow;
    move(self, host, PLACE_VISITED);
    host->is_changed = false;
    return host;
}

static void wait(struct pfl_host_queue *t, struct pfl_queued_host *host, uint64_t now_ms,
                 uint64_t random)
{
    host->entry.due_ms = now_ms + pfl_backoff_next(&host->backoff, random);
    move(t, host, PLACE_WAITING);
}

static void rest(struct pfl_host_queue *t, struct pfl_queued_host *host, uint64_t now_ms)
{
    host->backoff.failures = 0;
    host->entry.due_ms = now_ms + PFL_HOST_QUEUE_REVISIT_MS;
    if (!host->is_changed)
        host->segments = host->bytes = 0;
    move(t, host, PLACE_IDLE);
    consider(t, host);
}

void pfl_host_queue_set_slow(struct pfl_host_queue *self, struct pfl_queued_host *host,
                             bool is_slow)
{
    assert(host->entry.list == PLACE_VISITED);
    self->slow = self->slow - host->is_slow + is_slow;
    host->is_slow = is_slow;
}

void pfl_host_queue_give(struct pfl_host_queue *self, struct pfl_queued_host *host,
                         enum pfl_visit_end end, uint64_t now_ms, uint64_t random)
{
    assert(host->entry.list == PLACE_VISITED);
    self->slow -= host->is_slow;
    host->is_stuck = end == PFL_VISIT_STUCK;
    host->is_leased = end == PFL_VISIT_LEASED;
    if (host->entry.relays == 0) {
        forget(self, host);
    } else if (end == PFL_VISIT_DRAINED) {
        rest(self, host, now_ms);
    } else if (end == PFL_VISIT_MORE) {
        host->backoff.failures = 0;
        move_to_ready(self, host);
    } else if (end == PFL_VISIT_LEASED) {
        host->entry.due_ms = now_ms + PFL_HOST_QUEUE_LEASED_MS + random % PFL_HOST_QUEUE_LEASED_MS;
        move(self, host, PLACE_WAITING);
    } else {
        wait(self, host, now_ms, random);
    }
}

bool pfl_host_queue_is_wanted(const struct pfl_host_queue *self, const struct pfl_queued_host *host,
                              uint64_t now_ms)
{
    const unsigned *counts = self->hosts.counts;
    bool is_full = counts[PLACE_VISITED] == self->visits_max;

    if (counts[PLACE_LATER] != 0 &&
        (host->is_slow ? is_full || !may_take_slow(self) : is_full && may_take_slow(self)))
        return true;
    return is_full && (counts[PLACE_READY] != 0 ||
                       pfl_host_map_get_due_ms(&self->hosts, PLACE_WAITING) <= now_ms ||
                       pfl_host_map_get_due_ms(&self->hosts, PLACE_IDLE) <= now_ms);
}

uint64_t pfl_host_queue_get_next_ms(const struct pfl_host_queue *self)
{
    uint64_t waiting_ms;
    uint64_t idle_ms;

    if (self->hosts.counts[PLACE_VISITED] == self->visits_max)
        return UINT64_MAX;
    waiting_ms = pfl_host_map_get_due_ms(&self->hosts, PLACE_WAITING);
    idle_ms = pfl_host_map_get_due_ms(&self->hosts, PLACE_IDLE);
    return waiting_ms < idle_ms ? waiting_ms : idle_ms;
}

const char *pfl_queued_host_get_name(const struct pfl_queued_host *host)
{
    return host->entry.name;
}

unsigned pfl_queued_host_get_turn(const struct pfl_queued_host *host)
{
    return host->relay;
}

unsigned pfl_queued_host_get_relay(const struct pfl_queued_host *host, unsigned after)
{
    return pfl_host_entry_get_relay(&host->entry, after);
}

void pfl_host_queue_get_figures(const struct pfl_host_queue *self,
                                struct pfl_host_queue_figures *ret_figures)
{
    struct pfl_host_queue_figures f = {
        .hosts = self->hosts.len,
        .visited = self->hosts.counts[PLACE_VISITED],
        .ready = self->hosts.counts[PLACE_READY] + self->hosts.counts[PLACE_LATER],
        .waiting = self->hosts.counts[PLACE_WAITING],
    };

    for (unsigned i = 0; i <= PLACE_VISITED; i++) {
        struct pfl_list *it;

        PFL_LIST_EACH (it, &self->hosts.lists[i]) {
            const struct pfl_queued_host *h = host_of(pfl_host_entry_of(it));

            f.connected += h->entry.relays != 0;
            f.segments_behind += h->segments;
            f.bytes_behind += h->bytes;
        }
    }
    *ret_figures = f;
}
