/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An operator's standing order at this host: when one of these triggers is raised, here or at
 * another host with the same order (the relay forwards it), copy that session and keep the copy for
 * later reading. The operator need not be connected.
 *
 * alarm_watch_port.h watches this host's triggers and reports hits to the owner, which calls
 * pfl_agent_alarm_raise.
 */
#ifndef PFL_AGENT_ALARM_PORT_H
#define PFL_AGENT_ALARM_PORT_H

#include <uv.h>

#include "base/bytes.h"
#include "base/list.h"
#include "proto/gate/judge.h"
#include "proto/tunnel/identity.h"

#define PFL_AGENT_ALARM_TRIGGERS    8u
#define PFL_AGENT_ALARM_COPY_MS     30000u /* a copy that takes longer fails */
#define PFL_AGENT_ALARM_COPY_SUFFIX ".triggered"
#define PFL_AGENT_ALARM_WHY_BYTES   256u

struct pfl_agent_alarm;

enum pfl_agent_alarm_state {
    PFL_AGENT_ALARM_ARMING,  /* waits until its triggers are watched */
    PFL_AGENT_ALARM_ARMED,   /* waits for a trigger */
    PFL_AGENT_ALARM_COPYING, /* waits for the copy */
    PFL_AGENT_ALARM_COPIED,  /* waits for a reader of the copy */
    PFL_AGENT_ALARM_FAILED,  /* waits for a reader of the reason */
};

struct pfl_agent_alarm_order {
    const char *operator_name;
    const char *session;
    char triggers[PFL_AGENT_ALARM_TRIGGERS][PFL_IDENTITY_NAME_BYTES];
    size_t triggers_len;
};

struct pfl_agent_alarm_conf {
    uv_loop_t *loop;
    const char *socket;                        /* of the service; borrowed until on_gone */
    const struct pfl_agent_alarm_order *order; /* copied */
    /* Last callback; the node is removed from its list. */
    void (*on_gone)(void *user);
    void *user;
};

struct pfl_agent_alarm_info {
    const char *operator_name;
    const char *session;
    const char *state;   /* "armed", ... */
    const char *trigger; /* "": none yet */
    const char *host;    /* where it was raised; "": here */
    const char *why;     /* the reason of FAILED; of ARMING: what prevents it; else "" */
    uint64_t since_ms;   /* time in this state */
    bool is_closing;
    bool is_waiting; /* for its triggers: ARMING or ARMED, and not closing */
    const struct pfl_agent_alarm_order *order;
};

/* Parses "a,b" of names into `order`. False: invalid, or too many. */
bool pfl_agent_alarm_read_triggers(const char *text_untrusted, struct pfl_agent_alarm_order *order);
/* Does a role permit this order: cloning the session and detaching the clone? False: `ret_why`
 * (PFL_JUDGE_WHY_BYTES). An empty role does. */
bool pfl_agent_alarm_is_allowed(const char *session, struct pfl_span role, char *ret_why);

/* Starts in ARMING. PFL_ENOMEM. */
PFL_MUST_USE int pfl_agent_alarm_open(const struct pfl_agent_alarm_conf *conf,
                                      struct pfl_agent_alarm **ret_alarm);
/* Its triggers are watched now, or not (with the reason). No effect unless it waits for them. */
void pfl_agent_alarm_set_watched(struct pfl_agent_alarm *self, bool is_watched, const char *why);
/* A trigger was raised at `host` ("": here). False: not one of its triggers; true: it copies, or
 * has failed to. */
bool pfl_agent_alarm_raise(struct pfl_agent_alarm *self, const char *trigger, const char *host);
/* Time since it was set. */
uint64_t pfl_agent_alarm_get_age_ms(const struct pfl_agent_alarm *self);
/* on_gone follows. A finished copy stays with the service. Idempotent. */
void pfl_agent_alarm_close(struct pfl_agent_alarm *self);
void pfl_agent_alarm_get_info(const struct pfl_agent_alarm *self,
                              struct pfl_agent_alarm_info *ret_info);

/* For the owner's list. */
struct pfl_list *pfl_agent_alarm_get_node(struct pfl_agent_alarm *self);
struct pfl_agent_alarm *pfl_agent_alarm_of_node(struct pfl_list *node);

#endif
