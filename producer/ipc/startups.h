/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Startup sessions: the memory that the program provides, and the sessions that it starts. On the
 * library's thread, except the first and the last.
 */
#ifndef PFL_PRODUCER_STARTUPS_H
#define PFL_PRODUCER_STARTUPS_H

#include "producer/ipc/client.h"

/* A pending perfleet_startup; on its stack, under the connection's lock. */
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
/* No service adopted it, or that connection is lost: the memory is no longer ours. */
void pfl_startups_drop_memory(struct perfleet *p);

/* Starts requested sessions, ends those past their deadline. */
void pfl_startups_serve(struct perfleet *p);
/* When to serve next; 0: never. */
uint64_t pfl_startups_deadline_ms(struct perfleet *p);
/* A session is set up: takes over a startup session with the same config, if there is one. */
bool pfl_startups_take_over(struct pfl_source *s, const struct pfl_source_instance_conf *conf);
/* It starts: held data goes to its buffer. */
void pfl_startups_bind(struct pfl_source *s, uint32_t instance);
/* Ends every session that was not taken over. */
void pfl_startups_end_all(struct perfleet *p);

#endif
