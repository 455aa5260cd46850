/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of unfinished handshakes: see handshakes.h. One walk for each new connection, over at
 * most `max` entries: far less than a handshake costs. No allocation; cannot fail.
 */
#include "relay/handshakes.h"

#include <assert.h>
#include <netinet/in.h>
#include <string.h>

#include "base/hash.h"

#define IPV6_NETWORK_BYTES 8u
#define BEGINNING          60u

static struct pfl_handshake *handshake_of(struct pfl_list *node)
{
    return PFL_CONTAINER_OF(node, struct pfl_handshake, node);
}

/* Who counts as one peer. Unknown families are all one. */
static void set_peer(struct pfl_handshake *h, const struct sockaddr_storage *peer)
{
    struct sockaddr_in in;
    struct sockaddr_in6 in6;

    memset(h->peer, 0, sizeof(h->peer));
    if (peer->ss_family == AF_INET) {
        memcpy(&in, peer, sizeof(in));
        h->peer[10] = h->peer[11] = 0xff;
        memcpy(h->peer + 12, &in.sin_addr, sizeof(in.sin_addr));
    } else if (peer->ss_family == AF_INET6) {
        memcpy(&in6, peer, sizeof(in6));
        memcpy(h->peer, &in6.sin6_addr,
               IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr) ? sizeof(h->peer) : IPV6_NETWORK_BYTES);
    }
}

void pfl_handshakes_init(struct pfl_handshakes *self, unsigned max, unsigned per_min)
{
    assert(max > 0);
    pfl_list_init(&self->all);
    self->count = 0;
    self->max = max;
    self->per_min = per_min;
}

static size_t slot_of(const uint8_t peer[16])
{
    return pfl_hash(pfl_span_of(peer, 16)) % PFL_HANDSHAKES_RATES;
}

bool pfl_handshakes_try_begin(struct pfl_handshakes *self, const struct sockaddr_storage *peer,
                              uint64_t now_ms)
{
    struct pfl_handshake h;
    struct pfl_bucket *rate;

    if (self->per_min == 0)
        return true;
    set_peer(&h, peer);
    rate = &self->rates[slot_of(h.peer)];
    /* In 60ths, so that a rate per minute is one per second. */
    if (rate->per_s == 0)
        pfl_bucket_set(rate, self->per_min, (uint64_t)self->per_min * BEGINNING, now_ms);
    if (pfl_bucket_get(rate, now_ms) < BEGINNING)
        return false;
    pfl_bucket_take(rate, BEGINNING);
    return true;
}

void pfl_handshakes_remove(struct pfl_handshakes *self, struct pfl_handshake *h)
{
    if (h->node.next == NULL)
        return;
    pfl_list_remove(&h->node);
    self->count--;
}

struct pfl_handshake *pfl_handshakes_add(struct pfl_handshakes *self, struct pfl_handshake *h,
                                         const struct sockaddr_storage *peer)
{
    struct pfl_handshake *oldest_of_peer = NULL;
    struct pfl_handshake *goes = NULL;
    struct pfl_list *it;
    unsigned of_peer = 0;

    set_peer(h, peer);
    PFL_LIST_EACH (it, &self->all) {
        if (memcmp(handshake_of(it)->peer, h->peer, sizeof(h->peer)) != 0)
            continue;
        if (of_peer++ == 0)
            oldest_of_peer = handshake_of(it);
    }
    if (of_peer >= PFL_HANDSHAKES_PER_PEER)
        goes = oldest_of_peer;
    else if (self->count >= self->max)
        goes = handshake_of(self->all.next);
    if (goes != NULL)
        pfl_handshakes_remove(self, goes);
    pfl_list_append(&self->all, &h->node);
    self->count++;
    return goes;
}
