/* SPDX-License-Identifier: Apache-2.0 */
/* The names of the tunnel's protocol, explained in docs/protocol-tunnel.md. Only constants. */
#ifndef PFL_PROTO_TUNNEL_TUNNEL_H
#define PFL_PROTO_TUNNEL_TUNNEL_H

enum { PFL_TUNNEL_VERSION = 1 }; /* hello's "protocol" */

/* ALPN. An operator dials with the first, an agent with the second (HTTP/2's roles are reversed
 * there), a stock client behind any TLS tunnel with the third or with none (direct mode). */
#define PFL_TUNNEL_ALPN_OPERATOR "h2"
#define PFL_TUNNEL_ALPN_AGENT    "pfl-agent/1"
#define PFL_TUNNEL_ALPN_RAW      "perfetto-consumer/1"
/* A collector, reversed as an agent. */
#define PFL_TUNNEL_ALPN_COLLECTOR "pfl-collector/1"

/* :protocol of the extended CONNECT: to a consumer socket, to a host's spool, to a collector. */
#define PFL_TUNNEL_PROTOCOL           "perfetto-consumer"
#define PFL_TUNNEL_PROTOCOL_SPOOL     "perfleet-spool"
#define PFL_TUNNEL_PROTOCOL_COLLECTOR "perfleet-collector"

/* Paths at an agent; at a relay they are under PFL_TUNNEL_HOSTS_PATH "/<host>". */
#define PFL_TUNNEL_HELLO_PATH    "/v1/hello"
#define PFL_TUNNEL_CONSUMER_PATH "/v1/consumer"
#define PFL_TUNNEL_CLOCK_PATH    "/v1/clock"
#define PFL_TUNNEL_STREAMS_PATH  "/v1/streams"
#define PFL_TUNNEL_ALARMS_PATH   "/v1/alarms"
#define PFL_TUNNEL_ORDERS_PATH   "/v1/orders" /* only at an agent */
#define PFL_TUNNEL_TRIGGERS_PATH "/v1/triggers"
#define PFL_TUNNEL_SPOOL_PATH    "/v1/spool"
#define PFL_TUNNEL_EVENTS_PATH   "/v1/events" /* only at an agent */
#define PFL_TUNNEL_HOSTS_PATH    "/v1/hosts"
/* Only at a relay; the last has the operator's name below it. */
#define PFL_TUNNEL_SPOOLS_PATH     "/v1/spools"
#define PFL_TUNNEL_COLLECTORS_PATH "/v1/collectors"
#define PFL_TUNNEL_RELAY_PATH      "/v1/relay"
#define PFL_TUNNEL_SCOPES_PATH     "/v1/scopes"
#define PFL_TUNNEL_COLLECTOR_PATH  "/v1/collector" /* only at a collector */

/* Header fields of a CONNECT and of its answer. */
#define PFL_TUNNEL_H_STREAM "perfleet-stream" /* 32 lower-case hex digits */
/* bytes that the sender of this head has received */
#define PFL_TUNNEL_H_RECEIVED "perfleet-received"
#define PFL_TUNNEL_H_CREDITED "perfleet-credited" /* of these, the bytes that it has used up */
/* bytes that it accepts beyond the credited ones */
#define PFL_TUNNEL_H_WINDOW "perfleet-window"
/* how long the stream lives without a connection */
#define PFL_TUNNEL_H_TTL "perfleet-ttl-ms"
/* "zstd": the encoding that the answer may have */
#define PFL_TUNNEL_H_ACCEPT      "perfleet-accept-encoding"
#define PFL_TUNNEL_H_ENCODING    "perfleet-encoding" /* "zstd": the encoding of the answer */
#define PFL_TUNNEL_ENCODING_ZSTD "zstd"
/* relay to agent only: the verified operator */
#define PFL_TUNNEL_H_OPERATOR "perfleet-operator"
/* The same: the verified collector, of a spool's stream. */
#define PFL_TUNNEL_H_COLLECTOR "perfleet-collector"
/* Of a spool's stream: the operator for whom the collector manages orders. Relay to agent: that
 * operator may put orders at this host. */
#define PFL_TUNNEL_H_FOR "perfleet-for"
/* Of GET of the spools: the version of the answer before: only what changed since. */
#define PFL_TUNNEL_H_AFTER "perfleet-after"
/* Relay to agent, with GET of the clock: what the exchange before has measured. */
#define PFL_TUNNEL_H_CLOCK "perfleet-clock"

/* Relay to agent: the operator's permissions (proto/gate/role.h), in hex; in the answer: the name
 * of the role that the agent enforces. */
#define PFL_TUNNEL_H_ROLE "perfleet-role"

/* The triggers that an alarm waits for, or that are to be raised ("a,b"). Relay to agent: the
 * trigger that was raised, the host, and how long ago. */
#define PFL_TUNNEL_H_TRIGGERS   "perfleet-triggers"
#define PFL_TUNNEL_H_TRIGGER    "perfleet-trigger"
#define PFL_TUNNEL_H_RAISED_AT  "perfleet-raised-at"
#define PFL_TUNNEL_H_RAISED_AGO "perfleet-raised-ago-ms"
/* Of a trigger of an order: the event's id, a ULID. */
#define PFL_TUNNEL_H_TRIGGER_ID "perfleet-trigger-id"
/* In the answer to GET of the events: the current time of the clock of their at_ms. */
#define PFL_TUNNEL_H_NOW         "perfleet-now-ms"
#define PFL_TUNNEL_EVENTS_TYPE   "application/x-ndjson"
#define PFL_TUNNEL_ALARM_MAX_LEN 600u /* of the list of triggers */

#define PFL_TUNNEL_H_PROBLEM "perfleet-problem" /* with a refusal: the sentence for people */

#define PFL_TUNNEL_STREAM_ID_BYTES 33u /* with NUL */

/* Windows: the maximum in flight in one direction of one stream, and so in each relay. */
#define PFL_TUNNEL_DATA_WINDOW_BYTES    (2u << 20)   /* towards the operator */
#define PFL_TUNNEL_CONTROL_WINDOW_BYTES (256u << 10) /* towards the host */

/* Lifetime of a stream without a connection. */
#define PFL_TUNNEL_TTL_DEFAULT_MS 600000u
#define PFL_TUNNEL_TTL_MAX_MS     3600000u

#endif
