/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the newest traces of one host at the relay's collector, for its page. */
#ifndef PFL_CONSUMER_WEB_TRACES_COLLECTOR_LIST_PORT_H
#define PFL_CONSUMER_WEB_TRACES_COLLECTOR_LIST_PORT_H

#include "consumer/web/traces/trace_rows.h"
#include "tunnel/client.h"

struct pfl_collector_list;

struct pfl_collector_list_conf {
    uv_loop_t *loop;
    struct pfl_tunnel_client *tunnel; /* borrowed until on_done */
    const char *collector;            /* NULL: the only one; borrowed until on_done */
    const char *host;                 /* borrowed until open returns */
    uint64_t timeout_ms;
    /* Last callback; the list may be freed. */
    void (*on_done)(void *user);
    void *user;
};

PFL_MUST_USE int pfl_collector_list_open(const struct pfl_collector_list_conf *conf,
                                         struct pfl_collector_list **ret_list);
/* After on_done. NULL: the relay has no collector. Borrowed until free. */
const struct pfl_trace_rows *pfl_collector_list_get(const struct pfl_collector_list *self);
/* "" or why they could not be listed; likewise. */
const char *pfl_collector_list_get_why(const struct pfl_collector_list *self);
/* Ends it; on_done follows if it did not come yet. */
void pfl_collector_list_abort(struct pfl_collector_list *self);
void pfl_collector_list_free(struct pfl_collector_list *self); /* after on_done; NULL is legal */

#endif
