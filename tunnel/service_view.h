/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer of a tracing service to QueryServiceState, as metrics: all of docs/metrics.md, "Of a
 * host's service", for perfleetd; sessions, producers and data sources for any other service. A
 * core: replies in, rows out.
 */
#ifndef PFL_TUNNEL_SERVICE_VIEW_H
#define PFL_TUNNEL_SERVICE_VIEW_H

#include "base/bytes.h"
#include "base/metrics.h"
#include "proto/ipc/figures.h"

#define PFL_SERVICE_VIEW_VERSION_BYTES 128u /* a longer version is cut */

struct pfl_service_view {
    bool is_known;    /* the service answered the last query */
    bool has_figures; /* it is a perfleetd */
    char version[PFL_SERVICE_VIEW_VERSION_BYTES];
    uint64_t sessions;
    uint64_t sessions_started;
    uint64_t producers;    /* counted, if the service has no figures */
    uint64_t data_sources; /* the same */
    uint64_t figures[PFL_FIGURES];
};

/* One QueryServiceStateResponse, of one or many; `self` is zeroed before the first. PFL_EPARSE. */
PFL_MUST_USE int pfl_service_view_feed(struct pfl_service_view *self,
                                       struct pfl_span response_untrusted);
/* Writes families; none for an unknown service. */
void pfl_service_view_collect(const struct pfl_service_view *self, struct pfl_metrics *metrics);
/* Begins the family perfleet_losses_total, with the service's rows. The caller adds rows for its
 * own losses. */
void pfl_service_view_collect_losses(const struct pfl_service_view *self,
                                     struct pfl_metrics *metrics);
void pfl_service_view_row_loss(struct pfl_metrics *metrics, const char *hop, const char *cause,
                               uint64_t count);

#endif
