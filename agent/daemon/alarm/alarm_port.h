/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A standing order of an operator's at this host: when one of these triggers is raised, here or at
 * another host that has the same order (the relay passes it on), copy that session and keep the
 * copy for whoever comes to read it. Nobody needs to be connected.
 *
 * Who waits for the triggers of this host is alarm_watch_port.h; its owner says when they are
 * waited for, and when one is raised.
 */
#ifndef PFL_AGENT_ALARM_PORT_H
#define PFL_AGENT_ALARM_PORT_H

#include <uv.h>

#include "base/bytes.h"
#include "base/list.h"
#include "proto/gate/judge.h"
#include "proto/tunnel/identity.h"

#define PFL_AGENT_ALARM_TRIGGERS    8u
#define PFL_AGENT_ALARM_COPY_MS     30000u /* a copy that takes longer has failed */
#define PFL_AGENT_ALARM_COPY_SUFFIX ".triggered"
#define PFL_AGENT_ALARM_WHY_BYTES   256u

struct pfl_agent_alarm;

enum pfl_agent_alarm_state {
    PFL_AGENT_ALARM_ARMING,  /* that its triggers are waited for */
    PFL_AGENT_ALARM_ARMED,   /* a trigger */
    PFL_AGENT_ALARM_COPYING, /* the copy */
    PFL_AGENT_ALARM_COPIED,  /* somebody who reads it */
    PFL_AGENT_ALARM_FAILED,  /* somebody who reads why */
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
    /* Last callback, with the node out of its list. */
    void (*on_gone)(void *user);
    void *user;
};

struct pfl_agent_alarm_info {
    const char *operator_name;
    const char *session;
    const char *state;   /* "armed", ... */
    const char *trigger; /* "": none yet */
    const char *host;    /* where it was raised; "": here */
    const char *why;     /* of FAILED; of ARMING: what is in the way; else "" */
    uint64_t since_ms;   /* in this state for so long */
    bool is_closing;
    bool is_waiting; /* for its triggers: ARMING or ARMED, and not closing */
    const struct pfl_agent_alarm_order *order;
};

/* "a,b" of names into `order`. False: these are none, or too many. */
bool pfl_agent_alarm_read_triggers(const char *text_untrusted, struct pfl_agent_alarm_order *order);
/* May a role have this order: copying the session and leaving the copy. False: `ret_why`
 * (PFL_JUDGE_WHY_BYTES). An empty role may. */
bool pfl_agent_alarm_is_allowed(const char *session, struct pfl_span role, char *ret_why);

/* PFL_ENOMEM. It begins as ARMING. */
PFL_MUST_USE int pfl_agent_alarm_open(const struct pfl_agent_alarm_conf *conf,
                                      struct pfl_agent_alarm **ret_alarm);
/* Its triggers are waited for, or (any more) not, and why. Nothing unless it waits. */
void pfl_agent_alarm_set_watched(struct pfl_agent_alarm *self, bool is_watched, const char *why);
/* A trigger was raised at `host` ("": here). False: it does not wait for that; true: it copies, or
 * has failed to. */
bool pfl_agent_alarm_raise(struct pfl_agent_alarm *self, const char *trigger, const char *host);
/* It was set so long ago. */
uint64_t pfl_agent_alarm_get_age_ms(const struct pfl_agent_alarm *self);
/* on_gone follows. What was copied stays with the service. Idempotent. */
void pfl_agent_alarm_close(struct pfl_agent_alarm *self);
void pfl_agent_alarm_get_info(const struct pfl_agent_alarm *self,
                              struct pfl_agent_alarm_info *ret_info);

/* For the owner's list. */
struct pfl_list *pfl_agent_alarm_get_node(struct pfl_agent_alarm *self);
struct pfl_agent_alarm *pfl_agent_alarm_of_node(struct pfl_list *node);

#endif
