/* SPDX-License-Identifier: Apache-2.0 */
/* Which connection has the data source "track_event", and what each of its sessions wants. */
#ifndef PFL_PRODUCER_EVENT_SOURCE_H
#define PFL_PRODUCER_EVENT_SOURCE_H

#include "producer/track_event/event_sequence.h"

/* PERFLEET_EEXIST: another connection has it. As perfleet_register. */
PFL_MUST_USE int pfl_event_source_register(struct perfleet *tracing,
                                           const struct perfleet_source_conf *conf);
/* Any thread: `freed` is about to be freed. */
void pfl_event_source_forget(const struct perfleet_source *freed);
/* The connection's thread: before the instance's first sequence. */
void pfl_event_source_set_settings(uint32_t instance, const struct pfl_event_settings *settings);
/* Fills in writer, settings and the words to watch. PFL_EINVAL (no session), PFL_ENOMEM,
 * PFL_ELIMIT, PFL_ECLOSED. */
PFL_MUST_USE int pfl_event_source_open_sequence(uint32_t instance,
                                                struct pfl_event_sequence *sequence);

/* Any thread, at any time: the list of categories is another; the connection's thread wakes. */
void pfl_event_source_on_categories(void);
/* Since the data source was described. */
bool pfl_event_source_has_new_categories(void);
/* Gives the service the new description, if `tracing` has the data source. */
void pfl_event_source_update(struct perfleet *tracing, const void *descriptor, size_t bytes);

#endif
