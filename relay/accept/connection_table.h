/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connections of the relay's TLS port, from accept to the end: who takes each after its
 * handshake, why it is refused, whom a new revocation list ends, and how many there were. A core:
 * tls_port.c has the sockets.
 *
 *     add -> HANDSHAKE -- admit --> IN_HUB, IN_DIRECT -- end --> remove
 *                |          `-----> REFUSED -----.
 *                `---- fail ---------------------+----- fail --> remove
 */
#ifndef PFL_RELAY_ACCEPT_CONNECTION_TABLE_H
#define PFL_RELAY_ACCEPT_CONNECTION_TABLE_H

#include <stdint.h>

#include "base/list.h"
#include "relay/accept/accept_shell.h"

enum pfl_accepted_state {
    PFL_ACCEPTED_HANDSHAKE, /* waits for the end of the handshake */
    PFL_ACCEPTED_REFUSED,   /* waits until what was sent is flushed */
    PFL_ACCEPTED_IN_HUB,    /* the hub owns the stream, and reports its end */
    PFL_ACCEPTED_IN_DIRECT, /* direct mode does */
};

/* Zeroed by its owner, who sets the address. */
struct pfl_accepted_connection {
    struct pfl_list node;
    enum pfl_accepted_state state;
    char address[80];
};

struct pfl_connection_table_conf {
    const struct pfl_accept_shell *shell; /* borrowed until fini */
    const char *fleet;                    /* the same: operators and hosts of it are admitted */
    bool has_hub;
    bool has_direct;
};

struct pfl_connection_table {
    struct pfl_connection_table_conf conf;
    struct pfl_list connections; /* borrowed from the shell */
    unsigned count;
    uint64_t accepted;       /* connections */
    uint64_t refused;        /* of them: no handshake, or not admitted */
    uint64_t handshakes_1_2; /* completed, by version of TLS */
    uint64_t handshakes_1_3;
    bool is_draining;
};

/* What the handshake agreed on; valid during the call. */
struct pfl_handshake_result {
    const char *alpn;          /* NULL: none */
    const char *tls_version;   /* "1.2", "1.3" */
    const char *uri_untrusted; /* of the certificate, which was verified */
};

void pfl_connection_table_init(struct pfl_connection_table *self,
                               const struct pfl_connection_table_conf *conf);
void pfl_connection_table_add(struct pfl_connection_table *self,
                              struct pfl_accepted_connection *connection);
/* One that was accepted and got no TLS stream. */
void pfl_connection_table_count_unopened(struct pfl_connection_table *self);
/* After the handshake: gives the connection to the hub or to direct mode. False: it is refused,
 * which was reported, and the shell closes it. */
PFL_MUST_USE bool pfl_connection_table_admit(struct pfl_connection_table *self,
                                             struct pfl_accepted_connection *connection,
                                             const struct pfl_handshake_result *result);
/* The TLS stream of a connection that nobody took has ended; reported once, and not while
 * draining. */
void pfl_connection_table_fail(struct pfl_connection_table *self,
                               struct pfl_accepted_connection *connection);
void pfl_connection_table_remove(struct pfl_connection_table *self,
                                 struct pfl_accepted_connection *connection);
/* Nobody took it yet: the shell still owns its stream. */
bool pfl_connection_table_is_ours(const struct pfl_accepted_connection *connection);
/* After new lists were loaded: drops those that were admitted and are revoked now. */
void pfl_connection_table_drop_revoked(struct pfl_connection_table *self);
/* True the first time. */
bool pfl_connection_table_drain(struct pfl_connection_table *self);

#endif
