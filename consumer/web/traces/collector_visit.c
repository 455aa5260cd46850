/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Visits that ask a collector: see collector_visit.h. Happy path: one call, as the pages are
 * configured. Failures: those of the call, in words. Ownership: the visit owns its call. Limits:
 * those of collector_call_port.h.
 */
#include "consumer/web/traces/collector_visit.h"

#include "consumer/web/frame/web_answer.h"

struct pfl_collector_visit *pfl_collector_visit_of(struct pfl_web_visit *base)
{
    return PFL_CONTAINER_OF(base, struct pfl_collector_visit, base);
}

static void on_ready(void *user, struct pfl_collector_call *call)
{
    struct pfl_collector_visit *v = user;

    v->ops->on_ready(v, call);
}

static void on_reply(void *user, const Perfleet__CollectorReply *reply)
{
    struct pfl_collector_visit *v = user;

    v->ops->on_reply(v, reply);
}

static void on_done(void *user)
{
    struct pfl_collector_visit *v = user;

    v->is_open = false;
    v->ops->on_done(v);
    pfl_web_visit_release(&v->base);
}

bool pfl_collector_visit_call(struct pfl_collector_visit *self,
                              const struct pfl_collector_visit_ops *ops)
{
    const struct pfl_web_conf *conf = pfl_web_get_conf(self->base.web);
    const struct pfl_collector_call_conf call = {.loop = conf->conn.loop,
                                                 .tunnel = conf->conn.tunnel,
                                                 .collector = conf->collector,
                                                 .timeout_ms = conf->timeout_ms,
                                                 .on_ready = on_ready,
                                                 .on_reply = on_reply,
                                                 .on_done = on_done,
                                                 .user = self};

    self->ops = ops;
    if (call.tunnel == NULL || pfl_collector_call_open(&call, &self->call) != 0)
        return false;
    self->is_open = true;
    pfl_web_visit_hold(&self->base);
    return true;
}

void pfl_collector_visit_abort(struct pfl_web_visit *base)
{
    struct pfl_collector_visit *v = pfl_collector_visit_of(base);

    if (v->is_open)
        pfl_collector_call_end(v->call, "perfleet ui ends");
}

const char *pfl_collector_visit_get_why(const struct pfl_collector_visit *self)
{
    if (self->call == NULL)
        return pfl_web_get_conf(self->base.web)->conn.tunnel == NULL
                   ? "a collector needs a relay: start perfleet ui with --relay"
                   : "out of memory";
    if (!pfl_collector_call_has_collector(self->call) &&
        pfl_collector_call_get_why(self->call)[0] == '\0')
        return "no collector is connected to the relay";
    return pfl_collector_call_get_why(self->call);
}

void pfl_collector_visit_fini(struct pfl_collector_visit *self)
{
    pfl_collector_call_free(self->call);
}
