/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filters the requests between an operator and a consumer socket by a role. It cuts the operator's
 * bytes into frames and judges each request (judge.h). Of the service's bytes it reads only the
 * numbers of methods (the answer to a bind) and where frames end, so that its own answers fall
 * between them. Permitted requests are passed on byte for byte. I/O-free.
 */
#ifndef PFL_PROTO_GATE_GATE_H
#define PFL_PROTO_GATE_GATE_H

#include "proto/gate/judge.h"
#include "proto/ipc/frame.h"

/* Our answers that wait for the end of one of the service's frames. */
#define PFL_GATE_WAITING_MAX_BYTES (64u * 1024)
/* The largest answer of ours. */
#define PFL_GATE_ANSWER_BYTES 1024u

/* Maximum that `save` writes. */
#define PFL_GATE_SAVED_MAX_BYTES (1152u * 1024)

struct pfl_gate;

struct pfl_gate_conf {
    struct pfl_span role; /* checked (role.h); copied */
    /* Bytes to pass on, borrowed until return. A negative return stops, and becomes the result. */
    int (*to_service)(void *user, struct pfl_span bytes);
    int (*to_operator)(void *user, struct pfl_span bytes);
    /* A request was judged: `why` NULL: permitted; else the reason. Borrowed. May be NULL. */
    void (*on_judged)(void *user, enum pfl_method method, const char *why);
    void *user;
};

PFL_MUST_USE int pfl_gate_new(const struct pfl_gate_conf *conf, struct pfl_gate **ret_gate);
void pfl_gate_free(struct pfl_gate *self); /* NULL is legal */
/* Bytes of the operator, cut anywhere. PFL_EPROTO: not frames; PFL_ELIMIT: too many of our answers
 * wait; PFL_ENOMEM; or what a callback returned. After a failure: only free. */
PFL_MUST_USE int pfl_gate_from_operator(struct pfl_gate *self, struct pfl_span bytes_untrusted);
/* Bytes of the service, cut anywhere. Errors as above. */
PFL_MUST_USE int pfl_gate_from_service(struct pfl_gate *self, struct pfl_span bytes);
/*
 * Sets a new role. Permitted requests that still run (the trace config, the attached session) are
 * judged again: PFL_EPERM, with `ret_why` (PFL_JUDGE_WHY_BYTES), if the new role does not permit
 * them: the stream must end. PFL_ENOMEM.
 */
PFL_MUST_USE int pfl_gate_set_role(struct pfl_gate *self, struct pfl_span role, char *ret_why);
/* Borrowed until set_role or free. */
struct pfl_span pfl_gate_get_role(const struct pfl_gate *self);

/*
 * Saves the gate's whole state for another process: the role, permitted requests that may run, the
 * position in the service's bytes, waiting answers, the service's method numbers. Only between
 * whole frames of the operator. PFL_ELIMIT: it does not fit into `out`, which is unchanged.
 */
PFL_MUST_USE int pfl_gate_save(const struct pfl_gate *self, struct pfl_writer *out);
/* As save, if `out` has what this gate saved there at the same version: the large parts (the role,
 * the requests) did not change and are not written again. */
PFL_MUST_USE int pfl_gate_save_again(const struct pfl_gate *self, struct pfl_writer *out);
/* Changes with those parts; never 0. */
uint64_t pfl_gate_get_version(const struct pfl_gate *self);
/* Makes a gate that continues from the saved state. conf->role is ignored; call set_role for
 * another role. PFL_EPARSE: not saved by a gate; PFL_ENOMEM. */
PFL_MUST_USE int pfl_gate_restore(const struct pfl_gate_conf *conf, struct pfl_span saved_untrusted,
                                  struct pfl_gate **ret_gate);

#endif
