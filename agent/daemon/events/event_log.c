/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines for relays: see event_log.h. Happy path: add, get, release. Failures: a full log, a line
 * that is too long and no memory count as a loss alike. Ownership: the lines.
 */
#include "agent/daemon/events/event_log.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

void pfl_event_log_init(struct pfl_event_log *self)
{
    memset(self, 0, sizeof(*self));
}

static void drop(struct pfl_event_log *j, uint64_t number)
{
    for (; j->first < number && j->first < j->next; j->first++) {
        char **line = &j->lines[j->first % PFL_EVENT_LOG_LINES];

        pfl_mem_free(*line);
        *line = NULL;
    }
}

void pfl_event_log_fini(struct pfl_event_log *self)
{
    drop(self, self->next);
}

bool pfl_event_log_is_full(const struct pfl_event_log *self, bool is_urgent)
{
    return self->next - self->first >= PFL_EVENT_LOG_LINES - (is_urgent ? 0 : PFL_EVENT_LOG_URGENT);
}

static bool keep(struct pfl_event_log *j, const char *json, bool is_urgent)
{
    size_t len = strlen(json);
    char *line;

    if (pfl_event_log_is_full(j, is_urgent) || len > PFL_EVENT_LOG_LINE_BYTES)
        return false;
    line = pfl_mem_alloc(len + 2);
    if (line == NULL)
        return false;
    memcpy(line, json, len + 1);
    line[len] = '\n';
    line[len + 1] = '\0';
    j->lines[j->next++ % PFL_EVENT_LOG_LINES] = line;
    return true;
}

static void tell_lost(struct pfl_event_log *j)
{
    char line[64];

    if (j->lost == 0)
        return;
    (void)snprintf(line, sizeof(line), "{\"kind\":\"lost\",\"count\":%llu}",
                   (unsigned long long)j->lost);
    if (keep(j, line, false))
        j->lost = 0;
}

/* An urgent line does not wait for the line with the number of lost ones. */
void pfl_event_log_add(struct pfl_event_log *self, const char *json, bool is_urgent)
{
    tell_lost(self);
    if ((self->lost != 0 && !is_urgent) || !keep(self, json, is_urgent))
        self->lost++;
}

void pfl_event_log_count_lost(struct pfl_event_log *self, uint64_t count)
{
    self->lost += count;
    tell_lost(self);
}

struct pfl_span pfl_event_log_get(const struct pfl_event_log *self, uint64_t number)
{
    const char *line;

    if (number < self->first || number >= self->next)
        return pfl_span_of(NULL, 0);
    line = self->lines[number % PFL_EVENT_LOG_LINES];
    return pfl_span_of(line, strlen(line));
}

void pfl_event_log_release(struct pfl_event_log *self, uint64_t number)
{
    drop(self, number);
    tell_lost(self);
}
