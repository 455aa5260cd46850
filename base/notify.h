/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells the service manager how we are doing: datagrams to $NOTIFY_SOCKET (sd_notify(3)), and signs
 * of life within $WATCHDOG_USEC (sd_watchdog_enabled(3)). Everything does nothing without a
 * manager.
 */
#ifndef PFL_BASE_NOTIFY_H
#define PFL_BASE_NOTIFY_H

#include <stdint.h>

/* Connects, for a process that cannot make sockets later (a sandbox); logged when it fails. */
void pfl_notify_open(void);
/* "READY=1" and the like. */
void pfl_notify_send(const char *state);
/* RELOADING=1 with the time that Type=notify-reload wants; READY=1 ends it. */
void pfl_notify_send_reloading(void);

/* How often to send WATCHDOG=1, half of what the manager allows; 0: it expects none of us. */
uint64_t pfl_notify_get_watchdog_ms(void);
/* For a loop that polls: sends WATCHDOG=1 when it is due and returns how long poll may wait, at
 * most `timeout_ms` (-1: as long as it takes). `due_ms` begins with 0. */
int pfl_notify_watch(uint64_t *due_ms, uint64_t now_ms, int timeout_ms);

#endif
