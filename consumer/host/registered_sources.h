/* SPDX-License-Identifier: Apache-2.0 */
/* Which of a config's data sources a host offers, by its service's state. Pure. */
#ifndef PFL_CONSUMER_REGISTERED_SOURCES_H
#define PFL_CONSUMER_REGISTERED_SOURCES_H

#include "base/bytes.h"

/* data sources of a config that are checked; further ones are not */
#define PFL_REGISTERED_SOURCES_MAX 64u
/* of a state that are looked at: as many as a service has */
#define PFL_REGISTERED_SOURCES_OFFERED_MAX    65536u
#define PFL_REGISTERED_SOURCES_NAME_BYTES     128u
#define PFL_REGISTERED_SOURCES_PRODUCERS_MAX  32u
#define PFL_REGISTERED_SOURCES_PRODUCER_BYTES 121u /* with NUL; as much as base/log quotes */
/* An edit distance up to this is a typing error, not another data source. */
#define PFL_REGISTERED_SOURCES_SLIP 2u

struct pfl_registered_sources {
    bool is_known; /* the host answered */
    uint32_t wanted;
    uint64_t registered; /* bit n: the config's n-th data source */
    /* The offered name that is closest to a missing one; "" none. */
    char near[PFL_REGISTERED_SOURCES_NAME_BYTES];
    struct pfl_registered_sources_producer {
        uint32_t pid; /* 0: no more */
        char name[PFL_REGISTERED_SOURCES_PRODUCER_BYTES];
        bool is_cut;                                   /* the name is longer */
    } producers[PFL_REGISTERED_SOURCES_PRODUCERS_MAX]; /* producers when the session was made */
    uint32_t near_of;                                  /* index of the missing one in the config */
    unsigned near_distance;
};

/* `state`: a serialized TracingServiceState. Malformed bytes offer nothing. */
void pfl_registered_sources_match(struct pfl_span trace_config, struct pfl_span state,
                                  struct pfl_registered_sources *ret_sources);
/* How many data sources the config has, PFL_REGISTERED_SOURCES_MAX at most. */
uint32_t pfl_registered_sources_count(struct pfl_span trace_config);
/* The name of the n-th, borrowed from the config; empty: there is none. */
struct pfl_span pfl_registered_sources_get_name(struct pfl_span trace_config, uint32_t n);

#endif
