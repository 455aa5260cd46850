/* SPDX-License-Identifier: Apache-2.0 */
/* What `perfleet doctor` finds at the hosts that a config is to be recorded on. Pure. */
#ifndef PFL_CONSUMER_WEB_RECORD_RECORD_FINDINGS_H
#define PFL_CONSUMER_WEB_RECORD_RECORD_FINDINGS_H

#include "base/buf.h"
#include "consumer/web/frame/host_rows.h"

#define PFL_RECORD_FINDINGS_MAX_HOSTS 64u
#define PFL_RECORD_FINDINGS_MAX_BYTES (1u << 20) /* of each host at most 16 lines */

/* What a host answered. */
struct pfl_record_asked {
    const char *name;      /* as in the rows */
    const char *why;       /* "" or why it could not be asked */
    struct pfl_span state; /* serialized TracingServiceState */
};

struct pfl_record_findings {
    const struct pfl_host_rows *rows;
    const struct pfl_record_asked *asked;
    size_t asked_len;       /* at most PFL_RECORD_FINDINGS_MAX_HOSTS */
    struct pfl_span config; /* serialized */
    int64_t now_s;          /* UNIX time */
    const char *version;    /* this program's */
};

/* Appends lines, and a NUL. PFL_ENOMEM, PFL_ELIMIT. */
PFL_MUST_USE int pfl_record_findings_write(const struct pfl_record_findings *self,
                                           struct pfl_buf *out);

#endif
