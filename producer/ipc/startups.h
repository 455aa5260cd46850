/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Startup sessions: the memory that is brought along, and what becomes of the sessions that the
 * program begins. On the library's thread, but for the first and the last.
 */
#ifndef PFL_PRODUCER_STARTUPS_H
#define PFL_PRODUCER_STARTUPS_H

#include "producer/ipc/client.h"

/* What perfleet_startup waits for; on its stack, under the connection's lock. */
struct pfl_startup_request {
    struct pfl_startup_request *next;
    struct pfl_source *source;
    struct pfl_span config;
    uint32_t timeout_ms;
    bool is_done;
    int rc; /* negative enum perfleet_err */
};

/* Makes memory of conf.own_smb_kb. PFL_EINVAL, PFL_ENOMEM, PFL_EIO. */
PFL_MUST_USE int pfl_startups_make_memory(struct perfleet *p);
/* Nobody adopted it, or the connection that did is gone: forgets that it is ours. */
void pfl_startups_drop_memory(struct perfleet *p);

/* Begins the sessions asked for, ends those whose time is over. */
void pfl_startups_serve(struct perfleet *p);
/* When to serve next; 0: nothing to wait for. */
uint64_t pfl_startups_deadline_ms(struct perfleet *p);
/* A session is set up: does it want what a startup session has? */
bool pfl_startups_take_over(struct pfl_source *s, const struct pfl_source_instance_conf *conf);
/* It starts: what was held goes to its buffer. */
void pfl_startups_bind(struct pfl_source *s, uint32_t instance);
/* Ends every session that nobody took over. */
void pfl_startups_end_all(struct perfleet *p);

#endif
