/* SPDX-License-Identifier: Apache-2.0 */
/* `perfleet-agent renew`: the host's next certificate, asked for with the present one. */
#ifndef PFL_AGENT_RENEW_PORT_H
#define PFL_AGENT_RENEW_PORT_H

#include "agent/daemon/port.h"

#define PFL_RENEW_DEFAULT_PORT 9911u /* a relay's join port */

enum pfl_renew_mode {
    PFL_RENEW_IF_DUE, /* when less than a third of its life is left */
    PFL_RENEW_ASK,    /* only says whether it is due, by the exit code */
    PFL_RENEW_NOW,
};

/* Files and relays as the agent has them. Returns the exit code; says on stdout and stderr what
 * there is to say. */
int pfl_agent_renew(const struct pfl_agent_conf *conf, unsigned join_port,
                    enum pfl_renew_mode mode);

#endif
