/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by proxy.c (socket and clients), proxy_client.c (one client), proxy_requests.c (its
 * requests) and proxy_clone.c (clones of pulled sessions).
 */
#ifndef PFL_CONSUMER_PROXY_IMPL_H
#define PFL_CONSUMER_PROXY_IMPL_H

#include <stdatomic.h>

#include "base/io/listener.h"
#include "base/io/worker.h"
#include "base/list.h"
#include "consumer/proxy/detach_request.h"
#include "consumer/proxy/file_pull.h"
#include "consumer/proxy/proxy.h"
#include "proto/ipc/rpc_host.h"

/* What a clone of a pulled session waits for. */
enum pfl_proxy_clone_state {
    PFL_PROXY_CLONE_NONE,
    PFL_PROXY_CLONE_SOURCE,  /* the content of the buffers, in the source's file */
    PFL_PROXY_CLONE_DISK,    /* that file's bytes in the client's */
    PFL_PROXY_CLONE_PACKETS, /* the service's packets about the clone */
};

struct pfl_proxy_clone {
    enum pfl_proxy_clone_state state;
    struct pfl_rpc_request request;
    struct pfl_proxy_client *source; /* borrowed while SOURCE */
    uint64_t mark;                   /* of the source's read-out */
    struct pfl_buf answer;           /* owned: the host's answer */
    struct pfl_buf service_packets;  /* owned */
    struct pfl_packet_scan scan;     /* owned while PACKETS */
    struct pfl_work work;            /* while DISK */
    uint64_t copy_bytes;
    int from; /* owned, as `to`; -1: none */
    int to;
    int error;
    atomic_bool is_cancelled;
};

struct pfl_proxy {
    struct pfl_proxy_conf conf;
    struct pfl_listener *listener; /* owned until closed; NULL: clients are adopted */
    struct pfl_list clients;       /* owned */
    struct pfl_worker *worker;     /* owned: copies files; NULL before the first */
    void (*on_client_freed)(struct pfl_proxy *self);
    bool is_listening; /* on_closed of the listener is pending */
    uint64_t last_mark;
    bool is_closing;
};

struct pfl_proxy_client {
    struct pfl_list node;
    struct pfl_proxy *proxy;    /* borrowed */
    struct pfl_stream *stream;  /* owned; NULL: closed */
    struct pfl_host_conn *conn; /* owned; NULL: closed */
    struct pfl_rpc_host rpc;
    struct pfl_list requests; /* owned struct pfl_proxy_request, until their last reply */
    struct pfl_file_pull pull;
    struct pfl_buf end_body; /* body of the session's final reply, while it is held back */
    struct pfl_rpc_request end_request;
    struct pfl_buf config;                  /* of a pulled session, as in an AttachResponse */
    char key[PFL_DETACH_REQUEST_KEY_BYTES]; /* detached under it; "": not */
    struct pfl_proxy_client *guest;         /* borrowed: attached to our session */
    struct pfl_proxy_client *owner; /* borrowed: its session is the one that we attached to */
    struct pfl_proxy_clone clone;
    uv_timer_t timer;
    int fd; /* passed by the client and not used yet; -1: none */
    char why[512];
    bool is_held_back;
    bool has_pull; /* its timer is open */
    bool has_timer;
    bool has_session_ended;
    bool has_end_request; /* a request waits for the session's end */
    bool is_leaving;      /* the client is gone, its file is finished */
    bool is_closing;
};

/* A pending request at the host. */
struct pfl_proxy_request {
    struct pfl_list node;
    struct pfl_proxy_client *client;
    const struct pfl_host_conn *conn; /* the connection that it was sent on; only compared */
    struct pfl_rpc_request request;
    bool is_enable;
    bool is_clone;
    bool is_orphan; /* its client is closed; listed with the owner of the connection */
};

/* Takes `fd`; on failure it is closed and the listener released. */
void pfl_proxy_client_open(struct pfl_proxy *proxy, int fd);
/* The client disconnects: its file is finished first. */
void pfl_proxy_client_close(struct pfl_list *at);

/* proxy_client.c */

/* Closes its connections, and frees it when they are closed. */
void pfl_proxy_client_fail(struct pfl_proxy_client *c, const char *why);
/* Call when a part of it is closed: frees it when nothing is left. */
void pfl_proxy_client_check_closed(struct pfl_proxy_client *c);
/* The guest no longer uses its owner's connection; pending answers are dropped. */
void pfl_proxy_client_part(struct pfl_proxy_client *owner, struct pfl_proxy_client *guest);
/* Answers the request that waits for the end of the session. */
PFL_MUST_USE int pfl_proxy_client_reply_end(struct pfl_proxy_client *c);
/* Starts the pull into its descriptor. */
void pfl_proxy_client_open_pull(struct pfl_proxy_client *c,
                                const struct pfl_file_request *file_request);

/* proxy_requests.c */

extern const struct pfl_rpc_service pfl_proxy_service;

/* proxy_clone.c */

void pfl_proxy_clone_init(struct pfl_proxy_client *c);
/* The host's reply to CloneSession; the client gets it at once, or when its file is complete. A
 * negative code breaks the connection to the host. */
PFL_MUST_USE int pfl_proxy_clone_take(struct pfl_proxy_client *c, struct pfl_rpc_request request,
                                      const struct pfl_rpc_reply *reply);
/* More of a pulled session is in its file. */
void pfl_proxy_clone_on_read_out(struct pfl_proxy_client *source);
/* The source is closing: clones that wait for it are refused. */
void pfl_proxy_clone_on_source_lost(struct pfl_proxy_client *source);
/* The client is closing. */
void pfl_proxy_clone_close(struct pfl_proxy_client *c);
/* False while a thread works for it. */
bool pfl_proxy_clone_is_closed(const struct pfl_proxy_client *c);

static inline void pfl_proxy_release(struct pfl_proxy *proxy)
{
    if (proxy->listener != NULL)
        pfl_listener_release(proxy->listener);
}

#endif
