/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests about alarms: see alarm_call_port.h. Happy path: one request for each host, by
 * host_calls_port.h. Failures: `why`, or the host's answer. Ownership: the visit embeds it. Limits:
 * the visit's.
 */
#include "consumer/web/running/alarm_call_port.h"

#include <stdio.h>

#include "base/mem.h"
#include "consumer/web/frame/web_answer.h"

void pfl_alarm_call_init(struct pfl_alarm_call *self, struct pfl_web_visit *visit,
                         const struct pfl_alarm_call_ops *ops, size_t max)
{
    struct pfl_host_rows *rows = pfl_web_get_hosts(visit->web);
    struct pfl_host_row row;

    *self = (struct pfl_alarm_call){.visit = visit, .ops = ops};
    self->hosts = pfl_mem_calloc(max, sizeof(*self->hosts));
    for (size_t i = 0; self->hosts != NULL && self->len < max && i < pfl_host_rows_get_len(rows);
         i++) {
        pfl_host_rows_get_row(rows, i, &row);
        if (row.has_relay && row.relay.is_connected)
            (void)snprintf(self->hosts[self->len++], sizeof(*self->hosts), "%s", row.name);
    }
}

static const char *get_host(void *user, size_t host)
{
    const struct pfl_alarm_call *c = user;

    return c->hosts[host][0] != '\0' ? c->hosts[host] : NULL;
}

static void on_answer(void *user, size_t host, int err, unsigned status, struct pfl_span body)
{
    struct pfl_alarm_call *c = user;

    c->ops->on_answer(c->visit, host, err, status, body);
}

static void on_over(void *user)
{
    struct pfl_alarm_call *c = user;
    struct pfl_web_visit *visit = c->visit;

    c->is_open = false;
    c->ops->on_over(visit);
    pfl_web_visit_release(visit);
}

void pfl_alarm_call_open(struct pfl_alarm_call *self, const char *method, const char *session)
{
    const struct pfl_web_conf *conf = pfl_web_get_conf(self->visit->web);
    const struct pfl_host_calls_conf calls = {.loop = conf->conn.loop,
                                              .tunnel = conf->conn.tunnel,
                                              .method = method,
                                              .leaf = "alarms",
                                              .name = session,
                                              .hosts_len = self->len,
                                              .timeout_ms = conf->timeout_ms,
                                              .get_host = get_host,
                                              .on_answer = on_answer,
                                              .on_over = on_over,
                                              .user = self};

    pfl_host_calls_free(self->calls);
    self->calls = NULL;
    if (conf->conn.tunnel == NULL)
        self->why = "Alarms are kept by the hosts' agents, behind a relay: start perfleet ui with "
                    "--relay.";
    else if (self->hosts != NULL && self->len == 0)
        self->why = "No host is connected.";
    else if (self->hosts == NULL || pfl_host_calls_open(&calls, &self->calls) != 0)
        self->why = "Out of memory.";
    if (self->why != NULL)
        return;
    self->is_open = true;
    pfl_web_visit_hold(self->visit);
}

void pfl_alarm_call_leave_out(struct pfl_alarm_call *self, size_t host)
{
    self->hosts[host][0] = '\0';
}

void pfl_alarm_call_abort(struct pfl_alarm_call *self)
{
    if (self->is_open)
        pfl_host_calls_end(self->calls);
}

void pfl_alarm_call_fini(struct pfl_alarm_call *self)
{
    pfl_host_calls_free(self->calls);
    pfl_mem_free(self->hosts);
}
