/* SPDX-License-Identifier: Apache-2.0 */
/* Detects other users of the kernel's top-level ring buffer from its files and other processes. A
 * shell. */
#ifndef PFL_PROBES_TOP_BUFFER_H
#define PFL_PROBES_TOP_BUFFER_H

#include "agent/probes/ftrace/ftrace_instance.h"

/* May it be borrowed? PFL_TOP_FREE: yes. `ret_reader` (NULL: not needed): the process of
 * PFL_TOP_READER. */
enum pfl_top_use pfl_top_buffer_find_use(int root_fd, long *ret_reader);
/* Remembers how the borrowed buffer is set up now; its CPUs' buffers are open. */
void pfl_top_buffer_watch(struct pfl_ftrace_instance *self);
/* We changed its size ourselves. */
void pfl_top_buffer_note_size(struct pfl_ftrace_instance *self);
/* Has another program begun to use it since? Queries the kernel at most every PFL_TOP_WATCH_MS;
 * with many CPUs a few each time. Call it before reading. */
enum pfl_top_use pfl_top_buffer_find_change(struct pfl_ftrace_instance *self);
/* Another program has: stops reading; what that changed stays. */
void pfl_top_buffer_lose(struct pfl_ftrace_instance *self, struct pfl_ftrace_host *host);
/* At the end, before the undo log runs: settings stay if another program uses the buffer now. */
void pfl_top_buffer_give_back(struct pfl_ftrace_instance *self, struct pfl_ftrace_host *host);
/* Counts records that we read, to detect other readers. */
void pfl_top_buffer_count(struct pfl_ftrace_instance *self, size_t cpu, struct pfl_span pages,
                          struct pfl_trace_page_layout layout);

#define PFL_TOP_WATCH_MS 200u

#endif
