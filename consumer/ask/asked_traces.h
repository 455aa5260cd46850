/* SPDX-License-Identifier: Apache-2.0 */
/* The traces that a question is asked of: files, or those that a collector lists. Pure. */
#ifndef PFL_CONSUMER_ASKED_TRACES_H
#define PFL_CONSUMER_ASKED_TRACES_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "perfleet/collector.pb-c.h"

#define PFL_ASKED_TRACES_MAX 1000000u

struct pfl_asked_trace {
    char *name; /* owned: its ID, or the file's name */
    char *host; /* owned; "": not known, as of files */
    uint64_t begin_unix_ns;
    uint64_t bytes;
};

struct pfl_asked_traces {        /* all zero: empty */
    struct pfl_asked_trace *all; /* owned; in the order of adding */
    size_t len;
    size_t room;
    uint64_t missing; /* segments that the hosts removed before they were read */
};

/* PFL_ENOMEM; PFL_ELIMIT: PFL_ASKED_TRACES_MAX. */
PFL_MUST_USE int pfl_asked_traces_add_file(struct pfl_asked_traces *self, const char *path);
/* A trace of a collector's list, whose number is self->len - 1 then. PFL_EAGAIN: it is none that
 * can be asked; gaps are counted: there is nothing to ask. Else likewise. */
PFL_MUST_USE int pfl_asked_traces_add(struct pfl_asked_traces *self,
                                      const Perfleet__StoredTrace *trace);
/* All of a reply. */
PFL_MUST_USE int pfl_asked_traces_take(struct pfl_asked_traces *self,
                                       const Perfleet__CollectorReply *reply);
/* Moves those of these numbers, each once, in this order to *ret_traces; of them `self` has empty
 * places then. PFL_ENOMEM. */
PFL_MUST_USE int pfl_asked_traces_move(struct pfl_asked_traces *self, const uint32_t *numbers,
                                       size_t len, struct pfl_asked_traces *ret_traces);
void pfl_asked_traces_fini(struct pfl_asked_traces *self);

#endif
