/* SPDX-License-Identifier: Apache-2.0 */
/* Lists a collector's traces, and then sends pieces of them. Callbacks run from the loop. */
#ifndef PFL_CONSUMER_WEB_BIGTRACE_SOURCE_PORT_H
#define PFL_CONSUMER_WEB_BIGTRACE_SOURCE_PORT_H

#include "consumer/web/bigtrace/bigtrace_traces.h"
#include "consumer/web/frame/web_conf.h"

struct pfl_bigtrace_source;

struct pfl_bigtrace_source_conf {
    const struct pfl_web_conf *web;     /* borrowed until on_done */
    struct pfl_bigtrace_traces *traces; /* initialised; borrowed until on_done */
    /* The list is complete; pieces can be requested. */
    void (*on_listed)(void *user);
    /* To a request for a piece. */
    void (*on_reply)(void *user, const Perfleet__CollectorReply *reply);
    /* Last callback; free it then, or later. `why`: "" or why it ended; borrowed until free. */
    void (*on_done)(void *user, const char *why);
    void *user;
};

/* PFL_ENOMEM: no callback comes. */
PFL_MUST_USE int pfl_bigtrace_source_open(const struct pfl_bigtrace_source_conf *conf,
                                          struct pfl_bigtrace_source **ret_source);
/* The request's id; 0: it cannot be sent. */
uint32_t pfl_bigtrace_source_request(struct pfl_bigtrace_source *self, const char *trace,
                                     uint64_t offset, size_t len);
/* on_done follows. Idempotent; the first reason counts. */
void pfl_bigtrace_source_end(struct pfl_bigtrace_source *self, const char *why);
void pfl_bigtrace_source_free(struct pfl_bigtrace_source *self); /* after on_done; NULL is legal */

#endif
