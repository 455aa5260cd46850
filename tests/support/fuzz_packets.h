/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes of packets as a service sends or writes them. Compressed packets are noted as what they
 * hold, because libraries compress differently.
 */
#ifndef PFL_TESTS_FUZZ_PACKETS_H
#define PFL_TESTS_FUZZ_PACKETS_H

#include "base/bytes.h"

/* Between these two. */
void note_packets_open(void);
void note_packets_close(void);
/* Since open none was compressed: lengths are the same everywhere. */
bool note_packets_are_plain(void);
/* One packet. */
void note_packet(const char *what, struct pfl_span packet);
/* A trace: field 1 repeated. What is no trace is noted as bytes. */
void note_trace(const char *what, struct pfl_span trace);
/* A frame with a ReadBuffersResponse. */
void note_reply(struct pfl_span frame);

#endif
