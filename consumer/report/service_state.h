/* SPDX-License-Identifier: Apache-2.0 */
/* A host's TracingServiceState as text or JSON for the operator. Pure. */
#ifndef PFL_CONSUMER_SERVICE_STATE_H
#define PFL_CONSUMER_SERVICE_STATE_H

#include "base/buf.h"
#include "consumer/host/inventory.h"

struct pfl_service_state_host {
    const char *name;                             /* borrowed */
    const char *address;                          /* borrowed */
    const char *why;                              /* "" or why it could not be asked */
    const struct pfl_inventory_host *relay_facts; /* NULL without relay */
    struct pfl_span state; /* serialized TracingServiceState, merged from all replies */
};

enum pfl_service_state_detail {
    PFL_SERVICE_STATE_BRIEF,    /* one line: name, version, numbers */
    PFL_SERVICE_STATE_SESSIONS, /* one line a session */
    PFL_SERVICE_STATE_ALL,      /* everything, as tables */
};

/* One host as text, or why it could not be asked. */
PFL_MUST_USE int pfl_service_state_text(const struct pfl_service_state_host *host,
                                        enum pfl_service_state_detail detail, struct pfl_buf *out);
/* All hosts, one after the other. A host whose text exceeds its share of the rest of `out` has a
 * line that says so. PFL_ENOMEM, PFL_ELIMIT. */
PFL_MUST_USE int pfl_service_state_texts(const struct pfl_service_state_host *hosts, size_t len,
                                         enum pfl_service_state_detail detail, struct pfl_buf *out);
/* An array with one object a host, likewise; producers and data sources only with ALL. PFL_ENOMEM,
 * PFL_ELIMIT. */
PFL_MUST_USE int pfl_service_state_json(const struct pfl_service_state_host *hosts, size_t len,
                                        enum pfl_service_state_detail detail, struct pfl_buf *out);

#endif
