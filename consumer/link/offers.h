/* SPDX-License-Identifier: Apache-2.0 */
/* Which of a config's data sources a host offers, by its service's state. Pure. */
#ifndef PFL_CONSUMER_OFFERS_H
#define PFL_CONSUMER_OFFERS_H

#include "base/bytes.h"

#define PFL_OFFERS_MAX            64u /* data sources of a config that are looked for; more are not */
#define PFL_OFFERS_NAME_BYTES     128u
#define PFL_OFFERS_PRODUCERS_MAX  32u
#define PFL_OFFERS_PRODUCER_BYTES 121u /* with NUL; as much as base/log quotes */
/* So few letters are a slip of the pen, and no other data source. */
#define PFL_OFFERS_SLIP 2u

struct pfl_offers {
    bool is_known; /* the host was asked and answered */
    uint32_t wanted;
    uint64_t offered; /* bit n: the config's n-th data source */
    /* The offered name that is closest to one that is not offered; "" none. */
    char near[PFL_OFFERS_NAME_BYTES];
    struct pfl_offers_producer {
        uint32_t pid; /* 0: no more */
        char name[PFL_OFFERS_PRODUCER_BYTES];
        bool is_cut;                       /* the name is longer */
    } producers[PFL_OFFERS_PRODUCERS_MAX]; /* who was there when the session was made */
    uint32_t near_of;                      /* its place in the config */
    unsigned near_distance;
};

/* `state`: a serialized TracingServiceState. Malformed bytes offer nothing. */
void pfl_offers_judge(struct pfl_span trace_config, struct pfl_span state,
                      struct pfl_offers *ret_offers);
/* How many data sources the config has, PFL_OFFERS_MAX at most. */
uint32_t pfl_offers_count(struct pfl_span trace_config);
/* The name of the n-th, borrowed from the config; empty: there is none. */
struct pfl_span pfl_offers_get_name(struct pfl_span trace_config, uint32_t n);

#endif
