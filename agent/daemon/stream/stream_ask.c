/* SPDX-License-Identifier: Apache-2.0 */
/* Parses a CONNECT: see stream_ask.h. No allocation. */
#include "agent/daemon/stream/stream_ask.h"

#include <string.h>

#include "proto/tunnel/route.h"
#include "proto/tunnel/tunnel_offer.h"

/* A list with commas; unknown names are ignored. */
static bool lists(const char *list, const char *name)
{
    size_t len = strlen(name);

    for (const char *at = list; at != NULL && *at != '\0';) {
        size_t size;

        at += strspn(at, " ,");
        size = strcspn(at, " ,");
        if (size == len && strncmp(at, name, len) == 0)
            return true;
        at += size;
    }
    return false;
}

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
    ask.wants_zstd = lists(accept, PFL_TUNNEL_ENCODING_ZSTD);
    ask.has_accounts = ask.id != NULL && ask.offer.window_bytes != 0;
    if (ask.id == NULL)
        ask.id = "";
    *ret_ask = ask;
    return true;
}
