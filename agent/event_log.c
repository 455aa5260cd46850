/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines for relays: see event_log.h. Happy path: add, get, release. Failures: a full log, a line
 * that is too long and no memory are all the same loss, which is counted. Ownership: the lines.
 */
#include "agent/event_log.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

void pfl_event_log_init(struct pfl_event_log *self)
{
    memset(self, 0, sizeof(*self));
}

void pfl_event_log_fini(struct pfl_event_log *self)
{
    pfl_event_log_release(self, self->next);
}

static bool keep(struct pfl_event_log *j, const char *json)
{
    size_t len = strlen(json);
    char *line;

    if (j->next - j->first == PFL_EVENT_LOG_LINES || len > PFL_EVENT_LOG_LINE_BYTES)
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

    (void)snprintf(line, sizeof(line), "{\"kind\":\"lost\",\"count\":%llu}",
                   (unsigned long long)j->lost);
    if (keep(j, line))
        j->lost = 0;
}

void pfl_event_log_add(struct pfl_event_log *self, const char *json)
{
    if (self->lost != 0)
        tell_lost(self);
    if (self->lost != 0 || !keep(self, json))
        self->lost++;
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
    for (; self->first < number && self->first < self->next; self->first++) {
        char **line = &self->lines[self->first % PFL_EVENT_LOG_LINES];

        pfl_mem_free(*line);
        *line = NULL;
    }
}
