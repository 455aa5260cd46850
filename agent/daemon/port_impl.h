/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent, for its files alone. port.c (relays) calls restart_port.c (streams of the process
 * before) and requests_port.c (what relays ask), which calls alarms_port.c, collect_port.c and
 * triggers_port.c; all use parts_port.c and answers.c. metrics_port.c has the figures.
 */
#ifndef PFL_AGENT_PORT_IMPL_H
#define PFL_AGENT_PORT_IMPL_H

#include "agent/daemon/collect/spool_stream_port.h"
#include "agent/daemon/events/events_port.h"
#include "agent/daemon/port.h"
#include "agent/daemon/stream/stream_port.h"
#include "base/io/worker.h"
#include "base/list.h"
#include "base/log.h"
#include "proto/tunnel/identity.h"
#include "proto/tunnel/operator_rates.h"
#include "proto/tunnel/route.h"
#include "tunnel/dialer.h"

struct pfl_agent_uplink {
    struct pfl_agent *agent;
    struct pfl_dialer *dialer; /* owned until its on_closed */
    struct pfl_log_limit log;
    char address[300];
};

#define PFL_AGENT_RAISE_PER_S   10u /* triggers of one operator */
#define PFL_AGENT_RAISE_AT_ONCE 128u
#define PFL_AGENT_LISTS_PER_S   30u /* of streams, of one operator: 0.1 ms each */
#define PFL_AGENT_LISTS_AT_ONCE 128u

struct pfl_agent {
    struct pfl_agent_conf conf;
    struct pfl_tls_conf *tls; /* a counted reference */
    struct pfl_agent_uplink uplinks[PFL_AGENT_MAX_RELAYS];
    unsigned dialers;
    struct pfl_list streams; /* owned until their on_gone */
    unsigned streams_len;
    uint64_t streams_begun;
    struct pfl_spool_pool pool; /* its worker is owned */
    struct pfl_worker *worker;  /* owned; encodes */
    struct pfl_events events;
    struct pfl_list alarms; /* owned until their on_gone */
    unsigned alarms_len;
    struct pfl_alarm_watch *watch; /* owned until its on_closed; watches the triggers of all */
    struct pfl_list raises;        /* triggers being raised; owned until they are done */
    unsigned raises_len;
    struct pfl_operator_rates raise_rates;
    struct pfl_operator_rates list_rates;
    struct pfl_segments *segments;      /* owned until its on_closed; NULL: no folder */
    struct pfl_orders *orders;          /* likewise */
    struct pfl_worker *segments_worker; /* owned; NULL: no folder */
    char boot_id[40];                   /* the sandbox hides it later */
    uint64_t clock_asked_ms;            /* of relays, for a segment; 0: never */
    struct pfl_spool_streams spools;
    uv_timer_t event_timer; /* when the spool is reported */
    bool is_event_timer_open;
    char label_texts[PFL_HELLO_MAX_LABELS][2 * PFL_HELLO_LABEL_MAX + 2]; /* "name=value" */
    const char *label_list[PFL_HELLO_MAX_LABELS];
    char *hello; /* owned */
    bool is_closing;
    char fleet[PFL_IDENTITY_NAME_BYTES];
    char name[PFL_IDENTITY_NAME_BYTES];
};

/* ---- parts_port.c ---- */

/* Frees it when it is closing and nothing of it is open any more. */
void pfl_agent_finish(struct pfl_agent *self);
/* What all streams have in common. */
void pfl_agent_fill_stream_conf(struct pfl_agent *self, struct pfl_agent_stream_conf *ret_conf);

/* ---- restart_port.c ---- */

/* Restores streams of the previous process; those that cannot continue are logged. */
void pfl_agent_take_streams_back(struct pfl_agent *self, struct pfl_stored_fds *stored);

/* ---- requests_port.c ---- */

/* The h2's on_request; `user` is the uplink. */
void pfl_agent_on_request(void *user, struct pfl_h2_stream *h2_stream,
                          const struct pfl_h2_head *head);

/* ---- answers.c ---- */

void pfl_agent_refuse(struct pfl_h2_stream *h2_stream, unsigned status, const char *title,
                      const char *detail);
void pfl_agent_respond_json(struct pfl_h2_stream *h2_stream, const char *json);
/* A request's role, into `ret_role` (to be freed); empty without one. PFL_EPARSE, PFL_ENOMEM:
 * refused already. */
PFL_MUST_USE int pfl_agent_read_role(struct pfl_h2_stream *h2_stream, const struct pfl_route *route,
                                     struct pfl_buf *ret_role);

/* ---- alarms_port.c ---- */

/* Answers a request for alarms that has an operator's name. */
void pfl_agent_answer_alarms(struct pfl_agent *self, struct pfl_h2_stream *h2_stream,
                             const struct pfl_route *route);
/* Watches the triggers that alarms and orders wait for now. */
void pfl_agent_watch_triggers(struct pfl_agent *self);
PFL_MUST_USE int pfl_agent_open_alarms(struct pfl_agent *self);
void pfl_agent_close_alarms(struct pfl_agent *self);

/* ---- collect_port.c ---- */

void pfl_agent_close_collect(struct pfl_agent *self);
/* Tells relays what waits here. */
void pfl_agent_report_spool(struct pfl_agent *self);
/* Answers a collector's CONNECT that has an operator's name. */
void pfl_agent_connect_spool(struct pfl_agent *self, struct pfl_h2_stream *h2_stream,
                             const struct pfl_route *route);
/* Answers a relay's word that a trigger of an order was raised at another host. */
void pfl_agent_raise_order(struct pfl_agent *self, struct pfl_h2_stream *h2_stream,
                           const struct pfl_route *route);
/* What the relay measured, if the request has it. */
void pfl_agent_note_clock(struct pfl_agent *self, const struct pfl_route *route);

/* ---- triggers_port.c ---- */

/* Raises the triggers of a request that has an operator's name, at this host's service. */
void pfl_agent_raise_triggers(struct pfl_agent *self, struct pfl_h2_stream *h2_stream,
                              const struct pfl_route *route);
void pfl_agent_close_triggers(struct pfl_agent *self);

#endif
