/* SPDX-License-Identifier: Apache-2.0 */
/* A host's TracingServiceState as text or JSON for the operator. Pure. */
#ifndef PFL_CONSUMER_SERVICE_STATE_H
#define PFL_CONSUMER_SERVICE_STATE_H

#include "base/buf.h"

struct pfl_service_state_host {
    const char *name;      /* borrowed */
    const char *address;   /* borrowed */
    const char *why;       /* "" or why it could not be asked */
    struct pfl_span state; /* serialized TracingServiceState, merged from all replies */
};

/* One line: name, version, producers, data sources, sessions; or why not. */
PFL_MUST_USE int pfl_service_state_line(const struct pfl_service_state_host *host,
                                        struct pfl_buf *out);
/* Everything, as tables. */
PFL_MUST_USE int pfl_service_state_text(const struct pfl_service_state_host *host,
                                        struct pfl_buf *out);
/* An array with one object a host; `is_brief` without producers and data sources. PFL_ENOMEM. */
PFL_MUST_USE int pfl_service_state_json(const struct pfl_service_state_host *hosts, size_t len,
                                        bool is_brief, struct pfl_buf *out);

#endif
