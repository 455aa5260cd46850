/* SPDX-License-Identifier: Apache-2.0 */
/* What a session has to do with VMs (docs/abi/protovm.md): who gets one, and what its trace tells.
 */
#ifndef PFL_SERVICE_SESSION_VMS_H
#define PFL_SERVICE_SESSION_VMS_H

#include "service/core/message.h"
#include "service/core/service.h"
#include "service/core/session.h"

/* A longer packet would not be taken by who records many hosts; VMs that do not fit are left out.
 */
#define PFL_SESSION_VMS_MAX_BYTES (60u << 20)

/* The producer's program and the config's wish make a VM of the target buffer, if both are there.
 * What is missing, and a VM that cannot be, is logged: the session goes on without it. */
void pfl_session_vms_set_up(struct pfl_service *service, struct pfl_session *session,
                            const struct pfl_producer *producer,
                            const struct pfl_data_source *source, size_t plan_source);

/* Appends the packet with programs and states as a Trace.packet field; nothing when there is no VM.
 * The buffer's maximum is 1 KiB more than PFL_SESSION_VMS_MAX_BYTES. */
void pfl_session_vms_encode(struct pfl_message *m, const struct pfl_service *service,
                            const struct pfl_session *session);

/* The buffer has none any more: what they held is given back. */
void pfl_session_vms_moved(struct pfl_service *service, struct pfl_session *session, size_t buffer);

#endif
