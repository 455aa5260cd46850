/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's side of one connection of the tracing protocol: bind, invoke, reply, request errors,
 * peer identity (docs/abi/wire.md section 2). I/O-free: bytes in by feed, frames out by `send`. A
 * method is legal in the service that names it; the port checks the state that it needs.
 */
#ifndef PFL_PROTO_IPC_RPC_HOST_H
#define PFL_PROTO_IPC_RPC_HOST_H

#include <sys/uio.h>

#include "proto/ipc/frame.h"

/* Identifies a request for a later answer; the port keeps it by value. */
struct pfl_rpc_request {
    uint64_t id;
    bool drop_reply; /* replies to it are dropped silently */
};

/*
 * `args` is borrowed until return. 0: the handler has replied or will. PFL_EPARSE: malformed args;
 * the host answers success=false. Any other negative value breaks the connection (PFL_EPROTO) or is
 * fatal for it (PFL_ENOMEM).
 */
typedef int (*pfl_rpc_handler)(void *user, struct pfl_rpc_request request, struct pfl_span args);

struct pfl_rpc_method {
    const char *name;
    pfl_rpc_handler handle;
};

struct pfl_rpc_service {
    const char *name;                     /* "ProducerPort" */
    const struct pfl_rpc_method *methods; /* ids on the wire are positions from 1 */
    size_t methods_len;
};

struct pfl_rpc_peer_identity {
    int64_t pid;
    uint32_t uid;
    struct pfl_span machine_id_hint;
    struct pfl_span machine_name;
};

struct pfl_rpc_host_conf {
    const struct pfl_rpc_service *services; /* borrowed; static; service_id = position from 1 */
    size_t services_len;
    void *user; /* borrowed; passed to handlers, send and on_peer_identity */
    /* One frame, prefix included; `fd` is -1 or a descriptor to pass, which stays the caller's. */
    int (*send)(void *user, const struct iovec *iov, int iov_len, int fd);
    void (*on_peer_identity)(void *user,
                             const struct pfl_rpc_peer_identity *identity); /* or NULL */
    /* Or NULL. Called after each frame that is handled; false: those that follow in the bytes are
     * kept. */
    bool (*may_continue)(void *user);
};

struct pfl_rpc_host {
    struct pfl_rpc_host_conf conf;
    struct pfl_frame_reader reader; /* owned */
};

void pfl_rpc_host_init(struct pfl_rpc_host *self, const struct pfl_rpc_host_conf *conf);
void pfl_rpc_host_fini(struct pfl_rpc_host *self);
/* PFL_EPROTO, PFL_ENOMEM or a handler's or send's failure: close the connection. */
PFL_MUST_USE int pfl_rpc_host_feed(struct pfl_rpc_host *self, struct pfl_span data);
/* Are frames kept? Then the next feed is of no bytes, and continues with them. */
bool pfl_rpc_host_has_frames(const struct pfl_rpc_host *self);

enum pfl_rpc_reply_flags {
    PFL_RPC_SUCCESS = 1,  /* absent: a failure reply without body */
    PFL_RPC_HAS_MORE = 2, /* more replies follow */
};

/* A body of this size fits into a frame with any request id. */
#define PFL_RPC_REPLY_BODY_MAX (PFL_FRAME_PAYLOAD_MAX - 23u)

/* `body` is the serialized reply message, in `body_len` pieces. PFL_ELIMIT if it does not fit into
 * a frame: PFL_RPC_REPLY_BODY_MAX bytes always fit. Dropped if the request wants no reply. */
PFL_MUST_USE int pfl_rpc_host_reply(struct pfl_rpc_host *self, struct pfl_rpc_request request,
                                    unsigned flags, const struct iovec *body, int body_len, int fd);
/* An empty-bodied success, and a failure (has_more=false, success absent). */
PFL_MUST_USE int pfl_rpc_host_reply_empty(struct pfl_rpc_host *self,
                                          struct pfl_rpc_request request);
PFL_MUST_USE int pfl_rpc_host_reply_failure(struct pfl_rpc_host *self,
                                            struct pfl_rpc_request request);

/* Maximum that pfl_rpc_encode_reply_header needs. */
#define PFL_RPC_REPLY_HEADER_MAX 48u
/*
 * Writes everything of a reply frame that precedes its body (prefix included) so that it ENDS at
 * `end`, and returns its length: for callers that send the body without a copy.
 */
size_t pfl_rpc_encode_reply_header(uint8_t *end, uint64_t request_id, unsigned flags,
                                   size_t body_bytes);

#endif
