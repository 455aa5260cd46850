/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells the service manager how we are doing: datagrams to $NOTIFY_SOCKET (sd_notify(3)), and signs
 * of life within $WATCHDOG_USEC (sd_watchdog_enabled(3)). Everything does nothing without a
 * manager.
 */
#ifndef PFL_BASE_NOTIFY_H
#define PFL_BASE_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* A manager that takes no datagram for so long is not waited for. */
#define PFL_NOTIFY_WAIT_MS 100

/* Connects, for a process that cannot make sockets later (a sandbox); logged when it fails. */
void pfl_notify_open(void);
/* "READY=1" and the like. */
void pfl_notify_send(const char *state);
/* RELOADING=1 with the time that Type=notify-reload wants; READY=1 ends it. */
void pfl_notify_send_reloading(void);

/*
 * The manager's store: what it keeps when this process dies, however that happens, and gives to the
 * next one of the same service (base/stored_fds.h).
 */
/* There is a manager, and it says that it has a store ($FDSTORE is above 0). */
bool pfl_notify_has_store(void);
/* Gives the manager a descriptor of its own of what `fd` (borrowed) is, by that name: 1 to 63 of
 * A-Z a-z 0-9 . _ -. Whoever keeps names apart gives each only once. It was sent, and the manager
 * says nothing back. PFL_ESTATE no manager; PFL_EAGAIN it took none for PFL_NOTIFY_WAIT_MS;
 * PFL_EIO not taken, logged. */
PFL_MUST_USE int pfl_notify_store(const char *name, int fd);
/* The manager drops what it has by that name. Logged when it cannot be told. */
void pfl_notify_unstore(const char *name);

/* How often to send WATCHDOG=1, half of what the manager allows; 0: it expects none of us. */
uint64_t pfl_notify_get_watchdog_ms(void);
/* For a loop that polls: sends WATCHDOG=1 when it is due and returns how long poll may wait, at
 * most `timeout_ms` (-1: as long as it takes). `due_ms` begins with 0. */
int pfl_notify_watch(uint64_t *due_ms, uint64_t now_ms, int timeout_ms);

#endif
