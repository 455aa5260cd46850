/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service's counters and gauges, for monitoring (docs/metrics.md). What sessions counted is
 * kept when they are freed, so that sums never fall. Pure.
 */
#ifndef PFL_SERVICE_FIGURES_H
#define PFL_SERVICE_FIGURES_H

#include <stdint.h>

#include "base/message.h"
#include "proto/ipc/figures.h"

struct pfl_service;
struct pfl_session;
struct pfl_trace_buffer;

struct pfl_figures {
    uint64_t values[PFL_FIGURES];
};

/* Call before the session loses its buffers; for a clone only what was read of it is counted. */
void pfl_figures_keep_session(struct pfl_figures *gone, const struct pfl_session *session);
/* Call before this buffer is taken from a session. */
void pfl_figures_keep_buffer(struct pfl_figures *gone, const struct pfl_trace_buffer *buffer);

/* Walks producers, sessions and their buffers. */
void pfl_figures_gather(const struct pfl_service *service, struct pfl_figures *ret_figures);
/* Appends all of them as varints. */
void pfl_figures_encode(struct pfl_message *m, const struct pfl_figures *figures);

#endif
