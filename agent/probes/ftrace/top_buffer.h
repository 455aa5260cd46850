/* SPDX-License-Identifier: Apache-2.0 */
/* Who uses the kernel's top-level ring buffer: what its files and other processes say. A shell. */
#ifndef PFL_PROBES_TOP_BUFFER_H
#define PFL_PROBES_TOP_BUFFER_H

#include "agent/probes/ftrace/ftrace_instance.h"

/* May it be borrowed? PFL_TOP_FREE: yes. `ret_reader` (NULL: nobody asks): of PFL_TOP_READER. */
enum pfl_top_use pfl_top_buffer_find_use(int root_fd, long *ret_reader);
/* Remembers how the borrowed buffer is set up now; its CPUs' buffers are open. */
void pfl_top_buffer_watch(struct pfl_ftrace_instance *self);
/* The borrower itself has changed its size. */
void pfl_top_buffer_note_size(struct pfl_ftrace_instance *self);
/* Has somebody else begun to use it since? Asks the kernel at most every PFL_TOP_WATCH_MS; of many
 * CPUs some, by turns. To be called before it is read. */
enum pfl_top_use pfl_top_buffer_find_change(struct pfl_ftrace_instance *self);
/* Somebody else has: stops reading; what they have changed stays as they have it. */
void pfl_top_buffer_lose(struct pfl_ftrace_instance *self, struct pfl_ftrace_host *host);
/* At the end, before the undo log runs: what was changed stays if it is somebody's now. */
void pfl_top_buffer_give_back(struct pfl_ftrace_instance *self, struct pfl_ftrace_host *host);
/* Counts records that were read, to know those that somebody else reads. */
void pfl_top_buffer_count(struct pfl_ftrace_instance *self, size_t cpu, struct pfl_span pages,
                          struct pfl_trace_page_layout layout);

#define PFL_TOP_WATCH_MS 200u

#endif
