/* SPDX-License-Identifier: Apache-2.0 */
/* The packets that linux.ftrace writes. Private to ftrace.c. */
#ifndef PFL_PROBES_FTRACE_PACKETS_H
#define PFL_PROBES_FTRACE_PACKETS_H

#include "agent/probes/ftrace/ftrace.h"

/* A pfl_page_reader_on_bundle; `user` is the feed. */
void pfl_ftrace_packets_bundle(void *user, const struct pfl_span *parts, size_t count,
                               uint64_t bytes);
/* The current FtraceStats; clears the message first. */
void pfl_ftrace_packets_add_stats(struct pfl_ftrace *self, const struct pfl_ftrace_session *s,
                                  uint32_t phase, struct pfl_probe_message *message);
/* Marks data that was recorded before the session's start as intended. */
void pfl_ftrace_packets_write_preserved(struct pfl_ftrace_session *s);
/* The start's statistics include errors of the setup, the end's parse errors. */
void pfl_ftrace_packets_write_stats(struct pfl_ftrace_session *s,
                                    const struct pfl_probe_message *stats, bool is_end);

#endif
