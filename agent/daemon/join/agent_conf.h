/* SPDX-License-Identifier: Apache-2.0 */
/* Keys that perfleet-agent join adds to the agent's settings file. */
#ifndef PFL_AGENT_AGENT_CONF_H
#define PFL_AGENT_AGENT_CONF_H

#include <stdbool.h>

#include "base/err.h"

/* True if it can be written between quotes without escapes. */
bool pfl_agent_conf_is_plain(const char *value);
/*
 * Appends `key: "value"` to the file, which is created if it does not exist. A file that has the
 * key is unchanged. The value is plain. PFL_EIO with errno.
 */
PFL_MUST_USE int pfl_agent_conf_add(const char *path, const char *key, const char *value);

#endif
