/* SPDX-License-Identifier: Apache-2.0 */
/* The packets that linux.ftrace writes. Private to ftrace.c. */
#ifndef PFL_PROBES_FTRACE_PACKETS_H
#define PFL_PROBES_FTRACE_PACKETS_H

#include "agent/probes/ftrace/ftrace.h"

/* A pfl_page_reader_on_bundle; `user` is the feed. */
void pfl_ftrace_packets_bundle(void *user, const struct pfl_span *parts, size_t count,
                               uint64_t bytes);
/* FtraceStats of now; the message is cleared first. */
void pfl_ftrace_packets_add_stats(struct pfl_ftrace *self, const struct pfl_ftrace_session *s,
                                  uint32_t phase, struct pfl_probe_message *message);
/* Tells readers that what was recorded before the session's start is meant to be there. */
void pfl_ftrace_packets_write_preserved(struct pfl_ftrace_session *s);
/* The start's statistics come with what could not be set up, the end's with parse errors. */
void pfl_ftrace_packets_write_stats(struct pfl_ftrace_session *s,
                                    const struct pfl_probe_message *stats, bool is_end);

#endif
