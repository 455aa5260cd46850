/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The consumer port of a host whose every answer is the fuzzer's: a client and a host of the RPC
 * protocol face each other in memory, and requests wait until they are answered.
 */
#ifndef PFL_TESTS_FUZZ_PLAYED_HOST_H
#define PFL_TESTS_FUZZ_PLAYED_HOST_H

#include "base/buf.h"
#include "proto/ipc/rpc_client.h"
#include "proto/ipc/rpc_host.h"

#define PLAYED_HOST_ASKED_MAX 256u

struct played_host {
    struct pfl_rpc_client *client; /* owned */
    struct pfl_rpc_host host;
    struct pfl_buf to_host;
    struct pfl_rpc_request asked[PLAYED_HOST_ASKED_MAX];
    unsigned asked_len; /* more are forgotten: never answered */
    int rc;             /* of the client: not 0, and the connection is broken */
};

/* The port is bound. */
void played_host_init(struct played_host *self);
void played_host_fini(struct played_host *self);
/* What the client has asked reaches the host. */
void played_host_pump(struct played_host *self);
/* Another answer to one of all requests so far; `flags` are enum pfl_rpc_reply_flags. */
void played_host_answer(struct played_host *self, unsigned which, unsigned flags,
                        struct pfl_span body);
/* Bytes that need not be an answer. */
void played_host_say(struct played_host *self, struct pfl_span bytes);

#endif
