/* SPDX-License-Identifier: Apache-2.0 */
/* Files of sessions, each with its own thread: a disk that hangs delays only its file. */
#ifndef PFL_SERVICE_DISK_PORT_H
#define PFL_SERVICE_DISK_PORT_H

#include "base/io/wakeup.h"
#include "service/core/disk.h"

/* `disk` is a pfl_wakeup: open files hold it until they are closed and their job is done. */
extern const struct pfl_disk_ops pfl_disk_port_ops;

/* On the loop: how many threads have work, and a number that changes while it makes progress. */
unsigned pfl_disk_port_get_busy(void);
uint64_t pfl_disk_port_get_progress(void);

#endif
