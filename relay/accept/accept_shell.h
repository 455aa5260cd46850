/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the table of connections needs from its shell: revocation lists, the hub and direct mode,
 * and the log. tls_port.c is the shell; the unit test has one of its own. The functions may not
 * call back.
 */
#ifndef PFL_RELAY_ACCEPT_ACCEPT_SHELL_H
#define PFL_RELAY_ACCEPT_ACCEPT_SHELL_H

#include "relay/accept/peer_admission.h"

struct pfl_accepted_connection;

enum pfl_accept_event {
    PFL_ACCEPT_PEER_REFUSED, /* after its handshake: `why` has the remedy, too */
    PFL_ACCEPT_HANDSHAKE_FAILED,
    PFL_ACCEPT_PEER_DROPPED, /* revoked while it was connected */
};

struct pfl_accept_report {
    enum pfl_accept_event event;
    const struct pfl_accepted_connection *connection;
    struct pfl_identity_refusal
        why; /* of a failed handshake: none, the TLS stream has the reason */
};

struct pfl_accept_shell {
    /* A revocation list that is loaded now has the certificate, or one above it. */
    bool (*is_revoked)(void *user, const struct pfl_accepted_connection *connection);
    /* Gives the connection to the hub or to direct mode. Not 0: it is not taken; *ret_why has the
     * reason if the taker knows one. */
    int (*give)(void *user, struct pfl_accepted_connection *connection,
                const struct pfl_peer_admission *admission, struct pfl_identity_refusal *ret_why);
    /* The taker is to end it; it is removed later. */
    void (*drop)(void *user, struct pfl_accepted_connection *connection);
    void (*report)(void *user, const struct pfl_accept_report *report);
    void *user; /* borrowed */
};

#endif
