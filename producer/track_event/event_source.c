/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data source "track_event" as threads and categories use it.
 *
 * Happy path: track_event.c registers it; a thread that sees an active category asks for a writer,
 * once per session; a new category wakes the connection's thread, which describes the list again.
 *
 * Failures: when the connection is closed nothing is left: events find no data source and are left
 * out. Ownership: the connection owns the data source; the lock lets no thread use it while it is
 * freed.
 */
#include "producer/track_event/event_source.h"

#include <pthread.h>
#include <stdatomic.h>

#include "producer/data_source/source.h"
#include "producer/data_source/threads.h"
#include "producer/ipc/client.h"
#include "producer/platform/reentrancy.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards source and settings */
static struct pfl_source *source;                        /* borrowed from its connection */
static struct pfl_event_settings settings[PERFLEET_MAX_INSTANCES];
static atomic_bool is_list_changed; /* since the data source was described */

int pfl_event_source_register(struct perfleet *tracing, const struct perfleet_source_conf *conf)
{
    struct perfleet_source *registered;
    int rc = PERFLEET_EEXIST;

    pthread_mutex_lock(&lock);
    if (source == NULL) {
        rc = perfleet_register(tracing, conf, &registered);
        if (rc == 0)
            source = (struct pfl_source *)(void *)registered;
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

void pfl_event_source_forget(const struct perfleet_source *freed)
{
    pthread_mutex_lock(&lock);
    if (source != NULL && &source->pub == freed)
        source = NULL;
    pthread_mutex_unlock(&lock);
}

void pfl_event_source_set_settings(uint32_t instance, const struct pfl_event_settings *new_settings)
{
    pthread_mutex_lock(&lock);
    settings[instance] = *new_settings;
    pthread_mutex_unlock(&lock);
}

int pfl_event_source_open_sequence(uint32_t instance, struct pfl_event_sequence *sequence)
{
    int rc = PFL_EINVAL;

    pthread_mutex_lock(&lock);
    if (source != NULL) {
        sequence->settings = settings[instance];
        sequence->life = pfl_threads_life(source->slot, instance);
        sequence->clears = pfl_threads_clears(source->slot, instance);
        rc = pfl_source_open_writer(source, instance, &sequence->writer);
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

void pfl_event_source_on_categories(void)
{
    pfl_reentrancy_enter();
    pthread_mutex_lock(&lock);
    if (source != NULL && !atomic_exchange(&is_list_changed, true))
        pfl_client_wake(source->owner);
    pthread_mutex_unlock(&lock);
    pfl_reentrancy_leave();
}

bool pfl_event_source_has_new_categories(void)
{
    return atomic_load_explicit(&is_list_changed, memory_order_relaxed);
}

void pfl_event_source_update(struct perfleet *tracing, const void *descriptor, size_t bytes)
{
    pthread_mutex_lock(&lock);
    if (source != NULL && source->owner == tracing && atomic_exchange(&is_list_changed, false))
        (void)perfleet_update(tracing, &source->pub, descriptor, bytes);
    pthread_mutex_unlock(&lock);
}
