/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How requests of relays are answered: a refusal with a status and a sentence, a JSON object; and
 * the role that a request has. Failures: an answer that cannot be made resets the stream.
 */
#include <string.h>

#include "agent/daemon/port_impl.h"
#include "proto/gate/role.h"
#include "proto/h2/problem.h"

void pfl_agent_refuse(struct pfl_h2_stream *h2_stream, unsigned status, const char *title,
                      const char *detail)
{
    struct pfl_problem problem = {status, "agent", title, detail};

    pfl_problem_respond(h2_stream, &problem);
}

void pfl_agent_respond_json(struct pfl_h2_stream *h2_stream, const char *json)
{
    if (pfl_h2_stream_respond_body(h2_stream, 200, "application/json",
                                   pfl_span_of(json, strlen(json))) != 0)
        pfl_h2_stream_reset(h2_stream, PFL_H2_INTERNAL_ERROR);
}

int pfl_agent_read_role(struct pfl_h2_stream *h2_stream, const struct pfl_route *route,
                        struct pfl_buf *ret_role)
{
    int rc;

    pfl_buf_init(ret_role, PFL_ROLE_MAX_BYTES);
    rc = route->role != NULL ? pfl_role_read(route->role, ret_role) : 0;
    if (rc != 0)
        pfl_agent_refuse(
            h2_stream, rc == PFL_EPARSE ? 400 : 503, "no role",
            "the operator's role is none that this agent knows: update perfleet-agent");
    return rc;
}
