/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hosts and their turns: see rollout.h.
 *
 * Happy path: what may change a host's orders makes it ready; take looks at the ready ones in turn
 * and gives the first that has a reason for a turn. A host is in one list at a time:
 *
 *     idle --changed--> ready --take--> in turn --give--> idle | waiting | others
 *      ^------no reason---'^-------------- due or changed -----------'
 *
 * A host that was slow in its last turn is ready in a list of its own (later): others go first, and
 * such hosts have half of the turns together.
 *
 * Failures: a table that is full refuses the host; without memory a host stays ready. Ownership:
 * owns the table of orders and the hosts; a host in its turn stays until it is given back. Limits:
 * those of the header.
 */
#include "collector/order/rollout.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "collector/relay/host_map.h"
#include "proto/order/selector.h"
#include "tunnel/backoff.h"

#define LABELS_MAX 64u

enum place {
    PLACE_IDLE = 0,
    PLACE_READY,
    PLACE_LATER, /* ready, and slow in its last turn */
    PLACE_WAITING,
    PLACE_LEASED,
    PLACE_TURN,
};

/* Runs of an order that a host has. */
struct given {
    struct pfl_known_order *entry; /* a reference */
    struct pfl_schedule_run runs[2];
    unsigned runs_len;
};

struct pfl_rollout_host {
    struct pfl_host_entry entry; /* first; due_ms: while waiting, leased, and when idle */
    bool is_asked;               /* a turn ended well since it came */
    bool is_void;                /* the policy may be another one */
    bool is_changed;             /* during the turn */
    bool is_refreshed;           /* the turn puts all again */
    bool is_lost;                /* waits for a stream: no change ends the wait */
    bool is_slow;                /* in its last turn */
    bool is_visited;             /* its segments were taken since the last turn */
    uint64_t turn_ms;            /* when the last turn that ended well did */
    uint64_t refresh_ms;         /* when all is put again; 0: it was not asked yet */
    uint64_t done_hash;          /* what it had at the end of the last turn */
    struct pfl_backoff failures;
    struct pfl_backoff losses; /* of orders that it had */
    char **labels;             /* owned, with its texts */
    size_t labels_len;
    struct given *given; /* owned */
    size_t given_len;
    char claim[PFL_ORDER_SET_TEXT_BYTES];      /* the hash, as reported last */
    char turn_claim[PFL_ORDER_SET_TEXT_BYTES]; /* when the turn began */
    char seen_claim[PFL_ORDER_SET_TEXT_BYTES]; /* that the last turn that ended well began with */
};

struct pfl_rollout {
    struct pfl_known_orders orders;
    struct pfl_host_map hosts; /* owned; a list for each place */
    unsigned turns_max;
    unsigned slow;  /* of those in their turns */
    unsigned relay; /* that had the last turn */
    uint64_t ends[PFL_ROLLOUT_LEASED + 1];
};

static struct pfl_rollout_host *host_of(struct pfl_host_entry *entry)
{
    return (struct pfl_rollout_host *)(void *)entry;
}

/* ---- hosts ---- */

static void fini_labels(struct pfl_rollout_host *host)
{
    for (size_t i = 0; i < host->labels_len; i++)
        pfl_mem_free(host->labels[i]);
    pfl_mem_free(host->labels);
    host->labels = NULL;
    host->labels_len = 0;
}

static void free_host(struct pfl_rollout_host *host)
{
    fini_labels(host);
    for (size_t i = 0; i < host->given_len; i++)
        pfl_known_order_unref(host->given[i].entry);
    pfl_mem_free(host->given);
    pfl_mem_free(host);
}

static void move(struct pfl_rollout *r, struct pfl_rollout_host *host, enum place place)
{
    pfl_host_map_move(&r->hosts, &host->entry, place);
}

static void forget(struct pfl_rollout *r, struct pfl_rollout_host *host)
{
    pfl_host_map_remove(&r->hosts, &host->entry);
    free_host(host);
}

static int add(struct pfl_rollout *r, const struct pfl_rollout_state *state,
               struct pfl_rollout_host **ret_host)
{
    struct pfl_rollout_host *host = pfl_mem_zalloc(sizeof(*host));
    int rc = host != NULL ? pfl_host_map_add(&r->hosts, state->name, &host->entry) : PFL_ENOMEM;

    if (rc == PFL_ELIMIT) {
        struct pfl_host_entry *excess =
            pfl_host_map_find_excess(&r->hosts, state->relay, PLACE_TURN);

        if (excess != NULL) {
            forget(r, host_of(excess));
            rc = pfl_host_map_add(&r->hosts, state->name, &host->entry);
        }
    }
    if (rc != 0) {
        pfl_mem_free(host);
        return rc;
    }
    host->failures.max_ms = host->losses.max_ms = PFL_ROLLOUT_WAIT_MAX_MS;
    *ret_host = host;
    return 0;
}

static void move_to_ready(struct pfl_rollout *r, struct pfl_rollout_host *host)
{
    move(r, host, host->is_slow ? PLACE_LATER : PLACE_READY);
}

/* Something about it changed. */
static void wake(struct pfl_rollout *r, struct pfl_rollout_host *host)
{
    host->is_changed = true;
    if (host->entry.list == PLACE_IDLE || (host->entry.list == PLACE_WAITING && !host->is_lost))
        move_to_ready(r, host);
}

static bool has_labels(const struct pfl_rollout_host *host, const struct pfl_rollout_state *state)
{
    bool is_same = host->labels_len == state->labels_len;

    for (size_t i = 0; is_same && i < host->labels_len; i++)
        is_same = strcmp(host->labels[i], state->labels[i]) == 0;
    return is_same;
}

static int set_labels(struct pfl_rollout_host *host, const struct pfl_rollout_state *state)
{
    struct pfl_rollout_host fresh = {.labels_len = 0};

    if (state->labels_len > LABELS_MAX)
        return PFL_ELIMIT;
    fresh.labels = pfl_mem_calloc(state->labels_len + 1, sizeof(*fresh.labels));
    if (fresh.labels == NULL)
        return PFL_ENOMEM;
    for (size_t i = 0; i < state->labels_len; i++) {
        fresh.labels[i] = pfl_mem_strdup(state->labels[i]);
        if (fresh.labels[i] == NULL) {
            fini_labels(&fresh);
            return PFL_ENOMEM;
        }
        fresh.labels_len++;
    }
    fini_labels(host);
    host->labels = fresh.labels;
    host->labels_len = fresh.labels_len;
    return 0;
}

/* At that relay no more. */
static void leave(struct pfl_rollout *r, struct pfl_rollout_host *host, unsigned relay)
{
    pfl_host_map_set_relays(&r->hosts, &host->entry, host->entry.relays & ~(1u << relay));
    if (host->entry.relays == 0 && host->entry.list != PLACE_TURN)
        forget(r, host);
}

static void come(struct pfl_rollout *r, struct pfl_rollout_host *host, unsigned relay)
{
    bool is_new = host->entry.relays == 0;

    pfl_host_map_set_relays(&r->hosts, &host->entry, host->entry.relays | 1u << relay);
    if (!is_new)
        return;
    host->is_asked = false;
    wake(r, host);
}

static int join(struct pfl_rollout *r, const struct pfl_rollout_state *state,
                struct pfl_rollout_host *host)
{
    bool is_changed = false;
    int rc;

    if (!has_labels(host, state)) {
        rc = set_labels(host, state);
        if (rc != 0)
            return rc;
        is_changed = true;
    }
    if (strcmp(host->claim, state->orders) != 0) {
        (void)snprintf(host->claim, sizeof(host->claim), "%s", state->orders);
        is_changed = true;
    }
    if (state->is_from_start)
        host->is_void = is_changed = true;
    come(r, host, state->relay);
    if (is_changed)
        wake(r, host);
    return 0;
}

int pfl_rollout_set_host(struct pfl_rollout *self, const struct pfl_rollout_state *state)
{
    struct pfl_rollout_host *host = host_of(pfl_host_map_find(&self->hosts, state->name));
    int rc = 0;

    if (!pfl_identity_is_name(state->name))
        return PFL_EINVAL;
    if (host == NULL && !state->is_connected)
        return 0;
    if (host == NULL)
        rc = add(self, state, &host);
    if (rc != 0)
        return rc;
    if (!state->is_connected) {
        leave(self, host, state->relay);
        return 0;
    }
    rc = join(self, state, host);
    if (rc != 0 && host->entry.relays == 0 && host->entry.list != PLACE_TURN)
        forget(self, host);
    return rc;
}

void pfl_rollout_forget_relay(struct pfl_rollout *self, unsigned relay)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    for (unsigned i = 0; i <= PLACE_TURN; i++) {
        PFL_LIST_EACH_SAFE (it, tmp, &self->hosts.lists[i])
            leave(self, host_of(pfl_host_entry_of(it)), relay);
    }
}

const char *pfl_rollout_host_get_name(const struct pfl_rollout_host *host)
{
    return host->entry.name;
}

unsigned pfl_rollout_host_get_relay(const struct pfl_rollout_host *host, unsigned after)
{
    return pfl_host_entry_get_relay(&host->entry, after);
}

bool pfl_rollout_host_is_refreshed(const struct pfl_rollout_host *host)
{
    return host->is_refreshed;
}

/* ---- what a host should have ---- */

static bool fits(const struct pfl_known_order *entry, const struct pfl_rollout_host *host)
{
    struct pfl_selector_labels labels = {host->labels, host->labels_len};
    struct pfl_selector_host who = {
        .name = host->entry.name, .get_label = pfl_selector_labels_get, .user = &labels};

    return !entry->is_paused && pfl_selector_fits(entry->order->select, &who);
}

static struct given *find_given(const struct pfl_rollout_host *host,
                                const struct pfl_known_order *entry)
{
    for (size_t i = 0; i < host->given_len; i++) {
        const struct pfl_known_order *e = host->given[i].entry;

        if (strcmp(e->orderer, entry->orderer) == 0 && strcmp(e->name, entry->name) == 0)
            return &host->given[i];
    }
    return NULL;
}

static bool is_over(const struct pfl_schedule_run *run, uint64_t now_unix_ms)
{
    return now_unix_ms >= run->begin_unix_ms + run->duration_ms;
}

/* The run that the host has and that is not over, and the one of the last round. */
static void set_runs(const struct pfl_known_orders_slot *slot, const struct pfl_rollout_host *host,
                     uint64_t now_unix_ms, struct pfl_wanted_order *w)
{
    const struct given *given = find_given(host, slot->entry);
    struct pfl_schedule_run run;
    bool has_run = slot->rounds == PFL_KNOWN_ROUNDS_SAVED &&
                   pfl_schedule_get_run(slot->schedule, &slot->entry->terms, now_unix_ms,
                                        host->entry.name, &run);

    for (unsigned i = 0; given != NULL && i < given->runs_len && w->runs_len < 2; i++) {
        if (is_over(&given->runs[i], now_unix_ms))
            continue;
        w->runs[w->runs_len++] = given->runs[i];
        has_run = has_run && run.id != given->runs[i].id;
    }
    if (!has_run)
        return;
    if (w->runs_len == 2) /* rounds overlap by one at most: a clock was put back */
        w->runs[0] = w->runs[1];
    w->runs_len -= w->runs_len == 2;
    w->runs[w->runs_len++] = run;
    w->is_new_run = true;
}

static void add_wanted(struct pfl_wanted *wanted, const struct pfl_known_orders_slot *slot,
                       const struct pfl_rollout_host *host, uint64_t now_unix_ms)
{
    struct pfl_wanted_order *w = &wanted->list[wanted->len++];
    struct pfl_known_order *entry = slot->entry;
    struct pfl_hash_key key = {{wanted->hash, entry->generation}};

    *w = (struct pfl_wanted_order){.entry = entry};
    pfl_known_order_ref(entry);
    if (entry->terms.when == PFL_ORDER_SCHEDULE)
        set_runs(slot, host, now_unix_ms, w);
    key.words[0] = pfl_hash_keyed(&key, pfl_span_of(entry->orderer, strlen(entry->orderer)));
    wanted->hash = pfl_hash_keyed(&key, pfl_span_of(entry->name, strlen(entry->name)));
    wanted->has_new_run = wanted->has_new_run || w->is_new_run;
}

int pfl_rollout_get_wanted(const struct pfl_rollout *self, const struct pfl_rollout_host *host,
                           uint64_t now_unix_ms, struct pfl_wanted *ret_wanted)
{
    size_t room =
        self->orders.len < PFL_ROLLOUT_WANTED_MAX ? self->orders.len : PFL_ROLLOUT_WANTED_MAX;
    struct pfl_wanted wanted = {.list = pfl_mem_calloc(room + 1, sizeof(*wanted.list)), .hash = 1};

    if (wanted.list == NULL)
        return PFL_ENOMEM;
    for (size_t i = 0; i < self->orders.len && wanted.len < room; i++) {
        if (fits(self->orders.slots[i]->entry, host))
            add_wanted(&wanted, self->orders.slots[i], host, now_unix_ms);
    }
    *ret_wanted = wanted;
    return 0;
}

void pfl_wanted_fini(struct pfl_wanted *self)
{
    for (size_t i = 0; i < self->len; i++)
        pfl_known_order_unref(self->list[i].entry);
    pfl_mem_free(self->list);
    *self = (struct pfl_wanted){.len = 0};
}

/* Without memory it is not noted, and given again: for a host the same run is one run. */
static struct given *add_given(struct pfl_rollout_host *host)
{
    struct given *list = pfl_mem_realloc(host->given, (host->given_len + 1) * sizeof(*list));

    if (list == NULL)
        return NULL;
    host->given = list;
    list[host->given_len] = (struct given){.entry = NULL};
    return &list[host->given_len++];
}

void pfl_rollout_host_on_given(struct pfl_rollout_host *host, const struct pfl_wanted_order *order)
{
    struct given *given = find_given(host, order->entry);

    if (given == NULL && order->runs_len != 0)
        given = add_given(host);
    if (given == NULL)
        return;
    pfl_known_order_ref(order->entry);
    pfl_known_order_unref(given->entry);
    given->entry = order->entry;
    given->runs_len = order->runs_len;
    memcpy(given->runs, order->runs, sizeof(given->runs));
}

/* Orders whose runs are over. */
static void drop_given(struct pfl_rollout_host *host, uint64_t now_unix_ms)
{
    size_t kept = 0;

    for (size_t i = 0; i < host->given_len; i++) {
        struct given *given = &host->given[i];

        if (given->runs_len != 0 && !is_over(&given->runs[given->runs_len - 1], now_unix_ms))
            host->given[kept++] = *given;
        else
            pfl_known_order_unref(given->entry);
    }
    host->given_len = kept;
}

/* ---- rounds ---- */

static size_t list_fitting(struct pfl_rollout *r, const struct pfl_known_order *entry,
                           const char **names)
{
    size_t len = 0;

    for (unsigned i = 0; i <= PLACE_TURN; i++) {
        struct pfl_list *it;

        PFL_LIST_EACH (it, &r->hosts.lists[i]) {
            struct pfl_rollout_host *host = host_of(pfl_host_entry_of(it));

            if (host->entry.relays != 0 && fits(entry, host))
                names[len++] = host->entry.name;
        }
    }
    return len;
}

int pfl_rollout_choose(struct pfl_rollout *self, struct pfl_known_orders_slot *slot,
                       uint64_t now_unix_ms)
{
    struct pfl_schedule_hosts hosts;
    const char **names;
    bool *is_chosen;
    int rc;

    if (slot->rounds != PFL_KNOWN_ROUNDS_SAVED || slot->entry->is_paused ||
        !pfl_schedule_is_due(slot->schedule, &slot->entry->terms, now_unix_ms))
        return PFL_EAGAIN;
    names = pfl_mem_calloc(self->hosts.len + 1u, sizeof(*names));
    is_chosen = pfl_mem_calloc(self->hosts.len + 1u, sizeof(*is_chosen));
    rc = names != NULL && is_chosen != NULL ? 0 : PFL_ENOMEM;
    if (rc == 0) {
        hosts = (struct pfl_schedule_hosts){names, list_fitting(self, slot->entry, names)};
        rc = hosts.len == 0 ? PFL_EAGAIN
                            : pfl_schedule_choose(slot->schedule, &slot->entry->terms, now_unix_ms,
                                                  &hosts, is_chosen);
    }
    pfl_mem_free((void *)names);
    pfl_mem_free(is_chosen);
    if (rc == 0)
        slot->rounds = PFL_KNOWN_ROUNDS_UNSAVED;
    return rc;
}

void pfl_rollout_on_rounds(struct pfl_rollout *self, const struct pfl_known_orders_slot *slot,
                           uint64_t now_unix_ms)
{
    struct pfl_schedule_run run;
    struct pfl_list *it;
    struct pfl_list *tmp;

    for (unsigned i = 0; i <= PLACE_TURN; i++) {
        PFL_LIST_EACH_SAFE (it, tmp, &self->hosts.lists[i]) {
            struct pfl_rollout_host *host = host_of(pfl_host_entry_of(it));

            if (pfl_schedule_get_run(slot->schedule, &slot->entry->terms, now_unix_ms,
                                     host->entry.name, &run))
                wake(self, host);
        }
    }
}

/* ---- turns ---- */

int pfl_rollout_new(unsigned turns_max, const struct pfl_hash_key *hash_key,
                    struct pfl_rollout **ret_rollout)
{
    struct pfl_rollout *r = pfl_mem_zalloc(sizeof(*r));

    assert(turns_max >= 1 && turns_max <= PFL_ROLLOUT_TURNS_MAX);
    if (r == NULL)
        return PFL_ENOMEM;
    r->turns_max = turns_max;
    pfl_host_map_init(&r->hosts, hash_key);
    *ret_rollout = r;
    return 0;
}

void pfl_rollout_free(struct pfl_rollout *self)
{
    struct pfl_host_entry *entry;

    if (self == NULL)
        return;
    assert(self->hosts.counts[PLACE_TURN] == 0);
    while ((entry = pfl_host_map_get_any(&self->hosts)) != NULL)
        forget(self, host_of(entry));
    pfl_known_orders_fini(&self->orders);
    pfl_mem_free(self);
}

struct pfl_known_orders *pfl_rollout_get_orders(struct pfl_rollout *self)
{
    return &self->orders;
}

void pfl_rollout_on_orders(struct pfl_rollout *self)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    for (unsigned i = 0; i <= PLACE_TURN; i++) {
        PFL_LIST_EACH_SAFE (it, tmp, &self->hosts.lists[i])
            wake(self, host_of(pfl_host_entry_of(it)));
    }
}

/* Hosts whose wait is over, and those that are to be put all again. */
static void wake_due(struct pfl_rollout *r, enum place place, uint64_t now_ms)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    PFL_LIST_EACH_SAFE (it, tmp, &r->hosts.lists[place]) {
        struct pfl_rollout_host *host = host_of(pfl_host_entry_of(it));

        if (host->entry.due_ms <= now_ms)
            move_to_ready(r, host);
    }
}

/* Without memory to know it, too. A host that reports no orders keeps none: it is not asked before
 * it should have one. */
static bool has_reason(const struct pfl_rollout *r, const struct pfl_rollout_host *host,
                       const struct pfl_rollout_now *now)
{
    struct pfl_wanted wanted;
    bool has_none;
    bool is_other;
    bool is_old;

    if (pfl_rollout_get_wanted(r, host, now->now_unix_ms, &wanted) != 0)
        return true;
    has_none = host->claim[0] == '\0' && wanted.len == 0;
    is_other = wanted.hash != host->done_hash || wanted.has_new_run || !host->is_asked;
    is_old = host->is_visited && wanted.len != 0 &&
             now->now_ms >= host->turn_ms + PFL_ROLLOUT_VISITED_MS;
    pfl_wanted_fini(&wanted);
    return !has_none &&
           (is_other || is_old || host->is_refreshed || strcmp(host->claim, host->seen_claim) != 0);
}

void pfl_rollout_on_collector_lost(struct pfl_rollout *self)
{
    wake_due(self, PLACE_LEASED, UINT64_MAX);
}

static void rest(struct pfl_rollout *r, struct pfl_rollout_host *host)
{
    uint64_t look_ms = host->turn_ms + PFL_ROLLOUT_VISITED_MS;

    host->entry.due_ms = host->refresh_ms != 0 ? host->refresh_ms : UINT64_MAX;
    if (host->is_visited && look_ms < host->entry.due_ms)
        host->entry.due_ms = look_ms;
    move(r, host, PLACE_IDLE);
}

void pfl_rollout_on_visited(struct pfl_rollout *self, const char *name)
{
    struct pfl_rollout_host *host = host_of(pfl_host_map_find(&self->hosts, name));

    if (host == NULL)
        return;
    host->is_visited = true;
    if (host->entry.list == PLACE_IDLE)
        rest(self, host);
}

static void rest_without_turn(struct pfl_rollout *r, struct pfl_rollout_host *host, uint64_t now_ms)
{
    if (host->is_refreshed) { /* with its next turn */
        host->is_void = true;
        host->refresh_ms = 0;
    }
    if (host->turn_ms + PFL_ROLLOUT_VISITED_MS <= now_ms) /* it should have no orders */
        host->is_visited = false;
    rest(r, host);
}

static bool may_take_slow(const struct pfl_rollout *r)
{
    return r->slow < (r->turns_max + 1) / 2;
}

/* `relay` is that which had the last turn, then that of this one. */
static struct pfl_rollout_host *get_next(const struct pfl_rollout *r, unsigned *relay)
{
    struct pfl_host_entry *entry = pfl_host_map_get_next(&r->hosts, PLACE_READY, relay);

    if (entry == NULL && may_take_slow(r))
        entry = pfl_host_map_get_next(&r->hosts, PLACE_LATER, relay);
    return host_of(entry);
}

bool pfl_rollout_is_wanted(const struct pfl_rollout *self, const struct pfl_rollout_host *host)
{
    const unsigned *counts = self->hosts.counts;
    bool is_full = counts[PLACE_TURN] == self->turns_max;

    if (counts[PLACE_LATER] != 0 &&
        (host->is_slow ? is_full || !may_take_slow(self) : is_full && may_take_slow(self)))
        return true;
    return is_full && counts[PLACE_READY] != 0;
}

struct pfl_rollout_host *pfl_rollout_take(struct pfl_rollout *self,
                                          const struct pfl_rollout_now *now)
{
    wake_due(self, PLACE_WAITING, now->now_ms);
    wake_due(self, PLACE_LEASED, now->now_ms);
    wake_due(self, PLACE_IDLE, now->now_ms);
    if (self->hosts.counts[PLACE_TURN] == self->turns_max)
        return NULL;
    for (unsigned i = 0; i < PFL_ROLLOUT_CHECKS_MAX; i++) {
        struct pfl_rollout_host *host = get_next(self, &self->relay);

        if (host == NULL)
            return NULL;
        host->is_refreshed =
            host->is_void || (host->refresh_ms != 0 && host->refresh_ms <= now->now_ms);
        if (!has_reason(self, host, now)) {
            rest_without_turn(self, host, now->now_ms);
            continue;
        }
        drop_given(host, now->now_unix_ms);
        host->is_changed = host->is_void = host->is_visited = false;
        memcpy(host->turn_claim, host->claim, sizeof(host->turn_claim));
        self->slow += host->is_slow;
        move(self, host, PLACE_TURN);
        return host;
    }
    return NULL;
}

static void wait(struct pfl_rollout *r, struct pfl_rollout_host *host, uint64_t due_ms)
{
    host->entry.due_ms = due_ms;
    move(r, host, PLACE_WAITING);
}

/* A host that lost what it had, again and again, is asked less often: another collector may be at
 * work there under the same name. */
static void finish(struct pfl_rollout *r, struct pfl_rollout_host *host,
                   const struct pfl_rollout_result *result, uint64_t now_ms, uint64_t random)
{
    bool has_lost = result->has_put && host->is_asked && !host->is_refreshed &&
                    result->wanted_hash == host->done_hash;

    if (host->is_refreshed || host->refresh_ms == 0)
        host->refresh_ms = now_ms + PFL_ROLLOUT_REFRESH_MS - random % (PFL_ROLLOUT_REFRESH_MS / 8);
    if (host->is_refreshed || !host->is_asked || result->wanted_hash != host->done_hash)
        host->losses.failures = 0;
    host->failures.failures = 0;
    host->is_asked = true;
    host->is_lost = false;
    host->turn_ms = now_ms;
    host->done_hash = result->wanted_hash;
    memcpy(host->seen_claim, host->turn_claim, sizeof(host->seen_claim));
    if (result->has_put) /* what became of it */
        host->seen_claim[0] = '\0';
    if (has_lost)
        wait(r, host, now_ms + pfl_backoff_next(&host->losses, random));
    else if (result->has_put && !host->is_changed)
        wait(r, host, now_ms + PFL_ROLLOUT_LOOK_MS);
    else if (host->is_changed)
        move_to_ready(r, host);
    else
        rest(r, host);
}

void pfl_rollout_give(struct pfl_rollout *self, struct pfl_rollout_host *host,
                      const struct pfl_rollout_result *result, uint64_t now_ms, uint64_t random)
{
    assert(host->entry.list == PLACE_TURN);
    self->ends[result->end]++;
    self->slow -= host->is_slow;
    if (result->end != PFL_ROLLOUT_LEASED)
        host->is_slow = result->was_slow;
    if (result->end != PFL_ROLLOUT_DONE)
        host->is_void = host->is_void || host->is_refreshed;
    if (host->entry.relays == 0) {
        forget(self, host);
    } else if (result->end == PFL_ROLLOUT_DONE) {
        finish(self, host, result, now_ms, random);
    } else if (result->end == PFL_ROLLOUT_LEASED) {
        host->is_asked = false;
        host->entry.due_ms = now_ms + PFL_ROLLOUT_LEASED_MS - random % (PFL_ROLLOUT_LEASED_MS / 4);
        move(self, host, PLACE_LEASED);
    } else {
        host->is_asked = false;
        host->is_lost = result->end == PFL_ROLLOUT_LOST;
        wait(self, host, now_ms + pfl_backoff_next(&host->failures, random));
    }
}

uint64_t pfl_rollout_get_next_ms(const struct pfl_rollout *self)
{
    static const enum place places[] = {PLACE_WAITING, PLACE_LEASED, PLACE_IDLE};
    uint64_t next_ms = UINT64_MAX;
    unsigned relay = self->relay;

    if (self->hosts.counts[PLACE_TURN] == self->turns_max)
        return next_ms; /* the end of a turn comes first */
    if (get_next(self, &relay) != NULL)
        return 0;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        uint64_t due_ms = pfl_host_map_get_due_ms(&self->hosts, places[i]);

        if (due_ms < next_ms)
            next_ms = due_ms;
    }
    return next_ms;
}

void pfl_rollout_get_figures(const struct pfl_rollout *self,
                             struct pfl_rollout_figures *ret_figures)
{
    *ret_figures = (struct pfl_rollout_figures){
        .orders = self->orders.len,
        .hosts = self->hosts.len,
        .ready = self->hosts.counts[PLACE_READY] + self->hosts.counts[PLACE_LATER],
        .waiting = self->hosts.counts[PLACE_WAITING],
        .others = self->hosts.counts[PLACE_LEASED],
        .turns = self->hosts.counts[PLACE_TURN],
    };
    memcpy(ret_figures->ends, self->ends, sizeof(self->ends));
}
