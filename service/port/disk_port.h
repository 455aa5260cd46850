/* SPDX-License-Identifier: Apache-2.0 */
/* Files of sessions, each with its own thread: a disk that hangs delays only its file. */
#ifndef PFL_SERVICE_DISK_PORT_H
#define PFL_SERVICE_DISK_PORT_H

#include "base/io/wakeup.h"
#include "service/core/disk.h"

/* `disk` is a pfl_wakeup: open files hold it until they are closed and their job is done. */
extern const struct pfl_disk_ops pfl_disk_port_ops;

#endif
