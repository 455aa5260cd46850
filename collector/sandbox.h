/* SPDX-License-Identifier: Apache-2.0 */
/* What is left to the collector once it runs. */
#ifndef PFL_COLLECTOR_SANDBOX_H
#define PFL_COLLECTOR_SANDBOX_H

#include "collector/daemon.h"

/* `index`: as struct pfl_index_conf has it. */
PFL_MUST_USE int pfl_collector_sandbox_enter(const struct pfl_collector_conf *conf,
                                             const char *index);

#endif
