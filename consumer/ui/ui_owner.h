/* SPDX-License-Identifier: Apache-2.0 */
/* The user at the other end of a loopback connection. */
#ifndef PFL_CONSUMER_UI_UI_OWNER_H
#define PFL_CONSUMER_UI_UI_OWNER_H

#include <stdbool.h>
#include <stdint.h>

/*
 * True if the kernel's table says that it belongs to this process's user or to root; `fd` was
 * accepted on `own_port`. Another user of this machine can reach the port, and must not use this
 * operator's certificate.
 */
bool pfl_ui_owner_is_ours(int fd, uint16_t own_port);

/* True if it belongs to `uid`. */
bool pfl_ui_owner_is(int fd, uint16_t own_port, uint32_t uid);

#endif
