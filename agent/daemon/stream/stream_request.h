/* SPDX-License-Identifier: Apache-2.0 */
/* The stream's parameters in a CONNECT: docs/protocol-tunnel.md section 3. Pure. */
#ifndef PFL_AGENT_STREAM_REQUEST_H
#define PFL_AGENT_STREAM_REQUEST_H

#include "proto/h2/h2.h"
#include "proto/tunnel/resume.h"

/* The texts are borrowed from the head. */
struct pfl_stream_request {
    const char *id; /* "" without one */
    const char *operator_name;
    struct pfl_resume_offer offer;
    uint64_t ttl_ms;
    bool is_resume;
    bool has_accounts;
    bool wants_zstd;
    struct pfl_span role; /* empty without one; borrowed from the caller's buffer */
};

/* False: invalid fields. `role` and `operator_name` are not checked. */
bool pfl_stream_request_read(const struct pfl_h2_head *head,
                             struct pfl_stream_request *ret_request);

#endif
