/* SPDX-License-Identifier: Apache-2.0 */
/* Who may come in after the handshake, and who takes the connection: the hub or direct mode. A
 * core. */
#ifndef PFL_RELAY_ACCEPT_PEER_ADMISSION_H
#define PFL_RELAY_ACCEPT_PEER_ADMISSION_H

#include "proto/tunnel/identity.h"

enum pfl_peer_taker {
    PFL_PEER_TAKER_NONE, /* of a decision: refused; of a connection: none yet */
    PFL_PEER_TAKER_HUB,
    PFL_PEER_TAKER_DIRECT,
};

struct pfl_peer_admission_conf {
    const char *alpn;          /* NULL: none was agreed on */
    const char *uri_untrusted; /* of the certificate, which was verified */
    const char *fleet;         /* ours */
    bool is_revoked;           /* by a list that came during the handshake */
    bool has_hub;
    bool has_direct;
};

struct pfl_peer_admission {
    enum pfl_peer_taker taker;
    bool is_collector; /* an operator's certificate, and reversed roles */
    struct pfl_identity identity;
    struct pfl_identity_refusal refusal;
};

void pfl_peer_admission_decide(const struct pfl_peer_admission_conf *conf,
                               struct pfl_peer_admission *ret_admission);

#endif
