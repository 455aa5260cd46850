/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collector's side of the BigTrace page: see bigtrace_source_port.h.
 *
 *     LISTING --last page--> LISTED --requests--> ... --end--> done
 *
 * Happy path: page after page of the list is asked for; then the owner requests pieces, and ends
 * it. Failures: what the collector says, or that there is none. Owns the call. Limits: those of
 * bigtrace_traces.h; the time without a reply (collector_call_port.h).
 */
#include "consumer/web/bigtrace/bigtrace_source_port.h"

#include "base/mem.h"
#include "consumer/web/traces/collector_call_port.h"

struct pfl_bigtrace_source {
    struct pfl_bigtrace_source_conf conf;
    struct pfl_collector_call *call; /* owned */
    unsigned awaited;                /* requests for pieces */
    bool is_listed;
};

static void ask_list(struct pfl_bigtrace_source *s, struct pfl_collector_call *call)
{
    Perfleet__CollectorRequest request = PERFLEET__COLLECTOR_REQUEST__INIT;
    struct pfl_trace_selection_query query;

    pfl_bigtrace_traces_fill(s->conf.traces, &query);
    request.list = &query.query;
    (void)pfl_collector_call_send(call, &request);
}

static void on_ready(void *user, struct pfl_collector_call *call)
{
    ask_list(user, call);
}

static void take_list(struct pfl_bigtrace_source *s, const Perfleet__CollectorReply *reply)
{
    bool has_more = false;

    if (reply->status != 0) {
        pfl_collector_call_end(s->call, pfl_collector_call_quote_why(reply));
    } else if (pfl_bigtrace_traces_take(s->conf.traces, reply, &has_more) != 0) {
        pfl_collector_call_end(s->call, pfl_err_str(PFL_ENOMEM));
    } else if (has_more) {
        ask_list(s, s->call);
    } else if (!reply->has_more) {
        s->is_listed = true;
        pfl_collector_call_rest(s->call);
        s->conf.on_listed(s->conf.user);
    }
}

static void on_reply(void *user, const Perfleet__CollectorReply *reply)
{
    struct pfl_bigtrace_source *s = user;

    if (!s->is_listed) {
        take_list(s, reply);
        return;
    }
    if (!reply->has_more && s->awaited != 0 && --s->awaited == 0)
        pfl_collector_call_rest(s->call);
    s->conf.on_reply(s->conf.user, reply);
}

static void on_done(void *user)
{
    struct pfl_bigtrace_source *s = user;
    const char *why = pfl_collector_call_get_why(s->call);

    if (why[0] == '\0' && !s->is_listed && !pfl_collector_call_has_collector(s->call))
        why = "no collector is connected to the relay, or the relay is away";
    s->conf.on_done(s->conf.user, why);
}

int pfl_bigtrace_source_open(const struct pfl_bigtrace_source_conf *conf,
                             struct pfl_bigtrace_source **ret_source)
{
    struct pfl_bigtrace_source *s = pfl_mem_zalloc(sizeof(*s));
    struct pfl_collector_call_conf call = {.loop = conf->web->conn.loop,
                                           .tunnel = conf->web->conn.tunnel,
                                           .collector = conf->web->collector,
                                           .timeout_ms = conf->web->timeout_ms,
                                           .on_ready = on_ready,
                                           .on_reply = on_reply,
                                           .on_done = on_done,
                                           .user = s};
    int rc = s != NULL ? 0 : PFL_ENOMEM;

    if (rc == 0) {
        s->conf = *conf;
        rc = pfl_collector_call_open(&call, &s->call);
    }
    if (rc == 0)
        *ret_source = s;
    else
        pfl_mem_free(s);
    return rc;
}

uint32_t pfl_bigtrace_source_request(struct pfl_bigtrace_source *self, const char *trace,
                                     uint64_t offset, size_t len)
{
    Perfleet__CollectorRequest request = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__CollectorRequest__Get part = PERFLEET__COLLECTOR_REQUEST__GET__INIT;
    uint32_t id;

    part.trace = (char *)(uintptr_t)trace;
    part.has_offset = part.has_length = 1;
    part.offset = offset;
    part.length = len;
    request.get = &part;
    id = pfl_collector_call_send(self->call, &request);
    self->awaited += id != 0 ? 1 : 0;
    return id;
}

void pfl_bigtrace_source_end(struct pfl_bigtrace_source *self, const char *why)
{
    pfl_collector_call_end(self->call, why);
}

void pfl_bigtrace_source_free(struct pfl_bigtrace_source *self)
{
    if (self == NULL)
        return;
    pfl_collector_call_free(self->call);
    pfl_mem_free(self);
}
