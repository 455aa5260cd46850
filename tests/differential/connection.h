/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One blocking connection to a service: proto's rpc_client over a UNIX socket. A service that
 * closes it, says something impossible or nothing for DIFF_CONNECTION_PATIENCE_S is remembered in
 * `trouble`; every later call then does nothing.
 */
#ifndef PFL_TESTS_DIFFERENTIAL_CONNECTION_H
#define PFL_TESTS_DIFFERENTIAL_CONNECTION_H

#include "proto/ipc/rpc_client.h"

#define DIFF_CONNECTION_PATIENCE_S 4

struct diff_connection {
    int fd;
    int received_fd;            /* owned; -1: none */
    struct pfl_rpc_client *rpc; /* owned */
    const char *trouble;        /* NULL while all is well; static storage */
    bool is_bound;
    bool is_answered;
    bool is_success; /* of the last answer to a call */
    void (*on_body)(void *user, struct pfl_span body);
    void *user;
};

/* Connects and binds; then look at `trouble`. */
void diff_connection_open(struct diff_connection *self, const char *socket_path,
                          const char *service);
void diff_connection_close(struct diff_connection *self); /* legal on a closed one */
bool diff_connection_is_open(const struct diff_connection *self);

/* Asks and waits for the last reply; `on_body` (or NULL) sees each body. True: it succeeded. */
bool diff_connection_call(struct diff_connection *self, const char *method, struct pfl_span args,
                          void (*on_body)(void *user, struct pfl_span body), void *user);
/* Asks without waiting. */
void diff_connection_send(struct diff_connection *self, const char *method, struct pfl_span args,
                          pfl_rpc_reply_cb cb, void *user);
/* Waits for bytes and handles them. */
void diff_connection_pump(struct diff_connection *self);

/* The last field `id` of a message. */
bool diff_find_field(struct pfl_span message, uint32_t id, struct pfl_field *ret_field);

#endif
