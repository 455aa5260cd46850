/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connected agents and operators, the hosts of the agents, and the policy that says which
 * operator may use which of them. A core: it selects the connection to close, and the shell closes
 * it.
 *
 *     admit -> add -> settle -> leave -> remove       (hub_port.c calls them, in this order)
 *                       |         |
 *                  an agent is, and is no longer, the connection of its host
 */
#ifndef PFL_RELAY_HUB_PEER_TABLE_H
#define PFL_RELAY_HUB_PEER_TABLE_H

#include "proto/gate/policy.h"
#include "proto/tunnel/clock_report.h"
#include "proto/tunnel/identity.h"
#include "relay/hub/host_inventory.h"
#include "relay/hub/hub_shell.h"

/* Connections of one host: the one in use, and older ones that were asked to go and are still
 * there. */
#define PFL_PEER_TABLE_OF_HOST 4u
/* Collectors that are connected at a time. */
#define PFL_PEER_TABLE_COLLECTORS 64u
/* Lists of connections, by a hash of the name in their certificate. */
#define PFL_PEER_TABLE_BUCKETS 4096u

enum pfl_hub_peer_state {
    PFL_HUB_PEER_CONNECTED,  /* waits for the peer's HTTP/2 settings */
    PFL_HUB_PEER_READY,      /* requests may be made; of an agent: waits for its hello */
    PFL_HUB_PEER_INTRODUCED, /* an agent that has said its hello */
};

struct pfl_agent_events;

struct pfl_hub_peer {
    struct pfl_list node;
    struct pfl_list of_name;      /* in its bucket of the table, in the order of add */
    struct pfl_peer_table *table; /* borrowed: outlives us */
    struct pfl_identity identity;
    char address[80];
    const char *tls_version; /* "1.3"; static */
    int64_t certificate_end_s;
    enum pfl_hub_peer_state state;
    bool is_collector; /* an operator that answers requests: HTTP/2's roles are reversed */
    bool is_evicted;   /* closed because its host, or its collector, has a newer one */
    struct pfl_list of_collectors; /* of the connection that counts for its collector */
    struct pfl_host *host; /* of an agent: borrowed while it is the host's connection, else NULL */
    struct pfl_list throttled;         /* an operator's: throttle.h */
    struct pfl_agent_events *events;   /* an agent's event stream; NULL: none now */
    struct pfl_list waits_for_trigger; /* trigger_passing.h: in its list, or in none */
    uint64_t passed;                   /* the last trigger that was forwarded to it */
    bool is_passing;                   /* one is in flight */
    bool lacks_events;                 /* it does not know events (404) */
};

struct pfl_peer_table {
    const struct pfl_hub_shell *shell;               /* borrowed */
    const struct pfl_policy *policy;                 /* borrowed; NULL allows all */
    struct pfl_list peers;                           /* borrowed from the shell */
    struct pfl_list buckets[PFL_PEER_TABLE_BUCKETS]; /* the same */
    struct pfl_list collectors;                      /* of these, one for each collector */
    unsigned collectors_len;
    struct pfl_host_inventory inventory;
    unsigned max_per_operator;
    uint64_t forget_after_ms; /* 0: never */
    char relay[PFL_IDENTITY_NAME_BYTES];
    char boot_id[PFL_CLOCK_REPORT_BOOT_ID_BYTES];
};

struct pfl_peer_table_conf {
    const struct pfl_hub_shell *shell; /* borrowed until fini */
    const char *relay;                 /* our name; copied */
    const char *boot_id;               /* of this machine; copied; "": unknown */
    unsigned max_per_operator;         /* connections at a time */
    uint64_t forget_after_ms;          /* a host that left so long ago is forgotten; 0: never */
};

void pfl_peer_table_init(struct pfl_peer_table *self, const struct pfl_peer_table_conf *conf);
/* After the last peer was removed. */
void pfl_peer_table_fini(struct pfl_peer_table *self);

/* Whether one more connection is admitted. PFL_ELIMIT: the operator's maximum, or that of
 * collectors, is reached; PFL_EPERM: the policy lets it collect nowhere. Of a host or a collector,
 * *ret_ousted is the connection to close for it; NULL: none. */
PFL_MUST_USE int pfl_peer_table_admit(struct pfl_peer_table *self,
                                      const struct pfl_identity *identity, bool is_collector,
                                      struct pfl_hub_peer **ret_evicted);
/* `peer` has identity, is_collector, address, tls_version and certificate_end_s, the rest is
 * zeroed. */
void pfl_peer_table_add(struct pfl_peer_table *self, struct pfl_hub_peer *peer);
/* The peer's settings came. An agent is the connection of its host from now on, a collector's that
 * of the collector, until a newer one comes, and again when that one is gone; *ret_replaced is the
 * one that was the host's, and is to be sent GOAWAY; NULL: none.
 * PFL_ELIMIT: there is no room for one more host; PFL_ENOMEM. */
PFL_MUST_USE int pfl_peer_table_settle(struct pfl_peer_table *self, struct pfl_hub_peer *peer,
                                       struct pfl_hub_peer **ret_replaced);
/* Its connection is gone: the host has left, and nothing is throttled. */
void pfl_peer_table_leave(struct pfl_peer_table *self, struct pfl_hub_peer *peer);
void pfl_peer_table_remove(struct pfl_peer_table *self, struct pfl_hub_peer *peer);

/* The HTTP/2 connection of the host's agent on which requests may be made; NULL: none now. */
struct pfl_h2 *pfl_peer_table_get_agent(const struct pfl_peer_table *self,
                                        const struct pfl_host *host);
/* The same of this agent, while it is its host's connection. */
struct pfl_h2 *pfl_peer_table_get_h2(const struct pfl_hub_peer *peer);
/* That of a collector; NULL: none now. */
struct pfl_h2 *pfl_peer_table_get_collector(const struct pfl_peer_table *self, const char *name);
/* The policy does not let this peer be a collector any more. */
bool pfl_peer_table_is_forbidden(const struct pfl_hub_peer *peer);
uint64_t pfl_peer_table_get_now_ms(const struct pfl_peer_table *self);

/* What the policy says about this operator at this host. */
void pfl_peer_table_decide(const struct pfl_peer_table *self, const char *operator_name,
                           const char *host, struct pfl_policy_decision *ret_decision);
bool pfl_peer_table_may_see(const struct pfl_peer_table *self, const char *operator_name,
                            const char *host);
/* Forgets the hosts that left as long ago as the conf says; each is audited. */
void pfl_peer_table_forget_old(struct pfl_peer_table *self);

#endif
