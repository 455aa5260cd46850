/* SPDX-License-Identifier: Apache-2.0 */
/* The categories that a session enables, by its TrackEventConfig. Pure: bytes in, an answer out. */
#ifndef PFL_PRODUCER_EVENT_FILTER_H
#define PFL_PRODUCER_EVENT_FILTER_H

#include <stdbool.h>

#include "base/bytes.h"

struct perfleet_category;

/* Does a session with this TrackEventConfig enable the category? A malformed rest is ignored. */
bool pfl_event_filter_wants(struct pfl_span config, const struct perfleet_category *category);

#endif
