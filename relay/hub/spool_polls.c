/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectors that wait for changes: see spool_polls.h.
 *
 *     version: START.POLICY.CHANGE, of which CHANGE is that of the last host that was looked at
 *
 * Happy path: hosts are kept in the order of their last change (host_inventory.h), so an answer
 * looks at those behind the version that the collector has, and no others. A collector that has
 * none, or one of another start or policy, is answered at once and gets all, in pieces; so does one
 * that is far behind. Others wait for the next pfl_spool_polls_run with a change. Looking at hosts
 * takes a part of a turn of the loop, as for the list of hosts (host_list.h): what is left waits
 * for one of the next turns. Failures: 403 for
 * an operator who may collect nowhere, 429 for a second request that waits on a connection, 503
 * without memory. Ownership: a poll is freed with its HTTP/2 stream, or when it is answered.
 * Limits: the numbers of spool_polls.h; LOOKS_PER_S of an operator.
 */
#include "relay/hub/spool_polls.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "perfleet/policy.fields.h"
#include "relay/hub/collector_list.h"
#include "relay/hub/throttle.h"

/* As many at once as there can be. */
#define LOOKS_AT_ONCE PFL_HOST_INVENTORY_MAX_HOSTS
#define LOOKS_PER_S   PFL_HOST_INVENTORY_MAX_HOSTS
/* PFL_SPOOL_POLLS_HOSTS, each with all the labels that a hello may have. */
#define ANSWER_MAX_BYTES (4u << 20)

struct poll {
    struct pfl_list node;
    struct pfl_throttled throttled;
    struct pfl_spool_polls *polls;   /* borrowed: outlives the HTTP/2 stream */
    struct pfl_hub_peer *peer;       /* borrowed: outlives the HTTP/2 stream */
    struct pfl_h2_stream *h2_stream; /* borrowed until its on_closed */
    uint64_t after;
    uint64_t until_ms;
    bool is_from_start;
};

/* What an answer has. */
struct page {
    struct pfl_buf hosts; /* JSON, with commas between */
    uint64_t version;     /* of the last host that was looked at */
    unsigned count;
    bool has_more;
};

static uint64_t now_of(const struct pfl_spool_polls *self)
{
    return pfl_peer_table_get_now_ms(self->peers);
}

/* ---- looking at hosts ---- */

static struct pfl_host *host_of(struct pfl_list *node)
{
    return PFL_CONTAINER_OF(node, struct pfl_host, change);
}

/* The first host that changed after this version; the list itself: none. */
static struct pfl_list *find_first(struct pfl_host_inventory *inventory, uint64_t after)
{
    struct pfl_list *it = inventory->changes.prev;

    while (it != &inventory->changes && host_of(it)->version > after)
        it = it->prev;
    return it->next;
}

static bool may_collect(const struct pfl_spool_polls *self, const char *who, const char *host)
{
    struct pfl_policy_decision decision;

    pfl_peer_table_decide(self->peers, who, host, &decision);
    return pfl_policy_gives(&decision, ROLE__COLLECT);
}

static int append_host(struct page *page, const struct pfl_host *host)
{
    char *json = NULL;
    int rc = pfl_host_inventory_encode_spool(host, &json);

    if (rc == 0 && page->count != 0)
        rc = pfl_buf_append(&page->hosts, ",", 1);
    if (rc == 0)
        rc = pfl_buf_append(&page->hosts, json, strlen(json));
    page->count++;
    pfl_mem_free(json);
    return rc;
}

static struct pfl_host_list_account *account_of(struct pfl_spool_polls *self, const char *who)
{
    struct pfl_host_list_account *a = &self->looks[pfl_hash_str(who) % PFL_SPOOL_POLLS_BUCKETS];

    if (a->looks.per_s == 0)
        pfl_token_bucket_set(&a->looks, LOOKS_PER_S, LOOKS_AT_ONCE, now_of(self));
    return a;
}

static int64_t get_boot_ns(const struct pfl_spool_polls *self)
{
    return self->peers->shell->get_boot_ns(self->peers->shell->user);
}

/* The caller frees page->hosts. */
static int read_page(struct pfl_spool_polls *self, const struct poll *p, struct page *page)
{
    struct pfl_host_inventory *inventory = &self->peers->inventory;
    const char *who = p->peer->identity.name;
    struct pfl_host_list_account *account = account_of(self, who);
    struct pfl_list *it = find_first(inventory, p->after);
    int64_t since_ns = get_boot_ns(self);
    unsigned looks = 0;
    int rc = 0;

    *page = (struct page){.version = p->after};
    pfl_buf_init(&page->hosts, ANSWER_MAX_BYTES);
    for (; rc == 0 && it != &inventory->changes && looks < PFL_SPOOL_POLLS_LOOKS &&
           page->count < PFL_SPOOL_POLLS_HOSTS && account->taken_ns < PFL_HOST_LIST_TURN_NS;
         it = it->next, looks++) {
        int64_t now_ns;

        page->version = host_of(it)->version;
        if (may_collect(self, who, host_of(it)->name))
            rc = append_host(page, host_of(it));
        now_ns = get_boot_ns(self);
        account->taken_ns += now_ns - since_ns;
        since_ns = now_ns;
    }
    page->has_more = it != &inventory->changes;
    pfl_token_bucket_take(&account->looks, looks);
    return rc;
}

/* ---- answering ---- */

static void free_poll(struct poll *p)
{
    pfl_list_remove(&p->throttled.node);
    pfl_list_remove(&p->node);
    pfl_mem_free(p);
}

/* Names are of the certificates' grammar: there is nothing to escape. */
static int write_answer(const struct pfl_spool_polls *self, const struct poll *p,
                        const struct page *page, struct pfl_buf *text)
{
    struct pfl_span hosts = pfl_buf_get(&page->hosts);
    char head[2 * PFL_IDENTITY_NAME_BYTES + 192];
    int len = snprintf(head, sizeof(head),
                       "{\"relay\":\"%s\",\"fleet\":\"%s\",\"version\":\"%" PRIx64 ".%u.%" PRIu64
                       "\",\"is_from_start\":%s,\"has_more\":%s,\"hosts\":[",
                       self->relay, self->fleet, self->start, self->policy, page->version,
                       p->is_from_start ? "true" : "false", page->has_more ? "true" : "false");
    int rc = pfl_buf_append(text, head, (size_t)len);

    if (rc == 0 && hosts.len != 0)
        rc = pfl_buf_append(text, hosts.data, hosts.len);
    return rc == 0 ? pfl_buf_append(text, "]}", 2) : rc;
}

/* Frees the poll. `rc` not 0: there is no page. */
static void answer(struct pfl_spool_polls *self, struct poll *p, int rc, const struct page *page)
{
    static const struct pfl_route route = {.kind = PFL_ROUTE_SPOOLS};
    const struct pfl_host_request request = {
        .peer = p->peer, .h2_stream = p->h2_stream, .route = &route};
    struct pfl_buf text;

    pfl_buf_init(&text, ANSWER_MAX_BYTES + 512);
    if (rc == 0)
        rc = write_answer(self, p, page, &text);
    free_poll(p);
    pfl_h2_stream_set_user(request.h2_stream, NULL, NULL);
    if (rc == 0)
        pfl_forwarded_requests_respond(self->answers, &request, "application/json",
                                       pfl_buf_get(&text));
    else
        pfl_host_request_refuse(request.h2_stream, 503, "out of memory",
                                "the relay is out of memory");
    pfl_buf_fini(&text);
}

/* Answers if there is something to say, or `is_due`; else the poll waits, and soon looks further if
 * there are hosts left. It may be freed. */
static void try_answer(struct pfl_spool_polls *self, struct poll *p, bool is_due)
{
    struct page page;
    bool is_answered;
    int rc;

    if (!pfl_host_list_may_look(account_of(self, p->peer->identity.name), now_of(self))) {
        pfl_throttle_add(p->peer, &p->throttled);
        return;
    }
    rc = read_page(self, p, &page);
    is_answered = rc != 0 || is_due || page.count != 0;
    p->after = page.version;
    if (is_answered)
        answer(self, p, rc, &page);
    else if (page.has_more)
        pfl_throttle_add(p->peer, &p->throttled);
    pfl_buf_fini(&page.hosts);
}

/* If it has to. */
static void look(struct poll *p)
{
    const struct pfl_spool_polls *self = p->polls;
    bool is_due = p->is_from_start || now_of(self) >= p->until_ms;

    if (is_due || self->peers->inventory.version != p->after)
        try_answer(p->polls, p, is_due);
}

static void proceed(struct pfl_throttled *throttled)
{
    look(PFL_CONTAINER_OF(throttled, struct poll, throttled));
}

/* ---- asking ---- */

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
    (void)code;
    free_poll(user);
}

static const struct pfl_h2_stream_ops ops = {
    .on_data = on_data,
    .on_end = on_end,
    .on_closed = on_closed,
};

/* False: none of this relay's start and policy. */
static bool read_version(const struct pfl_spool_polls *self, const char *text_untrusted,
                         uint64_t *ret_change)
{
    char ours[PFL_SPOOL_POLLS_VERSION];
    int len = snprintf(ours, sizeof(ours), "%" PRIx64 ".%u.", self->start, self->policy);
    const char *digits;
    uint64_t change = 0;

    if (text_untrusted == NULL || strncmp(text_untrusted, ours, (size_t)len) != 0)
        return false;
    digits = text_untrusted + len;
    if (strlen(digits) > 18 || strspn(digits, "0123456789") != strlen(digits))
        return false;
    for (; *digits != '\0'; digits++)
        change = change * 10 + (uint64_t)(*digits - '0');
    *ret_change = change;
    return change <= self->peers->inventory.version;
}

static bool is_waiting(const struct pfl_spool_polls *self, const struct pfl_hub_peer *peer)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->waiting) {
        if (PFL_CONTAINER_OF(it, struct poll, node)->peer == peer)
            return true;
    }
    return false;
}

/* More changed than one answer has: there is no use in waiting. */
static bool is_behind(const struct pfl_spool_polls *self, const struct poll *p)
{
    return self->peers->inventory.version - p->after > PFL_SPOOL_POLLS_HOSTS;
}

void pfl_spool_polls_ask(struct pfl_spool_polls *self, const struct pfl_host_request *request)
{
    struct poll *p;

    if (!pfl_collector_list_admit_collector(request, "spools"))
        return;
    if (is_waiting(self, request->peer)) {
        pfl_host_request_refuse(request->h2_stream, 429, "too many requests",
                                "another one for the spools waits on this connection");
        return;
    }
    p = pfl_mem_zalloc(sizeof(*p));
    if (p == NULL) {
        pfl_host_request_refuse(request->h2_stream, 503, "out of memory",
                                "the relay is out of memory");
        return;
    }
    p->throttled.proceed = proceed;
    p->polls = self;
    p->peer = request->peer;
    p->h2_stream = request->h2_stream;
    p->until_ms = now_of(self) + PFL_SPOOL_POLLS_HOLD_MS;
    p->is_from_start = !read_version(self, request->route->after, &p->after);
    pfl_list_append(&self->waiting, &p->node);
    pfl_h2_stream_set_user(request->h2_stream, &ops, p);
    if (p->is_from_start || is_behind(self, p))
        try_answer(self, p, true);
}

void pfl_spool_polls_run(struct pfl_spool_polls *self)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    PFL_LIST_EACH_SAFE (it, tmp, &self->waiting)
        look(PFL_CONTAINER_OF(it, struct poll, node));
}

void pfl_spool_polls_restart(struct pfl_spool_polls *self)
{
    struct pfl_list *it;

    self->policy++;
    PFL_LIST_EACH (it, &self->waiting) {
        struct poll *p = PFL_CONTAINER_OF(it, struct poll, node);

        p->after = 0;
        p->is_from_start = true;
    }
}

void pfl_spool_polls_finish(struct pfl_spool_polls *self)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    PFL_LIST_EACH_SAFE (it, tmp, &self->waiting) {
        struct poll *p = PFL_CONTAINER_OF(it, struct poll, node);
        struct page page = {.version = p->after};

        answer(self, p, 0, &page);
    }
}

void pfl_spool_polls_init(struct pfl_spool_polls *self, struct pfl_peer_table *peers,
                          struct pfl_forwarded_requests *answers, const char *relay,
                          const char *fleet)
{
    memset(self, 0, sizeof(*self));
    self->peers = peers;
    self->answers = answers;
    self->start = (uint64_t)peers->shell->get_boot_ns(peers->shell->user);
    pfl_list_init(&self->waiting);
    (void)snprintf(self->relay, sizeof(self->relay), "%s", relay);
    (void)snprintf(self->fleet, sizeof(self->fleet), "%s", fleet);
}
