/* SPDX-License-Identifier: Apache-2.0 */
/* What a row of the list of hosts has of a service's state. Pure. */
#ifndef PFL_CONSUMER_WEB_FRAME_HOST_FACTS_H
#define PFL_CONSUMER_WEB_FRAME_HOST_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

#define PFL_HOST_FACTS_WHY_MAX     256u
#define PFL_HOST_FACTS_VERSION_MAX 64u

/* Causes of losses, as in docs/metrics.md. */
enum pfl_host_loss {
    PFL_HOST_LOSS_WRITER_DROPPED,
    PFL_HOST_LOSS_MALFORMED,
    PFL_HOST_LOSS_NO_BUFFER,
    PFL_HOST_LOSS_PATCH_WITHOUT_BUFFER,
    PFL_HOST_LOSS_NOT_COMMITTED,
    PFL_HOST_LOSS_INVALID_PACKET,
    PFL_HOST_LOSS_OVERWRITTEN,
    PFL_HOST_LOSS_DISCARDED,
    PFL_HOST_LOSS_PATCH_FAILED,
    PFL_HOST_LOSSES
};

struct pfl_host_facts {
    char why[PFL_HOST_FACTS_WHY_MAX]; /* "" or why the host could not be asked */
    char service[PFL_HOST_FACTS_VERSION_MAX];
    uint64_t producers;
    uint64_t sources;
    uint64_t sessions;
    bool has_figures; /* perfleetd's only */
    uint64_t lost;    /* chunks and packets that no buffer has, since the service began */
    uint64_t losses[PFL_HOST_LOSSES];
    uint64_t ring_bytes;
    uint64_t ring_used_bytes;
    uint64_t asked_ms; /* of the caller's clock */
};

/* From a serialized TracingServiceState. PFL_EPARSE, PFL_ENOMEM. */
PFL_MUST_USE int pfl_host_facts_parse(struct pfl_span state, struct pfl_host_facts *ret_facts);

#endif
