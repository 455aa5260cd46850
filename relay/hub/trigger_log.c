/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Triggers for other hosts: see trigger_log.h. Cannot fail. Limits: trigger_log.h's; no host can
 * displace more than PFL_TRIGGER_LOG_OF_HOST entries of others.
 */
#include "relay/hub/trigger_log.h"

#include <string.h>

static bool is_kept(const struct pfl_trigger_log_entry *r, uint64_t now_ms)
{
    return r->number != 0 && now_ms - r->taken_ms < PFL_TRIGGER_LOG_KEPT_MS;
}

static bool is_same_order(const struct pfl_trigger_log_entry *a,
                          const struct pfl_trigger_log_entry *b)
{
    return strcmp(a->operator_name, b->operator_name) == 0 && strcmp(a->session, b->session) == 0 &&
           strcmp(a->order, b->order) == 0 && strcmp(a->trigger, b->trigger) == 0;
}

static bool is_too_soon(const struct pfl_trigger_log_entry *before, uint64_t now_ms)
{
    return before->order[0] != '\0' && now_ms - before->taken_ms < PFL_TRIGGER_LOG_ORDER_MS;
}

/* May be before our clock began. */
static int64_t raised_ms(const struct pfl_trigger_log_entry *r)
{
    return (int64_t)r->taken_ms - (int64_t)r->ago_ms;
}

static struct pfl_trigger_log_entry *
find(struct pfl_trigger_log *log, const struct pfl_trigger_log_entry *raised, uint64_t now_ms)
{
    for (unsigned i = 0; i < PFL_TRIGGER_LOG_KEPT; i++) {
        if (is_kept(&log->kept[i], now_ms) && is_same_order(&log->kept[i], raised))
            return &log->kept[i];
    }
    return NULL;
}

static unsigned count_of(const struct pfl_trigger_log *log, const char *host)
{
    unsigned count = 0;

    for (unsigned i = 0; i < PFL_TRIGGER_LOG_KEPT; i++)
        count += log->kept[i].number != 0 && strcmp(log->kept[i].host, host) == 0;
    return count;
}

/* A free entry, or the one to replace: the host's own oldest, if it has its share; else the oldest
 * of the host that has most. */
static struct pfl_trigger_log_entry *make_room(struct pfl_trigger_log *log, const char *host,
                                               uint64_t now_ms)
{
    struct pfl_trigger_log_entry *found = NULL;
    unsigned most = 0;
    bool is_full;

    for (unsigned i = 0; i < PFL_TRIGGER_LOG_KEPT; i++) {
        if (!is_kept(&log->kept[i], now_ms))
            log->kept[i].number = 0;
    }
    is_full = count_of(log, host) >= PFL_TRIGGER_LOG_OF_HOST;
    for (unsigned i = 0; i < PFL_TRIGGER_LOG_KEPT; i++) {
        struct pfl_trigger_log_entry *r = &log->kept[i];
        unsigned count;

        if (is_full && strcmp(r->host, host) != 0)
            continue;
        if (!is_full && r->number == 0)
            return r;
        count = r->number != 0 ? count_of(log, r->host) : 0;
        if (count > most || (count == most && found != NULL && r->number < found->number)) {
            found = r;
            most = count;
        }
    }
    return found;
}

bool pfl_trigger_log_add(struct pfl_trigger_log *self, const struct pfl_trigger_log_entry *raised,
                         uint64_t now_ms)
{
    struct pfl_trigger_log_entry fresh = *raised;
    struct pfl_trigger_log_entry *place = find(self, raised, now_ms);

    fresh.taken_ms = now_ms;
    if (fresh.ago_ms > PFL_TRIGGER_LOG_AGO_MAX)
        fresh.ago_ms = PFL_TRIGGER_LOG_AGO_MAX;
    if (place != NULL && (raised_ms(&fresh) <= raised_ms(place) || is_too_soon(place, now_ms)))
        return false;
    if (place == NULL)
        place = make_room(self, fresh.host, now_ms);
    fresh.number = ++self->last;
    *place = fresh;
    return true;
}

const struct pfl_trigger_log_entry *pfl_trigger_log_next(const struct pfl_trigger_log *self,
                                                         uint64_t number, uint64_t now_ms)
{
    const struct pfl_trigger_log_entry *next = NULL;

    for (unsigned i = 0; i < PFL_TRIGGER_LOG_KEPT; i++) {
        const struct pfl_trigger_log_entry *r = &self->kept[i];

        if (is_kept(r, now_ms) && r->number > number && (next == NULL || r->number < next->number))
            next = r;
    }
    return next;
}

uint64_t pfl_trigger_log_get_ago_ms(const struct pfl_trigger_log_entry *self, uint64_t now_ms)
{
    return self->ago_ms + (now_ms - self->taken_ms);
}
