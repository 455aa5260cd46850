/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about the host for traces, read once at the start. */
#ifndef PFL_SERVICE_HOST_FACTS_H
#define PFL_SERVICE_HOST_FACTS_H

#include "service/core/service_packets.h"

void pfl_host_facts_read(struct pfl_service_facts *ret_facts);

#endif
