/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that the host's agent is asked in the operator's name, and answers that wait in memory
 * until the operator reads them. A core.
 */
#ifndef PFL_RELAY_HUB_FORWARDED_REQUEST_H
#define PFL_RELAY_HUB_FORWARDED_REQUEST_H

#include "relay/hub/host_request.h"
#include "relay/hub/stream_table.h"

struct pfl_forwarded_requests {
    struct pfl_stream_table *streams; /* borrowed: their memory is shared */
    /* What agents are asked, by the host's name; they free themselves. */
    struct pfl_list buckets[PFL_STREAM_TABLE_BUCKETS];
};

void pfl_forwarded_requests_init(struct pfl_forwarded_requests *self,
                                 struct pfl_stream_table *streams);
/* Asks request->agent, and passes its answer back; or answers with a problem. */
void pfl_forwarded_requests_ask(struct pfl_forwarded_requests *self,
                                const struct pfl_host_request *request);
/* Answers with 200 and a body, which counts like an agent's answer. */
void pfl_forwarded_requests_respond(struct pfl_forwarded_requests *self,
                                    const struct pfl_host_request *request, const char *type,
                                    struct pfl_span body);
/* The same with the description of request->host. */
void pfl_forwarded_requests_describe(struct pfl_forwarded_requests *self,
                                     const struct pfl_host_request *request);
/* What this host is being asked for this operator. */
unsigned pfl_forwarded_requests_count(const struct pfl_forwarded_requests *self, const char *who,
                                      const char *host);

#endif
