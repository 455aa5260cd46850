/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process's categories and the sessions that enable them. Any thread; a lock guards the list,
 * events read only perfleet_category.active.
 */
#ifndef PFL_PRODUCER_CATEGORY_H
#define PFL_PRODUCER_CATEGORY_H

#include "base/bytes.h"
#include "base/err.h"
#include "producer/perfleet_track_event.h"

#define PFL_CATEGORIES_MAX          1024u  /* with a number, and dynamic ones */
#define PFL_CATEGORY_CONFIG_MAX     65536u /* bytes of a TrackEventConfig */
#define PFL_CATEGORY_NAME_MAX       255u
#define PFL_CATEGORY_DESCRIPTOR_MAX 32768u

/* A session with this TrackEventConfig: from start to stop its bit is set in the categories that it
 * enables. Without memory, or with too long a config, it gets no events. */
void pfl_category_add_session(uint32_t instance, struct pfl_span config);
void pfl_category_start_session(uint32_t instance);
void pfl_category_end_session(uint32_t instance);
/* In the child of a fork, without the lock. */
void pfl_category_disable_all(void);

/* DataSourceDescriptor.track_event_descriptor with every category that fits; pfl_heap_free it. */
PFL_MUST_USE int pfl_category_describe(void **ret_bytes, size_t *ret_len);

#endif
