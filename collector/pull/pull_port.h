/* SPDX-License-Identifier: Apache-2.0 */
/* Pulls segments of all hosts into the store and the index. */
#ifndef PFL_COLLECTOR_PULL_PULL_PORT_H
#define PFL_COLLECTOR_PULL_PULL_PORT_H

#include "collector/engines/engines_port.h"
#include "collector/pull/host_queue.h"
#include "collector/pull/visit.h"
#include "collector/relay/relays_port.h"

struct pfl_pull;

struct pfl_pull_conf {
    uv_loop_t *loop;
    struct pfl_engines *engines; /* borrowed until close returns */
    struct pfl_relays *relays;   /* borrowed until close returns */
    unsigned visits_max;         /* at most PFL_HOST_QUEUE_VISITS_MAX */
    char *const *newest_first;   /* classes; borrowed */
    size_t newest_first_len;
    void (*on_visited)(void *user, const char *host); /* segments of it were taken */
    void *user;
};

PFL_MUST_USE int pfl_pull_open(const struct pfl_pull_conf *conf, struct pfl_pull **ret_pull);
/* What a relay says of a host; of all that it has changed: then a visit may begin. */
void pfl_pull_on_host(struct pfl_pull *self, unsigned relay, const struct pfl_spool_host *host);
void pfl_pull_on_listed(struct pfl_pull *self);
void pfl_pull_on_relay_lost(struct pfl_pull *self, unsigned relay);

struct pfl_pull_figures {
    struct pfl_host_queue_figures queue;
    struct pfl_visit_figures visits; /* of all so far */
    uint64_t ends[PFL_VISIT_ENDS];
};
void pfl_pull_get_figures(const struct pfl_pull *self, struct pfl_pull_figures *ret_figures);

/* Begins no more work; NULL is legal. Works of the engines may still be under way: then close the
 * engines, which waits for them, and only then call pfl_pull_close. */
void pfl_pull_stop(struct pfl_pull *self);
/* Frees it in the loop's next turns; NULL is legal. */
void pfl_pull_close(struct pfl_pull *self);

#endif
