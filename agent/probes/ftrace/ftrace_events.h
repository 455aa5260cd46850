/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the kernel's events a session of linux.ftrace takes. Private to ftrace.c. A shell. */
#ifndef PFL_PROBES_FTRACE_EVENTS_H
#define PFL_PROBES_FTRACE_EVENTS_H

#include "agent/probes/ftrace/ftrace.h"

/* Before there is an instance: plans for what the config names. What is unknown, or refused, is
 * told. PFL_ENOMEM, PFL_EIO, PFL_EPARSE. */
PFL_MUST_USE int pfl_ftrace_events_choose(struct pfl_ftrace *self, struct pfl_ftrace_session *s);
/* The instance is there, nothing is on yet: makes kprobes, and the table of what is wanted. */
PFL_MUST_USE int pfl_ftrace_events_prepare(struct pfl_ftrace *self, struct pfl_ftrace_session *s);
/* Events that never reach the session's instance become wanted in s->markers, which else has no
 * list. PFL_ENOMEM. */
PFL_MUST_USE int pfl_ftrace_events_split(struct pfl_ftrace *self, struct pfl_ftrace_session *s);
/* They cannot be had: told, and forgotten. */
void pfl_ftrace_events_refuse_markers(struct pfl_ftrace *self, struct pfl_ftrace_session *s);
void pfl_ftrace_events_switch_on(struct pfl_ftrace *self, struct pfl_ftrace_session *s);
void pfl_ftrace_events_switch_off(struct pfl_ftrace *self, struct pfl_ftrace_session *s);
bool pfl_ftrace_events_has_switch(const struct pfl_ftrace *self,
                                  const struct pfl_ftrace_session *s);

#endif
