/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unfinished handshakes by address: see pending_handshakes.h.
 *
 * Happy path: an account is found by the address (a table of sets of WAYS entries; the least
 * important entry is replaced). Each step is charged to it, to its network and to the common
 * budget; the end of a handshake refunds all, if its identity's bucket has a token. Waiting
 * handshakes are in their account's queue, further steps before first ones, and accounts with a
 * queue take turns. Failures: only memory at the start. Costs: one set for each new handshake; one
 * look at each account with a queue for each step that waited. Ownership: owns the table; callers
 * own handshakes.
 */
#include "base/pending_handshakes.h"

#include <assert.h>
#include <netinet/in.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/token_bucket.h"

#define IPV6_NETWORK_BYTES 7u /* one customer has that much, or 256 of them (a /48) */
#define BEGINNING          60u
#define WAYS               8u
#define SETS               (PFL_PENDING_HANDSHAKES_PEERS / WAYS)
#define NETWORK_WAYS       4u
#define NETWORK_SETS       (PFL_PENDING_HANDSHAKES_NETWORKS / NETWORK_WAYS)
#define IPV4_NETWORK_AT    14u /* bytes of a mapped address, 16 bits of it */
#define IPV6_NETWORK_AT    4u
/* Number of the oldest handshakes that are examined when one must be closed: enough to find an
 * address with many. */
#define OUST_LOOK 64u

struct pfl_pending_handshakes_peer {
    uint8_t address[PFL_PENDING_HANDSHAKES_ADDRESS_BYTES];
    struct pfl_list all;            /* handshakes, oldest first */
    struct pfl_list waiting;        /* the same, in the order of their turns */
    struct pfl_list node;           /* in the list of those with something waiting */
    struct pfl_token_bucket credit; /* what it may still leave unfinished; per_s 0: a free place */
    struct pfl_token_bucket begins; /* with per_min */
    uint64_t proven_until_ms;
    uint64_t used_ms;
    unsigned count;
    unsigned waiting_count;
};

struct network {
    uint8_t address[PFL_PENDING_HANDSHAKES_ADDRESS_BYTES];
    struct pfl_token_bucket credit; /* what it may still leave unfinished; per_s 0: a free place */
    uint64_t used_ms;
};

struct pfl_pending_handshakes {
    struct pfl_list all;   /* oldest first */
    struct pfl_list peers; /* with a queue; the last one served is last */
    struct pfl_token_bucket budget;
    struct pfl_pending_handshakes_figures figures;
    unsigned max;
    unsigned per_min;
    uint32_t seed;
    bool was_proven; /* the last step that was granted was a proven address's */
    struct network networks[NETWORK_SETS * NETWORK_WAYS];
    struct pfl_token_bucket identities[PFL_PENDING_HANDSHAKES_IDENTITY_BUCKETS];
    struct pfl_pending_handshakes_peer table[SETS * WAYS];
};

/* The best first. */
enum rank {
    RANK_PROVEN,
    RANK_FRESH_BEGUN,
    RANK_CROWDED_BEGUN,
    RANK_FRESH,
    RANK_CROWDED,
    RANK_SUSPECT_BEGUN,
    RANK_SUSPECT,
    RANK_NONE
};

/* What must be left of the budget. */
static const uint64_t reserves_us[RANK_NONE] = {
    [RANK_FRESH_BEGUN] = 0,
    [RANK_CROWDED_BEGUN] = PFL_PENDING_HANDSHAKES_BURST_US / 8,
    [RANK_FRESH] = PFL_PENDING_HANDSHAKES_BURST_US / 4,
    [RANK_CROWDED] = PFL_PENDING_HANDSHAKES_BURST_US / 2,
    [RANK_SUSPECT_BEGUN] = PFL_PENDING_HANDSHAKES_BURST_US / 2,
    [RANK_SUSPECT] = PFL_PENDING_HANDSHAKES_RESERVE_US,
};

/* ---- accounts ---- */

void pfl_pending_handshakes_read_address(const struct sockaddr_storage *peer,
                                         uint8_t ret_address[PFL_PENDING_HANDSHAKES_ADDRESS_BYTES])
{
    struct sockaddr_in in;
    struct sockaddr_in6 in6;

    memset(ret_address, 0, PFL_PENDING_HANDSHAKES_ADDRESS_BYTES);
    if (peer->ss_family == AF_INET) {
        memcpy(&in, peer, sizeof(in));
        ret_address[10] = ret_address[11] = 0xff;
        memcpy(ret_address + 12, &in.sin_addr, sizeof(in.sin_addr));
    } else if (peer->ss_family == AF_INET6) {
        memcpy(&in6, peer, sizeof(in6));
        memcpy(ret_address, &in6.sin6_addr,
               IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr) ? PFL_PENDING_HANDSHAKES_ADDRESS_BYTES
                                                    : IPV6_NETWORK_BYTES);
    }
}

static bool is_proven(const struct pfl_pending_handshakes_peer *p, uint64_t now_ms)
{
    return p->proven_until_ms > now_ms;
}

static bool is_taken(const struct pfl_pending_handshakes_peer *p)
{
    return p->credit.per_s != 0;
}

/* What of the account matters when its place is wanted: the least goes. */
static uint64_t weigh(struct pfl_pending_handshakes_peer *p, uint64_t now_ms)
{
    uint64_t unpaid_us;

    if (!is_taken(p))
        return 0;
    if (p->count != 0)
        return UINT64_MAX;
    unpaid_us = PFL_PENDING_HANDSHAKES_KNOWN_US - pfl_token_bucket_get(&p->credit, now_ms);
    return ((uint64_t)is_proven(p, now_ms) << 62 | unpaid_us << 40) + (p->used_ms >> 10) + 1;
}

static void open_account(struct pfl_pending_handshakes *self, struct pfl_pending_handshakes_peer *p,
                         const uint8_t address[PFL_PENDING_HANDSHAKES_ADDRESS_BYTES],
                         uint64_t now_ms)
{
    *p = (struct pfl_pending_handshakes_peer){.used_ms = now_ms};
    memcpy(p->address, address, sizeof(p->address));
    pfl_list_init(&p->all);
    pfl_list_init(&p->waiting);
    pfl_token_bucket_set(&p->credit, PFL_PENDING_HANDSHAKES_FORGET_US,
                         PFL_PENDING_HANDSHAKES_KNOWN_US, now_ms);
    /* In 60ths, so that a rate per minute is one per second. */
    if (self->per_min != 0)
        pfl_token_bucket_set(&p->begins, self->per_min, (uint64_t)self->per_min * BEGINNING,
                             now_ms);
}

static uint32_t hash_of(const struct pfl_pending_handshakes *self,
                        const uint8_t address[PFL_PENDING_HANDSHAKES_ADDRESS_BYTES])
{
    uint8_t key[sizeof(self->seed) + PFL_PENDING_HANDSHAKES_ADDRESS_BYTES];

    memcpy(key, &self->seed, sizeof(self->seed));
    memcpy(key + sizeof(self->seed), address, PFL_PENDING_HANDSHAKES_ADDRESS_BYTES);
    return pfl_hash(pfl_span_of(key, sizeof(key)));
}

static struct pfl_pending_handshakes_peer *
find_account(struct pfl_pending_handshakes *self,
             const uint8_t address[PFL_PENDING_HANDSHAKES_ADDRESS_BYTES], uint64_t now_ms)
{
    uint32_t hash = hash_of(self, address);
    struct pfl_pending_handshakes_peer *set;
    struct pfl_pending_handshakes_peer *worst;

    set = &self->table[(hash % SETS) * WAYS];
    worst = &set[hash / SETS % WAYS]; /* shared, when all of them are busy */
    for (size_t i = 0; i < WAYS; i++) {
        if (is_taken(&set[i]) &&
            memcmp(set[i].address, address, PFL_PENDING_HANDSHAKES_ADDRESS_BYTES) == 0) {
            set[i].used_ms = now_ms;
            return &set[i];
        }
        if (weigh(&set[i], now_ms) < weigh(worst, now_ms))
            worst = &set[i];
    }
    if (worst->count == 0)
        open_account(self, worst, address, now_ms);
    return worst;
}

/* ---- networks ---- */

static bool is_mapped(const uint8_t address[PFL_PENDING_HANDSHAKES_ADDRESS_BYTES])
{
    static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

    return memcmp(address, prefix, sizeof(prefix)) == 0;
}

static struct network *find_network(struct pfl_pending_handshakes *self,
                                    const uint8_t address[PFL_PENDING_HANDSHAKES_ADDRESS_BYTES],
                                    uint64_t now_ms)
{
    uint8_t key[PFL_PENDING_HANDSHAKES_ADDRESS_BYTES] = {0};
    struct network *set;
    struct network *worst;

    memcpy(key, address, is_mapped(address) ? IPV4_NETWORK_AT : IPV6_NETWORK_AT);
    set = worst = &self->networks[(hash_of(self, key) % NETWORK_SETS) * NETWORK_WAYS];
    for (size_t i = 0; i < NETWORK_WAYS; i++) {
        if (set[i].credit.per_s != 0 && memcmp(set[i].address, key, sizeof(key)) == 0) {
            set[i].used_ms = now_ms;
            return &set[i];
        }
        /* A free place, or what has most credit; of those the one that was used longest ago. */
        if (pfl_token_bucket_get(&set[i].credit, now_ms) >
                pfl_token_bucket_get(&worst->credit, now_ms) ||
            (pfl_token_bucket_get(&set[i].credit, now_ms) ==
                 pfl_token_bucket_get(&worst->credit, now_ms) &&
             set[i].used_ms < worst->used_ms))
            worst = &set[i];
    }
    *worst = (struct network){.used_ms = now_ms};
    memcpy(worst->address, key, sizeof(key));
    pfl_token_bucket_set(&worst->credit, PFL_PENDING_HANDSHAKES_NETWORK_FORGET_US,
                         PFL_PENDING_HANDSHAKES_NETWORK_KNOWN_US, now_ms);
    return worst;
}

static bool is_crowded(struct pfl_pending_handshakes *self,
                       const struct pfl_pending_handshakes_peer *p, uint64_t now_ms)
{
    struct network *n = find_network(self, p->address, now_ms);

    return PFL_PENDING_HANDSHAKES_NETWORK_KNOWN_US - pfl_token_bucket_get(&n->credit, now_ms) >=
           PFL_PENDING_HANDSHAKES_NETWORK_US;
}

/* ---- priorities ---- */

static enum rank rank_of(struct pfl_pending_handshakes *self,
                         const struct pfl_pending_handshakes_peer *p, uint64_t unpaid_us,
                         bool has_begun, uint64_t now_ms)
{
    if (is_proven(p, now_ms) && unpaid_us < PFL_PENDING_HANDSHAKES_PROVEN_US)
        return RANK_PROVEN;
    if (unpaid_us >= PFL_PENDING_HANDSHAKES_FRESH_US)
        return has_begun ? RANK_SUSPECT_BEGUN : RANK_SUSPECT;
    if (is_crowded(self, p, now_ms))
        return has_begun ? RANK_CROWDED_BEGUN : RANK_CROWDED;
    return has_begun ? RANK_FRESH_BEGUN : RANK_FRESH;
}

/* `own_us`: what the handshake has cost: that does not count against it. RANK_NONE: the budget does
 * not last for it. */
static enum rank rank_within_budget(struct pfl_pending_handshakes *self,
                                    struct pfl_pending_handshakes_peer *p, uint64_t own_us,
                                    uint64_t now_ms)
{
    uint64_t unpaid_us = PFL_PENDING_HANDSHAKES_KNOWN_US - pfl_token_bucket_get(&p->credit, now_ms);
    uint64_t reserve_us;
    enum rank rank;

    unpaid_us = unpaid_us > own_us ? unpaid_us - own_us : 0;
    rank = rank_of(self, p, unpaid_us, own_us != 0, now_ms);
    if (rank == RANK_PROVEN)
        return rank;
    reserve_us = reserves_us[rank];
    /* So that a newcomer does not wait for addresses that are about to become suspects. */
    if (rank == RANK_FRESH || rank == RANK_CROWDED)
        reserve_us += (PFL_PENDING_HANDSHAKES_RESERVE_US - reserve_us) * unpaid_us /
                      PFL_PENDING_HANDSHAKES_FRESH_US;
    return pfl_token_bucket_get(&self->budget, now_ms) > reserve_us ? rank : RANK_NONE;
}

static struct pfl_pending_handshake *first_of(const struct pfl_pending_handshakes_peer *p)
{
    return PFL_CONTAINER_OF(p->waiting.next, struct pfl_pending_handshake, waits);
}

static void stop_waiting(struct pfl_pending_handshakes *self, struct pfl_pending_handshake *h)
{
    if (!h->is_waiting)
        return;
    h->is_waiting = false;
    pfl_list_remove(&h->waits);
    self->figures.waiting--;
    if (--h->peer->waiting_count == 0)
        pfl_list_remove(&h->peer->node);
}

void pfl_pending_handshakes_wait(struct pfl_pending_handshakes *self,
                                 struct pfl_pending_handshake *h)
{
    struct pfl_pending_handshakes_peer *p = h->peer;
    struct pfl_list *before;

    if (h->is_waiting)
        return;
    h->is_waiting = true;
    /* Begun handshakes go first: their cost is refunded sooner. */
    PFL_LIST_EACH (before, &p->waiting) {
        if (h->cost_us != 0 &&
            PFL_CONTAINER_OF(before, struct pfl_pending_handshake, waits)->cost_us == 0)
            break;
    }
    pfl_list_append(before, &h->waits);
    self->figures.waiting++;
    if (p->waiting_count++ == 0)
        pfl_list_append(&self->peers, &p->node);
}

static void grant(struct pfl_pending_handshakes *self, struct pfl_pending_handshake *h,
                  enum rank rank)
{
    self->was_proven = h->is_free = rank == RANK_PROVEN;
    h->is_suspect = rank >= RANK_SUSPECT_BEGUN;
}

/* The first of the waiting proven (NULL: none), and the best of the others; RANK_NONE: the budget
 * suffices for none. */
static enum rank find_waiting(struct pfl_pending_handshakes *self, uint64_t now_ms,
                              struct pfl_pending_handshakes_peer **ret_proven,
                              struct pfl_pending_handshakes_peer **ret_other)
{
    enum rank best_rank = RANK_NONE;
    struct pfl_list *it;

    *ret_proven = *ret_other = NULL;
    PFL_LIST_EACH (it, &self->peers) {
        struct pfl_pending_handshakes_peer *p =
            PFL_CONTAINER_OF(it, struct pfl_pending_handshakes_peer, node);
        enum rank rank = rank_within_budget(self, p, first_of(p)->cost_us, now_ms);

        if (rank == RANK_PROVEN) {
            *ret_proven = *ret_proven == NULL ? p : *ret_proven;
        } else if (rank < best_rank) {
            *ret_other = p;
            best_rank = rank;
        }
    }
    return best_rank;
}

/* After a step of a proven address another rank has its turn, if the budget lasts: an address that
 * finishes any number of handshakes does not block newcomers. */
struct pfl_pending_handshake *pfl_pending_handshakes_next(struct pfl_pending_handshakes *self,
                                                          uint64_t now_ms)
{
    struct pfl_pending_handshakes_peer *proven;
    struct pfl_pending_handshakes_peer *best;
    enum rank rank = find_waiting(self, now_ms, &proven, &best);
    struct pfl_pending_handshake *h;

    if (proven != NULL && (best == NULL || !self->was_proven)) {
        best = proven;
        rank = RANK_PROVEN;
    }
    if (best == NULL)
        return NULL;
    h = first_of(best);
    grant(self, h, rank);
    pfl_list_remove(&best->node); /* the next turn is another's */
    pfl_list_append(&self->peers, &best->node);
    stop_waiting(self, h);
    return h;
}

/* For a step of a proven address, before those that wait. */
static bool may_overtake(struct pfl_pending_handshakes *self, uint64_t now_ms)
{
    struct pfl_pending_handshakes_peer *proven;
    struct pfl_pending_handshakes_peer *other;

    return !self->was_proven || find_waiting(self, now_ms, &proven, &other) == RANK_NONE;
}

bool pfl_pending_handshakes_try_step(struct pfl_pending_handshakes *self,
                                     struct pfl_pending_handshake *h, uint64_t now_ms)
{
    enum rank rank = rank_within_budget(self, h->peer, h->cost_us, now_ms);

    if (rank != RANK_NONE &&
        (self->figures.waiting == 0 || (rank == RANK_PROVEN && may_overtake(self, now_ms)))) {
        grant(self, h, rank);
        return true;
    }
    pfl_pending_handshakes_wait(self, h);
    return false;
}

void pfl_pending_handshakes_charge(struct pfl_pending_handshakes *self,
                                   struct pfl_pending_handshake *h, uint64_t cost_us,
                                   uint64_t now_ms)
{
    uint64_t credit_us = pfl_token_bucket_get(&h->peer->credit, now_ms);
    struct network *n = find_network(self, h->peer->address, now_ms);
    uint64_t left_us = pfl_token_bucket_get(&n->credit, now_ms);

    (void)pfl_token_bucket_get(&self->budget, now_ms);
    /* A proven address's unfinished work is forgiven with its next handshake, and must not be
     * charged to all others. */
    if (!h->is_free) {
        pfl_token_bucket_take(&self->budget, cost_us);
        h->budget_us += cost_us;
    }
    if (!h->is_free && !h->is_suspect) {
        pfl_token_bucket_take(&n->credit, cost_us < left_us ? cost_us : left_us);
        h->network_us += cost_us;
    }
    pfl_token_bucket_take(&h->peer->credit, cost_us < credit_us ? cost_us : credit_us);
    h->cost_us += cost_us;
    self->figures.cost_us += cost_us;
}

/* ---- coming and going ---- */

static void detach(struct pfl_pending_handshakes *self, struct pfl_pending_handshake *h)
{
    stop_waiting(self, h);
    pfl_list_remove(&h->in_all);
    pfl_list_remove(&h->of_peer);
    h->peer->count--;
    h->peer = NULL;
    self->figures.unfinished--;
}

void pfl_pending_handshakes_remove(struct pfl_pending_handshakes *self,
                                   struct pfl_pending_handshake *h)
{
    if (h->peer != NULL)
        detach(self, h);
}

static bool take_refund(struct pfl_pending_handshakes *self, const char *identity, uint64_t now_ms)
{
    struct pfl_token_bucket *left =
        &self->identities[pfl_hash_str(identity) % PFL_PENDING_HANDSHAKES_IDENTITY_BUCKETS];

    if (left->per_s == 0)
        pfl_token_bucket_set(left, PFL_PENDING_HANDSHAKES_OF_ONE_PER_S,
                             PFL_PENDING_HANDSHAKES_OF_ONE, now_ms);
    if (pfl_token_bucket_get(left, now_ms) == 0)
        return false;
    pfl_token_bucket_take(left, 1);
    return true;
}

bool pfl_pending_handshakes_finish(struct pfl_pending_handshakes *self,
                                   struct pfl_pending_handshake *h, const char *identity,
                                   uint64_t now_ms)
{
    struct pfl_pending_handshakes_peer *p = h->peer;

    assert(p != NULL);
    detach(self, h);
    self->figures.finished++;
    if (!take_refund(self, identity, now_ms)) {
        self->figures.unrefunded++;
        return false;
    }
    pfl_token_bucket_give(&self->budget, h->budget_us);
    pfl_token_bucket_give(&p->credit, PFL_PENDING_HANDSHAKES_KNOWN_US);
    pfl_token_bucket_give(&find_network(self, p->address, now_ms)->credit, h->network_us);
    p->proven_until_ms = now_ms + PFL_PENDING_HANDSHAKES_PROVEN_MS;
    return true;
}

void pfl_pending_handshakes_renew(struct pfl_pending_handshakes *self,
                                  const struct pfl_pending_handshake *h, uint64_t now_ms)
{
    struct pfl_pending_handshakes_peer *p = find_account(self, h->address, now_ms);

    if (memcmp(p->address, h->address, sizeof(p->address)) == 0) /* else: shared */
        p->proven_until_ms = now_ms + PFL_PENDING_HANDSHAKES_PROVEN_MS;
}

/* Of the oldest, one of the address with most; those of proven addresses last. */
static struct pfl_pending_handshake *find_victim(const struct pfl_pending_handshakes *self,
                                                 uint64_t now_ms)
{
    struct pfl_pending_handshake *found = NULL;
    unsigned most = 0;
    unsigned looked = 0;
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->all) {
        struct pfl_pending_handshake *h =
            PFL_CONTAINER_OF(it, struct pfl_pending_handshake, in_all);
        unsigned weight = 2 * h->peer->count + !is_proven(h->peer, now_ms);

        if (weight > most) {
            most = weight;
            found = h;
        }
        if (++looked == OUST_LOOK)
            break;
    }
    return found;
}

static bool has_enough(struct pfl_pending_handshakes *self, struct pfl_pending_handshakes_peer *p,
                       uint64_t now_ms)
{
    return p->waiting_count >= PFL_PENDING_HANDSHAKES_SUSPECT_WAITING &&
           rank_within_budget(self, p, 0, now_ms) == RANK_NONE;
}

static bool begins_too_often(struct pfl_pending_handshakes *self,
                             struct pfl_pending_handshakes_peer *p, uint64_t now_ms)
{
    if (self->per_min == 0)
        return false;
    if (pfl_token_bucket_get(&p->begins, now_ms) < BEGINNING)
        return true;
    pfl_token_bucket_take(&p->begins, BEGINNING);
    return false;
}

int pfl_pending_handshakes_add(struct pfl_pending_handshakes *self, struct pfl_pending_handshake *h,
                               const struct sockaddr_storage *peer, uint64_t now_ms,
                               struct pfl_pending_handshake **ret_goes)
{
    uint8_t address[PFL_PENDING_HANDSHAKES_ADDRESS_BYTES];
    struct pfl_pending_handshakes_peer *p;
    struct pfl_pending_handshake *goes = NULL;
    int rc;

    pfl_pending_handshakes_read_address(peer, address);
    p = find_account(self, address, now_ms);
    rc = begins_too_often(self, p, now_ms) ? PFL_ELIMIT : 0;
    if (rc == 0 && has_enough(self, p, now_ms))
        rc = PFL_EAGAIN;
    if (rc != 0) {
        self->figures.refused++;
        return rc;
    }
    if (p->count >= PFL_PENDING_HANDSHAKES_PER_PEER)
        goes = PFL_CONTAINER_OF(p->all.next, struct pfl_pending_handshake, of_peer);
    else if (self->figures.unfinished >= self->max)
        goes = find_victim(self, now_ms);
    if (goes != NULL) {
        detach(self, goes);
        self->figures.ousted++;
    }
    *h = (struct pfl_pending_handshake){.peer = p};
    memcpy(h->address, address, sizeof(h->address));
    pfl_list_append(&self->all, &h->in_all);
    pfl_list_append(&p->all, &h->of_peer);
    p->count++;
    self->figures.unfinished++;
    *ret_goes = goes;
    return 0;
}

bool pfl_pending_handshakes_are_waiting(const struct pfl_pending_handshakes *self)
{
    return self->figures.waiting != 0;
}

void pfl_pending_handshakes_get_figures(const struct pfl_pending_handshakes *self,
                                        struct pfl_pending_handshakes_figures *ret_figures)
{
    *ret_figures = self->figures;
}

int pfl_pending_handshakes_new(const struct pfl_pending_handshakes_conf *conf, uint64_t now_ms,
                               struct pfl_pending_handshakes **ret_self)
{
    struct pfl_pending_handshakes *self = pfl_mem_zalloc(sizeof(*self));

    assert(conf->max > 0);
    if (self == NULL)
        return PFL_ENOMEM;
    pfl_list_init(&self->all);
    pfl_list_init(&self->peers);
    pfl_token_bucket_set(&self->budget, PFL_PENDING_HANDSHAKES_PER_S_US,
                         PFL_PENDING_HANDSHAKES_BURST_US, now_ms);
    self->max = conf->max;
    self->per_min = conf->per_min;
    self->seed = conf->seed;
    *ret_self = self;
    return 0;
}

void pfl_pending_handshakes_free(struct pfl_pending_handshakes *self)
{
    assert(self == NULL || self->figures.unfinished == 0);
    pfl_mem_free(self);
}
