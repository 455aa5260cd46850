/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports the process's state to the service manager: datagrams to $NOTIFY_SOCKET (sd_notify(3)),
 * and signs of life within $WATCHDOG_USEC (sd_watchdog_enabled(3)). Without a manager all functions
 * do nothing.
 */
#ifndef PFL_BASE_NOTIFY_H
#define PFL_BASE_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* How long to wait for a manager that accepts no datagram. */
#define PFL_NOTIFY_WAIT_MS 100

/* Connects, for a process that cannot make sockets later (a sandbox); a failure is logged. */
void pfl_notify_open(void);
/* A state of sd_notify(3): READY=1, STOPPING=1, WATCHDOG=1, or what perfleet-keep's child sent. */
void pfl_notify_send(const char *state);
/* RELOADING=1 with the time that Type=notify-reload wants; READY=1 ends it. */
void pfl_notify_send_reloading(void);

/*
 * The manager's store keeps descriptors when this process dies for any reason, and passes them to
 * the next process of the same service (base/stored_fds.h).
 */
/* There is a manager with a store ($FDSTORE is above 0). */
bool pfl_notify_has_store(void);
/* Stores a duplicate of `fd` (borrowed) in the manager under that name: 1 to 63 of A-Z a-z 0-9 . _
 * -. Names need not be unique. Success means that the datagram was sent; the manager does not
 * answer. PFL_ESTATE: no manager; PFL_EAGAIN: it accepted none for PFL_NOTIFY_WAIT_MS; PFL_EIO:
 * failed, logged. */
PFL_MUST_USE int pfl_notify_store(const char *name, int fd);
/* The manager drops what it has under that name. A failure to send is logged. */
void pfl_notify_unstore(const char *name);

/* The period of WATCHDOG=1, half of the manager's limit; 0: it expects none from this process. */
uint64_t pfl_notify_get_watchdog_ms(void);
/* For a loop that polls: sends WATCHDOG=1 when it is due and returns the timeout for poll, at most
 * `timeout_ms` (-1: no limit). `due_ms` begins with 0. */
int pfl_notify_watch(uint64_t *due_ms, uint64_t now_ms, int timeout_ms);

#endif
