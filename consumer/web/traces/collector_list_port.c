/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The newest traces of a host: see collector_list_port.h. Happy path: one request; rows until the
 * last reply. Failures: the call's, or what the collector says. Ownership: the owner frees it after
 * on_done, and with it the call.
 */
#include "consumer/web/traces/collector_list_port.h"

#include <stdio.h>

#include "base/mem.h"
#include "consumer/host/host_spec.h"
#include "consumer/web/traces/collector_call_port.h"

struct pfl_collector_list {
    struct pfl_collector_list_conf conf;
    struct pfl_collector_call *call; /* owned */
    char host[PFL_HOST_NAME_MAX];
    struct pfl_trace_rows rows;
};

static void on_ready(void *user, struct pfl_collector_call *call)
{
    struct pfl_collector_list *l = user;
    Perfleet__CollectorRequest request = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;
    char *hosts[1] = {l->host};

    query.host = hosts;
    query.n_host = 1;
    query.has_limit = 1;
    query.limit = PFL_TRACE_ROWS_MAX;
    request.list = &query;
    (void)pfl_collector_call_send(call, &request);
}

static void on_reply(void *user, const Perfleet__CollectorReply *reply)
{
    struct pfl_collector_list *l = user;

    if (reply->status != 0) {
        pfl_collector_call_end(l->call, pfl_collector_call_quote_why(reply));
        return;
    }
    pfl_trace_rows_take(&l->rows, reply);
    if (!reply->has_more)
        pfl_collector_call_end(l->call, "");
}

static void on_done(void *user)
{
    struct pfl_collector_list *l = user;

    l->conf.on_done(l->conf.user);
}

int pfl_collector_list_open(const struct pfl_collector_list_conf *conf,
                            struct pfl_collector_list **ret_list)
{
    struct pfl_collector_list *l = pfl_mem_zalloc(sizeof(*l));
    struct pfl_collector_call_conf call = {.loop = conf->loop,
                                           .tunnel = conf->tunnel,
                                           .collector = conf->collector,
                                           .timeout_ms = conf->timeout_ms,
                                           .on_ready = on_ready,
                                           .on_reply = on_reply,
                                           .on_done = on_done,
                                           .user = l};
    int rc;

    if (l == NULL)
        return PFL_ENOMEM;
    l->conf = *conf;
    (void)snprintf(l->host, sizeof(l->host), "%s", conf->host);
    rc = pfl_collector_call_open(&call, &l->call);
    if (rc != 0) {
        pfl_mem_free(l);
        return rc;
    }
    *ret_list = l;
    return 0;
}

const struct pfl_trace_rows *pfl_collector_list_get(const struct pfl_collector_list *self)
{
    return pfl_collector_call_has_collector(self->call) ? &self->rows : NULL;
}

const char *pfl_collector_list_get_why(const struct pfl_collector_list *self)
{
    return pfl_collector_call_get_why(self->call);
}

void pfl_collector_list_abort(struct pfl_collector_list *self)
{
    pfl_collector_call_end(self->call, "");
}

void pfl_collector_list_free(struct pfl_collector_list *self)
{
    if (self == NULL)
        return;
    pfl_collector_call_free(self->call);
    pfl_mem_free(self);
}
