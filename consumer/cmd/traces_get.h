/* SPDX-License-Identifier: Apache-2.0 */
/* `perfleet traces get -o FILE`: segments of a collector, merged into one file. */
#ifndef PFL_CONSUMER_TRACES_GET_H
#define PFL_CONSUMER_TRACES_GET_H

#include "consumer/cmd/collector_session.h"
#include "consumer/cmd/trace_query.h"

/* The exit code: errors are reported on stderr. */
int pfl_traces_get(struct pfl_collector_session *session, struct pfl_trace_query *query);

#endif
