/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers about collectors: see collector_list.h. Happy path: the text is made at once, and its
 * memory counts for the operator until it is read. Failures: 403 and a line of the audit log, 503
 * without memory. Owns nothing. Limits: PFL_PEER_TABLE_COLLECTORS,
 * PFL_POLICY_SCOPE_MAX_BYTES.
 */
#include "relay/hub/collector_list.h"

#include <stdio.h>
#include <string.h>

#include "perfleet/policy.fields.h"

#define ENTRY_BYTES (PFL_IDENTITY_NAME_BYTES + 16u)

static bool refuse(const struct pfl_host_request *request, const char *right, const char *detail)
{
    char why[160];

    (void)snprintf(why, sizeof(why), "no rule of the policy lets %s %s",
                   request->peer->identity.name, right);
    pfl_host_request_forbid(request, &(struct pfl_problem){403, "relay", "not allowed", why},
                            detail);
    return false;
}

bool pfl_collector_list_admit(const struct pfl_host_request *request, const char *detail)
{
    struct pfl_policy_decision decision;

    pfl_policy_decide_anywhere(request->peer->table->policy, request->peer->identity.name,
                               &decision);
    return decision.is_allowed || refuse(request, "use any host", detail);
}

bool pfl_collector_list_admit_collector(const struct pfl_host_request *request, const char *detail)
{
    return pfl_policy_gives_anywhere(request->peer->table->policy, request->peer->identity.name,
                                     ROLE__COLLECT) ||
           refuse(request, "collect anywhere (collect: true)", detail);
}

static void respond(struct pfl_forwarded_requests *answers, const struct pfl_host_request *request,
                    const char *type, int rc, const struct pfl_buf *text)
{
    if (rc == 0)
        pfl_forwarded_requests_respond(answers, request, type, pfl_buf_get(text));
    else
        pfl_host_request_refuse(request->h2_stream, 503, "out of memory",
                                "the relay is out of memory");
}

/* Names are of the certificates' grammar: there is nothing to escape. */
static int write_collectors(const struct pfl_peer_table *peers, struct pfl_buf *text)
{
    const char *separator = "";
    struct pfl_list *it;
    int rc = pfl_buf_append(text, "{\"collectors\":[", 15);

    PFL_LIST_EACH (it, &peers->collectors) {
        const struct pfl_hub_peer *p = PFL_CONTAINER_OF(it, struct pfl_hub_peer, of_collectors);
        char entry[ENTRY_BYTES];
        int len =
            snprintf(entry, sizeof(entry), "%s{\"name\":\"%s\"}", separator, p->identity.name);

        separator = ",";
        if (rc == 0)
            rc = pfl_buf_append(text, entry, (size_t)len);
    }
    return rc == 0 ? pfl_buf_append(text, "]}", 2) : rc;
}

void pfl_collector_list_send(struct pfl_forwarded_requests *answers,
                             const struct pfl_host_request *request)
{
    struct pfl_buf text;
    int rc;

    if (!pfl_collector_list_admit(request, "collectors"))
        return;
    pfl_buf_init(&text, PFL_PEER_TABLE_COLLECTORS * ENTRY_BYTES + 32);
    rc = write_collectors(request->peer->table, &text);
    respond(answers, request, "application/json", rc, &text);
    pfl_buf_fini(&text);
}

void pfl_collector_list_send_scope(struct pfl_forwarded_requests *answers,
                                   const struct pfl_host_request *request)
{
    struct pfl_buf text;
    int rc;

    if (!pfl_collector_list_admit_collector(request, "scope"))
        return;
    pfl_buf_init(&text, PFL_POLICY_SCOPE_MAX_BYTES);
    rc = pfl_policy_write_scope(request->peer->table->policy, request->route->name, &text);
    respond(answers, request, "text/plain", rc, &text);
    pfl_buf_fini(&text);
}
