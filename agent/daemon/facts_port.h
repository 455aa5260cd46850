/* SPDX-License-Identifier: Apache-2.0 */
/* Host facts (name, kernel, CPUs) for the hello. */
#ifndef PFL_AGENT_FACTS_PORT_H
#define PFL_AGENT_FACTS_PORT_H

#include "agent/daemon/hello.h"

void pfl_facts_gather(struct pfl_hello_facts *ret_facts);

#endif
