/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data sources and their instances: calls the program back on the connection's thread.
 *
 * Happy path: setup takes a free instance, notes the target buffer and policy, and passes the
 * config to the program; start sets the instance's bit, which is all that PERFLEET_TRACE checks;
 * stop clears it. A thread detects by the generation that its writer belongs to an ended instance
 * (threads.c).
 *
 * Failures: more sessions than instances: the session lacks this program. Ownership: a source owns
 * copies of its conf's strings; a used instance holds a reference on its arbiter. Limits:
 * PERFLEET_MAX_INSTANCES, PFL_SOURCES_IN_PROCESS.
 */
#include "producer/data_source/source.h"

#include <string.h>

#include "perfetto/data_source_config.fields.h"
#include "producer/data_source/threads.h"
#include "producer/platform/fork.h"
#include "producer/platform/heap.h"
#include "producer/platform/reentrancy.h"

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pfl_source *list;                   /* guarded by list_lock */
static bool is_slot_used[PFL_SOURCES_IN_PROCESS]; /* guarded by list_lock */

/* --- the process's list ------------------------------------------------------------------ */

void pfl_source_list_lock(void)
{
    pthread_mutex_lock(&list_lock);
}

void pfl_source_list_unlock(void)
{
    pthread_mutex_unlock(&list_lock);
}

static void set_active(struct pfl_source *self, uint32_t active)
{
    __atomic_store_n(&self->pub.active, active, __ATOMIC_RELEASE);
}

void pfl_source_disable_all(void)
{
    for (struct pfl_source *s = list; s != NULL; s = s->next_in_process)
        set_active(s, 0);
}

static int enlist(struct pfl_source *self)
{
    int rc = PFL_ELIMIT;

    pthread_mutex_lock(&list_lock);
    for (uint32_t i = 0; i < PFL_SOURCES_IN_PROCESS && rc != 0; i++) {
        if (is_slot_used[i])
            continue;
        is_slot_used[i] = true;
        self->slot = i;
        self->next_in_process = list;
        list = self;
        rc = 0;
    }
    pthread_mutex_unlock(&list_lock);
    return rc;
}

static void delist(struct pfl_source *self)
{
    struct pfl_source **at = &list;

    pthread_mutex_lock(&list_lock);
    while (*at != NULL && *at != self)
        at = &(*at)->next_in_process;
    if (*at != NULL) {
        *at = self->next_in_process;
        is_slot_used[self->slot] = false;
    }
    pthread_mutex_unlock(&list_lock);
}

static int copy_conf(struct pfl_source *self, const struct perfleet_source_conf *conf)
{
    size_t name_len = conf->name == NULL ? 0 : strlen(conf->name);

    if (name_len == 0 || name_len > PFL_SOURCE_NAME_MAX ||
        conf->descriptor_fields_bytes > PFL_DESCRIPTOR_MAX ||
        conf->session_state_bytes > PERFLEET_MAX_STATE ||
        conf->thread_state_bytes > PERFLEET_MAX_STATE ||
        (uint32_t)conf->policy > PERFLEET_STALL_THEN_DROP)
        return PFL_EINVAL;
    self->conf = *conf;
    self->conf.name = pfl_heap_copy(conf->name, name_len);
    self->conf.descriptor_fields =
        pfl_heap_copy(conf->descriptor_fields, conf->descriptor_fields_bytes);
    if (self->conf.name == NULL || self->conf.descriptor_fields == NULL)
        return PFL_ENOMEM;
    return 0;
}

static void free_memory(struct pfl_source *self)
{
    pthread_mutex_destroy(&self->lock);
    pfl_heap_free((void *)(uintptr_t)self->conf.name);
    pfl_heap_free((void *)(uintptr_t)self->conf.descriptor_fields);
    pfl_heap_free(self);
}

int pfl_source_new(struct perfleet *owner, pthread_t thread,
                   const struct perfleet_source_conf *conf, struct pfl_source **ret_source)
{
    struct pfl_source *self = pfl_heap_zalloc(sizeof(*self));
    int rc;

    if (self == NULL)
        return PFL_ENOMEM;
    self->owner = owner;
    self->thread = thread;
    pthread_mutex_init(&self->lock, NULL);
    rc = copy_conf(self, conf);
    if (rc == PFL_EINVAL)
        self->conf = (struct perfleet_source_conf){0};
    if (rc == 0)
        rc = enlist(self);
    if (rc != 0) {
        free_memory(self);
        return rc;
    }
    *ret_source = self;
    return 0;
}

void pfl_source_free(struct pfl_source *self)
{
    if (self == NULL)
        return;
    delist(self);
    free_memory(self);
}

/* --- instances --------------------------------------------------------------------------- */

int pfl_source_find_instance(const struct pfl_source *self, uint64_t id)
{
    for (uint32_t i = 0; i < PERFLEET_MAX_INSTANCES; i++) {
        if (self->instances[i].has_id && self->instances[i].id == id)
            return (int)i;
    }
    return -1;
}

static enum perfleet_policy policy_of(uint64_t value, enum perfleet_policy otherwise)
{
    switch (value) {
    case DATA_SOURCE_CONFIG__BUFFER_EXHAUSTED_DROP:
        return PERFLEET_DROP;
    case DATA_SOURCE_CONFIG__BUFFER_EXHAUSTED_STALL_THEN_ABORT:
    /* A library does not end its program. */
    case DATA_SOURCE_CONFIG__BUFFER_EXHAUSTED_STALL_THEN_DROP:
        return PERFLEET_STALL_THEN_DROP;
    default:
        return otherwise;
    }
}

static void read_config(const struct pfl_source *self, struct pfl_span config,
                        struct pfl_source_instance *instance)
{
    struct pfl_reader r = pfl_reader_of(config);
    struct pfl_field f;

    instance->policy = self->conf.policy;
    while (pfl_reader_field(&r, &f)) {
        if (f.type != PFL_WIRE_VARINT)
            continue;
        if (f.id == DATA_SOURCE_CONFIG__TARGET_BUFFER && instance->startup == NULL)
            instance->buffer = (uint16_t)f.value;
        if (f.id == DATA_SOURCE_CONFIG__BUFFER_EXHAUSTED_POLICY &&
            (self->conf.flags & PERFLEET_POLICY_BY_CONFIG) != 0)
            instance->policy = policy_of(f.value, instance->policy);
    }
}

int pfl_source_setup(struct pfl_source *self, const struct pfl_source_instance_conf *conf,
                     struct pfl_arbiter *arbiter)
{
    struct pfl_source_instance instance = {
        .state = PFL_SOURCE_INSTANCE_SET_UP,
        .has_id = conf->startup == NULL,
        .id = conf->id,
        .arbiter = arbiter,
        .startup = conf->startup,
        .buffer = conf->startup == NULL ? 0 : conf->startup->reservation,
    };
    uint32_t i = 0;

    while (i < PERFLEET_MAX_INSTANCES && self->instances[i].state != PFL_SOURCE_INSTANCE_FREE)
        i++;
    if (i == PERFLEET_MAX_INSTANCES || pfl_state_new(&self->conf, &instance.program_state) != 0)
        return -1;
    atomic_store(&self->flush_done[i], 0);
    read_config(self, conf->config, &instance);
    pfl_arbiter_ref(arbiter);
    pthread_mutex_lock(&self->lock);
    self->instances[i] = instance;
    pthread_mutex_unlock(&self->lock);
    pfl_threads_begin_life(self->slot, i);
    if (self->conf.on_setup != NULL)
        self->conf.on_setup(self->conf.user, i, conf->config.data, conf->config.len);
    return (int)i;
}

static void set_state(struct pfl_source *self, uint32_t instance,
                      enum pfl_source_instance_state state)
{
    pthread_mutex_lock(&self->lock);
    self->instances[instance].state = state;
    pthread_mutex_unlock(&self->lock);
}

void pfl_source_start(struct pfl_source *self, uint32_t instance)
{
    if (self->instances[instance].state != PFL_SOURCE_INSTANCE_SET_UP)
        return;
    set_state(self, instance, PFL_SOURCE_INSTANCE_STARTED);
    set_active(self, perfleet_active(&self->pub) | 1u << instance);
    if (self->conf.on_start != NULL)
        self->conf.on_start(self->conf.user, instance);
}

static void end_instance(struct pfl_source *self, uint32_t instance)
{
    struct pfl_source_instance ended;

    pfl_source_flush_thread();
    pthread_mutex_lock(&self->lock);
    ended = self->instances[instance];
    self->instances[instance] = (struct pfl_source_instance){0};
    pthread_mutex_unlock(&self->lock);
    pfl_threads_end_life(self->slot, instance);
    if (ended.startup != NULL)
        pfl_arbiter_resolve(ended.arbiter, ended.startup->reservation, ended.startup->buffer);
    pfl_startup_free(ended.startup);
    pfl_state_unref(ended.program_state);
    pfl_arbiter_unref(ended.arbiter);
}

bool pfl_source_stop(struct pfl_source *self, uint32_t instance)
{
    enum pfl_source_instance_state state = self->instances[instance].state;

    if (state == PFL_SOURCE_INSTANCE_FREE || state == PFL_SOURCE_INSTANCE_STOPPING)
        return false;
    set_state(self, instance, PFL_SOURCE_INSTANCE_STOPPING);
    set_active(self, perfleet_active(&self->pub) & ~(1u << instance));
    /* A perfleet_stop_done that came before this stop was meant for none, or for a past one. */
    atomic_fetch_and(&self->stop_done, ~(1u << instance));
    if (self->conf.on_stop != NULL)
        self->conf.on_stop(self->conf.user, instance);
    if ((self->conf.flags & PERFLEET_ASYNC_STOP) != 0)
        return pfl_source_finish_stop(self, instance);
    end_instance(self, instance);
    return true;
}

bool pfl_source_finish_stop(struct pfl_source *self, uint32_t instance)
{
    uint32_t bit = 1u << instance;

    if (self->instances[instance].state != PFL_SOURCE_INSTANCE_STOPPING ||
        (atomic_fetch_and(&self->stop_done, ~bit) & bit) == 0)
        return false;
    end_instance(self, instance);
    return true;
}

void pfl_source_stop_all(struct pfl_source *self)
{
    for (uint32_t i = 0; i < PERFLEET_MAX_INSTANCES; i++) {
        pfl_source_stop(self, i);
        if (self->instances[i].state != PFL_SOURCE_INSTANCE_FREE)
            end_instance(self, i);
    }
}

void pfl_source_clear_incremental(struct pfl_source *self, uint32_t instance)
{
    pfl_threads_clear_incremental(self->slot, instance);
    if (self->conf.on_clear_incremental_state != NULL)
        self->conf.on_clear_incremental_state(self->conf.user, instance);
}

/* --- flushes ------------------------------------------------------------------------------ */

static void settle(struct pfl_source *self, uint32_t instance, uint64_t *oldest)
{
    struct pfl_source_instance *at = &self->instances[instance];
    uint32_t done = atomic_exchange(&self->flush_done[instance], 0);

    done = done < at->flushes_len ? done : at->flushes_len;
    at->flushes_len -= done;
    memmove(at->flushes, at->flushes + done, at->flushes_len * sizeof(at->flushes[0]));
    if (at->flushes_len > 0 && at->flushes[0] < *oldest)
        *oldest = at->flushes[0];
}

void pfl_source_flush(struct pfl_source *self, uint32_t instance, uint64_t flush_id,
                      uint64_t flush_flags)
{
    struct pfl_source_instance *at = &self->instances[instance];
    uint64_t oldest = 0;

    if (self->conf.on_flush == NULL || at->state == PFL_SOURCE_INSTANCE_SET_UP)
        return;
    settle(self, instance, &oldest); /* flushes that were completed before this request */
    if ((self->conf.flags & PERFLEET_ASYNC_FLUSH) != 0) {
        if (at->flushes_len == PFL_SOURCE_FLUSHES_MAX)
            return; /* the program is far behind: this one goes without it */
        at->flushes[at->flushes_len++] = flush_id;
    }
    self->conf.on_flush(self->conf.user, instance, flush_flags);
}

void pfl_source_settle_flushes(struct pfl_source *self, uint64_t *oldest)
{
    for (uint32_t i = 0; i < PERFLEET_MAX_INSTANCES; i++)
        settle(self, i, oldest);
}

void *perfleet_instance_state(struct perfleet_source *source, uint32_t instance)
{
    struct pfl_source *self = (struct pfl_source *)(void *)source;
    struct pfl_state *state;

    if (instance >= PERFLEET_MAX_INSTANCES || !pthread_equal(self->thread, pthread_self()))
        return NULL;
    state = self->instances[instance].program_state;
    return state != NULL && state->session_bytes != 0 ? state->session : NULL;
}

/* --- writers of an instance -------------------------------------------------------------- */

int pfl_source_open_writer(struct pfl_source *self, uint32_t instance,
                           struct pfl_trace_writer **ret_writer)
{
    struct pfl_trace_writer_conf conf = {.instance = instance};
    const struct pfl_source_instance *from = &self->instances[instance];
    bool is_usable;
    int rc;

    pfl_reentrancy_enter();
    pthread_mutex_lock(&self->lock);
    /* While stopping the program may still write its last words. */
    is_usable =
        from->state == PFL_SOURCE_INSTANCE_STARTED || from->state == PFL_SOURCE_INSTANCE_STOPPING;
    if (is_usable) {
        conf.arbiter = from->arbiter;
        conf.buffer = from->buffer;
        conf.policy = from->policy;
        conf.state = pfl_state_ref(from->program_state);
        conf.generation = pfl_threads_generation(self->slot, instance);
        conf.clears = pfl_threads_clears(self->slot, instance);
        pfl_arbiter_ref(conf.arbiter);
    }
    pthread_mutex_unlock(&self->lock);
    pfl_reentrancy_leave();
    if (!is_usable)
        return PFL_EINVAL;
    rc = pfl_trace_writer_new(&conf, ret_writer);
    pfl_state_unref(conf.state);
    pfl_arbiter_unref(conf.arbiter);
    return rc;
}
