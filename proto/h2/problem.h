/* SPDX-License-Identifier: Apache-2.0 */
/* Refusals in the tunnel as application/problem+json (RFC 9457): a status, a sentence for people, a
 * body for machines. Pure. */
#ifndef PFL_PROTO_H2_PROBLEM_H
#define PFL_PROTO_H2_PROBLEM_H

#include "proto/h2/h2.h"

struct pfl_problem {
    unsigned status;
    const char *where;  /* "relay" or "agent" */
    const char *title;  /* a few words, the same for every such problem */
    const char *detail; /* a sentence that names what is concerned */
};

/* Answers; if even that fails, resets the stream. Control characters, quotes and non-ASCII
 * characters are replaced. */
void pfl_problem_respond(struct pfl_h2_stream *stream, const struct pfl_problem *problem);
/* The sentence of a refusal, with the same characters replaced: a host's agent writes it, and it is
 * printed. "": there is none. */
void pfl_problem_get(const struct pfl_h2_head *head, char *ret_sentence, size_t room);

#endif
