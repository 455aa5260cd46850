/* SPDX-License-Identifier: Apache-2.0 */
/* Selects the kernel's events of a session of linux.ftrace. Private to ftrace.c. A shell. */
#ifndef PFL_PROBES_FTRACE_EVENTS_H
#define PFL_PROBES_FTRACE_EVENTS_H

#include "agent/probes/ftrace/ftrace.h"

/* Call before there is an instance: makes plans for the config's events. Reports unknown and
 * refused ones. PFL_ENOMEM, PFL_EIO, PFL_EPARSE. */
PFL_MUST_USE int pfl_ftrace_events_choose(struct pfl_ftrace *self, struct pfl_ftrace_session *s);
/* Call when the instance exists and nothing is switched on: makes kprobes, and the table of wanted
 * ids. */
PFL_MUST_USE int pfl_ftrace_events_prepare(struct pfl_ftrace *self, struct pfl_ftrace_session *s);
/* Moves events that never reach the session's instance to s->markers, which otherwise has no list.
 * PFL_ENOMEM. */
PFL_MUST_USE int pfl_ftrace_events_split(struct pfl_ftrace *self, struct pfl_ftrace_session *s);
/* They are not available: reports that, and drops them. */
void pfl_ftrace_events_refuse_markers(struct pfl_ftrace *self, struct pfl_ftrace_session *s);
void pfl_ftrace_events_switch_on(struct pfl_ftrace *self, struct pfl_ftrace_session *s);
void pfl_ftrace_events_switch_off(struct pfl_ftrace *self, struct pfl_ftrace_session *s);
bool pfl_ftrace_events_has_switch(const struct pfl_ftrace *self,
                                  const struct pfl_ftrace_session *s);

#endif
