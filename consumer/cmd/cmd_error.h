/* SPDX-License-Identifier: Apache-2.0 */
/* What went wrong, said to a person. */
#ifndef PFL_CONSUMER_CMD_ERROR_H
#define PFL_CONSUMER_CMD_ERROR_H

#include <stddef.h>

/* "perfleet: <message>" on stderr. */
void pfl_cmd_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* While a command draws a screen: the last message goes into `room` instead of to stderr. NULL: to
 * stderr again. */
void pfl_cmd_error_keep(char *room, size_t size);

#endif
