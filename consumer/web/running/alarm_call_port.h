/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of a visit about the operator's alarms, to the agents of the hosts that are not known to
 * be away. */
#ifndef PFL_CONSUMER_WEB_RUNNING_ALARM_CALL_PORT_H
#define PFL_CONSUMER_WEB_RUNNING_ALARM_CALL_PORT_H

#include "consumer/host/host_calls_port.h"
#include "consumer/host/host_spec.h"
#include "consumer/web/frame/web_visit.h"

struct pfl_alarm_call_ops {
    /* As of struct pfl_host_calls_conf, with the host's name. */
    void (*on_answer)(struct pfl_web_visit *visit, size_t host, int err, unsigned status,
                      struct pfl_span body);
    void (*on_over)(struct pfl_web_visit *visit); /* last callback */
};

struct pfl_alarm_call {
    struct pfl_web_visit *visit; /* borrowed: it is held meanwhile */
    const struct pfl_alarm_call_ops *ops;
    char (*hosts)[PFL_HOST_NAME_MAX]; /* owned */
    size_t len;
    struct pfl_host_calls *calls; /* owned; NULL: nobody is asked */
    bool is_open;
    const char *why; /* NULL, or why nobody is asked; static */
};

/* Chooses the hosts, at most `max`; ops are borrowed, static. */
void pfl_alarm_call_init(struct pfl_alarm_call *self, struct pfl_web_visit *visit,
                         const struct pfl_alarm_call_ops *ops, size_t max);
/* Those that are left: GET of all alarms, or DELETE of that for `session`, which is borrowed until
 * on_over. Nobody is asked without a relay, hosts or memory; else the visit is held. */
void pfl_alarm_call_open(struct pfl_alarm_call *self, const char *method, const char *session);
/* A host that is not asked by the next open: its name becomes "". */
void pfl_alarm_call_leave_out(struct pfl_alarm_call *self, size_t host);
void pfl_alarm_call_abort(struct pfl_alarm_call *self);
void pfl_alarm_call_fini(struct pfl_alarm_call *self); /* not while it is open */

#endif
