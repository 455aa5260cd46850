/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a CONNECT: see stream_ask.h. No allocation; cannot fail, but says no. */
#include "agent/stream_ask.h"

#include "proto/route.h"
#include "proto/tunnel_offer.h"

bool pfl_stream_ask_read(const struct pfl_h2_head *head, struct pfl_stream_ask *ret_ask)
{
    const char *accept = pfl_h2_head_get(head, PFL_TUNNEL_H_ACCEPT);
    struct pfl_stream_ask ask = {.ttl_ms = PFL_TUNNEL_TTL_DEFAULT_MS};

    ask.id = pfl_h2_head_get(head, PFL_TUNNEL_H_STREAM);
    ask.operator_name = pfl_h2_head_get(head, PFL_TUNNEL_H_OPERATOR);
    ask.is_resume = pfl_h2_head_get(head, PFL_TUNNEL_H_RECEIVED) != NULL;
    if (ask.id != NULL && !pfl_route_is_stream_id(ask.id))
        return false;
    if (ask.is_resume && (ask.id == NULL || !pfl_tunnel_offer_read(head, &ask.offer)))
        return false;
    if (pfl_h2_head_get(head, PFL_TUNNEL_H_TTL) != NULL &&
        !pfl_h2_head_get_number(head, PFL_TUNNEL_H_TTL, &ask.ttl_ms))
        return false;
    if (pfl_h2_head_get(head, PFL_TUNNEL_H_WINDOW) != NULL &&
        !pfl_h2_head_get_number(head, PFL_TUNNEL_H_WINDOW, &ask.offer.window_bytes))
        return false;
    ask.wants_zstd = accept != NULL && strcmp(accept, PFL_TUNNEL_ENCODING_ZSTD) == 0;
    ask.has_accounts = ask.id != NULL && ask.offer.window_bytes != 0;
    if (ask.id == NULL)
        ask.id = "";
    *ret_ask = ask;
    return true;
}
