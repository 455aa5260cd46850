/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Triggers for hosts that are yet to hear of them: see raised.h. Cannot fail. Limits: raised.h's;
 * no host can push out more than PFL_RAISED_OF_HOST of what others told.
 */
#include "relay/hub/raised.h"

#include <string.h>

static bool is_kept(const struct pfl_raised *r, uint64_t now_ms)
{
    return r->number != 0 && now_ms - r->taken_ms < PFL_RAISED_KEPT_MS;
}

static bool is_same_order(const struct pfl_raised *a, const struct pfl_raised *b)
{
    return strcmp(a->operator_name, b->operator_name) == 0 && strcmp(a->session, b->session) == 0 &&
           strcmp(a->trigger, b->trigger) == 0;
}

/* May be before our clock began. */
static int64_t raised_ms(const struct pfl_raised *r)
{
    return (int64_t)r->taken_ms - (int64_t)r->ago_ms;
}

static struct pfl_raised *find(struct pfl_raised_log *log, const struct pfl_raised *raised,
                               uint64_t now_ms)
{
    for (unsigned i = 0; i < PFL_RAISED_KEPT; i++) {
        if (is_kept(&log->kept[i], now_ms) && is_same_order(&log->kept[i], raised))
            return &log->kept[i];
    }
    return NULL;
}

static struct pfl_raised *older_of(struct pfl_raised *a, struct pfl_raised *b)
{
    return a == NULL || b->number < a->number ? b : a;
}

/* A free place, or the one that gives way. */
static struct pfl_raised *make_room(struct pfl_raised_log *log, const char *host, uint64_t now_ms)
{
    struct pfl_raised *oldest = NULL;
    struct pfl_raised *own = NULL;
    unsigned own_len = 0;

    for (unsigned i = 0; i < PFL_RAISED_KEPT; i++) {
        struct pfl_raised *r = &log->kept[i];

        if (!is_kept(r, now_ms))
            r->number = 0;
        oldest = older_of(oldest, r);
        if (r->number == 0 || strcmp(r->host, host) != 0)
            continue;
        own = older_of(own, r);
        own_len++;
    }
    return own_len >= PFL_RAISED_OF_HOST ? own : oldest;
}

bool pfl_raised_add(struct pfl_raised_log *self, const struct pfl_raised *raised, uint64_t now_ms)
{
    struct pfl_raised fresh = *raised;
    struct pfl_raised *place = find(self, raised, now_ms);

    fresh.taken_ms = now_ms;
    if (fresh.ago_ms > PFL_RAISED_AGO_MAX)
        fresh.ago_ms = PFL_RAISED_AGO_MAX;
    if (place != NULL && raised_ms(&fresh) <= raised_ms(place))
        return false;
    if (place == NULL)
        place = make_room(self, fresh.host, now_ms);
    fresh.number = ++self->last;
    *place = fresh;
    return true;
}

const struct pfl_raised *pfl_raised_next(const struct pfl_raised_log *self, uint64_t number,
                                         uint64_t now_ms)
{
    const struct pfl_raised *next = NULL;

    for (unsigned i = 0; i < PFL_RAISED_KEPT; i++) {
        const struct pfl_raised *r = &self->kept[i];

        if (is_kept(r, now_ms) && r->number > number && (next == NULL || r->number < next->number))
            next = r;
    }
    return next;
}

uint64_t pfl_raised_get_ago_ms(const struct pfl_raised *self, uint64_t now_ms)
{
    return self->ago_ms + (now_ms - self->taken_ms);
}
