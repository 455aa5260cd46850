/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /v1/hosts: see host_list.h.
 *
 * Happy path: the inventory's text is made as it is read, some hosts at a time, so that an unread
 * answer costs nothing. Each host that is looked at counts against the operator's rate, over all
 * connections of that operator, and the time that it took (the policy is asked, also about hosts
 * that the operator does not see) against a part of the turn. Failures: out of memory resets the
 * stream. Ownership: a listing is freed with its stream. Limits: HOSTS_PER_S, HOSTS_AT_ONCE,
 * PFL_HOST_LIST_TURN_NS of an operator; of the text one piece.
 */
#include "relay/hub/host_list.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "relay/hub/host_request.h"
#include "relay/hub/throttle.h"

/* As many at once as there can be. */
#define HOSTS_AT_ONCE PFL_HOST_INVENTORY_MAX_HOSTS
#define HOSTS_PER_S   PFL_HOST_INVENTORY_MAX_HOSTS
/* The hosts of one bucket of the inventory, each with all that a hello may say. */
#define PIECE_MAX_BYTES (4u << 20)

struct listing {
    struct pfl_throttled throttled;
    const struct pfl_host_list *list;      /* borrowed: outlives us */
    struct pfl_hub_peer *peer;             /* borrowed: outlives the HTTP/2 stream */
    struct pfl_h2_stream *h2_stream;       /* borrowed until its on_closed */
    struct pfl_host_list_account *account; /* the operator's; borrowed from the list */
    struct pfl_host_inventory_reader reader;
    struct pfl_buf text; /* text that is not sent yet */
};

static struct pfl_host_list_account *account_of(struct pfl_host_list *list, const char *name)
{
    return &list->listed[pfl_hash_str(name) % PFL_HOST_LIST_BUCKETS];
}

static bool may_see(void *user, const char *host)
{
    const struct pfl_hub_peer *p = user;

    return pfl_peer_table_may_see(p->table, p->identity.name, host);
}

bool pfl_host_list_may_look(struct pfl_host_list_account *account, uint64_t now_ms)
{
    if (account->turn_ms != now_ms)
        account->taken_ns = 0;
    account->turn_ms = now_ms;
    return account->taken_ns < PFL_HOST_LIST_TURN_NS &&
           pfl_token_bucket_get(&account->looks, now_ms) != 0;
}

/* More text. False: there is none now. */
static bool read_more(struct listing *l)
{
    const struct pfl_peer_table *peers = l->peer->table;
    const struct pfl_hub_shell *shell = peers->shell;
    struct pfl_host_inventory_view view = {.relay = l->list->relay,
                                           .fleet = l->list->fleet,
                                           .now_ms = pfl_peer_table_get_now_ms(peers),
                                           .may_see = may_see,
                                           .user = l->peer};
    int64_t begin_ns;
    unsigned hosts;

    if (!pfl_host_list_may_look(l->account, view.now_ms)) {
        pfl_throttle_add(l->peer, &l->throttled);
        return false;
    }
    begin_ns = shell->get_boot_ns(shell->user);
    if (pfl_host_inventory_read(&peers->inventory, &view, &l->reader, &l->text, &hosts) != 0) {
        pfl_h2_stream_reset(l->h2_stream, PFL_H2_INTERNAL_ERROR);
        return false;
    }
    l->account->taken_ns += shell->get_boot_ns(shell->user) - begin_ns;
    pfl_token_bucket_take(&l->account->looks, hosts != 0 ? hosts : 1);
    return true;
}

static size_t on_pull(void *user, uint8_t *dst, size_t room, bool *ret_is_end)
{
    struct listing *l = user;
    size_t done = 0;

    while (done < room) {
        struct pfl_span text = pfl_buf_get(&l->text);
        size_t len = text.len < room - done ? text.len : room - done;

        if (len == 0 && (l->reader.is_over || !read_more(l)))
            break;
        if (len != 0)
            memcpy(dst + done, text.data, len);
        pfl_buf_consume(&l->text, len);
        done += len;
    }
    *ret_is_end = l->reader.is_over && l->text.len == 0;
    return done;
}

static void on_data(void *user, struct pfl_span data)
{
    (void)user;
    (void)data; /* the request has no body */
}

static void on_end(void *user)
{
    (void)user;
}

static void on_closed(void *user, uint32_t code)
{
    struct listing *l = user;

    (void)code;
    pfl_list_remove(&l->throttled.node);
    pfl_buf_fini(&l->text);
    pfl_mem_free(l);
}

static const struct pfl_h2_stream_ops ops = {
    .on_data = on_data,
    .on_end = on_end,
    .on_pull = on_pull,
    .on_closed = on_closed,
};

static void proceed(struct pfl_throttled *throttled)
{
    pfl_h2_stream_wake(PFL_CONTAINER_OF(throttled, struct listing, throttled)->h2_stream);
}

void pfl_host_list_init(struct pfl_host_list *self, const char *relay, const char *fleet)
{
    memset(self, 0, sizeof(*self));
    (void)snprintf(self->relay, sizeof(self->relay), "%s", relay);
    (void)snprintf(self->fleet, sizeof(self->fleet), "%s", fleet);
}

void pfl_host_list_send(struct pfl_host_list *self, struct pfl_hub_peer *peer,
                        struct pfl_h2_stream *h2_stream)
{
    static const struct pfl_h2_field field = {"content-type", "application/json"};
    struct listing *l = pfl_mem_zalloc(sizeof(*l));

    if (l == NULL) {
        pfl_host_request_refuse(h2_stream, 503, "out of memory", "the relay is out of memory");
        return;
    }
    l->throttled.proceed = proceed;
    l->list = self;
    l->peer = peer;
    l->h2_stream = h2_stream;
    l->account = account_of(self, peer->identity.name);
    if (l->account->looks.per_s == 0)
        pfl_token_bucket_set(&l->account->looks, HOSTS_PER_S, HOSTS_AT_ONCE,
                             pfl_peer_table_get_now_ms(peer->table));
    pfl_buf_init(&l->text, PIECE_MAX_BYTES);
    pfl_h2_stream_set_user(h2_stream, &ops, l);
    if (pfl_h2_stream_respond(h2_stream, 200, &field, 1) != 0)
        pfl_h2_stream_reset(h2_stream, PFL_H2_INTERNAL_ERROR);
}
