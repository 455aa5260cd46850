/* SPDX-License-Identifier: Apache-2.0 */
/* `perfleet open --live`: a host's flight recorder in a tab of the Perfetto UI. */
#ifndef PFL_CONSUMER_LIVE_TRACE_H
#define PFL_CONSUMER_LIVE_TRACE_H

#include "consumer/cmd/args.h"

/* Do the options of --live fit together, or are there some without it? False: reported. */
bool pfl_live_trace_is_usable(const struct pfl_args *args);
/* Until the tab is closed, time is over, or a signal comes: the exit code. */
int pfl_live_trace(struct pfl_args *args);

#endif
