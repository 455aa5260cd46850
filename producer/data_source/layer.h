/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The optional layer above the data sources: track events. Lower layers call it only through this
 * table; a program without track events has no table.
 */
#ifndef PFL_PRODUCER_LAYER_H
#define PFL_PRODUCER_LAYER_H

#include "producer/perfleet.h"

struct pfl_layer {
    void (*flush_thread)(void); /* commits what the calling thread wrote */
    void (*drop_thread)(void);  /* frees the writers of the calling thread */
    /* The connection's thread, in each turn. */
    void (*on_turn)(struct perfleet *tracing);
    /* The data source is about to be freed. Any thread. */
    void (*on_source_free)(const struct perfleet_source *source);
    /* In the child of a fork: takes no lock. */
    void (*on_fork)(void);
};

/* Call before the layer's first data source. `layer` is in static storage; the same one may be
 * registered repeatedly. Any thread. */
void pfl_layer_register(const struct pfl_layer *layer);

/* Each calls the layer's function of the same name; without a layer it does nothing. */
void pfl_layer_flush_thread(void);
void pfl_layer_drop_thread(void);
void pfl_layer_on_turn(struct perfleet *tracing);
void pfl_layer_on_source_free(const struct perfleet_source *source);
void pfl_layer_on_fork(void);

#endif
