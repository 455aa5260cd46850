/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One stream of an operator at its host: the connection to the local consumer socket, and the
 * resume state that outlives the HTTP/2 streams (`h2_stream`) which carry it.
 *
 * Reads the service at local speed into a bounded spool (memory, then a file), so that a service
 * with blocking sends does not wait for the network. When the spool is full, the socket's
 * back-pressure stops the service.
 */
#ifndef PFL_AGENT_STREAM_PORT_H
#define PFL_AGENT_STREAM_PORT_H

#include "agent/daemon/events/events_port.h"
#include "agent/daemon/stream/spool_port.h"
#include "base/io/stream.h"
#include "base/io/worker.h"
#include "base/list.h"
#include "proto/gate/gate.h"
#include "proto/tunnel/identity.h"
#include "proto/tunnel/tunnel_offer.h"

/* Spool space that is reserved for one read of the service: with it, the rest of a frame in the
 * gate, and zstd's overhead for incompressible bytes. */
#define PFL_AGENT_READ_BYTES (272u * 1024)
/* Minimum of a stream's spool: a window and that space, as a ring. */
#define PFL_AGENT_SPOOL_MIN_BYTES (4u << 20)

struct pfl_agent_stream;

struct pfl_agent_stream_conf {
    uv_loop_t *loop;
    const char *consumer_socket; /* borrowed until open returns */
    struct pfl_spool_pool *pool; /* borrowed; outlives the stream */
    struct pfl_worker *worker;   /* for encoding; borrowed; outlives the stream */
    struct pfl_events *events;   /* borrowed likewise: reports requests under a role */
    size_t spool_bytes;          /* memory of this stream; PFL_AGENT_SPOOL_MIN_BYTES if less */
    const char *id;              /* copied; "": it has one HTTP/2 stream and ends with it */
    const char *operator_name;   /* copied */
    uint64_t ttl_ms;
    bool wants_zstd;      /* towards the operator */
    bool is_to_be_kept;   /* by the service manager, for the next process; with an id only */
    struct pfl_span role; /* the operator's role (proto/gate); copied. Empty: none */
    /* Last callback; the node of pfl_agent_stream_get_node is already out of its list. */
    void (*on_gone)(void *user);
    void *user;
};

/* Connects to the service. Errors of pfl_fdsock_connect_service; PFL_ENOMEM. */
PFL_MUST_USE int pfl_agent_stream_open(const struct pfl_agent_stream_conf *conf,
                                       struct pfl_agent_stream **ret_stream);

/* Prefixes of the names of a stream's descriptors at the manager, before its id. */
#define PFL_AGENT_KEPT_MEMORY  "memory-"
#define PFL_AGENT_KEPT_SERVICE "service-"
#define PFL_AGENT_KEPT_SPOOL   "spool-"

/* What the manager kept of a stream of a dead process. */
struct pfl_agent_stream_kept {
    const char *id; /* from the names; borrowed until take_back returns */
    int memory_fd;
    int service_fd;
    int spool_fd; /* -1: there was no file */
};

/* Continues the stream, without an HTTP/2 stream; the id, operator, TTL and options of `conf` are
 * ignored. Takes the descriptors, also on failure: PFL_EPARSE: inconsistent, or of another version;
 * PFL_ESTATE: several processes died while continuing it; PFL_ENOMEM. */
PFL_MUST_USE int pfl_agent_stream_take_back(const struct pfl_agent_stream_conf *conf,
                                            const struct pfl_agent_stream_kept *kept,
                                            struct pfl_agent_stream **ret_stream);
/*
 * `h2_stream` carries the stream from now on and replaces any other: answered 200 with our offer.
 * PFL_EPROTO: the peer's offer is impossible; `h2_stream` and the stream are unchanged. `peer`
 * NULL: a client without offers.
 */
PFL_MUST_USE int pfl_agent_stream_attach(struct pfl_agent_stream *self,
                                         struct pfl_h2_stream *h2_stream,
                                         const struct pfl_resume_offer *peer);
/*
 * Sets another role of the operator, and judges running requests again. PFL_EPERM, with `ret_why`
 * (PFL_JUDGE_WHY_BYTES): the role does not permit them, or the stream had no role: the caller must
 * kill it. PFL_ENOMEM.
 */
PFL_MUST_USE int pfl_agent_stream_set_role(struct pfl_agent_stream *self, struct pfl_span role,
                                           char *ret_why);
/* Closes the connection to the service; on_gone follows. Idempotent. */
void pfl_agent_stream_kill(struct pfl_agent_stream *self);

/* Removes all of its descriptors from the manager. */
void pfl_agent_stream_forget(const char *id);
/* As kill, but if it is kept the next process continues it. */
void pfl_agent_stream_leave(struct pfl_agent_stream *self);

/* Another stream ended: retries with its part of the common spool. */
void pfl_agent_stream_retry(struct pfl_agent_stream *self);

/* For the owner's list. */
struct pfl_list *pfl_agent_stream_get_node(struct pfl_agent_stream *self);
struct pfl_agent_stream *pfl_agent_stream_of_node(struct pfl_list *node);

struct pfl_agent_stream_info {
    const char *id;
    const char *operator_name;
    uint64_t age_ms;
    uint64_t orphan_ms; /* time without an HTTP/2 stream; 0 with one */
    uint64_t sent_bytes;
    uint64_t kept_bytes; /* in memory and in the file */
    uint64_t file_bytes;
    uint64_t ttl_ms;
    unsigned resumes;
    bool is_carried;
    bool is_over;          /* both directions have ended, but the last bytes may be unused */
    bool is_done;          /* all bytes are used, too; only remembered */
    uint64_t queued_bytes; /* for the service */
    uint64_t window_bytes; /* the operator's window; 0 without an HTTP/2 stream */
    uint64_t unused_bytes; /* of it, sent and not used up there */
    bool is_waiting;       /* there is more to send now */
};
void pfl_agent_stream_get_info(const struct pfl_agent_stream *self,
                               struct pfl_agent_stream_info *ret_info);

#endif
