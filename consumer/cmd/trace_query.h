/* SPDX-License-Identifier: Apache-2.0 */
/* Which traces of a collector a command line means. */
#ifndef PFL_CONSUMER_TRACE_QUERY_H
#define PFL_CONSUMER_TRACE_QUERY_H

#include "consumer/cmd/args.h"
#include "perfleet/collector.pb-c.h"

#define PFL_TRACE_QUERY_TERMS 64u

struct pfl_trace_query {
    Perfleet__TraceQuery query; /* its texts are borrowed from the arguments and from here */
    char *hosts[PFL_TRACE_QUERY_TERMS];
    char *labels[PFL_TRACE_QUERY_TERMS];
    char *ids[PFL_ARGS_MAX_WORDS];
    char *one[3]; /* order, trigger, data source */
    char terms[1024];
    bool is_any; /* something was given that selects */
};

/* From the options, and the words from `first` on, which are ids. False: error reported on
 * stderr. */
bool pfl_trace_query_make(const struct pfl_args *args, size_t first,
                          struct pfl_trace_query *ret_query);

#endif
