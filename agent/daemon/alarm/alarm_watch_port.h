/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches triggers of this host: one session of the service that records nothing (trigger_mode
 * CLONE_SNAPSHOT) has the triggers of all alarms and orders, so that they use one session and hold
 * none of the operators'. When the triggers change, the current session stays until the next one
 * waits.
 */
#ifndef PFL_AGENT_ALARM_WATCH_PORT_H
#define PFL_AGENT_ALARM_WATCH_PORT_H

#include <uv.h>

#include "base/err.h"
#include "proto/tunnel/identity.h"

#define PFL_ALARM_WATCH_TRIGGERS 640u /* of all alarms and orders */
/* A session's life; it is replaced after half of it. */
#define PFL_ALARM_WATCH_SESSION_MS 86400000u
#define PFL_ALARM_WATCH_RETRY_MS   1000u /* after the service was lost, or refused */

struct pfl_alarm_watch;

struct pfl_alarm_watch_set {
    char names[PFL_ALARM_WATCH_TRIGGERS][PFL_IDENTITY_NAME_BYTES];
    size_t len;
};

struct pfl_alarm_watch_conf {
    uv_loop_t *loop;
    const char *socket; /* of the service; borrowed until on_closed */
    uint64_t retry_ms;  /* 0: PFL_ALARM_WATCH_RETRY_MS */
    /* One of the triggers was raised; it may be one of those before the last set. */
    void (*on_hit)(void *user, const char *trigger);
    /* The results of `covers` and `get_why` changed. */
    void (*on_changed)(void *user);
    void (*on_closed)(void *user); /* last callback */
    void *user;
};

/* Ignored if it is there already, or the set is full. */
void pfl_alarm_watch_set_add(struct pfl_alarm_watch_set *set, const char *trigger);
bool pfl_alarm_watch_set_has(const struct pfl_alarm_watch_set *set, const char *trigger);

/* PFL_ENOMEM. Callbacks come from the loop. */
PFL_MUST_USE int pfl_alarm_watch_open(const struct pfl_alarm_watch_conf *conf,
                                      struct pfl_alarm_watch **ret_watch);
/* Watches these from now on (copied); for an empty set there is no session. */
void pfl_alarm_watch_want(struct pfl_alarm_watch *self, const struct pfl_alarm_watch_set *set);
/* True if the trigger is watched now. */
bool pfl_alarm_watch_covers(const struct pfl_alarm_watch *self, const char *trigger);
/* Why the wanted triggers could last not be watched; "": no failure yet. */
const char *pfl_alarm_watch_get_why(const struct pfl_alarm_watch *self);
void pfl_alarm_watch_close(struct pfl_alarm_watch *self);

#endif
