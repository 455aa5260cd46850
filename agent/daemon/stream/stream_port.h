/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One stream of an operator at its host: the connection to the local consumer socket, and the
 * resume state that outlives the connections (legs) which carry it.
 *
 * The service is drained at local speed into a bounded spool, so that one whose sends block is
 * not held up by the network: in memory first, then in a file; when that is full, too, the
 * service is held back by the kernel.
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

/* Room of a spool that is left for what one read of the service may bring: with it what a gate had
 * kept of a frame, and what zstd adds where nothing can be made smaller. */
#define PFL_AGENT_READ_BYTES (272u * 1024)
/* The least that a stream's spool may be: a window and that room, as a ring. */
#define PFL_AGENT_SPOOL_MIN_BYTES (4u << 20)

struct pfl_agent_stream;

struct pfl_agent_stream_conf {
    uv_loop_t *loop;
    const char *consumer_socket; /* borrowed until open returns */
    struct pfl_spool_pool *pool; /* borrowed; outlives the stream */
    struct pfl_worker *worker;   /* for encoding; borrowed; outlives the stream */
    struct pfl_events *events;   /* likewise: where requests under a role are told */
    size_t spool_bytes;          /* memory of this stream; PFL_AGENT_SPOOL_MIN_BYTES if less */
    const char *id;              /* copied; "": it has one leg and dies with it */
    const char *operator_name;   /* copied */
    uint64_t ttl_ms;
    bool wants_zstd;      /* towards the operator */
    bool is_to_be_kept;   /* by the service manager, for the next process; with an id only */
    struct pfl_span role; /* what the operator is kept to (proto/gate); copied. Empty: nothing */
    /* Last callback, with the node of pfl_agent_stream_get_node already out of its list. */
    void (*on_gone)(void *user);
    void *user;
};

/* Connects to the service. Errors of pfl_fdsock_connect_service; PFL_ENOMEM. */
PFL_MUST_USE int pfl_agent_stream_open(const struct pfl_agent_stream_conf *conf,
                                       struct pfl_agent_stream **ret_stream);

/* How the manager's descriptors of a stream are called: these and its id. */
#define PFL_AGENT_KEPT_MEMORY  "memory-"
#define PFL_AGENT_KEPT_SERVICE "service-"
#define PFL_AGENT_KEPT_SPOOL   "spool-"

/* What the manager kept of a stream of a process that is gone. */
struct pfl_agent_stream_kept {
    const char *id; /* as the names say; borrowed until take_back returns */
    int memory_fd;
    int service_fd;
    int spool_fd; /* -1: there was no file */
};

/* Goes on with it, without a leg; of `conf` the id, operator, TTL and what he asked for are not
 * looked at. Takes the descriptors, also when it fails: PFL_EPARSE: that cannot be, or another
 * version left it; PFL_ESTATE: processes died in going on with it, one after the other; PFL_ENOMEM.
 */
PFL_MUST_USE int pfl_agent_stream_take_back(const struct pfl_agent_stream_conf *conf,
                                            const struct pfl_agent_stream_kept *kept,
                                            struct pfl_agent_stream **ret_stream);
/*
 * `leg` carries it from now on, in place of any other: answered 200 with our account. PFL_EPROTO
 * when the peer's cannot be true: `leg` is untouched then, and so is the stream. `peer` NULL: a
 * client without accounts.
 */
PFL_MUST_USE int pfl_agent_stream_attach(struct pfl_agent_stream *self, struct pfl_h2_stream *leg,
                                         const struct pfl_resume_offer *peer);
/*
 * Another role of the operator's; judges again what runs. PFL_EPERM, with `ret_why`
 * (PFL_JUDGE_WHY_BYTES): the role does not allow that, or the stream was begun without one: it has
 * to be killed. PFL_ENOMEM.
 */
PFL_MUST_USE int pfl_agent_stream_set_role(struct pfl_agent_stream *self, struct pfl_span role,
                                           char *ret_why);
/* Closes the connection to the service; on_gone follows. Idempotent. */
void pfl_agent_stream_kill(struct pfl_agent_stream *self);

/* Nothing of it is kept by the manager any more. */
void pfl_agent_stream_forget(const char *id);
/* As kill, but when it is kept the next process goes on with it. */
void pfl_agent_stream_leave(struct pfl_agent_stream *self);

/* Another stream ended: what it had of the common spool may be room for this one. */
void pfl_agent_stream_retry(struct pfl_agent_stream *self);

/* For the owner's list. */
struct pfl_list *pfl_agent_stream_get_node(struct pfl_agent_stream *self);
struct pfl_agent_stream *pfl_agent_stream_of_node(struct pfl_list *node);

struct pfl_agent_stream_info {
    const char *id;
    const char *operator_name;
    uint64_t age_ms;
    uint64_t orphan_ms; /* without a leg so long; 0 with one */
    uint64_t sent_bytes;
    uint64_t kept_bytes; /* in memory and in the file */
    uint64_t file_bytes;
    uint64_t ttl_ms;
    unsigned resumes;
    bool is_carried;
    bool is_over;          /* both directions have ended, the last bytes perhaps not used up */
    bool is_done;          /* and those are, too; remembered only */
    uint64_t queued_bytes; /* for the service */
    uint64_t window_bytes; /* what the operator's side lets us send at a time; 0 without a leg */
    uint64_t unused_bytes; /* of it, what was sent and is not used up there */
    bool is_waiting;       /* there is more to send, now */
};
void pfl_agent_stream_get_info(const struct pfl_agent_stream *self,
                               struct pfl_agent_stream_info *ret_info);

#endif
