/* SPDX-License-Identifier: Apache-2.0 */
/* The data source "track_event": which connection has it, what its sessions want. */
#ifndef PFL_PRODUCER_TRACK_EVENT_H
#define PFL_PRODUCER_TRACK_EVENT_H

#include "producer/event_sequence.h"

/* The number of the instance's life; 0: none. Any thread, no lock. */
uint64_t pfl_track_event_generation(uint32_t instance);
/* A writer for the instance and what the session wants. PFL_EINVAL (no session), PFL_ENOMEM,
 * PFL_ELIMIT, PFL_ECLOSED. */
PFL_MUST_USE int pfl_track_event_open_writer(uint32_t instance,
                                             struct pfl_trace_writer **ret_writer,
                                             struct pfl_event_settings *ret_settings);
/* The data source is about to be freed, if it is this one. */
void pfl_track_event_forget(const struct perfleet_source *source);

#endif
