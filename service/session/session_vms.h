/* SPDX-License-Identifier: Apache-2.0 */
/* VMs of a session (docs/abi/protovm.md): which producers get one, and their packet in the
 * trace. */
#ifndef PFL_SERVICE_SESSION_VMS_H
#define PFL_SERVICE_SESSION_VMS_H

#include "base/message.h"
#include "service/core/service.h"
#include "service/core/session.h"

/* perfleet would not accept a longer packet in a recording of many hosts; VMs that do not fit are
 * left out. */
#define PFL_SESSION_VMS_MAX_BYTES (60u << 20)

/* Makes a VM in the target buffer if the producer has a program and the config asks for it. If one
 * of the two is missing, or the VM cannot be made, this is logged: the session continues without
 * it. */
void pfl_session_vms_set_up(struct pfl_service *service, struct pfl_session *session,
                            const struct pfl_producer *producer,
                            const struct pfl_data_source *source, size_t plan_source);

/* Appends the packet with programs and states as a Trace.packet field; nothing when there is no VM.
 * The buffer's maximum is 1 KiB more than PFL_SESSION_VMS_MAX_BYTES. */
void pfl_session_vms_encode(struct pfl_message *m, const struct pfl_service *service,
                            const struct pfl_session *session);

/* Call after the buffer's VMs were moved away: releases their memory from the session's charge. */
void pfl_session_vms_moved(struct pfl_service *service, struct pfl_session *session, size_t buffer);

#endif
