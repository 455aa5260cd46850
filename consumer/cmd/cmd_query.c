/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `perfleet hosts` and `perfleet query`: asks every host for its service's state, all at once.
 * Happy path: QueryServiceState, collect the replies, print in the order given. A host that fails
 * is a line of its own and makes the exit code 4 (all of them: 1); the others are shown.
 */
#include <stdio.h>

#include "base/mem.h"
#include "consumer/cmd/cmd.h"
#include "consumer/report/service_state.h"
#include "consumer/report/summary.h"

enum { RESPONSE_SERVICE_STATE = 1 };

static int on_state(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_asked_host *h = user;
    struct pfl_reader r = pfl_reader_of(reply->body);
    struct pfl_field f;
    int rc = reply->success ? 0 : PFL_EPROTO;

    while (rc == 0 && pfl_reader_field(&r, &f))
        if (f.id == RESPONSE_SERVICE_STATE && f.type == PFL_WIRE_BYTES)
            rc = pfl_buf_append(&h->answer, f.bytes.data, f.bytes.len);
    if (rc == 0 && !reply->has_more)
        pfl_ask_done(h);
    return rc;
}

static void on_ready(void *user, struct pfl_asked_host *host)
{
    (void)user;
    pfl_ask_request(host, "QueryServiceState", pfl_span_of(NULL, 0), on_state);
}

static int report_states(const struct pfl_ask *ask, const struct pfl_args *args, bool is_brief,
                         struct pfl_buf *out)
{
    size_t len = pfl_ask_get_len(ask);
    struct pfl_service_state_host *hosts = pfl_mem_calloc(len, sizeof(*hosts));
    int rc = hosts != NULL ? 0 : PFL_ENOMEM;

    for (size_t i = 0; rc == 0 && i < len; i++) {
        const struct pfl_asked_host *h = pfl_ask_get_host(ask, i);

        hosts[i] = (struct pfl_service_state_host){.name = h->name,
                                                   .address = h->spec->text,
                                                   .why = h->why,
                                                   .state = pfl_buf_get(&h->answer)};
    }
    if (rc == 0 && args->is_json)
        rc = pfl_service_state_json(hosts, len, is_brief, out);
    for (size_t i = 0; rc == 0 && !args->is_json && i < len; i++)
        rc = is_brief ? pfl_service_state_line(&hosts[i], out)
                      : pfl_service_state_text(&hosts[i], out);
    pfl_mem_free(hosts);
    return rc;
}

static int report_brief(const struct pfl_ask *ask, const struct pfl_args *args, struct pfl_buf *out)
{
    return report_states(ask, args, true, out);
}

static int report_all(const struct pfl_ask *ask, const struct pfl_args *args, struct pfl_buf *out)
{
    return report_states(ask, args, false, out);
}

int pfl_cmd_hosts(struct pfl_args *args)
{
    return pfl_cmd_ask(args, &(struct pfl_cmd_question){on_ready, report_brief, NULL});
}

int pfl_cmd_query(struct pfl_args *args)
{
    return pfl_cmd_ask(args, &(struct pfl_cmd_question){on_ready, report_all, NULL});
}
