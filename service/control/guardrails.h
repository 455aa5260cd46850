/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits on the service's own memory and CPU time (Perfetto's guardrails, docs/abi/service.md
 * section 14), checked every PFL_GUARDRAILS_PERIOD_MS. Pure; measurements are arguments.
 */
#ifndef PFL_SERVICE_GUARDRAILS_H
#define PFL_SERVICE_GUARDRAILS_H

#include "service/core/service.h"

#define PFL_GUARDRAILS_PERIOD_MS    30000u
#define PFL_GUARDRAILS_MEMORY_BYTES (64u << 20) /* besides buffers and shared memory */
#define PFL_GUARDRAILS_CPU_PERCENT  90u
#define PFL_GUARDRAILS_CPU_LOOKS    20u  /* periods over which CPU time is averaged */
#define PFL_GUARDRAILS_STUCK_S      180u /* one turn of the loop */

struct pfl_guardrails_look {
    uint64_t now_ms;
    uint64_t resident_bytes;
    uint64_t cpu_ms; /* of all threads since the process began */
};

struct pfl_guardrails {
    struct pfl_guardrails_look looks[PFL_GUARDRAILS_CPU_LOOKS]; /* a ring */
    size_t count;
    bool was_over; /* at the last measurement */
};

enum pfl_guardrails_verdict {
    PFL_GUARDRAILS_WELL,
    PFL_GUARDRAILS_MEMORY, /* for a whole period */
    PFL_GUARDRAILS_CPU,    /* for PFL_GUARDRAILS_CPU_LOOKS periods */
};

/* What buffers, as configured, producers' memory, peers' registrations and configs may take, plus
 * PFL_GUARDRAILS_MEMORY_BYTES. */
uint64_t pfl_guardrails_get_limit(const struct pfl_service *service);
/* `self` is zeroed before the first call. */
enum pfl_guardrails_verdict pfl_guardrails_judge(struct pfl_guardrails *self,
                                                 const struct pfl_guardrails_look *look,
                                                 uint64_t limit_bytes);

#endif
