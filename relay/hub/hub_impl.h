/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by hub_port.c (connections), operator_requests.c (operators' requests), stream_table.c
 * (their streams), audit_context.c (lines of the audit log) and agent_events.c (events of
 * agents). */
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
    uint64_t forget_after_ms;           /* 0: never */
    struct pfl_list peers;              /* owned until their on_ended */
    struct pfl_list streams;            /* streams; freed by themselves */
    struct pfl_list forwarded_requests; /* requests forwarded to agents; freed by themselves */
    struct pfl_token_bucket
        listed[PFL_HUB_LISTED]; /* rate of listed hosts, by the operator's name */
    struct pfl_log_limit refused_log;
    struct pfl_log_limit unread_log;
    struct pfl_shares unread; /* memory for data from and for operators, by the operator's name */
    struct pfl_traffic ended; /* `begun` of all, bytes of ended ones */
    struct pfl_host_inventory inventory;
    struct pfl_trigger_log trigger_log;
    struct pfl_fair_turn fair_turn; /* limits the reading of connections in a turn of the loop */
    bool is_draining;
    char relay[PFL_IDENTITY_NAME_BYTES];
    char fleet[PFL_IDENTITY_NAME_BYTES];
};

struct pfl_hub_peer {
    struct pfl_list node;
    struct pfl_hub *hub;          /* borrowed: outlives us */
    struct pfl_tunnel_link *link; /* owned until its on_closed */
    struct pfl_list held;         /* waits for an operator's rates; borrowed */
    struct pfl_host *host;        /* of an agent: its entry, borrowed while it is the host's peer */
    uv_timer_t
        timer; /* until the peer's settings arrive; then an agent's clock, an operator's retries */
    struct pfl_identity identity;
    uint64_t asked_ns;                     /* start of the current clock exchange */
    unsigned rounds;                       /* of the burst of clock exchanges */
    struct pfl_agent_events *agent_events; /* an agent's event stream; NULL: none now */
    uint64_t passed;                       /* the last trigger that was forwarded to it */
    bool is_passing;                       /* one is in flight */
    bool has_said_hello;
    bool is_deaf; /* it does not know events */
    int64_t certificate_end_s;
    const char *tls_version; /* "1.3"; static */
    bool is_ready;
    bool is_ousted; /* closed because its host has a newer one */
    bool is_timer_open;
    uint64_t who;      /* the user of its turns: fair_turn.h */
    uint64_t round;    /* of its turns */
    uint64_t input_ns; /* when it was read last */
    char address[80];
    void (*on_ended)(void *user);
    void *user;
};

/* h2's on_request of an operator's connection; `user` is the peer. */
void pfl_operator_requests_on_request(void *user, struct pfl_h2_stream *h2_stream,
                                      const struct pfl_h2_head *head);
/* The policy's decision for this operator at this host. */
void pfl_hub_decide(const struct pfl_hub *self, const char *operator_name, const char *host,
                    struct pfl_policy_decision *ret_decision);

/* ---- throttle.c ---- */

/* Work that waits for an operator's rate; part of the waiting object. */
struct pfl_throttled {
    struct pfl_list node; /* in its peer's list; zeroed, or removed: not waiting */
    void (*go_on)(struct pfl_throttled *self);
};

/* Schedules a retry. Repeatable. */
void pfl_throttle_add(struct pfl_hub_peer *p, struct pfl_throttled *held);
/* The peer is freed: removes all waiting work. */
void pfl_throttle_drop_all(struct pfl_hub_peer *p);

/* ---- host_list.c ---- */

/* Answers with the hosts that the operator may see, in pieces, as the operator reads and the rate
 * allows. */
void pfl_host_list_send(struct pfl_hub_peer *p, struct pfl_h2_stream *h2_stream);

/* ---- audit_context.c ---- */

/* A request and its sender, for the audit log; the peer may be freed before the line is written. */
struct pfl_audit_context {
    struct pfl_hub *hub;
    char who[PFL_IDENTITY_NAME_BYTES];
    char address[80];
    char host[PFL_IDENTITY_NAME_BYTES];
    char stream[PFL_TUNNEL_STREAM_ID_BYTES];
};

void pfl_audit_context_set(struct pfl_audit_context *self, const struct pfl_hub_peer *p,
                           const struct pfl_route *route);
/* Optional fields of a line; zeroed: none. */
struct pfl_audit_context_more {
    const struct pfl_stream_splice_stats *stats;
    const char *method;
    const char *detail;
    bool is_refused;
};

/* `more` may be NULL. */
void pfl_audit_context_write(const struct pfl_audit_context *self, const char *action,
                             unsigned status, const struct pfl_audit_context_more *more);

/* The same for a host that is being forgotten, plus a line in the log; `who` "": because of its
 * age. */
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
/* Takes memory from hub->unread, if necessary from what streams hold without need. False: the share
 * is used up. */
bool pfl_hub_take_memory(struct pfl_hub *self, uint64_t share, size_t bytes);
/* Streams of this operator at this host. */
unsigned pfl_hub_stream_count(const struct pfl_hub *hub, const char *who, const char *host);
/* The policy (`host` NULL) or that host's labels changed: ends streams that are forbidden now, and
 * sends changed roles to the agents. */
void pfl_hub_review(struct pfl_hub *self, const char *host);

/* ---- agent_events.c ---- */

/* Call repeatedly after an agent's hello: requests its events, unless that is running, and forwards
 * the triggers that it has not received yet. */
void pfl_agent_events_start(struct pfl_hub_peer *p);
/* It is no longer its host's connection. */
void pfl_agent_events_stop(struct pfl_hub_peer *p);

/* The host's connection, NULL if there is none. */
struct pfl_h2 *pfl_hub_get_agent(const struct pfl_hub *self, const struct pfl_host *host);

#endif
