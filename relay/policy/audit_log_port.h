/* SPDX-License-Identifier: Apache-2.0 */
/* The audit log: one JSON line for each control action, with operator, address, action, host and
 * result. */
#ifndef PFL_RELAY_POLICY_AUDIT_LOG_PORT_H
#define PFL_RELAY_POLICY_AUDIT_LOG_PORT_H

#include "base/err.h"
#include "relay/policy/audit_log_entry.h"

struct pfl_audit_log;

/* `path` NULL: no audit log; every function is legal and does nothing. The file is appended to,
 * created with mode 0600; the path is borrowed for reopening. `is_optional`: what is to be audited
 * may begin also while no line can be written. Logs failures. PFL_EIO, PFL_ENOMEM. */
PFL_MUST_USE int pfl_audit_log_open(const char *path, bool is_optional,
                                    struct pfl_audit_log **ret_audit);
/* Call after the file was moved away. */
void pfl_audit_log_reopen(struct pfl_audit_log *self);
void pfl_audit_log_close(struct pfl_audit_log *self);

/* A line that cannot be written is counted. The next one that can be is preceded by a line with
 * that number (`lost`). False: it was not written, and what it is about may not begin. */
bool pfl_audit_log_write(struct pfl_audit_log *self, const struct pfl_audit_log_entry *entry);
/* Whether something that is to be audited may begin. False: lines were lost, and their number
 * cannot be written now either. */
bool pfl_audit_log_may_begin(struct pfl_audit_log *self);
/* Lines that were lost since the start. */
uint64_t pfl_audit_log_get_lost(const struct pfl_audit_log *self);

#endif
