/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent: connections to its relays, their requests, and the operators' streams. A stream
 * belongs to the host and not to a connection: it may be resumed through any of the relays.
 */
#ifndef PFL_AGENT_PORT_H
#define PFL_AGENT_PORT_H

#include "agent/daemon/hello.h"
#include "agent/daemon/segment/segment_table.h"
#include "agent/daemon/stream/spool_port.h"
#include "base/io/tls_stream.h"
#include "base/stored_fds.h"

#define PFL_AGENT_MAX_RELAYS  8u
#define PFL_AGENT_MAX_STREAMS 256u /* including those that are only remembered */
#define PFL_AGENT_MAX_ALARMS  16u  /* without those that are closing */

struct pfl_agent;

struct pfl_agent_conf {
    uv_loop_t *loop;
    const char *relays[PFL_AGENT_MAX_RELAYS]; /* "HOST:PORT"; borrowed until open returns */
    size_t relays_len;
    struct pfl_tls_files
        files; /* strings borrowed until on_closed, for reloads; alpn is set here */
    const char *consumer_socket; /* borrowed until on_closed */
    const char *producer_socket; /* likewise */
    struct pfl_hello_label labels[PFL_HELLO_MAX_LABELS];
    size_t labels_len;
    const char *segments_dir; /* NULL: no orders, no segments; borrowed until on_closed */
    struct pfl_segment_quota segments_quota;
    uint64_t orders_expire_ms; /* 0: never */
    size_t spool_bytes;        /* memory of a stream */
    struct pfl_spool_pool
        pool;             /* of all streams; the struct counts elsewhere. `dir` until on_closed */
    unsigned max_streams; /* at most PFL_AGENT_MAX_STREAMS */
    uint64_t ttl_max_ms;
    uint64_t silence_ms;   /* a relay that is silent for that long is closed */
    uint64_t retry_max_ms; /* longest wait before a relay is dialled again */
    bool keeps_streams;    /* by the service manager, for the next process of this agent */
    struct pfl_stored_fds
        *stored; /* what the manager kept for this process; borrowed until open returns */
    void (*on_closed)(void *user);
    void *user;
};

/* Logs failures. */
PFL_MUST_USE int pfl_agent_open(const struct pfl_agent_conf *conf, struct pfl_agent **ret_agent);
/* The folder of segments and the orders, if it has one: after the sandbox was entered. Logs
 * failures. */
PFL_MUST_USE int pfl_agent_open_collect(struct pfl_agent *self);
/* Reads certificate, key, CA and CRL again, for new connections; if one of them cannot be loaded
 * all old ones stay (logged). */
void pfl_agent_reload(struct pfl_agent *self);
/* Ends every stream, or leaves it for the next process if it is kept, and closes every connection;
 * on_closed follows. Idempotent. */
void pfl_agent_close(struct pfl_agent *self);

#endif
