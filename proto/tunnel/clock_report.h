/* SPDX-License-Identifier: Apache-2.0 */
/* What one exchange about the clock has measured, as a header field from relay to agent
 * (docs/protocol-tunnel.md, "Clock"). Pure. */
#ifndef PFL_PROTO_TUNNEL_CLOCK_REPORT_H
#define PFL_PROTO_TUNNEL_CLOCK_REPORT_H

#include <stdint.h>

#include "proto/tunnel/identity.h"

#define PFL_CLOCK_REPORT_BOOT_ID_BYTES 37u /* 36 hex digits and hyphens, with NUL */
#define PFL_CLOCK_REPORT_TEXT_BYTES    200u

struct pfl_clock_report {
    char relay[PFL_IDENTITY_NAME_BYTES];
    char relay_boot_id[PFL_CLOCK_REPORT_BOOT_ID_BYTES];
    int64_t offset_ns; /* the host's boot clock - the relay's */
    uint64_t error_ns; /* at most */
    uint64_t host_boot_ns;
    uint64_t relay_unix_ns;
};

/* Numbers above INT64_MAX are cut to that. */
void pfl_clock_report_write(const struct pfl_clock_report *self,
                            char ret_text[PFL_CLOCK_REPORT_TEXT_BYTES]);
/* PFL_EPARSE. */
PFL_MUST_USE int pfl_clock_report_read(const char *text_untrusted,
                                       struct pfl_clock_report *ret_report);
/* 36 hex digits and hyphens, as /proc/sys/kernel/random/boot_id. */
bool pfl_clock_report_is_boot_id(const char *text_untrusted);

#endif
