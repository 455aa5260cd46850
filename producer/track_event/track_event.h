/* SPDX-License-Identifier: Apache-2.0 */
/* The data source "track_event": which connection has it, what its sessions want. */
#ifndef PFL_PRODUCER_TRACK_EVENT_H
#define PFL_PRODUCER_TRACK_EVENT_H

#include "producer/track_event/event_sequence.h"

/* Fills in writer, settings and the words to watch. PFL_EINVAL (no session), PFL_ENOMEM,
 * PFL_ELIMIT, PFL_ECLOSED. */
PFL_MUST_USE int pfl_track_event_open_sequence(uint32_t instance,
                                               struct pfl_event_sequence *sequence);
/* Any thread, at any time: the list of categories is another; the data source tells the service. */
void pfl_track_event_on_categories(void);

#endif
