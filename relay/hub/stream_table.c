/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators' streams at the fleet relay: see stream_table.h.
 *
 * Happy path: the operator's quota has room for one more, the audit log can be written, the role is
 * sent to the agent with the CONNECT, and a splice (stream_splice.h) passes bytes and credit,
 * within the rate of the role. When the policy changes each stream is checked again: forbidden ones
 * are killed, changed roles are sent to the agents. Failures: a status with a sentence; an agent
 * that does not accept a new role loses the stream, and one that does not answer has to resume it.
 * Unread data takes memory here. If an operator's share of it is used up, the operator's streams
 * with most of it are detached, and none is begun or resumed until data is read. Ownership: a
 * stream frees itself when its HTTP/2 streams are closed. Limits: quota.h, streams per connection
 * (proto/h2/h2.h), `unread`.
 */
#include "relay/hub/stream_table.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "proto/h2/h2_call.h"
#include "relay/hub/audit_context.h"
#include "relay/hub/spool_right.h"
#include "relay/hub/throttle.h"

struct stream {
    struct pfl_list node;
    struct pfl_list of_host;          /* in a bucket */
    struct pfl_stream_table *table;   /* borrowed: outlives us */
    struct pfl_stream_splice *splice; /* borrowed until its on_ended */
    struct pfl_hub_peer *peer;        /* borrowed while the operator's HTTP/2 stream is there */
    struct pfl_quota *quota;          /* borrowed */
    struct pfl_audit_context context;
    char role[PFL_ROLE_FIELD_BYTES];       /* as the agent has it; "": none */
    const struct role_change *last_change; /* borrowed until its answer: the last one; NULL: none */
    struct pfl_throttled throttled;        /* waits for its bytes a second */
    uint64_t share;                        /* the sharer whose memory it takes (base/shares.h) */
    enum pfl_route_kind kind;              /* CONSUMER, SPOOL or COLLECTOR */
    char other[PFL_IDENTITY_NAME_BYTES]; /* of SPOOL: the orderer, "": none; of COLLECTOR: its name
                                          */
    bool is_resume;
};

/* A role in flight to an agent; finds its stream again by name. */
struct role_change {
    struct pfl_stream_table *table;
    struct pfl_audit_context context;
    char role[PFL_ROLE_FIELD_BYTES];
};

/* ---- a stream's life ---- */

static struct stream *stream_of(struct pfl_list *node)
{
    return PFL_CONTAINER_OF(node, struct stream, node);
}

static struct stream *stream_of_host(struct pfl_list *of_host)
{
    return PFL_CONTAINER_OF(of_host, struct stream, of_host);
}

size_t pfl_stream_table_get_bucket(const char *host)
{
    return pfl_hash_str(host) % PFL_STREAM_TABLE_BUCKETS;
}

static uint64_t now_of(const struct pfl_stream_table *self)
{
    return pfl_peer_table_get_now_ms(self->peers);
}

static void count_stream(struct pfl_stream_table *self, const char *name, bool is_more)
{
    struct pfl_host *host = pfl_host_inventory_find(&self->peers->inventory, name);

    if (host != NULL && (is_more || host->streams != 0))
        host->streams += is_more ? 1 : -1u;
}

/* The host has no such stream of this operator. */
static bool is_stray(const struct stream *c, unsigned status)
{
    return c->is_resume && (status == 409 || status == 410);
}

static void report_end(const struct stream *c, const struct pfl_stream_splice_stats *stats)
{
    const struct pfl_hub_shell *shell = c->context.shell;
    struct pfl_hub_report report = {
        .event = PFL_HUB_STREAM_ENDED, .context = &c->context, .stats = stats};

    shell->report(shell->user, &report);
}

/* What the lines about this stream say of its kind. */
static bool audit(const struct stream *c, const char *action, unsigned status,
                  const struct pfl_stream_splice_stats *stats)
{
    char detail[PFL_IDENTITY_NAME_BYTES + 16] = "";

    pfl_audit_context_describe(c->kind, c->other, detail, sizeof(detail));
    return pfl_audit_context_write(
        &c->context, action, status,
        &(struct pfl_audit_context_more){.stats = stats, .detail = detail});
}

static void on_splice_ended(void *user, const struct pfl_stream_splice_stats *stats)
{
    struct stream *c = user;
    struct pfl_stream_table *self = c->table;

    pfl_list_remove(&c->node);
    pfl_list_remove(&c->of_host);
    pfl_list_remove(&c->throttled.node);
    self->ended.bytes_to_host += stats->bytes_to_host;
    self->ended.bytes_to_operator += stats->bytes_to_operator;
    self->ended.cut += stats->operator_code == PFL_H2_DETACH || stats->host_code == PFL_H2_DETACH;
    count_stream(self, c->context.host, false);
    if (is_stray(c, stats->status))
        pfl_quota_note_stray(c->quota, now_of(self));
    pfl_quota_close(c->quota);
    (void)audit(c, stats->status == 200 ? "end" : "refuse", stats->status, stats);
    report_end(c, stats);
    pfl_mem_free(c);
}

void pfl_stream_table_get_traffic(const struct pfl_stream_table *self,
                                  struct pfl_traffic *ret_traffic)
{
    struct pfl_stream_splice_stats stats;
    struct pfl_list *it;

    *ret_traffic = self->ended;
    PFL_LIST_EACH (it, &self->streams) {
        pfl_stream_splice_get_stats(stream_of(it)->splice, &stats);
        ret_traffic->open++;
        ret_traffic->bytes_to_host += stats.bytes_to_host;
        ret_traffic->bytes_to_operator += stats.bytes_to_operator;
        ret_traffic->held_to_host += stats.held_to_host;
        ret_traffic->held_to_operator += stats.held_to_operator;
        ret_traffic->unused_to_host += stats.unused_to_host;
        ret_traffic->unused_to_operator += stats.unused_to_operator;
    }
}

/* ---- bytes a second ---- */

static void proceed(struct pfl_throttled *throttled)
{
    pfl_stream_splice_wake(PFL_CONTAINER_OF(throttled, struct stream, throttled)->splice);
}

static size_t get_room(void *user, size_t want)
{
    struct stream *c = user;
    uint64_t room = pfl_token_bucket_get(&c->quota->bytes, now_of(c->table));

    if (room >= want)
        return want;
    pfl_throttle_add(c->peer, &c->throttled);
    return (size_t)room;
}

static void on_sent(void *user, size_t bytes)
{
    struct stream *c = user;

    pfl_token_bucket_take(&c->quota->bytes, bytes);
}

/* ---- memory for unread data ---- */

/* An operator with less than that left cannot begin or resume streams, so that detached streams do
 * not return to be detached again. More than a window. */
#define ROOM_PARTS 16u
_Static_assert(((uint64_t)PFL_STREAM_TABLE_UNREAD_MIN_MIB << 20) / ROOM_PARTS >=
                   PFL_TUNNEL_DATA_WINDOW_BYTES + PFL_TUNNEL_CONTROL_WINDOW_BYTES,
               "a stream fits what has to be left");

/* Of an operator's streams, `but` excepted, that which has most; those that have nothing to hold
 * have no memory then. */
static struct stream *trim_others(const struct pfl_stream_table *self, uint64_t share,
                                  const struct stream *but)
{
    struct stream *most = NULL;
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->streams) {
        struct stream *c = stream_of(it);

        if (c->share != share || c == but)
            continue;
        pfl_stream_splice_trim(c->splice);
        if (most == NULL ||
            pfl_stream_splice_get_memory(c->splice) > pfl_stream_splice_get_memory(most->splice))
            most = c;
    }
    return most;
}

static void report_detached(const struct stream *c)
{
    pfl_audit_context_report(&c->context, PFL_HUB_STREAM_DETACHED,
                             pfl_stream_splice_get_memory(c->splice), NULL);
}

static bool take_memory(void *user, size_t bytes)
{
    struct stream *c = user;
    struct pfl_stream_table *self = c->table;

    while (!pfl_shares_take(&self->unread, c->share, bytes)) {
        struct stream *most = trim_others(self, c->share, c);

        if (pfl_shares_has_room(&self->unread, c->share, bytes))
            continue;
        if (most == NULL ||
            pfl_stream_splice_get_memory(most->splice) <= pfl_stream_splice_get_memory(c->splice)) {
            report_detached(c);
            return false;
        }
        report_detached(most);
        pfl_stream_splice_detach(most->splice);
    }
    return true;
}

/* For requests: there may be many in a turn of the loop, and streams that are looked at. */
static void trim_once_a_turn(struct pfl_stream_table *self, uint64_t share)
{
    uint64_t now_ms = now_of(self);

    if (self->trimmed_share == share && self->trimmed_ms == now_ms)
        return;
    self->trimmed_share = share;
    self->trimmed_ms = now_ms;
    (void)trim_others(self, share, NULL);
}

bool pfl_stream_table_take_memory(struct pfl_stream_table *self, uint64_t share, size_t bytes)
{
    if (pfl_shares_take(&self->unread, share, bytes))
        return true;
    trim_once_a_turn(self, share);
    return pfl_shares_take(&self->unread, share, bytes);
}

void pfl_stream_table_give_memory(struct pfl_stream_table *self, uint64_t share, size_t bytes)
{
    pfl_shares_give(&self->unread, share, bytes);
}

static void give_memory(void *user, size_t bytes)
{
    struct stream *c = user;

    pfl_shares_give(&c->table->unread, c->share, bytes);
}

static bool may_have_more(struct pfl_stream_table *self, uint64_t share)
{
    uint64_t room = self->unread.max / ROOM_PARTS;

    if (pfl_shares_has_room(&self->unread, share, room))
        return true;
    trim_once_a_turn(self, share);
    return pfl_shares_has_room(&self->unread, share, room);
}

/* ---- beginning ---- */

static bool is_same_stream(const struct pfl_audit_context *a, const struct pfl_audit_context *b)
{
    return strcmp(a->stream, b->stream) == 0 && strcmp(a->who, b->who) == 0 &&
           strcmp(a->host, b->host) == 0;
}

/* An older connection of this operator carries the stream: the new one replaces it. */
static bool is_carried(const struct pfl_stream_table *self, const struct pfl_audit_context *context)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->buckets[pfl_stream_table_get_bucket(context->host)]) {
        if (context->stream[0] != '\0' && is_same_stream(&stream_of_host(it)->context, context))
            return true;
    }
    return false;
}

unsigned pfl_stream_table_count(const struct pfl_stream_table *self, const char *who,
                                const char *host)
{
    struct pfl_list *it;
    unsigned count = 0;

    PFL_LIST_EACH (it, &self->buckets[pfl_stream_table_get_bucket(host)])
        count += strcmp(stream_of_host(it)->context.who, who) == 0 &&
                 strcmp(stream_of_host(it)->context.host, host) == 0;
    return count;
}

/* False: refused already. */
static bool check_memory(const struct stream *c, const struct pfl_host_request *request)
{
    char detail[320];

    if (may_have_more(c->table, c->share))
        return true;
    (void)snprintf(detail, sizeof(detail),
                   "%s has not read the data that waits at this relay: read it, or close streams",
                   c->context.who);
    pfl_host_request_forbid(
        request, &(struct pfl_problem){429, "relay", "too much is not read", detail}, NULL);
    return false;
}

/* `quota` NULL: as many operators have streams as this relay counts. */
static void describe_refusal(const struct pfl_quota *quota, const char *who, char *dst, size_t room)
{
    uint64_t at_once = 0;
    uint64_t per_min = 0;

    if (quota != NULL)
        pfl_quota_get_rate(quota, &at_once, &per_min);
    if (quota == NULL)
        (void)snprintf(dst, room, "this relay counts the streams of no more operators: try later");
    else if (quota->role[0] != '\0')
        (void)snprintf(dst, room,
                       "the role %s gives %s no more streams at the moment: close some, or wait",
                       quota->role, who);
    else
        (void)snprintf(
            dst, room,
            "%s opened %llu streams: no more than %llu a minute from now on, or what a role's "
            "max_new_streams_per_min says",
            who, (unsigned long long)at_once, (unsigned long long)per_min);
}

/* With rates for as many hosts as this relay knows now. */
static struct pfl_quota *get_quota(struct pfl_stream_table *self, const char *who,
                                   struct pfl_span rates)
{
    self->quotas->hosts = self->peers->inventory.count;
    return pfl_quotas_get(self->quotas, who, rates, now_of(self));
}

/* False: refused already. */
static bool open_quota(struct stream *c, const struct pfl_host_request *request)
{
    struct pfl_stream_table *self = c->table;
    uint64_t now_ms = now_of(self);
    unsigned flags = (c->is_resume ? 0 : PFL_QUOTA_NEW) |
                     (is_carried(self, &c->context) ? PFL_QUOTA_TAKE_OVER : 0);
    char detail[320];

    c->quota = get_quota(self, c->context.who, request->decision.rates);
    if (c->quota != NULL && pfl_quota_try_open(c->quota, flags, now_ms))
        return true;
    describe_refusal(c->quota, c->context.who, detail, sizeof(detail));
    c->quota = NULL;
    pfl_host_request_forbid(request,
                            &(struct pfl_problem){429, "relay", "too many streams", detail}, NULL);
    return false;
}

/* A stream that is resumed continues without a line of that. False: refused already. */
static bool audit_begin(const struct stream *c, const struct pfl_host_request *request)
{
    if (c->is_resume) {
        (void)audit(c, "resume", 0, NULL);
        return true;
    }
    if (!pfl_host_request_may_begin(request))
        return false;
    if (audit(c, "connect", 0, NULL))
        return true;
    pfl_host_request_refuse_unaudited(request);
    return false;
}

bool pfl_stream_table_take_change(struct pfl_stream_table *self,
                                  const struct pfl_host_request *request)
{
    const char *who = request->peer->identity.name;
    uint64_t now_ms = now_of(self);
    struct pfl_quota *quota = get_quota(self, who, request->decision.rates);
    char detail[200];

    if (quota != NULL && pfl_quota_try_change(quota, now_ms))
        return true;
    (void)snprintf(detail, sizeof(detail), "%s changes more than this relay audits: wait", who);
    pfl_host_request_forbid(request,
                            &(struct pfl_problem){429, "relay", "too many requests", detail}, NULL);
    return false;
}

/* Who collects for whom. */
static void set_spool(const struct stream *c, struct pfl_stream_splice_place *place,
                      struct pfl_stream_splice_conf *conf)
{
    *place = (struct pfl_stream_splice_place){
        .path = PFL_TUNNEL_SPOOL_PATH,
        .protocol = PFL_TUNNEL_PROTOCOL_SPOOL,
        .fields = {{PFL_TUNNEL_H_COLLECTOR, c->context.who}, {PFL_TUNNEL_H_FOR, c->other}},
        .fields_len = c->other[0] != '\0' ? 2 : 1};
    if (c->other[0] != '\0')
        conf->operator_name = c->other;
}

static void set_place(const struct stream *c, struct pfl_stream_splice_place *place,
                      struct pfl_stream_splice_conf *conf)
{
    if (c->kind == PFL_ROUTE_CONSUMER)
        return;
    if (c->kind == PFL_ROUTE_SPOOL)
        set_spool(c, place, conf);
    else
        *place = (struct pfl_stream_splice_place){.path = PFL_TUNNEL_COLLECTOR_PATH,
                                                  .protocol = PFL_TUNNEL_PROTOCOL_COLLECTOR};
    conf->place = place;
    conf->offer = NULL;
}

static int start_splice(struct stream *c, const struct pfl_host_request *request)
{
    struct pfl_stream_splice_place place;
    struct pfl_stream_splice_conf splice = {
        .h2_stream = request->h2_stream,
        .head = request->head,
        .offer = request->route->has_offer ? &request->route->offer : NULL,
        .agent = request->agent,
        .operator_name = c->context.who,
        .host_window_bytes = PFL_TUNNEL_DATA_WINDOW_BYTES,
        .operator_window_bytes = PFL_TUNNEL_CONTROL_WINDOW_BYTES,
        .role = request->role,
        .role_text = c->role[0] != '\0' ? c->role : NULL,
        .get_room = request->decision.rates.len != 0 ? get_room : NULL,
        .on_sent = request->decision.rates.len != 0 ? on_sent : NULL,
        .take_memory = take_memory,
        .give_memory = give_memory,
        .on_ended = on_splice_ended,
        .user = c,
    };

    set_place(c, &place, &splice);
    return pfl_stream_splice_new(&splice, &c->splice);
}

static void init_stream(struct stream *c, struct pfl_stream_table *table,
                        const struct pfl_host_request *request)
{
    pfl_audit_context_set(&c->context, request->peer, request->route);
    c->table = table;
    c->peer = request->peer;
    c->share = pfl_stream_table_get_share(c->context.who);
    c->throttled.proceed = proceed;
    c->kind = request->route->kind;
    c->is_resume = c->kind == PFL_ROUTE_CONSUMER && request->route->is_resume;
    if (c->kind == PFL_ROUTE_SPOOL && request->route->orderer != NULL)
        memcpy(c->other, request->route->orderer, strlen(request->route->orderer) + 1);
    else if (c->kind == PFL_ROUTE_COLLECTOR)
        memcpy(c->other, request->route->name, sizeof(c->other));
    pfl_role_write(request->role, c->role);
}

void pfl_stream_table_open(struct pfl_stream_table *self, const struct pfl_host_request *request)
{
    struct stream *c = pfl_mem_zalloc(sizeof(*c));

    if (c == NULL) {
        pfl_host_request_refuse(request->h2_stream, 503, "out of memory",
                                "the relay is out of memory");
        return;
    }
    init_stream(c, self, request);
    if (!check_memory(c, request) || !open_quota(c, request)) {
        pfl_mem_free(c);
        return;
    }
    if (!audit_begin(c, request)) {
        pfl_quota_close(c->quota);
        pfl_mem_free(c);
        return;
    }
    if (start_splice(c, request) != 0) {
        (void)audit(c, "refuse", 503, NULL);
        pfl_quota_close(c->quota);
        pfl_mem_free(c);
        pfl_host_request_refuse(request->h2_stream, 503, "relay busy",
                                "this host carries too many streams at the moment");
        return;
    }
    pfl_list_append(&self->streams, &c->node);
    pfl_list_append(&self->buckets[pfl_stream_table_get_bucket(c->context.host)], &c->of_host);
    self->ended.begun++;
    self->ended.resumed += c->is_resume;
    count_stream(self, c->context.host, true);
}

/* ---- another policy ---- */

static void end_forbidden(struct stream *c, unsigned status)
{
    (void)audit(c, "forbid", status, NULL);
    pfl_stream_splice_cancel(c->splice);
}

static void on_role_answered(void *user, int err, unsigned status, struct pfl_span body)
{
    struct role_change *t = user;
    struct pfl_list *it;
    struct pfl_list *tmp;

    (void)body;
    PFL_LIST_EACH_SAFE (it, tmp, &t->table->buckets[pfl_stream_table_get_bucket(t->context.host)]) {
        struct stream *c = stream_of_host(it);
        bool is_last = c->last_change == t;

        if (is_last)
            c->last_change = NULL;
        if (!is_same_stream(&c->context, &t->context))
            continue;
        /* No answer: the connection is lost, or the agent reset the request. The stream gets its
         * role when it is resumed. */
        if (err == PFL_ECLOSED) {
            if (is_last)
                pfl_stream_splice_detach(c->splice);
            continue;
        }
        if (err == 0 && status == 204 && is_last)
            memcpy(c->role, t->role, sizeof(c->role));
        else if (err != 0 || status != 204)
            end_forbidden(c, err == 0 ? status : 502);
    }
    pfl_mem_free(t);
}

static int start_role_change(struct stream *c, const char *role)
{
    struct pfl_host *host = pfl_host_inventory_find(&c->table->peers->inventory, c->context.host);
    struct pfl_h2 *agent = host != NULL ? pfl_peer_table_get_agent(c->table->peers, host) : NULL;
    struct role_change *t = agent != NULL ? pfl_mem_zalloc(sizeof(*t)) : NULL;
    struct pfl_h2_field fields[] = {{PFL_TUNNEL_H_OPERATOR, c->context.who},
                                    {PFL_TUNNEL_H_ROLE, role}};
    char path[80];
    struct pfl_h2_call_conf call = {.method = "PUT",
                                    .path = path,
                                    .fields = fields,
                                    .fields_len = 2,
                                    .body_max_bytes = 4096,
                                    .on_done = on_role_answered,
                                    .user = t};
    int rc;

    if (t == NULL)
        return PFL_ENOMEM;
    t->table = c->table;
    t->context = c->context;
    (void)snprintf(t->role, sizeof(t->role), "%s", role);
    (void)snprintf(path, sizeof(path), PFL_TUNNEL_STREAMS_PATH "/%s", c->context.stream);
    rc = pfl_h2_call_start(agent, &call, NULL);
    if (rc != 0)
        pfl_mem_free(t);
    else
        c->last_change = t;
    return rc;
}

/* With one life it is dialled again to get another role. */
static void review_spool(struct stream *c)
{
    const char *orderer = c->other[0] != '\0' ? c->other : NULL;
    struct pfl_spool_right right;
    char role[PFL_ROLE_FIELD_BYTES];

    pfl_spool_right_decide(c->table->peers, c->context.who, orderer, c->context.host, &right);
    if (right.verdict == PFL_SPOOL_WANTS_LABELS)
        return;
    if (right.verdict != PFL_SPOOL_ALLOWED) {
        end_forbidden(c, 403);
        return;
    }
    if (right.collector.rates.len != 0)
        c->quota =
            pfl_quotas_move(c->table->quotas, c->quota, right.collector.rates, now_of(c->table));
    pfl_role_write(right.role, role);
    if (strcmp(role, c->role) != 0)
        pfl_stream_splice_detach(c->splice);
}

static void review_collector(struct stream *c)
{
    struct pfl_policy_decision d;

    pfl_policy_decide_anywhere(c->table->peers->policy, c->context.who, &d);
    if (!d.is_allowed)
        end_forbidden(c, 403);
    else if (d.rates.len != 0)
        c->quota = pfl_quotas_move(c->table->quotas, c->quota, d.rates, now_of(c->table));
}

/* Roles are replaced, never removed: a stream that had one keeps it if there is none any more. */
static void review_consumer(struct stream *c)
{
    struct pfl_policy_decision d;
    char role[PFL_ROLE_FIELD_BYTES];

    pfl_peer_table_decide(c->table->peers, c->context.who, c->context.host, &d);
    if (!d.is_allowed && !d.wants_labels) {
        end_forbidden(c, 403);
        return;
    }
    if (d.rates.len != 0)
        c->quota = pfl_quotas_move(c->table->quotas, c->quota, d.rates, now_of(c->table));
    pfl_role_write(d.role, role);
    if (d.role.len == 0 ||
        strcmp(role, c->last_change != NULL ? c->last_change->role : c->role) == 0)
        return;
    if (c->role[0] == '\0' || c->context.stream[0] == '\0' || start_role_change(c, role) != 0)
        end_forbidden(c, 403);
}

static void review(struct stream *c)
{
    if (c->kind == PFL_ROUTE_SPOOL)
        review_spool(c);
    else if (c->kind == PFL_ROUTE_COLLECTOR)
        review_collector(c);
    else
        review_consumer(c);
}

void pfl_stream_table_review(struct pfl_stream_table *self, const char *host)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    if (host != NULL) {
        PFL_LIST_EACH_SAFE (it, tmp, &self->buckets[pfl_stream_table_get_bucket(host)]) {
            if (strcmp(stream_of_host(it)->context.host, host) == 0)
                review(stream_of_host(it));
        }
        return;
    }
    PFL_LIST_EACH_SAFE (it, tmp, &self->streams)
        review(stream_of(it));
}

/* ---- the table ---- */

uint64_t pfl_stream_table_get_share(const char *who)
{
    return pfl_shares_hash(who, strlen(who));
}

void pfl_stream_table_init(struct pfl_stream_table *self, const struct pfl_stream_table_conf *conf)
{
    memset(self, 0, sizeof(*self));
    self->peers = conf->peers;
    self->quotas = conf->quotas;
    self->unread.max = conf->unread_max_bytes;
    pfl_list_init(&self->streams);
    for (size_t i = 0; i < PFL_STREAM_TABLE_BUCKETS; i++)
        pfl_list_init(&self->buckets[i]);
}
