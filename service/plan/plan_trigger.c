/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The triggers of a plan, in the order of the config's bytes. A trigger may change the duration:
 * the last occurrence of a field wins, so the new one is appended to the config. No failures.
 */
#include "perfetto/trace_config.fields.h"
#include "service/plan/session_plan.h"

static struct pfl_plan_trigger read_trigger(struct pfl_span bytes)
{
    struct pfl_plan_trigger trigger = {0};
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == TRACE_CONFIG__TRIGGER_CONFIG__TRIGGER__NAME)
            trigger.name = f.bytes;
        else if (f.id == TRACE_CONFIG__TRIGGER_CONFIG__TRIGGER__PRODUCER_NAME_REGEX)
            trigger.producer_regex = f.bytes;
        else if (f.id == TRACE_CONFIG__TRIGGER_CONFIG__TRIGGER__STOP_DELAY_MS)
            trigger.stop_delay_ms = (uint32_t)f.value;
        else if (f.id == TRACE_CONFIG__TRIGGER_CONFIG__TRIGGER__MAX_PER_24_H)
            trigger.max_per_24_h = (uint32_t)f.value;
        else if (f.id == TRACE_CONFIG__TRIGGER_CONFIG__TRIGGER__SKIP_PROBABILITY &&
                 f.type == PFL_WIRE_FIXED64)
            memcpy(&trigger.skip_probability, &f.value, sizeof(trigger.skip_probability));
    }
    return trigger;
}

bool pfl_plan_triggers_next(struct pfl_plan_triggers *walk, struct pfl_plan_trigger *ret_trigger)
{
    struct pfl_field f;

    do {
        while (pfl_reader_field(&walk->triggers, &f)) {
            if (f.id != TRACE_CONFIG__TRIGGER_CONFIG__TRIGGERS)
                continue;
            *ret_trigger = read_trigger(f.bytes);
            return true;
        }
        if (!pfl_reader_field(&walk->config, &f))
            return false;
        if (f.id == TRACE_CONFIG__TRIGGER_CONFIG && f.type == PFL_WIRE_BYTES)
            walk->triggers = pfl_reader_of(f.bytes);
    } while (true);
}

static void append_duration(uint8_t *bytes, size_t *len, uint32_t duration_ms)
{
    bytes[*len] = TRACE_CONFIG__DURATION_MS << 3 | PFL_WIRE_VARINT;
    *len += 1 + pfl_varint_put(bytes + *len + 1, duration_ms);
}

void pfl_session_plan_set_duration(struct pfl_session_plan *self, uint32_t duration_ms)
{
    if (self->durations_set >= PFL_PLAN_DURATIONS_MAX)
        return;
    self->durations_set++;
    self->duration_ms = duration_ms;
    append_duration(self->bytes, &self->config.len, duration_ms);
    if (self->changed_bytes != NULL)
        append_duration(self->changed_bytes, &self->changed.len, duration_ms);
}
