/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may come in: see peer_admission.h. The kind of the connection (ALPN), whether the relay
 * serves it, revocation and the name in the certificate are asked in this order; the first that
 * refuses is the reason. Owns nothing; cannot fail.
 */
#include "relay/accept/peer_admission.h"

#include <string.h>

#include "proto/tunnel/tunnel.h"

static const struct pfl_identity_refusal no_hub = {
    "this relay is no meeting point", "give it a relay certificate: perfleet pki relay DIR NAME"};
static const struct pfl_identity_refusal no_direct = {
    "this meeting point has no consumer socket of its own",
    "use the tunnel (ALPN h2), or start it with --consumer-socket"};
static const struct pfl_identity_refusal revoked = {
    "its certificate was revoked during the handshake",
    "none: its owner needs another certificate"};

static bool is_direct(const char *alpn)
{
    return alpn == NULL || strcmp(alpn, PFL_TUNNEL_ALPN_RAW) == 0;
}

void pfl_peer_admission_decide(const struct pfl_peer_admission_conf *conf,
                               struct pfl_peer_admission *ret_admission)
{
    enum pfl_peer_taker taker = is_direct(conf->alpn) ? PFL_PEER_TAKER_DIRECT : PFL_PEER_TAKER_HUB;
    bool is_agent = taker == PFL_PEER_TAKER_HUB && strcmp(conf->alpn, PFL_TUNNEL_ALPN_AGENT) == 0;
    enum pfl_identity_role role = is_agent ? PFL_IDENTITY_HOST : PFL_IDENTITY_OPERATOR;

    *ret_admission = (struct pfl_peer_admission){0};
    if (taker == PFL_PEER_TAKER_HUB && !conf->has_hub)
        ret_admission->refusal = no_hub;
    else if (taker == PFL_PEER_TAKER_DIRECT && !conf->has_direct)
        ret_admission->refusal = no_direct;
    else if (conf->is_revoked)
        ret_admission->refusal = revoked;
    else if (pfl_identity_authorize(conf->uri_untrusted, conf->fleet, role,
                                    &ret_admission->refusal) == 0 &&
             pfl_identity_parse(conf->uri_untrusted, &ret_admission->identity) == 0)
        ret_admission->taker = taker;
    ret_admission->is_collector = ret_admission->taker == PFL_PEER_TAKER_HUB &&
                                  strcmp(conf->alpn, PFL_TUNNEL_ALPN_COLLECTOR) == 0;
}
