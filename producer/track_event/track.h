/* SPDX-License-Identifier: Apache-2.0 */
/* Tracks: their ids, and their descriptors as packets. */
#ifndef PFL_PRODUCER_TRACK_H
#define PFL_PRODUCER_TRACK_H

#include "producer/perfleet_track_event.h"

#define PFL_TRACK_LEVELS_MAX 16u

/* Of this process; never 0, different in every process. */
uint64_t pfl_track_process_uuid(void);
uint64_t pfl_track_thread_uuid(void);

/* Writes TracePacket.track_descriptor into an open packet. */
void pfl_track_write_descriptor(struct perfleet_writer *w, struct perfleet_track *track);

#endif
