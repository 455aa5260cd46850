/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes a stream's offer (proto/tunnel/resume.h) as header fields, and parses it. Pure. */
#ifndef PFL_PROTO_TUNNEL_TUNNEL_OFFER_H
#define PFL_PROTO_TUNNEL_TUNNEL_OFFER_H

#include "proto/h2/h2.h"
#include "proto/tunnel/resume.h"
#include "proto/tunnel/tunnel.h"

#define PFL_TUNNEL_OFFER_FIELDS 4u

struct pfl_tunnel_offer_text {
    char received[24];
    char credited[24];
    char window[24];
    char ttl[24];
};

/* False if one of the three is missing or not a number. */
bool pfl_tunnel_offer_read(const struct pfl_h2_head *head, struct pfl_resume_offer *ret_offer);
/* Writes PFL_TUNNEL_OFFER_FIELDS fields (window and ttl first); their values point into `text`. */
void pfl_tunnel_offer_write(const struct pfl_resume_offer *offer, uint64_t ttl_ms,
                            struct pfl_tunnel_offer_text *text, struct pfl_h2_field *ret_fields);

#endif
