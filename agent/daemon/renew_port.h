/* SPDX-License-Identifier: Apache-2.0 */
/* `perfleet-agent renew`: gets the host's next certificate with the present one. */
#ifndef PFL_AGENT_RENEW_PORT_H
#define PFL_AGENT_RENEW_PORT_H

#include "agent/daemon/port.h"

#define PFL_RENEW_DEFAULT_PORT 9911u /* a relay's join port */

enum pfl_renew_mode {
    PFL_RENEW_IF_DUE, /* when less than a third of its life is left */
    PFL_RENEW_ASK,    /* only reports whether it is due, by the exit code */
    PFL_RENEW_NOW,
};

/* Uses files and relays of the agent. Returns the exit code; reports on stdout and stderr. */
int pfl_agent_renew(const struct pfl_agent_conf *conf, unsigned join_port,
                    enum pfl_renew_mode mode);

#endif
