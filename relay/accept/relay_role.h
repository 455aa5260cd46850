/* SPDX-License-Identifier: Apache-2.0 */
/* What this relay is by its own certificate: its fleet and name, and whether it has a hub, direct
 * mode, or both. A core. */
#ifndef PFL_RELAY_ACCEPT_RELAY_ROLE_H
#define PFL_RELAY_ACCEPT_RELAY_ROLE_H

#include "proto/tunnel/identity.h"

struct pfl_relay_role_conf {
    const char *own_uri;  /* of our certificate; "" without one */
    const char *fleet;    /* the operator's choice; NULL: the certificate's */
    bool is_socket_given; /* a consumer socket was configured: a fleet relay serves it, too */
};

struct pfl_relay_role {
    char fleet[PFL_IDENTITY_NAME_BYTES]; /* whose operators are admitted */
    char name[PFL_IDENTITY_NAME_BYTES];  /* ours; "" if the certificate has none */
    bool has_hub;
    bool has_direct;
};

/* PFL_EINVAL: neither the certificate nor the operator names a fleet. */
PFL_MUST_USE int pfl_relay_role_decide(const struct pfl_relay_role_conf *conf,
                                       struct pfl_relay_role *ret_role);

#endif
