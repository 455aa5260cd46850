/* SPDX-License-Identifier: Apache-2.0 */
/* Which packets of a segment lie outside a window, and can be left out. Pure. */
#ifndef PFL_CONSUMER_SEGMENT_WINDOW_H
#define PFL_CONSUMER_SEGMENT_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

/* A stretch of a host's boot clock. */
struct pfl_segment_window {
    uint64_t begin_ns;
    uint64_t end_ns; /* 0: no window */
};

struct pfl_segment_time {
    uint64_t timestamp_ns; /* on the boot clock; 0: it has none that is known without context */
    bool is_compressed;
};

/* One walk over a packet's own fields. */
void pfl_segment_time_of(struct pfl_span packet, struct pfl_segment_time *ret_time);
/*
 * Whether the packet can be left out: it is a record of one moment (kernel events, statistics,
 * track events), lies outside of the window as a whole, and nothing in the window needs it: it has
 * no interned data, no defaults and no clear of the sequence's state. In doubt: false.
 */
bool pfl_segment_is_outside(struct pfl_span packet, const struct pfl_segment_window *window);

#endif
