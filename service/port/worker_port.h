/* SPDX-License-Identifier: Apache-2.0 */
/* Work of the cores in libuv's thread pool. */
#ifndef PFL_SERVICE_WORKER_PORT_H
#define PFL_SERVICE_WORKER_PORT_H

#include <uv.h>

#include "base/err.h"
#include "service/session/work.h"

/* `work->done` follows on the loop; the loop stays alive until then. PFL_ENOMEM, PFL_EIO. */
PFL_MUST_USE int pfl_worker_port_submit(uv_loop_t *loop, struct pfl_work *work);

#endif
