/* SPDX-License-Identifier: Apache-2.0 */
/* A request whose answer is received as a whole: head and a body with a maximum. Pure. */
#ifndef PFL_PROTO_H2_H2_CALL_H
#define PFL_PROTO_H2_H2_CALL_H

#include "proto/h2/h2.h"

struct pfl_h2_call;

struct pfl_h2_call_conf {
    const char *method;
    const char *path;
    const struct pfl_h2_field *fields; /* borrowed until start returns */
    size_t fields_len;
    size_t body_max_bytes;
    /* Once, from feed, drain or free of the h2. `err` 0: there is an answer, of any status; else
     * PFL_ECLOSED (the connection or the request was lost), PFL_ELIMIT (the body is too large),
     * PFL_ENOMEM; status is 0 then. `body` is borrowed until return. */
    void (*on_done)(void *user, int err, unsigned status, struct pfl_span body);
    void *user;
};

/* Errors of pfl_h2_request. `ret_call` may be NULL. */
PFL_MUST_USE int pfl_h2_call_start(struct pfl_h2 *h2, const struct pfl_h2_call_conf *conf,
                                   struct pfl_h2_call **ret_call);
/* Cancels the request; on_done follows when the stream is closed, normally with PFL_ECLOSED. */
void pfl_h2_call_cancel(struct pfl_h2_call *self);

#endif
