/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries the state of a host's service (QueryServiceState), and concatenates its replies. The only
 * implementation, for every command and page.
 */
#ifndef PFL_CONSUMER_HOST_STATE_H
#define PFL_CONSUMER_HOST_STATE_H

#include "consumer/host/fan_out.h"

enum pfl_host_state_scope {
    PFL_HOST_STATE_ALL,
    PFL_HOST_STATE_SESSIONS, /* without producers and data sources */
    PFL_HOST_STATE_FIGURES,  /* all, and the service's counters, which only perfleetd has */
};

/* The result for an ended host; borrowed from the fan-out. */
struct pfl_host_state {
    const char *name;
    const char *address;
    const char *why;       /* "" or why it could not be asked */
    struct pfl_span state; /* serialized TracingServiceState */
};

/* The request's arguments. */
struct pfl_span pfl_host_state_encode(enum pfl_host_state_scope scope);
/* Queries one host. `on_state`: all of it is in host->answer. A failure ends the host. */
void pfl_host_state_query(struct pfl_fan_out_host *host, enum pfl_host_state_scope scope,
                          void (*on_state)(struct pfl_fan_out_host *host));
/* An on_ready of struct pfl_fan_out_conf: queries all of it, and ends the host. */
void pfl_host_state_on_ready(void *user, struct pfl_fan_out_host *host);
/* Likewise, with the service's counters. */
void pfl_host_state_on_ready_for_figures(void *user, struct pfl_fan_out_host *host);
/* Of one that has ended. */
struct pfl_host_state pfl_host_state_get(const struct pfl_fan_out *fan_out, size_t host);

#endif
