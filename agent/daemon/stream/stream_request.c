/* SPDX-License-Identifier: Apache-2.0 */
/* Parses a CONNECT: see stream_request.h. No allocation. */
#include "agent/daemon/stream/stream_request.h"

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

bool pfl_stream_request_read(const struct pfl_h2_head *head, struct pfl_stream_request *ret_request)
{
    const char *accept = pfl_h2_head_get(head, PFL_TUNNEL_H_ACCEPT);
    struct pfl_stream_request request = {.ttl_ms = PFL_TUNNEL_TTL_DEFAULT_MS};

    request.id = pfl_h2_head_get(head, PFL_TUNNEL_H_STREAM);
    request.operator_name = pfl_h2_head_get(head, PFL_TUNNEL_H_OPERATOR);
    request.is_resume = pfl_h2_head_get(head, PFL_TUNNEL_H_RECEIVED) != NULL;
    if (request.id != NULL && !pfl_route_is_stream_id(request.id))
        return false;
    if (request.is_resume && (request.id == NULL || !pfl_tunnel_offer_read(head, &request.offer)))
        return false;
    if (pfl_h2_head_get(head, PFL_TUNNEL_H_TTL) != NULL &&
        !pfl_h2_head_get_number(head, PFL_TUNNEL_H_TTL, &request.ttl_ms))
        return false;
    if (pfl_h2_head_get(head, PFL_TUNNEL_H_WINDOW) != NULL &&
        !pfl_h2_head_get_number(head, PFL_TUNNEL_H_WINDOW, &request.offer.window_bytes))
        return false;
    request.wants_zstd = lists(accept, PFL_TUNNEL_ENCODING_ZSTD);
    request.has_accounts = request.id != NULL && request.offer.window_bytes != 0;
    if (request.id == NULL)
        request.id = "";
    *ret_request = request;
    return true;
}
