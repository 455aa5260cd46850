/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Coalescing of observable events.
 *
 * Instance changes append to the message as they come; all_data_sources_started is added once when
 * the message is taken. CONFIGURED and STOPPED are reported as stopped, STARTED as started, no
 * other state. Limit: one message's bytes; events that do not fit, or for which there is no memory,
 * are left out.
 */
#include "service/core/observe.h"

#include "perfetto/service_state.fields.h"

void pfl_observe_init(struct pfl_observe *self)
{
    *self = (struct pfl_observe){0};
    pfl_buf_init(&self->events, PFL_OBSERVE_MAX_BYTES);
}

void pfl_observe_fini(struct pfl_observe *self)
{
    pfl_buf_fini(&self->events);
}

/* Removes a message whose encoding failed half-way. */
static void cut(struct pfl_buf *buf, size_t len)
{
    buf->len = len;
}

void pfl_observe_instance(struct pfl_observe *self, const struct pfl_instance *instance,
                          struct pfl_span source_name)
{
    struct pfl_message m = pfl_message_of(&self->events);
    size_t before = self->events.len;
    unsigned state;
    size_t change;

    if ((self->mask & PFL_OBSERVE_INSTANCES) == 0)
        return;
    if (instance->state == PFL_INSTANCE_CONFIGURED || instance->state == PFL_INSTANCE_STOPPED)
        state = OBSERVABLE_EVENTS__DATA_SOURCE_INSTANCE_STATE_STOPPED;
    else if (instance->state == PFL_INSTANCE_STARTED)
        state = OBSERVABLE_EVENTS__DATA_SOURCE_INSTANCE_STATE_STARTED;
    else
        return;
    change = pfl_message_begin(&m, OBSERVABLE_EVENTS__INSTANCE_STATE_CHANGES);
    pfl_message_str(&m, OBSERVABLE_EVENTS__DATA_SOURCE_INSTANCE_STATE_CHANGE__PRODUCER_NAME,
                    instance->producer_name);
    pfl_message_bytes(&m, OBSERVABLE_EVENTS__DATA_SOURCE_INSTANCE_STATE_CHANGE__DATA_SOURCE_NAME,
                      source_name);
    pfl_message_varint(&m, OBSERVABLE_EVENTS__DATA_SOURCE_INSTANCE_STATE_CHANGE__STATE, state);
    pfl_message_end(&m, change);
    if (m.rc != 0)
        cut(&self->events, before);
}

void pfl_observe_all_started(struct pfl_observe *self)
{
    if ((self->mask & PFL_OBSERVE_ALL_STARTED) != 0)
        self->is_all_started = true;
}

void pfl_observe_clone_hit(struct pfl_observe *self, const struct pfl_observe_clone_hit *hit)
{
    struct pfl_message m = pfl_message_of(&self->events);
    size_t before = self->events.len;
    size_t mark;

    if ((self->mask & PFL_OBSERVE_CLONE_TRIGGER) == 0)
        return;
    mark = pfl_message_begin(&m, OBSERVABLE_EVENTS__CLONE_TRIGGER_HIT);
    pfl_message_varint(&m, OBSERVABLE_EVENTS__CLONE_TRIGGER_HIT__TRACING_SESSION_ID,
                       hit->session_id);
    pfl_message_bytes(&m, OBSERVABLE_EVENTS__CLONE_TRIGGER_HIT__TRIGGER_NAME, hit->trigger_name);
    pfl_message_bytes(&m, OBSERVABLE_EVENTS__CLONE_TRIGGER_HIT__PRODUCER_NAME, hit->producer_name);
    pfl_message_varint(&m, OBSERVABLE_EVENTS__CLONE_TRIGGER_HIT__PRODUCER_UID, hit->producer_uid);
    pfl_message_varint(&m, OBSERVABLE_EVENTS__CLONE_TRIGGER_HIT__BOOT_TIME_NS, hit->boottime_ns);
    pfl_message_varint(&m, OBSERVABLE_EVENTS__CLONE_TRIGGER_HIT__TRIGGER_DELAY_MS, hit->delay_ms);
    pfl_message_end(&m, mark);
    if (m.rc != 0)
        cut(&self->events, before);
}

bool pfl_observe_has_events(const struct pfl_observe *self)
{
    return self->is_all_started || self->events.len != 0;
}

struct pfl_span pfl_observe_get(struct pfl_observe *self)
{
    struct pfl_message m = pfl_message_of(&self->events);
    size_t before = self->events.len;

    if (self->is_all_started)
        pfl_message_varint(&m, OBSERVABLE_EVENTS__ALL_DATA_SOURCES_STARTED, 1);
    self->is_all_started = false;
    if (m.rc != 0)
        cut(&self->events, before);
    return pfl_buf_get(&self->events);
}

void pfl_observe_clear(struct pfl_observe *self)
{
    pfl_buf_clear(&self->events);
    self->is_all_started = false;
}
