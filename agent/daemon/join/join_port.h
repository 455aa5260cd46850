/* SPDX-License-Identifier: Apache-2.0 */
/* `perfleet-agent join`: exchanges a token for this host's certificate. */
#ifndef PFL_AGENT_JOIN_PORT_H
#define PFL_AGENT_JOIN_PORT_H

/* argv[0] is "join". Returns the exit code: 0 joined, 1 not, 2 wrong usage; messages on stderr. */
int pfl_agent_join(int argc, char **argv);

#endif
