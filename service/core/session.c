/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session object.
 *
 * Made from a checked plan with all its buffers, which cost memory only as they fill. It lives in
 * the service until its consumer frees it or disconnects. Owns plan, buffers, instances, events.
 * Failures: PFL_ENOMEM, PFL_ELIMIT (instances); then nothing changed.
 */
#include "service/core/session.h"

#include <assert.h>

#include "base/mem.h"

static int make_buffers(struct pfl_session *s, const struct pfl_hash_key *hash_key,
                        struct pfl_shares *charged)
{
    s->buffers = pfl_mem_calloc(s->plan->buffers_len + 1, sizeof(s->buffers[0]));
    if (s->buffers == NULL)
        return PFL_ENOMEM;
    for (size_t i = 0; i < s->plan->buffers_len; i++) {
        struct pfl_trace_buffer_conf conf = {
            .size_bytes = (uint64_t)s->plan->buffers[i].size_kb * 1024,
            .fill_policy = s->plan->buffers[i].fill_policy,
            .hash_key = *hash_key,
            .charged = charged,
        };
        int rc = pfl_trace_buffer_new(&conf, &s->buffers[i].ring);

        if (rc != 0)
            return rc;
    }
    return 0;
}

static void free_buffers(struct pfl_session *s)
{
    for (size_t i = 0; s->buffers != NULL && i < s->plan->buffers_len; i++)
        pfl_trace_buffer_free(s->buffers[i].ring);
    pfl_mem_free(s->buffers);
    s->buffers = NULL;
}

int pfl_session_new(struct pfl_session_plan *plan, const struct pfl_hash_key *hash_key,
                    struct pfl_shares *charged, struct pfl_session **ret_session)
{
    struct pfl_session *s = pfl_mem_zalloc(sizeof(*s));
    int rc;

    if (s == NULL)
        return PFL_ENOMEM;
    pfl_list_init(&s->instances);
    pfl_concurrent_init(&s->concurrent);
    s->plan = plan;
    s->instance_shares.max = PFL_SESSION_MAX_INSTANCES;
    s->pending.is_first_pass = true;
    s->timers =
        (struct pfl_session_timers){PFL_SESSION_NEVER, PFL_SESSION_NEVER, PFL_SESSION_NEVER,
                                    PFL_SESSION_NEVER, PFL_SESSION_NEVER, PFL_SESSION_NEVER};
    pfl_sequence_ids_init(&s->sequences, hash_key, NULL);
    rc = make_buffers(s, hash_key, charged);
    if (rc != 0) {
        free_buffers(s);
        s->plan = NULL; /* still the caller's */
        pfl_session_free(s);
        return rc;
    }
    *ret_session = s;
    return 0;
}

static void free_instance(struct pfl_instance *instance)
{
    pfl_list_remove(&instance->of_session);
    pfl_list_remove(&instance->of_producer);
    pfl_list_remove(&instance->of_id);
    pfl_shares_give(&instance->session->instance_shares, instance->who, 1);
    pfl_mem_free(instance);
}

void pfl_session_free(struct pfl_session *self)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    if (self == NULL)
        return;
    PFL_LIST_EACH_SAFE (it, tmp, &self->instances) {
        free_instance(PFL_CONTAINER_OF(it, struct pfl_instance, of_session));
    }
    assert(self->file == NULL);
    pfl_copy_job_end(&self->scrape.copy);
    free_buffers(self);
    pfl_trigger_list_fini(&self->triggers);
    pfl_pipeline_job_free(self->output);
    pfl_session_events_fini(&self->events);
    pfl_concurrent_fini(&self->concurrent);
    pfl_mem_free(self->detach_key);
    pfl_mem_free(self->clone_trigger);
    pfl_sequence_ids_fini(&self->sequences);
    pfl_session_plan_free(self->plan);
    pfl_mem_free(self);
}

/* Inserts after the last instance whose producer's id is not larger. */
static void insert_instance(struct pfl_session *self, struct pfl_instance *instance)
{
    struct pfl_list *before = self->instances.prev;

    while (before != &self->instances) {
        const struct pfl_instance *other =
            PFL_CONTAINER_OF(before, struct pfl_instance, of_session);

        if (other->producer == NULL || other->producer->id <= instance->producer->id)
            break;
        before = before->prev;
    }
    pfl_list_append(before->next, &instance->of_session);
}

bool pfl_session_has_room_for(const struct pfl_session *self, const struct pfl_producer *producer)
{
    return pfl_shares_has_room(&self->instance_shares, producer->who, 1);
}

int pfl_session_add_instance(struct pfl_session *self, struct pfl_producer *producer,
                             const struct pfl_data_source *source, size_t plan_source,
                             struct pfl_instance **ret_instance)
{
    struct pfl_instance *instance;

    if (!pfl_shares_take(&self->instance_shares, producer->who, 1))
        return PFL_ELIMIT;
    instance = pfl_mem_zalloc(sizeof(*instance));
    if (instance == NULL) {
        pfl_shares_give(&self->instance_shares, producer->who, 1);
        return PFL_ENOMEM;
    }
    instance->who = producer->who;
    instance->producer_name = producer->name;
    instance->session = self;
    instance->producer = producer;
    instance->source = plan_source;
    instance->flags = source->info.flags;
    instance->state = PFL_INSTANCE_CONFIGURED;
    self->instances_in[PFL_INSTANCE_CONFIGURED]++;
    insert_instance(self, instance);
    pfl_list_append(&producer->instances, &instance->of_producer);
    self->instances_len++;
    *ret_instance = instance;
    return 0;
}

void pfl_session_remove_instance(struct pfl_session *self, struct pfl_instance *instance)
{
    self->instances_len--;
    self->instances_in[instance->state]--;
    free_instance(instance);
}

void pfl_session_move_instance(struct pfl_session *self, struct pfl_instance *instance,
                               enum pfl_instance_state to)
{
    self->instances_in[instance->state]--;
    pfl_instance_state_move(&instance->state, to);
    self->instances_in[to]++;
    pfl_session_tell_instance(self, instance);
}

void pfl_session_tell_instance(struct pfl_session *self, const struct pfl_instance *instance)
{
    struct pfl_consumer *consumer = self->consumer;

    pfl_observe_instance(&consumer->observe, instance, pfl_session_source_of(self, instance)->name);
    if (pfl_observe_has_events(&consumer->observe))
        consumer->ops->on_observed(consumer->port);
}

bool pfl_session_are_all(const struct pfl_session *self, enum pfl_instance_state state)
{
    return self->instances_in[state] == self->instances_len;
}

struct pfl_trace_buffer *pfl_session_get_buffer(const struct pfl_session *self, uint16_t id)
{
    for (size_t i = 0; i < self->plan->buffers_len; i++) {
        if (self->buffers[i].id == id)
            return self->buffers[i].ring;
    }
    return NULL;
}
