/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of hosts in a relay's metrics: those of the hosts that an operator may know. Each
 * viewer's text is made some hosts at a time, viewers taking turns, and kept for
 * PFL_HOST_FIGURES_FRESH_MS. A core.
 */
#ifndef PFL_RELAY_HUB_HOST_FIGURES_H
#define PFL_RELAY_HUB_HOST_FIGURES_H

#include "base/metrics.h"
#include "relay/hub/peer_table.h"

/* Texts at a time; further viewers wait. */
#define PFL_HOST_FIGURES_VIEWERS 20u
/* How long a text is given to all who ask for it, and kept. */
#define PFL_HOST_FIGURES_FRESH_MS 1000u

/* Families with rows of hosts. */
enum pfl_host_figure {
    PFL_HOST_FIGURE_CONNECTED,
    PFL_HOST_FIGURE_STREAMS,
    PFL_HOST_FIGURE_CLOCK_OFFSET,
    PFL_HOST_FIGURE_CLOCK_ERROR,
    PFL_HOST_FIGURE_CERTIFICATE,
    PFL_HOST_FIGURES
};

enum pfl_host_figures_state {
    PFL_HOST_FIGURES_FREE,
    PFL_HOST_FIGURES_MAKING,
    PFL_HOST_FIGURES_MADE
};

struct pfl_host_figures_view {
    char viewer[PFL_IDENTITY_NAME_BYTES]; /* "": sees all; an operator's name is never empty */
    enum pfl_host_figures_state state;
    size_t bucket;      /* of the inventory: the next one */
    unsigned connected; /* hosts so far, seen or not */
    uint64_t made_ms;
    struct pfl_metrics families[PFL_HOST_FIGURES]; /* owned */
};

struct pfl_host_figures {
    const struct pfl_peer_table *peers; /* borrowed */
    struct pfl_host_figures_view views[PFL_HOST_FIGURES_VIEWERS];
    size_t next; /* whose turn it is */
};

/* Zeroed memory with `peers` set is ready to use. */
void pfl_host_figures_fini(struct pfl_host_figures *self);
/* `viewer`: an operator, or "" for all hosts. True: its text is there, for this turn of the loop at
 * least. False: it is being made, or waits for a place; ask again after each that is made or
 * dropped. */
bool pfl_host_figures_ask(struct pfl_host_figures *self, const char *viewer, uint64_t now_ms);
bool pfl_host_figures_is_making(const struct pfl_host_figures *self);
/* Some more hosts of the next text. True: a text is complete. */
bool pfl_host_figures_proceed(struct pfl_host_figures *self, uint64_t now_ms);
/* The policy has changed: drops all texts, and begins those again that were being made. */
void pfl_host_figures_restart(struct pfl_host_figures *self);
/* Frees texts that are no longer fresh. True: one is left. */
bool pfl_host_figures_drop_old(struct pfl_host_figures *self, uint64_t now_ms);
/* Appends the viewer's rows, for whom ask has returned true. */
void pfl_host_figures_collect(const struct pfl_host_figures *self, const char *viewer,
                              struct pfl_metrics *metrics);

#endif
