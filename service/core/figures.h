/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the service counts, for those who watch it (docs/metrics.md): of what is there now, and of
 * what was. What sessions count is kept when they go, so that sums never fall. Pure.
 */
#ifndef PFL_SERVICE_FIGURES_H
#define PFL_SERVICE_FIGURES_H

#include <stdint.h>

#include "proto/ipc/figures.h"
#include "service/core/message.h"

struct pfl_service;
struct pfl_session;
struct pfl_trace_buffer;

struct pfl_figures {
    uint64_t values[PFL_FIGURES];
};

/* The session is about to lose its buffers; a clone counts what was read of it alone. */
void pfl_figures_keep_session(struct pfl_figures *gone, const struct pfl_session *session);
/* This buffer of a session is about to be taken from it. */
void pfl_figures_keep_buffer(struct pfl_figures *gone, const struct pfl_trace_buffer *buffer);

/* Walks producers, sessions and their buffers. */
void pfl_figures_gather(const struct pfl_service *service, struct pfl_figures *ret_figures);
/* Appends all of them, one varint each. */
void pfl_figures_encode(struct pfl_message *m, const struct pfl_figures *figures);

#endif
