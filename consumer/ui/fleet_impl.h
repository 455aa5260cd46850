/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by fleet_port.c (all clients, the hosts' state) and fleet_client.c (one client). */
#ifndef PFL_CONSUMER_UI_FLEET_IMPL_H
#define PFL_CONSUMER_UI_FLEET_IMPL_H

#include "base/io/stream.h"
#include "base/io/worker.h"
#include "base/list.h"
#include "consumer/host/fan_out.h"
#include "consumer/ui/fleet_port.h"
#include "consumer/ui/trace_slices.h"
#include "proto/ipc/rpc_host.h"

struct pfl_fleet {
    struct pfl_fleet_conf conf;
    struct pfl_list clients;     /* owned */
    struct pfl_worker *worker;   /* owned: reads traces */
    struct pfl_fan_out *fan_out; /* owned; NULL: no state request is pending */
    unsigned recordings;         /* clients that have one, or its trace */
    bool is_closing;
};

/* A trace being sent to the client. */
struct pfl_fleet_reading {
    struct pfl_rpc_request request;
    struct pfl_trace_slices slices;
    struct pfl_work work;
    ssize_t result; /* bytes that the work read; negative: it failed */
    uint8_t *chunk; /* owned */
    size_t len;     /* in the chunk, and how much of it was taken */
    size_t taken;
    int64_t offset; /* in the file, after the chunk */
    bool is_open;   /* its last reply was not sent */
    bool is_busy;   /* the work fills the chunk */
    bool is_held;   /* the client does not read */
};

struct pfl_fleet_client {
    struct pfl_list node;
    struct pfl_fleet *fleet;   /* borrowed */
    struct pfl_stream *stream; /* owned; NULL: closed */
    struct pfl_rpc_host rpc;
    struct pfl_fleet_run *run; /* owned; NULL: no recording */
    struct pfl_rpc_request run_request;
    struct pfl_rpc_request state_requests[PFL_FLEET_MAX_STATE_REQUESTS];
    unsigned state_requests_len; /* they wait for the fleet's fan-out */
    struct pfl_fleet_reading reading;
    int fd;              /* owned: the trace; -1: none */
    struct pfl_buf note; /* appended to it */
    uint64_t used_bytes; /* as last sent to the page */
    uint64_t size_bytes;
    char why[512];
    bool is_clone;      /* the run: its reply is a CloneSession's */
    bool is_freed;      /* the run's trace is no longer needed */
    bool has_recording; /* it is counted */
    bool is_closing;
};

/* fleet_client.c */

/* Takes `fd`. */
void pfl_fleet_client_open(struct pfl_fleet *fleet, int fd);
void pfl_fleet_client_close(struct pfl_fleet_client *c);
/* The hosts' state is complete, a serialized TracingServiceState. */
void pfl_fleet_client_give_state(struct pfl_fleet_client *c, struct pfl_span state);

/* fleet_port.c */

/* Answers the client's state_requests from the loop. PFL_ENOMEM. */
PFL_MUST_USE int pfl_fleet_ask_state(struct pfl_fleet *fleet);
/* Call when a client is freed. */
void pfl_fleet_check_closed(struct pfl_fleet *fleet);

#endif
