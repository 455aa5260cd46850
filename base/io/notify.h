/* SPDX-License-Identifier: Apache-2.0 */
/* Tells the service manager how we are doing: one datagram to $NOTIFY_SOCKET (sd_notify(3)). */
#ifndef PFL_BASE_IO_NOTIFY_H
#define PFL_BASE_IO_NOTIFY_H

/* "READY=1" and the like; does nothing without a service manager. */
void pfl_notify_send(const char *state);

#endif
