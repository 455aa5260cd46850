/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel events that have a message of their own in FtraceEvent. */
#ifndef PFL_PROBES_EVENT_TABLE_H
#define PFL_PROBES_EVENT_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct pfl_event_entry {
    const char *group;
    const char *name;
    uint32_t field;     /* in FtraceEvent */
    const char *fields; /* "name=number" and, for strings, "name=numbers", space between */
};

/* NULL when the event has no message of its own. Static storage. */
const struct pfl_event_entry *pfl_event_table_find(const char *group, const char *name);
/* The index-th entry, NULL behind the last one. */
const struct pfl_event_entry *pfl_event_table_get(size_t index);

#endif
