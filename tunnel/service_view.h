/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a tracing service says of itself (QueryServiceState), as figures. perfleetd says all of
 * docs/metrics.md, "Of a host's service"; any other service sessions, producers and data sources. A
 * core: replies in, rows out.
 */
#ifndef PFL_TUNNEL_SERVICE_VIEW_H
#define PFL_TUNNEL_SERVICE_VIEW_H

#include "base/bytes.h"
#include "base/metrics.h"
#include "proto/ipc/figures.h"

#define PFL_SERVICE_VIEW_VERSION_BYTES 128u /* a longer version is cut */

struct pfl_service_view {
    bool is_known;    /* the service answered when it was asked last */
    bool has_figures; /* it is a perfleetd */
    char version[PFL_SERVICE_VIEW_VERSION_BYTES];
    uint64_t sessions;
    uint64_t sessions_started;
    uint64_t producers;    /* of one that has no figures: counted */
    uint64_t data_sources; /* the same */
    uint64_t figures[PFL_FIGURES];
};

/* One QueryServiceStateResponse, of one or many; `self` is zeroed before the first. PFL_EPARSE. */
PFL_MUST_USE int pfl_service_view_feed(struct pfl_service_view *self,
                                       struct pfl_span response_untrusted);
/* Families; of a service that is not known none. */
void pfl_service_view_collect(const struct pfl_service_view *self, struct pfl_metrics *metrics);
/* Begins the family perfleet_losses_total; what of it the service says. Whoever loses something
 * itself adds rows. */
void pfl_service_view_collect_losses(const struct pfl_service_view *self,
                                     struct pfl_metrics *metrics);
void pfl_service_view_row_loss(struct pfl_metrics *metrics, const char *hop, const char *cause,
                               uint64_t count);

#endif
