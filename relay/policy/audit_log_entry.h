/* SPDX-License-Identifier: Apache-2.0 */
/* One line of the audit log, as values: cores fill it, the shell writes it (audit_log_port.h). */
#ifndef PFL_RELAY_POLICY_AUDIT_LOG_ENTRY_H
#define PFL_RELAY_POLICY_AUDIT_LOG_ENTRY_H

#include <stdbool.h>
#include <stdint.h>

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
    const char *detail; /* untrusted: characters that JSON lacks are replaced; NULL, "": none */
};

#endif
