/* SPDX-License-Identifier: Apache-2.0 */
/* Telling whoever started the service that it listens. */
#ifndef PFL_SERVICE_READINESS_H
#define PFL_SERVICE_READINESS_H

/* Opens the way to NOTIFY_SOCKET, if the environment has it: in the sandbox nothing is opened. */
void pfl_readiness_open(void);
/* Writes "1" to the descriptor of TRACED_NOTIFY_FD and closes it, and sends READY=1 to
 * NOTIFY_SOCKET; each if the environment has it. Failures are logged. Once, after open. */
void pfl_readiness_tell(void);

#endif
