/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fork handlers. The child has no library thread, and the shared memory and the connection are
 * still the parent's. So the child gets private memory instead, closes its copy of the socket,
 * disables every data source, and all functions of the library return early. Locks that were held
 * at the fork stay locked and are never taken in the child; the library's allocations are left
 * alone.
 */
#include "producer/data_source/fork_handlers.h"

#include <pthread.h>

#include "producer/data_source/layer.h"
#include "producer/data_source/source.h"
#include "producer/platform/clock.h"
#include "producer/platform/fork.h"
#include "producer/shared_memory/arbiter.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool is_installed;

static void prepare(void)
{
    pfl_source_list_lock();
    pfl_arbiter_list_lock();
}

static void on_parent(void)
{
    pfl_arbiter_list_unlock();
    pfl_source_list_unlock();
}

static void on_child(void)
{
    pfl_fork_child_flag = true;
    pfl_clock_forget();
    pfl_arbiter_detach_all();
    pfl_source_disable_all();
    pfl_layer_on_fork();
    pfl_arbiter_list_unlock();
    pfl_source_list_unlock();
}

static void install(void)
{
    is_installed = pthread_atfork(prepare, on_parent, on_child) == 0;
}

bool pfl_fork_handlers_install(void)
{
    pthread_once(&once, install);
    return is_installed;
}
