/* SPDX-License-Identifier: Apache-2.0 */
/* Refusals of requests: see host_request.h. Owns nothing; cannot fail. */
#include "relay/hub/host_request.h"

#include "proto/h2/problem.h"
#include "relay/hub/audit_context.h"

void pfl_host_request_refuse(struct pfl_h2_stream *h2_stream, unsigned status, const char *title,
                             const char *detail)
{
    struct pfl_problem problem = {status, "relay", title, detail};

    pfl_problem_respond(h2_stream, &problem);
}

void pfl_host_request_forbid(const struct pfl_host_request *self, const struct pfl_problem *problem,
                             const char *audit_detail)
{
    struct pfl_audit_context context;

    pfl_audit_context_set(&context, self->peer, self->route);
    pfl_audit_context_write(&context, "refuse", problem->status,
                            &(struct pfl_audit_context_more){.detail = audit_detail});
    pfl_problem_respond(self->h2_stream, problem);
}

void pfl_host_request_refuse_unaudited(const struct pfl_host_request *self)
{
    static const struct pfl_problem problem = {
        503, "relay", "no audit log",
        "this relay cannot write its audit log: free space on its disk, or set audit_optional"};

    pfl_host_request_forbid(self, &problem, NULL);
}

bool pfl_host_request_may_begin(const struct pfl_host_request *self)
{
    const struct pfl_hub_shell *shell = self->peer->table->shell;

    if (shell->can_audit(shell->user))
        return true;
    pfl_host_request_refuse_unaudited(self);
    return false;
}
