/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The figures of a relay over the last hour: see fleet_history.h. A ring of samples. A rate is the
 * difference of two samples that follow each other; of a relay that was started again, whose
 * counters begin at 0, it is not known.
 */
#include "consumer/web/fleet/fleet_history.h"

#include <math.h>

void pfl_fleet_history_add(struct pfl_fleet_history *self, uint64_t at_ms,
                           const struct pfl_relay_facts *facts)
{
    struct pfl_fleet_sample sample = {.at_ms = at_ms, .is_known = facts != NULL};

    if (facts != NULL) {
        sample.up_ms = facts->up_ms;
        sample.cpu_ms = facts->cpu_ms;
        sample.bytes_to_host = facts->bytes_to_host;
        sample.bytes_to_operator = facts->bytes_to_operator;
        sample.streams = facts->streams;
        sample.hosts_connected = facts->hosts_connected;
    }
    if (self->len == PFL_FLEET_HISTORY_LEN) {
        self->first = (self->first + 1) % PFL_FLEET_HISTORY_LEN;
        self->len--;
    }
    self->samples[(self->first + self->len++) % PFL_FLEET_HISTORY_LEN] = sample;
}

static const struct pfl_fleet_sample *get_sample(const struct pfl_fleet_history *h, size_t i)
{
    return &h->samples[(h->first + i) % PFL_FLEET_HISTORY_LEN];
}

/* `before` is the sample before, or NULL. */
static double get_rate(const struct pfl_fleet_sample *s, const struct pfl_fleet_sample *before,
                       enum pfl_fleet_series series)
{
    uint64_t now = s->bytes_to_operator;
    uint64_t then;

    if (before == NULL || !before->is_known || s->up_ms < before->up_ms ||
        s->at_ms <= before->at_ms)
        return NAN;
    then = before->bytes_to_operator;
    if (series == PFL_FLEET_TO_HOST) {
        now = s->bytes_to_host;
        then = before->bytes_to_host;
    } else if (series == PFL_FLEET_CPU) {
        now = s->cpu_ms;
        then = before->cpu_ms;
    }
    if (now < then)
        return NAN;
    return (double)(now - then) * (series == PFL_FLEET_CPU ? 1 : 1000) /
           (double)(s->at_ms - before->at_ms);
}

static double get_value(const struct pfl_fleet_sample *s, const struct pfl_fleet_sample *before,
                        enum pfl_fleet_series series)
{
    if (!s->is_known)
        return NAN;
    if (series == PFL_FLEET_STREAMS)
        return (double)s->streams;
    if (series == PFL_FLEET_HOSTS)
        return (double)s->hosts_connected;
    return get_rate(s, before, series);
}

size_t pfl_fleet_history_get(const struct pfl_fleet_history *self, enum pfl_fleet_series series,
                             double ret_values[PFL_FLEET_HISTORY_LEN])
{
    for (size_t i = 0; i < self->len; i++)
        ret_values[i] =
            get_value(get_sample(self, i), i != 0 ? get_sample(self, i - 1) : NULL, series);
    return self->len;
}

uint64_t pfl_fleet_history_get_span_ms(const struct pfl_fleet_history *self)
{
    return self->len > 1 ? get_sample(self, self->len - 1)->at_ms - get_sample(self, 0)->at_ms : 0;
}
