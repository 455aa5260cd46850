/* SPDX-License-Identifier: Apache-2.0 */
/* Parses a request of the tunnel: docs/protocol-tunnel.md, "Requests". Pure. */
#ifndef PFL_PROTO_TUNNEL_ROUTE_H
#define PFL_PROTO_TUNNEL_ROUTE_H

#include "proto/h2/h2.h"
#include "proto/tunnel/identity.h"
#include "proto/tunnel/tunnel.h"
#include "proto/tunnel/tunnel_offer.h"

enum pfl_route_kind {
    PFL_ROUTE_NONE = 0, /* no such path: 404 */
    PFL_ROUTE_METHOD,   /* the path, but not with this method: 405 */
    PFL_ROUTE_NAME,     /* an invalid name in the path: 400 */
    PFL_ROUTE_HEALTH,
    PFL_ROUTE_HELLO,  /* agents */
    PFL_ROUTE_HOSTS,  /* relays */
    PFL_ROUTE_HOST,   /* relays */
    PFL_ROUTE_FORGET, /* relays: a host that left is no longer known */
    PFL_ROUTE_CONSUMER,
    PFL_ROUTE_CLOCK,
    PFL_ROUTE_STREAMS,
    PFL_ROUTE_KILL,
    PFL_ROUTE_ROLE, /* agents: changes a stream's role */
    PFL_ROUTE_ALARMS,
    PFL_ROUTE_ALARM_SET,
    PFL_ROUTE_ALARM_DROP,
    PFL_ROUTE_ALARM_RAISED, /* agents: its trigger was raised at another host */
    PFL_ROUTE_ORDER_RAISED, /* the same, of an order's trigger */
    PFL_ROUTE_RAISE,        /* triggers, at the host's service */
    PFL_ROUTE_EVENTS,       /* agents */
    PFL_ROUTE_SPOOL,
    PFL_ROUTE_SPOOLS,     /* relays: of the hosts that a collector may collect */
    PFL_ROUTE_COLLECTORS, /* relays: who is connected */
    PFL_ROUTE_COLLECTOR,  /* relays and collectors */
    PFL_ROUTE_SCOPE,      /* relays: the policy for one operator */
    PFL_ROUTE_RELAY,      /* relays: their own figures */
};

/* Who is asked: each has paths of its own. */
enum pfl_route_side {
    PFL_ROUTE_AT_AGENT,
    PFL_ROUTE_AT_RELAY,
    PFL_ROUTE_AT_COLLECTOR,
};

struct pfl_route {
    enum pfl_route_kind kind;
    /* Header fields, borrowed from the head. NULL: there is none. */
    const char *operator_name; /* a name; trusted only from a relay. NULL also: not a name */
    const char *collector;     /* the same, of SPOOL */
    const char *orderer;       /* of SPOOL: a name. NULL also: not a name (see has_orderer) */
    const char *role;          /* for pfl_role_read, not checked */
    const char *clock;         /* of CLOCK: for pfl_clock_report_read, not checked */
    const char *after;         /* of SPOOLS, not checked */
    const char *triggers;      /* a list, not checked */
    const char *trigger;       /* of ALARM_RAISED, ORDER_RAISED: a name. NULL also: not a name */
    const char *raised_at;     /* the same, a host's */
    const char *trigger_id;    /* of ORDER_RAISED: a ULID. NULL also: not one */
    uint64_t raised_ago_ms;    /* 0 without the field */
    bool is_resume;            /* its head has the number of received bytes */
    bool has_orderer;          /* there is such a field, of whatever value */
    bool has_offer;
    struct pfl_resume_offer offer;           /* of the requester, not checked */
    char host[PFL_IDENTITY_NAME_BYTES];      /* at a relay */
    char stream[PFL_TUNNEL_STREAM_ID_BYTES]; /* of KILL and ROLE; of CONSUMER, or "" */
    char session[PFL_IDENTITY_NAME_BYTES];   /* of ALARM_SET, _DROP and _RAISED */
    char name[PFL_IDENTITY_NAME_BYTES]; /* of COLLECTOR and SCOPE, at a relay; of ORDER_RAISED */
};

/* The only reader of these fields; stream_request.h parses what only a new stream at an agent
 * needs. */
void pfl_route_parse(const struct pfl_h2_head *head, enum pfl_route_side side,
                     struct pfl_route *ret_route);
/* 32 lower-case hex digits. */
bool pfl_route_is_stream_id(const char *text_untrusted);

#endif
