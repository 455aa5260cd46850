/* SPDX-License-Identifier: Apache-2.0 */
/* An operator's alarms at many hosts, as their agents list them; alarms for one session are one
 * row. Pure. */
#ifndef PFL_CONSUMER_WEB_RUNNING_ALARM_ROWS_H
#define PFL_CONSUMER_WEB_RUNNING_ALARM_ROWS_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/err.h"

#define PFL_ALARM_ROWS_MAX        100u
#define PFL_ALARM_ROWS_NAME_BYTES 64u /* as names of alarms have */
#define PFL_ALARM_ROWS_TEXT_BYTES 256u

/* How many of its hosts are in each state. */
enum pfl_alarm_state {
    PFL_ALARM_ARMING,
    PFL_ALARM_ARMED,
    PFL_ALARM_COPYING,
    PFL_ALARM_COPIED,
    PFL_ALARM_FAILED,
    PFL_ALARM_OTHER, /* of a newer agent */
    PFL_ALARM_STATES,
};

struct pfl_alarm_row {
    char session[PFL_ALARM_ROWS_NAME_BYTES];
    char triggers[PFL_ALARM_ROWS_TEXT_BYTES]; /* on the first host: names, ", " between */
    char hosts[PFL_ALARM_ROWS_TEXT_BYTES];    /* names of the first ones */
    size_t hosts_len;
    size_t states[PFL_ALARM_STATES];
    char trigger[PFL_ALARM_ROWS_NAME_BYTES];  /* that was raised, at the first host; "": none */
    char at[PFL_ALARM_ROWS_TEXT_BYTES];       /* the host where it was raised */
    char why_host[PFL_ALARM_ROWS_TEXT_BYTES]; /* the first host that says why; "": none */
    char why[PFL_ALARM_ROWS_TEXT_BYTES];
};

struct pfl_alarm_rows {
    struct pfl_alarm_row rows[PFL_ALARM_ROWS_MAX];
    size_t len;
    size_t left_out; /* alarms for which there was no row left, or without a session's name */
};

/* An agent's answer, untrusted: {"alarms": [...]}. PFL_EPARSE, also without memory. */
PFL_MUST_USE int pfl_alarm_rows_add(struct pfl_alarm_rows *self, const char *host,
                                    struct pfl_span answer);
/* Does the answer have an alarm for this session? */
bool pfl_alarm_rows_has(struct pfl_span answer, const char *session);
/* "armed" */
const char *pfl_alarm_rows_name(enum pfl_alarm_state state);

#endif
