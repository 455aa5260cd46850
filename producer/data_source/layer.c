/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of the optional layer: see layer.h. One pointer, set once; release and acquire, because
 * threads of the program and of the library read it. Owns nothing, cannot fail.
 */
#include "producer/data_source/layer.h"

#include <stdatomic.h>
#include <stddef.h>

static _Atomic(const struct pfl_layer *) registered;

static const struct pfl_layer *get_layer(void)
{
    return atomic_load_explicit(&registered, memory_order_acquire);
}

void pfl_layer_register(const struct pfl_layer *layer)
{
    atomic_store_explicit(&registered, layer, memory_order_release);
}

void pfl_layer_flush_thread(void)
{
    const struct pfl_layer *layer = get_layer();

    if (layer != NULL)
        layer->flush_thread();
}

void pfl_layer_drop_thread(void)
{
    const struct pfl_layer *layer = get_layer();

    if (layer != NULL)
        layer->drop_thread();
}

void pfl_layer_on_turn(struct perfleet *tracing)
{
    const struct pfl_layer *layer = get_layer();

    if (layer != NULL)
        layer->on_turn(tracing);
}

void pfl_layer_on_source_free(const struct perfleet_source *source)
{
    const struct pfl_layer *layer = get_layer();

    if (layer != NULL)
        layer->on_source_free(source);
}

void pfl_layer_on_fork(void)
{
    const struct pfl_layer *layer = get_layer();

    if (layer != NULL)
        layer->on_fork();
}
