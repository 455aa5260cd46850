/* SPDX-License-Identifier: Apache-2.0 */
/* Reports to the process that started the service that its sockets listen. */
#ifndef PFL_SERVICE_READINESS_H
#define PFL_SERVICE_READINESS_H

/* Connects to NOTIFY_SOCKET, if the environment has it, because the sandbox forbids that later. */
void pfl_readiness_open(void);
/* Writes "1" to the descriptor of TRACED_NOTIFY_FD and closes it, and sends READY=1 to
 * NOTIFY_SOCKET; each if the environment has it. Failures are logged. Once, after open. */
void pfl_readiness_tell(void);

#endif
