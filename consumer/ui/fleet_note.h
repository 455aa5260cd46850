/* SPDX-License-Identifier: Apache-2.0 */
/* A note inside a trace for its viewer: an event that names missing hosts. Pure. */
#ifndef PFL_CONSUMER_UI_FLEET_NOTE_H
#define PFL_CONSUMER_UI_FLEET_NOTE_H

#include "base/buf.h"

/*
 * Appends packets for the end of a merged trace: `text` as an event on a track of its own, at
 * `boot_ns` of the reference host's clock. PFL_ENOMEM, PFL_ELIMIT (a text of more than 3072 bytes).
 */
PFL_MUST_USE int pfl_fleet_note_append(uint64_t boot_ns, const char *text, struct pfl_buf *out);

#endif
