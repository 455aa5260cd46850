/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands between an operator and a consumer socket and lets through what a role allows. It cuts the
 * operator's bytes into frames and judges each request (judge.h); of the service's it reads which
 * number a method has (the answer to a bind) and where frames end, so that its own answers fall
 * between them; nothing else. What is let through is passed on byte for byte. I/O-free.
 */
#ifndef PFL_PROTO_GATE_GATE_H
#define PFL_PROTO_GATE_GATE_H

#include "proto/gate/judge.h"
#include "proto/ipc/frame.h"

/* Answers of ours that wait for the end of a frame of the service's. */
#define PFL_GATE_WAITING_MAX_BYTES (64u * 1024)
/* The largest answer of ours. */
#define PFL_GATE_ANSWER_BYTES 1024u

/* What `save` writes at most. */
#define PFL_GATE_SAVED_MAX_BYTES (1152u * 1024)

struct pfl_gate;

struct pfl_gate_conf {
    struct pfl_span role; /* checked (role.h); copied */
    /* Bytes that pass, borrowed until return. A negative return stops, and is passed on. */
    int (*to_service)(void *user, struct pfl_span bytes);
    int (*to_operator)(void *user, struct pfl_span bytes);
    /* A request was judged: `why` NULL: it passes; else the sentence. Borrowed. May be NULL. */
    void (*on_judged)(void *user, enum pfl_method method, const char *why);
    void *user;
};

PFL_MUST_USE int pfl_gate_new(const struct pfl_gate_conf *conf, struct pfl_gate **ret_gate);
void pfl_gate_free(struct pfl_gate *self); /* NULL is legal */
/* Bytes of the operator's, cut anywhere. PFL_EPROTO: these are no frames; PFL_ELIMIT: answers of
 * ours cannot be sent; PFL_ENOMEM; or what a callback returned. After a failure: only free. */
PFL_MUST_USE int pfl_gate_from_operator(struct pfl_gate *self, struct pfl_span bytes_untrusted);
/* Bytes of the service's, cut anywhere. Errors as above. */
PFL_MUST_USE int pfl_gate_from_service(struct pfl_gate *self, struct pfl_span bytes);
/*
 * From now on this is the role. What was let through before and still runs (the trace config, the
 * session taken over) is judged again: PFL_EPERM, with `ret_why` (PFL_JUDGE_WHY_BYTES), when the
 * role does not allow it: the stream has to end. PFL_ENOMEM.
 */
PFL_MUST_USE int pfl_gate_set_role(struct pfl_gate *self, struct pfl_span role, char *ret_why);
/* Borrowed until set_role or free. */
struct pfl_span pfl_gate_get_role(const struct pfl_gate *self);

/*
 * All that a gate knows, for another process: the role, what was let through and may run, where it
 * is in the service's bytes, answers that wait, what the service calls its methods. Only between
 * whole frames of the operator's. PFL_ELIMIT: `out` has no room for it; it is as it was then.
 */
PFL_MUST_USE int pfl_gate_save(const struct pfl_gate *self, struct pfl_writer *out);
/* As save, where `out` has what this gate saved there at the same version: what is large (the role,
 * the requests) is as it was, and is not written again. */
PFL_MUST_USE int pfl_gate_save_again(const struct pfl_gate *self, struct pfl_writer *out);
/* Another one after each change of those; never 0. */
uint64_t pfl_gate_get_version(const struct pfl_gate *self);
/* A gate that goes on where that one was saved. conf->role is not looked at; whoever brings another
 * one judges what runs by set_role. PFL_EPARSE: no gate saved this; PFL_ENOMEM. */
PFL_MUST_USE int pfl_gate_restore(const struct pfl_gate_conf *conf, struct pfl_span saved_untrusted,
                                  struct pfl_gate **ret_gate);

#endif
