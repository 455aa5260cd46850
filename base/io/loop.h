/* SPDX-License-Identifier: Apache-2.0 */
/* Makes every libuv loop: one without io_uring, docs/adr/0029. */
#ifndef PFL_BASE_IO_LOOP_H
#define PFL_BASE_IO_LOOP_H

#include <uv.h>

#include "base/err.h"

/* Makes a loop like uv_loop_init, which no other code calls. The loop has no io_uring, so that it
 * makes the same system calls with every libuv and the sandbox need not allow io_uring. The calling
 * thread, and those it starts later, are not restricted by this. PFL_EIO. */
PFL_MUST_USE int pfl_loop_init(uv_loop_t *loop);

#endif
