/* SPDX-License-Identifier: Apache-2.0 */
/* Offers of streams as header fields: see tunnel_offer.h. Failures are returned. */
#include "proto/tunnel/tunnel_offer.h"

#include <inttypes.h>
#include <stdio.h>

bool pfl_tunnel_offer_read(const struct pfl_h2_head *head, struct pfl_resume_offer *ret_offer)
{
    struct pfl_resume_offer offer;

    if (!pfl_h2_head_get_number(head, PFL_TUNNEL_H_RECEIVED, &offer.received) ||
        !pfl_h2_head_get_number(head, PFL_TUNNEL_H_CREDITED, &offer.credited) ||
        !pfl_h2_head_get_number(head, PFL_TUNNEL_H_WINDOW, &offer.window_bytes))
        return false;
    *ret_offer = offer;
    return true;
}

void pfl_tunnel_offer_write(const struct pfl_resume_offer *offer, uint64_t ttl_ms,
                            struct pfl_tunnel_offer_text *text, struct pfl_h2_field *ret_fields)
{
    (void)snprintf(text->window, sizeof(text->window), "%" PRIu64, offer->window_bytes);
    (void)snprintf(text->ttl, sizeof(text->ttl), "%" PRIu64, ttl_ms);
    (void)snprintf(text->received, sizeof(text->received), "%" PRIu64, offer->received);
    (void)snprintf(text->credited, sizeof(text->credited), "%" PRIu64, offer->credited);
    ret_fields[0] = (struct pfl_h2_field){PFL_TUNNEL_H_WINDOW, text->window};
    ret_fields[1] = (struct pfl_h2_field){PFL_TUNNEL_H_TTL, text->ttl};
    ret_fields[2] = (struct pfl_h2_field){PFL_TUNNEL_H_RECEIVED, text->received};
    ret_fields[3] = (struct pfl_h2_field){PFL_TUNNEL_H_CREDITED, text->credited};
}
