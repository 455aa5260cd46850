/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators' streams at the fleet relay, each from a CONNECT.
 *
 * Happy path: the operator's quota has room for one more, the role is sent to the agent with the
 * CONNECT, and a splice (stream_splice.h) passes bytes and credit, within the rate of the role.
 * When the policy changes each stream is checked again: forbidden ones are killed, changed roles
 * are sent to the agents. Failures: a status with a sentence; an agent that does not accept a new
 * role loses the stream. Unread data takes memory here. If an operator's share of it is used up,
 * the operator's streams with most of it are detached, and none is begun or resumed until data is
 * read. Ownership: a stream frees itself when its HTTP/2 streams are closed; its quota is the
 * port's. Limits: quota.h, streams per connection (proto/h2/h2.h), hub->unread.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "proto/h2/h2_call.h"
#include "proto/h2/problem.h"
#include "relay/hub/hub_impl.h"

struct hub_stream {
    struct pfl_list node;
    struct pfl_stream_splice *splice; /* borrowed until its on_ended */
    struct pfl_hub_peer *peer;        /* borrowed while the operator's HTTP/2 stream is there */
    struct pfl_quota *quota;          /* borrowed; NULL: no role */
    struct pfl_audit_context context;
    char role[PFL_ROLE_FIELD_BYTES]; /* as the agent has it; "": none */
    struct pfl_throttled held;       /* waits for its bytes a second */
    uint64_t share;                  /* the sharer whose memory it takes (base/shares.h) */
    bool is_resume;
};

/* A role in flight to an agent; finds its stream again by name. */
struct role_change {
    struct pfl_audit_context context;
    char role[PFL_ROLE_FIELD_BYTES];
};

/* ---- a stream's life ---- */

static struct hub_stream *stream_of(struct pfl_list *node)
{
    return PFL_CONTAINER_OF(node, struct hub_stream, node);
}

static void count_stream(struct pfl_hub *hub, const char *name, bool is_more)
{
    struct pfl_host *host = pfl_host_inventory_find(&hub->inventory, name);

    if (host != NULL && (is_more || host->streams != 0))
        host->streams += is_more ? 1 : -1u;
}

/* The host has no such stream of this operator. */
static bool is_stray(const struct hub_stream *c, unsigned status)
{
    return c->is_resume && (status == 409 || status == 410);
}

/* Those that hosts refuse are as many as an operator likes. */
static void log_end(const struct hub_stream *c, const struct pfl_stream_splice_stats *stats)
{
    struct pfl_hub *hub = c->context.hub;

    if (stats->status != 200 &&
        !pfl_log_limit_take(&hub->refused_log, "stream-ended", uv_now(hub->loop)))
        return;
    pfl_log_info("stream-ended",
                 "operator=%s host=%s stream=%s status=%u bytes_to_host=%llu "
                 "bytes_to_operator=%llu operator_side=%u host_side=%u",
                 c->context.who, c->context.host, c->context.stream, stats->status,
                 (unsigned long long)stats->bytes_to_host,
                 (unsigned long long)stats->bytes_to_operator, stats->operator_code,
                 stats->host_code);
}

static void on_splice_ended(void *user, const struct pfl_stream_splice_stats *stats)
{
    struct hub_stream *c = user;

    pfl_list_remove(&c->node);
    pfl_list_remove(&c->held.node);
    c->context.hub->ended.bytes_to_host += stats->bytes_to_host;
    c->context.hub->ended.bytes_to_operator += stats->bytes_to_operator;
    c->context.hub->ended.cut +=
        stats->operator_code == PFL_H2_DETACH || stats->host_code == PFL_H2_DETACH;
    count_stream(c->context.hub, c->context.host, false);
    if (c->quota != NULL && is_stray(c, stats->status))
        pfl_quota_note_stray(c->quota, uv_now(c->context.hub->loop));
    if (c->quota != NULL)
        pfl_quota_close(c->quota);
    pfl_audit_context_write(&c->context, stats->status == 200 ? "end" : "refuse", stats->status,
                            &(struct pfl_audit_context_more){.stats = stats});
    log_end(c, stats);
    pfl_mem_free(c);
}

void pfl_hub_get_traffic(const struct pfl_hub *self, struct pfl_traffic *ret_traffic)
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
    PFL_LIST_EACH (it, &self->peers) {
        const struct pfl_hub_peer *p = PFL_CONTAINER_OF(it, struct pfl_hub_peer, node);

        if (p->link != NULL)
            pfl_traffic_add_queue(ret_traffic, pfl_tunnel_link_get_queued_bytes(p->link));
    }
}

/* ---- bytes a second ---- */

static void go_on(struct pfl_throttled *held)
{
    pfl_stream_splice_wake(PFL_CONTAINER_OF(held, struct hub_stream, held)->splice);
}

static size_t get_room(void *user, size_t want)
{
    struct hub_stream *c = user;
    uint64_t room = pfl_token_bucket_get(&c->quota->bytes, uv_now(c->context.hub->loop));

    if (room >= want)
        return want;
    pfl_throttle_add(c->peer, &c->held);
    return (size_t)room;
}

static void on_sent(void *user, size_t bytes)
{
    struct hub_stream *c = user;

    pfl_token_bucket_take(&c->quota->bytes, bytes);
}

/* ---- memory for what is not read ---- */

/* An operator with less than that left cannot begin or resume streams, so that detached streams do
 * not return to be detached again. More than a window. */
#define ROOM_PARTS 16u
_Static_assert(((uint64_t)PFL_HUB_UNREAD_MIN_MIB << 20) / ROOM_PARTS >=
                   PFL_TUNNEL_DATA_WINDOW_BYTES + PFL_TUNNEL_CONTROL_WINDOW_BYTES,
               "a stream fits what has to be left");

/* Of an operator's streams, `but` excepted, that which has most; those that have nothing to hold
 * have no memory then. */
static struct hub_stream *trim_others(const struct pfl_hub *hub, uint64_t share,
                                      const struct hub_stream *but)
{
    struct hub_stream *most = NULL;
    struct pfl_list *it;

    PFL_LIST_EACH (it, &hub->streams) {
        struct hub_stream *c = stream_of(it);

        if (c->share != share || c == but)
            continue;
        pfl_stream_splice_trim(c->splice);
        if (most == NULL ||
            pfl_stream_splice_get_memory(c->splice) > pfl_stream_splice_get_memory(most->splice))
            most = c;
    }
    return most;
}

static void tell_detached(const struct hub_stream *c)
{
    struct pfl_hub *hub = c->context.hub;

    if (pfl_log_limit_take(&hub->unread_log, "stream-detached", uv_now(hub->loop)))
        pfl_log_warn("stream-detached",
                     "operator=%s host=%s stream=%s held_bytes=%zu reason=\"the operator has not "
                     "read what waits for him here\" remedy=\"see --max-unread-mib\"",
                     c->context.who, c->context.host, c->context.stream,
                     pfl_stream_splice_get_memory(c->splice));
}

static bool take_memory(void *user, size_t bytes)
{
    struct hub_stream *c = user;
    struct pfl_hub *hub = c->context.hub;

    while (!pfl_shares_take(&hub->unread, c->share, bytes)) {
        struct hub_stream *most = trim_others(hub, c->share, c);

        if (pfl_shares_has_room(&hub->unread, c->share, bytes))
            continue;
        if (most == NULL ||
            pfl_stream_splice_get_memory(most->splice) <= pfl_stream_splice_get_memory(c->splice)) {
            tell_detached(c);
            return false;
        }
        tell_detached(most);
        pfl_stream_splice_detach(most->splice);
    }
    return true;
}

bool pfl_hub_take_memory(struct pfl_hub *self, uint64_t share, size_t bytes)
{
    if (pfl_shares_take(&self->unread, share, bytes))
        return true;
    (void)trim_others(self, share, NULL);
    return pfl_shares_take(&self->unread, share, bytes);
}

static void give_memory(void *user, size_t bytes)
{
    struct hub_stream *c = user;

    pfl_shares_give(&c->context.hub->unread, c->share, bytes);
}

static bool may_have_more(struct pfl_hub *hub, uint64_t share)
{
    uint64_t room = hub->unread.max / ROOM_PARTS;

    if (pfl_shares_has_room(&hub->unread, share, room))
        return true;
    (void)trim_others(hub, share, NULL);
    return pfl_shares_has_room(&hub->unread, share, room);
}

/* ---- beginning ---- */

static void refuse(struct pfl_h2_stream *h2_stream, unsigned status, const char *title,
                   const char *detail)
{
    struct pfl_problem problem = {status, "relay", title, detail};

    pfl_problem_respond(h2_stream, &problem);
}

/* An older connection of this operator carries the stream: the new one replaces it. */
static bool is_carried(const struct pfl_hub *hub, const struct pfl_audit_context *context)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &hub->streams) {
        const struct pfl_audit_context *other = &stream_of(it)->context;

        if (context->stream[0] != '\0' && strcmp(other->stream, context->stream) == 0 &&
            strcmp(other->who, context->who) == 0 && strcmp(other->host, context->host) == 0)
            return true;
    }
    return false;
}

unsigned pfl_hub_stream_count(const struct pfl_hub *hub, const char *who, const char *host)
{
    struct pfl_list *it;
    unsigned count = 0;

    PFL_LIST_EACH (it, &hub->streams)
        count += strcmp(stream_of(it)->context.who, who) == 0 &&
                 strcmp(stream_of(it)->context.host, host) == 0;
    return count;
}

/* False: refused already. */
static bool check_memory(const struct hub_stream *c, struct pfl_h2_stream *h2_stream)
{
    char detail[320];

    if (may_have_more(c->context.hub, c->share))
        return true;
    (void)snprintf(detail, sizeof(detail),
                   "%s has not read what waits for him at this relay: read it, or close streams",
                   c->context.who);
    pfl_audit_context_write(&c->context, "refuse", 429, NULL);
    refuse(h2_stream, 429, "too much is not read", detail);
    return false;
}

/* False: refused already. */
static bool open_quota(struct hub_stream *c, struct pfl_h2_stream *h2_stream, struct pfl_span role)
{
    struct pfl_hub *hub = c->context.hub;
    uint64_t now_ms = uv_now(hub->loop);
    char detail[320];

    if (role.len == 0)
        return true;
    c->quota = pfl_quotas_get(hub->quotas, c->context.who, role, now_ms);
    if (c->quota != NULL && pfl_quota_try_open(c->quota, !c->is_resume, now_ms))
        return true;
    if (c->quota != NULL && is_carried(hub, &c->context)) {
        c->quota->streams++;
        return true;
    }
    (void)snprintf(detail, sizeof(detail),
                   "the role %s gives %s no more streams at the moment: close some, or wait",
                   c->quota != NULL ? c->quota->role : "?", c->context.who);
    c->quota = NULL;
    pfl_audit_context_write(&c->context, "refuse", 429, NULL);
    refuse(h2_stream, 429, "too many streams", detail);
    return false;
}

static int start_splice(struct hub_stream *c, struct pfl_h2_stream *h2_stream,
                        const struct pfl_hub_stream_conf *conf)
{
    struct pfl_stream_splice_conf splice = {
        .h2_stream = h2_stream,
        .head = conf->head,
        .offer = conf->route->has_offer ? &conf->route->offer : NULL,
        .agent = conf->agent,
        .operator_name = c->context.who,
        .host_window_bytes = PFL_TUNNEL_DATA_WINDOW_BYTES,
        .operator_window_bytes = PFL_TUNNEL_CONTROL_WINDOW_BYTES,
        .role = conf->decision->role,
        .role_text = c->role[0] != '\0' ? c->role : NULL,
        .get_room = c->quota != NULL ? get_room : NULL,
        .on_sent = c->quota != NULL ? on_sent : NULL,
        .take_memory = take_memory,
        .give_memory = give_memory,
        .on_ended = on_splice_ended,
        .user = c,
    };

    return pfl_stream_splice_new(&splice, &c->splice);
}

void pfl_hub_stream_open(struct pfl_hub_peer *p, struct pfl_h2_stream *h2_stream,
                         const struct pfl_hub_stream_conf *conf)
{
    struct hub_stream *c = pfl_mem_zalloc(sizeof(*c));

    if (c == NULL) {
        refuse(h2_stream, 503, "out of memory", "the relay is out of memory");
        return;
    }
    pfl_audit_context_set(&c->context, p, conf->route);
    c->peer = p;
    c->share = pfl_shares_hash(c->context.who, strlen(c->context.who));
    c->held.go_on = go_on;
    c->is_resume = conf->route->is_resume;
    pfl_role_write(conf->decision->role, c->role);
    if (!check_memory(c, h2_stream) || !open_quota(c, h2_stream, conf->decision->rates)) {
        pfl_mem_free(c);
        return;
    }
    if (start_splice(c, h2_stream, conf) != 0) {
        if (c->quota != NULL)
            pfl_quota_close(c->quota);
        pfl_mem_free(c);
        refuse(h2_stream, 503, "relay busy", "this host carries too many streams at the moment");
        return;
    }
    pfl_list_append(&p->hub->streams, &c->node);
    p->hub->ended.begun++;
    p->hub->ended.resumed += c->is_resume;
    count_stream(p->hub, c->context.host, true);
    pfl_audit_context_write(&c->context, c->is_resume ? "resume" : "connect", 0, NULL);
}

/* ---- another policy ---- */

static void end_forbidden(struct hub_stream *c, unsigned status)
{
    pfl_audit_context_write(&c->context, "forbid", status, NULL);
    pfl_stream_splice_cancel(c->splice);
}

static void on_told(void *user, int err, unsigned status, struct pfl_span body)
{
    struct role_change *t = user;
    struct pfl_list *it;
    struct pfl_list *tmp;

    (void)body;
    PFL_LIST_EACH_SAFE (it, tmp, &t->context.hub->streams) {
        struct hub_stream *c = stream_of(it);

        /* With a lost connection the stream is lost, too, and gets its role when it is resumed. */
        if (err == PFL_ECLOSED || strcmp(c->context.stream, t->context.stream) != 0 ||
            strcmp(c->context.host, t->context.host) != 0 ||
            strcmp(c->context.who, t->context.who) != 0)
            continue;
        if (err == 0 && status == 204)
            memcpy(c->role, t->role, sizeof(c->role));
        else
            end_forbidden(c, err == 0 ? status : 502);
    }
    pfl_mem_free(t);
}

static int tell_agent(struct hub_stream *c, const char *role)
{
    struct pfl_hub *hub = c->context.hub;
    struct pfl_host *host = pfl_host_inventory_find(&hub->inventory, c->context.host);
    struct pfl_h2 *agent = host != NULL ? pfl_hub_get_agent(hub, host) : NULL;
    struct role_change *t = agent != NULL ? pfl_mem_zalloc(sizeof(*t)) : NULL;
    struct pfl_h2_field fields[] = {{PFL_TUNNEL_H_OPERATOR, c->context.who},
                                    {PFL_TUNNEL_H_ROLE, role}};
    char path[80];
    struct pfl_h2_call_conf call = {.method = "PUT",
                                    .path = path,
                                    .fields = fields,
                                    .fields_len = 2,
                                    .body_max_bytes = 4096,
                                    .on_done = on_told,
                                    .user = t};
    int rc;

    if (t == NULL)
        return PFL_ENOMEM;
    t->context = c->context;
    (void)snprintf(t->role, sizeof(t->role), "%s", role);
    (void)snprintf(path, sizeof(path), PFL_TUNNEL_STREAMS_PATH "/%s", c->context.stream);
    rc = pfl_h2_call_start(agent, &call, NULL);
    if (rc != 0)
        pfl_mem_free(t);
    return rc;
}

/* Another role has other rates, which apply from now on. */
static void move_quota(struct hub_stream *c, struct pfl_span role)
{
    struct pfl_hub *hub = c->context.hub;
    struct pfl_quota *quota = pfl_quotas_get(hub->quotas, c->context.who, role, uv_now(hub->loop));

    if (quota == NULL || quota == c->quota)
        return;
    quota->streams++;
    pfl_quota_close(c->quota);
    c->quota = quota;
}

/* Roles are replaced, never removed: a stream that had one keeps it if there is none any more. */
static void review(struct hub_stream *c)
{
    struct pfl_policy_decision d;
    char role[PFL_ROLE_FIELD_BYTES];

    pfl_hub_decide(c->context.hub, c->context.who, c->context.host, &d);
    if (!d.is_allowed && !d.wants_labels) {
        end_forbidden(c, 403);
        return;
    }
    if (c->quota != NULL && d.rates.len != 0)
        move_quota(c, d.rates);
    pfl_role_write(d.role, role);
    if (d.role.len == 0 || strcmp(role, c->role) == 0)
        return;
    if (c->role[0] == '\0' || c->context.stream[0] == '\0' || tell_agent(c, role) != 0)
        end_forbidden(c, 403);
}

void pfl_hub_review(struct pfl_hub *self, const char *host)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    PFL_LIST_EACH_SAFE (it, tmp, &self->streams) {
        if (host == NULL || strcmp(stream_of(it)->context.host, host) == 0)
            review(stream_of(it));
    }
}
