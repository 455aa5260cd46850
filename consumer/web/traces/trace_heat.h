/* SPDX-License-Identifier: Apache-2.0 */
/* How many traces there are by host and time, as a map with the same in words. Pure. */
#ifndef PFL_CONSUMER_WEB_TRACES_TRACE_HEAT_H
#define PFL_CONSUMER_WEB_TRACES_TRACE_HEAT_H

#include "consumer/web/traces/trace_selection.h"

#define PFL_TRACE_HEAT_CELLS  96u
#define PFL_TRACE_HEAT_ROWS   96u /* further ones are counted */
#define PFL_TRACE_HEAT_RANGES 3u  /* of each kind in a row's words; the rest is counted */

/* A row for each of the reply's sums, whose strings are hosts'. */
void pfl_trace_heat_write(const struct pfl_trace_selection *filter,
                          const Perfleet__CollectorReply *reply, struct pfl_html *h);

#endif
