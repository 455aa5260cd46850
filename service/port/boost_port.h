/* SPDX-License-Identifier: Apache-2.0 */
/* Sets the scheduling of the calling thread for pfl_service_conf.boost. */
#ifndef PFL_SERVICE_BOOST_PORT_H
#define PFL_SERVICE_BOOST_PORT_H

#include "service/plan/session_plan.h"

/* PFL_BOOST_NONE: the state at the first call. PFL_EPERM: the host does not allow it; nothing
 * changed. */
PFL_MUST_USE int pfl_boost_port_set(const struct pfl_boost *boost);

#endif
