/* SPDX-License-Identifier: Apache-2.0 */
/* Keys that perfleet-agent join adds to the agent's settings file. */
#ifndef PFL_AGENT_AGENT_CONF_H
#define PFL_AGENT_AGENT_CONF_H

#include <stdbool.h>

#include "base/err.h"

/* It can be written between quotes as it stands. */
bool pfl_agent_conf_is_plain(const char *value);
/*
 * Adds `key: "value"` at the end of the file, which is made where it is not there. A file that has
 * the key already keeps it. The value is plain. PFL_EIO with errno.
 */
PFL_MUST_USE int pfl_agent_conf_add(const char *path, const char *key, const char *value);

#endif
