/* SPDX-License-Identifier: Apache-2.0 */
/* Whose program is at the other end of a connection on loopback. */
#ifndef PFL_CONSUMER_UI_UI_OWNER_H
#define PFL_CONSUMER_UI_UI_OWNER_H

#include <stdbool.h>
#include <stdint.h>

/*
 * It is this process's user's, or root's, by the kernel's table; `fd` was accepted on `own_port`.
 * Whoever can reach the port may be another user of this machine, who is not to have this
 * operator's certificate.
 */
bool pfl_ui_owner_is_ours(int fd, uint16_t own_port);

#endif
