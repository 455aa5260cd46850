/* SPDX-License-Identifier: Apache-2.0 */
/* A session's reader of one instance. Private to ftrace.c. A shell. */
#ifndef PFL_PROBES_FTRACE_FEED_H
#define PFL_PROBES_FTRACE_FEED_H

#include "agent/probes/ftrace/ftrace.h"

/* feed->in runs, feed->wanted is chosen. PFL_ENOMEM. */
PFL_MUST_USE int pfl_ftrace_feed_start(struct pfl_ftrace *self, struct pfl_ftrace_feed *feed);
void pfl_ftrace_feed_close(struct pfl_ftrace_feed *feed); /* legal on zeroed memory */
/* Pages of the CPU's buffer at `index`. */
void pfl_ftrace_feed_pages(struct pfl_ftrace *self, struct pfl_ftrace_feed *feed, size_t index,
                           struct pfl_span pages);

#endif
