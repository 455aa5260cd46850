/* SPDX-License-Identifier: Apache-2.0 */
/* The audit log: one JSON line for each control action, with operator, address, action, host and
 * result. */
#ifndef PFL_RELAY_POLICY_AUDIT_LOG_PORT_H
#define PFL_RELAY_POLICY_AUDIT_LOG_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct pfl_audit_log;

/* `path` NULL: no audit log; every function is legal and does nothing. The file is appended to,
 * created with mode 0600; the path is borrowed for reopening. Logs failures. PFL_EIO,
 * PFL_ENOMEM. */
PFL_MUST_USE int pfl_audit_log_open(const char *path, struct pfl_audit_log **ret_audit);
/* Call after the file was moved away. */
void pfl_audit_log_reopen(struct pfl_audit_log *self);
void pfl_audit_log_close(struct pfl_audit_log *self);

#define PFL_AUDIT_LOG_DETAIL_BYTES 320u

struct pfl_audit_log_entry {
    const char *who;     /* the operator's name */
    const char *address; /* the operator's address */
    const char *action;  /* docs/man/perfleet-audit.5.md has them all */
    const char *host;
    const char *stream; /* its id; "" */
    unsigned status;    /* the answer's; 0: none */
    bool is_refused;    /* a refusal: it counts against the rate of refusals */
    uint64_t bytes_to_host;
    uint64_t bytes_to_operator;
    const char *method; /* of ConsumerPort; NULL: omitted */
    const char
        *detail; /* of anybody's making: what JSON does not take as it is is replaced; NULL or
                    "": the line has none */
};

void pfl_audit_log_write(struct pfl_audit_log *self, const struct pfl_audit_log_entry *entry);

#endif
