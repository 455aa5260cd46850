/* SPDX-License-Identifier: Apache-2.0 */
/* A visit that asks a collector: what such visits share. The page's struct embeds it in place of a
 * struct pfl_web_visit. */
#ifndef PFL_CONSUMER_WEB_TRACES_COLLECTOR_VISIT_H
#define PFL_CONSUMER_WEB_TRACES_COLLECTOR_VISIT_H

#include "consumer/web/frame/web_visit.h"
#include "consumer/web/traces/collector_call_port.h"

struct pfl_collector_visit_ops;

struct pfl_collector_visit {
    struct pfl_web_visit base;
    const struct pfl_collector_visit_ops *ops; /* borrowed; static */
    struct pfl_collector_call *call;           /* owned; NULL: none */
    bool is_open;
};

struct pfl_collector_visit_ops {
    void (*on_ready)(struct pfl_collector_visit *visit, struct pfl_collector_call *call);
    void (*on_reply)(struct pfl_collector_visit *visit, const Perfleet__CollectorReply *reply);
    /* Last callback; the visit may be answered already. */
    void (*on_done)(struct pfl_collector_visit *visit);
};

struct pfl_collector_visit *pfl_collector_visit_of(struct pfl_web_visit *base);
/* Calls the collector; the visit is held until on_done has returned. False: there is no memory, or
 * no relay, and no callback comes. `ops` is borrowed; static. */
bool pfl_collector_visit_call(struct pfl_collector_visit *self,
                              const struct pfl_collector_visit_ops *ops);
/* As struct pfl_web_visit_ops has it. */
void pfl_collector_visit_abort(struct pfl_web_visit *base);
/* After on_done, or where no call was made: "" or why it failed; static, or borrowed until fini. */
const char *pfl_collector_visit_get_why(const struct pfl_collector_visit *self);
void pfl_collector_visit_fini(struct pfl_collector_visit *self); /* in on_over */

#endif
