/* SPDX-License-Identifier: Apache-2.0 */
/* What hub_port.c (connections), operator_requests.c (what operators ask), stream_table.c
 * (their streams), audit_context.c (lines of the audit log) and agent_events.c (what
 * agents tell) share. */
#ifndef PFL_RELAY_HUB_HUB_IMPL_H
#define PFL_RELAY_HUB_HUB_IMPL_H

#include "base/fair_turn.h"
#include "base/log.h"
#include "base/shares.h"
#include "proto/tunnel/route.h"
#include "relay/hub/host_inventory.h"
#include "relay/hub/hub_port.h"
#include "relay/hub/stream_splice.h"
#include "relay/hub/trigger_log.h"
#include "relay/policy/quota.h"
#include "tunnel/link.h"

/* Operators whose names hash to the same share a rate. */
#define PFL_HUB_LISTED 1024u

struct pfl_hub {
    uv_loop_t *loop;
    struct pfl_audit_log *audit;
    const struct pfl_policy *policy; /* borrowed from the port; NULL allows all */
    struct pfl_quotas *quotas;       /* borrowed from the port */
    uint64_t silence_ms;
    unsigned max_per_operator;
    uint64_t forget_after_ms; /* 0: never */
    struct pfl_list peers;    /* owned until each one's on_ended */
    struct pfl_list streams;  /* streams; freed by themselves */
    struct pfl_list
        forwarded_requests; /* what agents are asked for operators; freed by themselves */
    struct pfl_token_bucket
        listed[PFL_HUB_LISTED]; /* hosts told to operators, by the operator's name */
    struct pfl_log_limit refused_log;
    struct pfl_log_limit unread_log;
    struct pfl_shares unread; /* memory for what came for an operator, or from him; by his name */
    struct pfl_traffic ended; /* `begun` of all, bytes of those that are over */
    struct pfl_host_inventory inventory;
    struct pfl_trigger_log trigger_log;
    struct pfl_fair_turn fair_turn; /* whose connections are read at this turn of the loop */
    bool is_draining;
    char relay[PFL_IDENTITY_NAME_BYTES];
    char fleet[PFL_IDENTITY_NAME_BYTES];
};

struct pfl_hub_peer {
    struct pfl_list node;
    struct pfl_hub *hub;          /* borrowed: outlives us */
    struct pfl_tunnel_link *link; /* owned until its on_closed */
    struct pfl_list held;         /* what waits for an operator's rates; borrowed */
    struct pfl_host *host;        /* of an agent: its entry, borrowed while it is the host's peer */
    uv_timer_t timer; /* until the peer's settings; then an agent's clock, an operator's pace */
    struct pfl_identity identity;
    uint64_t asked_ns;                     /* the clock exchange under way */
    unsigned rounds;                       /* of the burst of clock exchanges */
    struct pfl_agent_events *agent_events; /* to an agent's events; NULL: not now */
    uint64_t passed;                       /* the last trigger that was passed on to it */
    bool is_passing;                       /* one is on its way */
    bool has_said_hello;
    bool is_deaf; /* it knows no events */
    int64_t certificate_end_s;
    const char *tls_version; /* "1.3"; static */
    bool is_ready;
    bool is_ousted; /* closed for a newer one of its host */
    bool is_timer_open;
    uint64_t who;      /* in turns of the loop: fair_turn.h */
    uint64_t round;    /* of its turns */
    uint64_t input_ns; /* when it was read last */
    char address[80];
    void (*on_ended)(void *user);
    void *user;
};

/* h2's on_request of an operator's connection; `user` is the peer. */
void pfl_operator_requests_on_request(void *user, struct pfl_h2_stream *h2_stream,
                                      const struct pfl_h2_head *head);
/* What the policy says about this operator at this host. */
void pfl_hub_decide(const struct pfl_hub *self, const char *operator_name, const char *host,
                    struct pfl_policy_decision *ret_decision);

/* ---- throttle.c ---- */

/* What an operator is to get when his rate allows it; part of what waits. */
struct pfl_throttled {
    struct pfl_list node; /* in its peer's list; zeroed, or removed: it does not wait */
    void (*go_on)(struct pfl_throttled *self);
};

/* It goes on soon. Legal again and again. */
void pfl_throttle_add(struct pfl_hub_peer *p, struct pfl_throttled *held);
/* The peer goes: nothing waits for it any more. */
void pfl_throttle_drop_all(struct pfl_hub_peer *p);

/* ---- host_list.c ---- */

/* Answers with the hosts that the operator may know, in pieces, as he reads and his rate allows. */
void pfl_host_list_send(struct pfl_hub_peer *p, struct pfl_h2_stream *h2_stream);

/* ---- audit_context.c ---- */

/* Who asked what, for the audit log; the peer may be gone at the end. */
struct pfl_audit_context {
    struct pfl_hub *hub;
    char who[PFL_IDENTITY_NAME_BYTES];
    char address[80];
    char host[PFL_IDENTITY_NAME_BYTES];
    char stream[PFL_TUNNEL_STREAM_ID_BYTES];
};

void pfl_audit_context_set(struct pfl_audit_context *self, const struct pfl_hub_peer *p,
                           const struct pfl_route *route);
/* What some lines have besides; zeroed: nothing. */
struct pfl_audit_context_more {
    const struct pfl_stream_splice_stats *stats;
    const char *method;
    const char *detail;
    bool is_refused;
};

/* `more` may be NULL. */
void pfl_audit_context_write(const struct pfl_audit_context *self, const char *action,
                             unsigned status, const struct pfl_audit_context_more *more);

/* The same for a host that is being forgotten, and a line in the log; `who` "": for its age. */
void pfl_audit_context_write_forgotten(const struct pfl_audit_context *self,
                                       const struct pfl_host *host);

/* ---- stream_table.c ---- */

struct pfl_hub_stream_conf {
    const struct pfl_h2_head *head;
    const struct pfl_route *route;
    struct pfl_h2 *agent;
    const struct pfl_policy_decision *decision;
};

/* Answers a CONNECT: a stream to the host, or a refusal. */
void pfl_hub_stream_open(struct pfl_hub_peer *p, struct pfl_h2_stream *h2_stream,
                         const struct pfl_hub_stream_conf *conf);
/* Of hub->unread, also what streams hold without need. False: there is none for him. */
bool pfl_hub_take_memory(struct pfl_hub *self, uint64_t share, size_t bytes);
/* Streams of this operator at this host. */
unsigned pfl_hub_stream_count(const struct pfl_hub *hub, const char *who, const char *host);
/* The policy (`host` NULL), or that host's labels, changed: streams that are forbidden now end,
 * those whose role is another are put under it. */
void pfl_hub_review(struct pfl_hub *self, const char *host);

/* ---- agent_events.c ---- */

/* An agent that has said its hello: it is asked for what it tells, unless it is being, and gets the
 * triggers that it has not got yet. Again and again. */
void pfl_agent_events_start(struct pfl_hub_peer *p);
/* It is not its host's connection any more. */
void pfl_agent_events_stop(struct pfl_hub_peer *p);

/* The host's connection, NULL while it is not there. */
struct pfl_h2 *pfl_hub_get_agent(const struct pfl_hub *self, const struct pfl_host *host);

#endif
