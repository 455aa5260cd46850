/* SPDX-License-Identifier: Apache-2.0 */
/* Settings that a service manager passes in environment variables. */
#ifndef PFL_BASE_ENV_H
#define PFL_BASE_ENV_H

#include <stdbool.h>
#include <stdint.h>

/* A decimal number; false when the variable is not set or is anything else. */
bool pfl_env_read_number(const char *variable, uint64_t *ret_value);

#endif
