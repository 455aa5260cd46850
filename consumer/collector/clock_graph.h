/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clocks of hosts whose segments are merged, from the exchanges that the segments carry. A
 * clock is one boot of a host or of a relay; an exchange ties a host's to a relay's, with a hard
 * bound. Two hosts that share no relay are aligned through hosts and relays between them, as the
 * majority of these hosts says. A host that lies about its clock misplaces itself alone. Pure.
 */
#ifndef PFL_CONSUMER_CLOCK_GRAPH_H
#define PFL_CONSUMER_CLOCK_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "perfleet/segment.pb-c.h"

#define PFL_CLOCK_GRAPH_MAX_BOOTS   8192u      /* of hosts */
#define PFL_CLOCK_GRAPH_HOST_BOOTS  1024u      /* of one host: as many as a merge has runs */
#define PFL_CLOCK_GRAPH_MAX_RELAYS  1024u      /* boots of relays; of one host: its share */
#define PFL_CLOCK_GRAPH_MAX_POINTS  (1u << 18) /* of one host: its share (base/shares.h) */
#define PFL_CLOCK_GRAPH_HOST_RELAYS 64u        /* that one boot of a host names */
/* Before a host's first exchange and after its last one, its bound grows by this share of the
 * distance. */
#define PFL_CLOCK_GRAPH_DRIFT_PPM 100

struct pfl_clock_graph;

PFL_MUST_USE int pfl_clock_graph_new(struct pfl_clock_graph **ret_graph);
void pfl_clock_graph_free(struct pfl_clock_graph *self); /* NULL is legal */

/* The number of this boot of a host; the same again for the same texts. PFL_ELIMIT: there are as
 * many of all hosts, or of this one, as may be; PFL_ENOMEM. */
PFL_MUST_USE int pfl_clock_graph_add_host(struct pfl_clock_graph *self, const char *host,
                                          const char *boot_id, size_t *ret_clock);
/* One exchange of that host. One that makes no sense, or is one too many, is left out: 0.
 * PFL_ENOMEM. */
PFL_MUST_USE int pfl_clock_graph_add_point(struct pfl_clock_graph *self, size_t clock,
                                           const Perfleet__ClockPoint *point);
/* After the last point: chooses the reference, of the hosts that are tied to the relay with most of
 * them, and of those that are known about as long as any, the first that was added. PFL_ESTATE: no
 * clock has a point. PFL_ENOMEM. */
PFL_MUST_USE int pfl_clock_graph_solve(struct pfl_clock_graph *self, size_t *ret_reference);
/* An instant of a host's clock on the reference's, and the bound of its error. False: nothing ties
 * them. */
bool pfl_clock_graph_convert(const struct pfl_clock_graph *self, size_t clock, int64_t ns,
                             int64_t *ret_ns, int64_t *ret_error_ns);

#endif
